"""The connections to one instance of DuckDB that table functions read schemas and rows on."""

from __future__ import annotations

import ctypes as C
import threading
from typing import Any, Final

from dpsql.errors import DpsqlError, InternalError

from . import capi
from .statements import run


class Connections:
    """The C connections to one instance: one for schemas, a few for streams.

    They can only be made while DuckDB loads the extension, so their number is fixed; a scan that finds none free
    materialises its rows on the first one instead. They keep the instance alive until `close`.

    Attributes:
        home: the schema in which a connection to the instance finds a bare name, unless it says otherwise.
    """

    STREAMS: Final = 4

    def __init__(self, database: Any, streams: int = STREAMS) -> None:
        self.home = ""
        self._first_run = ""
        self._ready: set[int | None] = set()
        self._all: list[C.c_void_p] = []
        for _ in range(1 + streams):
            handle = C.c_void_p()
            if capi.connect(database, C.byref(handle)) != capi.SUCCESS:
                raise InternalError("DuckDB refused a connection to its own instance")
            self._all.append(handle)
        self._free = self._all[1:]
        self._lock = threading.Lock()

    @property
    def first(self) -> C.c_void_p:
        """The connection for schemas and materialised rows."""
        if not self._all:
            raise DpsqlError("dpsql was closed on this database: close all its connections and open it again")
        return self._all[0]

    def run(self, script: str) -> None:
        """Run statements on every connection, such as those that seal its settings: before it reads anything."""
        run(self.first, script)
        self._first_run = script

    def acquire(self) -> C.c_void_p | None:
        """A connection to stream on, given back by `release`; None if all are in use."""
        with self._lock:
            handle = self._free.pop() if self._free else None
        if self._first_run and handle is not None and handle.value not in self._ready:
            try:
                run(handle, self._first_run)  # five milliseconds, which most that open a database do not need
            except BaseException:
                self.release(handle)
                raise
            self._ready.add(handle.value)
        return handle

    def release(self, handle: C.c_void_p) -> None:
        """Give a connection back."""
        with self._lock:
            if self._all:
                self._free.append(handle)
                return
        capi.disconnect(C.byref(handle))

    def close(self) -> None:
        """Close those not in use (the others when they are given back); the instance may then end."""
        with self._lock:
            closing, self._all, self._free = [*self._all[:1], *self._free], [], []
        for handle in closing:
            capi.disconnect(C.byref(handle))
