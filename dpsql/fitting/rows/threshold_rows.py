r"""Families of thresholds as rows of a linear program over a density on given points.

    (A h)_y = Σ_i h_i·[point z_i matches y in at least t of the columns of S]

A point counts for many of the queries, so that the whole matrix would be dense. The answers of a density follow from
its marginal of S by inclusion and exclusion (`dpsql.core.threshold`); rows are written down when they are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dpsql.core import sparse
from dpsql.core.domain import Domain
from dpsql.core.threshold import Threshold, threshold_counts

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ThresholdRows:
    """The rows of one family.

    Attributes:
        codes: of the points in the columns of S, shape (points, columns).
        shape: sizes of the columns.
        least: t.
    """

    codes: Codes
    shape: tuple[int, ...]
    least: int

    @staticmethod
    def of(domain: Domain, points: Codes, family: Threshold) -> ThresholdRows:
        """Those of a family over points, shape (points, attributes)."""
        columns = [domain.names.index(name) for name in family.clique]
        return ThresholdRows(points[:, columns], domain.shape(family.clique), family.least)

    @cached_property
    def _packed(self) -> Codes:
        return np.asarray(np.ravel_multi_index(tuple(self.codes.T), self.shape), np.int64)

    @cached_property
    def counted(self) -> Codes:
        """The queries that some point counts for; the others' answers are 0 whatever the density."""
        return np.flatnonzero(np.rint(self._counted(np.ones(len(self.codes)))) > 0)

    def _counted(self, weights: Floats) -> Floats:
        marginal = np.bincount(self._packed, weights, int(np.prod(self.shape))).astype(np.float64)
        return threshold_counts(marginal, self.shape, self.least)

    def answers(self, density: Floats) -> Floats:
        """A h of the queries that are kept, shape (counted,)."""
        return self._counted(density)[self.counted]

    def chosen(self, places: Codes) -> sparse.csr_array:
        """Some rows, by their places among those that are kept, shape (places, points)."""
        wanted = np.stack(np.unravel_index(self.counted[places], self.shape), axis=1)
        matches = np.zeros((len(places), len(self.codes)), np.int16)
        for column in range(len(self.shape)):
            matches += wanted[:, column, None] == self.codes[None, :, column]
        return sparse.csr_array((matches >= self.least).astype(np.float64))
