"""Facts that everybody knows of columns of months and days: no month has more days than the calendar gives it."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.api.proposing import names
from dpsql.api.proposing.facts import Fact
from dpsql.api.proposing.proposal import Proposal
from dpsql.core.column_types import column_type
from dpsql.core.names import quote

_WHY = "no month has more days"


def calendar_facts(proposals: Sequence[Proposal]) -> list[Fact]:
    """For each pair of columns called month and day how many days months have, and with a year which have 29.

    They are apart, because a constraint is left out of a release without one of its columns.

    They read no row. Columns belong together if the rest of their names is the same: `dep_month`, `dep_day`.
    """
    months_and_days: dict[tuple[tuple[str, ...], str], Proposal] = {}
    for proposal in proposals:
        words, how = names.words_of(proposal.column), proposal.how or {}
        is_whole = column_type(proposal.type).scale == 0 and not proposal.is_excluded
        if words and is_whole and not {"read_as", "discover", "computed_as"} & {*how}:
            months_and_days.setdefault((words[:-1], words[-1]), proposal)
    facts = []
    for (rest, last), month in months_and_days.items():
        day, year = months_and_days.get((rest, "day")), months_and_days.get((rest, "year"))
        if last == "month" and day is not None:
            predicates = [_days(month, day), *([] if year is None else [_leap(month, day, year)])]
            usual = _ends(month) == (1, 12) and _ends(day) == (1, 31)  # else month 0 may be January
            why = _WHY if usual else f"{_WHY}, if 1 is January"
            facts += [Fact(predicate, why, is_question=not usual, is_public=True) for predicate in predicates]
    return facts


def _ends(proposal: Proposal) -> tuple[float, float] | None:
    """The least and the largest value that is declared; the last edge is behind it."""
    how = proposal.how or {}
    if edges := how.get("edges"):
        return edges[0], edges[-1] - 1
    declared = [value for value in (how.get("values") or (how.get("lower"), how.get("upper"))) if value is not None]
    return (min(declared), max(declared)) if declared else None


def _days(month: Proposal, day: Proposal) -> str:
    m, d = quote(month.column), quote(day.column)
    return f"NOT ({d} > 30 AND {m} IN (4, 6, 9, 11)) AND NOT ({d} > 29 AND {m} = 2)"


def _leap(month: Proposal, day: Proposal, year: Proposal) -> str:
    m, d, y = quote(month.column), quote(day.column), quote(year.column)
    return f"NOT ({d} > 28 AND {m} = 2) OR ({y} % 4 = 0 AND ({y} % 100 <> 0 OR {y} % 400 = 0))"
