r"""The relaxed table: n′ rows, each one a product of probability vectors, one for each attribute.

    P ∈ [0, 1]^{T × n′},   Σ_{v ∈ block a} P[v, r] = 1   for every attribute a and row r

with T the one-hot width. Its answer to the marginal of a clique S is the mean over rows of products,

    M_S(P)[y] = 1/n′ · Σ_r Π_{a ∈ S} P[y_a, r]

which on one-hot rows is the exact marginal divided by n. Columns of P are rows of the table: products over rows are
then contiguous in memory.

Source: Aydore et al. 2021, section 3 (RAP).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique, Domain
from dpsql.core.threshold import Family, Threshold, threshold_counts

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int64]


_CELLS_AT_ONCE: Final = 16_384


@dataclass(frozen=True)
class Blocks:
    """Where each attribute's probabilities stand among the T rows of P."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    @staticmethod
    def of(domain: Domain) -> Blocks:
        """The blocks of a domain's attributes, in their order."""
        return Blocks(domain.names, domain.shape(domain.names))

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """The first row of each block."""
        return tuple(int(offset) for offset in np.concatenate([[0], np.cumsum(self.sizes)[:-1]]))

    @property
    def width(self) -> int:
        """T, the number of rows."""
        return sum(self.sizes)

    def block(self, name: str) -> slice:
        """The rows of an attribute."""
        index = self.names.index(name)
        return slice(self.offsets[index], self.offsets[index] + self.sizes[index])


@dataclass(frozen=True)
class RelaxedTable:
    """A fitted model of a table.

    Attributes:
        blocks: the attributes.
        probabilities: P, shape (T, n′).
        total: the number of rows that it stands for.
    """

    blocks: Blocks
    probabilities: Floats
    total: float

    def project(self, clique: Clique) -> Floats:
        """The answers to a marginal in probabilities, flat and row-major over the clique's codes, shape (cells,)."""
        if not clique:
            return np.ones(1, np.float32)
        blocks = [self.probabilities[self.blocks.block(name)] for name in clique]
        rows = blocks[0].shape[1]
        if len(blocks) == 1:
            return np.asarray(blocks[0].mean(axis=1), np.float32)
        product = blocks[0] / np.float32(rows)
        for block in blocks[1:-1]:
            product = (product[:, None, :] * block[None, :, :]).reshape(-1, rows)
        return np.asarray((product @ blocks[-1].T).ravel(), np.float32)

    def answers(self, clique: Clique, cells: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """The answers to some cells of a marginal in probabilities, without the others, shape (cells,).

        With them errors need only the cells that are not zero: Σ|p − q| = Σ_support |p − q| + 1 − Σ_support q.

        Args:
            clique: of the marginal, however large.
            cells: row-major indices, shape (cells,).
        """
        sizes = [self.blocks.sizes[self.blocks.names.index(name)] for name in clique]
        found = np.empty(len(cells))
        for begin in range(0, len(cells), _CELLS_AT_ONCE):
            part = slice(begin, begin + _CELLS_AT_ONCE)
            product: Floats | float = 1.0
            for name, codes in zip(clique, np.unravel_index(cells[part], sizes), strict=True):
                product = product * self.probabilities[self.blocks.block(name)][codes]
            found[part] = np.asarray(product).mean(axis=1)
        return found

    def threshold(self, clique: Clique, least: int) -> npt.NDArray[np.float64]:
        """The answers to a family of thresholds in probabilities, shape (cells,); see `dpsql.core.threshold`.

        P(at least t of the events) is linear in the cells of the clique's marginal, also for each relaxed row.
        """
        sizes = tuple(self.blocks.sizes[self.blocks.names.index(name)] for name in clique)
        return threshold_counts(self.project(clique).astype(np.float64), sizes, least)

    def counts(self, family: Family) -> npt.NDArray[np.float64]:
        """The answers to a marginal, or a family of thresholds, in rows, shape (cells,)."""
        if isinstance(family, Threshold):
            return self.threshold(family.clique, family.least) * self.total
        return self.project(family).astype(np.float64) * self.total


def draw_codes(probabilities: Floats, parents: Codes, uniform: npt.NDArray[np.float64]) -> Codes:
    """Codes at places of the relaxed rows' cumulative probabilities, one search for all.

    Args:
        probabilities: of each code in each relaxed row, shape (codes, n′); they need not add up to 1.
        parents: the relaxed row of each draw, shape (rows,).
        uniform: the place of each draw, in [0, 1), shape (rows,).
    """
    cumulative = np.cumsum(probabilities, axis=0, dtype=np.float64)
    cumulative /= cumulative[-1]
    stacked = (cumulative + np.arange(cumulative.shape[1])).T.ravel()  # increasing over codes, then over relaxed rows
    place = np.searchsorted(stacked, uniform + parents, side="right") - parents * len(cumulative)
    return np.asarray(np.clip(place, 0, len(cumulative) - 1), np.int64)


def simplex_projection(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The probability vector nearest to `values` in Euclidean distance (Duchi et al. 2008).

    >>> simplex_projection(np.array([0.5, 0.9, -2.0])).round(6).tolist()
    [0.3, 0.7, 0.0]
    """
    descending = np.sort(values)[::-1]
    excess = np.cumsum(descending) - 1
    support = np.flatnonzero(descending - excess / np.arange(1, len(values) + 1) > 0)[-1]
    return np.asarray(np.maximum(values - excess[support] / (support + 1), 0))
