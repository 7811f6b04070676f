"""A query that calls dpsql runs once: its rows are kept, whatever is done with its relation afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Final

import duckdb

from dpsql.api.caller import seen_from
from dpsql.api.errors import has_place, one_line_up
from dpsql.errors import Interrupted
from dpsql.udfs.bridge.callbacks import kind_of

_NAME: Final = "dpsql_once"  # of a prepared statement


def kept(
    connection: duckdb.DuckDBPyConnection,
    found: duckdb.DuckDBPyRelation,
    frame: FrameType,
    query: str,
    alias: str = "",
) -> duckdb.DuckDBPyRelation:
    """A relation of the rows that another one has now.

    DuckDB 1.5 keeps the rows of a prepared statement, and prepares no PIVOT: that runs each time anew.

    Args:
        connection: of the relation.
        found: the relation.
        frame: the caller's.
        query: its text, without parameters.
        alias: of the relation.
    """
    if hasattr(type(found), "materialize"):  # DuckDB 2.0; of the relation itself it could be a column
        rows: duckdb.DuckDBPyRelation = found.materialize()
        return rows.set_alias(alias) if alias else rows
    try:
        with _prepared(connection, frame, query):
            return seen_from(frame, query, partial(connection.sql, f"EXECUTE {_NAME}", alias=alias))
    except duckdb.ParserException:
        return found


def placed(connection: duckdb.DuckDBPyConnection, error: duckdb.Error, frame: FrameType, query: str) -> duckdb.Error:
    """An error with the place in the text, which DuckDB says of statements and not of relations.

    The query is prepared for it, and not run.
    """
    if has_place(error) or issubclass(kind_of(str(error)), Interrupted):
        return error
    try:
        with _prepared(connection, frame, query):
            return error
    except duckdb.Error as found:
        return type(error)(one_line_up(str(found))) if str(found).startswith(str(error)) else error


@contextmanager
def _prepared(connection: duckdb.DuckDBPyConnection, frame: FrameType, query: str) -> Iterator[None]:
    """The last statement of a text, as a prepared one; the line above it is left out of errors."""
    last = connection.extract_statements(query)[-1].query
    seen_from(frame, last, partial(connection.execute, f"PREPARE {_NAME} AS\n{last}"))
    try:
        yield
    finally:
        with suppress(duckdb.Error):  # a transaction that failed takes no more statements
            connection.execute(f"DEALLOCATE {_NAME}")
