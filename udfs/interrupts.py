"""Ctrl-C and `Database.interrupt()` while a table function works.

On DuckDB 1.5 a callback runs on the thread that executes the query, on 2.0 on a thread of DuckDB's own while the main
thread waits inside C++, where Python cannot run a signal handler. So the handler is in C, for the time of the work, and
the work polls its count.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import duckdb

from dpsql.errors import Interrupted
from dpsql.evaluation.sandbox import stopped_by
from dpsql.runtime.progress import Progress, automatic, breaking

from .bridge.library import shim
from .extension import Instance

_lock = threading.Lock()
_thread: Final = threading.local()


@contextmanager
def reporting_to(progress: Progress) -> Iterator[None]:
    """What this thread calls meanwhile reports to `progress`, and stops when that says so: one call, and no other's."""
    before, _thread.progress = getattr(_thread, "progress", None), progress
    try:
        yield
    finally:
        _thread.progress = before


@contextmanager
def watched(instance: Instance) -> Iterator[Progress]:
    """A progress that stops the work at Ctrl-C or `Instance.interrupt()`; inside `reporting_to` that one."""
    given: Progress | None = getattr(_thread, "progress", None)
    if given is not None:
        yield given
        return
    library = shim()
    before, asked = library.dpsql_interrupts(), instance.interrupts  # read first: one that comes in between counts
    with _lock:
        library.dpsql_watch_interrupts()
    progress = automatic(lambda: bool(library.dpsql_interrupts() != before or instance.interrupts != asked))
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
    """A connection to look up what a statement names; to parse and to try it can be stopped meanwhile."""
    with instance.lookup() as cursor, watched(instance) as progress, stopped_by(progress), breaking(progress):
        yield cursor
