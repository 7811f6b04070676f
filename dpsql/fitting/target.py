"""What a fit is given: answers in floats, as measured or as derived from measurements."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique
from dpsql.core.linear_family import LinearFamily
from dpsql.core.marginal import Measurement


@dataclass(frozen=True)
class Target:
    """Answers that a model should come near, and how near.

    A `Measurement` is what was published, in whole numbers; a target may be a mean of several, or an estimate.

    Attributes:
        clique: its attributes; empty for the number of all rows.
        shape: sizes of the attributes' domains.
        values: answers (rows), shape (cells,), row-major.
        variance: of each, as far as it is known; 0 for a public number.
        rho: what was paid for it (zCDP), by which a fit decides how far to trust dependences; 0 if nothing was.
        cells: None for a whole marginal, else the indices of the cells that there are answers to.
        least: for cells of a family of thresholds, how many columns must match; None for cells of a marginal.
        linear: the linear queries that there are answers to, in steps; then `cells` are numbers of groups.
    """

    clique: Clique
    shape: tuple[int, ...]
    values: npt.NDArray[np.float64]
    variance: float
    rho: float = 0.0
    cells: tuple[int, ...] | None = None
    least: int | None = None
    linear: LinearFamily | None = None

    @staticmethod
    def of(measured: Measurement) -> Target:
        """A measurement as it is."""
        values, variance = measured.values.astype(np.float64), float(measured.variance)
        rho = float(measured.rho)
        return Target(
            measured.clique, measured.shape, values, variance, rho, measured.cells, measured.least, measured.linear
        )

    @property
    def stddev(self) -> float:
        """Standard deviation of each value (rows)."""
        return math.sqrt(self.variance)


def targets_of(measured: Iterable[Measurement]) -> list[Target]:
    """Measurements as they are."""
    return [Target.of(measurement) for measurement in measured]
