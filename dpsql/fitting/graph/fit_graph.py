r"""Graphical models: the distribution of largest entropy that is nearest to measured marginals.

    loss       L(μ) = ½·Σ_r (N/σ_r)²·‖M_r(μ) − y_r/N‖²         over the marginals μ of some distribution
    descent    μ(θ) = marginals of p_θ(x) ∝ exp Σ_C θ_C(x_C);    θ ← θ − α·∇L(μ(θ)), from θ = 0
    step       α halves until L falls by half of α·⟨∇L, μ − μ'⟩, and grows after each step that does

C runs over the measured cliques of largest scope. μ(θ) is exact: message passing on a junction tree, by the package
`mbi` (`mbi_package`). What is read off the fitted tree afterwards, marginals and rows, is computed by `junction_tree`.

Source: McKenna, Sheldon, Miklau 2019 (arXiv:1901.09136), Algorithm 1 with the line search of `mbi`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np

from dpsql.core.domain import Clique, Domain
from dpsql.fitting.compilation import MOST_PROGRAMS, keep_programs, own_program
from dpsql.fitting.graph.calibration import calibrate, spread
from dpsql.fitting.graph.junction_tree import Potentials, Table, Tree
from dpsql.fitting.graph.mbi_package import load_mbi, maximal, wide_numbers
from dpsql.fitting.target import Target
from dpsql.runtime.background import in_background
from dpsql.runtime.progress import Progress

_GROWTH: Final = 1.3
_WATCH: Final = 25  # steps between looks at the loss
_ENOUGH: Final = 1e-3  # relative fall of the loss over that many steps at which the fit has converged
_MOST_HALVINGS: Final = 60


@dataclass(frozen=True)
class Fit:
    """A fitted model.

    Attributes:
        tree: the model.
        residual: √(2·loss/cells); noise alone leaves about 1.
        steps: taken.
        converged: the loss fell no more.
    """

    tree: Tree
    residual: float
    steps: int
    converged: bool


def fit_graph(
    domain: Domain,
    measurements: Sequence[Target],
    total: float,
    steps: int,
    progress: Progress,
    start: Tree | None = None,
    precisions: Sequence[Table] | None = None,
) -> Fit:
    """The model of largest entropy that is nearest to whole marginals.

    Args:
        domain: the columns; one that is in no measurement is uniform.
        measurements: whole marginals, each of at least one column.
        total: N, rows.
        steps: the most steps of the descent.
        progress: notified of each step; may raise `Interrupted`, within a tenth of a second even while JAX compiles.
        start: a model of fewer cliques, from which to go on.
        precisions: of each cell of each measurement, relative to 1/its variance, at most 1; None for all alike.
    """
    keep_programs()
    progress.stage("fitting", steps)
    descent = _Descent(domain, measurements, total, start, precisions)
    return in_background(progress, partial(descent.run, steps))


class _Descent:
    """The fit."""

    def __init__(
        self,
        domain: Domain,
        measurements: Sequence[Target],
        total: float,
        start: Tree | None,
        precisions: Sequence[Table] | None,
    ) -> None:
        self._taken = 0
        self._domain, self._mbi = domain, load_mbi()
        self._cliques = maximal(domain, [m.clique for m in measurements])
        self._loss = _Loss(domain, self._cliques, measurements, total, precisions)
        self._theta = {clique: np.zeros(domain.shape(clique)) for clique in self._cliques}
        for clique, table in (start.potentials if start is not None else {}).items():
            home = next(c for c in self._cliques if set(clique) <= set(c))
            self._theta[home] = self._theta[home] + spread(table, clique, home)

    def run(self, steps: int, progress: Progress) -> Fit:
        """Descend, then calibrate the tree."""
        with wide_numbers():
            residual, converged = self._descend(steps, progress)
        tree = calibrate(self._domain, self._theta, self._mbi)
        return Fit(tree, residual, self._taken, converged)

    def _marginals(self, theta: Potentials) -> dict[Clique, Table]:
        sizes = tuple(zip(self._domain.names, self._domain.shape(self._domain.names), strict=True))
        tables = _marginals_program(sizes, tuple(self._cliques))([theta[clique] for clique in self._cliques])
        return {clique: np.asarray(table) for clique, table in zip(self._cliques, tables, strict=True)}

    def _descend(self, steps: int, progress: Progress) -> tuple[float, bool]:
        marginals = self._marginals(self._theta)
        value, slope = self._loss(marginals)
        rate, watched, converged = 4 / self._loss.largest, value, False
        while self._taken < steps and not converged:
            for _ in range(_MOST_HALVINGS):
                theta = {c: self._theta[c] - rate * slope[c] for c in self._cliques}
                moved = self._marginals(theta)
                value_there, slope_there = self._loss(moved)
                gain = sum(float(np.vdot(slope[c], marginals[c] - moved[c])) for c in self._cliques)
                if value - value_there >= 0.5 * rate * gain:
                    break
                rate /= 2
                progress.check()
            else:
                converged = True
                break
            self._theta, marginals, value, slope = theta, moved, value_there, slope_there
            rate *= _GROWTH
            self._taken += 1
            progress.advance()
            if self._taken % _WATCH == 0:
                converged = watched - value <= _ENOUGH * value
                watched = value
        return float(np.sqrt(2 * value / self._loss.cells)), converged


@lru_cache(maxsize=MOST_PROGRAMS)
def _marginals_program(sizes: tuple[tuple[str, int], ...], cliques: tuple[Clique, ...]) -> Any:
    """The compiled function from potentials to marginals, both one table for each clique."""
    mbi = load_mbi()
    domain = mbi.Domain(*zip(*sizes, strict=True))

    def marginals(theta: Sequence[Any]) -> list[Any]:
        arrays = {c: mbi.Factor(domain.project(c), table) for c, table in zip(cliques, theta, strict=True)}
        potentials = mbi.CliqueVector(domain, list(cliques), arrays)
        tables = mbi.marginal_oracles.message_passing_fast(potentials, 1.0)
        return [tables[clique].values for clique in cliques]

    return own_program(marginals)


class _Loss:
    """L(μ) and its gradient.

    Attributes:
        cells: how many noisy counts.
        largest: a bound of the weights (N/σ)² on one cell.
    """

    def __init__(
        self,
        domain: Domain,
        cliques: Sequence[Clique],
        measurements: Sequence[Target],
        total: float,
        precisions: Sequence[Table] | None = None,
    ) -> None:
        self._parts: list[tuple[Clique, tuple[int, ...], Table, Any]] = []
        self._cliques = cliques
        weights = dict.fromkeys(cliques, 0.0)
        for place, measured in enumerate(measurements):
            target, names = measured.values.reshape(measured.shape) / total, domain.clique(measured.clique)
            target = np.transpose(target, [measured.clique.index(name) for name in names])
            home = next(c for c in cliques if set(names) <= set(c))
            summed = tuple(k for k, name in enumerate(home) if name not in names)
            weight = total**2 / max(measured.variance, 1e-6)
            weights[home] += weight
            each: Any = weight
            if precisions is not None:
                own = precisions[place].reshape(measured.shape)
                own = np.transpose(own, [measured.clique.index(name) for name in names])
                each = weight * np.expand_dims(own, summed)
            self._parts.append((home, summed, np.expand_dims(target, summed), each))
        self.cells = max(1, sum(target.size for _, _, target, _ in self._parts))
        self.largest = max(weights.values(), default=1.0) or 1.0

    def __call__(self, marginals: Mapping[Clique, Table]) -> tuple[float, dict[Clique, Table]]:
        value, slope = 0.0, {clique: np.zeros_like(marginals[clique]) for clique in self._cliques}
        for home, summed, target, weight in self._parts:
            gap = marginals[home].sum(axis=summed, keepdims=True) - target
            value += 0.5 * float(np.sum(weight * gap * gap))
            slope[home] += weight * gap
        return value, slope
