"""Histograms: the bins of a column, or the values of an expression, that quantiles are read off."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Attribute
from dpsql.core.linear_query import Integers
from dpsql.core.names import as_text
from dpsql.errors import DomainTooLarge, InvalidQuery

Floats = npt.NDArray[np.float64]

MOST_BINS: Final = 256
_FEWEST_BINS: Final = 8
_MOST_WEIGHTS: Final = 20_000_000  # bins times cells, or times groups, which are numbers in memory


@dataclass(frozen=True)
class Histogram:
    """The bins of a histogram, in the order of their values.

    Attributes:
        low: the least value of each.
        high: the largest value of each; of a single value the same.
        places: for each cell of a part the number of its bin; −1 where it is in none.
    """

    low: Floats
    high: Floats
    places: Integers

    @property
    def bins(self) -> int:
        """How many there are."""
        return len(self.low)

    def merged(self, most: int) -> Histogram:
        """With at most so many bins: neighbours are put together."""
        if self.bins <= most:
            return self
        starts = np.arange(most) * self.bins // most
        merged = np.searchsorted(starts, np.arange(self.bins), side="right") - 1
        places = np.where(self.places >= 0, merged[self.places], -1)
        return Histogram(self.low[starts], self.high[np.append(starts[1:], self.bins) - 1], places)

    def factors(self, counts: Integers) -> Integers:
        """For each bin which cells are counted in it, shape (bins, cells).

        Args:
            counts: for each cell whether it counts.
        """
        inside = self.places == np.arange(self.bins)[:, None]
        return np.asarray(inside * counts, np.int64)


def histogram_of_bins(declared: Attribute, counted: Attribute, codes: Integers) -> Histogram:
    """The declared bins of a column.

    Args:
        declared: the column.
        counted: the same, with bins that may be finer.
        codes: for each cell the column's code among the finer bins.

    Raises:
        InvalidQuery: there is one bin only.
    """
    if declared.regular < 2 and not declared.has_single_values:
        raise InvalidQuery(
            f"query: {declared.name!r} has one bin, in which every quantile lies: declare more bins with "
            f"dp_domain(…, {as_text(declared.name)}, bins := …)"
        )
    ticks = np.array(declared.ticks, np.float64 if declared.is_float else np.int64)
    scale = 10 ** (declared.of_type.scale or 0)
    highest = ticks[1:] if declared.is_float else ticks[1:] - 1
    starts = np.array(counted.ticks[:-1], ticks.dtype)
    place = np.full(counted.size, -1, np.int64)
    place[: counted.regular] = np.searchsorted(ticks, starts, side="right") - 1
    place = np.clip(place, -1, declared.regular - 1)
    low, high = ((np.asarray(ends) / scale).astype(np.float64) for ends in (ticks[:-1], highest))
    if counted.other_code is not None and counted.other is not None:
        other = _finite(declared, counted.other)
        nearest = np.searchsorted(ticks, other * (1 if declared.is_float else scale), side="right") - 1
        bin_of_other = int(np.clip(nearest, 0, declared.regular - 1))
        low[bin_of_other], high[bin_of_other] = min(low[bin_of_other], other), max(high[bin_of_other], other)
        place[counted.other_code] = bin_of_other
    return Histogram(low, high, place[codes])


def _finite(declared: Attribute, other: str) -> float:
    """The value that stands for all others; it stretches the first or the last bin if it lies beyond them."""
    if not math.isfinite(float(other)):
        raise InvalidQuery(
            f"query: {other!r} stands for the values of {declared.name!r} outside its bins, and no quantile lies "
            f"beside it: declare another one with dp_domain(…, {as_text(declared.name)}, other := …)"
        )
    return float(other)


def histogram_of_values(values: Integers, counts: Integers, unit: Fraction) -> Histogram:
    """The distinct values of an expression.

    Args:
        values: of each cell, in steps.
        counts: for each cell whether it counts.
        unit: the value of a step.
    """
    inside = counts != 0
    distinct = np.unique(values[inside]) if inside.any() else np.zeros(1, np.int64)
    places = np.where(inside, np.searchsorted(distinct, values), -1)
    midpoints = np.asarray(distinct * float(unit), np.float64)
    return Histogram(midpoints, midpoints, np.minimum(places, len(distinct) - 1))


def fitting(histogram: Histogram, cells: int, groups: int, several: int) -> Histogram:
    """With as many bins as memory allows.

    Args:
        histogram: of all bins.
        cells: of the largest part.
        groups: of the query.
        several: how many histograms the query has, which share the memory.

    Raises:
        DomainTooLarge: too few bins would be left.
    """
    most = min(MOST_BINS, _MOST_WEIGHTS // (max(cells, groups, 1) * several))
    if most < min(_FEWEST_BINS, histogram.bins):
        raise DomainTooLarge(
            f"query: a quantile counts each bin in each of {groups:.3g} groups over {cells:.3g} cells, which is too "
            "much: group by fewer or coarser columns, or ask for fewer quantiles at once"
        )
    return histogram.merged(most)


Expanded = tuple[list[list[Integers]], list[tuple[int, ...]]]


def expanded(
    factors: Sequence[Sequence[Integers]], histograms: Sequence[dict[int, Histogram]], weights: int
) -> Expanded:
    """The factors of all weights, of a histogram one for each of its bins.

    Args:
        factors: for each part each weight in each of its cells.
        histograms: for each part those whose column it has, by the number of the weight.
        weights: how many there are.

    Returns:
        For each part the new factors, and for each weight the numbers of those that came of it.
    """
    histograms_by_number = {number: histogram for of_part in histograms for number, histogram in of_part.items()}
    factors_by_weight: list[list[Integers]] = [[] for _ in factors]
    numbers: list[tuple[int, ...]] = []
    count = 0
    for number in range(weights):
        bins = histograms_by_number[number].bins if number in histograms_by_number else 1
        for mine, of_part, own in zip(factors_by_weight, factors, histograms, strict=True):
            if number in own:
                mine += list(own[number].factors(of_part[number]))
            else:
                mine += [of_part[number]] * bins
        numbers.append(tuple(range(count, count + bins)))
        count += bins
    return factors_by_weight, numbers


def spread_evenly(histogram: Histogram, rows: float) -> npt.NDArray[Any]:
    """The counts of so many rows that are spread evenly over the range, one for each bin."""
    width = histogram.high - histogram.low
    shares = (
        width / width.sum() if width.sum() > 0 and math.isfinite(width.sum()) else np.full(len(width), 1 / len(width))
    )
    return rows * shares
