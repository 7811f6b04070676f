"""Cells of a workload's marginals, its thresholds, its linear queries, and their negations: queries of games.

A threshold is a query as a cell is: a row counts for it or does not. So scores of both have the same sensitivity. A
linear query is divided by the span of its weights, 0 among these: what it says of two rows differs by 1 at most, too.
On a record it is worth the sum of its cells' conjunctions, each with the cell's weight.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Domain
from dpsql.core.linear_family import LinearFamily, QueryFamily, answers_of, columns_of, number_of
from dpsql.core.prior import packed, project_rows
from dpsql.core.threshold import Family, clique_of
from dpsql.core.workload import Workload
from dpsql.errors import DomainTooLarge
from dpsql.mechanisms.costs import QUESTION_SECONDS
from dpsql.privacy.journal import Query, SignedQuery

Floats = npt.NDArray[np.float64]

SPAN: Final = "span of weights"
"""What errors of linear queries are measured in."""
_MOST_CELLS: Final = 20_000_000
_MOST_CONJUNCTIONS: Final = 50_000
_DRAWN_SECONDS: Final = 1.1e-7  # of a cell and its negation in a round that draws some of all
_RECORD_SECONDS: Final = 5.4e-07  # of a record and a value that it may take
_ADDED_SECONDS: Final = 2e-9  # of a number that is added up for thresholds
_CONJUNCTION_SECONDS: Final = 5.4e-07  # of a record and a conjunction


def check_cells(name: str, domain: Domain, workload: Workload) -> None:
    """Refuse a workload whose cells and thresholds cannot all be kept.

    Raises:
        DomainTooLarge: it has too many.
    """
    cells = cells_of(domain, workload)
    if cells > _MOST_CELLS:
        raise DomainTooLarge(
            f"the workload has {cells:.3g} cells, of which {name} scores each one: at most {_MOST_CELLS} fit. Ask for "
            "fewer or smaller marginals, declare coarser domains, or say mechanism := 'projection'"
        )
    if workload.linear_cells > _MOST_CONJUNCTIONS:
        raise DomainTooLarge(
            f"the linear queries have {workload.linear_cells} cells, of which {name} looks at each one by itself: at "
            f"most {_MOST_CONJUNCTIONS} fit. Use fewer columns in one sum, declare coarser domains, or say mechanism "
            ":= 'projection'"
        )


def cells_of(domain: Domain, workload: Workload) -> int:
    """How many cells, thresholds and linear queries a workload has."""
    cells = sum(domain.size(clique_of(family)) for family in workload.families)
    return cells + sum(family.count for family in workload.linear)


def workload_words(workload: Workload, unit: str = "largest weight") -> str:
    """What the queries of a workload are, for a plan and a promise.

    Args:
        workload: of the queries.
        unit: of linear queries' errors.

    >>> workload_words(Workload((("a",),)))
    'cells'
    """
    words = ["cells"] * bool(workload.cliques) + ["thresholds"] * bool(workload.thresholds)
    words += [f"linear queries (by their {unit})"] * bool(workload.linear)
    return " and ".join(words) if len(words) < 3 else f"{', '.join(words[:2])} and {words[2]}"


def game_seconds(domain: Domain, workload: Workload, rounds: int, records: int, conjunctions: float) -> float:
    """About how long so many rounds take that score all cells and find so many records for so many conjunctions."""
    added = sum(len(part.clique) * (part.least + 1) * domain.size(part.clique) for part in workload.thresholds)
    scored = rounds * (_DRAWN_SECONDS * cells_of(domain, workload) + _ADDED_SECONDS * added + QUESTION_SECONDS)
    return scored + rounds * records * (_RECORD_SECONDS * domain.width + _CONJUNCTION_SECONDS * conjunctions)


def worth(query: Query, weight: float) -> list[tuple[tuple[Family, int], float]]:
    """The conjunctions that a query of some weight is a sum of, with theirs."""
    family, place = query
    if not isinstance(family, LinearFamily):
        return [((family, place), weight)]
    return [((family.clique, cell), weight * steps / family.span) for cell, steps in family.terms(place)]


def conjunctions_of(queries: Iterable[tuple[Query, float]]) -> tuple[list[tuple[Family, int]], list[float]]:
    """The conjunctions of weighted queries, and their weights, for a record that gains by them."""
    parts = [part for query, weight in queries for part in worth(query, weight)]
    return [cell for cell, _ in parts], [weight for _, weight in parts]


def conjunctions_each(domain: Domain, workload: Workload) -> float:
    """How many conjunctions a query is the sum of, on average."""
    linear = sum(family.count for family in workload.linear)
    return (cells_of(domain, workload) - linear + workload.linear_cells) / max(1, cells_of(domain, workload))


def uniform_queries(
    domain: Domain, families: Sequence[QueryFamily], count: int, generator: np.random.Generator
) -> list[SignedQuery]:
    """Queries, each with a sign, as `sample_cells` returns them when all are as likely."""
    sizes = [number_of(domain, family) for family in families]
    ends = np.cumsum(sizes)
    cells = generator.integers(0, int(ends[-1]), count)
    places = np.searchsorted(ends, cells, side="right")
    signs = 1 - 2 * generator.integers(0, 2, count)
    return [
        SignedQuery((families[place], int(cell - ends[place] + sizes[place])), int(sign))
        for place, cell, sign in zip(places, cells, signs, strict=True)
    ]


class RecordCounts:
    """How many of the records so far each query counts: one dense array for each clique."""

    def __init__(self, domain: Domain, families: Sequence[QueryFamily]) -> None:
        self._domain = domain
        self._counts = {clique: np.zeros(domain.size(clique), np.int32) for clique in map(columns_of, families)}

    def add(self, records: npt.NDArray[np.int64]) -> None:
        """More records, shape (records, attributes), or one, shape (attributes,)."""
        records = np.atleast_2d(records)
        for clique, counts in self._counts.items():
            np.add.at(counts, packed(records, self._domain.names, self._domain, clique), 1)

    def of(self, family: QueryFamily) -> npt.NDArray[np.float64]:
        """The counts of a family's queries, or the answers of linear ones in steps, shape (cells,)."""
        return answers_of(self._domain, self._counts[columns_of(family)].astype(np.float64), family)


def answers_of_rows(domain: Domain, codes: npt.NDArray[np.int64], weights: Floats, family: QueryFamily) -> Floats:
    """The answers of weighted records to the queries of a family, shape (cells,)."""
    return answers_of(domain, project_rows(codes, weights, domain.names, domain, columns_of(family)), family)


def unsatisfied(domain: Domain, records: npt.NDArray[np.int64], drawn: Iterable[SignedQuery]) -> float:
    """The part of the drawn queries that a record does not satisfy, on average; 0 where none was drawn.

    Where the records answer as the table does, cells are drawn as often with a plus as with a minus: one half. Of a
    linear query it is how far it is below the most that a record can answer, as a part of the span of its weights.
    """
    total, count, answers = 0.0, 0, dict[QueryFamily, Floats]()
    each = np.full(len(records), 1 / len(records))
    for query, sign in drawn:
        family, cell = query
        if family not in answers:
            answers[family] = answers_of_rows(domain, records, each, family)
        share = float(answers[family][cell])
        if isinstance(family, LinearFamily):
            share = (share - float(family.weights.min(initial=0))) / family.span
        total += 1 - share if sign > 0 else share
        count += 1
    return total / count if count else 0.0
