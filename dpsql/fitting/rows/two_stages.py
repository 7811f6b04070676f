r"""The exact reference of iterative estimation: two problems on the prior's rows, one after the other.

    y* = W z*,   z* = argmin ‖W z − ỹ‖₁        over distributions z on the rows, by linear programming
    q* = argmin KL(q‖p)  subject to  W q = y*   by its dual

        q(v) ∝ p(v)·exp(Σ_j λ_j W_jv),      λ = argmin  ln Σ_v p(v)·exp(Σ_j λ_j W_jv) − Σ_j λ_j y*_j

The dual is convex and smooth. Rows in a cell whose y* is 0 have no weight and are left out first, because their λ would
go to −∞. The first problem has many solutions, of which the linear program finds one, as in the paper.

Source: Tao, Bater, Machanavajjhala 2021 (IDE), section 3.1, problems (1) and (2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Domain
from dpsql.fitting.rows.linear_program import nearest_density, statistics
from dpsql.fitting.target import Target
from dpsql.runtime.progress import Progress

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_NONE: Final = 1e-12
_STEPS: Final = 20_000
_TIGHT: Final = 1e-10


@dataclass(frozen=True)
class TwoStages:
    """What the two problems give.

    Attributes:
        weights: q*, shape (rows,).
        least: ‖W z* − ỹ‖₁ on the cells that a row reaches: no distribution on the rows has less, if `optimal`.
        optimal: whether the first problem was solved.
        apart: ‖W q* − y*‖₁, by which the second one was not.
    """

    weights: Floats
    least: float
    optimal: bool
    apart: float


def two_stages(
    domain: Domain,
    codes: Codes,
    prior: Floats,
    measured: Sequence[Target],
    total: float,
    seconds: float,
    progress: Progress,
) -> TwoStages:
    """Solve both.

    Args:
        domain: of the table.
        codes: the rows, shape (rows, attributes).
        prior: p, positive, adding up to 1; shape (rows,).
        measured: ỹ, whole marginals (rows).
        total: of all rows.
        seconds: for the linear program; after them there is no solution, and z = p is taken.
        progress: may raise `Interrupted`.

    >>> from dpsql.core.domain import Attribute
    >>> from dpsql.runtime.progress import Quiet
    >>> domain = Domain((Attribute("a", "BOOLEAN", "values", ("false", "true")),))
    >>> target = Target(("a",), (2,), np.array([30.0, 90.0]), 1.0)
    >>> rows, even = np.array([[0], [1]]), np.array([0.5, 0.5])
    >>> two_stages(domain, rows, even, [target], 120.0, 10.0, Quiet()).weights.round(6).tolist()
    [0.25, 0.75]
    """
    progress.stage("solving", 2)
    facts = statistics(domain, codes, measured, total, merge=False)
    density = nearest_density(facts, "l1", seconds, progress)
    z = density.weights if density.rounds else prior
    answers = facts.rows @ z
    empty = answers <= _NONE
    left = np.flatnonzero((facts.rows[empty].sum(axis=0) == 0) & (prior > 0))
    matrix, wanted = facts.rows[~empty][:, left], answers[~empty]
    weights = np.zeros(len(prior))
    weights[left] = _nearest(np.log(prior[left]), matrix, wanted, progress)
    apart = float(np.abs(facts.rows @ weights - answers).sum())
    return TwoStages(weights, density.error, density.rounds > 0 and density.optimal, apart)


def _nearest(log_prior: Floats, matrix: object, wanted: Floats, progress: Progress) -> Floats:
    """The weights of least relative entropy with these answers, by the dual; see the module."""
    rows = matrix.T  # type: ignore[attr-defined]

    def tilted(dual: Floats) -> tuple[Floats, float]:
        logs = log_prior + rows @ dual
        most = float(logs.max())
        parts = np.exp(logs - most)
        return parts / parts.sum(), most + float(np.log(parts.sum()))

    def dual_value(dual: Floats) -> tuple[float, Floats]:
        weights, normaliser = tilted(dual)
        return normaliser - float(dual @ wanted), rows.T @ weights - wanted

    from scipy.optimize import minimize  # takes half a second to import

    found = minimize(
        dual_value,
        np.zeros(len(wanted)),
        jac=True,
        method="L-BFGS-B",
        callback=lambda _: progress.check(),
        options={"maxiter": _STEPS, "maxfun": _STEPS, "ftol": 1e-15, "gtol": _TIGHT, "maxcor": 30},
    )
    return tilted(np.asarray(found.x, np.float64))[0]
