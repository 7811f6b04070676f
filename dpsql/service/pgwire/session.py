"""A client's session after the login: messages in, answers out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

from dpsql.errors import DpsqlError
from dpsql.service.allowlist import check_length
from dpsql.service.analyst import Analyst
from dpsql.service.audit import reason
from dpsql.service.options import Options
from dpsql.service.respell import respelled
from dpsql.service.sqlstate import is_unexpected, message, place_of, sqlstate
from dpsql.service.tokens import tokens, trimmed

from .commands import Said, Settings
from .copying import Copy
from .cursors import Declared
from .extended import Extended, tag_of
from .failed import ABORTED, Failed
from .holdings import OF_A_SESSION, Holdings
from .messages import BadMessage, Channel, Closed, row_description, text
from .results import Formats


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
        self.subject = ""
        """The statement that is being answered, as the client sent it."""

    def serve(self) -> None:
        """Answer until the client leaves."""
        self.ready()
        while True:
            kind, payload = self.channel.message()
            if kind == b"X":
                raise Closed
            if kind == b"Q":
                self._skipping = False
                self._answered(self._query, payload)
                self._extended.sync()
                self.ready()
            elif kind == b"S":
                self._skipping = False
                self._extended.sync()
                self.ready()
            elif kind == b"H":
                self.channel.flush()
            elif kind in (b"d", b"c", b"f"):  # of a COPY that was refused
                continue
            elif not self._skipping:
                self._skipping = not self._answered(partial(self._extended.take, kind), payload)

    def ready(self) -> None:
        """Say that the next statement may come."""
        self.settings.end()
        self.channel.send(b"Z", self.settings.transaction.encode())
        self.channel.flush()

    def _answered(self, answer: Callable[[bytes], None], payload: bytes) -> bool:
        """Whether a message was answered: what goes wrong in it, whatever it is, ends the statement alone."""
        self.subject = ""
        try:
            answer(payload)
        except Closed:
            raise
        except Exception as error:
            self.fail(error)
            return False
        return True

    def fail(self, error: Exception) -> None:
        """Tell an error, and the owner of one that nothing else has a line of."""
        self.settings.fail()
        code = error.code if isinstance(error, Failed) else "08P01" if isinstance(error, BadMessage) else ""
        self.channel.error(code or sqlstate(error), str(error) if code else message(error))
        if code and code != ABORTED:
            self._note("refused", reason(error))
        elif not code and is_unexpected(error):
            self._note("fault", place_of(error))
        self.report()

    def _note(self, event: str, words: str) -> None:
        """Have a line of the audit log; where it cannot be written, nothing was charged that has to be in it."""
        with suppress(DpsqlError):
            self.analyst.note({"event": event, "statement": self.subject, "reason": words})

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
        except UnicodeDecodeError:
            raise BadMessage("the statement is not UTF-8") from None
        check_length(sql)
        if "\0" in sql:
            raise BadMessage("a statement ends at its first zero byte")
        statements = list(split(sql))
        if not statements:
            self.channel.send(b"I")
        for statement in statements:
            self.subject = statement
            self._statement(statement)

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
