"""What both processes of the service do: load what the options name, and end when they are told."""

from __future__ import annotations

import os
import select
import signal
import sys
from importlib import import_module
from typing import Any

from .audit import Audit, unwatched
from .options import Options


def loaded(name: str) -> Any:
    """What `module:function` names."""
    module, _, function = name.partition(":")
    return getattr(import_module(module), function)


def audit_of(options: Options, process: str) -> Audit:
    """The audit of a process."""
    audit: Audit = loaded(options.audit)(options, process) if options.audit else unwatched
    return audit


def until_told() -> None:
    """Wait for SIGTERM or SIGINT, or for the end of standard input, which the supervisor holds open."""
    reading, writing = os.pipe()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os.write(writing, b"x"))
    select.select([reading, sys.stdin.buffer], [], [])
