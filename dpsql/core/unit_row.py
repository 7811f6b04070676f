"""One row a unit: a tree of tables as one flat domain, in which a unit is a row, so that every sensitivity is 1.

    row of a unit   =  its columns | numbers of children | first child | second child | first child of the first child …
    slot            =  the columns and numbers of children of one row of the unit; a further code where there is none
    first, second   =  the rows of a parent in the order of a digest of what they hold (`engines.duckdb.unit_rows`)

Below a first child its own children have slots too, below a second one they have none. Which rows a slot holds depends
on the unit's rows alone. So adding or removing a unit, with all its rows in all tables, adds or removes one row here
and changes no other: counts of all cells of a clique change by at most 1 together, however many rows the unit has.

Of a table with a privacy unit the row of a unit has no columns of its own. Every unit has a first child there.

Values only: nothing here reads a catalogue or a row.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from dpsql.core.constraint import Allowed
from dpsql.core.domain import Attribute, Domain
from dpsql.core.names import fold
from dpsql.core.tree import UNITS, Link, Tree
from dpsql.core.workload import Workload

MOST_SLOTS: Final = 2
"""Children of one row that have a slot: two, because a pair shows how siblings are alike."""


@dataclass(frozen=True)
class Slot:
    """The columns of one row of a unit.

    Attributes:
        table: whose row it is.
        nth: which child of the row in `above` it is, from 0 on.
        above: the place of the slot of its parent's row among all slots; None of the root's.
        names: in the flat domain, of the table's columns and then of the numbers of its children.
        sure: whether every unit has it.
    """

    table: str
    nth: int
    above: int | None
    names: tuple[str, ...]
    sure: bool


@dataclass(frozen=True)
class UnitRow:
    """The flat domain of a tree, and which of its columns stand for which row of a unit.

    Attributes:
        tree: the tables.
        members: the domain of each, and of `UNITS` the empty one; columns of keys are excluded there.
    """

    tree: Tree
    members: Mapping[str, Domain]

    def extended(self, table: str) -> Domain:
        """The domain of a table with the numbers of its children, under the names of those tables."""
        taken = {fold(name) for name in self.members[table].names}
        numbers = []
        for link in self.tree.children(table):
            numbers.append(number_of_children(link, _free(f"{link.child}.number", taken)))
        return Domain((*self.members[table], *numbers))

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """The root's first; a parent's before those of its children."""
        slots: list[Slot] = []
        taken: set[str] = set()
        if self.tree.root == UNITS:  # so that no column of units is taken for one of the table
            taken |= {fold(name) for table in self.tree.tables for name in self.members[table].names}

        def add(table: str, nth: int, above: int | None) -> None:
            prefix = "" if above is None else f"{table}[{nth + 1}]."
            names = tuple(_free(prefix + name, taken) for name in self.extended(table).names)
            place = len(slots)
            sure = above is None or (nth == 0 and slots[above].table == UNITS)
            slots.append(Slot(table, nth, above, names, sure))
            if nth == 0:
                for link in self.tree.children(table):
                    for number in range(min(MOST_SLOTS, link.most)):
                        add(link.child, number, place)

        add(self.tree.root, 0, None)
        return tuple(slots)

    @cached_property
    def domain(self) -> Domain:
        """The columns of all slots; those that not every unit has have a code for no row."""
        attributes: list[Attribute] = []
        for slot in self.slots:
            own = self.extended(slot.table).attributes
            attributes += [replace(a, name=n, absent=not slot.sure) for a, n in zip(own, slot.names, strict=True)]
        return Domain(tuple(attributes))

    @cached_property
    def places(self) -> tuple[slice, ...]:
        """Where the columns of each slot are in the flat domain."""
        ends = list(itertools.accumulate(len(slot.names) for slot in self.slots))
        return tuple(slice(end - len(slot.names), end) for slot, end in zip(self.slots, ends, strict=True))

    def slot_of(self, table: str, nth: int) -> int | None:
        """The place of the slot of a table's nth row below first rows; None where there is none."""
        return next((p for p, slot in enumerate(self.slots) if (slot.table, slot.nth) == (table, nth)), None)

    def number(self, slot: int, child: str) -> str:
        """The name of the column that says how many rows of a table a slot's row has."""
        table = self.slots[slot].table
        children = [link.child for link in self.tree.children(table)]
        return self.slots[slot].names[len(self.members[table]) + children.index(child)]

    @property
    def numbers(self) -> tuple[str, ...]:
        """The names of all numbers of children in the flat domain."""
        return tuple(name for slot in self.slots for name in slot.names[len(self.members[slot.table]) :])

    @cached_property
    def column_of(self) -> dict[str, tuple[str, str]]:
        """The table and column that each column of the flat domain stands for; numbers of children stand for none."""
        found: dict[str, tuple[str, str]] = {}
        for slot in self.slots:
            own = self.members[slot.table].names
            found |= {name: (slot.table, column) for name, column in zip(slot.names, own, strict=False)}
        return found

    def workload(self) -> Workload:
        """All pairs of columns: of one row, of rows above each other, of two siblings, and of two branches."""
        pairs = tuple(itertools.combinations(self.domain.names, 2))
        return Workload(pairs or tuple((name,) for name in self.domain.names)).ordered()

    def allowed(self, table: str, parts: Sequence[Allowed]) -> list[Allowed]:
        """What is allowed of the rows of a table, of each of its slots; no row is allowed, too."""
        found = []
        for slot, place in zip(self.slots, self.places, strict=True):
            if slot.table != table:
                continue
            names = dict(zip(self.extended(table).names, slot.names, strict=True))
            attributes = {a.name: a for a in self.domain.attributes[place]}
            for part in parts:
                clique = tuple(names[name] for name in part.clique)
                none = np.array([attributes[name].absent_code or 0 for name in clique])
                codes, places, columns = part.codes, part.places, tuple(names.get(n, n) for n in part.columns)
                if not slot.sure and clique:
                    codes = np.concatenate([codes + (codes >= none), none[None]])
                    places = np.concatenate([places, np.zeros((1, len(clique)))])
                    order = np.lexsort(codes.T[::-1])
                    codes, places = codes[order], places[order]
                found.append(Allowed(clique, columns, part.predicates, codes, places))
        return found

    def to_json(self) -> dict[str, Any]:
        """For the canonical request: all but the domains of the columns."""
        links = [[link.child, link.parent, link.key, link.references, link.most] for link in self.tree.links]
        columns = {table: [a.name for a in domain] for table, domain in self.members.items()}
        return {"root": self.tree.root, "links": links, "columns": columns}

    @staticmethod
    def from_json(data: Mapping[str, Any], flat: Domain) -> UnitRow:
        """The tree of a release and the domains of its members, as far as those are in the flat domain."""
        links = tuple(Link(c, p, tuple(key), tuple(refs), most) for c, p, key, refs, most in data["links"])
        tree = Tree(data["root"], links)
        attributes, members = iter(flat), {}
        names: Mapping[str, list[str]] = data["columns"]
        shape = UnitRow(tree, {t: Domain(tuple(_stand_in(n) for n in names[t])) for t in names})
        for slot in shape.slots:
            own = [next(attributes) for _ in slot.names][: len(names[slot.table])]
            inner = zip(own, names[slot.table], strict=True)
            members[slot.table] = Domain(tuple(replace(a, name=n, absent=False) for a, n in inner))
        return UnitRow(tree, members)


def number_of_children(link: Link, name: str) -> Attribute:
    """The column that says how many rows of a table a row above has, in bins.

    >>> number_of_children(Link("visits", "patients", ("pid",), ("pid",), most=7), "n").labels()
    ['0', '1', '2', '3', '4', '[5, 7)', '7']
    """
    ticks = (*link.starts, link.most + 1)
    edges = (*map(str, link.starts), str(link.most))
    return Attribute(name, "BIGINT", "bins", ticks=ticks, edges=edges)


def _stand_in(name: str) -> Attribute:
    return Attribute(name, "BOOLEAN", "values", ("false", "true"))


def _free(name: str, taken: set[str]) -> str:
    """A name that is not taken, which it is from now on."""
    while fold(name) in taken:
        name = f"{name}_"
    taken.add(fold(name))
    return name
