r"""Linear queries as a relaxed fit sees them: weights over the cells of cliques, in tiles as measured cells are.

    q_g = Σ_{cells of group g} φ(cell)·M(cell),   φ = w/W,   loss Σ_g ω_g·½(q_g − y_g)²,   ω = scale·N²·W²/σ²

The answers M of a tile are a matrix product, as those of measured cells. The gradient of q needs all tiles of a family,
so the tiles are gone through twice: once for q, once more with D = φ·ω·(q − y) in place of w·(M − y).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dpsql.core.linear_family import LinearFamily
from dpsql.fitting.relaxed.table import Blocks
from dpsql.fitting.relaxed.tiles import layout_of
from dpsql.fitting.relaxed.views import Views
from dpsql.fitting.target import Target


@dataclass(frozen=True)
class Functionals:
    """The linear queries of a fit.

    Attributes:
        tiles: for each size class the arrays of its tiles: index, offset, size, φ, the group of each cell, and how many
            tiles are in use.
        target: y, fractions of the rows times W, shape (groups,).
        weight: ω, shape (groups,).
    """

    tiles: Mapping[int, tuple[npt.NDArray[Any], ...]]
    target: npt.NDArray[np.float64]
    weight: npt.NDArray[np.float64]

    @staticmethod
    def of(views: Views, measured: Sequence[Target], total: float, scale: float, shards: int) -> Functionals:
        """Those of some targets.

        Args:
            views: the fit's units and views.
            measured: answers to linear queries.
            total: N, rows.
            scale: of the weights.
            shards: how many devices share the tiles.
        """
        weights, groups, values, precisions, first = [], [], [], [], 0
        for target in measured:
            family = _family(target)
            cells = replace(target, shape=_shape(views, target), values=family.weights / family.largest, variance=1.0)
            weights.append(views.target(cells))
            groups.append(views.target(replace(cells, values=(family.groups + first).astype(np.float64))))
            values.append(target.values / (total * family.largest))
            precisions.append(np.full(family.count, scale * relative_precision(target, total)))
            first += family.count
        blocks: Blocks = views.blocks
        phi, group = (layout_of(blocks, targets, 1.0, 1.0, shards) for targets in (weights, groups))
        tiles = {
            level: (t.index, t.offset, t.size, t.target, np.rint(group[level].target).astype(np.int32), t.count)
            for level, t in phi.items()
        }
        return Functionals(tiles, *(np.concatenate([np.zeros(0), *parts]) for parts in (values, precisions)))

    @property
    def silent(self) -> Functionals:
        """The same without a say: a compiled program serves both."""
        return replace(self, weight=0 * self.weight)

    @property
    def bucket(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """What a compiled program depends on."""
        return tuple(sorted((level, (*arrays[3].shape[:2], len(self.target))) for level, arrays in self.tiles.items()))


def relative_precision(target: Target, total: float) -> float:
    """1/variance of an answer as a fraction of the rows times W."""
    return float(total**2 * _family(target).largest ** 2 / target.variance)


def _family(target: Target) -> LinearFamily:
    assert target.linear is not None
    return target.linear


def _shape(views: Views, target: Target) -> tuple[int, ...]:
    """The sizes of a clique's attributes."""
    return views.shape(target.clique)
