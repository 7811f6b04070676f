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

from .commands import CommandAnswer
from .copying import Copy
from .cursor_words import Declared
from .extended import Extended, tag_of
from .failed import ABORTED, Failed
from .holdings import Holdings
from .messages import BadMessage, Channel, Closed, row_description, text
from .results import Formats
from .session_state import SessionState


class Session:
    """See the module."""

    def __init__(self, channel: Channel, analyst: Analyst, options: Options, of_user: Holdings) -> None:
        self.state = SessionState(channel, analyst, options, of_user)
        self._extended = Extended(self.state)
        self._skipping = False

    def serve(self) -> None:
        """Answer until the client leaves."""
        self.ready()
        while True:
            kind, payload = self.state.channel.message()
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
                self.state.channel.flush()
            elif kind in (b"d", b"c", b"f"):  # of a COPY that was refused
                continue
            elif not self._skipping:
                self._skipping = not self._answered(partial(self._extended.take, kind), payload)

    def ready(self) -> None:
        """Say that the next statement may come."""
        self.state.settings.end()
        self.state.channel.send(b"Z", self.state.settings.transaction.encode())
        self.state.channel.flush()

    def _answered(self, answer: Callable[[bytes], None], payload: bytes) -> bool:
        """Whether a message was answered: what goes wrong in it, whatever it is, ends the statement alone."""
        self.state.subject = ""
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
        self.state.settings.fail()
        code = error.code if isinstance(error, Failed) else "08P01" if isinstance(error, BadMessage) else ""
        self.state.channel.error(code or sqlstate(error), str(error) if code else message(error))
        if code and code != ABORTED:
            self._note("refused", reason(error))
        elif not code and is_unexpected(error):
            self._note("fault", place_of(error))
        self.state.report()

    def _note(self, event: str, words: str) -> None:
        """Have a line of the audit log; where it cannot be written, nothing was charged that has to be in it."""
        with suppress(DpsqlError):
            self.state.analyst.note({"event": event, "statement": self.state.subject, "reason": words})

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
            self.state.channel.send(b"I")
        for statement in statements:
            self.state.subject = statement
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
        answer = self.state.settings.run(sql)
        if answer is not None:
            self._command(answer)
            return
        self.state.check_going_on()
        self.state.set_out()
        copy = Copy.of(sql)
        if copy is not None:
            copy.run(self.state)
            return
        formats = Formats()
        checked = self.state.analyst.check(respelled(sql, self.state.analyst.login.user))
        execution = self.state.analyst.run(checked, formats.shape)
        try:
            self.state.channel.send(b"T", formats.description(execution.columns))
            count = 0
            while (batch := execution.next()) is not None:
                count = self.state.counted(count, batch.num_rows)
                self.state.channel.send_raw(formats.rows(batch, execution.columns))
            self.state.channel.send(b"C", text(f"{tag_of(sql)} {count}" if tag_of(sql) == "SELECT" else tag_of(sql)))
        finally:
            execution.close()

    def _command(self, answer: CommandAnswer) -> None:
        if answer.row is not None:
            self.state.channel.send(b"T", row_description([(answer.row[0], 25, -1, -1, 0)]))
            self.state.channel.send(b"D", one_value(answer.row[1]))
        self._extended.answer_command(answer)

    def close(self) -> None:
        """The client has gone."""
        self._extended.close()
        self.state.holdings.close()
        self.state.analyst.close()


def one_value(value: str) -> bytes:
    """The message of a row with one text."""
    raw = value.encode()
    return (1).to_bytes(2, "big") + len(raw).to_bytes(4, "big") + raw


def split(sql: str) -> Iterator[str]:
    """The statements of a text, parted by semicolons that are in no text or comment."""
    part: list[str] = []
    for kind, token in [*tokens(sql), ("other", ";")]:
        if kind == "other" and token == ";":
            statement = trimmed("".join(part))
            part = []
            if statement.strip() and any(inner != "space" for inner, _ in tokens(statement)):
                yield statement
        else:
            part.append(token)
