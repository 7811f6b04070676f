"""What a query is on its declared domain: the value that `dpsql.evaluation.evaluate` makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dpsql.core.linear_query import LinearQuery


@dataclass(frozen=True)
class Evaluated:
    """A query on its domain.

    Attributes:
        linear: what to count: first the queries' own aggregates in order, an average as its sum and its count.
        units: for each weight of `linear` the value of 1, such as 1/100 for a sum of DECIMAL(9, 2).
        keys: for each grouping set, the text of each key of the query in each group (None is NULL); None for keys that
            are not in the set.
        present: for each grouping set, which groups can have a row, by the filters.
    """

    linear: LinearQuery
    units: tuple[Fraction, ...]
    keys: tuple[tuple[npt.NDArray[Any] | None, ...], ...]
    present: tuple[npt.NDArray[np.bool_], ...]

    def average_range(self, made_of: Sequence[int]) -> tuple[float, float]:
        """The bounds of an average, in its unit; `made_of` are the numbers of its sum and its count."""
        over, under = made_of
        low, high = self.linear.average_bounds(over, under)
        return low * float(self.units[over]), high * float(self.units[over])
