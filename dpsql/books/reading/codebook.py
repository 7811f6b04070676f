"""The rows of a public table that is a codebook: what its columns are called is read by `dpsql.owner.codebook`."""

from __future__ import annotations

from typing import Any, Final

import duckdb
from sqlglot import exp

from dpsql.books.reading.reads import is_public, snapshot
from dpsql.engines.registry import find_source
from dpsql.errors import InvalidArgument

_MOST: Final = 1_000_000


def codebook_rows(cursor: duckdb.DuckDBPyConnection, name: str, search_path: str) -> list[dict[str, Any]]:
    """The rows of a public table, in its order.

    Raises:
        UnknownName: there is no such table.
        InvalidArgument: it is protected or not surely public, or has too many rows.
    """
    with snapshot(cursor):
        table = find_source(cursor, name, search_path)
        if not is_public(cursor, table):
            raise InvalidArgument(
                f"from_table is {table.name!r}, which is protected, so its rows are private: name a public table"
            )
        query = exp.select("*").from_(table.table()).limit(_MOST + 1).sql(dialect="duckdb")
        try:
            rows = cursor.execute(query).fetchall()
        except duckdb.InterruptException:
            raise
        except duckdb.Error:
            raise InvalidArgument(
                f"codebook {table.name!r} cannot be read: memory is short, or a column fails"
            ) from None
    if len(rows) > _MOST:
        raise InvalidArgument(f"codebook {table.name!r} has more than {_MOST} rows: name a table of fewer")
    names = [column.name for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in rows]
