r"""Relaxed projection: fit a relaxed table to noisy marginals.

    minimise  Σ_r (N²/σ_r²)·½‖M_r(P) − y_r/N‖²  +  Λ · mean over rows of Σ_a KL(P_a ‖ p1_a)

and, where linear queries were measured, N²·½Σ(q(P) − y/N)²/σ² of these (`functionals`),
over P = softmax(θ) per attribute, by Adam with a cosine schedule (`program`). y_r are the measured
marginals (counts) of variance σ_r², N the total, p1 the measured 1-way marginals. The second term pulls towards the
maximum-entropy solution, the product of the 1-way marginals, with the strength (from experiments on Adult, Loans and a
third table)

    Λ = 3.5·G^{2/3},   G = N·√(2ρ·d̄/K)

where d̄ is the budget-weighted mean order of what was measured and K the number of attributes. With a reference
(`Settings.reference`) the pairs are fitted alone first, as far as they are believed, and each row is pulled towards
where that left it instead of towards p1. Pairs with an ordered column are believed as trends (`believed_pairs`), others
cell by cell (`shrinkage`).

With σ_r true, the weighted residual Σ_r ‖(N·M_r(P) − y_r)/σ_r‖²/cells is about 1 when only noise is left. While it is
clearly more than that, Λ was too strong for this table: it is divided by 4 and the fit goes on from where it is.

Source: Aydore et al. 2021, Algorithm 1 (RP), with whole marginals, weights and the KL term added.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Domain
from dpsql.errors import DpsqlError
from dpsql.fitting.compilation import keep_programs
from dpsql.fitting.loading import jax
from dpsql.fitting.relaxed.believed_pairs import believed_pairs
from dpsql.fitting.relaxed.empty_lines import telling_lines
from dpsql.fitting.relaxed.functionals import Functionals, relative_precision
from dpsql.fitting.relaxed.gradient import CLIQUES
from dpsql.fitting.relaxed.looks import Hopeless, Looks, Settled
from dpsql.fitting.relaxed.program import device_grid, program_of
from dpsql.fitting.relaxed.settings import Fit, Settings, one_way_prior
from dpsql.fitting.relaxed.shrinkage import shrunken
from dpsql.fitting.relaxed.smoothness import smoothness
from dpsql.fitting.relaxed.table import Blocks, RelaxedTable
from dpsql.fitting.relaxed.tiles import Tiles, layout_of
from dpsql.fitting.relaxed.trends import runs_of
from dpsql.fitting.relaxed.views import Views
from dpsql.fitting.target import Target
from dpsql.runtime.background import in_background
from dpsql.runtime.memory import give_back
from dpsql.runtime.progress import Progress

_ATTEMPTS: Final = 4
_WEAKER: Final = 4.0
_ONLY_NOISE: Final = 1.05
_REFERENCE_PULL: Final = 0.5
_REFERENCE_STEPS: Final = 150
_LEAST: Final = 1e-12


def pull_rule(measurements: Sequence[Target], total: float, attributes: int) -> float:
    """Λ = 3.5·G^{2/3} with G = N·√(2ρ·d̄/K); see the module."""
    rho = sum(m.rho for m in measurements if m.clique)
    order = sum(m.rho * len(m.clique) for m in measurements) / rho
    return float(3.5 * (total * math.sqrt(2 * rho * order / attributes)) ** (2 / 3))


def fit_marginals(
    domain: Domain, measurements: Sequence[Target], total: float, settings: Settings, seed: int, progress: Progress
) -> Fit:
    """Fit a relaxed table to whole marginals, and to linear queries.

    Args:
        domain: the attributes.
        measurements: whole marginals and answers of linear queries; 1-way marginals start the rows and pull them.
        total: N, rows.
        settings: how.
        seed: of the starting noise; it touches no private data.
        progress: notified of each chunk of steps; may raise `Interrupted`.

    Raises:
        DpsqlError: the loss is not finite; NaN never leaves a fit.

    Returns:
        The fit; the same arguments give the same one on the same machine.
    """
    keep_programs()
    try:
        return in_background(progress, partial(_fit, domain, measurements, total, settings, seed))
    finally:
        give_back()


def _fit(
    domain: Domain, measurements: Sequence[Target], total: float, settings: Settings, seed: int, progress: Progress
) -> Fit:
    used = [m for m in measurements if m.clique and m.cells is None and m.variance > 0]
    linear, used = [m for m in used if m.linear is not None], [m for m in used if m.linear is None]
    blocks = Blocks.of(domain, settings.joints)
    columns = one_way_prior(domain, used, total)
    prior = blocks.by_unit(_each(blocks, columns, [joint.prior for joint in blocks.joints]))
    kappa = (
        _each(blocks, np.array(settings.smooth), [joint.kappa for joint in blocks.joints]) if settings.smooth else ()
    )
    smooth = smoothness(prior, blocks.by_unit(kappa) if settings.smooth else ())
    by_rule = settings.strength * pull_rule([*used, *linear], total, len(domain)) if used or linear else 1.0
    pull = by_rule if settings.pull is None else settings.pull
    precise = jax.default_matmul_precision("highest")  # GPUs would multiply float32 with 10 bits
    with precise, jax.enable_x64(settings.kind == "float64"):
        fitting = _Fitting(blocks, used, linear, total, settings, prior, smooth, progress)
        fitting.start(seed)
        if settings.reference and any(len(m.clique) == 2 for m in used):
            ordered = {attribute.name for attribute in domain if runs_of(attribute)} if settings.trends else set()
            pairs = [m for m in used if len(m.clique) == 2 and not ordered.isdisjoint(m.clique)]
            fitting.prepare(pull * _REFERENCE_PULL, [*believed_pairs(domain, columns, pairs, total)])
        return fitting.fit(pull)


def _each(
    blocks: Blocks, columns: npt.NDArray[np.float64], joints: Sequence[npt.NDArray[np.float64]]
) -> list[npt.NDArray[np.float64]]:
    """Vectors for `Blocks.by_unit`: of the joints, and parts of one along the columns."""
    return [*joints, *np.split(columns, np.cumsum(blocks.sizes)[:-1])]


class _Fitting:
    """One fit: its program, and where it is."""

    def __init__(
        self,
        blocks: Blocks,
        used: Sequence[Target],
        linear: Sequence[Target],
        total: float,
        settings: Settings,
        prior: npt.NDArray[np.float64],
        smooth: npt.NDArray[np.float64],
        progress: Progress,
    ) -> None:
        self._blocks, self._used, self._total, self._settings, self._progress = blocks, used, total, settings, progress
        precisions = [*(total**2 / m.variance for m in used), *(relative_precision(m, total) for m in linear)]
        self._scale = 1 / max(1.0, max(precisions, default=1.0))
        mesh = device_grid(settings.rows, sum(len(m.values) for m in used) * settings.rows * settings.steps)
        self._shards = mesh.shape[CLIQUES]
        self._views = Views.of(blocks, [*used, *linear])
        targets = [*map(self._views.target, used)]
        self._lines = telling_lines(targets, settings.telling)
        self._tiled = self._lines if settings.telling else None
        self._layout = layout_of(self._views.blocks, targets, total, self._scale, self._shards, lines=self._tiled)
        self._functionals = Functionals.of(self._views, linear, total, self._scale, self._shards)
        self._heard = self._functionals
        bucket = self._functionals.bucket + tuple(
            sorted((level, tiles.target.shape[:2]) for level, tiles in self._layout.items())
        )
        self._program = program_of(blocks.unit_sizes, settings.rows, bucket, settings.relaxation, settings.kind, mesh)
        self._prior, self._smooth = prior, smooth
        self._pulled_to = np.repeat(np.log(prior)[:, None], settings.rows, axis=1)
        self._taken = 0

    def start(self, seed: int) -> None:
        """Begin near the 1-way marginals."""
        self._state = _start(self._blocks, self._prior, self._settings, seed)

    def prepare(self, pull: float, trends: Sequence[Target]) -> None:
        """Fit the pairs alone, as far as they stand out of the noise, and pull rows towards that from now on.

        Those that are not given as believed trends are believed by one prior, so that a large cell counts where its
        pair as a whole is lost in noise.
        """
        product = RelaxedTable(self._blocks, self._prior[:, None].astype(np.float32), self._total)
        pairs = [m for m in self._used if len(m.clique) == 2]
        believed = {
            clique: shares.astype(np.float64) * self._total for clique, shares in shrunken(product, pairs).items()
        }
        believed |= {m.clique: m.values for m in trends}
        targets = [m for m in self._used if len(m.clique) == 1]
        targets += [replace(m, values=believed[m.clique]) for m in pairs]
        views = self._views
        targets = [*map(views.target, targets)]
        layout = layout_of(views.blocks, targets, self._total, self._scale, self._shards, self._layout, self._tiled)
        steps = min(_REFERENCE_STEPS, self._settings.steps)
        self._heard = self._functionals.silent
        table, _ = self._advance(layout, pull, steps, self._settings.rate, self._settings.thinned, Looks())
        self._heard = self._functionals
        self._pulled_to = np.log(np.maximum(table, _LEAST))

    def fit(self, pull: float) -> Fit:
        """Fit all, with a weaker pull while it is too strong, and polish where that is asked for."""
        settings = self._settings
        cells = sum(self._lines[self._views.target(m).clique].cells for m in self._used) + len(self._functionals.target)
        most = _ONLY_NOISE + 3 * math.sqrt(2 / max(cells, 1))
        again = (max(1, settings.steps // 2), settings.rate, settings.thinned)
        plan = [(settings.steps, settings.rate, settings.thinned), *[again] * (_ATTEMPTS - 1)]
        polish = [(settings.polish, settings.rate / 2, 0.0)] if settings.polish else []
        unit = self._scale * max(cells, 1) / 2
        while plan:
            steps = plan.pop(0)
            looks = (Hopeless(most, unit) if plan else Settled(unit)) if settings.polish else Looks()
            table, loss = self._advance(self._layout, pull, *steps, looks)
            residual = loss / unit
            if residual <= most or not plan:
                plan, polish = polish, []
            else:
                pull /= _WEAKER
        model = RelaxedTable(self._blocks, table.astype(np.float32), self._total)
        return Fit(model, residual, self._taken, pull, residual <= most)

    def _advance(
        self, layout: dict[int, Tiles], pull: float, steps: int, rate: float, thinned: float, looks: Looks
    ) -> tuple[npt.NDArray[np.float64], float]:
        """P and the loss after so many more steps, or less."""
        self._state, table, loss, taken = self._program.run(
            self._state,
            layout,
            self._heard,
            self._pulled_to,
            (self._views.sums, np.empty((self._views.rows, 0))),
            self._smooth,
            pull * self._scale,
            rate,
            steps,
            thinned,
            looks,
            self._progress,
        )
        if not (math.isfinite(loss) and np.isfinite(table).all()):
            raise DpsqlError(
                "the fit did not stay finite; the same call tries again from the stored measurements, free"
            )
        self._taken += taken
        return table, loss


def _start(blocks: Blocks, prior: npt.NDArray[np.float64], settings: Settings, seed: int) -> npt.NDArray[np.float64]:
    """The parameters to begin from: near the 1-way marginals, every row a little elsewhere."""
    noise = np.random.default_rng(seed).normal(size=(blocks.width, settings.rows)) * settings.spread
    theta = np.log(prior)[:, None] + noise
    exponential = np.exp(theta)
    sizes = blocks.unit_sizes
    sums = [exponential[end - size : end].sum(axis=0) for end, size in zip(np.cumsum(sizes), sizes, strict=True)]
    table = np.asarray(exponential / np.repeat(sums, sizes, axis=0))
    return np.log(table) if settings.relaxation == "softmax" else table
