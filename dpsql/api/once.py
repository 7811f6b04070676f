"""A query that calls dpsql runs once: its rows are kept, whatever is done with its relation afterwards."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Any, Final

import duckdb

from dpsql.api.caller import seen_from
from dpsql.api.errors import has_place, one_line_up
from dpsql.errors import Interrupted
from dpsql.evaluation.sandbox import TooLong
from dpsql.udfs.bridge.callbacks import kind_of, latest_call
from dpsql.udfs.bridge.rebound import bound_once

Parameters = Sequence[Any] | Mapping[str, Any] | None
"""Values for the `?` or `$1`, or by name for the `$name`, of a statement."""
_NAME: Final = "dpsql_once"  # of a prepared statement, or a temporary table
_numbers: Final = itertools.count(1)
_DUCKDB_2: Final = hasattr(duckdb.DuckDBPyRelation, "materialize")
_PREFIX: Final = "dp_"  # of all functions of dpsql


def materialized(
    connection: duckdb.DuckDBPyConnection,
    relation: duckdb.DuckDBPyRelation,
    frame: FrameType,
    query: str,
    alias: str = "",
) -> duckdb.DuckDBPyRelation:
    """A relation of the rows that another one has now.

    On DuckDB 1.5 they are a temporary table of the connection. (`EXECUTE` as a relation would keep them too, but holds
    Python's lock, for which the threads that read large tables wait.) No table is made of a PIVOT: it runs each time.

    Args:
        connection: of the relation.
        relation: the relation.
        frame: the caller's.
        query: its text, without parameters.
        alias: of the relation.
    """
    if _DUCKDB_2:
        rows: duckdb.DuckDBPyRelation = relation.materialize()
        return rows.set_alias(alias) if alias else rows
    try:
        return _stored(connection, frame, connection.extract_statements(query)[-1].query, None, alias)
    except duckdb.ParserException:
        return relation


def answered(
    connection: duckdb.DuckDBPyConnection, frame: FrameType, query: str, parameters: Parameters, alias: str = ""
) -> duckdb.DuckDBPyRelation | None:
    """What `duckdb.DuckDBPyConnection.sql` returns; a query that calls dpsql has run, once.

    DuckDB 1.5 runs a query with parameters with Python's lock held. The threads that read a large release wait for that
    lock, so a query of one would never end. It is run as a statement instead.
    """
    before = latest_call()
    if parameters and not _DUCKDB_2 and _calls_dpsql(connection, frame, query):
        return _run(connection, frame, query, parameters, alias)
    with bound_once() as again:
        relation = seen_from(frame, query, partial(connection.sql, query, alias=alias, params=parameters))
        has_run = relation is None or relation.type == "MATERIALIZED_RELATION"
        if has_run or latest_call() == before:
            return relation
        again()
        return materialized(connection, relation, frame, query, alias)


def _run(
    connection: duckdb.DuckDBPyConnection, frame: FrameType, query: str, parameters: Parameters, alias: str
) -> duckdb.DuckDBPyRelation | None:
    """Run statements, the last one with parameters; its rows, if it is a query."""
    *first, last = connection.extract_statements(query)
    for statement in first:
        seen_from(frame, statement.query, partial(connection.execute, statement))
    if last.type != duckdb.StatementType.SELECT:
        seen_from(frame, last.query, partial(connection.execute, last, parameters))
        return None
    try:
        return _stored(connection, frame, last.query, parameters, alias)
    except duckdb.ParserException:  # of DESCRIBE and the like no table is made directly
        return _stored(connection, frame, f"FROM ({last.query.rstrip().rstrip(';')}\n)", parameters, alias)
    except duckdb.Error as error:
        raise type(error)(one_line_up(str(error))) from None


def _calls_dpsql(connection: duckdb.DuckDBPyConnection, frame: FrameType, query: str) -> bool:
    """Whether its text names a function of dpsql, or a view in it does, which DuckDB finds when it prepares it."""
    if _PREFIX in query.casefold():
        return True
    before = latest_call()
    with suppress(duckdb.Error), _prepared(connection, frame, query):
        pass
    return latest_call() != before


def _stored(
    connection: duckdb.DuckDBPyConnection, frame: FrameType, query: str, parameters: Parameters, alias: str
) -> duckdb.DuckDBPyRelation:
    """The rows of a query as a temporary table, which stays until the connection is closed."""
    name = f"{_NAME}_{next(_numbers)}"
    seen_from(frame, query, partial(connection.execute, f"CREATE TEMP TABLE {name} AS\n{query}", parameters))
    return connection.sql(f"FROM temp.main.{name}").set_alias(alias or name)


def placed(connection: duckdb.DuckDBPyConnection, error: duckdb.Error, frame: FrameType, query: str) -> duckdb.Error:
    """An error with the place in the text, which DuckDB says of statements and not of relations.

    The query is prepared for it, and not run.
    """
    if has_place(error) or issubclass(kind_of(str(error)), Interrupted | TooLong):  # which would take as long again
        return error
    try:
        with _prepared(connection, frame, query):
            return error
    except duckdb.Error as placed_error:
        return type(error)(one_line_up(str(placed_error))) if str(placed_error).startswith(str(error)) else error


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
