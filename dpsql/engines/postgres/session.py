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

from dpsql.engines.postgres.dialect import POSTGRES
from dpsql.engines.postgres.failures import CANCELLED, ConnectionLost, failure_of
from dpsql.engines.postgres.words import without_quotes
from dpsql.engines.protocol import CountingFailed
from dpsql.engines.sql.session import Session
from dpsql.errors import Interrupted

_BEGIN: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_SAVE, _RELEASE, _BACK = "SAVEPOINT dpsql", "RELEASE SAVEPOINT dpsql", "ROLLBACK TO SAVEPOINT dpsql"
_QUOTES: Final = "SELECT current_setting('quote_all_identifiers') AS quotes"
_PATIENCE: Final = 1000  # interrupts of one ROLLBACK


class PostgresSession(Session):
    """See `Session`.

    Args:
        words: what libpq connects with: a URI, or `host=… dbname=…`.
        named: where those words came from, as errors may say it.
    """

    def __init__(self, words: str, named: str) -> None:
        self._in_transaction, self._is_standby = False, False
        super().__init__(POSTGRES, [words], {"autocommit": True}, named)
        if self.rows(_QUOTES)[0][0] != "off":  # the driver looks types up by names, and has none of those in quotes
            self.close()
            super().__init__(POSTGRES, [without_quotes(words)], {"autocommit": True}, named)

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
        ((self._is_standby,),) = self.rows("SELECT pg_is_in_recovery() AS standby")
        self._control(_BEGIN)
        self._in_transaction = True
        nothing = exp.select(exp.alias_(exp.Literal.number(1), "n")).from_(table).limit(0).sql(dialect="postgres")
        self._run(f"LOCK TABLE {table.sql(dialect='postgres')} IN ACCESS SHARE MODE" if may_lock else nothing, ())

    def count(self, query: exp.Expr, parameters: Sequence[Any] = ()) -> dict[str, Any]:
        """See `Session.count`; in the transaction."""
        self._control(_SAVE)
        try:
            answer = super().count(query, parameters)
        except BaseException:
            with suppress(CountingFailed):
                self._control(_BACK)
            raise
        self._control(_RELEASE)
        return answer

    def interrupt(self) -> None:
        """See `Session.interrupt`."""
        self._interrupts += 1
        if self._closed:
            return
        with suppress(self._error):
            self._connection.adbc_cancel()

    def _end(self) -> None:
        if self._in_transaction:
            with suppress(CountingFailed):
                self._control("ROLLBACK")
            self._in_transaction = False

    def _failed(self, error: Exception, *, interrupted: bool) -> Exception:
        sqlstate = getattr(error, "sqlstate", None)
        if sqlstate == CANCELLED and self._interrupts:  # which may have been sent for an earlier one
            return Interrupted()
        return failure_of(sqlstate, alive=self._is_alive(sqlstate), standby=self._is_standby)

    def _is_alive(self, sqlstate: str | None) -> bool:
        """Whether the server answers; one that sent a class of error does."""
        if sqlstate is not None:
            return True
        try:
            super()._control("SELECT 1")
        except self._error as error:
            return getattr(error, "sqlstate", None) is not None
        return True

    def _control(self, sql: str) -> None:
        """A statement that is done though interrupts may still come, which were sent for an earlier one."""
        for _ in range(_PATIENCE):
            try:
                super()._control(sql)
                return
            except self._error as error:
                state = getattr(error, "sqlstate", None)
                if state != CANCELLED:
                    raise failure_of(state, alive=state is not None, standby=self._is_standby) from None
        raise ConnectionLost
