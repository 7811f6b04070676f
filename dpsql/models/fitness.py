r"""How near a model is to what was measured: the same two numbers for every mechanism.

    loss       ½·Σ (n·q(model) − y)²/σ²      over all noisy counts y of a release: single cells, thresholds and
               linear queries, too
               of a marginal that was measured for thresholds y are the answers to these, and σ² is m times a cell's
    residual   2·loss/(number of counts); about 1 where only noise is left, less where the model fits noise, too

Both are computed from released values, so they cost no privacy. The number of rows is left out: it says nothing of a
distribution.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique
from dpsql.core.marginal import Measurement
from dpsql.core.threshold import Threshold, most_counted, threshold_counts
from dpsql.models.model import Model, projecting

_ONLY_NOISE: Final = 1.1
_FAR: Final = 4.0
"""A residual of a table that is, on average, two standard deviations of the noise away from what was measured."""
_SPREADS: Final = 3


@dataclass(frozen=True)
class Fitness:
    """How near a model is to noisy counts.

    Attributes:
        loss: see the module.
        cells: how many noisy counts there are.
    """

    loss: float
    cells: int

    @staticmethod
    def of(model: Model, measured: Iterable[Measurement], thresholds: Sequence[Threshold] = ()) -> Fitness:
        """Of a model and a release's noisy counts.

        Args:
            model: of the release.
            measured: its noisy counts.
            thresholds: families that it should answer, whose parts are judged in place of the cells that tell them.
        """
        noisy = [m for m in measured if m.variance > 0 and m.clique]
        cliques = list(dict.fromkeys(m.clique for m in noisy))
        project = projecting(model, cliques)
        loss, cells = 0.0, 0
        clique: Clique = ()
        marginal: npt.NDArray[np.float64] = np.ones(1)
        for measurement in sorted(noisy, key=lambda m: m.clique):
            if measurement.clique != clique:
                clique = measurement.clique
                marginal = np.asarray(project(clique), np.float64)
            answers, values, variance = marginal, measurement.values.astype(np.float64), float(measurement.variance)
            if measurement.linear is not None:
                answers = measurement.linear.answers(marginal)
            if measurement.least is not None:
                answers = threshold_counts(answers, measurement.shape, measurement.least)
            if measurement.cells is not None:
                answers = answers[list(measurement.cells)]
            elif measurement.linear is None and (least := _least_of(clique, thresholds)) is not None:
                answers = threshold_counts(answers, measurement.shape, least)
                values = threshold_counts(values, measurement.shape, least)
                variance *= most_counted(measurement.shape, least)
            loss += float(np.sum((model.total * answers - values) ** 2)) / (2 * variance)
            cells += len(measurement.values)
        return Fitness(loss, cells)

    @property
    def residual(self) -> float | None:
        """See the module; None where nothing was measured."""
        return 2 * self.loss / self.cells if self.cells else None

    @property
    def is_explained(self) -> bool:
        """Whether noise explains the residual."""
        residual = self.residual
        return residual is None or residual <= _ONLY_NOISE + _SPREADS * math.sqrt(2 / self.cells)

    @property
    def warning(self) -> str | None:
        """What a reader should know of a table that is far from what was measured; None where it is not."""
        residual = self.residual
        if residual is None or residual < _FAR:
            return None
        return (
            "the table is farther from what was measured than noise explains: its residual is "
            f"{residual:.3g}, noise alone leaves about 1; more of what the mechanism works with (rounds, points, a "
            "nearer prior) may help, and mechanism := 'projection' fits nearer (with delta = 0 'direct')"
        )

    @property
    def report(self) -> dict[str, Any]:
        """What a release says of it; nothing where nothing was measured."""
        residual = self.residual
        return {} if residual is None else {"loss": round(self.loss, 2), "residual": round(residual, 4)}


def _least_of(clique: Clique, thresholds: Sequence[Threshold]) -> int | None:
    """The least t of the families that a marginal is a part (t, U) of, but for t = |U|; None where there is none."""
    sizes = [family.least for family in thresholds if family.least < len(clique) and set(clique) <= set(family.clique)]
    return min(sizes) if sizes and len(clique) > 1 else None
