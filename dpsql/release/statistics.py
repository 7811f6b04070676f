r"""Variances, covariances, correlations and ratios from noisy sums and counts, with standard errors and 95 % intervals.

With n the count, and u, v, w = u² − r²/2 as `dpsql.evaluation.statistics` has them,

    A = Σ w + n·r²/2 − (Σ u)²/n     the sum of squares around the mean;  variance = A/n, or A/(n − 1) of a sample
    C = Σ u·v − Σ u·Σ v/n           covariance = C/n, or C/(n − 1);      correlation = C/√(A·B), B of v as A of u

A ratio x/y has Fieller's interval: all θ with (x − θ·y)² ≤ z²·Var(x − θ·y). Of A, C and √(A·B) the noise is taken in
the first order, and the variance of its second order is added. So is its mean: (Σ u)² is too large by the variance of
Σ u. An interval of a standard deviation is that of the variance, its ends' roots. Where an interval says no more than
public bounds, the value and its error are NaN and the interval is the bounds, or NaN where there are none.

Sources: Fieller 1954; Casella and Berger 2002, section 5.5.4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.evaluation.evaluated import Evaluated, Measured
from dpsql.release.intervals import OUTSIDE, Answers, Noisy, fieller, settled
from dpsql.release.quantiles import quantile

Floats = npt.NDArray[np.float64]
_CLEAR: Final = 3.0  # standard deviations of noise above 0 from which a root of a sum of squares is taken
_LEAST_SAMPLE: Final = 2.0  # rows that have a variance of a sample


@dataclass(frozen=True)
class Derived:
    """A number that noisy sums make.

    Attributes:
        value: of each group.
        slopes: by how much it changes with each of the sums.
        more: the variance of the noise beyond the first order.
    """

    value: Any
    slopes: Mapping[int, Any]
    more: Any = 0.0


class Sums:
    """Noisy sums, in their own unit, and the covariances of their noise."""

    def __init__(
        self,
        noisy: Sequence[Noisy],
        units: Sequence[float],
        numbers: Sequence[int],
        covariances: Mapping[tuple[int, int], Any],
    ) -> None:
        """Those that a statistic is made of.

        Args:
            noisy: each weight's answers, in steps.
            units: the value of a step of each weight.
            numbers: of the weights of the statistic.
            covariances: of pairs of weights, in steps, where they are not 0.
        """
        self.values: list[Floats] = [np.asarray(noisy[n].values, np.float64) * units[n] for n in numbers]
        self.reach = max(noisy[n].reach(OUTSIDE) for n in numbers)
        self._variances = {}
        for row, first in enumerate(numbers):
            self._variances[row, row] = (np.asarray(noisy[first].stddev, np.float64) * units[first]) ** 2
            for two, second in enumerate(numbers[:row]):
                covariance = covariances.get((first, second), covariances.get((second, first)))
                if first == second:
                    self._variances[row, two] = self._variances[two, row] = self._variances[two, two]
                elif covariance is not None:
                    self._variances[row, two] = self._variances[two, row] = covariance * units[first] * units[second]

    def variance(self, number: int) -> Any:
        """Of the noise of one of the sums."""
        return self._variances[number, number]

    def together(self, first: Derived, two: Derived) -> Any:
        """The covariance of the noise of two numbers, in the first order."""
        pairs = ((a, b) for a in first.slopes for b in two.slopes if (a, b) in self._variances)
        return sum(first.slopes[a] * two.slopes[b] * self._variances[a, b] for a, b in pairs)

    def stddev(self, of: Derived) -> Any:
        """The standard deviation of the noise of a number."""
        return np.sqrt(np.maximum(self.together(of, of) + of.more, 0))

    def given(self, number: int) -> Derived:
        """One of the sums itself."""
        return Derived(self.values[number], {number: 1.0})

    def quotient(self, over: Derived, under: Derived, bounds: tuple[Any, Any]) -> Answers:
        """One number over another: Fieller's interval."""
        spread, wide, together = self.stddev(over), self.stddev(under), self.together(over, under)
        low, high, unknown = fieller(over.value, under.value, spread, wide, together, self.reach)
        least, most = bounds
        unknown = unknown | ((least < most) & ((high <= least) | (low >= most)))  # noise alone: no truth is there
        value = over.value / under.value
        variance = spread**2 - 2 * value * together + (value * wide) ** 2
        return settled(value, np.sqrt(np.maximum(variance, 0)) / np.abs(under.value), low, high, unknown, bounds)


_Statistic = Callable[[Sums, Measured], Answers]


def statistic(
    measured: Measured, evaluated: Evaluated, noisy: Sequence[Noisy], covariances: Mapping[tuple[int, int], Any]
) -> Answers:
    """A statistic of each group.

    Args:
        measured: what it is computed from.
        evaluated: the query on the domain.
        noisy: for each weight its answers, in steps.
        covariances: of pairs of weights, in steps, where they are not 0.
    """
    if measured.histogram is not None:
        return quantile(measured, noisy)
    sums = Sums(noisy, list(map(float, evaluated.units)), measured.weights, covariances)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return _STATISTICS[measured.kind](sums, measured)


