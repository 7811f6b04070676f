r"""The waves of an ordered column, in which a trend has few coefficients.

    b_k(v) ∝ p_v·cos(π·k·F_v),   F_v = Σ_{u ≤ v} p_u − p_v/2,   k = 1, 2, 0, 3, 4, …, 15, made orthonormal in this order
    rest   D − Σ_k b_k·(b_kᵀ·D),    what is left of each value

p is the column's 1-way marginal. F_v is the rank of a value among the rows, between 0 and 1. A dependence on another
column that rises or falls with the rank is nearly all in k = 1 and 2, however skewed the column is. Noise of σ in each
cell is noise of σ in each coefficient, so a trend stands out of noise that hides each of its cells.

p_v is taken relative to a run of neighbouring values (`Attribute.runs`) with at least three of them. Every other value
is nobody's neighbour (a point, NULL, what lies outside), and has a coefficient of its own.

Coefficients that are as likely to be noise as each other share a block: those of k = 0, 1, 2–3, 4–7, 8–15 of a run, and
those of its rest. b and rest together keep square sums, so they also take coefficients back to values.
"""

from __future__ import annotations

from collections.abc import Iterable
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
_ROUNDING: Final = 1e-7


@dataclass(frozen=True, eq=False)
class Trends:
    """The waves of one column of c values, and what they leave of each value; no waves for a column without an order.

    Attributes:
        waves: w orthonormal waves, shape (w, c).
        slow: whether a wave has k = 1 or 2, shape (w,).
        block: the block of each wave, then that of what is left of each value, shape (w + c,).
        freedom: how many independent coefficients each of those counts for, shape (w + c,); together c.
    """

    waves: Floats
    slow: npt.NDArray[np.bool_]
    block: npt.NDArray[np.int64]
    freedom: Floats

    def apart(self, values: Floats) -> Floats:
        """The coefficients of columns of values, of shape (c, …): those of the waves, then what is left."""
        coefficients = self.waves @ values
        return np.concatenate([coefficients, values - self.waves.T @ coefficients])

    def together(self, coefficients: Floats) -> Floats:
        """The values of coefficients of shape (w + c, …): the transpose of `apart`, which keeps square sums."""
        first, left = np.split(coefficients, [len(self.waves)])
        return np.asarray(self.waves.T @ (first - self.waves @ left) + left)


def trends_of(domain: Domain, prior: Floats, names: Iterable[str]) -> dict[str, Trends]:
    """The waves of those of the columns that are ordered and have a run of at least three values.

    Args:
        domain: the columns.
        prior: p, the 1-way marginals of all columns, shape (T,).
        names: the columns that are wanted.
    """
    blocks = Blocks.of(domain)
    wanted = (domain.by_name[name] for name in sorted({*names}))
    return {
        attribute.name: trends(attribute, prior[blocks.block(attribute.name)])
        for attribute in wanted
        if runs_of(attribute)
    }


def runs_of(attribute: Attribute) -> list[range]:
    """The runs of an ordered column that have waves: at least three neighbouring values; none of other columns."""
    return [run for run in attribute.runs if len(run) >= FEWEST] if attribute.is_ordered else []


def trends(attribute: Attribute, shares: Floats) -> Trends:
    """The waves of one ordered column.

    Args:
        attribute: the column.
        shares: p, shape (c,).
    """
    alone = cells(attribute.size)
    waves, slow, block = [np.zeros((0, attribute.size))], [alone.slow], [np.zeros(0, np.int64)]
    left_in, free, most = alone.block.copy(), alone.freedom.copy(), attribute.size
    for run in runs_of(attribute):
        place, orders = slice(run.start, run.stop), _orders(len(run))
        block_waves = np.zeros((len(orders), attribute.size))
        block_waves[:, place] = _waves(shares[place])
        waves.append(block_waves)
        slow.append(np.arange(len(orders)) < _SLOW)
        block.append(most + np.array([order.bit_length() for order in orders]))
        left_in[place], free[place] = most + _MOST.bit_length(), 1 - len(orders) / len(run)
        most += _MOST.bit_length() + 1
    freedom = np.concatenate([np.ones(sum(map(len, block))), free])
    return Trends(np.vstack(waves), np.concatenate(slow), np.concatenate([*block, left_in]), freedom)


def cells(size: int) -> Trends:
    """A column without waves: each value is left as it is, in a block of its own."""
    return Trends(np.zeros((0, size)), np.zeros(0, bool), np.arange(size), np.ones(size))


def _orders(length: int) -> list[int]:
    """Which k the waves of a run of at least three values have."""
    return [1, 2, 0, *range(3, min(length, _MOST))]


def _waves(shares: Floats) -> Floats:
    """b_k along a run, by Gram and Schmidt: LAPACK's threads would take longer than the work.

    >>> waves = _waves(np.array([0.7, 0.1, 0.1, 0.1]))
    >>> bool(np.allclose(waves @ waves.T, np.eye(4)))
    True
    """
    shares = np.maximum(shares / max(float(shares.sum()), _LEAST), _LEAST)
    shares = shares / shares.sum()
    rank = np.cumsum(shares) - shares / 2
    basis = np.zeros((0, len(shares)))
    for order in _orders(len(shares)):
        basis = np.vstack([basis, _orthogonal(shares * np.cos(np.pi * order * rank), basis)])
    return basis


def _orthogonal(wave: Floats, basis: Floats) -> Floats:
    """The part of a wave that is orthogonal to those found, of length 1.

    Where few values have nearly all rows a wave is nearly a sum of others: what is left of it is rounding. The value
    that the others hold least of takes its place.
    """
    while True:
        wave = wave / float(np.linalg.norm(wave))
        wave = wave - basis.T @ (basis @ wave)
        left = float(np.linalg.norm(wave))
        if left > 0.5:  # of 1: as orthogonal as numbers are
            return np.asarray(wave / left)
        if left < _ROUNDING:
            wave = np.zeros(len(wave))
            wave[int(np.argmin((basis**2).sum(axis=0)))] = 1.0
