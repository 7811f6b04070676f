r"""Relaxed projection: fit a relaxed table to noisy marginals.

    minimise  Σ_r (N²/σ_r²)·½‖M_r(P) − y_r/N‖²  +  Λ · mean over rows of Σ_a KL(P_a ‖ p1_a)

over P = softmax(θ) per attribute, by Adam with a cosine schedule (`dpsql.fitting.tile_program`). y_r are the measured
marginals (counts) of variance σ_r², N the total, p1 the measured 1-way marginals. The second term pulls towards the
maximum-entropy solution, the product of the 1-way marginals, with the strength (from experiments on Adult, Loans and a
third table)

    Λ = 3.5·G^{2/3},   G = N·√(2ρ·d̄/K)

where d̄ is the budget-weighted mean order of what was measured and K the number of attributes.

With σ_r true, the weighted residual Σ_r ‖(N·M_r(P) − y_r)/σ_r‖²/cells is about 1 when only noise is left. While it is
clearly more than that, Λ was too strong for this table: it is divided by 4 and the fit goes on from where it is.

Source: Aydore et al. 2021, Algorithm 1 (RP), with whole marginals, weights and the KL term added.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Domain
from dpsql.errors import DpsqlError
from dpsql.fitting.compilation import keep_programs
from dpsql.fitting.loading import jax
from dpsql.fitting.relaxation import Blocks, RelaxedTable
from dpsql.fitting.settings import Fit, Settings, one_way_prior
from dpsql.fitting.target import Target
from dpsql.fitting.tile_program import CLIQUES, device_grid, program_of
from dpsql.fitting.tiles import layout_of
from dpsql.runtime.aside import aside
from dpsql.runtime.progress import Progress

_ATTEMPTS: Final = 4
_WEAKER: Final = 4.0
_ONLY_NOISE: Final = 1.05


def pull_rule(measurements: Sequence[Target], total: float, attributes: int) -> float:
    """Λ = 3.5·G^{2/3} with G = N·√(2ρ·d̄/K); see the module."""
    rho = sum(m.rho for m in measurements if m.clique)
    order = sum(m.rho * len(m.clique) for m in measurements) / rho
    return float(3.5 * (total * math.sqrt(2 * rho * order / attributes)) ** (2 / 3))


def fit_marginals(
    domain: Domain, measurements: Sequence[Target], total: float, settings: Settings, seed: int, progress: Progress
) -> Fit:
    """Fit a relaxed table to whole marginals.

    Args:
        domain: the attributes.
        measurements: whole marginals; 1-way ones start the rows and pull them.
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
    return aside(progress, partial(_fit, domain, measurements, total, settings, seed))


def _fit(
    domain: Domain, measurements: Sequence[Target], total: float, settings: Settings, seed: int, progress: Progress
) -> Fit:
    blocks = Blocks.of(domain)
    used = [m for m in measurements if m.clique and m.cells is None and m.variance > 0]
    prior = one_way_prior(domain, used, total)
    by_rule = settings.strength * pull_rule(used, total, len(domain)) if used else 1.0
    pull = by_rule if settings.pull is None else settings.pull
    scale = 1 / max(1.0, max((total**2 / m.variance for m in used), default=1.0))
    precise = jax.default_matmul_precision("highest")  # GPUs would multiply float32 with 10 bits
    with precise, jax.enable_x64(settings.kind == "float64"):
        mesh = device_grid(settings.rows)
        layout = layout_of(blocks, used, total, scale, mesh.shape[CLIQUES])
        bucket = tuple(sorted((level, tiles.target.shape[:2]) for level, tiles in layout.items()))
        program = program_of(blocks.sizes, settings.rows, bucket, settings.relaxation, settings.kind, mesh)
        state = _start(blocks, prior, settings, seed)
        cells = sum(len(m.values) for m in used)
        most = _ONLY_NOISE + 3 * math.sqrt(2 / max(cells, 1))
        taken = 0
        for attempt in range(_ATTEMPTS):
            steps = settings.steps if attempt == 0 else max(1, settings.steps // 2)
            state, probabilities, loss = program.run(
                state, layout, np.log(prior), pull * scale, settings.rate, steps, progress
            )
            if not (math.isfinite(loss) and np.isfinite(probabilities).all()):
                raise DpsqlError(
                    "the fit did not stay finite; the same call tries again from the stored measurements, free"
                )
            taken += steps
            residual = loss / scale / (cells / 2) if cells else 0.0
            if residual <= most or attempt == _ATTEMPTS - 1:
                break
            pull /= _WEAKER
    model = RelaxedTable(blocks, probabilities.astype(np.float32), total)
    return Fit(model, residual, taken, pull, residual <= most)


def _start(blocks: Blocks, prior: npt.NDArray[np.float64], settings: Settings, seed: int) -> npt.NDArray[np.float64]:
    """The parameters to begin from: near the 1-way marginals, every row a little elsewhere."""
    noise = np.random.default_rng(seed).normal(size=(blocks.width, settings.rows)) * settings.spread
    theta = np.log(prior)[:, None] + noise
    if settings.relaxation == "softmax":
        return theta
    exponential = np.exp(theta)
    ends = np.cumsum(blocks.sizes)
    sums = [exponential[end - size : end].sum(axis=0) for end, size in zip(ends, blocks.sizes, strict=True)]
    return np.asarray(exponential / np.repeat(sums, blocks.sizes, axis=0))
