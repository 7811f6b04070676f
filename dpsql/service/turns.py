"""Whose turn it is: calls that charge one after the other, free ones so many of each user, first come first served."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from dpsql.errors import DpsqlError, Interrupted

Value = TypeVar("Value")


class TooMany(DpsqlError):
    """So many calls wait already that no other may. Nothing was charged."""


class Lookups(Generic[Value]):
    """What was looked up for one statement, which asks for it in steps, so that it is done once.

    Attributes:
        most: how many are kept of one user.
        seconds: for how long.
    """

    def __init__(self, most: int, seconds: float) -> None:
        self.most, self.seconds = most, seconds
        self._entries: OrderedDict[tuple[str, str], tuple[float, Value]] = OrderedDict()
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._entries)

    def keep(self, user: str, key: str, value: Value) -> None:
        """For whoever takes it first; the oldest of the same user makes room for it."""
        with self._lock:
            self._entries.pop((user, key), None)
            of_user = [place for place in self._entries if place[0] == user]
            for place in of_user[: len(of_user) + 1 - self.most]:
                del self._entries[place]
            self._entries[user, key] = time.monotonic(), value
            self._forget()
            self._set_timer()

    def get(self, user: str, key: str) -> Value | None:
        """What was kept; it stays until its time is over."""
        with self._lock:
            self._forget()
            return self._entries.get((user, key), (0.0, None))[1]

    def take(self, user: str, key: str) -> Value | None:
        """What was kept; it is there no longer."""
        with self._lock:
            self._forget()
            return self._entries.pop((user, key), (0.0, None))[1]

    def _forget(self) -> None:
        late = time.monotonic() - self.seconds
        while self._entries and next(iter(self._entries.values()))[0] < late:
            self._entries.popitem(last=False)

    def _set_timer(self) -> None:
        """Forget what nobody comes for."""
        if self._entries and self._timer is None:
            self._timer = threading.Timer(max(self.seconds, 0.0), self._end_timer)
            self._timer.daemon = True
            self._timer.start()

    def _end_timer(self) -> None:
        with self._lock:
            self._timer = None
            self._forget()
            self._set_timer()


@dataclass(eq=False)
class _Ticket:
    """A call that waits or runs, and whose it is."""

    user: str


class Shares:
    """So many calls of each user at once, first come first served, so that one user's leave something to others.

    Attributes:
        most: how many of one user's may run.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._of: dict[str, list[_Ticket]] = {}
        self._changed = threading.Condition()

    @contextmanager
    def share(self, user: str, cancelled: Callable[[], bool]) -> Iterator[None]:
        """Wait while as many of the user's run as may, and count as one while inside.

        Raises:
            Interrupted: it was cancelled.
        """
        ticket = _Ticket(user)
        with self._changed:
            self._of.setdefault(user, []).append(ticket)
        try:
            while not self._begins(ticket):
                if cancelled():
                    raise Interrupted
            yield
        finally:
            with self._changed:
                self._of[user].remove(ticket)
                if not self._of[user]:
                    del self._of[user]
                self._changed.notify_all()

    def _begins(self, ticket: _Ticket) -> bool:
        """Whether it is among the first of its user's, which run."""
        with self._changed:
            first = self._of[ticket.user][: self.most]
            if ticket not in first:
                self._changed.wait(0.1)
            return ticket in first


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
