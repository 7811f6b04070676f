r"""Noisy sums, counts and averages with standard errors and 95 % intervals.

    a sum or count   y ± z·σ, with z = 1.96 for Gaussian noise, ln 20/√2 for Laplace noise
    an average s/c   Gaussian: Fieller's interval, all r with (s − r·c)² ≤ z²·(σ_s² + r²·σ_c²)
                     Laplace: all r that s and c allow, each within an interval of 97.5 %

An average lies within the bounds of its argument on the declared domain; where c may be 0 they are all that is known.

Source: Fieller 1954.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.marginal import Measurement

_NORMAL: Final = 1.959963984540054  # 95 % of a normal distribution lie so many standard deviations around its mean
_LAPLACE: Final = math.log(20) / math.sqrt(2)  # the same of a Laplace distribution
_EACH_OF_TWO: Final = math.log(40) / math.sqrt(2)  # 97.5 % of a Laplace distribution


@dataclass(frozen=True)
class Answers:
    """Noisy answers in their own unit, one for each group.

    Attributes:
        values: the answers; NaN where an average has no positive count.
        stderr: their standard errors.
        low: lower ends of 95 % intervals.
        high: upper ends.
    """

    values: npt.NDArray[Any]
    stderr: npt.NDArray[np.float64]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]


def plain(measured: Measurement, unit: float, *, whole: bool) -> Answers:
    """A count or a sum: the noise is all that is off.

    Args:
        measured: in steps.
        unit: the value of a step.
        whole: leave the values in steps.
    """
    spread = measured.stddev
    reach = spread * (_LAPLACE if measured.noise == "laplace" else _NORMAL)
    centre = np.asarray(measured.values * unit, np.float64)
    values = measured.values if whole else centre
    return Answers(values, np.full(len(centre), spread * unit), centre - reach * unit, centre + reach * unit)


def ratio(over: Measurement, under: Measurement, unit: float, bounds: tuple[float, float]) -> Answers:
    """An average: a noisy sum over a noisy count.

    Args:
        over: the sums, in steps.
        under: the counts.
        unit: the value of a step.
        bounds: the least and the largest value of what is averaged.
    """
    total, count = over.values * unit, under.values.astype(np.float64)
    spread, wide = over.stddev * unit, under.stddev
    with np.errstate(divide="ignore", invalid="ignore"):
        average = total / count
        ends = _box if over.noise == "laplace" else _fieller
        low, high, unknown = ends(total, count, spread, wide)
        stderr = np.sqrt(spread**2 + (average * wide) ** 2) / np.abs(count)
    least, most = bounds
    return Answers(
        np.where(count > 0, np.clip(average, least, most), np.nan),
        np.where(unknown, most - least, np.minimum(stderr, most - least)),
        np.where(unknown, least, np.clip(low, least, most)),
        np.where(unknown, most, np.clip(high, least, most)),
    )


def _fieller(total: Any, count: Any, spread: float, wide: float) -> tuple[Any, Any, Any]:
    square = count**2 - (_NORMAL * wide) ** 2
    middle = total * count / square
    inside = (_NORMAL * wide * total) ** 2 + (_NORMAL * spread) ** 2 * square
    half = np.sqrt(np.maximum(inside, 0)) / square
    return middle - half, middle + half, (square <= 0) | (count <= 0)


def _box(total: Any, count: Any, spread: float, wide: float) -> tuple[Any, Any, Any]:
    ends = [
        (total + over * _EACH_OF_TWO * spread) / (count + under * _EACH_OF_TWO * wide)
        for over in (-1, 1)
        for under in (-1, 1)
    ]
    return np.minimum.reduce(ends), np.maximum.reduce(ends), count <= _EACH_OF_TWO * wide
