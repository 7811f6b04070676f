"""Columns that another one decides by intervals or by turns: a month by the day of the year, a weekday by a day.

    y = c₁ where x < t₁,   c₂ where t₁ ≤ x < t₂,   …      or so within each value of a column of few values
    y = (x + b) mod k + c

    sample   y, sorted by x, changes seldom, and never between equal values of x
    all      each interval is of at least ten rows, and every row agrees

Both columns stay measured, because what depends on y is plainer in the few cells of y than in those of x. That they go
together is a fact, as a constraint.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import duckdb
import numpy as np
import numpy.typing as npt

from dpsql.api.proposing.facts import Fact
from dpsql.api.proposing.inputs import Input
from dpsql.api.proposing.looked_parts import LEAST
from dpsql.api.proposing.missing_numbers import with_nulls
from dpsql.api.proposing.proposal import Proposal
from dpsql.core.column_types import column_type
from dpsql.core.names import quote
from dpsql.engines.duckdb.calls import literal

_PARTS: Final = ("month", "quarter", "dayofweek", "dayofyear", "hour", "year")
_SAMPLE: Final = 3000
_MOST_INTERVALS: Final = 60
_MOST_COLUMNS: Final = 60
_MOST_GROUPS: Final = 12
"""Values of a column within which another one decides, and such columns."""
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
class _Decider:
    """A column of numbers, or a part of a date: SQL of it, the column's number, and whether it is such a part."""

    text: str
    column: int
    is_part: bool = False


@dataclass(frozen=True)
class Coarsening:
    """A column that follows from others by intervals.

    Attributes:
        column: its number.
        by: of the column whose intervals decide.
        within: of the column within whose values they do; None without one.
        text: SQL of it.
        intervals: how many there are.
    """

    column: int
    by: int
    within: int | None
    text: str = field(repr=False)
    intervals: int


def coarse_facts(source: Input, proposals: Sequence[Proposal]) -> list[Fact]:
    """The facts that rows suggest of columns which another one decides.

    Args:
        source: of the rows, which are read.
        proposals: for its columns.
    """
    kept = {place: p for place, p in enumerate(proposals) if _is_kept(p)}
    numbers = {place: p for place, p in kept.items() if column_type(p.type).is_number}
    dates = {place: p for place, p in kept.items() if p.type == "DATE" or p.type.startswith("TIMESTAMP")}
    variables = [_Decider(quote(p.column), place) for place, p in numbers.items()]
    variables += [
        _Decider(f"{part}({quote(p.column)})", place, is_part=True) for place, p in dates.items() for part in _PARTS
    ]
    names = {place: quote(p.column) for place, p in enumerate(proposals)}
    filled = with_nulls(source, proposals)
    try:
        steps = list(coarsenings(filled, proposals, variables[:_MOST_COLUMNS], names))
        turns = _turns(filled, proposals, variables, names)
    except duckdb.Error:  # a value that a cast of all rows refuses: no fact is worth the rest of the script
        return []
    facts = {fact.columns: fact for fact in reversed([_fact(each, proposals) for each in steps] + turns)}
    return [*reversed(facts.values())]


def _is_kept(proposal: Proposal) -> bool:
    return proposal.is_as_stored and proposal.load is None


def _fact(each: Coarsening, proposals: Sequence[Proposal]) -> Fact:
    target, by = proposals[each.column].column, proposals[each.by].column
    within = [] if each.within is None else [proposals[each.within].column]
    others = " and ".join([by, *within])
    because = f"{others} decide{'s' * (each.within is None)} {target} in all rows, in {each.intervals} intervals"
    predicate = f"{quote(target)} IS NOT DISTINCT FROM {each.text}"
    return Fact(predicate, because, is_question=False, columns=frozenset({target, by, *within}))


def coarsenings(
    source: Input, proposals: Sequence[Proposal], variables: Sequence[_Decider], names: Mapping[int, str]
) -> Iterator[Coarsening]:
    """The columns that follow from others by intervals, for each column the plainest way first.

    Args:
        source: of the rows, which are read.
        proposals: for all columns.
        variables: numbers, and parts of dates, that may decide.
        names: of the columns, as SQL.
    """
    few = [place for place, proposal in enumerate(proposals) if _is_few(proposal)][:_MOST_COLUMNS]
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
    return is_flag or (_is_kept(proposal) and 2 <= len(proposal.codes) <= _MOST_INTERVALS)


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
    variable: _Decider,
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
    return Coarsening(place, variable.column, within, text, intervals)


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


# --- turns ------------------------------------------------------------------------------------------------------------


def _turns(
    source: Input, proposals: Sequence[Proposal], variables: Sequence[_Decider], names: Mapping[int, str]
) -> list[Fact]:
    """Whole numbers that come in turns by another one, such as weekdays by the number of a day."""
    whole = {place for place, p in enumerate(proposals) if _is_kept(p) and column_type(p.type).scale == 0}
    ends = {}
    if whole:
        values = {f"c{place}": names[place] for place in whole}
        counts = source.ask(values, *(f"min({name})" for name in values), *(f"max({name})" for name in values))[0]
        ends = {place: (counts[i], counts[i + len(whole)]) for i, place in enumerate(whole)}
    facts = []
    for place, by in itertools.permutations([v.column for v in variables if not v.is_part and v.column in whole], 2):
        (first, last), (least, most) = ends[place], ends[by]
        if (
            None in (first, least)
            or least < 0
            or not 2 <= (turn := last - first + 1) <= _MOST_INTERVALS
            or most - least < 2 * turn
        ):
            continue
        sql = {"x": names[by], "y": names[place]}
        shift = f"(y - {first} - x % {turn} + {turn}) % {turn}"
        low, high, missing = source.ask(sql, f"min({shift})", f"max({shift})", "bool_or((x IS NULL) <> (y IS NULL))")[0]
        if low == high and not missing:
            text = f"({names[by]} + {low}) % {turn}" + (f" + {first}" if first else "")
            because = f"{proposals[place].column} comes in turns of {turn} by {proposals[by].column} in all rows"
            columns = frozenset({proposals[place].column, proposals[by].column})
            facts.append(
                Fact(f"{names[place]} IS NOT DISTINCT FROM {text}", because, is_question=False, columns=columns)
            )
    return facts
