"""Requests to a user's process of Quack, and their answers, as the relay passes them on, one a connection."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable
from typing import Final

from .quack_messages import failure, session_of
from .relay import SEND_SECONDS, Pair
from .workers import TOO_LATE, Worker

_LONGEST: Final = 4096
"""Of the answer to a login."""
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Exchange(Pair):
    """A request, and its answer: who asked takes it away, and nothing more of theirs is read.

    Args:
        ends: the client's connection, and the one to the process.
        number: of the session.
        worker: the process.
        request: over HTTP.
        silence: seconds after which a process is ended that answers nothing, and does not say that it works for it.
    """

    def __init__(
        self, ends: tuple[socket.socket, socket.socket], number: int, worker: Worker, request: bytes, silence: float
    ) -> None:
        super().__init__(*ends, number, worker)
        self._to_worker += request
        self._silence, self._heard = silence, time.monotonic()

    @property
    def wants(self) -> tuple[int, int]:
        """See `Pair.wants`."""
        _, inner = super().wants
        return _WRITE if self._to_client else 0, inner

    def look(self, now: float) -> None:
        """End it as a pair is ended; and the process, where it is silent."""
        super().look(now)
        if self._to_client or self.number in self.worker.at_work:  # the client is slow, or the statement
            self._heard = now
        if now - self._heard > self._silence:
            self.worker.reason = TOO_LATE
            self.worker.kill()

    def _upwards(self) -> bool:
        return self._flush(self.inner, self._to_worker)

    def _take(self, data: bytes) -> None:
        self._heard, self._whole = time.monotonic(), False
        self._to_client += data

    def _hear_end(self) -> None:
        if self._whole:  # nothing was answered
            self.is_broken = True
        else:
            self._is_leaving, self._ends = True, time.monotonic() + SEND_SECONDS

    def _goodbye(self, code: str, words: str) -> bytes:
        return failure(words)


class LoggingIn(Exchange):
    """A login: its answer is short, and is passed on when the session that it names is noted.

    Args:
        ends: as of an exchange; and so are `number`, `worker`, `request` and `silence`.
        noted: told of it when its session is there.

    Attributes:
        session: which the answer names.
    """

    session: bytes | None = None

    def __init__(
        self,
        ends: tuple[socket.socket, socket.socket],
        number: int,
        worker: Worker,
        request: bytes,
        silence: float,
        noted: Callable[[LoggingIn], None],
    ) -> None:
        super().__init__(ends, number, worker, request, silence)
        self._first_bytes, self._noted = bytearray(), noted

    def _take(self, data: bytes) -> None:
        self._first_bytes += data
        if len(self._first_bytes) > _LONGEST:
            self._hear_end()

    def _hear_end(self) -> None:
        if self._first_bytes:
            self.session = session_of(bytes(self._first_bytes))
            if self.session is not None:
                self._noted(self)
            super()._take(bytes(self._first_bytes))
        super()._hear_end()
