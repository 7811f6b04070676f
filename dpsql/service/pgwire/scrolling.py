"""Cursors that go back, too: the rows that such a cursor has passed are kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np
import pyarrow as pa

from .cursor_words import Fetched
from .portals import Portal
from .session_state import SessionState


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

    def fetch(self, session: SessionState, fetched: Fetched) -> int:
        """Go, and send the rows that are not only passed over; how many they are."""
        with self.portal.reading():
            rows, at = self._places(session, fetched)
            session.counted(0, len(rows))
            self.at = at
            if rows and not fetched.moves:
                self._send(session, rows)
        return len(rows)

    def _places(self, session: SessionState, fetched: Fetched) -> tuple[range, int]:
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

    def _reach(self, session: SessionState, row: float) -> int:
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

    def _send(self, session: SessionState, rows: range) -> None:
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
