r"""Measured marginals, seen through a fit: cell by cell, how much of what a fit does not explain is more than noise.

    z = (y − N·M)/σ        on every measured cell, M the fit's probability
    Δ = E[δ | z]           under the most likely prior of the deviation δ (in σ) of the cells of its class
    q = Π_simplex(M + σ·Δ/N)

A class is the order of the marginal and the whole part of log₂(N·M/σ): what a fit misses differs between large cells
and small ones. The prior is the nonparametric maximum likelihood (Kiefer and Wolfowitz 1956) on a grid, by EM on the
histogram of z, with five more cells at 0; a deviation below the lowest −N·M/σ of the class cannot be. So a cell that
stands out of its class is believed, and the mass of the others stays with the fit, which knows more of them than their
own noisy counts.

Rounding brings the rows near q instead of M (`rounding`). It looks at noisy counts only, so it costs no
privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique
from dpsql.fitting.relaxed.table import RelaxedTable, simplex_projection
from dpsql.fitting.target import Target

Floats = npt.NDArray[np.float64]
_GRID: Final = np.concatenate([-np.geomspace(60, 0.25, 40), [0.0], np.geomspace(0.25, 60, 40)])  # δ
_CLASSES: Final = 15
_MIDDLE: Final = 8  # the class where N·M = σ
_EDGES: Final = np.concatenate([[-np.inf], np.linspace(-12, 12, 241), [np.inf]])
_CENTRES: Final = np.concatenate([[-12.05], np.linspace(-11.95, 11.95, 240), [12.05]])
_ANSWERS: Final = np.linspace(-12, 12, 481)
_LARGEST: Final = 12.0  # σ: larger deviations are believed as they are
_STEPS: Final = 100
_UNCHANGED: Final = 5.0  # cells at 0 that every class has beside its own


def shrunken(model: RelaxedTable, measured: Sequence[Target]) -> dict[Clique, npt.NDArray[np.float32]]:
    """Q of every whole marginal that was measured, in probabilities, flat.

    Args:
        model: the fit to them.
        measured: noisy marginals; 1-way ones may be denoised.
    """
    whole = [target for target in measured if target.clique and target.cells is None and target.variance > 0]
    answers: dict[Clique, npt.NDArray[np.float32]] = {}
    for order in sorted({len(target.clique) for target in whole}):
        alike = [target for target in whole if len(target.clique) == order]
        expected = [np.maximum(model.project(target.clique).astype(np.float64), 0.0) * model.total for target in alike]
        scale = np.repeat([math.sqrt(target.variance) for target in alike], [len(target.values) for target in alike])
        mean = np.concatenate(expected)
        noisy = np.concatenate([np.asarray(target.values, np.float64) for target in alike])
        moved = mean + scale * _deviations((noisy - mean) / scale, mean / scale)
        ends = np.cumsum([len(target.values) for target in alike])[:-1]
        for target, counts in zip(alike, np.split(moved, ends), strict=True):
            answers[target.clique] = simplex_projection(counts / model.total).astype(np.float32)
    return answers


def _deviations(z: Floats, mean: Floats) -> Floats:
    """Δ of each cell, by classes of its mean (both in σ)."""
    classes = np.clip(np.floor(np.log2(np.maximum(mean, 1e-9))) + _MIDDLE, 0, _CLASSES - 1).astype(np.int64)
    deviations = z.copy()
    for number in np.unique(classes):
        inside = (classes == number) & (np.abs(z) <= _LARGEST)
        least = -(2.0 ** (number - _MIDDLE + 1)) if number < _CLASSES - 1 else -np.inf
        counts = np.histogram(z[classes == number], _EDGES)[0]
        deviations[inside] = np.interp(
            z[inside], _ANSWERS, _posterior_means(counts.astype(np.float64), _GRID[least <= _GRID])
        )
    return deviations


def _posterior_means(counts: Floats, grid: Floats) -> Floats:
    """E[δ | z] at `_ANSWERS`, for a histogram of z."""
    zero, nonzero = int(np.argmin(np.abs(grid))), counts > 0
    likelihood = np.exp(-0.5 * (_CENTRES[nonzero, None] - grid) ** 2)
    weight = np.full(len(grid), 0.5 / len(grid))
    weight[zero] += 0.5
    for _ in range(_STEPS):  # no product by BLAS, whose threads spin between the steps
        shares = counts[nonzero] / (np.einsum("ij,j->i", likelihood, weight) + 1e-300)
        weight *= np.einsum("i,ij->j", shares, likelihood)
        weight[zero] += _UNCHANGED
        weight /= weight.sum()
    posterior = np.exp(-0.5 * (_ANSWERS[:, None] - grid) ** 2) * weight
    return np.asarray(posterior @ grid / (posterior.sum(axis=1) + 1e-300))
