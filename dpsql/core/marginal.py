"""Counts and noisy counts of the cells of a clique."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique
from dpsql.core.linear_family import LinearFamily
from dpsql.core.threshold import Family, Threshold

Counts = npt.NDArray[np.int64]
NO_NOISE: Final = "none"
"""The `noise` of a public number."""


@dataclass(frozen=True)
class Marginal:
    """The exact counts of a clique; only the curator sees one.

    Attributes:
        clique: its attributes; empty for the number of all rows.
        size: the number of cells.
        cells: indices (row-major over the clique's codes) of the cells that are not zero, shape (support,).
        counts: their counts (rows), shape (support,).
    """

    clique: Clique
    size: int
    cells: Counts
    counts: Counts

    def dense(self) -> Counts:
        """The counts of all cells, shape (size,)."""
        values = np.zeros(self.size, dtype=np.int64)
        values[self.cells] = self.counts
        return values


@dataclass(frozen=True)
class Presence:
    """Which privacy units have a row in which cells of a clique, each pair once; only the curator sees one.

    Units that have rows in the same cells are alike, and may have one number.

    Attributes:
        clique: its attributes.
        units: numbers of units, shape (pairs,).
        cells: indices of cells, shape (pairs,).
        alike: how many units have each number, shape (numbers,).
    """

    clique: Clique
    units: Counts
    cells: Counts
    alike: Counts


@dataclass(frozen=True)
class Measurement:
    """Noisy answers, safe to publish: count + integer noise for some cells of a clique.

    Attributes:
        clique: its attributes; empty for the number of all rows.
        shape: sizes of the attributes' domains.
        values: noisy counts (rows). Shape (cells,) for a whole marginal, row-major; else one for each of `cells`.
        variance: of the noise, 0 for a public number.
        noise: the name of its distribution (`dpsql.privacy.distributions`), or `NO_NOISE`.
        rho: what it cost (zCDP), exact.
        cells: None for a whole marginal, else the indices of the cells that were measured.
        least: for cells of a family of thresholds, how many columns must match; None for cells of a marginal.
        linear: the linear queries whose answers `values` are, in steps; then `cells` are numbers of groups.
    """

    clique: Clique
    shape: tuple[int, ...]
    values: Counts
    variance: Fraction
    noise: str
    rho: Fraction
    cells: tuple[int, ...] | None = None
    least: int | None = None
    linear: LinearFamily | None = None

    @property
    def family(self) -> Family:
        """Whose cells they are."""
        return self.clique if self.least is None else Threshold(self.clique, self.least)

    @property
    def stddev(self) -> float:
        """Standard deviation of each value's noise (rows)."""
        return math.sqrt(self.variance)
