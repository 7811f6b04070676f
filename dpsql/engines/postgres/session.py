"""A connection to Postgres by ADBC: statements, one transaction, and the end of either.

    BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;  SAVEPOINT dpsql;  SELECT …;  RELEASE SAVEPOINT dpsql;  …

All counts of a session are of one snapshot. A statement that fails, or that somebody stops, is undone to the savepoint,
so that the snapshot outlives it. Names of functions and operators are looked up in pg_catalog only, because a function
of somebody else's could see rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from sqlglot import exp

from dpsql.engines.external import driver
from dpsql.engines.postgres.failures import CANCELLED, CannotConnect, ConnectionLost, failure_of
from dpsql.errors import Interrupted

_BEGIN: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_SAVE, _RELEASE, _BACK = "SAVEPOINT dpsql", "RELEASE SAVEPOINT dpsql", "ROLLBACK TO SAVEPOINT dpsql"
_DRIVERS: Final = ("adbc_driver_manager", "adbc_driver_postgresql")
_PATIENCE: Final = 1000  # interrupts of one ROLLBACK
_SETTINGS: Final = {
    "client_min_messages": "error",  # libpq prints notices
    "search_path": "pg_catalog",
    "row_security": "off",  # refuse what a policy would hide
    "standard_conforming_strings": "on",
    "timezone": "UTC",
    "datestyle": "ISO, YMD",
    "intervalstyle": "postgres",
    "extra_float_digits": "1",
    "transform_null_equals": "off",
    "idle_in_transaction_session_timeout": "0",  # a mechanism thinks between its questions
    "jit": "off",  # compiling a search tree takes longer than running it
    "application_name": "dpsql",
}


class Session:
    """A connection of its own.

    Args:
        words: what libpq connects with: a URI, or `host=… dbname=…`.
        named: where those words came from, as errors may say it.

    Raises:
        CannotConnect: Postgres does not answer, or refuses the user.
        DpsqlError: the driver is not installed.
    """

    def __init__(self, words: str, named: str) -> None:
        manager, postgres = (driver(f"{name}.dbapi", "postgres", "postgres") for name in _DRIVERS)
        self._error: type[Exception] = manager.Error
        self._stopped, self._in_transaction, self._closed = False, False, False
        try:
            self._connection = postgres.connect(words, autocommit=True)
        except self._error:
            raise CannotConnect(named) from None
        try:
            self._cursor = self._connection.cursor()
            for name, value in _SETTINGS.items():
                self._control(f"SET {name} = '{value}'")
        except BaseException:
            self.close()
            raise

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a statement about the catalogue."""
        found = self._run(sql, parameters)
        return list(zip(*(column.to_pylist() for column in found.values()), strict=True))

    def control(self, sql: str) -> None:
        """A statement that reads no row, such as one that makes a temporary table."""
        self._control(sql)

    def begin(self, table: exp.Table, *, may_lock: bool) -> None:
        """Begin the one transaction, in which a table keeps its columns; what others write is not seen.

        Args:
            table: that will be read.
            may_lock: whether the user may, which takes the right to read all columns. A lock comes before the snapshot,
                so that nobody empties the table between them.

        Raises:
            CountingFailed: the table is not there, or may not be read.
        """
        self._control(_BEGIN)
        self._in_transaction = True
        nothing = exp.select(exp.alias_(exp.Literal.number(1), "n")).from_(table).limit(0).sql(dialect="postgres")
        self._run(f"LOCK TABLE {table.sql(dialect='postgres')} IN ACCESS SHARE MODE" if may_lock else nothing, ())

    def count(self, query: exp.Expr, parameters: Sequence[Any] = ()) -> dict[str, Any]:
        """What a statement returns that reads rows, in the transaction: columns as Arrow's arrays.

        Raises:
            Interrupted: `interrupt` was called.
            CountingFailed: in place of an error of Postgres.
        """
        self._control(_SAVE)
        try:
            found = self._run(query.sql(dialect="postgres"), parameters)
        except BaseException:
            with suppress(ConnectionLost):
                self._control(_BACK)
            raise
        self._control(_RELEASE)
        return found

    def interrupt(self) -> None:
        """End the statement that runs, from any thread."""
        self._stopped = True
        if self._closed:
            return
        with suppress(self._error):
            self._connection.adbc_cancel()

    def close(self) -> None:
        """End the transaction, and the connection; again, nothing."""
        if self._closed:
            return
        self._closed = True
        if self._in_transaction:
            with suppress(ConnectionLost):
                self._control("ROLLBACK")
            self._in_transaction = False
        for part in (getattr(self, "_cursor", None), self._connection):
            if part is not None:
                with suppress(self._error):
                    part.close()

    def __del__(self) -> None:
        """Nobody closed it."""
        with suppress(Exception):
            self.close()

    def _run(self, sql: str, parameters: Sequence[Any]) -> dict[str, Any]:
        try:
            self._cursor.execute(sql, list(parameters) or None)
            if self._cursor.description is None:
                return {}
            table = self._cursor.fetch_arrow_table()
        except self._error as error:
            sqlstate = getattr(error, "sqlstate", None)
            if sqlstate == CANCELLED and self._stopped:
                raise Interrupted from None
            raise failure_of(sqlstate, alive=self._is_alive(sqlstate)) from None
        return dict(zip(table.column_names, table.columns, strict=True))

    def _is_alive(self, sqlstate: str | None) -> bool:
        """Whether the server answers; one that sent a class of error does."""
        if sqlstate is not None:
            return True
        try:
            self._cursor.execute("SELECT 1")
        except self._error as error:
            return getattr(error, "sqlstate", None) is not None
        return True

    def _control(self, sql: str) -> None:
        """A statement that is done though interrupts may still come, which were sent for an earlier one."""
        for _ in range(_PATIENCE):
            try:
                self._cursor.execute(sql)
                return
            except self._error as error:
                if getattr(error, "sqlstate", None) != CANCELLED:
                    raise ConnectionLost from None
        raise ConnectionLost
