"""What rows add to a sum of a column's own values: bounds that follow from the declared domain, and whole steps.

The argument of such a sum is a formula of one column, or a CASE whose branches are such formulas. Which branch a row
takes is then the same in all of a cell; so a row adds one number, between the least and the largest of all branches.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.column_types import column_type
from dpsql.core.domain import Attribute
from dpsql.core.formula import Formula, Spans, values_of
from dpsql.core.linear_query import Integers, Moment
from dpsql.errors import InvalidQuery

Flags = npt.NDArray[np.bool_]

LARGEST_WEIGHT: Final = 2**32  # so that a thousand million rows of it can be added in 64 bits
FINEST: Final = 2**30  # steps into which the largest weight of a DOUBLE is divided
_SMALLEST_SUMMED, _LARGEST_SUMMED = Fraction(1, 10**100), Fraction(10**100)
_FARTHEST: Final = 1000


@dataclass(frozen=True)
class Branch:
    """What some of the rows add: a formula of their value in one column.

    Attributes:
        attribute: the column.
        formula: of its value.
        possible: for each code of the column, whether a row with it may count and take this branch.
    """

    attribute: Attribute
    formula: Formula
    possible: Flags


@dataclass(frozen=True)
class _Reach:
    """What a branch may add.

    Attributes:
        there: for each code, whether the formula is a number in it.
        ends: the least and the largest value in the bins that are possible; None if there is none.
        alone: what OTHER (`outside`) and NULL (`missing`) add, where they are possible.
    """

    there: Flags
    ends: tuple[Fraction, Fraction] | None
    alone: dict[str, float]

    @staticmethod
    def of(branch: Branch) -> _Reach:
        attribute = branch.attribute
        codes, column = _stretches(attribute, branch.formula.breaks())
        values = values_of(branch.formula, column)
        there = np.zeros(attribute.size, bool)
        there[codes[values.some]] = True
        regular = branch.possible[codes] & (codes < attribute.regular)
        counted = regular & values.some
        if not (np.isfinite(values.low[counted]).all() and np.isfinite(values.high[counted]).all()):
            raise InvalidQuery(
                f"query: a sum of {attribute.name!r} is not finite for some values of the declared domain"
            )
        ends = None
        if counted.any():
            ends = Fraction(float(values.low[counted].min())), Fraction(float(values.high[counted].max()))
            if (regular & values.none & there[codes]).any():  # such rows add nothing
                ends = min(ends[0], Fraction(0)), max(ends[1], Fraction(0))
        apart = {"outside": attribute.other_code, "missing": attribute.null_code}
        alone = {
            which: float(values.low[codes == code][0])
            for which, code in apart.items()
            if code is not None and branch.possible[code] and there[code]
        }
        return _Reach(there, ends, alone)


def moments_of(branches: Sequence[Branch], kind: str) -> tuple[tuple[Moment, ...], Fraction, list[Flags]]:
    """What rows add to a sum in each branch, in the same steps and within the same bounds.

    The bounds are those of the formulas in the codes that are possible: the weight of a row in another one is 0. Steps
    are those of the sum's type, or coarser so that no row has more than 2^32, or 2^30 of floats.

    Args:
        branches: at least one.
        kind: the type of the argument.

    Returns:
        A moment for each branch, the value of a step, and for each branch in which codes there is anything to add.

    Raises:
        InvalidQuery: not finite, or too large, too small or too far apart to be summed.
    """
    reaches = [_Reach.of(branch) for branch in branches]
    inside = [end for reach in reaches for end in reach.ends or ()]
    within = max(map(abs, inside), default=Fraction(0))
    unit = _unit(kind, branches, within)
    alone = [
        {which: _alone(value, branch.attribute, within) for which, value in reach.alone.items()}
        for branch, reach in zip(branches, reaches, strict=True)
    ]
    every = [*inside, *(value for values in alone for value in values.values())] or [Fraction(0)]
    low, high = min(every), max(every)
    largest, most = max(abs(low), abs(high)), LARGEST_WEIGHT if unit else FINEST
    unit = unit or (Fraction(2) ** (math.floor(math.log2(largest)) - most.bit_length()) if largest else Fraction(1))
    while largest > unit * most:
        unit *= 2
    bounds = math.floor(low / unit), math.ceil(high / unit)
    moments = [_moment(branch, values, unit, bounds) for branch, values in zip(branches, alone, strict=True)]
    return tuple(moments), unit, [reach.there for reach in reaches]


def _unit(kind: str, branches: Sequence[Branch], within: Fraction) -> Fraction:
    """The step of a summed type; 0 of floats.

    Raises:
        InvalidQuery: floats that are too large or too small.
    """
    unit = unit_of(kind) or Fraction(0)
    if not unit and within and not _SMALLEST_SUMMED <= within <= _LARGEST_SUMMED:
        raise InvalidQuery(
            f"query: the values of {branches[0].attribute.name!r} are up to {float(within):.3g}, too large or too "
            "small to be summed: declare other bounds"
        )
    return unit


def _moment(branch: Branch, alone: dict[str, Fraction], unit: Fraction, bounds: tuple[int, int]) -> Moment:
    steps = {
        which: min(max(round(alone.get(which, Fraction(0)) / unit), bounds[0]), bounds[1])
        for which in ("outside", "missing")
    }
    if branch.attribute.null_code is None:  # a NULL counts as what is outside, and so adds what that adds
        steps["missing"] = steps["outside"]
    return Moment(branch.attribute.name, float(1 / unit), *bounds, formula=branch.formula, **steps)


def _alone(value: float, attribute: Attribute, within: Fraction) -> Fraction:
    """What OTHER or NULL adds, if it can be summed beside what the values in the bins add."""
    if not math.isfinite(value) or (within and abs(Fraction(value)) > _FARTHEST * within):
        if attribute.other is None:
            raise InvalidQuery(
                f"query: what is added for a NULL of {attribute.name!r} is too far from its bins to be summed with "
                "them: say a constant nearer to them"
            )
        raise InvalidQuery(
            f"query: {attribute.name!r} has other := {attribute.other}, too far from its bins to be summed with them: "
            "declare another one"
        )
    return Fraction(value)


def _stretches(attribute: Attribute, breaks: Iterable[float]) -> tuple[Integers, Spans]:
    """The values of a column in bins, cut at the bins' edges and at `breaks`: the code of each stretch, and its ends.

    After those come OTHER and NULL, where there are such codes.
    """
    ticks = np.array(attribute.ticks, np.float64 if attribute.is_float else np.int64)
    scale = 10 ** (attribute.of_type.scale or 0)
    cuts: list[Any] = []
    for value in breaks:
        if attribute.is_float:
            cuts += [value, float(np.nextafter(value, np.inf))]
        elif abs(value) * scale < 2.0**62:
            cuts += [math.ceil(Fraction(value) * scale), math.floor(Fraction(value) * scale) + 1]
    inside = [cut for cut in cuts if ticks[0] < cut < ticks[-1] or (attribute.is_float and cut == ticks[-1])]
    starts = np.unique(np.concatenate([ticks[:-1], np.array(inside, ticks.dtype)]))
    last = ticks[-1] if attribute.is_float else ticks[-1] - 1
    before = np.nextafter(starts[1:], -np.inf) if attribute.is_float else starts[1:] - 1
    codes = np.minimum(np.searchsorted(ticks, starts, side="right") - 1, attribute.regular - 1)
    low, high = (ends.astype(np.float64) / scale for ends in (starts, np.append(before, last)))
    more = [(attribute.other_code, attribute.other), (attribute.null_code, None)]
    codes_and_values = [
        (code, float("nan") if text is None else float(text)) for code, text in more if code is not None
    ]
    codes = np.append(codes, np.array([code for code, _ in codes_and_values], np.int64))
    low, high = (np.append(ends, [value for _, value in codes_and_values]) for ends in (low, high))
    none = codes == (-1 if attribute.null_code is None else attribute.null_code)
    return codes, Spans.of(low, high, ~none, none)


def unit_of(kind: str) -> Fraction | None:
    """The step of a summed type; None for floats.

    Raises:
        InvalidQuery: it cannot be summed.
    """
    of_type = column_type(kind)
    if of_type.scale is not None:
        return Fraction(1, 10**of_type.scale)
    if of_type.is_float:
        return None
    raise InvalidQuery(f"query: sums, averages and quantiles take numbers, not {kind}: cast the argument to one")
