"""The extended protocol: prepared statements with parameters, and portals that send some rows at a time."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from dpsql.service import pgtypes
from dpsql.service.allowlist import Checked, check_length
from dpsql.service.analyst import Execution
from dpsql.service.directory import Columns
from dpsql.service.respell import respelled
from dpsql.service.tokens import tokens, trimmed

from . import decode
from .commands import Said
from .copying import Copy
from .messages import BadMessage, Reader, row_description, text
from .results import Formats

if TYPE_CHECKING:
    from .session import Session

_MOST: Final = 1000
"""Prepared statements, and portals, of a session."""
_MOST_CHARACTERS: Final = 4_000_000
"""Of all prepared statements of a session together."""


class Failed(Exception):
    """What the protocol itself refuses.

    Attributes:
        code: of PostgreSQL.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass
class Prepared:
    """A statement with its parameters' types.

    Attributes:
        sql: as it is run, in DuckDB's spelling; a command as it came.
        oids: of the parameters.
        command: what is no SELECT.
    """

    sql: str
    oids: list[int]
    command: bool


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
    """

    prepared: Prepared
    parameters: list[Any]
    formats: Formats
    execution: Execution | None = None
    left: Any = None
    sent: int = 0
    columns: Columns = field(default_factory=list)


class Extended:
    """The prepared statements and portals of a session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._prepared: dict[str, Prepared] = {}
        self._portals: dict[str, Portal] = {}

    def take(self, kind: bytes, payload: bytes) -> None:
        """Answer a message."""
        handlers = {b"P": self._parse, b"B": self._bind, b"D": self._describe, b"E": self._execute, b"C": self._close}
        if kind not in handlers:
            raise BadMessage(f"a message of the kind {kind!r} is not served")
        handlers[kind](Reader(payload))

    def _prepared_texts(self) -> list[str]:
        return [prepared.sql for prepared in self._prepared.values()]

    def sync(self) -> None:
        """The transaction of the portals ends, unless the client began one."""
        if self._session.settings.transaction == "I":
            self.close()

    def deallocate(self, name: str) -> None:
        """End a prepared statement, or all."""
        if name:
            self._prepared.pop(name, None)
        else:
            self._prepared.clear()

    def close(self) -> None:
        """End all portals."""
        for name in list(self._portals):
            self._end(name)

    def _end(self, name: str) -> None:
        portal = self._portals.pop(name, None)
        if portal is not None and portal.execution is not None:
            portal.execution.close()

    # --- messages ---------------------------------------------------------------------------------------------------

    def _parse(self, reader: Reader) -> None:
        name, whole, declared = reader.text(), reader.text(), reader.int32s()
        check_length(whole)
        sql = trimmed(whole)
        if name and name in self._prepared:
            raise Failed("42P05", f'prepared statement "{name}" already exists')
        if len(self._prepared) >= _MOST or sum(map(len, self._prepared_texts())) + len(sql) > _MOST_CHARACTERS:
            raise Failed("54000", f"{len(self._prepared)} statements are prepared: DEALLOCATE some")
        self._prepared[name] = self._read(sql, declared)
        self._session.channel.send(b"1")

    def _read(self, sql: str, declared: Sequence[int]) -> Prepared:
        words = [found for kind, found in tokens(sql) if kind != "space"]
        trial = type(self._session.settings)(1.0)
        if not words or words[0].upper() == "COPY" or trial.run(sql) is not None:
            return Prepared(sql, [], command=True)
        found = respelled(sql)
        count = max((int(word[1:]) for kind, word in tokens(found) if kind == "parameter"), default=0)
        if count > 1000:
            raise Failed("54000", "a statement may have 1000 parameters")
        oids = [*declared, *[0] * count][:count]
        if 0 in oids:
            inferred = self._session.analyst.parameter_types(self._session.analyst.check(found), count)
            oids = [oid or other for oid, other in zip(oids, inferred, strict=True)]
        return Prepared(cast(found, oids), [oid or pgtypes.TEXT.oid for oid in oids], command=False)

    def _bind(self, reader: Reader) -> None:
        name, source = reader.text(), reader.text()
        prepared = self._prepared.get(source)
        if prepared is None:
            raise Failed("26000", f'prepared statement "{source}" does not exist')
        forms, raw, results = reader.int16s(), reader.values(), reader.int16s()
        if len(raw) != len(prepared.oids):
            raise BadMessage(f"{len(raw)} parameters are given, the statement has {len(prepared.oids)}")
        form = [*forms] if len(forms) > 1 else [*(forms or [0])] * len(raw)
        if len(form) < len(raw):
            raise BadMessage("there are fewer formats than parameters")
        values = [decode.value(*one) for one in zip(raw, form, prepared.oids, strict=False)]
        self._end(name)
        if len(self._portals) >= _MOST:
            raise Failed("54000", f"{_MOST} portals are open")
        self._portals[name] = Portal(prepared, values, Formats(tuple(results)))
        self._session.channel.send(b"2")

    def _describe(self, reader: Reader) -> None:
        what, name = reader.take(1), reader.text()
        channel = self._session.channel
        if what == b"P":
            portal = self._portal(name)
            if portal.prepared.command:
                self._describe_command(portal.prepared)
            else:
                channel.send(b"T", portal.formats.description(self._columns(portal)))
            return
        prepared = self._prepared.get(name)
        if prepared is None:
            raise Failed("26000", f'prepared statement "{name}" does not exist')
        channel.send(b"t", struct.pack(f"!h{len(prepared.oids)}i", len(prepared.oids), *prepared.oids))
        if prepared.command:
            self._describe_command(prepared)
            return
        self._session.allowed(prepared.sql)
        checked = self._session.analyst.check(with_nulls(prepared.sql))
        channel.send(b"T", Formats().description(self._session.analyst.columns(checked)))

    def _describe_command(self, prepared: Prepared) -> None:
        said = type(self._session.settings)(1.0).run(prepared.sql)
        if said is None or said.row is None:
            self._session.channel.send(b"n")
        else:
            self._session.channel.send(b"T", row_description([(said.row[0], 25, -1, -1, 0)]))

    def _execute(self, reader: Reader) -> None:
        name, most = reader.text(), reader.int32()
        portal = self._portal(name)
        session = self._session
        if portal.prepared.command:
            self._run_command(portal.prepared.sql)
            return
        self._start(portal)
        assert portal.execution is not None
        count = 0
        while most <= 0 or count < most:
            batch = portal.left if portal.left is not None else portal.execution.next()
            portal.left = None
            if batch is None:
                tag = tag_of(portal.prepared.sql)
                session.channel.send(b"C", text(f"{tag} {count}" if tag == "SELECT" else tag))
                return
            if 0 < most < count + batch.num_rows:
                portal.left = batch.slice(most - count)
                batch = batch.slice(0, most - count)
            count += batch.num_rows
            portal.sent = session.counted(portal.sent, batch.num_rows)
            session.channel.send_raw(portal.formats.rows(batch, portal.columns))
        session.channel.send(b"s")

    def _run_command(self, sql: str) -> None:
        session = self._session
        if not sql.strip():
            session.channel.send(b"I")
            return
        said = session.settings.run(sql)
        if said is not None:
            if said.row is not None:
                raw = said.row[1].encode()
                session.channel.send(b"D", struct.pack("!hi", 1, len(raw)) + raw)
            session.said(Said(said.tag, deallocate=said.deallocate, reported=said.reported))
            return
        copy = Copy.of(sql)
        if copy is not None:
            session.allowed(sql)
            session.analyst.seconds = session.settings.seconds
            copy.run(session)

    def _columns(self, portal: Portal) -> Columns:
        """Of a portal: it runs, unless that is charged for, which only Execute may be."""
        if portal.execution is None:
            checked = self._checked(portal)
            if checked.calls:
                return self._session.analyst.columns(checked, portal.parameters)
            self._start(portal)
        return portal.columns

    def _checked(self, portal: Portal) -> Checked:
        self._session.allowed(portal.prepared.sql)
        self._session.analyst.seconds = self._session.settings.seconds
        return self._session.analyst.check(portal.prepared.sql)

    def _start(self, portal: Portal) -> None:
        """Run it, once."""
        if portal.execution is None:
            checked, analyst = self._checked(portal), self._session.analyst
            portal.execution = analyst.run(checked, portal.formats.shape, portal.parameters)
            portal.columns = portal.execution.columns

    def _portal(self, name: str) -> Portal:
        if name not in self._portals:
            raise Failed("34000", f'portal "{name}" does not exist')
        return self._portals[name]

    def _close(self, reader: Reader) -> None:
        what, name = reader.take(1), reader.text()
        if what == b"P":
            self._end(name)
        else:
            self._prepared.pop(name, None)
        self._session.channel.send(b"3")


def cast(sql: str, oids: Sequence[int]) -> str:
    """The statement with each parameter cast to its type, so that a text that is sent is read as one of that type."""
    shown = []
    for kind, word in tokens(sql):
        known = pgtypes.DUCKDB.get(oids[int(word[1:]) - 1]) if kind == "parameter" else None
        shown.append(f"CAST({word} AS {known})" if known else word)
    return "".join(shown)


def with_nulls(sql: str) -> str:
    """The statement with NULL for each parameter: its columns are the same."""
    return "".join("NULL" if kind == "parameter" else word for kind, word in tokens(sql))


def tag_of(sql: str) -> str:
    """The tag of a statement that has rows."""
    word = next((found for kind, found in tokens(sql) if kind == "word"), "").upper()
    return "EXPLAIN" if word == "EXPLAIN" else "SELECT"
