"""Ctrl-C and `Database.interrupt()` while a table function works.

On DuckDB 1.5 a callback runs on the thread that executes the query, on 2.0 on a thread of DuckDB's own while the main
thread waits inside C++, where Python cannot run a signal handler. So the handler is in C, for the time of the work, and
the work polls its count.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import duckdb

from dpsql.errors import Interrupted
from dpsql.evaluation.sandbox import one_limit, stopped_by
from dpsql.runtime.automatic_progress import automatic
from dpsql.runtime.progress import Progress, Quiet, breaking

from .bridge.library import shim
from .extension import Instance

_lock = threading.Lock()
_given = threading.local()


class _Reported(Quiet):
    """Progress that is told to one of a caller's own, and stops when that says so, or `Instance.interrupt()`."""

    def __init__(self, progress: Progress, stop: Callable[[], bool]) -> None:
        super().__init__(stop)
        self._progress = progress

    def stage(self, name: str, steps: int | None = None) -> None:
        """See `Progress.stage`."""
        self.check()
        self._progress.stage(name, steps)

    def advance(self, steps: int = 1, note: str = "") -> None:
        """See `Progress.advance`."""
        self.check()
        self._progress.advance(steps, note)

    def rounds(self, name: str, count: int) -> None:
        """See `Progress.rounds`; a caller's own progress may know of stages only."""
        self.check()
        if hasattr(self._progress, "rounds"):
            self._progress.rounds(name, count)

    def round_done(self) -> None:
        """See `Progress.round_done`."""
        self.check()
        if hasattr(self._progress, "round_done"):
            self._progress.round_done()

    def check(self) -> None:
        """See `Progress.check`."""
        super().check()
        self._progress.check()


@contextmanager
def reporting(progress: Progress | None) -> Iterator[None]:
    """What this thread works at inside reports to that progress, and is stopped by it alone, not by Ctrl-C."""
    before = getattr(_given, "progress", None)
    _given.progress = progress if progress is not None else before
    try:
        yield
    finally:
        _given.progress = before


@contextmanager
def watched(instance: Instance) -> Iterator[Progress]:
    """A progress that stops the work at Ctrl-C or `Instance.interrupt()`."""
    given: Progress | None = getattr(_given, "progress", None)
    if given is not None:
        interrupts = instance.interrupts
        yield _Reported(given, lambda: instance.interrupts != interrupts)
        return
    library = shim()
    before, interrupts = library.dpsql_interrupts(), instance.interrupts  # read first: one that comes in between counts
    with _lock:
        library.dpsql_watch_interrupts()
    progress = automatic(lambda: bool(library.dpsql_interrupts() != before or instance.interrupts != interrupts))
    try:
        yield progress
    finally:
        progress.close()
        with _lock:
            library.dpsql_unwatch_interrupts()


@contextmanager
def pressed() -> Iterator[None]:
    """For calls from Python: Ctrl-C that comes while inside stops the work, and is Python's once the work has ended.

    Else Python would raise KeyboardInterrupt anywhere, also where DuckDB loses it: then the call would go on.

    Raises:
        KeyboardInterrupt: it was pressed, unless the caller has a handler of another kind.
    """
    library, words = shim(), ""
    before = library.dpsql_interrupts()  # read first: one that comes in between counts
    with _lock:
        library.dpsql_watch_interrupts()
    try:
        yield
    except Interrupted as error:
        words = str(error)
        raise
    finally:
        with _lock:
            library.dpsql_unwatch_interrupts()
        if library.dpsql_interrupts() != before:
            _hand_on(words)


def _hand_on(words: str) -> None:
    """Let Python's handler of SIGINT see it."""
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(words) from None


@contextmanager
def looking_up(instance: Instance) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to look up what a statement names; to parse and to try it can be stopped, and has one limit."""
    with (
        instance.lookup() as cursor,
        watched(instance) as progress,
        stopped_by(progress),
        one_limit(),
        breaking(progress),
    ):
        yield cursor
