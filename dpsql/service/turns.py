"""Whose turn it is: one fit at a time, first come first served, and only so many wait."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dpsql.errors import DpsqlError, Interrupted


class TooMany(DpsqlError):
    """So many calls wait already that no other may. Nothing was charged."""


@dataclass(eq=False)
class _Ticket:
    """A call that waits or runs, and whose it is."""

    user: str


class Turns:
    """A queue of calls.

    Attributes:
        longest: how many may wait.
        most: how many of one user's may wait or run.
    """

    def __init__(self, longest: int, most: int) -> None:
        self.longest, self.most = longest, most
        self._waiting: deque[_Ticket] = deque()
        self._changed = threading.Condition()

    def __len__(self) -> int:
        """How many wait or run."""
        return len(self._waiting)

    @contextmanager
    def turn(self, user: str, cancelled: Callable[[], bool], notify: Callable[[int], None]) -> Iterator[None]:
        """Wait for the turn, and have it while inside.

        Args:
            user: whose call it is.
            cancelled: whether to wait no longer; asked ten times a second.
            notify: is told how many are before this one, when that changes.

        Raises:
            TooMany: the queue is full, or so many of the user's are in it that no other may.
            Interrupted: it was cancelled.
        """
        ticket = _Ticket(user)
        with self._changed:
            if sum(other.user == user for other in self._waiting) >= self.most:
                raise TooMany(f"{self.most} calls of yours wait or run already: try again later; nothing was charged")
            if len(self._waiting) > self.longest:
                raise TooMany(f"{self.longest} calls wait already: try again later; nothing was charged")
            self._waiting.append(ticket)
        try:
            last = 0
            while (before := self._before(ticket)) > 0:
                if before != last:
                    last = before
                    notify(before)
                if cancelled():
                    raise Interrupted
            yield
        finally:
            with self._changed:
                self._waiting.remove(ticket)
                self._changed.notify_all()

    def _before(self, ticket: _Ticket) -> int:
        with self._changed:
            if self._waiting[0] is not ticket:
                self._changed.wait(0.1)
            return self._waiting.index(ticket)
