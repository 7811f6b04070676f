"""Relations that the SQL functions share: rows computed in Python, and queries of the books."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
from sqlglot import exp

from dpsql.books.ledger import ledger
from dpsql.books.ledger.statements import qualified, read, with_constants
from dpsql.books.ledger.store import Books, catalogs_with_books
from dpsql.engines.duckdb.names import current_schema

from .bridge.declare import Relation
from .extension import Instance

Columns = Mapping[str, str]
"""Names of columns and their DuckDB types."""


def _told(value: Any) -> Any:
    """A value for JSON: text, a list of texts, or null."""
    if value is None:
        return None
    if isinstance(value, list | tuple):
        return [_told(item) for item in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def rows_query(columns: Columns, rows: Sequence[Sequence[Any]]) -> str:
    """A SELECT of constant rows with these columns; without rows, one with the columns only."""
    kinds = [exp.DataType.build(kind, dialect="duckdb") for kind in columns.values()]

    def select(values: Sequence[exp.Expr]) -> exp.Select:
        typed = [exp.cast(value, kind.copy(), dialect="duckdb") for value, kind in zip(values, kinds, strict=True)]
        return exp.select(*(exp.alias_(v, name, quoted=True) for v, name in zip(typed, columns, strict=True)))

    if not rows:
        return select([exp.null() for _ in kinds]).limit(0).sql(dialect="duckdb")
    # one constant of JSON, for lists of many constants are parsed for seconds
    names = [f"c{number}" for number in range(len(kinds))]
    given = [dict(zip(names, map(_told, row), strict=True)) for row in rows]
    text = exp.Literal.string(json.dumps(given, ensure_ascii=False)).sql(dialect="duckdb")
    is_list = [kind.is_type(exp.DataType.Type.LIST, exp.DataType.Type.ARRAY) for kind in kinds]
    lists = [a and not any(isinstance(row[n], str) for row in rows) for n, a in enumerate(is_list)]  # not their texts
    shape = json.dumps(
        [{name: ["VARCHAR"] if listed else "VARCHAR" for name, listed in zip(names, lists, strict=True)}]
    )
    shown = select([exp.column(name, table="r") for name in names])
    return f"{shown.sql(dialect='duckdb')} FROM (SELECT unnest(from_json({text}, '{shape}')) AS r)"


@dataclass
class Computed(Relation):
    """Rows that a Python function computes when the call runs.

    Attributes:
        columns: their names and types.
        compute: returns the rows.
    """

    columns: Columns
    compute: Callable[[], Sequence[Sequence[Any]]]
    cardinality: int | None = 1
    schema: str = field(init=False)

    def __post_init__(self) -> None:
        """Derive the schema."""
        self.schema = rows_query(self.columns, [])

    def run(self) -> str:
        """See `Relation.run`."""
        return rows_query(self.columns, self.compute())


@dataclass
class BooksQuery(Relation):
    """The same query on the books of every attached database.

    Attributes:
        name: of the file in `sql/`.
        columns: of the result.
        instance: whose databases.
        constants: values of the query's parameters but `prefix`.
        told: further ones, of each database's books.
    """

    name: str
    columns: Columns
    instance: Instance
    constants: Mapping[str, str] = field(default_factory=dict)
    told: Callable[[Books], Mapping[str, str]] | None = None
    cardinality: int | None = None
    schema: str = field(init=False)

    def __post_init__(self) -> None:
        """Derive the schema."""
        self.schema = rows_query(self.columns, [])

    def run(self) -> str:
        """See `Relation.run`."""
        with self.instance.cursor() as cursor:
            catalogs = catalogs_with_books(cursor)
            parts = [self._of(cursor, catalog) for catalog in catalogs]
        return " UNION ALL ".join(f"({part})" for part in parts) or self.schema

    def _of(self, cursor: duckdb.DuckDBPyConnection, catalog: str) -> str:
        """The query on the books of one database, up to what its head knows."""
        books = Books(cursor, catalog)
        ledger.secure(books)
        told = {"prefix": prefix(cursor, catalog), "known": str(ledger.known_events(books))}
        further = {} if self.told is None else self.told(books)
        return with_constants(qualified(read(self.name)[0], catalog), {**self.constants, **told, **further})


def prefix(cursor: duckdb.DuckDBPyConnection, catalog: str) -> str:
    """What stands before a source's name: nothing in the default database, else the database's name and a point."""
    return "" if catalog == current_schema(cursor, "")[0] else f"{catalog}."
