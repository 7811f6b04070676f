"""Rows in order, drawn as chains: both ways from two rows that follow each other. Made of noisy answers only.

    place of the two   how many rows come before them, as the row above says; as near to it as the domain allows
    rows after them    each lent as the later of two by a unit whose earlier row is like the row before
    rows before them   each lent as the earlier of two by a unit whose later row is like the row after
    order              a row is as many codes after the one before as in the unit that lends; at least one where
                       measured pairs rise strictly, so that each further row is left a code of its own

How many rows come before the two is the place in the chain, so a unit lends at the place where it was seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Attribute
from dpsql.core.steps import in_ticks
from dpsql.release.lending import Lenders, information

Codes = npt.NDArray[np.int64]
LEVELS: Final = (1.0, 0.75, 0.5, 0.25, 0.1)
"""See `dpsql.release.lending.LEVELS`."""
_CANDIDATES: Final = ((LEVELS, 4), ((0.35, 0.1), 8), ((0.1,), 8))
"""Levels, and how many units are looked at of those alike by them: the nearest in all columns lends."""
_LOOKED_AT: Final = 20_000
"""Units from which is learnt which columns matter."""
_TRIES: Final = 4
"""Rows that are lent before one is put where the domain has room for it."""
_FAR: Final = 3
"""Codes from which on two values are no further apart."""
_COARSE: Final = 32
"""Parts of the order column in which rows are alike: of two days in many, few units have both."""


@dataclass(frozen=True)
class Pairs:
    """Units that lend, each with two rows that follow each other.

    Attributes:
        earlier, later: codes of their rows, shape (units, columns).
        above: codes of the rows above, shape (units, their columns).
        before: the place in `above` of how many rows come before the two.
        order: the place of the order column among those of a row.
        attribute: the order column.
        strict: whether its codes rise strictly.
    """

    earlier: Codes
    later: Codes
    above: Codes
    before: int
    order: int
    attribute: Attribute
    strict: bool


@dataclass(frozen=True)
class Parents:
    """Rows above, of which each has one row below at least.

    Attributes:
        codes: of their columns, shape (parents, columns).
        numbers: how many rows each has.
        before: how many come before the two that are given.
        bin_of: the code that a number of rows before them has in `codes`.
    """

    codes: Codes
    numbers: Codes
    before: Codes
    bin_of: Callable[[Codes], Codes]


class Chains:
    """Draws the rows of many parents.

    Args:
        pairs: that lend rows.
        parents: the rows above.
        generator: of the draws.
        check: called between steps.
    """

    def __init__(
        self, pairs: Pairs, parents: Parents, generator: np.random.Generator, check: Callable[[], object]
    ) -> None:
        self._pairs, self._parents, self._generator, self._check = pairs, parents, generator, check
        self._regular = pairs.attribute.regular
        self._step = (pairs.strict & (parents.numbers <= self._regular)).astype(np.int64)
        ways = (pairs.earlier, pairs.later), (pairs.later, pairs.earlier)
        self._place_keys = [self._keys(columns_lent, pairs.above) for columns_lent, _ in ways]
        self._lenders = [
            Lenders(k, lent, LEVELS, generator) for k, (_, lent) in zip(self._place_keys, ways, strict=True)
        ]
        self._weights = [_weights(k, lent) for k, (_, lent) in zip(self._place_keys, ways, strict=True)]

    def draw(self, earlier: Codes, later: Codes, has_later: npt.NDArray[np.bool_]) -> tuple[Codes, Codes]:
        """The rows of all parents, in order, and the place of the given earlier row of each.

        Args:
            earlier: a row of each parent.
            later: the row that follows it.
            has_later: whether it is given; a parent of several rows gets one else.
        """
        numbers, order = self._parents.numbers, self._pairs.order
        several = np.flatnonzero(numbers > 1)
        earlier, later = earlier.copy(), later.copy()
        lent = several[~has_later[several]]
        later[lent] = self._after(earlier[lent], lent, self._parents.before[lent], 0 * lent)
        earlier[several, order], later[several, order] = self._sorted(earlier, later, several)
        before = np.zeros(len(numbers), np.int64)
        before[several] = self._fitted(earlier, later, several)
        start = np.cumsum(numbers) - numbers
        rows = np.zeros((int(numbers.sum()), earlier.shape[1]), np.int64)
        rows[start + before] = earlier
        rows[(start + before + 1)[several]] = later[several]
        after = numbers - 2 - before
        for step in range(1, int(after.max(initial=0)) + 1):
            mine = np.flatnonzero(after >= step)
            place = before[mine] + 1 + step
            rows[start[mine] + place] = self._after(rows[start[mine] + place - 1], mine, place - 1, after[mine] - step)
        for step in range(1, int(before.max(initial=0)) + 1):
            mine = np.flatnonzero(before >= step)
            place = before[mine] - step
            rows[start[mine] + place] = self._before(rows[start[mine] + place + 1], mine, place)
        return rows, start + before

    def _sorted(self, earlier: Codes, later: Codes, several: Codes) -> tuple[Codes, Codes]:
        """The codes of the order column of both rows, the earlier one first."""
        both = np.sort(np.stack([earlier[several, self._pairs.order], later[several, self._pairs.order]]), axis=0)
        return both[0], both[1]

    def _fitted(self, earlier: Codes, later: Codes, several: Codes) -> Codes:
        """How many rows come before the two, so that all others have room; else the two are moved apart or along."""
        numbers, step, order = self._parents.numbers[several], self._step[several], self._pairs.order
        low, high = earlier[several, order], later[several, order]
        last = self._regular - 1
        is_low, is_high = (step > 0) & (low <= last), (step > 0) & (high <= last)
        before = np.minimum(self._parents.before[several], numbers - 2)
        before = np.where(is_high, np.maximum(before, numbers - 2 - (last - high)), before)
        before = np.where(is_low, np.minimum(before, low), before)
        after = numbers - 2 - before
        low = np.where(is_low, np.clip(low, before, np.where(is_high, last - 1 - after, last)), low)
        high = np.where(is_high, np.clip(high, low + 1, last - after), high)
        earlier[several, order], later[several, order] = low, high
        return before

    def _after(self, rows: Codes, parents: Codes, places: Codes, room: Codes) -> Codes:
        """Rows that follow others.

        Args:
            rows: those others.
            parents: whose rows they are.
            places: how many rows come before each of them.
            room: how many rows come after those that are drawn.
        """
        pairs, step, now = self._pairs, self._step[parents], rows[:, self._pairs.order]
        rise = pairs.later[:, pairs.order] - pairs.earlier[:, pairs.order]
        ends = pairs.later[:, pairs.order] >= self._regular
        most = np.maximum(self._regular - 1 - step * room, np.minimum(now + step, self._regular - 1))

        def moved(chosen: Codes) -> tuple[Codes, npt.NDArray[np.bool_]]:
            code = now + np.maximum(rise[chosen], step)
            is_null = ends[chosen] | (now >= self._regular)
            return np.where(is_null, self._regular, code), is_null | (code <= most)

        drawn, code = self._lent(0, rows, parents, places, moved, (np.minimum(now + step, most), most))
        drawn[:, pairs.order] = code
        return drawn

    def _before(self, rows: Codes, parents: Codes, places: Codes) -> Codes:
        """Rows that come before others; `places` says how many come before those that are drawn."""
        pairs, step, now = self._pairs, self._step[parents], rows[:, self._pairs.order]
        theirs = pairs.earlier[:, pairs.order]
        rise = np.where(pairs.later[:, pairs.order] < self._regular, pairs.later[:, pairs.order] - theirs, 0)
        is_null, least = now >= self._regular, step * places
        most = np.where(is_null, self._regular - 1, np.maximum(now - step, 0))
        least = np.minimum(least, most)

        def moved(chosen: Codes) -> tuple[Codes, npt.NDArray[np.bool_]]:
            code = np.where(is_null, theirs[chosen], now - np.maximum(rise[chosen], step))
            return code, (code >= least) & ((code <= most) | is_null)

        drawn, code = self._lent(1, rows, parents, places, moved, (least, most))
        drawn[:, pairs.order] = code
        return drawn

    def _lent(
        self,
        way: int,
        rows: Codes,
        parents: Codes,
        places: Codes,
        moved: Callable[[Codes], tuple[Codes, npt.NDArray[np.bool_]]],
        room: tuple[Codes, Codes],
    ) -> tuple[Codes, Codes]:
        """Rows that units lend, and codes of the order column: where none fits, any for which there is room."""
        self._check()
        above = self._parents.codes[parents].copy()
        above[:, self._pairs.before] = self._parents.bin_of(places)
        keys = self._keys(rows, above)
        chosen = self._nearest(way, keys)
        for _ in range(_TRIES):
            left = np.flatnonzero(~moved(chosen)[1])
            if not len(left):
                break
            chosen[left] = self._lenders[way].choose(keys[left])
        code, fits = moved(chosen)
        least, most = room
        anywhere = least + (self._generator.random(len(code)) * (most - least + 1)).astype(np.int64)
        values = (self._pairs.later, self._pairs.earlier)[way]
        return values[chosen], np.where(fits, code, anywhere)

    def _nearest(self, way: int, keys: Codes) -> Codes:
        """For each row the unit that is nearest to it, of some that are alike in the columns that matter most."""
        best, least = np.zeros(len(keys), np.int64), np.full(len(keys), np.inf)
        for levels, count in _CANDIDATES:
            for _ in range(count):
                chosen = self._lenders[way].choose(keys, levels)
                apart = np.minimum(np.abs(self._place_keys[way][chosen] - keys), _FAR) @ self._weights[way]
                nearer = apart < least
                best[nearer], least[nearer] = chosen[nearer], apart[nearer]
        return best

    def _keys(self, rows: Codes, above: Codes) -> Codes:
        """By what units are like others: all columns, of the order column the part of its domain."""
        coarse = rows.copy()
        size = self._pairs.attribute.size
        coarse[:, self._pairs.order] = rows[:, self._pairs.order] * min(size, _COARSE) // size
        return np.concatenate([coarse, above], axis=1)


def rising(attribute: Attribute, codes: Codes, ticks: npt.NDArray[Any], up: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Ticks inside the bins of the order column that rise with the rows of each parent, whose codes do.

    Two rows of a parent in one bin have different values where it holds so many.

    >>> day = Attribute("day", "BIGINT", "bins", ticks=(0, 7, 14))
    >>> rising(day, np.array([0, 0, 1, 0]), np.array([6, 6, 9, 3]), np.array([0, 0, 0, 1])).tolist()
    [5, 6, 9, 3]
    """
    ticks = ticks[np.lexsort((ticks, codes, up))]
    regular = np.flatnonzero(codes < attribute.regular)
    parent = up[regular]
    if not attribute.is_float and len(regular):
        ticks[regular] = _apart(attribute, codes[regular], ticks[regular], parent)
    if attribute.step:  # of a bin without a multiple the next one below or above is drawn for each row by itself
        ticks[regular] = ticks[regular][np.lexsort((ticks[regular], parent))]
    return ticks


