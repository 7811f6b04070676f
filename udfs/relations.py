"""Relations that the SQL functions share: rows computed in Python, and queries of the books."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
from sqlglot import exp

from dpsql.database.statements import qualified, read, with_constants
from dpsql.database.store import catalogs_with_books

from .bridge import Relation
from .extension import Instance

Columns = Mapping[str, str]
"""Names of columns and their DuckDB types."""


def literal(value: Any) -> exp.Expr:
    """A Python value as a constant; lists of text too."""
    if value is None:
        return exp.null()
    if isinstance(value, list | tuple):
        return exp.Array(expressions=[literal(item) for item in value])
    if isinstance(value, bool):
        return exp.true() if value else exp.false()
    return exp.Literal.string(str(value))


def _written(value: Any) -> str:
    """The same constant as text, as the generator would write it, which takes too long for thousands of rows."""
    if value is None:
        return "NULL"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_written, value)) + "]"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return "'" + str(value).replace("'", "''") + "'"


def rows_query(columns: Columns, rows: Sequence[Sequence[Any]]) -> str:
    """A SELECT of constant rows with these columns; without rows, one with the columns only."""
    kinds = [exp.DataType.build(kind, dialect="duckdb") for kind in columns.values()]

    def select(row: Sequence[Any]) -> exp.Select:
        values = [
            exp.cast(literal(value), kind.copy(), dialect="duckdb") for value, kind in zip(row, kinds, strict=True)
        ]
        names = columns.keys()
        return exp.select(*(exp.alias_(v, name, quoted=True) for v, name in zip(values, names, strict=True)))

    if not rows:
        return select([None] * len(kinds)).limit(0).sql(dialect="duckdb")
    # one list of values, for many SELECTs would be parsed for seconds
    given = ", ".join("(" + ", ".join(map(_written, row)) + ")" for row in rows)
    names = [f"c{number}" for number in range(len(kinds))]
    values = [
        exp.cast(exp.column(name), kind.copy(), dialect="duckdb") for name, kind in zip(names, kinds, strict=True)
    ]
    listed = [exp.alias_(value, name, quoted=True) for value, name in zip(values, columns.keys(), strict=True)]
    return f"{exp.select(*listed).sql(dialect='duckdb')} FROM (VALUES {given}) given({', '.join(names)})"


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
    """

    name: str
    columns: Columns
    instance: Instance
    constants: Mapping[str, str] = field(default_factory=dict)
    cardinality: int | None = None
    schema: str = field(init=False)

    def __post_init__(self) -> None:
        """Derive the schema."""
        self.schema = rows_query(self.columns, [])

    def run(self) -> str:
        """See `Relation.run`."""
        with self.instance.cursor() as cursor:
            catalogs = catalogs_with_books(cursor)
            parts = [
                with_constants(
                    qualified(read(self.name)[0], catalog), {**self.constants, "prefix": prefix(cursor, catalog)}
                )
                for catalog in catalogs
            ]
        return " UNION ALL ".join(f"({part})" for part in parts) or self.schema


def prefix(cursor: duckdb.DuckDBPyConnection, catalog: str) -> str:
    """What stands before a source's name: nothing in the default database, else the database's name and a point."""
    current = cursor.execute("SELECT current_database()").fetchall()[0][0]
    return "" if catalog == current else f"{catalog}."
