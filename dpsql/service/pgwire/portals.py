"""Statements that are prepared, and portals: those with their parameters, whose rows are sent some at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from dpsql.service.allowlist import Checked
from dpsql.service.analyst import Execution
from dpsql.service.directory import Columns

from .cursor_words import Declared
from .failed import Failed
from .results import Formats
from .session_state import SessionState


@dataclass
class Prepared:
    """A statement with its parameters' types.

    Attributes:
        sql: as it is run, in DuckDB's spelling; a command as it came.
        oids: of the parameters.
        command: what is no SELECT.
        declares: the cursor that a DECLARE makes; `sql` is then its query.
        untold: it was described before its parameters had values, and its columns depend on those.
    """

    sql: str
    oids: list[int]
    command: bool
    declares: Declared | None = None
    untold: bool = False


@dataclass
class Portal:
    """A prepared statement with its parameters.

    Attributes:
        prepared: what.
        parameters: their values.
        formats: of the result.
        execution: once it runs.
        left: rows of a batch that are not sent yet.
        sent: how many were.
        columns: of the result, once it runs.
        is_described: whether the client was told the columns.
        checked: the statement, once it was looked at.
        failed: whether an error ended a read: rows that were read then are lost.
    """

    prepared: Prepared
    parameters: list[Any]
    formats: Formats
    execution: Execution | None = None
    left: Any = None
    sent: int = 0
    columns: Columns = field(default_factory=list)
    is_described: bool = False
    checked: Checked | None = None
    failed: bool = False

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read rows inside; after an error nobody reads on, for some rows would be missing.

        Raises:
            Failed: an error ended a read before.
        """
        if self.failed:
            raise Failed("55000", "portal cannot be run: an error ended it before; close it, and ask again")
        self.failed = True
        yield
        self.failed = False

    def start(self, session: SessionState) -> None:
        """Run it, once."""
        if self.execution is None:
            self._run(session, self._checked(session))

    def described(self, session: SessionState) -> Columns:
        """The columns: it runs for them, unless that is charged for, which only its rows are."""
        self.is_described = True
        if self.execution is None:
            checked = self._checked(session)
            if checked.calls:
                return session.analyst.columns(checked, self.parameters)
            self._run(session, checked)
        return self.columns

    def _checked(self, session: SessionState) -> Checked:
        session.check_going_on()
        session.set_out()
        if self.checked is None:
            self.checked = session.analyst.check(self.prepared.sql)
        return self.checked

    def _run(self, session: SessionState, checked: Checked) -> None:
        self.execution = session.analyst.run(checked, self.formats.shape, self.parameters)
        self.columns = self.execution.columns

    def send(self, session: SessionState, most: float, *, shown: bool = True) -> tuple[int, bool]:
        """Send rows that were not sent yet.

        Args:
            session: to whose client.
            most: how many.
            shown: False to pass over them only.

        Returns:
            How many, and whether there are no more.
        """
        with self.reading():
            return self._send(session, most, shown=shown)

    def _send(self, session: SessionState, most: float, *, shown: bool) -> tuple[int, bool]:
        assert self.execution is not None
        count = 0
        while count < most:
            batch = self.left if self.left is not None else self.execution.next()
            self.left = None
            if batch is None:
                return count, True
            if most < count + batch.num_rows:
                self.left = batch.slice(int(most) - count)
                batch = batch.slice(0, int(most) - count)
            count += batch.num_rows
            self.sent = session.counted(self.sent, batch.num_rows)
            if shown:
                session.channel.send_raw(self.formats.rows(batch, self.columns))
        return count, False

    def close(self) -> None:
        """No more rows are asked for."""
        if self.execution is not None:
            self.execution.close()
