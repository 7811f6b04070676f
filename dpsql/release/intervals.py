r"""Noisy sums, counts and averages with standard errors and 95 % intervals.

    a sum or count   y ± z·σ, with z = 1.96 for Gaussian noise, ln 20/√2 for Laplace noise (`Distribution.reach`), √20
                     for sums of several kinds (Chebyshev)
    an average s/c   normal noise: Fieller's interval, all r with (s − r·c)² ≤ z²·(σ_s² − 2r·σ_sc + r²·σ_c²)
                     else: all r that s and c allow, each within an interval of 97.5 %

An average lies within the bounds of its argument on the declared domain. Where c may be 0, or the interval is as wide
as these bounds, nothing else is known: then the average and its error are NaN, and the interval is the bounds.

Source: Fieller 1954.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.marginal import Measurement
from dpsql.privacy.distributions import Distribution, find_noise

OUTSIDE: Final = 0.05
"""How likely the truth is outside an interval."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Noisy:
    """Unbiased answers.

    Attributes:
        values: in steps, shape (groups,).
        stddev: of each, shape (groups,) or ().
        noise: None for sums of several kinds.
    """

    values: npt.NDArray[Any]
    stddev: Any
    noise: Distribution | None

    @staticmethod
    def of(measured: Measurement) -> Noisy:
        """What the curator measured."""
        return Noisy(measured.values, measured.stddev, find_noise(measured.noise))

    @property
    def is_normal(self) -> bool:
        """Whether the noise is."""
        return self.noise is not None and self.noise.is_normal

    def reach(self, failure: float) -> float:
        """So many standard deviations hold the noise but for that probability; by Chebyshev where it is of no kind."""
        return 1 / math.sqrt(failure) if self.noise is None else self.noise.reach(failure)


@dataclass(frozen=True)
class Answers:
    """Noisy answers in their own unit, one for each group.

    Attributes:
        values: the answers; NaN where an average is not known better than its bounds.
        stderr: their standard errors; NaN likewise.
        low: lower ends of 95 % intervals.
        high: upper ends.
    """

    values: npt.NDArray[Any]
    stderr: npt.NDArray[np.float64]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]


def reach_of(noisy: Noisy, unit: float) -> Any:
    """Half the 95 % interval of a sum or count; of whole steps with one noise rounded up to whole steps."""
    steps = noisy.reach(OUTSIDE) * np.asarray(noisy.stddev, np.float64)
    whole = np.issubdtype(np.asarray(noisy.values).dtype, np.integer)
    return (np.ceil(steps) if whole else steps) * unit


def plain(noisy: Noisy, unit: float, *, whole: bool) -> Answers:
    """A count or a sum: the noise is all that is off.

    Args:
        noisy: in steps.
        unit: the value of a step.
        whole: leave the values in steps.
    """
    centre = np.asarray(noisy.values * unit, np.float64)
    spread = np.broadcast_to(np.asarray(noisy.stddev * unit, np.float64), centre.shape)
    reach = reach_of(noisy, unit)
    return Answers(noisy.values if whole else centre, spread, centre - reach, centre + reach)


def ratio(over: Noisy, under: Noisy, unit: float, bounds: tuple[float, float], covariance: Any = 0.0) -> Answers:
    """An average: a noisy sum over a noisy count. One that says no more than its bounds is NaN, and so is its error.

    Args:
        over: the sums, in steps.
        under: the counts.
        unit: the value of a step.
        bounds: the least and the largest value of what is averaged.
        covariance: of each sum (in steps) with its count.
    """
    total, count = over.values * unit, under.values.astype(np.float64)
    spread, wide, together = over.stddev * unit, under.stddev, covariance * unit
    with np.errstate(divide="ignore", invalid="ignore"):
        average = total / count
        if over.is_normal and under.is_normal:
            low, high, unknown = fieller(total, count, spread, wide, together, under.reach(OUTSIDE))
        else:
            low, high, unknown = _box(total, count, spread, wide, over.reach(OUTSIDE / 2))
        variance = spread**2 - 2 * average * together + (average * wide) ** 2
        stderr = np.sqrt(np.maximum(variance, 0)) / np.abs(count)
    return settled(average, stderr, low, high, unknown, bounds)


def settled(value: Any, stderr: Any, low: Any, high: Any, unknown: Any, bounds: tuple[Any, Any]) -> Answers:
    """Values and intervals within public bounds; NaN where they say no more than those.

    Args:
        value: of each group.
        stderr: of the noise.
        low: lower ends of intervals.
        high: upper ends.
        unknown: where there is no interval.
        bounds: the least and the largest value; infinite where none are known.
    """
    least, most = (np.asarray(end, np.float64) for end in bounds)
    unknown = unknown | ((least < most) & (low <= least) & (high >= most)) | np.isnan(low) | np.isnan(high)
    open_low, open_high = (np.where(np.isinf(end), np.nan, end) for end in (least, most))
    return Answers(
        np.where(unknown, np.nan, np.clip(value, least, most)),
        np.where(unknown, np.nan, np.minimum(stderr, most - least)),
        np.where(unknown, open_low, np.clip(low, least, most)),
        np.where(unknown, open_high, np.clip(high, least, most)),
    )


def least_count(under: Noisy) -> float:
    """The noisy count up to which an average is not known at all."""
    return under.reach(OUTSIDE if under.is_normal else OUTSIDE / 2) * float(np.max(under.stddev))


def fieller(total: Any, count: Any, spread: Any, wide: Any, together: Any, reach: float) -> tuple[Any, Any, Any]:
    """The roots of r²(c² − z²σ_c²) − 2r(sc − z²σ_sc) + s² − z²σ_s², and where there is no interval.

    Args:
        total: s.
        count: c.
        spread: σ_s.
        wide: σ_c.
        together: σ_sc.
        reach: z.
    """
    z2 = reach**2
    square = count**2 - z2 * wide**2
    middle = total * count - z2 * together
    half = np.sqrt(np.maximum(middle**2 - square * (total**2 - z2 * spread**2), 0))
    return (middle - half) / square, (middle + half) / square, (square <= 0) | (count <= 0)


def _box(total: Any, count: Any, spread: Any, wide: Any, reach: float) -> tuple[Any, Any, Any]:
    ends = [(total + over * reach * spread) / (count + under * reach * wide) for over in (-1, 1) for under in (-1, 1)]
    return np.minimum.reduce(ends), np.maximum.reduce(ends), count <= reach * wide
