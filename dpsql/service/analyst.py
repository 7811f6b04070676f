"""An analyst's session in the front: statements are checked, dp_* calls fetched, the rest run on released tables."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import duckdb

from dpsql.errors import DpsqlError, Interrupted

from . import arrow
from .allowlist import AllowList, Checked
from .analysis import Analyses
from .audit import Audit, NotAudited, reason
from .calls import Calls, Login, Shown
from .directory import Columns
from .forwarded import StatementCall
from .options import Options
from .pgwire.zones import UTC, Zone
from .protected_names import RowsNotServed, bare, missing_table
from .shown_settings import VARIABLE

_READ_ONLY: Final = "BEGIN TRANSACTION READ ONLY"
"""A second wall behind the allow-list: in it a statement changes nothing that others see."""
_NO_MEMORY: Final = ("failed: MemoryError", "std::bad_alloc")
_MOST_COLUMNS: Final = 4096
"""Each takes time in proportion to their number; a message could count 32,767 of them."""
Parameters = Sequence[Any]
Shape = Callable[[str, Columns], str]
"""What is made of a query with columns c0, c1, … before it runs, such as texts of them."""


class TimedOut(DpsqlError):
    """The statement took longer than it may."""


class TooWide(DpsqlError):
    """The statement has more columns than are sent."""


class Stoppable(Protocol):
    """A connection to the front's DuckDB."""

    def interrupt(self) -> None:
        """End what it is doing."""


@dataclass
class Execution:
    """A statement that runs.

    Attributes:
        columns: of the result.
        batches: Arrow record batches, as the shape made them.
    """

    analyst: Analyst
    slot: Slot
    columns: Columns
    batches: Iterator[Any]
    keys: list[StatementCall] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)

    def next(self) -> Any:
        """The next batch, or None at the end; watched as the statement is."""
        with self.analyst.working(self.slot):
            return next(self.batches, None)

    def close(self) -> None:
        """The statement ended."""
        self.batches = iter(())
        self.analyst.finished(self)


@dataclass
class Slot:
    """A DuckDB connection of the session: each statement that is not at its end has one for itself.

    Attributes:
        cursor: of DuckDB's.
        number: DuckDB's of it.
        zone: the time zone that it has.
    """

    cursor: duckdb.DuckDBPyConnection
    number: int
    zone: Zone = UTC

    def interrupt(self) -> None:
        """End what it is doing."""
        self.cursor.interrupt()


@dataclass(frozen=True)
class Shared:
    """What all sessions of the front have."""

    analyses: Analyses
    calls: Calls
    allowlist: AllowList
    options: Options
    audit: Audit


