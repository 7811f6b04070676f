"""The finest period of the calendar that was measured of a column of times: synthetic values are even inside it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from dpsql.core.domain import Attribute

_DAY: Final = 86_400
_START: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PERIODS: Final[tuple[tuple[str, Callable[[datetime], bool]], ...]] = (
    ("year", lambda at: at.timetuple()[1:6] == (1, 1, 0, 0, 0)),
    ("quarter", lambda at: at.month % 3 == 1 and at.timetuple()[2:6] == (1, 0, 0, 0)),
    ("month", lambda at: at.timetuple()[2:6] == (1, 0, 0, 0)),
    ("week", lambda at: at.weekday() == 0 and at.timetuple()[3:6] == (0, 0, 0)),
    ("day", lambda at: at.timetuple()[3:6] == (0, 0, 0)),
    ("hour", lambda at: at.timetuple()[4:6] == (0, 0)),
)
"""Periods, the longest first, with whether one begins at a moment."""
_LONGEST: Final = {"year": 366, "quarter": 92, "month": 31, "week": 7, "day": 1, "hour": 1 / 24}
"""Days of the longest of each."""


def periods_of(domain: Iterable[Attribute]) -> dict[str, list[str]]:
    """Names of columns of times by the finest period that their bins tell apart; without those of other bins.

    >>> periods_of([Attribute("day", "DATE", "bins", ticks=(0, 31, 59, 90))])
    {'month': ['day']}
    """
    by_period: dict[str, list[str]] = {}
    for attribute in domain:
        period = _period(attribute)
        if period is not None:
            by_period.setdefault(period, []).append(attribute.name)
    return by_period


def _period(attribute: Attribute) -> str | None:
    """The longest period at whose beginnings all edges inside the bounds are, where no bin is longer than one."""
    seconds = _seconds(attribute)
    if len(seconds) < 4 or attribute.point_codes:
        return None
    inner = seconds[1:-1]
    try:
        moments = [_START + timedelta(seconds=at) for at in inner]
    except OverflowError:  # dates that Python does not know
        return None
    wide = max(b - a for a, b in itertools.pairwise(seconds)) / _DAY
    for period, begins in _PERIODS:
        if all(map(begins, moments)):
            return period if wide <= _LONGEST[period] + 1e-9 else None
    return None


def _seconds(attribute: Attribute) -> list[float]:
    """The edges of bins in seconds since 1970, or since midnight; empty of other columns."""
    if attribute.kind != "bins":
        return []
    per_second = 1 / _DAY if attribute.type == "DATE" else attribute.of_type.ticks_per_second
    return [tick / per_second for tick in attribute.ticks] if per_second else []
