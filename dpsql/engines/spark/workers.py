"""Whether the tasks of a session can run DuckDB, found out by a task that reads no row, once for each session."""

from __future__ import annotations

from typing import Any, Final
from weakref import WeakSet

from dpsql.engines.protocol import CountingFailed
from dpsql.engines.spark.failures import NoWorkers, SessionFailed
from dpsql.engines.spark.session import Session
from dpsql.engines.spark.statements import COUNTED
from dpsql.engines.spark.tasks import Statements, in_task

_ONE: Final = Statements(last="SELECT 0::INTEGER AS m, 0::BIGINT AS cell, 1::BIGINT AS n")
_prepared: Final[WeakSet[Any]] = WeakSet()


def check_workers(session: Session) -> None:
    """Refuse a session whose tasks cannot.

    Raises:
        NoWorkers: says what to install, or what works instead.
    """
    if session.spark in _prepared:
        return
    try:
        session.run(lambda: session.spark.range(0, 1, 1, 1).mapInArrow(in_task(_ONE), COUNTED).count())
    except SessionFailed:
        raise
    except CountingFailed:
        raise NoWorkers from None
    _prepared.add(session.spark)
