"""Rows that lend what goes with them to rows that are like them. Made of noisy answers only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int64]
LEVELS: Final = (0.5, 0.25)
"""Parts of the columns that a lender shares with who borrows; where nobody does, of the next part, at last of none.

Of all columns, a unit would be the only one that is like itself, and lend itself its own second child as the third.
"""
LEVELS_OF_OTHERS: Final = (1.0, 0.75, *LEVELS)
"""The same where other units lend than those that borrow."""
_LARGEST_KEY: Final = 2**40
_LOOKED_AT: Final = 20_000
"""Lenders from which is learnt which columns matter."""


class Lenders:
    """Rows that lend what goes with them to rows that are like them.

    Args:
        keys: by which likeness goes, shape (lenders, columns).
        values: what they lend, shape (lenders, columns); where there is no lender what anyone gets.
        levels: see `LEVELS`.
        generator: of the draws.
    """

    def __init__(self, keys: Codes, values: Codes, levels: Sequence[float], generator: np.random.Generator) -> None:
        self._keys, self._values, self._levels, self._generator = keys, values, levels, generator
        weights = [_told(keys[:, place], values) for place in range(keys.shape[1])] if len(keys) else []
        self._order = sorted(range(len(weights)), key=lambda place: -weights[place])

    def lend(self, wanted: Codes, levels: Sequence[float] | None = None) -> Codes:
        """What a lender that is as alike as there is any lends to each row; of other levels where some are given."""
        return self._values[self.choose(wanted, levels)]

    def choose(self, wanted: Codes, levels: Sequence[float] | None = None) -> Codes:
        """For each row the number of a lender, chosen as in `lend`."""
        chosen = self._generator.integers(0, len(self._values), len(wanted))
        left = np.arange(len(wanted)) if self._order else np.zeros(0, np.int64)
        for part in self._levels if levels is None else levels:
            columns = self._order[: max(1, round(part * len(self._order)))]
            if not len(left):
                break
            mine, theirs = _packed(self._keys[:, columns], wanted[left][:, columns])
            order = np.argsort(mine, kind="stable")
            low = np.searchsorted(mine[order], theirs)
            high = np.searchsorted(mine[order], theirs, side="right")
            alike = high > low
            drawn = low + (self._generator.random(len(left)) * (high - low)).astype(np.int64)
            chosen[left[alike]] = order[drawn[alike]]
            left = left[~alike]
        return chosen


def _packed(keys: Codes, wanted: Codes) -> tuple[Codes, Codes]:
    """One number for each row of both, the same for the same codes."""
    whole = np.concatenate([keys, wanted])
    packed, largest = np.zeros(len(whole), np.int64), 1
    for place in range(whole.shape[1]):
        wide = int(whole[:, place].max(initial=0)) + 1
        if largest * wide > _LARGEST_KEY:
            packed = np.unique(packed, return_inverse=True)[1].astype(np.int64)
            largest = int(packed.max(initial=0)) + 1
        packed, largest = packed * wide + whole[:, place], largest * wide
    return packed[: len(keys)], packed[len(keys) :]


def _told(key: Codes, values: Codes) -> float:
    """How much a column tells of those that are lent: the mutual information (nats), less what chance makes up."""
    key, values = key[:_LOOKED_AT], values[:_LOOKED_AT]
    return sum(information(key, values[:, place]) for place in range(values.shape[1]))


def information(one: Codes, other: Codes) -> float:
    """The mutual information (nats) of two columns, less what chance makes up."""
    shape: Sequence[int] = (int(one.max()) + 1, int(other.max()) + 1)
    joint = np.bincount(one * shape[1] + other, minlength=shape[0] * shape[1]).reshape(shape) / len(one)
    apart = np.outer(joint.sum(1), joint.sum(0))
    cells = joint > 0
    found = float((joint[cells] * np.log(joint[cells] / apart[cells])).sum())
    degrees = ((joint.sum(1) > 0).sum() - 1) * ((joint.sum(0) > 0).sum() - 1)
    return max(0.0, found - float(degrees) / (2 * len(one)))
