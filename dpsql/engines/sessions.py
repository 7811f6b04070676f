"""`Sessions`: the connections that an engine has opened, ended one by one or all, from any thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar
from weakref import WeakSet


class Ended(Protocol):
    """A connection to an engine."""

    def interrupt(self) -> None:
        """End what runs, from any thread."""

    def close(self) -> None:
        """End the connection; again, nothing."""


SessionT = TypeVar("SessionT", bound=Ended)


class Sessions(Generic[SessionT]):
    """Those that are in use; one that its counter closed, and that nobody holds any more, is forgotten."""

    def __init__(self) -> None:
        self._open: WeakSet[SessionT] = WeakSet()
        self._changing = threading.Lock()

    def opened(self, session: SessionT) -> SessionT:
        """Take one over."""
        with self._changing:
            self._open.add(session)
        return session

    def end(self, session: SessionT) -> None:
        """Close one."""
        session.close()
        with self._changing:
            self._open.discard(session)

    def interrupt(self) -> None:
        """End what runs in all of them."""
        for session in self:
            session.interrupt()

    def close(self) -> None:
        """Close all of them."""
        for session in self:
            self.end(session)

    def __iter__(self) -> Iterator[SessionT]:
        """Those of now."""
        with self._changing:
            return iter(list(self._open))
