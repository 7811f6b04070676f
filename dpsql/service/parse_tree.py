"""DuckDB's own parse tree of a SELECT, from an empty database that opens no file. Nothing of the text is run."""

from __future__ import annotations

import duckdb


def open_parser() -> duckdb.DuckDBPyConnection:
    """A connection that parses: with one thread, no files, and settings that stay."""
    parser = duckdb.connect(config={"enable_external_access": "false", "threads": "1"})
    parser.execute("SET lock_configuration = true")
    return parser


def serialized(parser: duckdb.DuckDBPyConnection, select: str) -> str:
    """The tree as JSON, with an error in it where the text is no SELECT."""
    (tree,) = parser.execute("SELECT json_serialize_sql($1::VARCHAR)", [select]).fetchall()[0]
    return str(tree)
