"""Who has not logged in yet, at both doors: a fixed number of threads serves them, and each of them has its time.

When too many come at once, the one that has been at it for longest is sent away, so that silent connections keep
nobody out. Who is refused hears of it later, because guesses cost time, and takes no thread and no place until then.
"""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from . import wire
from .nursery import again

PLACES: Final = 200
"""At a door, at one time."""
_LEAST_SECONDS: Final = 1.0
"""That each has, whoever comes after: else many wrong passwords would send a right one away."""
_REFUSED_SECONDS: Final = 0.5
_LOOK_SECONDS: Final = 0.05
_STACK_BYTES: Final = 512 << 10
_starting = threading.Lock()
"""Of rooms: the size of stacks is the process's."""


class Guest(Protocol):
    """A connection, until its login has ended."""

    def run(self) -> None:
        """Serve it; whatever it sends ends its own connection at most."""

    def end(self) -> None:
        """End the connection, whatever its thread is at."""


class Room:
    """See the module.

    Args:
        seconds: how long a login may take.
        places: how many may be at it, each in a thread that was there before; so many may be about to be refused.
    """

    def __init__(self, seconds: float, places: int = PLACES) -> None:
        self._seconds, self._places = seconds, places
        self._guests: dict[Guest, float] = {}
        self._refused: deque[tuple[float, Callable[[], None]]] = deque()
        self._accepted: queue.SimpleQueue[Guest] = queue.SimpleQueue()
        self._changed = threading.Condition()

    def __len__(self) -> int:
        """How many are at their login."""
        return len(self._guests)

    def serve(self, listening: socket.socket, guest_of: Callable[[socket.socket, str], Guest]) -> None:
        """Accept clients until the process ends.

        Args:
            listening: where they come.
            guest_of: a guest, of their connection and address.
        """
        with _starting:
            before = threading.stack_size(_STACK_BYTES)
            for _ in range(self._places):
                threading.Thread(target=self._serve_guests, daemon=True).start()
            threading.stack_size(before)
        again(self._look, _LOOK_SECONDS)
        while True:
            connection, address = wire.accepted(listening)
            with suppress(Exception):  # such as MemoryError: the next one may be let in
                self._admit(guest_of(connection, address))

    def _admit(self, guest: Guest) -> None:
        with self._changed:
            while len(self._guests) >= self._places:
                longest = next(iter(self._guests))
                left = self._guests[longest] - self._seconds + _LEAST_SECONDS - time.monotonic()
                if left > 0:
                    self._changed.wait(left)
                else:
                    del self._guests[longest]
                    longest.end()
            self._guests[guest] = time.monotonic() + self._seconds
        self._accepted.put(guest)

    def _serve_guests(self) -> None:
        while True:
            guest = self._accepted.get()
            with suppress(Exception):
                guest.run()
            self.leave(guest)

    def leave(self, guest: Guest) -> None:
        """A guest is at its login no longer."""
        with self._changed:
            if self._guests.pop(guest, None) is not None:
                self._changed.notify_all()

    def refuse_later(self, goodbye: Callable[[], None]) -> None:
        """Have a guest refused in a while.

        Args:
            goodbye: refuses it, and waits for nothing.
        """
        with self._changed:
            self._refused.append((time.monotonic() + _REFUSED_SECONDS, goodbye))
            goodbye = self._refused.popleft()[1] if len(self._refused) > self._places else _nothing
        goodbye()

    def _look(self) -> None:
        """End logins that take too long, and refuse those whose time has come."""
        now = time.monotonic()
        with self._changed:
            late = [guest for guest, until in self._guests.items() if now > until]
            due = []
            while self._refused and self._refused[0][0] < now:
                due.append(self._refused.popleft()[1])
        for call in [*due, *(guest.end for guest in late)]:
            with suppress(Exception):
                call()


def _nothing() -> None:
    """Nobody is refused early."""
