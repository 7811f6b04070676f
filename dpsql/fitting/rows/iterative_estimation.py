r"""Iterative distribution estimation: fit weights of given rows to noisy marginals, near a prior.

    q ← p;  T times:  take a marginal W_s with noisy answers ỹ_s
        y_s = argmin ‖y − ỹ_s‖₁  over y ≥ 0 with Σ y = 1  (Σ y ≤ 1 where W_s does not cover every row)
        q(v) ← q(v)·y_s[j]/(W_s q)[j]                    v in cell j, (W_s q)[j] > 0
               y_s[j]/|cell j|                           v in cell j, (W_s q)[j] = 0
               q(v)·(1 − Σ y_s)/(1 − Σ W_s q)            v in no cell, 1 − Σ W_s q > 0
               (1 − Σ y_s)/(number of such v)            v in no cell, 1 − Σ W_s q = 0

The rows in no cell are treated as one more cell with the answer 1 − Σ y_s: the last two cases are the first two.

The rows are the prior's support, and q stays on it. A cell that no row of the support reaches therefore gets nothing,
whatever was measured there: y_s is the nearest vector on the cells that are reached, which is what the exact problem
on the support (the paper's section 3.2) asks of one marginal.

Many y are L1-closest: with ỹ⁺ = max(ỹ, 0), exactly those with y ≤ ỹ⁺ everywhere if Σ ỹ⁺ ≥ 1 and y ≥ ỹ⁺ everywhere if
not. Two choices among them:

    prior      y = min(ỹ⁺, c·W_s q) or max(ỹ⁺, c·W_s q): of least relative entropy to W_s q, so that the step is the
               exact solution of the paper's problem (4) for one marginal: first the L1 distance, then KL(q′‖q)
    threshold  y = max(ỹ − τ, 0): the Euclidean projection

All steps are of many distributions at once, one in each line of `weights`.

Source: Tao, Bater, Machanavajjhala 2021 (IDE), Algorithm 1, Definition 3.1 and Theorem 3.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core import sparse
from dpsql.runtime.progress import Progress

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
TIES: Final = ("prior", "threshold")
_TINY: Final = 1e-150


@dataclass(frozen=True)
class Partial:
    """One partial workload W_s on a support: disjoint cells.

    Attributes:
        places: for each row of the support its cell among the reached ones; their number for a row in no cell.
        reached: the cells that have a row, ascending.
        sizes: rows in each reached cell, and at the end those in none if there are any.
        matrix: W_sᵀ, shape (rows, len(sizes)).
    """

    places: Codes
    reached: Codes
    sizes: Floats
    matrix: Any

    @staticmethod
    def of(cells: Codes, inside: npt.NDArray[np.bool_] | None = None) -> Partial:
        """From the cell of each row of the support, shape (rows,).

        Args:
            cells: of each row.
            inside: whether a row is in a cell at all; None for all rows.
        """
        inside = np.ones(len(cells), np.bool_) if inside is None else inside
        reached, numbers = np.unique(cells[inside], return_inverse=True)
        places = np.full(len(cells), len(reached), np.int64)
        places[inside] = numbers
        sizes = np.bincount(places, minlength=len(reached)).astype(np.float64)
        rows = np.arange(len(cells))
        matrix = sparse.csr_matrix((np.ones(len(cells)), (rows, places)), shape=(len(cells), len(sizes)))
        return Partial(places, reached, sizes, matrix)

    @property
    def covers(self) -> bool:
        """Whether every row of the support is in a cell."""
        return len(self.sizes) == len(self.reached)

    def answers(self, weights: Floats) -> Floats:
        """W_s q, and the mass in no cell at the end; shape (distributions, len(sizes))."""
        return np.asarray((self.matrix.T @ weights.T).T, np.float64)


def estimate(
    weights: Floats,
    partials: Sequence[Partial],
    noisy: Sequence[Floats],
    steps: int,
    generator: np.random.Generator,
    progress: Progress,
    ties: str = "prior",
) -> Floats:
    """Algorithm 1 for several distributions on one support.

    Args:
        weights: the prior of each distribution, each adding up to 1; shape (distributions, rows).
        partials: the marginals.
        noisy: their answers ỹ in probabilities, each of shape (distributions, cells).
        steps: T. The marginals take turns, in a new random order each time.
        generator: of the order.
        progress: notified of each step; may raise `Interrupted`.
        ties: which of the L1-closest answers, see the module.
    """
    progress.stage("estimating", steps)
    order: list[int] = []
    for _ in range(steps if partials else 0):
        order = order or generator.permutation(len(partials)).tolist()
        chosen = order.pop()
        weights = step(weights, partials[chosen], noisy[chosen], ties)
        progress.advance(1)
    return weights


def step(weights: Floats, partial: Partial, noisy: Floats, ties: str = "prior") -> Floats:
    """One step of Algorithm 1; see the module."""
    current = partial.answers(weights)
    answers = noisy[:, partial.reached]
    if ties == "prior":
        nearest = nearest_to_prior(answers, current[:, : len(partial.reached)], covers=partial.covers)
    else:
        nearest = nearest_by_threshold(answers, covers=partial.covers)
    return update(weights, partial, nearest, current)


def update(weights: Floats, partial: Partial, target: Floats, current: Floats | None = None) -> Floats:
    """Definition 3.1: the distribution of least relative entropy to `weights` with these answers.

    Args:
        weights: p, shape (distributions, rows).
        partial: W_s.
        target: y_s on the reached cells, shape (distributions, reached); it adds up to 1 where the cells cover all.
        current: `partial.answers(weights)`, if known.
    """
    current = partial.answers(weights) if current is None else current
    if not partial.covers:
        rest = np.maximum(0.0, 1 - target.sum(axis=1, keepdims=True))
        target = np.concatenate([target, rest], axis=1)
    empty = current <= 0
    factor = np.divide(target, current, out=np.zeros_like(target), where=~empty)
    updated = weights * factor[:, partial.places]
    revived = empty & (target > 0)
    if revived.any():
        updated += np.where(revived, target / partial.sizes, 0.0)[:, partial.places]
    updated[updated < _TINY] = 0.0  # so that no quotient overflows; such a row is revived as any other of weight 0
    return np.asarray(updated / updated.sum(axis=1, keepdims=True))  # else rounding would add up over many steps


def nearest_by_threshold(noisy: Floats, *, covers: bool) -> Floats:
    """The y = max(ỹ − τ, 0) with Σ y = 1 (≤ 1 where the cells do not cover all), for each line.

    >>> nearest_by_threshold(np.array([[0.9, 0.5, -0.2]]), covers=True).round(3).tolist()
    [[0.7, 0.3, 0.0]]
    """
    falling = -np.sort(-noisy, axis=1)
    count = np.arange(1, noisy.shape[1] + 1)
    thresholds = (np.cumsum(falling, axis=1) - 1) / count
    last = np.maximum((falling > thresholds).sum(axis=1) - 1, 0)
    tau = np.take_along_axis(thresholds, last[:, None], axis=1)
    if not covers:
        tau = np.maximum(tau, 0.0)
    return np.asarray(np.maximum(noisy - tau, 0.0))


def nearest_to_prior(noisy: Floats, current: Floats, *, covers: bool) -> Floats:
    """The L1-closest y with Σ y = 1 (≤ 1 where the cells do not cover all) of least relative entropy to `current`.

    Where the positive answers exceed 1 in all, y = min(ỹ⁺, c·current); where they fall short, y = max(ỹ⁺, c·current),
    or ỹ⁺ itself where the cells do not cover all. Cells in which the current distribution has no mass come last.

    >>> nearest_to_prior(np.array([[0.9, 0.5, -0.2]]), np.array([[0.5, 0.25, 0.25]]), covers=True).round(3).tolist()
    [[0.667, 0.333, 0.0]]
    """
    positive = np.maximum(noisy, 0.0)
    total = positive.sum(axis=1)
    nearest = positive.copy()
    over, under = np.flatnonzero(total > 1), np.flatnonzero(total < 1)
    nearest[over] = _capped(positive[over], current[over])
    if covers:
        nearest[under] = _raised(positive[under], current[under])
    return nearest


def _ratios(positive: Floats, current: Floats) -> tuple[Floats, Floats, Floats]:
    """The ratios positive/current, infinite where current is 0, in rising order; both in the same order."""
    ratios = np.divide(positive, current, out=np.full_like(positive, np.inf), where=current > 0)
    order = np.argsort(ratios, axis=1, kind="stable")
    ratios, positive, current = (np.take_along_axis(a, order, axis=1) for a in (ratios, positive, current))
    return ratios, positive, current


def _capped(positive: Floats, current: Floats) -> Floats:
    """min(positive, c·current) with sum 1, where positive adds up to more: the smallest ratios are capped."""
    ratios, p, m = _ratios(positive, current)
    before = np.cumsum(p, axis=1) - p  # of the cells with smaller ratios
    after = _tail(m)  # of this cell and those with larger ratios
    finite = np.isfinite(ratios)
    fits = finite & (before + np.where(finite, ratios, 0.0) * after >= 1)
    some = np.asarray(fits.any(axis=1))
    first = np.argmax(fits, axis=1)[:, None]
    short = np.take_along_axis(1 - before, first, axis=1)
    scale = np.divide(short, np.take_along_axis(after, first, axis=1), out=np.zeros_like(short), where=some[:, None])
    last = np.take_along_axis(
        ratios, np.maximum(first - 1, 0), axis=1
    )  # of those capped: c is no less, rounding may be
    scale = np.maximum(scale, np.where((first > 0) & some[:, None], last, 0.0))
    capped = np.minimum(positive, scale * current)
    lines = np.flatnonzero(~some)  # all that have mass are capped: the rest goes to those that have none
    if len(lines):
        reached = np.where(current[lines] > 0, positive[lines], 0.0)
        others = positive[lines] - reached
        room = others.sum(axis=1, keepdims=True)
        rest = np.maximum(0.0, 1 - reached.sum(axis=1, keepdims=True))
        capped[lines] = reached + others * np.divide(rest, room, out=np.zeros_like(room), where=room > 0)
    return capped


def _raised(positive: Floats, current: Floats) -> Floats:
    """max(positive, c·current) with sum 1, where positive adds up to less: the smallest ratios are raised."""
    ratios, p, m = _ratios(positive, current)
    upto = np.cumsum(m, axis=1)
    after = _tail(p) - p
    with np.errstate(divide="ignore", invalid="ignore"):
        scales = np.where(upto > 0, (1 - after) / upto, np.inf)
        following = np.concatenate([ratios[:, 1:], np.full((len(ratios), 1), np.inf)], axis=1)
        fits = (scales <= following) & (upto > 0)
    first = np.argmax(fits, axis=1)[:, None]
    scale = np.maximum(np.take_along_axis(scales, first, axis=1), np.take_along_axis(ratios, first, axis=1))
    return np.asarray(np.maximum(positive, np.where(current > 0, scale * current, 0.0)))


def _tail(values: Floats) -> Floats:
    """Σ of each value and those after it, by line; never below 0."""
    return np.cumsum(values[:, ::-1], axis=1)[:, ::-1]
