"""`COPY (query) TO STDOUT`, as text, csv or in PostgreSQL's binary format."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from dpsql.core.names import quote
from dpsql.service.allowlist import NotAllowed
from dpsql.service.analyst import Execution
from dpsql.service.respell import respelled
from dpsql.service.tokens import Token, tokens

from .copy_options import Options, options
from .encode import copy_lines, texts
from .messages import text
from .results import Formats, copy_shape
from .session_state import SessionState

_BINARY: Final = Formats((1,))
_HEAD: Final = b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0)
"""Of the binary format: the signature, no flags, nothing more. PostgreSQL sends it in the message of the first row."""
_TAIL: Final = struct.pack("!h", -1)


@dataclass(frozen=True)
class Copy:
    """What is copied, and how.

    Attributes:
        query: whose rows.
        options: of the format.
    """

    query: str
    options: Options

    @classmethod
    def of(cls, sql: str) -> Copy | None:
        """Of a statement; None if it is no COPY.

        Raises:
            NotAllowed: it copies to elsewhere, or from somewhere.
        """
        sql_tokens = tokens(sql.strip())
        if not sql_tokens or sql_tokens[0][1].upper() != "COPY":
            return None
        inner, rest = _parted(sql_tokens[1:])
        words = [(kind, word) for kind, word in rest if kind != "space"]
        if [word.upper() for _, word in words[:2]] != ["TO", "STDOUT"]:
            raise NotAllowed("of COPY, COPY (query) TO STDOUT is served")
        more = words[3:] if [word.upper() for _, word in words[2:3]] == ["WITH"] else words[2:]
        return cls(_query_of(inner.strip()), options(more))

    def run(self, session: SessionState) -> None:
        """Send the rows."""
        checked = session.analyst.check(respelled(self.query, session.analyst.login.user))
        binary = self.options.form == "binary"
        execution = session.analyst.run(checked, _BINARY.shape if binary else copy_shape(self.options))
        try:
            columns = len(execution.columns)
            session.channel.send(b"H", struct.pack(f"!bh{columns}h", binary, columns, *[int(binary)] * columns))
            count = 0
            for rows, messages in self._messages(execution, binary=binary):
                count = session.counted(count, rows)
                session.channel.send_raw(messages)
            session.channel.send(b"c")
            session.channel.send(b"C", text(f"COPY {count - self.options.header}"))
        finally:
            execution.close()

    @staticmethod
    def _messages(execution: Execution, *, binary: bool) -> Iterator[tuple[int, bytes]]:
        """How many rows, and their messages: one for each, because clients take a message for a row."""
        head = _HEAD if binary else b""
        while (batch := execution.next()) is not None:
            if not binary:
                yield batch.num_rows, copy_lines(texts(batch.column(0)))
            elif batch.num_rows:
                rows = _BINARY.rows(batch, execution.columns, b"d")
                (length,) = struct.unpack_from("!i", rows, 1)
                yield batch.num_rows, b"d" + struct.pack("!i", length + len(head)) + head + rows[5:]
                head = b""
        if binary:
            yield 0, b"d" + struct.pack("!i", 4 + len(head + _TAIL)) + head + _TAIL


def _parted(sql_tokens: list[Token]) -> tuple[str, list[Token]]:
    """What is copied, and what follows from TO or FROM on."""
    depth = 0
    for place, (kind, word) in enumerate(sql_tokens):
        depth += (kind == "other") * ((word == "(") - (word == ")"))
        if depth == 0 and kind == "word" and word.upper() in ("TO", "FROM"):
            return "".join(inner for _, inner in sql_tokens[:place]), sql_tokens[place:]
    return "".join(inner for _, inner in sql_tokens), []


def _query_of(inner: str) -> str:
    if inner.startswith("(") and inner.endswith(")"):
        return inner[1:-1]
    name, _, columns = inner.partition("(")
    parts = [part.strip().strip('"') for part in name.strip().split(".")]
    shown = "*" if not columns else ", ".join(quote(c.strip().strip('"')) for c in columns.rstrip(") ").split(","))
    return f"SELECT {shown} FROM {'.'.join(map(quote, parts))}"  # noqa: S608 - checked as all statements are
