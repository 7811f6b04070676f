"""A client's session after the login: messages in, answers out."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb

from dpsql.errors import DpsqlError
from dpsql.service.allowlist import check_length
from dpsql.service.analyst import Analyst
from dpsql.service.options import Options
from dpsql.service.respell import respelled
from dpsql.service.sqlstate import message, sqlstate
from dpsql.service.tokens import tokens, trimmed

from .commands import Said, Settings
from .copying import Copy
from .cursors import Declared
from .extended import Extended, tag_of
from .failed import Failed
from .holdings import OF_A_SESSION, Holdings
from .messages import BadMessage, Channel, Closed, row_description, text
from .results import Formats

WRONG = (
    DpsqlError,
    duckdb.Error,
    BadMessage,
    Failed,
    RuntimeError,
    ValueError,
    LookupError,
    ArithmeticError,
    MemoryError,
)
"""What ends a statement and not the session."""


class Session:
    """See the module."""

    def __init__(self, channel: Channel, analyst: Analyst, options: Options, of_user: Holdings) -> None:
        self.channel, self.analyst, self.most_rows = channel, analyst, options.most_rows
        self.holdings = Holdings(OF_A_SESSION, of_user)
        self.settings = Settings(options.statement_seconds, analyst.login.user)
        self.told: dict[str, str] = {}
        """Settings that were reported, by name."""
        self._extended = Extended(self)
        self._skipping = False

    def serve(self) -> None:
        """Answer until the client leaves."""
        self.ready()
        while True:
            kind, payload = self.channel.message()
            if kind == b"X":
                raise Closed
            if kind == b"Q":
                self._skipping = False
                self._query(payload)
            elif kind == b"S":
                self._skipping = False
                self._extended.sync()
                self.ready()
            elif kind == b"H":
                self.channel.flush()
            elif kind in (b"d", b"c", b"f"):  # of a COPY that was refused
                continue
            elif not self._skipping:
                self._extend(kind, payload)

    def ready(self) -> None:
        """Say that the next statement may come."""
        self.settings.end()
        self.channel.send(b"Z", self.settings.transaction.encode())
        self.channel.flush()

    def fail(self, error: BaseException) -> None:
        """Tell an error."""
        self.settings.fail()
        code = (
            error.code if isinstance(error, Failed) else "08P01" if isinstance(error, BadMessage) else sqlstate(error)
        )
        shown = str(error) if isinstance(error, Failed | BadMessage) else message(error)
        self.channel.error(code, shown)
        self.report()

    def set_out(self) -> None:
        """A statement begins: it has the time, the time zone and the notices that the client has set."""
        self.analyst.seconds, self.analyst.zone = self.settings.seconds, self.settings.zone
        self.channel.shows_notices = self.settings.notices

    def report(self) -> None:
        """Tell the settings that changed, of those that clients hear of."""
        for name, value in self.settings.reported.items():
            if self.told.get(name) != value:
                self.channel.send(b"S", text(name) + text(value))
                self.told[name] = value

    def said(self, said: Said) -> None:
        """Answer a command."""
        if said.savepoint is not None:
            self._extended.cursors.savepoint(said.tag, said.savepoint)
        if said.tag == "DISCARD ALL":
            self._extended.cursors.discard()
        self.report()
        if said.deallocate is not None:
            self._extended.deallocate(said.deallocate)
        if said.tag in ("COMMIT", "ROLLBACK") and self.settings.transaction == "I":
            self._extended.cursors.ended(kept=said.tag == "COMMIT")
        self.channel.send(b"C", text(said.tag))

    def allowed(self, sql: str) -> None:
        """Refuse all but the end of a transaction that has failed."""
        self.settings.check_going_on()

    # --- the simple protocol ----------------------------------------------------------------------------------------

    def _query(self, payload: bytes) -> None:
        try:
            sql = payload.removesuffix(b"\0").decode()
            check_length(sql)
            if "\0" in sql:
                raise BadMessage("a statement ends at its first zero byte")
            statements = list(split(sql))
            if not statements:
                self.channel.send(b"I")
            for statement in statements:
                self._statement(statement)
        except UnicodeDecodeError:
            self.fail(BadMessage("the statement is not UTF-8"))
        except WRONG as error:
            self.fail(error)
        self._extended.sync()
        self.ready()

    def _statement(self, sql: str) -> None:
        declared = Declared.of(sql)
        if declared is not None:
            prepared = self._extended.read(declared.query, [])
            if prepared.command or prepared.oids:
                raise Failed("42601", "a cursor is of a SELECT, here without parameters")
            self._extended.cursors.declare(declared, prepared, [])
            return
        if self._extended.cursor(sql, Formats(), describes=True):
            return
        said = self.settings.run(sql)
        if said is not None:
            self._command(said)
            return
        self.allowed(sql)
        self.set_out()
        copy = Copy.of(sql)
        if copy is not None:
            copy.run(self)
            return
        formats = Formats()
        checked = self.analyst.check(respelled(sql, self.analyst.login.user))
        execution = self.analyst.run(checked, formats.shape)
        try:
            self.channel.send(b"T", formats.description(execution.columns))
            count = 0
            while (batch := execution.next()) is not None:
                count = self.counted(count, batch.num_rows)
                self.channel.send_raw(formats.rows(batch, execution.columns))
            self.channel.send(b"C", text(f"{tag_of(sql)} {count}" if tag_of(sql) == "SELECT" else tag_of(sql)))
        finally:
            execution.close()

    def counted(self, count: int, more: int) -> int:
        """How many rows were sent with these; more than may be are an error."""
        if count + more > self.most_rows:
            raise Failed("54000", f"the statement has more than {self.most_rows} rows: ask for fewer with LIMIT")
        return count + more

    def _command(self, said: Said) -> None:
        if said.row is not None:
            self.channel.send(b"T", row_description([(said.row[0], 25, -1, -1, 0)]))
            self.channel.send(b"D", one_value(said.row[1]))
        self.said(said)

    # --- the extended protocol --------------------------------------------------------------------------------------

    def _extend(self, kind: bytes, payload: bytes) -> None:
        try:
            self._extended.take(kind, payload)
        except WRONG as error:
            self._skipping = True
            self.fail(error)

    def close(self) -> None:
        """The client has gone."""
        self._extended.close()
        self.holdings.close()
        self.analyst.close()


def one_value(value: str) -> bytes:
    """The message of a row with one text."""
    raw = value.encode()
    return (1).to_bytes(2, "big") + len(raw).to_bytes(4, "big") + raw


def split(sql: str) -> Iterator[str]:
    """The statements of a text, parted by semicolons that are in no text or comment."""
    part: list[str] = []
    for kind, found in [*tokens(sql), ("other", ";")]:
        if kind == "other" and found == ";":
            statement = trimmed("".join(part))
            part = []
            if statement.strip() and any(inner != "space" for inner, _ in tokens(statement)):
                yield statement
        else:
            part.append(found)
