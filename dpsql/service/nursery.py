"""The process that those of users are forked from: it has imported everything, and only written the catalogue."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.abc import MetaPathFinder
from typing import Any

from dpsql.runtime.children import can_leave_network, end_first, leave_network

from . import catalogue_file, wire
from .calls import Calls
from .options import Options
from .workers import NEW


def nurse(run: Callable[[Options, socket.socket, int], None]) -> None:
    """Fork a process whenever one is asked for, until who asks is gone.

    Args:
        run: what such a process does until its line ends, which it is given with the file of the catalogue; it bounds
            its memory first.
    """
    options = Options.from_json(sys.stdin.readline())
    nursery = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    alone = can_leave_network()
    catalogue = catalogue_file.write(Calls(options.socket).hello())
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    _do_without_pandas()
    gc.freeze()
    while True:
        try:
            kind, _, descriptors = wire.receive_passed(nursery)
        except wire.Lost:
            os._exit(0)
        assert kind == NEW
        line = socket.socket(fileno=descriptors[0])
        process = os.fork()
        if not process:
            nursery.close()
            try:
                _bounded()
                if alone:
                    leave_network()
                with suppress(wire.Lost):
                    run(options, line, catalogue)
            finally:
                os._exit(0)
        line.close()
        wire.send_json(nursery, process)


def _bounded() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # who makes it die writes nothing to the disk
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))  # not that of who started it: `run` sets its own
    end_first()


def again(work: Callable[[], None], seconds: float) -> None:
    """Do something every so many seconds, in a thread of its own, until the process ends."""

    def repeat() -> None:
        while True:
            time.sleep(seconds)
            with suppress(Exception):  # whatever it was, the next time may go well
                work()

    threading.Thread(target=repeat, daemon=True).start()


def _do_without_pandas() -> None:
    """PyArrow and DuckDB look for pandas at their first value, which takes seconds, and no session needs it.

    What PyArrow imports when it casts the first value takes a third of a second of its own.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute

    sys.meta_path.insert(0, _WithoutPandas())
    np.asarray(pa.array(["a"]))


class _WithoutPandas(MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: Any = None) -> None:
        """Say that there is none."""
        if name == "pandas":
            raise ModuleNotFoundError(name)
