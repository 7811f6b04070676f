"""All cells of a workload's marginals and their negations as queries: what `dualquery` and `fem` play with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique, Domain
from dpsql.core.prior import packed
from dpsql.core.workload import Workload
from dpsql.errors import DomainTooLarge
from dpsql.mechanisms.base import refuse_thresholds
from dpsql.privacy.journal import SignedQuery

_MOST_CELLS: Final = 20_000_000


def check_cells(name: str, domain: Domain, workload: Workload) -> None:
    """Refuse a workload whose cells cannot all be kept, or that is not of marginals only.

    Raises:
        DomainTooLarge: it has too many cells.
        InvalidArgument: it has thresholds.
    """
    refuse_thresholds(name, workload)
    cells = cells_of(domain, workload)
    if cells > _MOST_CELLS:
        raise DomainTooLarge(
            f"the workload has {cells:.3g} cells, of which {name} scores each one: at most {_MOST_CELLS} fit. Ask for "
            "fewer or smaller marginals, declare coarser domains, or say mechanism := 'projection'"
        )


def cells_of(domain: Domain, workload: Workload) -> int:
    """How many cells the marginals of a workload have together."""
    return sum(domain.size(clique) for clique in workload.cliques)


def uniform_queries(
    domain: Domain, cliques: Sequence[Clique], count: int, generator: np.random.Generator
) -> list[SignedQuery]:
    """Cells, each with a sign, as `sample_cells` returns them when all are as likely."""
    ends = np.cumsum([domain.size(clique) for clique in cliques])
    cells = generator.integers(0, int(ends[-1]), count)
    places = np.searchsorted(ends, cells, side="right")
    signs = 1 - 2 * generator.integers(0, 2, count)
    return [
        SignedQuery((cliques[place], int(cell - ends[place] + domain.size(cliques[place]))), int(sign))
        for place, cell, sign in zip(places, cells, signs, strict=True)
    ]


class RecordCounts:
    """How many of the records so far lie in each cell: one dense array for each clique."""

    def __init__(self, domain: Domain, cliques: Sequence[Clique]) -> None:
        self._domain = domain
        self._counts = {clique: np.zeros(domain.size(clique), np.int32) for clique in cliques}

    def add(self, record: npt.NDArray[np.int64]) -> None:
        """One more record, shape (attributes,)."""
        for clique, counts in self._counts.items():
            counts[packed(record[None, :], self._domain.names, self._domain, clique)] += 1

    def of(self, clique: Clique) -> npt.NDArray[np.float64]:
        """The counts of a clique's cells, shape (cells,)."""
        return self._counts[clique].astype(np.float64)
