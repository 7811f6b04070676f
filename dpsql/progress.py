"""How far long work is, and whether it should stop.

Long work calls `Progress.advance` at least twice a second; that is where an interrupt is noticed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from dpsql.errors import Interrupted

__all__ = ["Interrupted", "Progress", "Quiet"]


class Progress(Protocol):
    """Where work reports, and is told to stop."""

    def stage(self, name: str, steps: int | None = None) -> None:
        """A new stage begins, of `steps` steps if that is known."""

    def advance(self, steps: int = 1, note: str = "") -> None:
        """Some steps of the stage are done; raises `Interrupted` when the work should stop."""


class Quiet:
    """Progress that shows nothing; `stop` is asked at each step.

    Attributes:
        stop: returns true when the work should stop.
    """

    def __init__(self, stop: Callable[[], bool] = lambda: False) -> None:
        self._stop = stop

    def stage(self, name: str, steps: int | None = None) -> None:
        """See `Progress.stage`."""
        self.advance(0)

    def advance(self, steps: int = 1, note: str = "") -> None:
        """See `Progress.advance`."""
        if self._stop():
            raise Interrupted
