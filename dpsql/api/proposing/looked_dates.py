"""What is proposed for a column of dates or timestamps whose rows may be read: periods of the calendar."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date, timedelta
from typing import Final

from dpsql.api.proposing import names, public
from dpsql.api.proposing.edges import PERIODS, calendar_edges, period_of
from dpsql.api.proposing.looked_parts import left_out
from dpsql.api.proposing.profile import Profile
from dpsql.api.proposing.proposal import MOST_CELLS, Ground, Proposal, ladder
from dpsql.core.readings import LAST
from dpsql.engines.source import Column

_REAL: Final = "isfinite(v) AND year(v) BETWEEN 1000 AND 8999"
_MANY: Final = 10_000  # rows, of which a thousandth at each end is not looked at
_SHORT: Final = 3  # days
_SEASONS: Final = ("month", "quarter")
_MOST_SEASONS: Final = 120
_MONTHS: Final = 2  # periods of the calendar for each cell of a number, because months matter


def dates(column: Column, seen: Profile) -> Proposal:
    """A proposal for a column of dates."""
    parts = (0.001, 0.999) if seen.filled >= _MANY else (0.0, 1.0)
    ends = seen.quantiles(parts, _REAL)
    if not ends:
        return left_out(column, "it has no date between the years 1000 and 9000")
    first, last = (date.fromisoformat(text[:10]) for text in ends)
    named = names.date_of(column.name)
    if named is not None and first.year >= 1900:
        return public.known_by_name(column, named)
    is_time = column.type != "DATE"
    end = LAST if column.type.startswith("TIMESTAMP") and "_" not in column.type else "23:59:59"
    zone = "+00" if column.type == "TIMESTAMP WITH TIME ZONE" else ""

    def text(day: date, clock: str) -> str:
        return f"{day} {clock}{zone}" if is_time else str(day)

    if is_time and (last - first).days < _SHORT:
        bounds = {"lower": text(first, "00:00:00"), "upper": text(last, end)}
        why = "parts of the days that the rows are of"
        return ladder(lambda most: Proposal(column.name, column.type, Ground.LOOKED, why, {**bounds, "bins": most}))

    def proposal(most: int) -> Proposal:
        finest = period_of(first, last)
        periods = PERIODS[: PERIODS.index(finest) + 1]
        room = most * _MONTHS if most < MOST_CELLS[0] else math.inf
        return by(next((p for p in reversed(periods) if len(calendar_edges(first, last, p)) <= room), "year"))

    def by(period: str) -> Proposal:
        edges = calendar_edges(first, last, period)
        why = f"one cell for each {period} that the rows are of"
        last_day = edges[-1] - timedelta(days=1)
        how = {"lower": text(edges[0], "00:00:00"), "upper": text(last_day, end), "every": period}
        return Proposal(column.name, column.type, Ground.LOOKED, why, how)

    is_long = period_of(first, last) not in ("day", "week")
    seasons = [p for p in _SEASONS if is_long and len(calendar_edges(first, last, p)) <= _MOST_SEASONS]
    return replace(ladder(proposal), finer=tuple(map(by, seasons)))
