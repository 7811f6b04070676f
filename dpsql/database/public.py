"""Which tables are public: those that no account protects, under whatever name they are now.

An account knows its table by name. Where a protected table is not there under its name, any other table could be it,
renamed, with all of its private rows: then none is surely public.
"""

from __future__ import annotations

import duckdb

from dpsql.database.catalog import Source, spelled, split_name
from dpsql.database.store import Books, catalogs_with_books
from dpsql.errors import InvalidArgument
from dpsql.names import fold


def protected_tables(cursor: duckdb.DuckDBPyConnection) -> set[tuple[str, str]]:
    """Database and key of every protected table, in lower case.

    Raises:
        InvalidArgument: one is not there under its name.
    """
    keys = set()
    for catalog in catalogs_with_books(cursor):
        for account in Books(cursor, catalog).accounts():
            *schema, name = split_name(account.source) or (account.source,)
            if not spelled(cursor, (catalog, schema[0] if schema else "main", name)):
                raise InvalidArgument(
                    f"the protected table {account.source!r} is not there under its name, so no other table is surely "
                    "public: rename it back; or, if it was dropped, create an empty table of that name"
                )
            keys.add((fold(catalog), fold(account.source)))
    return keys


def is_protected(cursor: duckdb.DuckDBPyConnection, source: Source) -> bool:
    """Whether an account protects a table.

    Raises:
        InvalidArgument: it cannot be told, for a protected table is not there under its name.
    """
    return (fold(source.catalog), fold(source.key)) in protected_tables(cursor)
