"""`COPY (query) TO STDOUT`, as text or csv."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dpsql.core.names import quote
from dpsql.service.allowlist import NotAllowed
from dpsql.service.respell import respelled
from dpsql.service.tokens import tokens

from .encode import copy_lines, texts
from .messages import text
from .results import copy_shape

if TYPE_CHECKING:
    from .session import Session

_OPTION: Final = re.compile(
    r"(?:FORMAT\s+)?(?P<format>csv|text|binary)|DELIMITER\s+(?:AS\s+)?'(?P<delimiter>[^'])'"
    r"|NULL\s+(?:AS\s+)?'(?P<null>[^']*)'|(?P<header>HEADER)(?:\s+(?P<off>false|off|0)|\s+(?:true|on|1))?"
    r"|(?P<ignored>ENCODING\s+'utf-?8'|WITH)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Copy:
    """What is copied, and how.

    Attributes:
        query: whose rows.
        csv: whether as csv.
        delimiter: between the values.
        null: for NULL.
        header: whether names come first.
    """

    query: str
    csv: bool
    delimiter: str
    null: str
    header: bool

    @classmethod
    def of(cls, sql: str) -> Copy | None:
        """Of a statement; None if it is no COPY.

        Raises:
            NotAllowed: it copies to elsewhere, or from somewhere.
        """
        found = tokens(sql.strip())
        if not found or found[0][1].upper() != "COPY":
            return None
        depth, inner, rest, place = 0, "", "", ""
        for kind, word in found[1:]:
            depth -= word == ")" and kind == "other"
            if place == "rest":
                rest += word
            elif depth == 0 and kind == "word" and word.upper() in ("TO", "FROM"):
                place, rest = "rest", word
            else:
                inner += word
            depth += word == "(" and kind == "other"
        options = re.fullmatch(r"TO\s+STDOUT\b\s*(?:WITH\b)?\s*(\(?)(.*?)(\)?)", rest.strip(), re.I | re.S)
        if options is None or bool(options[1]) != bool(options[3]):
            raise NotAllowed("of COPY, COPY (query) TO STDOUT is served")
        return cls._with(_query_of(inner.strip()), options[2])

    @classmethod
    def _with(cls, query: str, options: str) -> Copy:
        form, delimiter, null, header, place = "text", None, None, False, 0
        options = options.strip()
        while place < len(options):
            found = _OPTION.match(options, place)
            if found is None:
                raise NotAllowed(f"COPY's option {options[place : place + 30]!r} is not served")
            form = (found["format"] or form).lower()
            delimiter = found["delimiter"] or delimiter
            null = found["null"] if found["null"] is not None else null
            header = header or (bool(found["header"]) and not found["off"])
            place = found.end()
            place += len(options[place:]) - len(options[place:].lstrip(" ,\n\t"))
        if form == "binary":
            raise NotAllowed("COPY is served as text and csv, not as binary")
        csv = form == "csv"
        return cls(
            query, csv, delimiter or ("," if csv else "\t"), null if null is not None else _null(csv=csv), header
        )

    def run(self, session: Session) -> None:
        """Send the rows."""
        checked = session.analyst.check(respelled(self.query, session.analyst.login.user))
        shape = copy_shape(csv=self.csv, delimiter=self.delimiter, null=self.null, header=self.header)
        execution = session.analyst.run(checked, shape)
        try:
            columns = len(execution.columns)
            session.channel.send(b"H", struct.pack(f"!bh{columns}h", 0, columns, *[0] * columns))
            count = 0
            while (batch := execution.next()) is not None:
                count = session.counted(count, batch.num_rows)
                session.channel.send_raw(copy_lines(texts(batch.column(0))))
            session.channel.send(b"c")
            session.channel.send(b"C", text(f"COPY {count - self.header}"))
        finally:
            execution.close()


def _null(*, csv: bool) -> str:
    return "" if csv else "\\N"


def _query_of(inner: str) -> str:
    if inner.startswith("(") and inner.endswith(")"):
        return inner[1:-1]
    name, _, columns = inner.partition("(")
    parts = [part.strip().strip('"') for part in name.strip().split(".")]
    shown = "*" if not columns else ", ".join(quote(c.strip().strip('"')) for c in columns.rstrip(") ").split(","))
    return f"SELECT {shown} FROM {'.'.join(map(quote, parts))}"  # noqa: S608 - checked as all statements are
