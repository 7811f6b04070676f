"""Facts of order that rows suggest: admitted <= discharged, least <= usual <= most.

    a <= b   in every row that has both, though P(a > b) · n ≥ 100 rows would break it if the two had nothing to do
             with each other

so a fact that holds by chance is out of question (e⁻¹⁰⁰). Columns are compared that are numbers, or dates and
timestamps, or times. What follows from two others, as least <= most does here, is not said.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

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
    sample = _sample(source, columns)
    rows = source.ask({"v": quote(source.columns[0].name)}, "count(*)")[0][0]
    likely = dict(_likely(columns, sample, rows))
    return [
        Fact(_predicate(columns[low], columns[high]), f"{_words(columns[low], columns[high])} in all rows", asked=False)
        for low, high in _plainest(_holding(source, columns, [*likely]), likely)
    ]


def _ordered(proposal: Proposal) -> _Ordered | None:
    """A column that is kept as it is stored; None for others."""
    how = proposal.how
    if how is None or proposal.is_excluded or {"read_as", "nulls_as", "computed_as", "discover", "ids"} & {*how}:
        return None
    known, sql = column_type(proposal.type), proposal.load or quote(proposal.column)
    if known.is_number:
        return _Ordered(proposal, "number", f"CAST({sql} AS DOUBLE)")
    if proposal.type in ("TIME", "TIMESTAMP WITH TIME ZONE"):
        return _Ordered(proposal, proposal.type, f"epoch({sql})")
    if proposal.type == "DATE" or proposal.type.startswith("TIMESTAMP"):
        return _Ordered(proposal, "day", f"epoch({sql})")
    return None


def _sample(source: Input, columns: Sequence[_Ordered]) -> list[Floats]:
    """Values of some rows, NaN for NULL and for what is not finite."""
    listed = ", ".join(f"{column.seconds} AS c{place}" for place, column in enumerate(columns))
    sampled = f"USING SAMPLE reservoir({_SAMPLE} ROWS) REPEATABLE (7)"
    rows = source.cursor.execute(" ".join(("SELECT", listed, "FROM", source.rows, sampled))).fetchnumpy()
    arrays = [np.ma.filled(np.ma.asarray(rows[f"c{place}"], np.float64), np.nan) for place in range(len(columns))]
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
        if len(a) < min(_EXPECTED, len(both)) or not len(a) or (a > b).any() or (a == b).all():
            continue
        reversed_share = 1 - float(np.searchsorted(np.sort(a), b, side="right").mean()) / len(a)
        if reversed_share >= max(_LEAST_SHARE, _EXPECTED / (rows * len(a) / len(both))):
            yield (low, high), reversed_share


def _holding(source: Input, columns: Sequence[_Ordered], pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The pairs that are in order in all rows."""
    if not pairs:
        return []
    used = sorted({place for pair in pairs for place in pair})
    values = {f"c{place}": columns[place].proposal.load or quote(columns[place].proposal.column) for place in used}
    broken = [
        f"count(*) FILTER (WHERE NOT ({_compared(f'c{low}', f'c{high}', columns[low], columns[high])}))"
        for low, high in pairs
    ]
    return [pair for pair, n in zip(pairs, source.ask(values, *broken)[0], strict=True) if n == 0]


def _plainest(pairs: Sequence[tuple[int, int]], likely: dict[tuple[int, int], float]) -> list[tuple[int, int]]:
    """Without those that follow from two others; of the rest some, those that would be broken most often."""
    hold = {*pairs}
    direct = [
        (low, high)
        for low, high in pairs
        if not any((low, middle) in hold and (middle, high) in hold for middle in range(max(map(max, pairs)) + 1))
    ]
    return sorted(direct, key=lambda pair: (-likely[pair], pair))[:_MOST_FACTS]


def _predicate(low: _Ordered, high: _Ordered) -> str:
    return _compared(quote(low.proposal.column), quote(high.proposal.column), low, high)


def _compared(a: str, b: str, low: _Ordered, high: _Ordered) -> str:
    """SQL of a <= b; a moment is compared with a date by its day."""
    if low.is_date != high.is_date and low.family == "day":
        a, b = (text if column.is_date else f"CAST({text} AS DATE)" for text, column in ((a, low), (b, high)))
    return f"{a} <= {b}"


def _words(low: _Ordered, high: _Ordered) -> str:
    verb = "is at most" if low.family == "number" else "is not after"
    return f"{low.proposal.column!r} {verb} {high.proposal.column!r}"