class Analyst:
    """See the module. One thread runs statements; others may cancel, and look at the clock.

    Attributes:
        seconds: how long a statement may take.
        zone: the time zone of the statement.
        notice: shown to the client.
        login: who.
        shown: what the user could see when the session began.
    """

    def __init__(self, shared: Shared, login: Login, notice: Callable[[str], None]) -> None:
        self._shared, self.login, self.notice = shared, login, notice
        self.shown = shared.calls.shown(login)
        self._analysis = shared.analyses.of(login, self.shown)
        self.seconds = shared.options.statement_seconds
        self.zone = UTC
        self._idle: list[Slot] = []
        self._all: list[Slot] = []
        self._tables: dict[StatementCall, str] = {}
        self._bound: dict[StatementCall, Columns] = {}
        self._statement = ""
        self._failure: DpsqlError | None = None
        self._lock = threading.Lock()
        self._running: Stoppable | None = None
        self._ends = 0.0
        self._cancelled = threading.Event()

    # --- Caller: DuckDB binds dp_* functions ------------------------------------------------------------------------

    def columns_of(self, call: StatementCall) -> Columns:
        """See `Caller.columns_of`."""
        if call not in self._bound:
            try:
                self._bound[call] = self._shared.calls.bind(self.login, call.function, call.arguments, self._ends_now)
            except DpsqlError as error:
                self._failure = error
                raise
        return self._bound[call]

    def table_of(self, call: StatementCall) -> str:
        """See `Caller.table_of`."""
        return self._tables[call]

    # --- statements -------------------------------------------------------------------------------------------------

    def check(self, sql: str) -> Checked:
        """Whether a statement may run; told to the audit either way.

        Raises:
            NotAudited: it calls dp_* functions, and the audit log cannot be written. Others run without their line, and
                the log says later how many are missing.
        """
        event: dict[str, Any] = {"user": self.login.user, "statement": sql}
        self._cancelled.clear()
        self._statement = sql
        try:
            with self.working(self._shared.allowlist):
                checked = self._shared.allowlist.check(sql, self.shown.places)
        except Exception as error:
            with suppress(DpsqlError):  # the log is full: nothing runs, so nothing has to be in it
                self._shared.audit({**event, "event": "refused", "reason": reason(error)})
            raise
        try:
            self._shared.audit({**event, "event": "statement", **({"catalogue": True} if checked.looks_up else {})})
        except DpsqlError:
            if checked.calls:
                raise NotAudited("the audit log cannot be written, so nothing is charged: tell the owner") from None
        return checked

    def note(self, event: dict[str, Any]) -> None:
        """Have a line of the audit log about what this user sent.

        Raises:
            DpsqlError: it cannot be written.
        """
        self._shared.audit({"user": self.login.user, **event})

    def columns(self, checked: Checked, parameters: Parameters | None = None) -> Columns:
        """The columns of a statement that does not run."""
        self._cancelled.clear()
        if checked.explains:
            return [("QUERY PLAN", "VARCHAR")]
        slot = self._slot()
        try:
            with self._bounding(slot):
                return _described(slot, checked, parameters)
        finally:
            self._idle.append(slot)

    def parameter_types(self, checked: Checked, count: int) -> list[int]:
        """PostgreSQL's types of the parameters; 0 where they are not known before the values are."""
        if checked.calls:
            return self._analysis.argument_types(checked.sql, count)
        nobody = None if checked.explains else self._analysis.connection_of_nobody()
        if nobody is None:
            return [0] * count
        self._cancelled.clear()
        with nobody, self.working(nobody):
            return nobody.inferred(checked.sql, count)

    def run(self, checked: Checked, shape: Shape, parameters: Parameters | None = None) -> Execution:
        """Run a statement: what calls dp_* functions is charged for each of them, before its rows are asked for."""
        self._cancelled.clear()
        slot = self._slot()
        execution = Execution(self, slot, [], iter(()))
        try:
            if checked.explains:
                self._explain(execution, checked, shape, parameters)
                return execution
            with self._bounding(slot):
                execution.columns = _described(slot, checked, parameters)
            for call in list(self._bound) if checked.calls else ():
                self._fetch(execution, call)
            query = shape(f"({checked.sql}\n)", execution.columns)
            with self.working(slot):
                slot.cursor.execute(_READ_ONLY)
                slot.cursor.execute(query, parameters or None)
                execution.batches = iter(arrow.reader(slot.cursor))
        except BaseException:
            execution.close()
            raise
        return execution

    def _explain(self, execution: Execution, checked: Checked, shape: Shape, parameters: Parameters | None) -> None:
        execution.columns = [("QUERY PLAN", "VARCHAR")]
        cursor = execution.slot.cursor
        with self._bounding(execution.slot):
            cursor.execute(_READ_ONLY)
            rows = cursor.execute(checked.sql, parameters or None).fetchall()
        lines = [line for row in rows for line in str(row[1]).splitlines()]
        with self.working(execution.slot):
            cursor.execute(shape("(SELECT unnest($1::VARCHAR[]))", execution.columns), [lines])
            execution.batches = iter(arrow.reader(cursor))

    def _fetch(self, execution: Execution, call: StatementCall) -> None:
        calls = self._shared.calls
        with calls.rows(self.login, call.function, call.arguments, self._cancelled.is_set, self.notice) as (
            columns,
            rows,
        ):
            if columns != self._bound[call]:
                raise DpsqlError("the columns changed since the statement was read: run it again")
            table = self._analysis.keep(columns, rows)
        execution.tables.append(table)
        execution.keys.append(call)
        self._tables[call] = table

    @contextmanager
    def _bounding(self, slot: Slot) -> Iterator[None]:
        """While DuckDB binds: an error of the keeper's comes as it is, and not as DuckDB's."""
        self._failure, self._bound = None, {}
        try:
            with self.working(slot):
                yield
        except (duckdb.Error, Interrupted) as error:
            if self._failure is not None and not isinstance(self._failure, Interrupted):
                raise self._failure from None
            missing = missing_table(error)
            protected = {bare(name): name for name in self.shown.protected}
            if missing is not None and bare(missing) in protected:
                refusal = RowsNotServed(protected[bare(missing)])
                with suppress(DpsqlError):
                    self.note({"event": "refused", "statement": self._statement, "bound": True, "reason": str(refusal)})
                raise refusal from None
            raise

    # --- time and cancel --------------------------------------------------------------------------------------------

    @contextmanager
    def working(self, connection: Stoppable) -> Iterator[None]:
        """While a DuckDB connection works: `look` interrupts it when it should end."""
        with self._lock:
            self._running, self._ends = connection, time.monotonic() + self.seconds
        try:
            yield
            if self._cancelled.is_set():
                raise Interrupted("the statement was cancelled")
        except RecursionError:
            raise
        except (duckdb.Error, RuntimeError, OSError, UnicodeDecodeError) as error:
            if self._cancelled.is_set():
                raise Interrupted("the statement was cancelled") from None
            if time.monotonic() > self._ends:
                raise TimedOut(f"the statement took more than {self.seconds:g} seconds") from None
            if is_out_of_memory(error):
                raise MemoryError from None
            if isinstance(error, duckdb.Error):
                raise
            raise DpsqlError("the rows could not be read to their end: is each text in them UTF-8?") from None
        finally:
            with self._lock:
                self._running = None

    def _ends_now(self) -> bool:
        return self._cancelled.is_set() or time.monotonic() > self._ends

    def look(self) -> None:
        """Called again and again by another thread: interrupt what is cancelled or late.

        Again, because an interrupt that comes before DuckDB has begun is lost.
        """
        with self._lock:
            if self._running is not None and self._ends_now():
                with suppress(duckdb.Error):
                    self._running.interrupt()

    def is_stuck(self) -> bool:
        """Whether what runs has had its time twice: no interrupt reaches it."""
        with self._lock:
            return self._running is not None and time.monotonic() > self._ends + self.seconds

    def may_stay(self, shown: Shown | None) -> bool:
        """Whether the user may still do and see what they could when the session began; newer rows are fetched.

        Who may ask about more tables than then stays, and sees those in the catalogue of their next session.

        Args:
            shown: what the keeper says of the user now; None where there is no such user any more.
        """
        now = None if shown is None else shown.without_growth(self.shown)
        if now is None or (now.role, now.audiences) != (self.shown.role, self.shown.audiences):
            return False
        if now != self.shown:
            self._analysis.refresh(self.login, now)
            self.shown = now
        return True

    def cancel(self) -> None:
        """Stop the statement that runs now."""
        self._cancelled.set()

    # --- connections ------------------------------------------------------------------------------------------------

    def _slot(self) -> Slot:
        """A connection that is idle, in the session's time zone."""
        slot = self._idle.pop() if self._idle else self._made()
        if slot.zone != self.zone:
            try:
                slot.cursor.execute(f"SET SESSION TimeZone = '{self.zone.engine}'")
                slot.cursor.execute(f"SET VARIABLE {VARIABLE} = '{self.zone.shown}'")
            except BaseException:
                self._idle.append(slot)
                raise
            slot.zone = self.zone
        return slot

    def _made(self) -> Slot:
        slot = Slot(*self._analysis.cursor())
        self._analysis.callers.add(slot.number, self)
        self._all.append(slot)
        return slot

    def finished(self, execution: Execution) -> None:
        """An execution has ended: its rows are dropped and its connection is free."""
        if execution.slot in self._idle:
            return
        with suppress(duckdb.Error):  # where none was begun
            execution.slot.cursor.execute("ROLLBACK")
        self._idle.append(execution.slot)
        for call in execution.keys:
            self._tables.pop(call, None)
        for table in execution.tables:
            self._analysis.drop(table)
        execution.tables.clear()

    def close(self) -> None:
        """The session ended."""
        for slot in self._all:
            self._analysis.callers.remove(slot.number)
            slot.cursor.close()
        self._shared.analyses.left(self._analysis)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory was too little, also where DuckDB or Arrow says so in words of another error."""
    return isinstance(error, MemoryError) or str(error).rstrip().endswith(_NO_MEMORY)


def _described(slot: Slot, checked: Checked, parameters: Parameters | None) -> Columns:
    """The columns of a statement, as they are to be called."""
    columns = arrow.described(slot.cursor, checked.sql, parameters)
    if len(columns) > _MOST_COLUMNS:
        raise TooWide(f"the statement has {len(columns)} columns: {_MOST_COLUMNS} is the most")
    return columns if checked.titles is None else checked.titles.of(columns)
