"""DuckDB's own parse tree of a SELECT, from an empty database that opens no file. Nothing of the text is run."""

from __future__ import annotations

import json
from typing import Any, Final

import duckdb

from dpsql.errors import DpsqlError

_NO_MEMORY: Final = "out of memory"


class TooDeep(DpsqlError):
    """A statement has more parts inside one another than are read."""


def open_parser() -> duckdb.DuckDBPyConnection:
    """A connection that parses: with one thread, no files, and settings that stay."""
    parser = duckdb.connect(config={"enable_external_access": "false", "threads": "1"})
    parser.execute("SET lock_configuration = true")
    return parser


def parsed(parser: duckdb.DuckDBPyConnection, select: str) -> dict[str, Any]:
    """The tree, or an error in its place where the text is no SELECT.

    Raises:
        TooDeep: it has too many parts inside one another.
        MemoryError: there is too little memory for the tree.
        duckdb.Error: it was interrupted.
    """
    (text,) = parser.execute("SELECT json_serialize_sql($1::VARCHAR)", [select]).fetchall()[0]
    try:
        tree: dict[str, Any] = json.loads(text)
    except RecursionError:
        raise TooDeep("the statement has too many parts inside one another: give names to some by WITH") from None
    if tree.get("error_type") == _NO_MEMORY:
        raise MemoryError
    return tree
