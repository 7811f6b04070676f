"""Weighted rows inside public groups as a `Model`: each group has weights of its own over one set of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpsql.core.constraint import Allowed
from dpsql.core.domain import Clique, Domain
from dpsql.core.prior import packed
from dpsql.errors import DpsqlError
from dpsql.runtime.progress import Progress

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class GroupedRows:
    """A distribution over rows whose group columns say which weights hold.

    Attributes:
        domain: of the table.
        keys: the columns of the groups, in the domain's order.
        groups: their codes, shape (groups, keys).
        codes: of the other columns, in the domain's order, shape (rows, attributes − keys).
        weights: probabilities of each group and row; all add up to 1, shape (groups, rows).
        total: the number of rows that it stands for.
    """

    domain: Domain
    keys: Clique
    groups: Codes
    codes: Codes
    weights: npt.NDArray[np.float64]
    total: float

    @property
    def _others(self) -> Clique:
        return tuple(name for name in self.domain.names if name not in self.keys)

    def project(self, clique: Clique) -> npt.NDArray[np.float32]:
        """See `Model.project`."""
        by_group, by_row = self._parts(clique)
        size = self.domain.size(clique)
        if not set(clique) & set(self.keys):
            marginal: npt.NDArray[np.float64] = np.bincount(by_row, self.weights.sum(axis=0), size).astype(np.float64)
        elif set(clique) <= set(self.keys):
            marginal = np.bincount(by_group, self.weights.sum(axis=1), size).astype(np.float64)
        else:
            marginal = np.zeros(size)
            for start in range(0, len(self.groups), 64):  # so that indices of one part are in memory at a time
                cells = by_group[start : start + 64, None] + by_row
                marginal += np.bincount(cells.ravel(), self.weights[start : start + 64].ravel(), size)
        return marginal.astype(np.float32)

    def _parts(self, clique: Clique) -> tuple[Codes, Codes]:
        """What the group and what the row adds to the index of a clique's cell."""
        by_group, by_row = np.zeros(len(self.groups), np.int64), np.zeros(len(self.codes), np.int64)
        stride = 1
        for name, size in zip(reversed(clique), reversed(self.domain.shape(clique)), strict=True):
            if name in self.keys:
                by_group += stride * self.groups[:, self.keys.index(name)]
            else:
                by_row += stride * self.codes[:, self._others.index(name)]
            stride *= size
        return by_group, by_row

    def sample(
        self, rows: int, generator: np.random.Generator, progress: Progress, allowed: Sequence[Allowed] = ()
    ) -> Codes:
        """See `Model.sample`: a systematic draw, group after group, so that each has its share up to one row.

        Raises:
            DpsqlError: no row of any group is allowed.
        """
        progress.stage("drawing", 1)
        weights = self.weights
        for part in allowed:
            if part.clique:
                by_group, by_row = self._parts(part.clique)
                allowed_cells = packed(part.codes, part.clique, self.domain, part.clique)
                weights = np.where(np.isin(by_group[:, None] + by_row, allowed_cells), weights, 0.0)
        if rows and weights.sum() <= 0:
            raise DpsqlError(
                "no row of the model satisfies the constraints: ask for mechanism := 'projection', which draws only "
                "rows that do, under another release name"
            )
        progress.check()
        chosen = _in_order(weights, rows, generator)
        group, row = np.divmod(chosen, len(self.codes))
        columns = []
        for name in self.domain.names:
            if name in self.keys:
                columns.append(self.groups[group, self.keys.index(name)])
            else:
                columns.append(self.codes[row, self._others.index(name)])
        return np.stack(columns, axis=1)


def _in_order(weights: npt.NDArray[np.float64], count: int, generator: np.random.Generator) -> Codes:
    """`count` flat indices, each ⌊count·w⌋ or ⌈count·w⌉ times, and so each line's sum; random inside a line."""
    if count == 0:
        return np.empty(0, np.int64)
    order = generator.permuted(np.tile(np.arange(weights.shape[1]), (len(weights), 1)), axis=1)
    shuffled = np.take_along_axis(weights, order, axis=1).ravel()
    flat = (order + weights.shape[1] * np.arange(len(weights))[:, None]).ravel()
    cumulative = np.cumsum(shuffled)
    places = (np.arange(count) + generator.random()) / count * cumulative[-1]
    chosen = np.searchsorted(cumulative, places, side="right")
    return np.asarray(flat[np.minimum(chosen, int(np.flatnonzero(shuffled)[-1]))], np.int64)
