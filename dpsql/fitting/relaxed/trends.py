r"""The waves of an ordered column, in which a trend has few coefficients.

    b_k(v) ∝ p_v·cos(π·k·F_v),   F_v = Σ_{u ≤ v} p_u − p_v/2,   k = 1, 2, 0, 3, 4, …, 15, made orthonormal in this order
    rest   I − Σ_k b_k·b_kᵀ,     what is left of each value

p is the column's 1-way marginal. F_v is the rank of a value among the rows, between 0 and 1. A dependence on another
column that rises or falls with the rank is nearly all in k = 1 and 2, however skewed the column is. Noise of σ in each
cell is noise of σ in each coefficient, so a trend stands out of noise that hides each of its cells.

p_v is taken relative to a run of neighbouring values (`Attribute.runs`) with at least three of them. Every other value
is nobody's neighbour (a point, NULL, what lies outside), and has a coefficient of its own.

Coefficients that are as likely to be noise as each other share a block: those of k = 0, 1, 2–3, 4–7, 8–15 of a run, and
those of its rest. b and rest together keep square sums, so they also take coefficients back to values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Attribute, Domain
from dpsql.fitting.relaxed.smoothness import FEWEST
from dpsql.fitting.relaxed.table import Blocks

Floats = npt.NDArray[np.float64]
_LEAST: Final = 1e-6  # of p within a run: a value that no row has is still a value
_SLOW: Final = 2
_MOST: Final = 16


@dataclass(frozen=True, eq=False)
class Trends:
    """The waves of one ordered column of c values, and what they leave.

    Attributes:
        matrix: coefficients × values, shape (m, c); its transpose takes them back: matrixᵀ·matrix is the identity.
        block: the block of each coefficient, shape (m,).
        freedom: how many independent coefficients each one counts for, shape (m,); together c.
        slow: whether a coefficient has k = 1 or 2, shape (m,).
    """

    matrix: Floats
    block: npt.NDArray[np.int64]
    freedom: Floats
    slow: npt.NDArray[np.bool_]


def trends_of(domain: Domain, prior: Floats) -> dict[str, Trends]:
    """The waves of the ordered columns that have a run of at least three values.

    Args:
        domain: the columns.
        prior: p, the 1-way marginals of all columns, shape (T,).
    """
    blocks = Blocks.of(domain)
    return {
        one.name: trends(one, prior[blocks.block(one.name)])
        for one in domain
        if one.is_ordered and any(len(run) >= FEWEST for run in one.runs)
    }


def trends(attribute: Attribute, shares: Floats) -> Trends:
    """The waves of one column.

    Args:
        attribute: the column.
        shares: p, shape (c,).
    """
    runs = [run for run in attribute.runs if len(run) >= FEWEST]
    alone = sorted({*range(attribute.size)}.difference(*runs))
    parts, free, slow = [np.eye(attribute.size)[alone]], [np.ones(len(alone))], [np.zeros(len(alone), bool)]
    blocks = [*range(len(alone))]
    for run in runs:
        waves = _waves(shares[run.start : run.stop])
        orders = _orders(len(run))
        left = len(run) - len(orders)
        rest = np.eye(len(run)) - waves.T @ waves if left else np.zeros((0, len(run)))
        within = np.zeros((len(orders) + len(rest), attribute.size))
        within[:, run.start : run.stop] = np.vstack([waves, rest])
        parts.append(within)
        free += [np.ones(len(orders)), np.full(len(rest), left / len(run))]
        slow.append(np.arange(len(within)) < _SLOW)
        first = max(blocks, default=-1) + 1
        blocks += [first + k.bit_length() for k in (*orders, *[_MOST] * len(rest))]
    return Trends(np.vstack(parts), np.array(blocks), np.concatenate(free), np.concatenate(slow))


def _orders(length: int) -> list[int]:
    """Which k the waves of a run of at least three values have."""
    return [1, 2, 0, *range(3, min(length, _MOST))]


def _waves(shares: Floats) -> Floats:
    """b_k along a run, by Gram and Schmidt, twice for each: LAPACK's threads would take longer than the work.

    >>> waves = _waves(np.array([0.7, 0.1, 0.1, 0.1]))
    >>> bool(np.allclose(waves @ waves.T, np.eye(4)))
    True
    """
    shares = np.maximum(shares / max(float(shares.sum()), _LEAST), _LEAST)
    shares = shares / shares.sum()
    rank = np.cumsum(shares) - shares / 2
    found = np.zeros((0, len(shares)))
    for order in _orders(len(shares)):
        wave = shares * np.cos(np.pi * order * rank)
        for _ in range(2):
            wave = wave / max(float(np.linalg.norm(wave)), 1e-300)
            wave = wave - found.T @ (found @ wave)
        found = np.vstack([found, wave / max(float(np.linalg.norm(wave)), 1e-300)])
    return found
