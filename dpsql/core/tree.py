"""A tree of tables: the root's rows are the privacy units, and every row below has one parent row, so one unit.

    path(t)   =  the links from the root to t
    u(x)      =  the row of the root that the keys of x lead to; rows whose key is NULL or leads nowhere have none
    bins      =  0 | 1 | 2 | 3 | 4 | 5–6 | 7–9 | 10–13 | … | most and above          (of numbers of children)

A table with a privacy unit is a tree, too. Its root has no columns and is stored nowhere: its rows are the units, each
with one row of the table at least.

    bins      =  1 | 2 | … | 16 | 17–34 | 35–70 | 71–142 | … | most and above        (of numbers of a unit's rows)

Values only: nothing here reads a catalogue or a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from dpsql.core.names import fold
from dpsql.errors import InvalidArgument

MOST_CHILDREN: Final = 100
"""The number from which on children of a row share the last bin, where the owner says nothing."""
UNITS: Final = ""
"""The root whose rows are the units of a table with a privacy unit: what no table is called."""
_SINGLE: Final = 5  # numbers below have a bin each
MOST_OF_UNIT: Final = 1000
"""The number from which on rows of a privacy unit share the last bin, unless more of them count."""
SINGLE_OF_UNIT: Final = 17  # a panel has as many rows of each unit, which a wider bin would blur
_WIDER_OF_UNIT: Final = 2  # logs and stays have units of very many rows
_WIDER: Final = 4 / 3  # the first number of the next bin, as a part of that of the bin before


@dataclass(frozen=True)
class Role:
    """What one row of a parent row's children is, and no other: the head of a household, a spouse.

    Attributes:
        name: what its owner calls it.
        where: SQL over the child's columns, TRUE of the rows that can have it.
        always: each parent row has such a row; else one at most.
    """

    name: str
    where: str
    always: bool

    def __str__(self) -> str:
        """In words, for people."""
        return f"{'one' if self.always else 'at most one'} {self.name}: {self.where}"


@dataclass(frozen=True)
class Link:
    """A table whose rows belong to rows of another one.

    Attributes:
        child, parent: what the books call the tables, see `Source.key`.
        key: the child's columns that name the parent's row.
        references: the parent's columns that they name, in the same order.
        most: from so many children on, numbers share the last bin. Rows with a role are not among them.
        roles: of the child's rows.
        ordered_by: the child's column by which rows of one parent row follow each other; empty where none is said.

    >>> Link("visits", "patients", ("pid",), ("pid",), most=10).starts
    (0, 1, 2, 3, 4, 5, 7, 10)
    >>> Link("wages", UNITS, ("nr",), ("nr",), most=20).starts[-3:]
    (16, 17, 20)
    >>> Link("wages", UNITS, ("nr",), ("nr",), most=1000).starts[-7:]
    (17, 35, 71, 143, 287, 575, 1000)
    """

    child: str
    parent: str
    key: tuple[str, ...]
    references: tuple[str, ...]
    most: int = MOST_CHILDREN
    roles: tuple[Role, ...] = ()
    ordered_by: str = ""

    def __post_init__(self) -> None:
        """Check what is declared."""
        if not self.key or len(self.key) != len(self.references):
            raise InvalidArgument(
                f"key has {len(self.key)} columns and references has {len(self.references)}: give as many of each"
            )
        if self.most < 1:
            raise InvalidArgument(f"most is {self.most}: give 1 where each row has one child at most, or more")
        if self.ordered_by and (self.roles or self.most == 1):
            why = "has roles, of which each has a place of its own" if self.roles else "has one row for each row above"
            raise InvalidArgument(f"ordered_by is {self.ordered_by!r}, but the link {why}: leave ordered_by out")
        names = [fold(role.name) for role in self.roles]
        for role in self.roles:
            if not role.name.strip() or names.count(fold(role.name)) > 1:
                raise InvalidArgument(f"role {role.name!r}: give each role one name of its own")

    @property
    def most_rows(self) -> int:
        """How many synthetic rows a row of the parent has at most."""
        return self.most + len(self.roles)

    @property
    def starts(self) -> tuple[int, ...]:
        """The least number of children in each bin; the last bin is open at the top."""
        starts, start, single, wider = [], 0, _SINGLE, _WIDER
        if self.parent == UNITS:
            start, single, wider = 1, SINGLE_OF_UNIT, _WIDER_OF_UNIT
        while start < self.most:
            starts.append(start)
            start = start + 1 if start < single else int(start * wider + 1)
        return (*starts, self.most)


@dataclass(frozen=True)
class Tree:
    """The tables of one account.

    Attributes:
        root: the table whose rows are the units; `UNITS` where they are those of a privacy unit.
        links: of the tables below, a parent's before those of its children.

    >>> down = (Link("visits", "patients", ("pid",), ("pid",)), Link("labs", "visits", ("vid",), ("vid",)))
    >>> [link.child for link in Tree("patients", down).path("labs")]
    ['visits', 'labs']
    """

    root: str
    links: tuple[Link, ...] = ()

    def __post_init__(self) -> None:
        """Check that it is one."""
        members = {self.root}
        for link in self.links:
            if link.parent not in members or link.child in members:
                raise InvalidArgument(
                    f"{link.child} below {link.parent} makes no tree: a table has one way to the root"
                )
            members.add(link.child)

    @cached_property
    def link_of(self) -> dict[str, Link]:
        """The link of each table below the root."""
        return {link.child: link for link in self.links}

    @property
    def tables(self) -> tuple[str, ...]:
        """All members that are stored, the root first, a parent before its children."""
        below = tuple(link.child for link in self.links)
        return below if self.root == UNITS else (self.root, *below)

    def children(self, table: str) -> Iterator[Link]:
        """The links of the tables right below one."""
        return (link for link in self.links if link.parent == table)

    def path(self, table: str) -> tuple[Link, ...]:
        """The links from the root to a table; none of the root itself."""
        if table == self.root:
            return ()
        link = self.link_of[table]
        return (*self.path(link.parent), link)
