"""A model: a distribution over rows, as every mechanism returns one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dpsql.core.constraint import Allowed
from dpsql.core.domain import Clique
from dpsql.core.row_codes import RowCodes
from dpsql.runtime.progress import Progress

Codes = RowCodes


@runtime_checkable
class Several(Protocol):
    """A model that answers several marginals at once for the price of one."""

    def projections(self, cliques: Sequence[Clique]) -> Mapping[Clique, npt.NDArray[np.float32]]:
        """The marginals of some cliques in probabilities; see `Model.project`."""


class Model(Protocol):
    """A distribution over rows, fitted to noisy answers."""

    @property
    def total(self) -> float:
        """The number of rows that it stands for."""

    def project(self, clique: Clique) -> npt.NDArray[np.float32]:
        """The marginal of a clique in probabilities, flat, shape (cells,)."""

    def sample(
        self, rows: int, generator: np.random.Generator, progress: Progress, allowed: Sequence[Allowed] = ()
    ) -> Codes:
        """A table of codes, shape (rows, attributes), with only allowed tuples of each constraint's clique."""


def projecting(model: Model, cliques: Sequence[Clique]) -> Callable[[Clique], npt.NDArray[np.float32]]:
    """Tells the marginals of these cliques: `Model.project`, but for a model that has them all at once."""
    return model.projections(cliques).__getitem__ if isinstance(model, Several) else model.project
