"""Facts of order that rows suggest: admitted <= discharged, least <= usual <= most.

    a <= b   in every row that has both, though P(a > b) · n ≥ 100 rows would break it if the two had nothing to do
             with each other

so a fact that holds by chance is out of question (e⁻¹⁰⁰). Columns are compared that are numbers, or dates and
timestamps, or times. What follows from two others, as least <= most does here, is not said.

Those of moments are stated. Those of numbers wait for the owner's word: of two values in one cell the lower one is
drawn from its lower part, which moves its mean by a sixth of the cell, and more in a chain.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import duckdb
import numpy as np
import numpy.typing as npt

from dpsql.api.proposing.facts import Fact
from dpsql.api.proposing.inputs import Input
from dpsql.api.proposing.proposal import Proposal
from dpsql.core.column_types import column_type
from dpsql.core.names import quote

Floats = npt.NDArray[np.float64]
_SAMPLE: Final = 3000
_LEAST_SHARE: Final = 0.02
"""P(a > b) of a fact that is worth a sentence: a day and a weight are in order, too, and nobody says so."""
_EXPECTED: Final = 100
_FEWEST: Final = 20
"""Rows of the sample that have both."""
_MOST_COLUMNS: Final = 40
_MOST_FACTS: Final = 10
_DAY: Final = 86_400


@dataclass(frozen=True)
class _Ordered:
    """A column that others are compared with.

    Attributes:
        proposal: of it.
        family: of types whose values have one order.
        seconds: SQL of its values as a float: numbers, or seconds.
    """

    proposal: Proposal
    family: str
    seconds: str

    @property
    def is_date(self) -> bool:
        return self.proposal.type == "DATE"


def order_facts(source: Input, proposals: Sequence[Proposal]) -> list[Fact]:
    """The facts, those first that would be broken most often.

    Args:
        source: of the rows, which are read.
        proposals: for its columns.
    """
    columns = [column for column in map(_ordered, proposals) if column is not None][:_MOST_COLUMNS]
    if len(columns) < 2:
        return []
    try:
        sample = _sample(source, columns)
        rows = source.ask({"v": quote(source.columns[0].name)}, "count(*)")[0][0]
        likely = dict(_likely(columns, sample, rows))
        direct = _plainest(*_holding(source, columns, [*likely]), likely)
    except duckdb.Error:  # a value that a cast of all rows refuses: no fact is worth the rest of the script
        return []
    return [_fact(columns[low], columns[high]) for low, high in direct]


def _ordered(proposal: Proposal) -> _Ordered | None:
    """A column that is kept as it is stored, but for codes that mean a missing value; None for others."""
    if not proposal.is_as_stored:
        return None
    of_type, sql = column_type(proposal.type), proposal.filled_sql
    if of_type.is_number:
        return _Ordered(proposal, "number", f"CAST({sql} AS DOUBLE)")
    if proposal.type in ("TIME", "TIME_NS", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_NS"):
        return _Ordered(proposal, proposal.type, f"epoch({sql})")
    if proposal.type == "DATE" or proposal.type.startswith("TIMESTAMP"):
        return _Ordered(proposal, "day", f"epoch({sql})")
    return None


def _sample(source: Input, columns: Sequence[_Ordered]) -> list[Floats]:
    """Values of some rows, NaN for NULL and for what is not finite."""
    rows = source.sampled_numbers({f"c{place}": column.seconds for place, column in enumerate(columns)}, _SAMPLE)
    arrays = [rows[f"c{place}"] for place in range(len(columns))]
    return [np.where(np.isfinite(values), values, np.nan) for values in arrays]


def _likely(
    columns: Sequence[_Ordered], sample: Sequence[Floats], rows: int
) -> Iterator[tuple[tuple[int, int], float]]:
    """Pairs that are in order in the sample, with the share of rows that would not be by chance."""
    for low, high in itertools.permutations(range(len(columns)), 2):
        if columns[low].family != columns[high].family:
            continue
        a, b = sample[low], sample[high]
        if columns[low].is_date != columns[high].is_date:
            a, b = np.floor(a / _DAY), np.floor(b / _DAY)
        both = ~(np.isnan(a) | np.isnan(b))
        a, b = a[both], b[both]
        if len(a) < _FEWEST or (a > b).any() or (a == b).all():
            continue
        reversed_share = 1 - float(np.searchsorted(np.sort(a), b, side="right").mean()) / len(a)
        if reversed_share >= max(_LEAST_SHARE, _EXPECTED / (rows * len(a) / len(both))):
            yield (low, high), reversed_share


def _holding(
    source: Input, columns: Sequence[_Ordered], pairs: Sequence[tuple[int, int]]
) -> tuple[list[tuple[int, int]], set[int]]:
    """The pairs that are in order in all rows, and the columns that have a value in every row."""
    if not pairs:
        return [], set()
    used = sorted({place for pair in pairs for place in pair})
    values = {f"c{place}": columns[place].proposal.filled_sql for place in used}
    broken = [
        f"count(*) FILTER (WHERE NOT ({_compared(f'c{low}', f'c{high}', columns[low], columns[high])}))"
        for low, high in pairs
    ]
    missing = (f"count(*) - count(c{place})" for place in used)
    counts = source.ask(values, *broken, *missing)[0]
    hold = [pair for pair, n in zip(pairs, counts[: len(pairs)], strict=True) if n == 0]
    return hold, {place for place, n in zip(used, counts[len(pairs) :], strict=True) if n == 0}


def _plainest(
    pairs: Sequence[tuple[int, int]], whole: set[int], likely: dict[tuple[int, int], float]
) -> list[tuple[int, int]]:
    """Without those that follow from two others; of the rest some, those that would be broken most often.

    They follow only where the column between them has a value in every row.
    """
    hold = {*pairs}
    direct = [
        (low, high)
        for low, high in pairs
        if not any((low, middle) in hold and (middle, high) in hold for middle in whole)
    ]
    return sorted(direct, key=lambda pair: (-likely[pair], pair))[:_MOST_FACTS]


def _fact(low: _Ordered, high: _Ordered) -> Fact:
    is_number = low.family == "number"
    predicate = _compared(quote(low.proposal.column), quote(high.proposal.column), low, high)
    verb = "is at most" if is_number else "is not after"
    because = f"{low.proposal.column!r} {verb} {high.proposal.column!r} in all rows"
    if is_number:
        because += "; as a fact it costs their means up to a sixth of a cell"
    return Fact(predicate, because, is_question=is_number)


def _compared(a: str, b: str, low: _Ordered, high: _Ordered) -> str:
    """SQL of a <= b; a moment is compared with a date by its day."""
    if low.is_date != high.is_date and low.family == "day":
        a, b = (text if column.is_date else f"CAST({text} AS DATE)" for text, column in ((a, low), (b, high)))
    return f"{a} <= {b}"
