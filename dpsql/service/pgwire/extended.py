"""The extended protocol: prepared statements with parameters, and portals that send some rows at a time."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Final

import duckdb

from dpsql.errors import DpsqlError
from dpsql.service import pgtypes
from dpsql.service.allowlist import check_length
from dpsql.service.parameters import array_of, cast_to_arrays, of_any
from dpsql.service.respell import respelled
from dpsql.service.tokens import tokens, trimmed

from . import decode
from .commands import CommandAnswer
from .copying import Copy
from .cursor_words import Declared, Fetched
from .cursors import Cursors
from .failed import Failed
from .messages import BadMessage, Reader, row_description, text
from .portals import Portal, Prepared
from .results import Formats
from .session_state import SessionState

_MOST: Final = 1000
"""Prepared statements, and portals, of a session."""


class Extended:
    """The prepared statements and portals of a session.

    Attributes:
        cursors: of the session, which are portals by another door.
    """

    def __init__(self, session: SessionState) -> None:
        self._session = session
        self.cursors = Cursors(session)
        self._prepared: dict[str, Prepared] = {}
        self._portals: dict[str, Portal] = {}

    def take(self, kind: bytes, payload: bytes) -> None:
        """Answer a message."""
        handlers = {b"P": self._parse, b"B": self._bind, b"D": self._describe, b"E": self._execute, b"C": self._close}
        if kind not in handlers:
            raise BadMessage(f"a message of the kind {kind!r} is not served")
        handlers[kind](Reader(payload))

    def sync(self) -> None:
        """The transaction of the portals ends, unless the client began one."""
        if self._session.settings.transaction == "I":
            self._end_all()

    def deallocate(self, name: str) -> None:
        """End a prepared statement, or all."""
        for statement in [name] if name else list(self._prepared):
            self._forget(statement)

    def _forget(self, name: str) -> None:
        self._prepared.pop(name, None)
        self._session.holdings.drop(("statement", name))

    def close(self) -> None:
        """The client has gone."""
        self._end_all()
        self.cursors.close()

    def _end_all(self) -> None:
        for name in list(self._portals):
            self._end(name)

    def _end(self, name: str) -> None:
        portal = self._portals.pop(name, None)
        self._session.holdings.drop(("portal", name))
        if portal is not None:
            portal.close()

    # --- messages ---------------------------------------------------------------------------------------------------

    def _parse(self, reader: Reader) -> None:
        name, whole, declared = reader.text(), reader.text(), reader.int32s()
        check_length(whole)
        self._session.subject = whole
        sql = trimmed(whole)
        if name and name in self._prepared:
            raise Failed("42P05", f'prepared statement "{name}" already exists')
        if len(self._prepared) >= _MOST:
            raise Failed("54000", f"{len(self._prepared)} statements are prepared: DEALLOCATE some")
        prepared = self.read(sql, declared)
        self._session.holdings.keep(("statement", name), name, prepared.sql, prepared.oids)
        self._prepared[name] = prepared
        self._session.channel.send(b"1")

    def read(self, sql: str, declared: Sequence[int]) -> Prepared:
        """A statement with the types of its parameters, as far as the client declared them."""
        words = [text for kind, text in tokens(sql) if kind != "space"]
        trial = self._session.settings.trial()
        declares = Declared.of(sql)
        if declares is not None:
            if Declared.of(declares.query) is not None:
                raise Failed("42601", "a cursor is of a SELECT, and not of a DECLARE")
            inner = self.read(declares.query, declared)
            if inner.command:
                raise Failed("42601", "a cursor is of a SELECT")
            return Prepared(inner.sql, inner.oids, command=True, declares=declares)
        if not words or words[0].upper() in ("COPY", "FETCH", "MOVE") or trial.run(sql) is not None:
            return Prepared(sql, [], command=True)
        respelled_sql = respelled(sql, self._session.analyst.login.user)
        count = max((int(word[1:]) for kind, word in tokens(respelled_sql) if kind == "parameter"), default=0)
        if count > 1000:
            raise Failed("54000", "a statement may have 1000 parameters")
        oids = cast_to_arrays(sql, [*declared, *[0] * count][:count])
        if 0 in oids:
            single, of_arrays = of_any(respelled_sql)
            inferred = self._session.analyst.parameter_types(self._session.analyst.check(single), count)
            for number in of_arrays:
                inferred[number - 1] = array_of(inferred[number - 1])
            oids = [oid or other for oid, other in zip(oids, inferred, strict=True)]
        return Prepared(cast(respelled_sql, oids), [oid or pgtypes.TEXT.oid for oid in oids], command=False)

    def _bind(self, reader: Reader) -> None:
        name, source = reader.text(), reader.text()
        prepared = self._prepared.get(source)
        if prepared is None:
            raise Failed("26000", f'prepared statement "{source}" does not exist')
        self._session.subject = prepared.sql
        forms, raw, results = reader.int16s(), reader.values(), reader.int16s()
        if len(raw) != len(prepared.oids):
            raise BadMessage(f"{len(raw)} parameters are given, the statement has {len(prepared.oids)}")
        form = [*forms] if len(forms) > 1 else [*(forms or [0])] * len(raw)
        if len(form) < len(raw):
            raise BadMessage("there are fewer formats than parameters")
        values = [decode.value(*parameter) for parameter in zip(raw, form, prepared.oids, strict=False)]
        self._end(name)
        if len(self._portals) >= _MOST:
            raise Failed("54000", f"{_MOST} portals are open")
        self._session.holdings.keep(("portal", name), name, values)
        self._portals[name] = Portal(prepared, values, Formats(tuple(results)))
        self._session.channel.send(b"2")

    def _describe(self, reader: Reader) -> None:
        what, name = reader.take(1), reader.text()
        channel = self._session.channel
        if what == b"P":
            self._describe_portal(name)
            return
        prepared = self._prepared.get(name)
        if prepared is None:
            raise Failed("26000", f'prepared statement "{name}" does not exist')
        channel.send(b"t", struct.pack(f"!h{len(prepared.oids)}i", len(prepared.oids), *prepared.oids))
        if prepared.command:
            self._describe_command(prepared, Formats())
            return
        self._session.check_going_on()
        checked = self._session.analyst.check(with_nulls(prepared.sql))
        try:
            columns = self._session.analyst.columns(checked)
        except (DpsqlError, duckdb.Error):
            if not checked.calls or not prepared.oids:
                raise
            prepared.untold = True
            channel.send(b"n")
            return
        channel.send(b"T", Formats().description(columns))

    def _describe_portal(self, name: str) -> None:
        channel = self._session.channel
        columns = None if name in self._portals else self.cursors.columns(name)
        if columns is not None:
            channel.send(b"T", Formats().description(columns))
            return
        portal = self._portal(name)
        if portal.prepared.command:
            self._describe_command(portal.prepared, portal.formats)
            return
        channel.send(b"T", portal.formats.description(portal.described(self._session)))

    def _describe_command(self, prepared: Prepared, formats: Formats) -> None:
        fetched = Fetched.of(prepared.sql)
        columns = None if fetched is None or fetched.moves else self.cursors.columns(fetched.name)
        if columns is not None:
            self._session.channel.send(b"T", formats.description(columns))
            return
        answer = self._session.settings.trial().run(prepared.sql)
        if answer is None or answer.row is None:
            self._session.channel.send(b"n")
        else:
            self._session.channel.send(b"T", row_description([(answer.row[0], 25, -1, -1, 0)]))

    def _execute(self, reader: Reader) -> None:
        name, most = reader.text(), reader.int32()
        portal = self._portal(name)
        session = self._session
        if portal.prepared.command:
            self._run_command(portal)
            return
        if portal.prepared.untold and not portal.is_described:  # before the charge: who asks so cannot read the rows
            raise Failed(
                "0A000",
                "the columns depend on the parameters, and this client asks for them before it gives those: "
                "write the arguments of dp_* functions into the statement",
            )
        portal.start(session)
        count, ended = portal.send(session, most if most > 0 else inf)
        if not ended:
            session.channel.send(b"s")
            return
        tag = tag_of(portal.prepared.sql)
        session.channel.send(b"C", text(f"{tag} {count}" if tag == "SELECT" else tag))

    def cursor(self, sql: str, formats: Formats, *, describes: bool) -> bool:
        """Obey a FETCH, MOVE or CLOSE; whether it was one."""
        fetched = Fetched.of(sql)
        if fetched is None:
            return self.cursors.end(sql)
        self._session.check_going_on()
        self.cursors.fetch(fetched, formats, describes=describes)
        return True

    def _run_command(self, portal: Portal) -> None:
        session, sql = self._session, portal.prepared.sql
        if portal.prepared.declares is not None:
            self.cursors.declare(portal.prepared.declares, portal.prepared, portal.parameters)
            return
        if self.cursor(sql, portal.formats, describes=False):
            return
        if not sql.strip():
            session.channel.send(b"I")
            return
        answer = session.settings.run(sql)
        if answer is not None:
            if answer.row is not None:
                raw = answer.row[1].encode()
                session.channel.send(b"D", struct.pack("!hi", 1, len(raw)) + raw)
            self.answer_command(replace(answer, row=None))
            return
        copy = Copy.of(sql)
        if copy is not None:
            session.check_going_on()
            session.set_out()
            copy.run(session)

    def answer_command(self, answer: CommandAnswer) -> None:
        """Answer a command."""
        if answer.savepoint is not None:
            self.cursors.savepoint(answer.tag, answer.savepoint)
        if answer.tag == "DISCARD ALL":
            self.cursors.discard()
        self._session.report()
        if answer.deallocate is not None:
            self.deallocate(answer.deallocate)
        if answer.tag in ("COMMIT", "ROLLBACK") and self._session.settings.transaction == "I":
            self.cursors.ended(committed=answer.tag == "COMMIT")
        self._session.channel.send(b"C", text(answer.tag))

    def _portal(self, name: str) -> Portal:
        if name not in self._portals:
            raise Failed("34000", f'portal "{name}" does not exist')
        self._session.subject = self._portals[name].prepared.sql
        return self._portals[name]

    def _close(self, reader: Reader) -> None:
        what, name = reader.take(1), reader.text()
        if what == b"P":
            self._end(name)
        else:
            self._forget(name)
        self._session.channel.send(b"3")


def cast(sql: str, oids: Sequence[int]) -> str:
    """The statement with each parameter cast to its type, so that a text that is sent is read as one of that type."""
    shown = []
    for kind, word in tokens(sql):
        duckdb_type = pgtypes.DUCKDB.get(oids[int(word[1:]) - 1]) if kind == "parameter" else None
        shown.append(f"CAST({word} AS {duckdb_type})" if duckdb_type else word)
    return "".join(shown)


def with_nulls(sql: str) -> str:
    """The statement with NULL for each parameter: its columns are the same."""
    return "".join("NULL" if kind == "parameter" else word for kind, word in tokens(sql))


def tag_of(sql: str) -> str:
    """The tag of a statement that has rows."""
    word = next((text for kind, text in tokens(sql) if kind == "word"), "").upper()
    return "EXPLAIN" if word == "EXPLAIN" else "SELECT"
