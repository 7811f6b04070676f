"""A query that calls dpsql runs once: its rows are kept, whatever is done with its relation afterwards."""

from __future__ import annotations

import itertools
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

_NAME: Final = "dpsql_once"  # of a prepared statement, or a temporary table
_numbers: Final = itertools.count(1)


def kept(
    connection: duckdb.DuckDBPyConnection,
    found: duckdb.DuckDBPyRelation,
    frame: FrameType,
    query: str,
    alias: str = "",
) -> duckdb.DuckDBPyRelation:
    """A relation of the rows that another one has now.

    On DuckDB 1.5 they are a temporary table of the connection. (`EXECUTE` as a relation would keep them too, but holds
    Python's lock, for which the threads that read large tables wait.) No table is made of a PIVOT: it runs each time.

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
        last, name = connection.extract_statements(query)[-1].query, f"{_NAME}_{next(_numbers)}"
        seen_from(frame, last, partial(connection.execute, f"CREATE TEMP TABLE {name} AS\n{last}"))
    except duckdb.ParserException:
        return found
    return connection.sql(f"FROM temp.main.{name}").set_alias(alias or name)


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