def _apart(attribute: Attribute, codes: Codes, ticks: npt.NDArray[Any], up: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Rising ticks: a parent's rows in a bin are at different multiples of the step, where it holds so many."""
    step = int(in_ticks(attribute)) if attribute.step else 1
    codes, ticks = np.asarray(codes, np.int64), np.asarray(ticks, np.int64)
    first = np.flatnonzero(np.r_[True, (codes[1:] != codes[:-1]) | (up[1:] != up[:-1])])
    size = np.diff(np.r_[first, len(codes)])
    rank, alike = np.arange(len(codes)) - np.repeat(first, size), np.repeat(size, size)
    edges = -(-np.array(attribute.ticks, np.int64) // step)
    low, wide = edges[codes], edges[codes + 1] - edges[codes]
    place = (ticks // step - low) / np.maximum(wide, 1)
    spread = low + np.minimum((place * (wide - alike + 1)).astype(np.int64), wide - alike) + rank
    return np.where(wide >= alike, spread * step, ticks)


def _weights(keys: Codes, lent: Codes) -> npt.NDArray[np.float64]:
    """What a column counts for where units are compared: what it tells of the same column, or of all on the average."""
    keys, lent = keys[:_LOOKED_AT], lent[:_LOOKED_AT]
    columns = lent.shape[1]
    nats = [[information(key, value) for value in lent.T] for key in keys.T] if len(keys) else []
    return np.array([row[place] if place < columns else sum(row) / columns for place, row in enumerate(nats)])
