"""The PRIMARY KEYs of tables, from DuckDB's catalogue."""

from __future__ import annotations

from dpsql.books.ledger.store import Books
from dpsql.engines.source import Source


def primary_key(books: Books, source: Source) -> tuple[str, ...]:
    """The columns of a table's PRIMARY KEY; none without."""
    sql = (
        "SELECT constraint_column_names FROM duckdb_constraints() WHERE constraint_type = 'PRIMARY KEY' "
        "AND database_name = ? AND schema_name = ? AND table_name = ?"
    )
    rows = books.cursor.execute(sql, source.parts).fetchall()
    return tuple(rows[0][0]) if rows else ()
