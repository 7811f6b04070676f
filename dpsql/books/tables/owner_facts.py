"""What owners read off the rows of the tables that a release is about, by what they declare now.

    release of one table   its own columns, and those of the tables above that a query reads, called `table.column`
    linked release         the columns of all its tables, called `table.column`, and the facts about all of them

A domain is the owner's disclosure as far as the release has that very domain. Keys have none in a linked release.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from dpsql.books.ledger.members import find_member
from dpsql.books.ledger.store import Books
from dpsql.books.tables import facts
from dpsql.core.domain import Attribute, Domain
from dpsql.core.tree import UNITS, Role
from dpsql.core.unit_row import UnitRow


def tables_of(linked: Mapping[str, Any]) -> list[str]:
    """The tables of a linked release that are stored, the root first."""
    below = [link[0] for link in linked["links"]]
    return below if linked["root"] == UNITS else [linked["root"], *below]


def columns_of(linked: Mapping[str, Any], table: str) -> tuple[str, ...]:
    """The columns of a table of a linked release that are no keys: those with a domain, and the excluded ones."""
    return (*linked["columns"][table], *(excluded[0] for excluded in linked["excluded"][table]))


def stated_as(table: str, column: str) -> str:
    """What a column of one of several tables is called."""
    return f"{table}.{column}"


def listed_roles(linked: Mapping[str, Any] | None) -> list[tuple[str, str, Role]]:
    """The roles of a linked release, each with its table and the one above; none of a release of one table."""
    links = () if linked is None else linked["links"]
    return [(child, parent, Role(*role)) for child, parent, _, _, _, *roles in links for role in chain(*roles)]


def fact_of(table: str, predicate: str) -> str:
    """What a fact about the rows of one of several tables is called.

    >>> fact_of("visits", "ward >= 1")
    'in visits: ward >= 1'
    """
    return f"in {table}: {predicate}"


class Looked:
    """What owners read off the rows; each table is looked up once."""

    def __init__(self, books: Books) -> None:
        """Of the tables of some books."""
        self._books = books
        self._columns: dict[str, dict[str, Attribute]] = {}
        self._facts: dict[str, tuple[str, ...]] = {}
        self._above: dict[str, tuple[str, ...]] = {}

    def columns(self, source: str, domain: Domain, linked: Mapping[str, Any] | None) -> set[str]:
        """The columns of a release whose domains were read off the rows.

        Args:
            source: of the release.
            domain: of the release.
            linked: its tree, see `UnitRow.to_json`; None of a release of one table.
        """
        if linked is None:
            return set(self._alone(source, domain))
        if not any(self._columns_of(table) for table in tables_of(linked)):
            return set()
        return set(self._linked(linked, UnitRow.from_json(linked, domain).members))

    def facts(self, source: str, linked: Mapping[str, Any] | None) -> set[str]:
        """The facts about its rows that were read off them; see `columns`."""
        if linked is None:
            return set(self._facts_of(source))
        return {fact_of(table, column) for table in tables_of(linked) for column in self._facts_of(table)}

    def _alone(self, source: str, domain: Domain) -> Iterator[str]:
        held = {attribute.name: attribute.inner.counted for attribute in (*domain, *domain.excluded)}
        now = [*self._columns_of(source).items()]
        for table in self._tables_above(source):
            for name, attribute in self._columns_of(table).items():
                called = stated_as(table, name)
                bases = tuple(stated_as(table, base) for base in attribute.computed_from)
                now.append((called, replace(attribute, name=called, computed_from=bases)))
        return (name for name, attribute in now if held.get(name) == attribute.inner.counted)

    def _linked(self, linked: Mapping[str, Any], members: Mapping[str, Domain]) -> Iterator[str]:
        for table in tables_of(linked):
            held = {attribute.name: attribute.inner.counted for attribute in members[table]}
            excluded = linked["excluded"][table]
            for name, attribute in self._columns_of(table).items():
                as_excluded = [name, attribute.ids, attribute.fake, attribute.computed_as]
                if held.get(name) == attribute.inner.counted or as_excluded in excluded:
                    yield stated_as(table, name)

    def _columns_of(self, table: str) -> dict[str, Attribute]:
        if table not in self._columns:
            self._columns[table] = facts.looked_columns(self._books, table)
        return self._columns[table]

    def _facts_of(self, table: str) -> tuple[str, ...]:
        if table not in self._facts:
            self._facts[table] = facts.looked_facts(self._books, table)
        return self._facts[table]

    def _tables_above(self, source: str) -> tuple[str, ...]:
        """The tables whose rows a table's rows lead to."""
        if source not in self._above:
            member = find_member(self._books, source)
            link = None if member is None else member.link
            self._above[source] = () if link is None else (link.parent, *self._tables_above(link.parent))
        return self._above[source]
