"""The tables of a linked release as values: pure, nothing here reads a catalogue.

    columns of a member  =  those with a domain | excluded ones | keys
    keys                 =  columns of links, on both sides; of a PRIMARY KEY a single column, or those without a domain

Synthetic rows get keys of their own, numbered while the rows are drawn. So keys need no domain, and one that has a
domain is numbered all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dpsql.core.domain import Domain
from dpsql.core.tree import UNITS, Tree
from dpsql.core.unit_row import UnitRow
from dpsql.engines.source import Source


@dataclass(frozen=True)
class Member:
    """A table of the tree.

    Attributes:
        source: with columns in the types in which they come out.
        domain: of its columns that are no keys; excluded ones set apart.
        keys: its columns that are numbered.
        primary: the columns of its PRIMARY KEY; empty without.
    """

    source: Source
    domain: Domain
    keys: tuple[str, ...]
    primary: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Of its synthetic table, in the source's order."""
        in_release = {*self.domain.names, *(attribute.name for attribute in self.domain.excluded), *self.keys}
        return tuple(column.name for column in self.source.columns if column.name in in_release)


@dataclass(frozen=True)
class Members:
    """The tables of one linked release.

    Attributes:
        tree: of the tables.
        of: each table by what the books call it.
        requested: the one whose rows the call asks for.
        account: the key of their account, whose secret chooses rows.
    """

    tree: Tree
    of: Mapping[str, Member]
    requested: str
    account: str

    @cached_property
    def unit_row(self) -> UnitRow:
        """The flat domain, in which a unit is a row."""
        units = {UNITS: Domain(())} if self.tree.root == UNITS else {}
        return UnitRow(self.tree, units | self.domains)

    @property
    def sources(self) -> dict[str, Source]:
        """Of each table."""
        return {table: member.source for table, member in self.of.items()}

    @property
    def domains(self) -> dict[str, Domain]:
        """Of each table."""
        return {table: member.domain for table, member in self.of.items()}

    @property
    def first(self) -> Source:
        """The first table that is stored: the root, or the one whose column is the privacy unit."""
        return self.of[self.tree.tables[0]].source

    @property
    def stated_tree(self) -> Tree | None:
        """The tree as links say it; None where a column is the privacy unit, and no link is said."""
        return None if self.tree.root == UNITS else self.tree

    @property
    def place(self) -> int:
        """The place of the table asked for among the tables of the tree."""
        return self.tree.tables.index(self.requested)

    def is_unique(self, table: str, names: tuple[str, ...]) -> bool:
        """Whether no two synthetic rows share the values of some columns: one is a key that is numbered in the table.

        Or those of the key of a link, of which each row above has one row.
        """
        member, link = self.of[table], self.tree.link_of.get(table)
        if any(name in member.keys and (link is None or name not in link.key) for name in names):
            return True
        whole = link is not None and link.most_rows == 1 and {*names} >= {*link.key}
        return link is not None and whole and self.is_unique(link.parent, link.references)

    @property
    def settled(self) -> tuple[object, ...]:
        """What must not change between bind and charge."""
        return (self.tree, tuple(self.of[table] for table in self.tree.tables))

    def to_json(self) -> dict[str, Any]:
        """For the canonical request, whichever table was asked for."""
        excluded = {t: [[a.name, a.ids, a.fake, a.computed_as] for a in m.domain.excluded] for t, m in self.of.items()}
        keys = {table: [list(member.keys), list(member.primary)] for table, member in self.of.items()}
        return self.unit_row.to_json() | {"excluded": excluded, "keys": keys}
