r"""The exact reference of iterative estimation: two problems on the prior's rows, one after the other.

    L* = min ‖W z − ỹ‖₁                             over distributions z on the rows, by linear programming
    q* = argmin KL(q‖p)  subject to  ‖W q − ỹ‖₁ = L*   over all of them, by its dual

The distributions of the least sum are a face of the program, which one optimal dual π of it tells (complementary
slackness): where |π_j| < 1 all of them have (W q)_j = ỹ_j, where π_j = 1 they have (W q)_j ≤ ỹ_j, where π_j = −1 they
have (W q)_j ≥ ỹ_j, and a row of positive reduced cost has no weight. So the second problem has linear limits, and

    q(v) ∝ p(v)·exp(Σ_j λ_j W_jv),      λ = argmin  ln Σ_v p(v)·exp(Σ_j λ_j W_jv) − Σ_j λ_j ỹ_j

with λ_j free, ≤ 0 or ≥ 0 in these three cases. That is convex and smooth. Rows in a cell that must be empty are left
out first, because their λ would go to −∞. The paper takes the answers y* = W z* of one z*; of the many that there are
the linear program finds any, and q* with these may be far from the nearest one.

Source: Tao, Bater, Machanavajjhala 2021 (IDE), section 3, problems (1), (2) and (4).
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
_EDGE: Final = 1e-7  # what a dual of the solver is off by


@dataclass(frozen=True)
class TwoStages:
    """What the two problems give.

    Attributes:
        weights: q*, shape (rows,).
        least: L* on the cells that a row reaches: no distribution on the rows has less, if `optimal`.
        optimal: whether the first problem was solved.
        apart: ‖W q* − ỹ‖₁ − L*, by which the second one was not.
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
    if density.prices is None:  # out of time
        return TwoStages(prior, facts.error_sum(prior), False, 0.0)
    answered, unused = density.prices
    over, under = answered <= _EDGE - 1, answered >= 1 - _EDGE
    empty = ~over & (facts.low <= _NONE)
    left = np.flatnonzero((facts.rows[empty].sum(axis=0) == 0) & (prior > 0) & (unused <= _EDGE))
    mask = ~empty
    bounds = [(0.0 if o else None, 0.0 if u else None) for o, u in zip(over[mask], under[mask], strict=True)]
    weights = np.zeros(len(prior))
    weights[left] = _nearest(np.log(prior[left]), facts.rows[mask][:, left], facts.low[mask], bounds, progress)
    return TwoStages(weights, density.error, density.optimal, facts.error_sum(weights) - density.error)


def _nearest(
    log_prior: Floats,
    matrix: object,
    wanted: Floats,
    bounds: Sequence[tuple[float | None, float | None]],
    progress: Progress,
) -> Floats:
    """The weights of least relative entropy within the limits, by the dual; see the module."""
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

    dual, least, steps = np.zeros(len(wanted)), np.inf, _STEPS
    while steps > 0:
        optimum = minimize(
            dual_value,
            dual,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            callback=lambda _: progress.check(),
            options={"maxiter": steps, "maxfun": steps, "ftol": 1e-15, "gtol": _TIGHT, "maxcor": 30},
        )
        if not optimum.fun < least:  # a short step ends it too early where curvature is told badly, so it begins anew
            break
        dual, least, steps = np.asarray(optimum.x, np.float64), float(optimum.fun), steps - int(optimum.nfev)
    return tilted(dual)[0]
