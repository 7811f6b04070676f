"""What both processes of the service do: load what the options name, and end when they are told."""

from __future__ import annotations

import os
import select
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from .audit import Audit, unwatched
from .options import Options, bytes_of

ALLOCATORS: Final = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "DUCKDB_JE_MALLOC_CONF": "retain:false,narenas:2",
    "MALLOC_ARENA_MAX": "2",
}
"""Variables by which allocators map what is used, and give back what is not: else a bare process maps 1.3 GB."""
_OWN_BYTES: Final = 256 << 20
_STACK_BYTES: Final = 8 << 20
_OWN_THREADS: Final = 20
"""Of a user's process, beside those of their sessions: its own, and those that DuckDB and Arrow start."""
_SERVER_THREADS: Final = 130
"""Of DuckDB's server in a process of Quack's."""
_DOOR_THREADS: Final = 250
"""Those of who is at a login, of who asks for metrics, and some more."""
_FRONT_BYTES: Final = 1 << 30
_PIECES_BYTES: Final = 1 << 20
_DESCRIPTORS: Final = 1 << 16


def loaded(name: str) -> Any:
    """What `module:function` names."""
    module, _, function = name.partition(":")
    return getattr(import_module(module), function)


def audit_of(options: Options, process: str) -> Audit:
    """The audit of a process."""
    audit: Audit = loaded(options.audit)(options, process) if options.audit else unwatched
    return audit


def until_told() -> None:
    """Wait for SIGTERM or SIGINT, or for the end of standard input, which the supervisor holds open.

    Every signal wakes it: one that came just before it waits would else be handled when the next one comes.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    ending = (signal.SIGTERM, signal.SIGINT)
    for number in ending:
        signal.signal(number, lambda *_: None)
    while sys.stdin.buffer not in select.select([reading, sys.stdin.buffer], [], [])[0]:
        if set(os.read(reading, 100)) & {*ending}:
            return


def most_of_user(options: Options) -> int:
    """Bytes that the process of one user may have: twice what DuckDB may have, what it has itself, and stacks."""
    threads = options.user_connections + options.threads + _OWN_THREADS
    return 2 * bytes_of(options.memory) + _OWN_BYTES + threads * _STACK_BYTES


def most_of_front(options: Options) -> int:
    """Bytes that the front may have: what it has itself, and a piece of what each client sends and is sent."""
    return _FRONT_BYTES + options.connections * _PIECES_BYTES


def most_tasks_of_front(options: Options) -> int:
    """Threads that the front and the processes of users may have, those of Quack included if it is served."""
    of_user = 1 + options.user_connections + options.threads + _OWN_THREADS
    of_quack = _SERVER_THREADS + of_user + options.user_connections  # one of each request, and of each statement
    doors = 1 + bool(options.quack)
    return _DOOR_THREADS * doors + options.processes * (of_user + (of_quack if options.quack else 0))


def mapped() -> int:
    """Bytes of data and stacks that this process has mapped, used or not; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[5])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def limit_memory(most: int) -> None:
    """Limit the process's memory, because DuckDB's own limit does not count the texts and lists that functions build.

    A statement that asks for more ends with an error, or the process does. The limit is of memory that is mapped, so
    the process needs `ALLOCATORS` from its start.
    """
    try:
        import resource
    except ImportError:  # Windows has none
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard == resource.RLIM_INFINITY or most < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def raise_descriptors() -> None:
    """Let the process have as many descriptors as the system allows: each client, and each process, takes some."""
    try:
        import resource
    except ImportError:  # Windows has none
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
