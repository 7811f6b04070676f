"""All cells of a workload's marginals and their negations as queries: what `dualquery` and `fem` play with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique, Domain
from dpsql.core.prior import packed, project_rows
from dpsql.core.workload import Workload
from dpsql.errors import DomainTooLarge
from dpsql.mechanisms.base import refuse_thresholds
from dpsql.mechanisms.costs import QUESTION_SECONDS, SCORED_SECONDS
from dpsql.privacy.journal import SignedQuery

_MOST_CELLS: Final = 20_000_000
_RECORD_SECONDS: Final = 4e-7  # of a record and a value that it may take
_CONJUNCTION_SECONDS: Final = 2e-7  # of a record and a conjunction


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


def game_seconds(domain: Domain, workload: Workload, rounds: int, records: int, asked: float) -> float:
    """About how long so many rounds take that score all cells and find so many records for so many conjunctions."""
    scored = rounds * (SCORED_SECONDS * cells_of(domain, workload) + QUESTION_SECONDS)
    return scored + rounds * records * (_RECORD_SECONDS * domain.width + _CONJUNCTION_SECONDS * asked)


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

    def add(self, records: npt.NDArray[np.int64]) -> None:
        """More records, shape (records, attributes), or one, shape (attributes,)."""
        records = np.atleast_2d(records)
        for clique, counts in self._counts.items():
            np.add.at(counts, packed(records, self._domain.names, self._domain, clique), 1)

    def of(self, clique: Clique) -> npt.NDArray[np.float64]:
        """The counts of a clique's cells, shape (cells,)."""
        return self._counts[clique].astype(np.float64)


def unsatisfied(domain: Domain, records: npt.NDArray[np.int64], drawn: Iterable[SignedQuery]) -> float:
    """The part of the drawn queries that a record does not satisfy, on average; 0 where none was drawn.

    Where the records answer as the table does, cells are drawn as often with a plus as with a minus: one half.
    """
    total, count, known = 0.0, 0, dict[Clique, npt.NDArray[np.float64]]()
    each = np.full(len(records), 1 / len(records))
    for query, sign in drawn:
        clique, cell = query
        if clique not in known:
            known[clique] = project_rows(records, each, domain.names, domain, clique)
        share = float(known[clique][cell])
        total += 1 - share if sign > 0 else share
        count += 1
    return total / count if count else 0.0
