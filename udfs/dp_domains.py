"""`dp_domains(table)`: the domains of all columns at a glance, or declared at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import duckdb

from dpsql.books.ledger.store import Books
from dpsql.books.reading.codebook import codebook_rows
from dpsql.engines.registry import find_source
from dpsql.engines.source import Source
from dpsql.errors import InvalidArgument
from dpsql.owner.codebook import declarations_of, from_json
from dpsql.owner.declarations import Arguments, Declarations, declare_all
from dpsql.owner.protect import account_of
from dpsql.release.domains import ColumnDomain, as_json, table_domains

from .bridge.declare import Call, Parameter, Relation
from .dp_domain import OF_DISCOVERY, DpDomain
from .extension import Instance, SqlFunction
from .of_users import askable, domain_rows
from .relations import Computed

COLUMNS = {
    "source": "VARCHAR",
    "column": "VARCHAR",
    "type": "VARCHAR",
    "kind": "VARCHAR",
    "size": "BIGINT",
    "bins": "BIGINT",
    "nullable": "BOOLEAN",
    "other": "VARCHAR",
    "origin": "VARCHAR",
    "outside": "DOUBLE",
    "undeclared": "BOOLEAN",
    "statement": "VARCHAR",
    "labels": "VARCHAR[]",
}
_OF_OWNER = ("outside", "statement")
"""Columns that tell what releases of others told of the rows, and how to declare it."""
DECLARED = {name: kind for name, kind in COLUMNS.items() if name not in _OF_OWNER}

ARGUMENTS = Arguments({p.name: p.type for p in DpDomain.parameters if not p.positional and p.name not in OF_DISCOVERY})
"""What declares a column: all that `dp_domain` takes, without what is charged."""


class DpDomains(SqlFunction):
    """The domain of every column of a table; or declare many columns at once, all or none. Costs nothing.

    A codebook has one row for each column, with what `dp_domain` takes in columns of those names, or one row for each
    value. JSON has an object for each column. Columns that are not named keep what they have.
    """

    name = "dp_domains"
    parameters = (
        Parameter("table", "VARCHAR", positional=True, help="the protected table"),
        Parameter(
            "from_table",
            "VARCHAR",
            default=None,
            help="a public table that is a codebook: declare what it says",
            of_owner=True,
        ),
        Parameter(
            "from_json",
            "VARCHAR",
            default=None,
            help='declare {"column": {"lower": 0, …}, …}, or a list of rows',
            of_owner=True,
        ),
        Parameter(
            "as_json",
            "BOOLEAN",
            default=False,
            help="one row with the declarations as JSON, as from_json takes",
            of_owner=True,
        ),
    )

    def bind(self, call: Call) -> Relation:
        """See `TableFunction.bind`."""
        if call.by:
            source = askable(self._instance, call["table"], call.search_path, call.by)
            return Computed(DECLARED, partial(domain_rows, self._instance, source, call.by))
        if call["from_table"] is not None and call["from_json"] is not None:
            raise InvalidArgument("from_table and from_json are given: leave one of them out")
        with self._instance.lookup() as cursor:
            source = find_source(cursor, call["table"], call.search_path)
            account_of(Books(cursor, source.catalog), source)
        given = None if call["from_json"] is None else from_json(call["from_json"], ARGUMENTS)
        declares = given is not None or call["from_table"] is not None
        if declares:
            self._instance.check_owner(self.name)

        def computed() -> Sequence[Sequence[object]]:
            listed = domains(self._instance, source, given, call["from_table"], call.search_path)
            return (
                [[as_json(listed)]]
                if call["as_json"]
                else [_row(source, call["table"], column_domain) for column_domain in listed]
            )

        columns = {"json": "VARCHAR"} if call["as_json"] else COLUMNS
        return Computed(columns, self._instance.for_owner(self.name, computed) if declares else computed)


def domains(
    instance: Instance, source: Source, given: Declarations | None, codebook: str | None, search_path: str
) -> list[ColumnDomain]:
    """Declare what is given, or what a public table says, and list the domains of all columns."""
    with instance.cursor() as cursor:
        named = _named(cursor, given, codebook, search_path)
        if named is not None:
            declare_all(cursor, source, named, ARGUMENTS, search_path)
        return table_domains(cursor, source, ARGUMENTS)


def _named(
    cursor: duckdb.DuckDBPyConnection, given: Declarations | None, codebook: str | None, search_path: str
) -> Declarations | None:
    if codebook is None:
        return given
    declared = declarations_of(codebook_rows(cursor, codebook, search_path), ARGUMENTS)
    if not declared:
        raise InvalidArgument(f"codebook {codebook!r} names no column: it needs a row for each that it declares")
    return declared


def _row(source: Source, table: str, column_domain: ColumnDomain) -> list[Any]:
    """One row of the listing."""
    *declared, undeclared, labels = column_domain.declared
    return [source.key, *declared, column_domain.outside, undeclared, column_domain.statement(table), labels]
