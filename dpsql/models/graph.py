"""A graphical model as a `Model`: what `pgm` returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpsql.core.constraint import Allowed
from dpsql.core.domain import Clique
from dpsql.fitting.graph.junction_tree import Tree
from dpsql.models.model import Codes
from dpsql.models.weighted_rows import satisfying
from dpsql.runtime.progress import Progress


@dataclass(frozen=True)
class GraphModel:
    """A fitted graphical model as a `Model`.

    Attributes:
        tree: the fit.
        total: the number of rows that it stands for.
    """

    tree: Tree
    total: float

    def project(self, clique: Clique) -> npt.NDArray[np.float32]:
        """See `Model.project`."""
        return self.tree.project(clique).astype(np.float32)

    def sample(
        self, rows: int, generator: np.random.Generator, progress: Progress, allowed: Sequence[Allowed] = ()
    ) -> Codes:
        """See `Model.sample`."""
        progress.stage("drawing", max(1, rows))
        codes = self.tree.draw(rows, generator, progress)
        return satisfying(self, codes, self.tree.domain, allowed, generator)
