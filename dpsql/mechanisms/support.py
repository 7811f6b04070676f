"""Weighted rows as a `Model`: what the mechanisms return whose distribution lives on finitely many rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpsql.constraint import Allowed
from dpsql.domain import Clique, Domain
from dpsql.errors import DpsqlError
from dpsql.prior import packed, project_rows
from dpsql.progress import Progress

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SupportModel:
    """A distribution over rows.

    Attributes:
        domain: of the table.
        codes: the support, shape (rows, attributes).
        weights: probabilities, shape (rows,); they add up to 1.
        total: the number of rows that it stands for.
    """

    domain: Domain
    codes: Codes
    weights: npt.NDArray[np.float64]
    total: float

    def project(self, clique: Clique) -> npt.NDArray[np.float32]:
        """See `Model.project`."""
        return project_rows(self.codes, self.weights, self.domain.names, self.domain, clique).astype(np.float32)

    def sample(
        self, rows: int, generator: np.random.Generator, progress: Progress, allowed: Sequence[Allowed] = ()
    ) -> Codes:
        """See `Model.sample`: each row of the support as often as its weight says, up to one (a systematic draw).

        Raises:
            DpsqlError: no row of the support is allowed.
        """
        progress.stage("drawing", 1)
        kept = np.ones(len(self.codes), bool)
        for part in allowed:
            if part.clique:
                known = packed(part.codes, part.clique, self.domain, part.clique)
                kept &= np.isin(packed(self.codes, self.domain.names, self.domain, part.clique), known)
        weights = np.where(kept, self.weights, 0.0)
        if rows and weights.sum() <= 0:
            raise DpsqlError(
                "no row of the model satisfies the constraints: ask for mechanism := 'projection', which draws only "
                "rows that do, under another release name"
            )
        return self.codes[systematic(weights, rows, generator)]


def systematic(weights: npt.NDArray[np.float64], count: int, generator: np.random.Generator) -> Codes:
    """`count` indices, each one ⌊count·w⌋ or ⌈count·w⌉ times, in random order of the support.

    >>> sorted(systematic(np.array([0.5, 0.0, 0.5]), 4, np.random.default_rng(0)).tolist())
    [0, 0, 2, 2]
    """
    if count == 0:
        return np.empty(0, np.int64)
    order = generator.permutation(len(weights))
    cumulative = np.cumsum(weights[order])
    places = (np.arange(count) + generator.random()) / count * cumulative[-1]
    chosen = np.searchsorted(cumulative, places, side="right")
    last = int(np.flatnonzero(weights[order])[-1])
    return np.asarray(order[np.minimum(chosen, last)], np.int64)
