"""All columns of a table with their domains: what is declared, how well it covers the rows, and what declares it.

A public fact each, but for how many rows lie outside: that is what the newest release of the table published.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from dpsql.books.ledger.store import Books
from dpsql.books.tables import facts
from dpsql.core.column_types import kind_of
from dpsql.core.domain import Attribute
from dpsql.core.names import shorten
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.duckdb.declare import automatic
from dpsql.engines.source import Column, Source
from dpsql.owner.declarations import Arguments
from dpsql.owner.described import arguments_of, statement_of
from dpsql.owner.protect import account_of, fits
from dpsql.release.quality import outside_share


@dataclass(frozen=True)
class ColumnDomain:
    """A column with its domain.

    Attributes:
        column: of the table.
        attribute: its domain; None where it has none.
        arguments: of `dp_domain` that declare it as it is; None where none do.
        outside: the share of rows outside it, by the newest release with it; None before one.
    """

    column: Column
    attribute: Attribute | None
    arguments: dict[str, Any] | None
    outside: float | None

    @property
    def shown_type(self) -> str:
        """Its type, without what the type's own text may tell of rows."""
        if self.attribute is not None and self.attribute.origin == "type":
            return self.attribute.type
        return kind_of(self.column.type)

    @property
    def declared(self) -> tuple[object, ...]:
        """What the owner declared, in the order of `dp_domains`: column, type, kind, size, bins, …, origin, …, labels.

        The origin is the owner's statement, too: that they declared, read off the rows, or had a domain discovered by a
        release. It tells nothing of rows beyond the domain itself.
        """
        attribute = self.attribute
        head = (self.column.name, self.shown_type)
        if attribute is None:
            return (*head, None, None, None, self.column.nullable, None, None, True, None)
        excluded = attribute.kind == "excluded"
        bins = attribute.regular if attribute.kind == "bins" else None
        size, labels = (None, None) if excluded else (attribute.size, attribute.labels())
        return (
            *head,
            attribute.shown_kind,
            size,
            bins,
            attribute.nullable,
            attribute.other,
            attribute.known_from,
            False,
            labels,
        )

    @property
    def described(self) -> str:
        """Its domain in a few words, for a comment on the column; and whether it was read off the rows."""
        looked = self.attribute is not None and self.attribute.known_from == "looked"
        return f"{self._domain_in_words} (read off the rows by the owner)" if looked else self._domain_in_words

    @property
    def _domain_in_words(self) -> str:
        attribute = self.attribute
        if attribute is None:
            return "no domain is declared, so queries only count it"
        if attribute.kind == "excluded":
            return "left out of releases"
        if attribute.kind == "bins":
            return f"from {attribute.edges[0]} to {attribute.edges[-1]}"
        return f"one of {shorten(', '.join(attribute.values))}"

    def statement(self, table: str) -> str | None:
        """The statement that declares it exactly as it is."""
        return None if self.arguments is None else statement_of(table, self.column.name, self.arguments)


def public_domains(cursor: Cursor, source: Source) -> list[ColumnDomain]:
    """Every column of a protected table with what is declared of it, in its order.

    Nothing is read of the rows here. A domain that the owner read off them tells what the owner let it tell.

    Raises:
        NotProtected: the table has no account.
    """
    books = Books(cursor, source.catalog)
    account_of(books, source)
    declared = facts.declared(books, source.key)
    domains = []
    for column in source.columns:
        attribute = declared.get(column.name) or automatic(column)
        if attribute is None or not fits(attribute, column) or (column.generated and attribute.kind != "excluded"):
            attribute = None
        domains.append(ColumnDomain(column, attribute, None, None))
    return domains


def table_domains(cursor: Cursor, source: Source, arguments: Arguments) -> list[ColumnDomain]:
    """The same, with what declares it and how well it covers the rows; `arguments` are those of `dp_domain`.

    Raises:
        NotProtected: the table has no account.
    """
    books = Books(cursor, source.catalog)
    domains = []
    for domain in public_domains(cursor, source):
        attribute = domain.attribute
        if attribute is not None:
            outside = None if attribute.kind == "excluded" else outside_share(books, source.key, attribute)
            how = arguments_of(cursor, source, domain.column, attribute, arguments)
            domain = replace(domain, arguments=how, outside=outside)
        domains.append(domain)
    return domains


def as_json(domains: list[ColumnDomain]) -> str:
    """The declarations as JSON, which `dp_domains(…, from_json := …)` and `db.domains` read."""
    how = {domain.column.name: domain.arguments for domain in domains if domain.arguments is not None}
    return json.dumps(how, ensure_ascii=False, default=str)
