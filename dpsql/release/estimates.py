r"""What a release's own noisy counts say of small marginals: the best unbiased estimate of each, and its noise.

    y_S = Σ_M w_M·(M summed to S),   w_M ∝ 1/v_M,   v_M = σ_M²·cells(M)/cells(S),   v_S = 1/Σ_M 1/v_M

over all whole marginals M ⊇ S that were measured. Noise of different measurements is independent, so y_S is unbiased
and v_S is the variance of each of its cells (rows²). Earlier releases are left out, because what they measured may
be of other rows. Only released values are used, so an estimate costs no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique, Domain
from dpsql.core.marginal import Measurement
from dpsql.privacy.distributions import find_noise

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """An unbiased estimate of a marginal.

    Attributes:
        clique: its columns; empty for the number of all rows.
        values: rows in each cell, in the marginal's shape; some may be negative.
        variance: of the noise of each value (rows²); 0 for a public number.
        weights: of each measurement that is in it, by its place in the list.
        is_normal: whether all of its noise is.
    """

    clique: Clique
    values: Floats
    variance: float
    weights: Mapping[int, float]
    is_normal: bool

    @property
    def stddev(self) -> float:
        """Standard deviation of each value (rows)."""
        return math.sqrt(self.variance)


class Estimates:
    """The estimates that a release's whole marginals allow."""

    def __init__(self, domain: Domain, measured: Iterable[Measurement]) -> None:
        self.domain = domain
        self._whole = [m for m in measured if m.cells is None and m.least is None]
        self._holding: dict[str, set[int]] = {name: set() for name in domain.names}
        for place, measurement in enumerate(self._whole):
            for name in measurement.clique:
                self._holding[name].add(place)
        self._estimates: dict[Clique, Estimate | None] = {}

    def of(self, clique: Clique) -> Estimate | None:
        """The estimate of a marginal; None where nothing that was measured holds all of its columns."""
        if len(clique) > 1:  # kept, those of all pairs would take much memory
            return self._estimate(clique)
        if clique not in self._estimates:
            self._estimates[clique] = self._estimate(clique)
        return self._estimates[clique]

    @property
    def total(self) -> float | None:
        """The number of rows, at least 1; None where nothing tells it."""
        estimate = self.of(())
        return None if estimate is None else max(1.0, float(estimate.values))

    def shared(self, first: Estimate, second: Estimate, clique: Clique) -> float:
        """Σ w·w′·v over the measurements of both that hold a clique: how far their noise is the same there."""
        places = self._places(clique)
        both = (place for place in first.weights if place in second.weights and place in places)
        return sum(first.weights[p] * second.weights[p] * self._variance(p, clique) for p in both)

    def _places(self, clique: Clique) -> Sequence[int]:
        """The measurements that hold a clique, in order."""
        holding = [self._holding[name] for name in clique]
        return sorted(set.intersection(*holding)) if holding else range(len(self._whole))

    def _variance(self, place: int, clique: Clique) -> float:
        """Of each cell of a measurement that is summed to a clique."""
        measurement = self._whole[place]
        return float(measurement.variance) * len(measurement.values) / self.domain.size(clique)

    def _estimate(self, clique: Clique) -> Estimate | None:
        places = self._places(clique)
        if not places:
            return None
        shape = self.domain.shape(clique)
        exact = [place for place in places if self._whole[place].variance == 0]
        if exact:
            return Estimate(clique, self._summed(exact[0], clique), 0.0, {exact[0]: 1.0}, is_normal=True)
        precision = {place: 1 / self._variance(place, clique) for place in places}
        whole = sum(precision.values())
        weights = {place: share / whole for place, share in precision.items()}
        values = np.zeros(shape)
        for place, weight in weights.items():
            values += weight * self._summed(place, clique)
        normal = all(find_noise(self._whole[place].noise).is_normal for place in places)
        return Estimate(clique, values, 1 / whole, weights, is_normal=normal)

    def _summed(self, place: int, clique: Clique) -> Floats:
        measurement = self._whole[place]
        axes = tuple(axis for axis, name in enumerate(measurement.clique) if name not in clique)
        return np.asarray(measurement.values.reshape(measurement.shape).sum(axis=axes), np.float64)