def _squares(sums: Sums, number: int, square: int, measured: Measured, spread: int) -> Derived:
    """A, from the count (number 0), Σ u and Σ w."""
    count, total, of = sums.values[0], sums.values[number], measured.spreads[spread]
    mean = np.clip(total / count, -of.radius, of.radius)
    noise = sums.variance(number)
    value = sums.values[square] + count * of.offset - total**2 / count + noise / count
    slopes = {0: of.offset + mean**2, number: -2 * mean, square: 1.0}
    return Derived(value, slopes, 2 * (noise / count) ** 2)


def _products(sums: Sums, measured: Measured) -> Derived:
    """C, from the count, Σ u, Σ v and Σ u·v (numbers 0 to 3)."""
    count, first, second, product = sums.values[:4]
    left, two = (
        np.clip(total / count, -of.radius, of.radius)
        for total, of in zip((first, second), measured.spreads, strict=True)
    )
    slopes = {0: left * two, 1: -two, 2: -left, 3: 1.0}
    return Derived(product - first * second / count, slopes, sums.variance(1) * sums.variance(2) / count**2)


def _rows(sums: Sums, *, sample: bool) -> tuple[Derived, Any]:
    """What a sum of squares is divided by, and at most how much larger a sample's variance is for that."""
    count = sums.given(0)
    least = np.maximum(_LEAST_SAMPLE, count.value - sums.reach * np.sqrt(sums.variance(0)))
    if not sample:
        return count, np.ones_like(least)
    return replace(count, value=count.value - 1), least / (least - 1)


def _variance(sums: Sums, measured: Measured) -> Answers:
    rows, more = _rows(sums, sample=measured.kind.endswith("_samp"))
    most = measured.spreads[0].radius ** 2 * more
    return sums.quotient(_squares(sums, 1, 2, measured, 0), rows, (np.zeros_like(most), most))


def _deviation(sums: Sums, measured: Measured) -> Answers:
    """The roots; the standard error is what half the interval says."""
    variance = _variance(sums, measured)
    low, high = np.sqrt(variance.low), np.sqrt(variance.high)
    value = np.sqrt(variance.values)
    return Answers(value, np.where(np.isnan(value), np.nan, (high - low) / (2 * sums.reach)), low, high)


def _covariance(sums: Sums, measured: Measured) -> Answers:
    rows, more = _rows(sums, sample=measured.kind.endswith("_samp"))
    most = measured.spreads[0].radius * measured.spreads[1].radius * more
    return sums.quotient(_products(sums, measured), rows, (-most, most))


def _correlation(sums: Sums, measured: Measured) -> Answers:
    first, second = _squares(sums, 1, 4, measured, 0), _squares(sums, 2, 5, measured, 1)
    clear = [clearness.value > _CLEAR * sums.stddev(clearness) for clearness in (first, second)]
    own, two = np.where(clear[0], first.value, np.nan), np.where(clear[1], second.value, np.nan)
    slopes: dict[int, Any] = {}
    for derived, part in ((first, np.sqrt(two / own) / 2), (second, np.sqrt(own / two) / 2)):
        for number, slope in derived.slopes.items():
            slopes[number] = slopes.get(number, 0.0) + slope * part
    under = Derived(np.sqrt(own * two), slopes, first.more * two / own / 4 + second.more * own / two / 4)
    return sums.quotient(_products(sums, measured), under, (-1.0, 1.0))


def _ratio(sums: Sums, measured: Measured) -> Answers:
    over, under = sums.given(0), sums.given(1)
    sign = np.where(under.value < 0, -1.0, 1.0)
    over, under = (Derived(side.value * sign, {n: sign}) for n, side in enumerate((over, under)))
    return sums.quotient(over, under, measured.bounds)


_STATISTICS: Final[Mapping[str, _Statistic]] = {
    "var_samp": _variance,
    "var_pop": _variance,
    "stddev_samp": _deviation,
    "stddev_pop": _deviation,
    "covar_samp": _covariance,
    "covar_pop": _covariance,
    "corr": _correlation,
    "ratio": _ratio,
}


def assumed_sums(measured: Measured, evaluated: Evaluated, rows: float) -> list[float]:
    """The sums of so many rows whose values are spread evenly over their bounds, and go together in nothing."""
    if measured.kind == "ratio":
        over, under = (_middle(evaluated, number) * rows for number in measured.weights)
        low, high = measured.bounds
        return [under * (low + high) / 2 if math.isfinite(low + high) else over, under]
    squares = [-rows * spread.radius**2 / 6 for spread in measured.spreads]  # r²/3 − r²/2
    if measured.kind in ("covar_samp", "covar_pop"):
        return [rows, 0.0, 0.0, 0.0]
    return [rows, 0.0, 0.0, 0.0, *squares] if measured.kind == "corr" else [rows, 0.0, *squares]


def _middle(evaluated: Evaluated, weight: int) -> float:
    """The middle of what a row adds to a sum, if it adds anything."""
    low, high = evaluated.linear.average_bounds(weight, weight)
    return (low + high) / 2 * float(evaluated.units[weight])
