"""Facts about several columns that rows suggest: one decides another, both are missing together, a pair never occurs.

A fact is proposed where enough rows speak for it. Whether it holds for everybody, only the owner knows: a fact that the
rows show by chance would be a disclosure and an error.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dpsql.api.proposing.inputs import Input
from dpsql.api.proposing.looked_parts import LEAST
from dpsql.api.proposing.proposal import Proposal
from dpsql.core.column_types import column_type
from dpsql.core.names import quote
from dpsql.engines.duckdb.calls import call_of, literal

_MOST_COLUMNS: Final = 30
_MOST_CODES: Final = 60
_MOST_PAIRS: Final = 200
_MOST_IMPOSSIBLE: Final = 10
_EXPECTED: Final = 100  # rows that a pair would have if its columns were independent
_DOMINANT: Final = 0.95  # of the rows; of a column with such a value, nearly any other one seems to decide it

Counts = Mapping[tuple[str, str], int]


@dataclass(frozen=True)
class Fact:
    """A fact about each row.

    Attributes:
        predicate: as `dp_constraint` takes it.
        because: what the rows show.
        is_question: whether the owner has to say first that it holds for everybody.
        is_public: whether everybody knows it, so that no row was read for it.
        columns: of which one is decided by the others, or two of which a pair never occurs; empty for other facts.
    """

    predicate: str
    because: str
    is_question: bool
    is_public: bool = False
    columns: frozenset[str] = frozenset()

    def statement(self, table: str) -> str:
        """The call that states it."""
        return call_of("dp_constraint", [table, self.predicate], {} if self.is_public else {"looked": True})


def find_facts(source: Input, proposals: Sequence[Proposal]) -> list[Fact]:
    """The facts that the rows suggest, the strongest kinds first."""
    few = [p for p in proposals if 2 <= len(p.codes) <= _MOST_CODES and not p.is_excluded]
    few = sorted(few, key=lambda p: len(p.codes))[:_MOST_COLUMNS]
    decided, impossible = [], list[tuple[float, Fact]]()
    for first, other in itertools.combinations(few, 2):
        counts = _counts(source, first, other)
        decision = _decided(first, other, counts)
        if decision is not None:
            decided.append(decision)
        else:
            impossible += _impossible(first, other, counts)
    impossible.sort(key=lambda weighted: (-weighted[0], weighted[1].predicate))
    return [*decided, *_missing_together(source, proposals), *(fact for _, fact in impossible[:_MOST_IMPOSSIBLE])]


def _counts(source: Input, first: Proposal, other: Proposal) -> Counts:
    values, texts = {"a": first.sql, "b": other.sql}, ("CAST(a AS VARCHAR) AS p", "CAST(b AS VARCHAR) AS q")
    rows = source.ask(values, *texts, "count(*) AS n", where="a IS NOT NULL AND b IS NOT NULL", group=True)
    return {(a, b): n for a, b, n in rows if a in first.codes and b in other.codes}


def _sums(counts: Counts, place: int) -> dict[str, int]:
    sums: dict[str, int] = {}
    for pair, n in counts.items():
        sums[pair[place]] = sums.get(pair[place], 0) + n
    return sums


def _decided(first: Proposal, other: Proposal, counts: Counts) -> Fact | None:
    """That one column decides the other: each of its values goes with a single value."""
    sums = _sums(counts, 0), _sums(counts, 1)
    if any(len(part) < 2 or max(part.values()) > _DOMINANT * sum(part.values()) for part in sums):
        return None
    for place, decider in ((0, first), (1, other)):
        if len(counts) == len(decider.codes) == len(sums[place]) and min(sums[place].values()) >= LEAST:
            if len(counts) > _MOST_PAIRS:
                return None
            pairs = ", ".join(f"({_value(first, a)}, {_value(other, b)})" for a, b in sorted(counts))
            decides = decider.column, (other if decider is first else first).column
            because = f"each value of {decides[0]!r} goes with one value of {decides[1]!r} in all rows"
            return Fact(
                f"({quote(first.column)}, {quote(other.column)}) IN ({pairs})",
                because,
                is_question=False,
                columns=frozenset(decides),
            )
    return None


def _impossible(one_column: Proposal, other: Proposal, counts: Counts) -> list[tuple[float, Fact]]:
    """Pairs of frequent values that no row has, with how many rows would have them by chance."""
    first, second, rows = _sums(counts, 0), _sums(counts, 1), sum(counts.values())
    facts = []
    for a, b in itertools.product(first, second):
        expected = first[a] * second[b] / rows
        if (a, b) not in counts and expected >= _EXPECTED:
            in_both = " AND ".join(
                f"{quote(column.column)} = {_value(column, value)}" for column, value in ((one_column, a), (other, b))
            )
            predicate = f"NOT ({in_both})"
            because = f"no row has both; by chance about {expected:.0f} would"
            columns = frozenset({one_column.column, other.column})
            facts.append((expected, Fact(predicate, because, is_question=True, columns=columns)))
    return facts


def _value(proposal: Proposal, text: str) -> str:
    of_type = column_type(proposal.type)
    return text if of_type.is_number and of_type.scale is not None else literal(text)


def _missing_together(source: Input, proposals: Sequence[Proposal]) -> list[Fact]:
    """Columns of which both are missing, or none."""
    gappy = [p for p in proposals if p.how is not None and not p.is_excluded and "computed_as" not in p.how]
    if not gappy:
        return []
    columns = {f"c{place}": p.filled_sql for place, p in enumerate(gappy)}
    nulls = source.ask(columns, *(f"count(*) - count({name})" for name in columns))[0]
    gaps = [(p, n) for p, n in zip(gappy, nulls, strict=True) if n >= LEAST][:_MOST_COLUMNS]
    facts = []
    for (first, n), (other, m) in itertools.combinations(gaps, 2):
        if n != m:
            continue
        differ = source.ask(
            {"a": first.filled_sql, "b": other.filled_sql}, "count(*)", where="(a IS NULL) <> (b IS NULL)"
        )
        if differ == [(0,)]:
            predicate = f"({quote(first.column)} IS NULL) = ({quote(other.column)} IS NULL)"
            facts.append(Fact(predicate, f"in {n} rows both are missing, in all others none", is_question=False))
    return facts
