"""Which Python variables SQL can name: those that the caller of `Database.sql` sees, and none of dpsql's own.

DuckDB looks a name that no table has up in the frame that called it. So the statement is sent from a frame with the
caller's variables. The setting `python_scan_all_frames` would find them too, and what dpsql calls `table` with them.
"""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import FrameType
from typing import Any, Final, TypeVar

import duckdb

T = TypeVar("T")
_CALL: Final = "_dpsql_call"


class Named(ABC):
    """An object of dpsql that SQL can read by the name of the variable that holds it."""

    @abstractmethod
    def in_sql(self) -> duckdb.DuckDBPyRelation:
        """What stands for it in a statement."""


def caller() -> FrameType:
    """The frame that called the function that calls this one."""
    here = inspect.currentframe()
    assert here is not None
    assert here.f_back is not None
    assert here.f_back.f_back is not None
    return here.f_back.f_back


def seen_from(frame: FrameType, text: str, call: Callable[[], T]) -> T:
    """Call a method of DuckDB that looks names up, so that it sees the variables of a frame.

    Args:
        frame: the caller's.
        text: of the statement; an object of dpsql is made ready only if its name is in it.
        call: bound to its arguments, and without a frame of its own: a `functools.partial` of DuckDB's method.
    """
    names = {**_ready(frame.f_locals, text), _CALL: call}
    answer: T = eval(f"{_CALL}()", _ready(frame.f_globals, text), names)
    return answer


def _ready(names: Mapping[str, Any], text: str) -> dict[str, Any]:
    """The variables, and for each object of dpsql that the text names what stands for it in SQL.

    One whose database was closed meanwhile stays what it is: only a statement that reads it fails.
    """
    ready = dict(names)
    words = {word.casefold() for word in re.findall(r"\w+", text)}
    for name, value in names.items():
        if isinstance(value, Named) and name.casefold() in words:
            with suppress(duckdb.Error):
                ready[name] = value.in_sql()
    return ready
