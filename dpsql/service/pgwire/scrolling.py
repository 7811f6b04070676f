"""Where FETCH and MOVE go, and cursors that go back: the rows that such a cursor has passed are kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from dpsql.service.tokens import first_word, tokens

from .failed import Failed
from .portals import Portal

if TYPE_CHECKING:
    from .session import Session

_WAYS: Final = {
    "NEXT": ("FORWARD", 1.0),
    "PRIOR": ("BACKWARD", 1.0),
    "FIRST": ("ABSOLUTE", 1.0),
    "LAST": ("ABSOLUTE", -1.0),
}
_COUNTED: Final = frozenset({"FORWARD", "BACKWARD", "ABSOLUTE", "RELATIVE"})
_LONGEST: Final = 9
"""Digits of a count."""


@dataclass(frozen=True)
class Fetched:
    """What a FETCH or MOVE says.

    Attributes:
        name: of the cursor.
        way: `FORWARD` or `BACKWARD` some rows, or to one row: `ABSOLUTE` or `RELATIVE`.
        count: of rows, or which row.
        moves: whether they are passed over only.
    """

    name: str
    way: str
    count: float
    moves: bool

    @classmethod
    def of(cls, sql: str) -> Fetched | None:
        """Of a statement; None if it is neither.

        Raises:
            Failed: it is one, but not as PostgreSQL has it.
        """
        if first_word(sql) not in ("FETCH", "MOVE"):
            return None
        shown = [word for kind, word in tokens(sql) if kind != "space"]
        words = [word.upper() for word in shown]
        if len(words) < 2:
            return None
        middle = [word for word in words[1:-1] if word not in ("FROM", "IN")]
        way, count = _WAYS.get(middle[0] if middle else "NEXT", ("", 0.0))
        if not way or len(middle) > 1:
            way = middle.pop(0) if middle[0] in _COUNTED else "FORWARD"
            count = _count(middle, way)
        if way in ("FORWARD", "BACKWARD") and count < 0:
            way, count = "BACKWARD" if way == "FORWARD" else "FORWARD", -count
        return cls(name_of(shown[-1]), way, count, words[0] == "MOVE")


def _count(words: list[str], way: str) -> float:
    """How many rows, or which one."""
    if way in ("FORWARD", "BACKWARD") and words in ([], ["ALL"]):
        return inf if words else 1.0
    text = "".join(words)
    digits = text.lstrip("+-")
    if len(text) - len(digits) > 1 or not digits.isdecimal() or len(digits) > _LONGEST:
        raise Failed("42601", "rows of a cursor are fetched by FETCH FORWARD 100 FROM name")
    return float(text)


def name_of(word: str) -> str:
    """A name as PostgreSQL reads it."""
    return word[1:-1].replace('""', '"') if word.startswith('"') else word.lower()


def ahead(fetched: Fetched, passed: int) -> tuple[float, float]:
    """How many rows to pass over and to take then, for a cursor that goes forward only.

    Args:
        fetched: where to.
        passed: how many rows it has passed.

    Raises:
        Failed: it would go back.
    """
    if fetched.way == "FORWARD" and fetched.count > 0:
        return 0, fetched.count
    row = fetched.count + (passed if fetched.way == "RELATIVE" else 0)
    if fetched.way in ("FORWARD", "BACKWARD") or row <= passed:
        raise Failed(
            "55000", "cursor can only scan forward: declare it with SCROLL to go back, and to know its last row"
        )
    return row - passed - 1, 1


@dataclass
class Scroll:
    """A cursor that goes both ways.

    Attributes:
        portal: whose rows it has.
        key: of what the session keeps for it.
        at: the row that it stands on, from 1; 0 before the first one, and one more than there are after the last.
    """

    portal: Portal
    key: tuple[str, str]
    at: int = 0
    _batches: list[Any] = field(default_factory=list)
    _read: int = 0
    _bytes: int = 0
    _whole: bool = False

    def fetch(self, session: Session, fetched: Fetched) -> int:
        """Go, and send the rows that are not only passed over; how many they are."""
        with self.portal.reading():
            rows, at = self._places(session, fetched)
            session.counted(0, len(rows))
            self.at = at
            if rows and not fetched.moves:
                self._send(session, rows)
        return len(rows)

    def _places(self, session: Session, fetched: Fetched) -> tuple[range, int]:
        """The rows, and where the cursor stands then."""
        here, count = self.at, fetched.count
        if fetched.way == "FORWARD" and count > 0:
            last = self._reach(session, here + count)
            return range(here + 1, last + 1), self._read + 1 if last < here + count else last
        if fetched.way == "BACKWARD" and count > 0:
            first = int(max(here - count, 1))
            return range(here - 1, first - 1, -1), 0 if here - count < 1 else first
        if fetched.way == "ABSOLUTE" and count < 0:
            self._reach(session, inf)
            row = self._read + 1 + count
        else:
            row = count if fetched.way == "ABSOLUTE" else here + (count if fetched.way == "RELATIVE" else 0)
        self._reach(session, row)
        at = int(max(0, min(row, self._read + 1)))
        return range(at, at + (1 <= at <= self._read)), at

    def _reach(self, session: Session, row: float) -> int:
        """Read up to a row; the last one up to there that is."""
        assert self.portal.execution is not None
        while self._read < row and not self._whole:
            batch = self.portal.execution.next()
            if batch is None:
                self._whole = True
                break
            session.holdings.take(self.key, self._bytes + batch.nbytes)
            self._bytes += batch.nbytes
            self._read += batch.num_rows
            self._batches.append(batch)
        return int(min(row, self._read))

    def _send(self, session: Session, rows: range) -> None:
        begin, backward = 0, rows[0] > rows[-1]
        low, high = min(rows[0], rows[-1]), max(rows[0], rows[-1])
        parts = []
        for batch in self._batches:
            first, last = max(low, begin + 1), min(high, begin + batch.num_rows)
            if first <= last:
                part = batch.slice(first - begin - 1, last - first + 1)
                parts.append(part.take(pa.array(np.arange(part.num_rows)[::-1])) if backward else part)
            begin += batch.num_rows
        for part in reversed(parts) if backward else parts:
            session.channel.send_raw(self.portal.formats.rows(part, self.portal.columns))
