"""What both processes of the service do: load what the options name, and end when they are told."""

from __future__ import annotations

import os
import select
import signal
import sys
from importlib import import_module
from typing import Any, Final

from .audit import Audit, unwatched
from .options import Options, bytes_of

_OWN_BYTES: Final = 1 << 30
_STACK_BYTES: Final = 8 << 20
_MOST_THREADS: Final = 200
"""Beside those of clients who have logged in."""


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


def limit_memory(options: Options) -> None:
    """Limit the process's memory, because DuckDB's own limit does not count the texts that functions build.

    A statement that asks for more ends with an error. The limit is what DuckDB may have twice, what the process has
    from the beginning, and a stack for each client.
    """
    try:
        import resource
    except ImportError:  # Windows has none
        return
    threads = options.connections + _MOST_THREADS
    most = 2 * bytes_of(options.memory) + _OWN_BYTES + threads * _STACK_BYTES
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard == resource.RLIM_INFINITY or most < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
