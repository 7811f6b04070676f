"""When a fit is looked at between its steps, and whether it ends there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_PARTS: Final = (0.6, 0.8)  # of the steps
_YET_TO_COME: Final = 0.05  # of the residual, by as many times the steps as there are
_EVERY: Final = 20  # steps
_UNCHANGED: Final = 5e-5  # of the residual


class Looks:
    """None: all steps are taken."""

    def after(self, steps: int) -> Iterable[int]:
        """How many of the steps have been taken at each look."""
        return ()

    def end(self, done: int, steps: int, loss: float) -> bool:
        """Whether no further step is taken.

        Args:
            done: how many were taken.
            steps: how many there may be.
            loss: of all cells, before the last of them.
        """
        return False


class Hopeless(Looks):
    """An attempt ends where its residual will stay above `most`: another with a weaker pull follows."""

    def __init__(self, most: float, unit: float) -> None:
        """Of the largest residual that is accepted, and the loss of a residual of 1."""
        self._most, self._unit = most, unit

    def after(self, steps: int) -> Iterable[int]:
        """See `Looks.after`."""
        return [step for part in _PARTS if (step := int(part * steps)) > 0]

    def end(self, done: int, steps: int, loss: float) -> bool:
        """See `Looks.end`."""
        return loss / self._unit > self._most + _YET_TO_COME * (1 - done / steps)


class Settled(Looks):
    """The last steps end where twenty of them hardly changed the residual."""

    def __init__(self, unit: float) -> None:
        """Of the loss of a residual of 1."""
        self._unit, self._before = unit, 0.0

    def after(self, steps: int) -> Iterable[int]:
        """See `Looks.after`."""
        return range(_EVERY, steps, _EVERY)

    def end(self, done: int, steps: int, loss: float) -> bool:
        """See `Looks.end`."""
        before, self._before = self._before, loss / self._unit
        return abs(before - self._before) < _UNCHANGED
