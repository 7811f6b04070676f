r"""Rows of children, each drawn column by column from the rows above it and those of its parent that are there already.

    log P(v) = a_v + Σ_{columns above} W + B + τ_m·Σ_{m rows beside} (Σ_{their columns} V - B) + Σ_{own columns} U
    B        = what Σ V is on average below the same rows above, by least squares
    τ_m      = 1/(1 + (m - 1)·r),   r = the largest correlation of the column in two rows of a parent

for each value v of a column, but for a constant: a logistic regression on units that have such rows. W, V and U are one
number for each value of another column and v; own columns are those drawn before.

So a row follows each column above it a little, where hardly any unit is like it in all of them. Two rows of a parent
show what one tells of the other. Of m rows that are as alike each tells τ_m as much: that is the best linear
prediction from m values that correlate by r.

What is drawn is replaced by a row that some unit has, alike in the columns that tell most, so rows obey what is
allowed of one row.

It is made of drawn units only, so it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.release.lending import LEVELS_OF_OTHERS, Codes, Lenders, information

Floats = npt.NDArray[np.float32]
_MOST_UNITS: Final = 10_000
_MOST_WORK: Final = 40_000_000
"""Units × values that tell × values that are told of the regression of one column: about two seconds."""
_MOST_NUMBERS: Final = 80_000
_MOST_VALUES: Final = 2000
_FEWEST_UNITS: Final = 1000
_STEPS: Final = 60
_RIDGE: Final = 5.0


@dataclass(frozen=True, eq=False)
class Places:
    """Where the values of some columns stand one after the other.

    Attributes:
        sizes: of the columns.
    """

    sizes: tuple[int, ...]

    @staticmethod
    def of(*tables: Codes) -> Places:
        """Those of columns that several tables have.

        >>> Places.of(np.array([[0, 4]]), np.array([[1, 2]])).sizes
        (2, 5)
        """
        return Places(tuple((np.vstack(tables).max(axis=0, initial=0) + 1).tolist()))

    def shown(self, codes: Codes) -> Floats:
        """1 at each value that a row has, shape (rows, values)."""
        one_hot = np.zeros((len(codes), sum(self.sizes)), np.float32)
        start = 0
        for column, size in zip(codes.T, self.sizes, strict=True):
            one_hot[np.arange(len(codes)), start + column] = 1
            start += size
        return one_hot

    def summed(self, numbers: Floats, codes: Codes) -> Floats:
        """For each row the sum of the numbers of its values, shape (rows, numbers of each); most columns have none."""
        whole = np.zeros((len(codes), numbers.shape[1]), np.float32)
        start = 0
        for column, size in zip(codes.T, self.sizes, strict=True):
            part = numbers[start : start + size]
            if part.any():
                whole += part[column]
            start += size
        return whole


@dataclass(frozen=True, eq=False)
class _Regression:
    """What is told of one column.

    Attributes:
        column: which.
        always: a, shape (values,).
        above, beside, own: W, V and U, shape (values of the other columns, values).
        usual, usually: B, a number for each value and those of the rows above, in shapes as `always` and `above`.
        alike: r.
    """

    column: int
    always: Floats
    above: Floats
    beside: Floats
    own: Floats
    usual: Floats
    usually: Floats
    alike: float


class ChildRows:
    """Draws rows of a table for parents.

    Args:
        above: of units that have such a row the rows above it, shape (units, columns).
        rows: theirs, shape (units, columns).
        beside: the rows beside those; None where none is taken into account.
        pool: rows that a drawn one is replaced by, shape (rows, columns).
        places: of the columns above, and of the rows' own.
        generator: of the draws.
        check: called before each column is learned; it raises where somebody interrupts.
    """

    def __init__(
        self,
        above: Codes,
        rows: Codes,
        beside: Codes | None,
        pool: Codes,
        places: tuple[Places, Places],
        generator: np.random.Generator,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._above, self._own, self._generator = *places, generator
        self._pool = Lenders(pool, pool, LEVELS_OF_OTHERS, generator)
        chosen = generator.permutation(len(rows))[:_MOST_UNITS]  # of wide columns only the first are looked at
        above, rows, beside = above[chosen], rows[chosen], None if beside is None else beside[chosen]
        self._regressions: list[_Regression] = []
        for column in _in_order(above, rows, beside):
            check()
            self._regressions.append(self._learnt(column, above, rows, beside))

    def draw(self, above: Codes, beside: Floats | None, number: int) -> Codes:
        """Rows below others.

        Args:
            above: the rows above each, shape (rows, columns).
            beside: how often each value is in the rows beside each, shape (rows, values); None where none are.
            number: of those rows.
        """
        rows = np.zeros((len(above), len(self._own.sizes)), np.int64)
        for regression in self._regressions:
            logits = (
                regression.always + self._above.summed(regression.above, above) + self._own.summed(regression.own, rows)
            )
            if beside is not None:
                much = 1 / (1 + (number - 1) * regression.alike)
                usual = regression.usual + self._above.summed(regression.usually, above)
                logits += much * (beside @ regression.beside) + (1 - number * much) * usual
            shares = np.exp(logits - logits.max(axis=1, keepdims=True)).cumsum(axis=1)
            drawn = (shares < self._generator.random((len(rows), 1)) * shares[:, -1:]).sum(axis=1)
            rows[:, regression.column] = np.minimum(drawn, shares.shape[1] - 1)
        return self._pool.lend(rows)

    def _learnt(self, column: int, above: Codes, rows: Codes, beside: Codes | None) -> _Regression:
        """The regression of one column, on those other columns that tell most of it."""
        size, wanted = self._own.sizes[column], rows[:, column]
        earlier = sorted(regression.column for regression in self._regressions)
        tables = [(above, self._above, range(above.shape[1])), (rows, self._own, earlier)]
        if beside is not None:
            tables.insert(1, (beside, self._own, range(beside.shape[1])))
        columns, masks = [], [np.zeros(sum(places.sizes), bool) for _, places, _ in tables]
        for mask, (table, places, usable) in zip(masks, tables, strict=True):
            starts = np.cumsum([0, *places.sizes])
            columns += [
                (information(table[:, place], wanted), table[:, place], mask[starts[place] : starts[place + 1]])
                for place in usable
            ]
        room = min(_MOST_VALUES, max(1, _MOST_NUMBERS // size))
        for tells, _, mask in sorted(columns, key=lambda rated: -rated[0]):
            if tells > 0 and len(mask) <= room:
                mask[:] = True
                room -= len(mask)
        used = [(codes, len(mask)) for _, codes, mask in columns if mask.all()]
        table = np.stack([codes for codes, _ in used], axis=1) if used else np.zeros((len(rows), 0), np.int64)
        shown = Places(tuple(wide for _, wide in used)).shown(table)
        units = max(_FEWEST_UNITS, _MOST_WORK // max(1, shown.shape[1] * size))
        always, numbers = _regression(shown[:units], wanted[:units], size, len(used))
        ends = np.cumsum([mask.sum() for mask in masks])
        fitted = [np.zeros((len(mask), size), np.float32) for mask in masks]
        for whole, mask, part in zip(fitted, masks, np.split(numbers, ends[:-1]), strict=True):
            whole[mask] = part
        usually = np.zeros_like(fitted[0])
        if beside is None:
            return _Regression(column, always, fitted[0], fitted[1][:0], fitted[1], always * 0, usually, 0.0)
        from_beside = shown[:, ends[0] : ends[1]] @ numbers[ends[0] : ends[1]]
        usual, usually[masks[0]] = _least_squares(shown[:, : ends[0]], from_beside)
        alike = _alike(beside[:, column], wanted, size)
        return _Regression(column, always, fitted[0], fitted[1], fitted[2], usual, usually, alike)


def together(ends: Codes, most: int) -> Iterator[tuple[int, int]]:
    """Parents from one to another, in order, that have about so many rows together.

    Args:
        ends: where the rows of each parent begin, and at last how many rows there are.
        most: a parent with more rows stands alone.
    """
    start = 0
    while start < len(ends) - 1:
        end = int(np.searchsorted(ends, ends[start] + most, side="right")) - 1
        end = min(max(start + 1, end), start + max(1, most))
        yield start, end
        start = end


def _in_order(above: Codes, rows: Codes, beside: Codes | None) -> list[int]:
    """The columns of rows, those first of which most is told from outside."""
    tells = [sum(information(other, column) for other in above.T) for column in rows.T]
    if beside is not None:
        tells = [nats + information(other, column) for nats, other, column in zip(tells, beside.T, rows.T, strict=True)]
    return sorted(range(len(tells)), key=lambda column: -tells[column])


def _regression(shown: Floats, wanted: Codes, size: int, columns: int) -> tuple[Floats, Floats]:
    """Multinomial logistic regression with a ridge, by accelerated gradient steps that no curvature exceeds.

    Args:
        shown: 1 at each value that a unit has, shape (units, values).
        wanted: the codes to be told.
        size: how many there are.
        columns: how many values of each unit are 1.

    Returns:
        A number for each code, and for each value and code.
    """
    truth = np.zeros((len(shown), size), np.float32)
    truth[np.arange(len(shown)), wanted] = 1
    always = np.log((truth.sum(axis=0) + 0.5) / (len(truth) + 0.5 * size)).astype(np.float32)
    numbers = np.zeros((shown.shape[1], size), np.float32)
    step = 1 / ((columns + 1) * (shown.sum(axis=0) / 2 + _RIDGE))[:, None]
    first_step = 2 / ((columns + 1) * len(truth))
    ahead, ahead_always, pace = numbers, always, 1.0
    for _ in range(_STEPS):
        logits = shown @ ahead + ahead_always
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        off = shares / shares.sum(axis=1, keepdims=True) - truth
        now, now_always = ahead - step * (shown.T @ off + _RIDGE * ahead), ahead_always - first_step * off.sum(axis=0)
        faster = (1 + np.sqrt(1 + 4 * pace**2)) / 2
        if ((ahead - now) * (now - numbers)).sum() > 0:
            faster = 1.0
        momentum = (pace - 1) / faster
        ahead, ahead_always = now + momentum * (now - numbers), now_always + momentum * (now_always - always)
        numbers, always, pace = now, now_always, faster
    return always, numbers


def _least_squares(shown: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Values as a constant and a number for each value that a unit has, with the ridge of the regression."""
    middle, mean = shown.mean(axis=0), values.mean(axis=0)
    square = (shown - middle).T @ (shown - middle) + _RIDGE * np.eye(shown.shape[1], dtype=np.float32)
    numbers = np.linalg.solve(square, (shown - middle).T @ (values - mean)).astype(np.float32)
    return mean - middle @ numbers, numbers


def _alike(first: Codes, other: Codes, size: int) -> float:
    """The largest correlation of two rows' values of a column, whatever numbers stand for the values.

    By chance alone it is (√k + √k)/√n for k values of n units, which is taken off.
    """
    joint = np.bincount(first * size + other, minlength=size**2).reshape(size, size) / len(first)
    some = joint.sum(axis=1) * joint.sum(axis=0) > 0
    if some.sum() < 2:
        return 0.0
    joint = joint[some][:, some]
    apart = np.sqrt(np.outer(joint.sum(axis=1), joint.sum(axis=0)))
    by_chance = 2 * np.sqrt(some.sum() / len(first))  # the largest of rows that have nothing in common
    return max(0.0, float(np.linalg.norm(joint / apart - apart, ord=2) - by_chance))
