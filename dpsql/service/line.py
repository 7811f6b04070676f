"""A user's process, as it sees who started it: it is handed sessions, and says what happens to them. See `workers`."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any

from dpsql.errors import DpsqlError

from . import wire
from .workers import AUDIT, BEAT, BEAT_SECONDS, CANCEL, SESSION


class Line:
    """The line to who started this process.

    Args:
        connection: the line itself.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._lock = connection, threading.Lock()
        self._answers: deque[SimpleQueue[str]] = deque()
        self._beat = 0.0

    def obey(self, begin: Callable[[dict[str, Any], socket.socket], None], cancel: Callable[[int], None]) -> None:
        """Do what is said, until who says it is gone.

        Args:
            begin: a session, with what is told of it and its connection.
            cancel: what the session of a number does now.

        Raises:
            Lost: it is gone.
        """
        while True:
            kind, payload, descriptors = wire.receive_passed(self._connection)
            value = json.loads(payload)
            if kind == SESSION:
                begin(value, socket.socket(fileno=descriptors[0]))
            elif kind == AUDIT:
                self._answers.popleft().put(value)
            elif kind == CANCEL:
                cancel(value)

    def audit(self, event: dict[str, Any]) -> None:
        """Have a line of the audit log written, and wait until the disk has it.

        Raises:
            DpsqlError: it cannot be written.
        """
        answer: SimpleQueue[str] = SimpleQueue()
        with self._lock:
            self._answers.append(answer)
            wire.send_json(self._connection, event, AUDIT)
        words = answer.get()
        if words:
            raise DpsqlError(words)

    def tell(self, kind: bytes, value: Any) -> None:
        """Say something."""
        with self._lock:
            wire.send_json(self._connection, value, kind)

    def beat(self, at_work: Sequence[int] = ()) -> None:
        """Say that this process is there, and for which sessions it works; called more often than it has to be said."""
        now = time.monotonic()
        if now - self._beat > BEAT_SECONDS:
            self._beat = now
            self.tell(BEAT, list(at_work))
