"""What a query is on its declared domain: the value that `dpsql.evaluation.evaluate` makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dpsql.core.linear_query import LinearQuery
from dpsql.evaluation.histograms import Histogram
from dpsql.language.query import Kind


@dataclass(frozen=True)
class Spread:
    """The public bounds of a number.

    Attributes:
        low: its least value.
        high: its largest.
    """

    low: float
    high: float

    @property
    def centre(self) -> float:
        """The middle of the bounds."""
        return self.low + (self.high - self.low) / 2

    @property
    def radius(self) -> float:
        """How far from the middle it may be."""
        return (self.high - self.low) / 2

    @property
    def offset(self) -> float:
        """Half the largest square of its distance from the middle."""
        return self.radius**2 / 2


@dataclass(frozen=True)
class Measured:
    """What an aggregate is computed from.

    Attributes:
        kind: which statistic it is.
        weights: the numbers of the weights that are measured for it, see `dpsql.evaluation.statistics`.
        spreads: the bounds of what a variance, a covariance or a correlation is of.
        bounds: of a ratio; infinite where none are known.
        share: of a quantile.
        histogram: of a quantile.
    """

    kind: Kind
    weights: tuple[int, ...]
    spreads: tuple[Spread, ...] = ()
    bounds: tuple[float, float] = (-np.inf, np.inf)
    share: float | None = None
    histogram: Histogram | None = None


@dataclass(frozen=True)
class Evaluated:
    """A query on its domain.

    Attributes:
        linear: what to count: first the queries' own aggregates in order, an average as its sum and its count.
        units: for each weight of `linear` the value of 1, such as 1/100 for a sum of DECIMAL(9, 2).
        keys: for each grouping set, the text of each key of the query in each group (None is NULL); None for keys that
            are not in the set.
        present: for each grouping set, which groups can have a row, by the filters.
        measured: for each aggregate of the query what it is computed from.
    """

    linear: LinearQuery
    units: tuple[Fraction, ...]
    keys: tuple[tuple[npt.NDArray[Any] | None, ...], ...]
    present: tuple[npt.NDArray[np.bool_], ...]
    measured: tuple[Measured, ...] = ()

    def average_range(self, made_of: Sequence[int]) -> tuple[float, float]:
        """The bounds of an average, in its unit; `made_of` are the numbers of its sum and its count."""
        over, under = made_of
        low, high = self.linear.average_bounds(over, under)
        return low * float(self.units[over]), high * float(self.units[over])

    def reached(self, numbers: Sequence[int]) -> npt.NDArray[np.bool_]:
        """The groups, of one grouping set after the other, in which a row can count for one of some weights."""
        is_reached = np.zeros(sum(self.linear.groups), bool)
        for number in numbers:
            of_sets = []
            for chosen, count in enumerate(self.linear.groups):
                places = np.unravel_index(np.arange(count), [part.keys[chosen] for part in self.linear.parts])
                alive = np.ones(count, bool)
                for part, place in zip(self.linear.parts, places, strict=True):
                    seen = np.zeros(part.keys[chosen], bool)
                    seen[part.groups[chosen][part.factors[number] != 0]] = True
                    alive &= seen[place]
                of_sets.append(alive)
            is_reached |= np.concatenate(of_sets)
        return is_reached
