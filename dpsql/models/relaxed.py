"""A relaxed table as a `Model`: what the mechanisms by projection return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dpsql.core.constraint import Allowed
from dpsql.core.domain import Clique
from dpsql.fitting.relaxed.settings import Fit
from dpsql.fitting.relaxed.table import Codes, RelaxedTable
from dpsql.models.fitness import Fitness
from dpsql.runtime.progress import Progress


@dataclass(frozen=True)
class RelaxedModel:
    """A relaxed table, and how it is rounded.

    Attributes:
        table: the fit.
        targets: marginals that swaps bring near to the fit's; None for independent draws, as in the RAP paper.
        nearer: what swaps bring some of these near to instead (`dpsql.fitting.relaxed.shrinkage`).
    """

    table: RelaxedTable
    targets: tuple[Clique, ...] | None = None
    nearer: Mapping[Clique, npt.NDArray[np.float32]] = field(default_factory=dict)

    @property
    def total(self) -> float:
        """The number of rows that it stands for."""
        return self.table.total

    def project(self, clique: Clique) -> npt.NDArray[np.float32]:
        """See `Model.project`."""
        return self.table.project(clique)

    def sample(
        self, rows: int, generator: np.random.Generator, progress: Progress, allowed: Sequence[Allowed] = ()
    ) -> Codes:
        """See `Model.sample`."""
        from dpsql.fitting.relaxed.fit_cells import draw_rows  # loads JAX
        from dpsql.fitting.relaxed.rounding import round_table

        if self.targets is not None:
            return round_table(self.table, rows, self.targets, generator, progress, allowed, nearer=self.nearer)
        progress.stage("rounding", 1)
        return draw_rows(self.table, rows, generator, allowed)


def fit_report(fit: Fit, against: Fitness | None = None) -> dict[str, Any]:
    """What a release says of a fit.

    Args:
        fit: the fit.
        against: what was measured, where the fit was to an estimate from it: an estimate's variances are smaller, and
            it may be negative, so no table need be as near to it as its own noise.
    """
    residual = fit.residual if against is None or against.residual is None else against.residual
    converged = fit.converged or (against is not None and against.is_explained)
    report: dict[str, Any] = {
        "residual": round(residual, 4),
        "converged": converged,
        "pull": round(fit.pull, 3),
        "steps": fit.steps,
    }
    if not converged:
        report["warning"] = (
            f"the fit did not converge: its residual is {residual:.2f}, noise alone leaves about 1; ask for more "
            "relaxed_rows or steps"
        )
    return report
