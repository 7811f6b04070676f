"""Weighted rows as a `Model`: what the mechanisms return whose distribution lives on finitely many rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpsql.core.constraint import Allowed
from dpsql.core.domain import Clique, Domain
from dpsql.core.prior import packed, project_rows
from dpsql.models.model import Model, projecting
from dpsql.runtime.progress import Progress

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class WeightedRows:
    """A distribution over rows.

    Attributes:
        domain: of the table.
        codes: the support, shape (rows, attributes).
        weights: probabilities, shape (rows,); they add up to 1.
        total: the number of rows that it stands for.
        independent: draw rows independently of each other (a bootstrap), and not each one as often as its weight says.
    """

    domain: Domain
    codes: Codes
    weights: npt.NDArray[np.float64]
    total: float
    independent: bool = False

    def project(self, clique: Clique) -> npt.NDArray[np.float32]:
        """See `Model.project`."""
        return project_rows(self.codes, self.weights, self.domain.names, self.domain, clique).astype(np.float32)

    def sample(
        self, rows: int, generator: np.random.Generator, progress: Progress, allowed: Sequence[Allowed] = ()
    ) -> Codes:
        """See `Model.sample`: each row of the support as often as its weight says, up to one (a systematic draw)."""
        progress.stage("drawing", 1)
        if self.independent:
            chosen = generator.choice(len(self.weights), rows, p=self.weights / self.weights.sum())
        else:
            chosen = systematic(self.weights, rows, generator)
        codes = self.codes[chosen]
        return satisfying(self, codes, self.domain, allowed, generator)


def satisfying(
    model: Model, codes: Codes, domain: Domain, allowed: Sequence[Allowed], generator: np.random.Generator
) -> Codes:
    """The same rows, but those that break a constraint take an allowed tuple of its columns, as the model weighs them.

    Constraints have no column in common, so one pass mends them all.
    """
    breaches = []
    for part in (constraint for constraint in allowed if constraint.clique):
        cells = packed(part.codes, part.clique, domain, part.clique)
        broken = np.flatnonzero(~np.isin(packed(codes, domain.names, domain, part.clique), cells))
        if len(broken):
            breaches.append((part, cells, broken))
    if not breaches:
        return codes
    codes, project = codes.copy(), projecting(model, [part.clique for part, _, _ in breaches])
    for part, cells, broken in breaches:
        weights = project(part.clique)[cells].astype(np.float64) + 1e-12
        drawn = generator.permutation(systematic(weights, len(broken), generator))
        for name, values in zip(part.clique, part.codes[drawn].T, strict=True):
            codes[broken, domain.names.index(name)] = values
    return codes


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
