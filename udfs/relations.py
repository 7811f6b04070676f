"""Relations that the SQL functions share: rows computed in Python, and queries of the books."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
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


def _json_value(value: Any) -> Any:
    """A value for JSON: text, a list of texts, or null."""
    if value is None:
        return None
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def rows_query(columns: Columns, rows: Sequence[Sequence[Any]]) -> str:
    """A SELECT of constant rows with these columns; without rows, one with the columns only."""
    declared = tuple(columns.items())
    if not rows:
        return _no_rows(declared)
    # one constant of JSON, for lists of many constants are parsed for seconds
    given = [{f"c{number}": _json_value(value) for number, value in enumerate(row)} for row in rows]
    text = exp.Literal.string(json.dumps(given, ensure_ascii=False)).sql(dialect="duckdb")
    lists = [  # not their texts
        is_list and not any(isinstance(row[number], str) for row in rows)
        for number, is_list in enumerate(_is_list(declared))
    ]
    shape = json.dumps([{f"c{number}": ["VARCHAR"] if listed else "VARCHAR" for number, listed in enumerate(lists)}])
    return f"{_cast_rows(declared)} FROM (SELECT unnest(from_json({text}, '{shape}')) AS r)"


_Declared = tuple[tuple[str, str], ...]


@lru_cache(maxsize=512)
def _no_rows(columns: _Declared) -> str:
    return _cast(columns, [exp.null() for _ in columns]).limit(0).sql(dialect="duckdb")


@lru_cache(maxsize=512)
def _cast_rows(columns: _Declared) -> str:
    """The SELECT, without its FROM, that gives the fields c0, c1, … of a struct `r` the names and types of columns."""
    return _cast(columns, [exp.column(f"c{number}", table="r") for number, _ in enumerate(columns)]).sql("duckdb")


@lru_cache(maxsize=512)
def _is_list(columns: _Declared) -> list[bool]:
    lists = exp.DataType.Type.LIST, exp.DataType.Type.ARRAY
    return [exp.DataType.build(kind, dialect="duckdb").is_type(*lists) for _, kind in columns]


def _cast(columns: _Declared, values: Sequence[exp.Expr]) -> exp.Select:
    """A SELECT of values, cast to the types of columns under their names."""
    typed = [exp.cast(value, kind, dialect="duckdb") for value, (_, kind) in zip(values, columns, strict=True)]
    return exp.select(*(exp.alias_(v, name, quoted=True) for v, (name, _) in zip(typed, columns, strict=True)))


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
    further: Callable[[Books], Mapping[str, str]] | None = None
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
        constants = {"prefix": prefix(cursor, catalog), "known": str(ledger.known_events(books))}
        further = {} if self.further is None else self.further(books)
        return with_constants(qualified(read(self.name)[0], catalog), {**self.constants, **constants, **further})


def prefix(cursor: duckdb.DuckDBPyConnection, catalog: str) -> str:
    """What stands before a source's name: nothing in the default database, else the database's name and a point."""
    return "" if catalog == current_schema(cursor, "")[0] else f"{catalog}."
