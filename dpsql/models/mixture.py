"""The average of product histograms as a `Model`: what MWEM returns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpsql.core.constraint import Allowed
from dpsql.core.domain import Clique, Domain
from dpsql.fitting.rows.multiplicative_weights import Codes, Factored
from dpsql.models.weighted_rows import satisfying, systematic
from dpsql.runtime.progress import Progress


@dataclass(frozen=True)
class MixtureModel:
    """The average of several product histograms.

    Attributes:
        domain: of the table.
        parts: the histograms, each with the same weight; gone through once for each answer, and may be computed then.
        total: the number of rows that it stands for.
    """

    domain: Domain
    parts: Collection[Factored]
    total: float

    def project(self, clique: Clique) -> npt.NDArray[np.float32]:
        """See `Model.project`."""
        return self.projections([clique])[clique]

    def projections(self, cliques: Sequence[Clique]) -> Mapping[Clique, npt.NDArray[np.float32]]:
        """See `dpsql.models.model.Several`: the parts are gone through once."""
        sums = {clique: np.zeros(self.domain.size(clique)) for clique in cliques}
        for part in self.parts:
            for clique, whole in sums.items():
                whole += part.project(clique)
        return {clique: np.asarray(whole / len(self.parts), np.float32) for clique, whole in sums.items()}

    def sample(
        self, rows: int, generator: np.random.Generator, progress: Progress, allowed: Sequence[Allowed] = ()
    ) -> Codes:
        """See `Model.sample`: the parts take turns, each group of attributes is drawn systematically."""
        progress.stage("drawing", len(self.parts))
        codes = np.empty((rows, len(self.domain)), np.int64)
        for number, part in enumerate(self.parts):
            mine = np.arange(number, rows, len(self.parts))
            for names, table in part.factors:
                drawn = generator.permutation(systematic(table.ravel(), len(mine), generator))
                for name, values in zip(names, np.unravel_index(drawn, table.shape), strict=True):
                    codes[mine, self.domain.names.index(name)] = values
            progress.advance(1)
        return satisfying(self, codes, self.domain, allowed, generator)
