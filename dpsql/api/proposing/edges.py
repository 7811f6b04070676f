"""Edges of bins that people like to read: round numbers near the quantiles, and beginnings of years, months or days."""

from __future__ import annotations

import itertools
from bisect import bisect
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Final

_OFF: Final = 0.03
"""Of the mean distance from the median, by which rows that are drawn evenly in a bin may move the mean."""
_MORE: Final = 4
"""Bins that are split for that."""
PERIODS: Final = ("year", "quarter", "month", "week", "day")
_UNITS: Final = ((3650, "year"), (1200, "quarter"), (200, "month"), (45, "week"))
"""From how many days on dates are in bins of years, quarters, months, weeks."""


def round_edges(quantiles: Sequence[Decimal], step: Decimal) -> list[Decimal]:
    """Increasing edges around quantiles, each rounded as far as the distance to its neighbours allows.

    Args:
        quantiles: increasing values, the smallest and the largest one included.
        step: the smallest difference of two values.

    >>> [str(edge) for edge in round_edges([Decimal(x) for x in (12, 108, 197, 1043)], Decimal(1))]
    ['10', '100', '190', '1100']
    """
    values = sorted({*quantiles})
    low, high = values[0], values[-1]
    gaps = [b - a for a, b in itertools.pairwise(values)] or [step]
    edges = [_to(low, _unit(gaps[0], step), ROUND_FLOOR)]
    for before, value, after in zip(gaps, values[1:-1], gaps[1:], strict=False):
        edges.append(_to(value, _unit(min(before, after), step), ROUND_FLOOR))
    last = _to(high, _unit(gaps[-1], step), ROUND_CEILING)
    edges.append(last if last > high else last + _unit(gaps[-1], step))
    return sorted({*edges})


def _unit(gap: Decimal, step: Decimal) -> Decimal:
    """A power of ten of at most a fifth of a gap, and at least one step."""
    return max(step, Decimal(10) ** (gap / 5).adjusted()) if gap > 0 else step


def _to(value: Decimal, unit: Decimal, rounding: str) -> Decimal:
    return (value / unit).to_integral_value(rounding) * unit


def with_even_bins(grid: Mapping[float, Decimal], parts: Sequence[float], least: float) -> list[float]:
    """Parts of the rows that bound bins, and a few more where rows that are drawn evenly in a bin would move the mean.

    A bin with the share s of the rows, their mean m and the middle c moves the mean by s·|m − c|. The bin that moves it
    most is split at its mean, as head/tail breaks do. Amounts of money have most rows low in their last bin.

    Args:
        grid: increasing parts of the rows from 0 to 1, and the values below which they are.
        parts: some of those, from 0 to 1.
        least: the smallest share that a bin may have.

    >>> grid = {place / 100: Decimal(place if place < 99 else 5000) for place in range(101)}
    >>> with_even_bins(grid, [0.0, 0.5, 1.0], 0.01)
    [0.0, 0.5, 0.98, 1.0]
    """
    places, values = list(grid), list(grid.values())
    widths = [b - a for a, b in itertools.pairwise(places)]
    middles = [float(a + b) / 2 for a, b in itertools.pairwise(values)]
    median = float(values[bisect(places, 0.5) - 1])
    most = _OFF * sum(width * abs(middle - median) for width, middle in zip(widths, middles, strict=True))
    edges, done = sorted(places.index(part) for part in parts), set[tuple[int, int]]()
    while len(edges) < len(parts) + _MORE:
        moved = {
            (a, b): abs(sum(widths[i] * (middles[i] - float(values[a] + values[b]) / 2) for i in range(a, b)))
            for a, b in itertools.pairwise(edges)
            if (a, b) not in done
        }
        worst = max(moved, key=lambda ends: moved[ends], default=None)
        if worst is None or moved[worst] <= most:
            break
        a, b = worst
        mean = sum(widths[i] * middles[i] for i in range(a, b)) / (places[b] - places[a])
        inside = [i for i in range(a + 1, b) if min(places[i] - places[a], places[b] - places[i]) >= least]
        inside = [i for i in inside if values[a] < values[i] < values[b]]
        if inside:
            edges = sorted([*edges, min(inside, key=lambda i: abs(float(values[i]) - mean))])
        else:
            done.add(worst)
    return [places[edge] for edge in edges]


def period_of(first: date, last: date) -> str:
    """How long the bins of dates are between two: about 12 to 60 of them.

    >>> period_of(date(2020, 1, 5), date(2021, 12, 1))
    'month'
    """
    days = (last - first).days
    return next((unit for least, unit in _UNITS if days >= least), "day")


def calendar_edges(first: date, last: date, period: str) -> list[date]:
    """The beginnings of all periods that hold a day from the first to the last, and of the one after.

    >>> [str(day) for day in calendar_edges(date(2020, 1, 5), date(2020, 3, 1), "month")]
    ['2020-01-01', '2020-02-01', '2020-03-01', '2020-04-01']
    """
    edges = [_begin(first, period)]
    while edges[-1] <= last:
        edges.append(_following(edges[-1], period))
    return edges


def _begin(day: date, period: str) -> date:
    if period == "year":
        return date(day.year, 1, 1)
    if period == "quarter":
        return date(day.year, day.month - (day.month - 1) % 3, 1)
    if period == "month":
        return day.replace(day=1)
    return day - timedelta(days=day.weekday()) if period == "week" else day


def _following(day: date, period: str) -> date:
    if period in ("day", "week"):
        return day + timedelta(days=7 if period == "week" else 1)
    months = day.year * 12 + day.month - 1 + {"year": 12, "quarter": 3, "month": 1}[period]
    return date(months // 12, months % 12 + 1, 1)
