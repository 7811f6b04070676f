"""Executors of a cluster are waited for, but not for ever: a job without any waits, and says nothing."""

from __future__ import annotations

import threading
import time
from typing import Any, Final

PATIENCE: Final = 300.0
"""Seconds without an executor after which a job is given up; a cluster that grows on demand needs some."""
_LOOKS: Final = 60
"""So often it is looked whether there is one."""


def is_in_cluster(session: Any) -> bool:
    """Whether a session of this process counts in executors that are processes of their own."""
    return not str(session.sparkContext.master).startswith("local")


def lacks_executors(session: Any, ended: threading.Event) -> bool:
    """Wait until a job ended, or until there was no executor for so long that it is given up; whether it is.

    Args:
        session: of this process, in a cluster.
        ended: set when the job ended.
    """
    since = time.monotonic()
    while not ended.wait(PATIENCE / _LOOKS):
        try:
            there = session.sparkContext._jsc.sc().getExecutorMemoryStatus().size()  # noqa: SLF001 - of Java's
            waits = bool(session.sparkContext.statusTracker().getActiveJobsIds())
        except Exception:
            return False  # the machine ended, and so does the job
        if there > 1 or not waits:  # more than the driver, or only the driver works
            since = time.monotonic()
        elif time.monotonic() - since > PATIENCE:
            return True
    return False
