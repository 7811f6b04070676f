"""Columns that follow from others in all rows, found by a look at them, are proposed to be computed, not measured.

    sample   formulas that hold in some rows (`dpsql.api.proposing.formulas`), the plainest first
    all      each is checked in every row, in SQL; both sides must be NULL in the same rows
    choice   the plainest ones that do not read each other in a circle

What the rows show may hold by chance, and it is the owner's disclosure: the script says so, and the books record it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import duckdb
import numpy as np
import numpy.typing as npt

from dpsql.api.proposing.context import Context
from dpsql.api.proposing.formulas import Floats, Formula, Variable, formulas
from dpsql.api.proposing.inputs import Input
from dpsql.api.proposing.missing_numbers import with_nulls
from dpsql.api.proposing.proposal import Ground, Proposal
from dpsql.core.column_types import column_type
from dpsql.core.names import fold, quote

_SAMPLE: Final = 300
_LOOKED_UP: Final = 3000
"""Rows in which two columns are first looked at that may decide a third."""
_MOST_COLUMNS: Final = 120
_TRIES: Final = 4
"""Formulas of a column that are checked in all rows."""
_PARTS: Final = ("year", "quarter", "month", "week", "day", "dayofyear", "dayofweek", "isodow", "hour", "minute")
_OF_DATES: Final = ("year", "month", "day")
_MOST_DECIDERS: Final = 12
_LEAST_SHARE: Final = 0.99
_LEAST_REPEATED: Final = 100


def with_computed(source: Input, context: Context, proposals: Sequence[Proposal]) -> list[Proposal]:
    """The proposals, of which those of columns that follow from others say so.

    Args:
        source: of the rows, which are read.
        context: of the proposals.
        proposals: for all columns, in order.
    """
    source = with_nulls(source, proposals)
    sample = _Sample(source, context, proposals)
    chosen: dict[int, Formula] = {}
    for formula in _holding(source, proposals, [*formulas(sample.variables, sample.targets), *_dates(sample)]):
        if formula.column not in chosen and not _reads(chosen, formula.columns, formula.column):
            chosen[formula.column] = formula
    made = [_computed(context, proposal, chosen.get(place)) for place, proposal in enumerate(proposals)]
    return _with_lookups(source, made)


def _computed(context: Context, proposal: Proposal, formula: Formula | None) -> Proposal:
    if formula is None:
        return proposal
    because = f"in all rows it is {formula.text}, so it is computed in synthetic rows and not measured"
    how = {"computed_as": formula.text, "looked": True}
    instead = () if proposal.how is None else (context.call(proposal.column, proposal.how),)
    return Proposal(proposal.column, proposal.type, Ground.LOOKED, because, how, instead)


def _reads(chosen: dict[int, Formula], columns: Sequence[int], column: int) -> bool:
    """Whether one of some columns is computed from a column."""
    return any(
        reader == column or (reader in chosen and _reads(chosen, chosen[reader].columns, column)) for reader in columns
    )


class _Sample:
    """Some rows.

    Attributes:
        variables: columns of numbers, and parts of dates, that are kept.
        targets: columns of numbers that may be computed; no keys, which get ids of their own.
        dates: columns of dates that may be, by number, with their year, month and day.
    """

    def __init__(self, source: Input, context: Context, proposals: Sequence[Proposal]) -> None:
        self._words = {
            str(word) for (word,) in source.cursor.execute("SELECT keyword_name FROM duckdb_keywords()").fetchall()
        }
        free = [
            (place, proposal)
            for place, proposal in enumerate(proposals)
            if proposal.load is None
            and fold(proposal.column) != fold(context.unit)
            and context.codebook_entry(proposal.column) is None
        ]
        numbers = [(place, proposal) for place, proposal in free if column_type(proposal.type).is_number][
            :_MOST_COLUMNS
        ]
        dated = [
            (p, proposal) for p, proposal in free if proposal.type == "DATE" or proposal.type.startswith("TIMESTAMP")
        ]
        selected = {f"n{place}": quote(proposal.column) for place, proposal in numbers}
        selected |= {
            f"{part}{place}": f"{part}({quote(proposal.column)})" for place, proposal in dated for part in _PARTS
        }
        as_floats = {name: f"TRY_CAST({sql} AS DOUBLE)" for name, sql in selected.items()}
        rows = source.sampled_numbers(as_floats, _SAMPLE)
        self.names = {place: self._name(proposal.column) for place, proposal in enumerate(proposals)}
        self.targets = [(place, rows[f"n{place}"]) for place, proposal in numbers if "ids" not in (proposal.how or ())]
        self.variables = [
            Variable(self.names[place], place, rows[f"n{place}"]) for place, proposal in numbers if _is_kept(proposal)
        ]
        self.variables += [
            Variable(f"{part}({self.names[place]})", place, rows[f"{part}{place}"], is_part=True)
            for place, proposal in dated
            for part in _PARTS
            if _is_kept(proposal)
        ]
        self.dates = {
            place: [rows[f"{part}{place}"] for part in _OF_DATES]
            for place, proposal in dated
            if proposal.type == "DATE" and not _is_kept(proposal)
        }

    def _name(self, name: str) -> str:
        """A column in an expression, in quotes only if need be."""
        return name if re.fullmatch(r"[a-z_][a-z0-9_]*", name) and name not in self._words else quote(name)


def _is_kept(proposal: Proposal) -> bool:
    how = proposal.how
    return how is not None and not proposal.is_excluded and not {"read_as", "discover"} & {*how}


def _dates(sample: _Sample) -> Iterator[Formula]:
    """Of dates without a domain: those that columns with their year, month and day tell."""
    for place, parts in sample.dates.items():
        columns = [
            next(
                (variable for variable in sample.variables if not variable.is_part and _same(variable.values, part)),
                None,
            )
            for part in parts
        ]
        if None not in columns:
            listed = [variable for variable in columns if variable is not None]
            text = " || '-' || ".join(variable.text for variable in listed)
            numbers = tuple(variable.column for variable in listed)
            yield Formula(place, numbers, f"TRY_CAST({text} AS DATE)", 0.0, 0.0)


def _same(first: Floats, other: Floats) -> bool:
    return bool(np.array_equal(first, other, equal_nan=True) and np.isfinite(first).any())


def _holding(source: Input, proposals: Sequence[Proposal], candidates: Sequence[Formula]) -> Iterator[Formula]:
    """The formulas that hold in all rows."""
    tried: dict[int, int] = {}
    for formula in candidates:
        tried[formula.column] = tried.get(formula.column, 0) + 1
        if tried[formula.column] <= _TRIES and _holds(source, proposals[formula.column], formula):
            yield formula


def _holds(source: Input, target: Proposal, formula: Formula) -> bool:
    off = "c <> e"
    if formula.tolerance:
        off = f"abs(c - e) > {formula.tolerance!r} * greatest(abs(c), abs(e)) + {formula.step * 1.000001!r}"
    values = {"c": quote(target.column), "e": f"TRY(CAST(({formula.text}) AS {target.type}))"}
    try:
        wrong = source.ask(values, "count(*)", where=f"(c IS NULL) <> (e IS NULL) OR {off}")
    except duckdb.Error:  # a number that is too large for its type
        return False
    return wrong == [(0,)]


# --- two columns that decide a third ----------------------------------------------------------------------------------


def _with_lookups(source: Input, proposals: Sequence[Proposal]) -> list[Proposal]:
    """The proposals; where two columns of values decide a third in nearly all rows its reason says so."""
    made = list(proposals)
    sample = _hashes(source, proposals)
    listed = [
        proposal for proposal in proposals if proposal.how and "values" in proposal.how and proposal.load is None
    ][:_MOST_DECIDERS]
    for place, target in enumerate(proposals):
        if target.how is None or target.is_excluded or target.load is not None or "computed_as" in target.how:
            continue
        for first, second in itertools.combinations([proposal for proposal in listed if proposal is not target], 2):
            names = [first.column, second.column]
            likely = _sampled(sample, target.column, names) >= _LEAST_SHARE
            share = _decided(source, target, names) if likely else 0.0
            if share >= _LEAST_SHARE:
                words = f"{first.column} and {second.column} decide it in {100 * share:.4g} % of the rows"
                how = "if their table is public, say it with computed_as := 'CASE … END', or with dp_constraint"
                made[place] = target.each(partial(_said_too, words=f"{words}: {how}"))
                break
    return made


def _said_too(proposal: Proposal, words: str) -> Proposal:
    return replace(proposal, because=f"{proposal.because}; {words}")


def _hashes(source: Input, proposals: Sequence[Proposal]) -> dict[str, npt.NDArray[np.uint64]]:
    """The columns in some rows, each value by its hash."""
    hashes = {f"h{place}": f"hash({quote(proposal.column)})" for place, proposal in enumerate(proposals)}
    rows = source.sample(hashes, _LOOKED_UP)
    return {proposal.column: np.asarray(rows[f"h{place}"], np.uint64) for place, proposal in enumerate(proposals)}


def _sampled(sample: dict[str, npt.NDArray[np.uint64]], target: str, names: Sequence[str]) -> float:
    """See `_share`, about, in some rows."""
    with np.errstate(over="ignore"):
        key = sum((sample[name] * np.uint64(2 * place + 3) for place, name in enumerate(names)), np.uint64(0))
        each, places, counts = np.unique(key, return_inverse=True, return_counts=True)
        _, first, pairs = np.unique(key * np.uint64(31) + sample[target], return_index=True, return_counts=True)
    most = np.zeros(len(each), np.int64)
    np.maximum.at(most, places[first], pairs)
    repeated = counts > 1
    rows = int(counts[repeated].sum())
    return float(most[repeated].sum()) / rows if rows >= _LEAST_REPEATED else 0.0


def _decided(source: Input, target: Proposal, names: Sequence[str]) -> float:
    """The share of the rows of which columns decide another, each alone far fewer; 0 where few rows tell."""
    together = _share(source, target, names)
    if together < _LEAST_SHARE or max(_share(source, target, [name]) for name in names) >= _LEAST_SHARE:
        return 0.0
    return together


def _share(source: Input, target: Proposal, names: Sequence[str]) -> float:
    keys = ", ".join(f"k{place}" for place in range(len(names)))
    values = {"c": quote(target.column)} | {f"k{place}": quote(name) for place, name in enumerate(names)}
    counted = source.ask(values, *keys.split(", "), "c", "count(*) AS n", where="c IS NOT NULL", group=True)
    rows, most, groups = 0, dict[tuple[object, ...], int](), 0
    for *key, _, count in counted:
        rows, groups = rows + count, groups + 1
        most[tuple(key)] = max(count, most.get(tuple(key), 0))
    repeated = rows - len(most)
    return sum(most.values()) / rows if repeated >= _LEAST_REPEATED and groups > len(names) + 1 else 0.0
