"""Ctrl-C and `Database.interrupt()` while a table function works.

On DuckDB 1.5 a callback runs on the thread that executes the query, on 2.0 on a thread of DuckDB's own while the main
thread waits inside C++, where Python cannot run a signal handler. So the handler is in C, for the time of the work, and
the work polls its count.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from dpsql.database.scratch import stopped_by
from dpsql.progress import Progress, automatic, breaking

from .extension import Instance, shim

_lock = threading.Lock()


@contextmanager
def watched(instance: Instance) -> Iterator[Progress]:
    """A progress that stops the work at Ctrl-C or `Instance.interrupt()`."""
    library = shim()
    with _lock:
        library.dpsql_watch_interrupts()
    pressed, asked = library.dpsql_interrupts(), instance.interrupts
    progress = automatic(lambda: bool(library.dpsql_interrupts() != pressed or instance.interrupts != asked))
    try:
        yield progress
    finally:
        progress.close()
        with _lock:
            library.dpsql_unwatch_interrupts()


@contextmanager
def looking_up(instance: Instance) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to look up what a statement names; to parse and to try it can be stopped meanwhile."""
    with instance.lookup() as cursor, watched(instance) as progress, stopped_by(progress), breaking(progress):
        yield cursor
