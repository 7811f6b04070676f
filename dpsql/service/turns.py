"""Whose turn it is: one fit at a time, first come first served, and only so many wait."""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from dpsql.errors import DpsqlError, Interrupted

Found = TypeVar("Found")


class TooMany(DpsqlError):
    """So many calls wait already that no other may. Nothing was charged."""


class Lookups(Generic[Found]):
    """What was looked up for one statement, which asks for it in two steps, so that it is done once.

    Attributes:
        most: how many are kept.
        seconds: for how long.
    """

    def __init__(self, most: int, seconds: float) -> None:
        self.most, self.seconds = most, seconds
        self._kept: OrderedDict[str, tuple[float, Found]] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, key: str, value: Found) -> None:
        """For whoever takes it first."""
        with self._lock:
            self._kept.pop(key, None)
            self._kept[key] = time.monotonic(), value
            self._forget()

    def take(self, key: str) -> Found | None:
        """What was kept; it is there no longer."""
        with self._lock:
            self._forget()
            return self._kept.pop(key, (0.0, None))[1]

    def _forget(self) -> None:
        late = time.monotonic() - self.seconds
        while self._kept and (len(self._kept) > self.most or next(iter(self._kept.values()))[0] < late):
            self._kept.popitem(last=False)


class Shares:
    """So many calls of each user at once, so that one user's leave something to others.

    Attributes:
        most: how many of one user's may run.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._running: Counter[str] = Counter()
        self._changed = threading.Condition()

    @contextmanager
    def share(self, user: str, cancelled: Callable[[], bool]) -> Iterator[None]:
        """Wait while as many of the user's run as may, and count as one while inside.

        Raises:
            Interrupted: it was cancelled.
        """
        while not self._begins(user):
            if cancelled():
                raise Interrupted
        try:
            yield
        finally:
            with self._changed:
                self._running[user] -= 1
                if not self._running[user]:
                    del self._running[user]
                self._changed.notify_all()

    def _begins(self, user: str) -> bool:
        with self._changed:
            if self._running[user] >= self.most:
                self._changed.wait(0.1)
                return False
            self._running[user] += 1
            return True


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
