"""The values of a public column, which an owner names as the domain of a private one."""

from __future__ import annotations

import duckdb
from sqlglot import exp

from dpsql.books.reading.reads import is_public, snapshot
from dpsql.core.names import quote
from dpsql.engines.duckdb.names import split_name
from dpsql.engines.registry import find_source
from dpsql.engines.source import Source
from dpsql.errors import InvalidArgument


def reference_values(cursor: duckdb.DuckDBPyConnection, reference: str, search_path: str) -> list[str]:
    """The distinct values of a column of a public table, sorted."""
    parts = split_name(reference)
    if parts is None or len(parts) < 2:
        raise InvalidArgument(f"reference is {reference!r}: say 'table.column' of a public table")
    with snapshot(cursor):
        table = find_source(cursor, ".".join(quote(part) for part in parts[:-1]), search_path)
        if not is_public(cursor, table):
            raise InvalidArgument(f"reference table {table.name!r} is protected, so its values are private")
        return _distinct(cursor, table, parts[-1])


def _distinct(cursor: duckdb.DuckDBPyConnection, table: Source, name: str) -> list[str]:
    column = exp.column(exp.to_identifier(table.column(name).name, quoted=True))
    text = exp.cast(column, "VARCHAR", dialect="duckdb")
    has_value = exp.Not(this=exp.Is(this=column.copy(), expression=exp.null()))
    query = exp.select(text).distinct().from_(table.table()).where(has_value).order_by("1").sql(dialect="duckdb")
    try:
        return [value for (value,) in cursor.execute(query).fetchall()]
    except duckdb.InterruptException:
        raise
    except duckdb.Error:
        raise InvalidArgument(f"reference {table.name!r} cannot be read: memory is short, or a column fails") from None
