"""Columns that another one decides by intervals: a month by the day of the year, a class by a limit.

    y = c₁ where x < t₁,   c₂ where t₁ ≤ x < t₂,   …      or so within each value of a column of few values

    sample   y, sorted by x, changes seldom, and never between equal values of x
    all      each interval is of at least ten rows, and every row agrees

Such a column is computed, and the edges of x are put where it changes, so that nothing of it is lost in cells of x.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.api.proposing.formulas import Variable
from dpsql.api.proposing.inputs import Input
from dpsql.api.proposing.looked_parts import LEAST
from dpsql.api.proposing.proposal import KEPT, Proposal
from dpsql.core.column_types import column_type
from dpsql.engines.duckdb.calls import literal

_SAMPLE: Final = 3000
_MOST_INTERVALS: Final = 60
_MOST_COLUMNS: Final = 60
_MOST_GROUPS: Final = 12
"""Values of a column within which another one decides, and such columns."""
_MOST_CUTS: Final = 2 * KEPT
_OFTEN: Final = 2
"""Intervals for each value: that of a winter comes twice a year. A flag of ten days is no coarsening of days."""
_RARE: Final = 3
"""Rows of the sample for each interval, that do not have the most frequent value."""
_MOST_DIGITS: Final = 15
_LARGEST: Final = 1e12  # of numbers between which floats tell whole ones apart

Hashes = npt.NDArray[np.uint64]
Piece = tuple[str | None, float | None, int]
"""A value as text, None for NULL; where its interval begins, None for the rows without x; and its rows."""


@dataclass(frozen=True)
class Coarsening:
    """A column that follows from others by intervals.

    Attributes:
        column: its number.
        by: of the column whose intervals decide.
        within: of the column within whose values they do; None without one.
        text: SQL of it.
        cuts: where it changes, by values of `by`.
        intervals: how many there are.
    """

    column: int
    by: int
    within: int | None
    text: str = field(repr=False)
    cuts: tuple[Decimal, ...]
    intervals: int

    @property
    def columns(self) -> tuple[int, ...]:
        """That it reads."""
        return (self.by,) if self.within is None else (self.by, self.within)


def coarsenings(
    source: Input,
    proposals: Sequence[Proposal],
    variables: Sequence[Variable],
    targets: Sequence[int],
    names: Mapping[int, str],
) -> Iterator[Coarsening]:
    """The columns that follow from others by intervals, for each column the plainest way first.

    Args:
        source: of the rows, which are read.
        proposals: for all columns.
        variables: numbers, and parts of dates, that may decide.
        targets: numbers of the columns that may be decided.
        names: of the columns, as SQL.
    """
    variables = [variable for variable in variables if variable.column in names][:_MOST_COLUMNS]
    few = [place for place in targets if _is_few(proposals[place])][:_MOST_COLUMNS]
    groups = [place for place in few if 2 <= len(proposals[place].codes) <= _MOST_GROUPS][:_MOST_GROUPS]
    if not variables or not few:
        return
    selected = {f"x{i}": f"TRY_CAST({variable.text} AS DOUBLE)" for i, variable in enumerate(variables)}
    sample = source.sample(selected | {f"y{place}": f"hash({names[place]})" for place in few}, _SAMPLE)
    columns = {place: np.asarray(sample[f"y{place}"], np.uint64) for place in few}
    likely = []
    for i, variable in enumerate(variables):
        x = np.ma.filled(np.ma.asarray(sample[f"x{i}"], np.float64), np.inf)
        for within in (None, *groups):
            if within != variable.column:
                decided = _decided(x, columns, None if within is None else columns[within])
                likely += [
                    (within is not None, count, variable.is_part, i, place, within)
                    for place, count in decided
                    if place not in (variable.column, within)
                ]
    done = set[int]()
    for _, _, _, i, place, within in sorted(likely, key=lambda each: each[:4]):
        if place not in done:
            coarsening = _checked(source, proposals, variables[i], place, within, names)
            if coarsening is not None:
                done.add(place)
                yield coarsening


def _is_few(proposal: Proposal) -> bool:
    """Whether a column has few values, each of which could be a class."""
    is_flag = proposal.type == "BOOLEAN" and proposal.how is None
    return not proposal.is_excluded and (is_flag or 2 <= len(proposal.codes) <= _MOST_INTERVALS)


def _decided(x: npt.NDArray[np.float64], columns: Mapping[int, Hashes], within: Hashes | None) -> list[tuple[int, int]]:
    """The columns that change seldom if rows are sorted by x, and never between equal values, with their intervals."""
    order = np.argsort(x, kind="stable") if within is None else np.lexsort((x, within))
    sorted_x = x[order]
    same = sorted_x[1:] == sorted_x[:-1]
    if within is not None:
        same &= within[order][1:] == within[order][:-1]
    cells = len(order) - int(same.sum())
    parts = 1 if within is None else len(np.unique(within))
    decided = []
    for place, values in columns.items():
        changes = values[order][1:] != values[order][:-1]
        intervals = int(changes.sum()) + 1
        if intervals == 1 or intervals > _MOST_INTERVALS or 2 * intervals > cells or (changes & same).any():
            continue
        counts = np.unique(values, return_counts=True)[1]
        if intervals > _OFTEN * len(counts) * parts:
            continue
        if len(values) - counts.max() >= _RARE * intervals:
            decided.append((place, intervals))
    return decided


def _checked(
    source: Input,
    proposals: Sequence[Proposal],
    variable: Variable,
    place: int,
    within: int | None,
    names: Mapping[int, str],
) -> Coarsening | None:
    """The way a column follows from others, if all rows agree."""
    sql = {"x": f"CAST({variable.text} AS DOUBLE)", "y": names[place], "a": "NULL" if within is None else names[within]}
    rows = source.ask(
        sql, "CAST(a AS VARCHAR)", "x", "CAST(min(y) AS VARCHAR)", "min(y) = max(y)", "count(*)", "count(y)", group=True
    )
    groups: dict[str | None, list[tuple[float | None, str | None, int]]] = {}
    for a, x, y, same, count, filled in rows:
        if same is False or filled not in (0, count) or (x is not None and not abs(x) < _LARGEST):
            return None
        groups.setdefault(a, []).append((x, y, count))
    pieces = {a: _pieces(cells) for a, cells in groups.items()}
    intervals = sum(map(len, pieces.values()))
    if not 2 <= intervals <= _MOST_INTERVALS or 2 * intervals > len(rows):
        return None
    values = {value for each in pieces.values() for value, _, _ in each}
    if len(values) < 2 or intervals > _OFTEN * len(values) * len(pieces):
        return None
    if any(count < LEAST for each in pieces.values() for _, _, count in each):
        return None
    texts = {a: _case(variable.text, each, proposals[place]) for a, each in pieces.items()}
    text = texts[None] if within is None else _of_groups(names[within], proposals[within], groups, texts)
    begins = {begin for each in pieces.values() for _, begin, _ in each if begin is not None and begin > -math.inf}
    cuts = () if variable.is_part else tuple(sorted(Decimal(str(begin)) for begin in begins))
    return Coarsening(place, variable.column, within, text, cuts, intervals)


def _pieces(cells: Sequence[tuple[float | None, str | None, int]]) -> list[Piece]:
    """The intervals of x in which y is the same; rows without x stand first."""
    missing: list[Piece] = [(y, None, count) for x, y, count in cells if x is None]
    ordered = sorted(((x, y, n) for x, y, n in cells if x is not None), key=lambda cell: cell[0])
    pieces, last = missing, -math.inf
    for y, run in itertools.groupby(ordered, key=lambda cell: cell[1]):
        inside = list(run)
        begin = -math.inf if last == -math.inf else shortest_between(last, inside[0][0])
        pieces.append((y, begin, sum(count for _, _, count in inside)))
        last = inside[-1][0]
    return pieces


def shortest_between(low: float, high: float) -> float:
    """The number with the fewest decimals that is above one number, and at most another.

    >>> shortest_between(31, 32), shortest_between(18.47, 18.53), shortest_between(0.9, 4.2)
    (32, 18.5, 1)
    """
    if high == math.floor(high):
        return int(high)
    for digits in range(_MOST_DIGITS):
        number = round((math.floor(low * 10**digits) + 1) / 10**digits, digits)
        if low < number <= high:
            return int(number) if digits == 0 else number
    return high


def _case(x: str, pieces: Sequence[Piece], target: Proposal) -> str:
    """SQL of a value by the interval in which x is."""
    branches = [
        f"WHEN {x} IS NULL THEN {_value(target, y)}" for y, begin, _ in pieces if begin is None and y is not None
    ]
    ordered = [(y, begin) for y, begin, _ in pieces if begin is not None]
    if len(ordered) == 1 and len(pieces) == 1:
        return _value(target, ordered[0][0])
    for (y, _), (_, end) in itertools.pairwise(ordered):
        branches.append(f"WHEN {x} < {end!r} THEN {_value(target, y)}")
    if ordered:
        y, begin = ordered[-1]
        last = f"{x} IS NOT NULL" if begin == -math.inf else f"{x} >= {begin!r}"
        branches.append(f"WHEN {last} THEN {_value(target, y)}")
    return f"CASE {' '.join(branches)} END" if branches else "NULL"


def _of_groups(
    name: str, proposal: Proposal, groups: Mapping[str | None, Sequence[Any]], texts: Mapping[str | None, str]
) -> str:
    """SQL of what is so within values of a column; what most rows have stands for values that no row has."""
    rows: dict[str, int] = {}
    for a, cells in groups.items():
        rows[texts[a]] = rows.get(texts[a], 0) + sum(cell[2] for cell in cells)
    usual = max(rows, key=lambda text: rows[text])
    branches = []
    for text in rows:
        values = [_value(proposal, a) for a in groups if texts[a] == text and a is not None]
        conditions = (
            [f"{name} = {values[0]}" if len(values) == 1 else f"{name} IN ({', '.join(values)})"] if values else []
        )
        conditions += [f"{name} IS NULL"] if None in groups and texts[None] == text else []
        if text != usual:
            branches.append(f"WHEN {' OR '.join(conditions)} THEN {text}")
    return f"CASE {' '.join(branches)} ELSE {usual} END" if branches else usual


def _value(proposal: Proposal, text: str | None) -> str:
    if text is None:
        return "NULL"
    return text if column_type(proposal.type).is_number or proposal.type == "BOOLEAN" else literal(text)


# --- edges where others change ----------------------------------------------------------------------------------------


def aligned(proposal: Proposal, cuts: Sequence[Decimal], names: Sequence[str]) -> Proposal:
    """The proposal of a column in bins with edges where others change, which it decides.

    Args:
        proposal: with edges; itself without.
        cuts: where they change.
        names: of the others.
    """

    def change(each: Proposal) -> Proposal:
        how = dict(each.how or {})
        if "edges" not in how:
            return each
        how["edges"] = _with_cuts(how["edges"], cuts, how.get("points", ()))
        because = f"{each.because}; edges where {' and '.join(names)} change{'s' * (len(names) == 1)}"
        return Proposal(each.column, each.type, each.ground, because, how, each.options, codes=each.codes)

    return proposal.each(change)


def room_for(how: Mapping[str, Any], cuts: Collection[Decimal]) -> bool:
    """Whether so many cuts can be edges of a column: else what it decides would be lost in its cells.

    Args:
        how: its declaration. Of values, and of whole numbers with a cell each, nothing is lost.
        cuts: where others change.
    """
    if "edges" in how:
        return len(cuts) <= _MOST_CUTS
    return "bins" not in how or int(how["upper"]) - int(how["lower"]) + 1 == how["bins"]


def _with_cuts(edges: Sequence[Any], cuts: Sequence[Decimal], points: Sequence[Any]) -> list[Any]:
    """Edges with each cut, in place of the one that is nearest to it."""
    kind = type(edges[0])
    first, *inner, last = (Decimal(str(edge)) for edge in edges)
    fixed = {Decimal(str(point)) for point in points}
    moved = [edge for edge in inner if edge not in fixed]
    within = [cut for cut in cuts if first < cut < last]
    for cut in within:
        if moved:
            moved.remove(min(moved, key=lambda edge: abs(edge - cut)))
    return [kind(edge) for edge in sorted({first, last, *within, *moved, *(edge for edge in inner if edge in fixed)})]
