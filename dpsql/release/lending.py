"""Rows that lend what goes with them to rows that are like them. Made of noisy answers only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int64]
LEVELS: Final = (0.5, 0.25)
"""Parts of the columns that a lender shares with who borrows; where nobody does, of the next part, at last of none.

Of all columns, hardly any lender would be like who borrows.
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
        weights = [_information_of(keys[:, place], values) for place in range(keys.shape[1])] if len(keys) else []
        self._order = sorted(range(len(weights)), key=lambda place: -weights[place])
        self._indexes: dict[int, _Index] = {}

    def lend(self, wanted: Codes, levels: Sequence[float] | None = None, own: Codes | None = None) -> Codes:
        """What a lender that is as alike as there is any lends to each row.

        Args:
            wanted: the keys of who borrows, shape (rows, columns).
            levels: other ones than those of all calls.
            own: of each row the lender that is the same unit, which lends it nothing; -1 where none is.
        """
        return self._values[self.choose(wanted, levels, own)]

    def choose(self, wanted: Codes, levels: Sequence[float] | None = None, own: Codes | None = None) -> Codes:
        """For each row the number of a lender, chosen as in `lend`."""
        chosen = self._generator.integers(0, len(self._values), len(wanted))
        left = np.arange(len(wanted)) if self._order else np.zeros(0, np.int64)
        for part in self._levels if levels is None else levels:
            columns = self._order[: max(1, round(part * len(self._order)))]
            if not len(left):
                break
            index = self._index(columns)
            low, high = index.alike(wanted[left][:, columns])
            place = np.full(len(left), -1) if own is None else index.places(own[left])
            is_among = (place >= low) & (place < high)
            others = high - low - is_among
            alike = others > 0
            drawn = low + (self._generator.random(len(left)) * others).astype(np.int64)
            drawn += is_among & (drawn >= place)
            chosen[left[alike]] = index.order[drawn[alike]]
            left = left[~alike]
        return chosen

    def _index(self, columns: Sequence[int]) -> _Index:
        """The lenders by the first columns of `_order`; made once, for a chain asks for each of its rows."""
        if len(columns) not in self._indexes:
            self._indexes[len(columns)] = _Index(self._keys[:, columns])
        return self._indexes[len(columns)]


class _Index:
    """Lenders in the order of some of their columns, so that those with the same codes stand together.

    Args:
        keys: the codes, shape (lenders, columns); of one lender at least.

    Attributes:
        order: the numbers of the lenders.
    """

    def __init__(self, keys: Codes) -> None:
        self._wide = keys.max(axis=0) + 1
        self._distinct: list[Codes | None] = []  # numbers of the columns before one, where these are numbered anew
        packed, largest = np.zeros(len(keys), np.int64), 1
        for place, wide in enumerate(self._wide.tolist()):
            distinct = None
            if largest * wide > _LARGEST_KEY:
                distinct, places = np.unique(packed, return_inverse=True)
                packed, largest = places.astype(np.int64), len(distinct)
            self._distinct.append(distinct)
            packed, largest = packed * wide + keys[:, place], largest * wide
        self.order = np.argsort(packed, kind="stable")
        self._packed = packed[self.order]
        self._place = np.empty(len(keys), np.int64)
        self._place[self.order] = np.arange(len(keys))

    def places(self, lenders: Codes) -> Codes:
        """Where lenders stand in `order`; -1 of those that are -1."""
        return np.where(lenders >= 0, self._place[np.maximum(lenders, 0)], -1)

    def alike(self, wanted: Codes) -> tuple[Codes, Codes]:
        """Of each row the part of `order` whose lenders have the same codes: where it starts, and where it ends."""
        packed, is_there = np.zeros(len(wanted), np.int64), (wanted < self._wide).all(axis=1)
        for place, (wide, distinct) in enumerate(zip(self._wide.tolist(), self._distinct, strict=True)):
            if distinct is not None:
                places = np.minimum(np.searchsorted(distinct, packed), len(distinct) - 1)
                is_there &= distinct[places] == packed
                packed = places
            packed = packed * wide + np.minimum(wanted[:, place], wide - 1)
        low = np.searchsorted(self._packed, packed)
        high = np.searchsorted(self._packed, packed, side="right")
        return low, np.where(is_there, high, low)


def _information_of(key: Codes, values: Codes) -> float:
    """How much a column tells of those that are lent: the mutual information (nats), less what chance makes up."""
    key, values = key[:_LOOKED_AT], values[:_LOOKED_AT]
    return sum(information(key, values[:, place]) for place in range(values.shape[1]))


def information(first: Codes, other: Codes) -> float:
    """The mutual information (nats) of two columns, less what chance makes up."""
    shape: Sequence[int] = (int(first.max()) + 1, int(other.max()) + 1)
    joint = np.bincount(first * shape[1] + other, minlength=shape[0] * shape[1]).reshape(shape) / len(first)
    apart = np.outer(joint.sum(1), joint.sum(0))
    cells = joint > 0
    nats = float((joint[cells] * np.log(joint[cells] / apart[cells])).sum())
    degrees = ((joint.sum(1) > 0).sum() - 1) * ((joint.sum(0) > 0).sum() - 1)
    return max(0.0, nats - float(degrees) / (2 * len(first)))
