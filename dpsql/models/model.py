"""A model: a distribution over rows, as every mechanism returns one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dpsql.core.constraint import Allowed
from dpsql.core.domain import Clique
from dpsql.runtime.progress import Progress

Codes = npt.NDArray[np.int64]


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


def projections(model: Model, cliques: Sequence[Clique]) -> Mapping[Clique, npt.NDArray[np.float32]]:
    """The marginals of some cliques; each is computed when it is looked up, but for a model that has them at once."""
    return model.projections(cliques) if isinstance(model, Several) else _Each(model, cliques)


class _Each(Mapping[Clique, npt.NDArray[np.float32]]):
    """Marginals of a model, none of which is kept."""

    def __init__(self, model: Model, cliques: Sequence[Clique]) -> None:
        self._model, self._cliques = model, cliques

    def __getitem__(self, clique: Clique) -> npt.NDArray[np.float32]:
        return self._model.project(clique)

    def __iter__(self) -> Iterator[Clique]:
        return iter(self._cliques)

    def __len__(self) -> int:
        return len(self._cliques)
