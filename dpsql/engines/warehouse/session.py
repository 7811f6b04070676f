"""A connection to a warehouse by ADBC, from options that the owner keeps in an environment variable.

The variable holds a JSON object, the options that the ADBC driver's documentation names, such as `{"uri": "…"}`.
Neither the options nor a password in them is stored, logged or shown: the books hold the name of the variable.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pyarrow.lib import ArrowException
from sqlglot import exp

from dpsql.engines.external import driver
from dpsql.engines.protocol import CountingFailed
from dpsql.engines.warehouse.dialect import Dialect
from dpsql.engines.warehouse.failures import CannotConnect
from dpsql.errors import Interrupted, InvalidArgument


def options_of(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options in the variable that the owner named.

    Raises:
        InvalidArgument: there is no such variable, or it holds no JSON object.
    """
    name = given.get("environment")
    usage = 'a JSON object of options of the ADBC driver, such as {"uri": "…"}'
    if not name:
        raise InvalidArgument(f"environment is missing: give the name of a variable that holds {usage}")
    try:
        found = json.loads(os.environ.get(name, ""))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InvalidArgument(
            f"environment is {name!r}: this process has no such variable, or it does not hold {usage}. Set it before "
            "DuckDB starts"
        )
    return found


def named_in(given: Mapping[str, Any]) -> str:
    """Where the options are, as errors say it.

    >>> named_in({"environment": "BANK_SF"})
    "environment := 'BANK_SF'"
    """
    return f"environment := {given.get('environment')!r}"


class Session:
    """A connection of its own.

    Args:
        dialect: of the warehouse.
        options: of the driver.
        named: where they came from, as errors may say it.

    Raises:
        CannotConnect: the warehouse does not answer, or refuses the user.
        DpsqlError: the driver is not installed.
    """

    def __init__(self, dialect: Dialect, options: Mapping[str, Any], named: str) -> None:
        manager = driver("adbc_driver_manager.dbapi", dialect.name, dialect.name)
        module = driver(f"{dialect.driver}.dbapi", dialect.name, dialect.name)
        self._dialect, self._error = dialect, manager.Error
        self._stopped, self._closed = False, False
        self._running: Any = None
        try:
            arguments, keywords = dialect.connecting(options)
            self._connection = module.connect(*arguments, **keywords)
        except (self._error, KeyError, TypeError, ValueError):
            raise CannotConnect(dialect.label, named) from None
        try:
            with self._connection.cursor() as cursor:
                for statement in dialect.settings:
                    cursor.execute(statement)
        except self._error:
            self.close()
            raise CannotConnect(dialect.label, named) from None

    def told(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a statement about the account or the catalogue."""
        return list(zip(*(column.to_pylist() for column in self._run(sql).values()), strict=True))

    def count(self, query: exp.Expr) -> dict[str, Any]:
        """What a statement returns that reads rows: columns as Arrow's arrays.

        Raises:
            Interrupted: `interrupt` was called.
            CountingFailed: in place of an error of the warehouse.
        """
        return self._run(query.sql(dialect=self._dialect.sqlglot))

    def interrupt(self) -> None:
        """End the statement that runs, from any thread."""
        self._stopped = True
        running = self._running
        if running is not None:
            with suppress(self._error, RuntimeError):  # the latter where it has just ended
                running.adbc_cancel()

    def close(self) -> None:
        """End the connection; again, nothing."""
        if self._closed:
            return
        self._closed = True
        with suppress(self._error, RuntimeError):  # the latter where a statement is still open
            self._connection.close()

    def __del__(self) -> None:
        """Nobody closed it."""
        with suppress(Exception):
            self.close()

    def _run(self, sql: str) -> dict[str, Any]:
        self._stopped = False
        try:
            with self._connection.cursor() as cursor:  # one for each, because an error may leave one useless
                self._running = cursor
                cursor.execute(sql)
                table = cursor.fetch_arrow_table()
        except (self._error, ArrowException):
            if self._stopped:
                raise Interrupted from None
            raise CountingFailed from None
        finally:
            self._running = None
        if self._stopped:  # some drivers end nothing
            raise Interrupted
        return dict(zip(table.column_names, table.columns, strict=True))
