"""What names mean to a caller, and in which file a database is: the host's part of DuckDB."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import duckdb
from sqlglot import exp

from dpsql.errors import UnknownName

_PART = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^".\s](?:[^".]*[^".\s])?))\s*(\.|$)')
LONGEST: Final = 4096
"""Characters of a name."""
KINDS: Final = "SELECT database_name, type, path, readonly FROM duckdb_databases() WHERE NOT internal"
"""The attached databases."""
DUCKDB: Final = "duckdb"
"""The type of databases that `duckdb_databases()` tells of DuckDB's own, in files and in memory."""
SEAL: Final = "SET SESSION search_path = 'temp.main'"
"""So that no macro of a database, such as one named `sum` or `+`, stands for DuckDB's own function of that name."""


def current_schema(cursor: duckdb.DuckDBPyConnection, search_path: str) -> tuple[str, str]:
    """The database and schema in which a caller with that search path finds a bare name."""
    parts = split_name(search_path) or ()
    if len(parts) == 2:
        return parts[0], parts[1]
    own = str(cursor.execute("SELECT system.main.current_setting('search_path')").fetchall()[0][0])
    try:
        cursor.execute(_looking_in(search_path) + "SELECT system.main.current_database(), system.main.current_schema()")
        catalog, schema = cursor.fetchall()[0]
    except duckdb.Error:
        raise UnknownName("the connection's search path is not seen by others: COMMIT its schema first") from None
    finally:
        cursor.execute(_looking_in(own))
    return catalog, schema


def _looking_in(search_path: str) -> str:
    path = exp.Literal.string(search_path).sql(dialect="duckdb")
    # a schema without its database is looked up in the default one
    return "RESET SESSION search_path; " + (f"SET SESSION search_path = {path}; " if search_path else "")


def split_name(text: str) -> tuple[str, ...] | None:
    """The parts of a dotted name, quoted or not; None if it is not one.

    >>> split_name('bank."my schema".clients')
    ('bank', 'my schema', 'clients')
    """
    if len(text) > LONGEST:
        return None
    parts: list[str] = []
    place = 0
    while True:
        match = _PART.match(text, place)
        if not match or len(parts) == 3:
            return None
        parts.append(match[1].replace('""', '"') if match[1] else match[2])
        place = match.end()
        if match[3] != ".":
            return tuple(parts) if place == len(text) else None


def place(cursor: duckdb.DuckDBPyConnection, catalog: str) -> tuple[Path | None, bool]:
    """The file of a database, None for one that is in no file here, and whether it is read-only."""
    rows_of_database = [row for row in cursor.execute(KINDS).fetchall() if row[0] == catalog]
    if not rows_of_database:
        return None, False
    _, kind, path, read_only = rows_of_database[0]
    is_file = path and kind == DUCKDB and "://" not in path  # else a connection string, or an address with a token
    return Path(path) if is_file else None, bool(read_only)
