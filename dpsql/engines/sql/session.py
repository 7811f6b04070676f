"""A connection to a database by ADBC: statements, their end, and what is said where they fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from pyarrow.lib import ArrowException
from sqlglot import exp

from dpsql.engines.external import driver
from dpsql.engines.protocol import CountingFailed
from dpsql.engines.sql.database import Reached
from dpsql.engines.sql.failures import CannotConnect
from dpsql.errors import Interrupted


class Session:
    """A connection of its own.

    Args:
        dialect: of the database.
        arguments: of the driver's `connect`.
        keywords: of it.
        named: where they came from, as errors may say it.

    Raises:
        CannotConnect: the database does not answer, or refuses the user.
        DpsqlError: the driver is not installed.
    """

    def __init__(self, dialect: Reached, arguments: Sequence[Any], keywords: Mapping[str, Any], named: str) -> None:
        manager, module = (
            driver(f"{name}.dbapi", dialect.name, dialect.name) for name in ("adbc_driver_manager", dialect.driver)
        )
        self._dialect, self._error = dialect, manager.Error
        self._interrupts, self._closed = 0, False
        self._running: Any = None
        try:
            self._connection = module.connect(*arguments, **keywords)
        except (self._error, KeyError, TypeError, ValueError):
            raise CannotConnect(dialect.label, named, dialect.unless) from None
        try:
            for statement in dialect.settings:
                self._control(statement)
        except self._error:
            self.close()
            raise CannotConnect(dialect.label, named, dialect.unless) from None
        except BaseException:
            self.close()
            raise

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a statement about the account or the catalogue."""
        return list(zip(*(column.to_pylist() for column in self._run(sql, parameters).values()), strict=True))

    def count(self, query: exp.Expr, parameters: Sequence[Any] = ()) -> dict[str, Any]:
        """What a statement returns that reads rows: columns as Arrow's arrays.

        Raises:
            Interrupted: `interrupt` was called.
            CountingFailed: in place of an error of the database.
        """
        return self._run(query.sql(dialect=self._dialect.sqlglot), parameters)

    def interrupt(self) -> None:
        """End the statement that runs, from any thread."""
        self._interrupts += 1
        running = self._running
        if running is not None:
            with suppress(self._error, RuntimeError):  # the latter where it has just ended
                running.adbc_cancel()

    def close(self) -> None:
        """End the connection; again, nothing."""
        if self._closed:
            return
        self._closed = True
        self._end()
        with suppress(self._error, RuntimeError):  # the latter where a statement is still open
            self._connection.close()

    def __del__(self) -> None:
        """Nobody closed it."""
        with suppress(Exception):
            self.close()

    def _end(self) -> None:
        """End what the connection has begun."""

    def _failed(self, error: Exception, *, interrupted: bool) -> Exception:
        """What is said in place of an error of a statement, during which `interrupt` was called or not."""
        return Interrupted() if interrupted else CountingFailed()

    def _control(self, sql: str) -> None:
        """A statement that returns nothing."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql)

    def _run(self, sql: str, parameters: Sequence[Any]) -> dict[str, Any]:
        before = self._interrupts
        try:
            with self._connection.cursor() as cursor:  # one for each, because an error may leave one useless
                self._running = cursor
                cursor.execute(sql, *([list(parameters)] if parameters else []))
                if cursor.description is None:
                    return {}
                table = cursor.fetch_arrow_table()
        except (self._error, ArrowException) as error:
            raise self._failed(error, interrupted=self._interrupts > before) from None
        finally:
            self._running = None
        if self._interrupts > before:  # some drivers end nothing
            raise Interrupted
        return dict(zip(table.column_names, table.columns, strict=True))
