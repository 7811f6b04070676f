"""Edges that need not be written down: by powers, or by the calendar; and the step of the values between them.

log        edges grow by the same factor, written with two digits: 100, 180, 320, 560, 1000. Of bounds from 0 on, what
           lies below 1 is one bin.
calendar   an edge at the first day of every week, month, quarter or year between the bounds, or at every day or hour

Both look at public bounds only.
"""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

import duckdb
from sqlglot import exp

from dpsql.core.column_types import column_type, kind_of
from dpsql.core.domain import Attribute
from dpsql.core.steps import is_exact, multiples_within
from dpsql.engines.duckdb.declare import bounds, check_has_bins
from dpsql.engines.duckdb.ticks import from_tick
from dpsql.engines.duckdb.types import data_type, filled
from dpsql.engines.source import Column
from dpsql.errors import InvalidArgument

PERIODS: Final = ("hour", "day", "week", "month", "quarter", "year")
SCALES: Final = ("linear", "log")
_USUAL_BINS: Final = 20
_MOST_PERIODS: Final = 100_000
_LONGEST: Final = {"hour": 1 / 24, "day": 1, "week": 7, "month": 31, "quarter": 92, "year": 366}
"""Days of the longest of each."""


def log_ticks(
    cursor: duckdb.DuckDBPyConnection, column: Column, lower: Any, upper: Any, bins: int | None
) -> tuple[int | float, ...]:
    """At most so many bins whose edges grow by the same factor.

    Raises:
        InvalidArgument: no numbers, bounds below 0, or too few or too many bins.
    """
    of_type = column_type(column.type)
    check_has_bins(column)
    if not of_type.is_number:
        raise InvalidArgument(f"scale is 'log', but {column.name!r} is of type {kind_of(column.type)}, no number")
    low, high = bounds(cursor, column, lower, upper)
    unit = 10 ** (of_type.scale or 0)
    start = low or unit
    if low < 0 or not start < high:
        raise InvalidArgument(
            f"scale is 'log', with lower {lower} and upper {upper}: give a lower bound of 0 or more, and an upper one "
            "above it and above 1"
        )
    count = _USUAL_BINS if bins is None else bins
    if not 2 <= count <= 1000:
        raise InvalidArgument(f"bins is {bins}: give 2 to 1000 with scale := 'log'")
    steps = count - (low == 0)
    inner = [start * (high / start) ** (step / steps) for step in range(low != 0, steps)]
    rounded = {_two_digits(edge / unit) * unit for edge in inner}
    edges: set[int | float] = {of_type.rounded(e) for e in rounded} if of_type.is_float else {round(e) for e in rounded}
    last = high if of_type.is_float else high + 1
    return (low, *sorted(edge for edge in edges if low < edge < high), last)


def _two_digits(number: float) -> float:
    """A number with two digits that are not 0.

    >>> [_two_digits(number) for number in (0.0316227, 1, 56.234, 17782.8)]
    [0.032, 1.0, 56.0, 18000.0]
    """
    return float(f"{number:.1e}")


def calendar_ticks(
    cursor: duckdb.DuckDBPyConnection, column: Column, lower: Any, upper: Any, every: str
) -> tuple[int | float, ...]:
    """A bin for each period of the calendar; the first and the last one end at the bounds.

    Periods of a type with a time zone begin when they do in UTC.

    Raises:
        InvalidArgument: another word, a type without a calendar, or too many periods.
    """
    of_type = column_type(column.type)
    if every not in PERIODS:
        raise InvalidArgument(f"every is {every!r}: say {', '.join(map(repr, PERIODS[:-1]))} or {PERIODS[-1]!r}")
    is_date = column.type == "DATE"
    if not (is_date or column.type.startswith("TIMESTAMP")) or not of_type.has_bins:
        raise InvalidArgument(
            f"every is {every!r}, but {column.name!r} is of type {kind_of(column.type)}: say it of DATE or TIMESTAMP"
        )
    if is_date and every == "hour":
        raise InvalidArgument(f"every is 'hour', but {column.name!r} is a DATE: say 'day' or longer")
    low, high = bounds(cursor, column, lower, upper)
    seconds = (high - low) * 86_400 if is_date else (high - low) // of_type.ticks_per_second
    if seconds / 86_400 / _LONGEST[every] > _MOST_PERIODS:
        raise InvalidArgument(
            f"every is {every!r}: more than {_MOST_PERIODS} bins between the bounds: say a longer one, or nearer bounds"
        )
    inner = [start for start in _starts(cursor, column.type, every, low, high) if low < start <= high]
    return (low, *inner, high + 1)


def with_step(attribute: Attribute, step: Any) -> Attribute:
    """A domain of bins whose synthetic values are multiples of a step.

    Raises:
        InvalidArgument: no bins of numbers or moments, or a step that these do not hold.
    """
    if isinstance(step, bool) or not isinstance(step, int | float | Decimal) or not 0 < step < math.inf:
        raise InvalidArgument(f"step is {step!r}: give a number above 0, such as 1 for whole numbers, 0.01 for cents")
    seconds = attribute.kind == "bins" and attribute.of_type.ticks_per_second
    if attribute.type == "DATE":
        raise InvalidArgument(
            f"step is {step}, but column {attribute.name!r} is a DATE, which has days: leave step out"
        )
    if attribute.kind != "bins" or not (attribute.is_number or seconds) or attribute.reading:
        raise InvalidArgument(
            f"step is {step}, but column {attribute.name!r} has no bins of numbers or of times: say lower and upper, "
            "or edges"
        )
    text = format(Decimal(repr(step) if isinstance(step, float) else step).normalize(), "f")
    stepped = replace(attribute, step=text)
    if not is_exact(stepped):
        least = "" if attribute.is_float else f", a multiple of {_least(attribute)}"
        raise InvalidArgument(
            f"step is {step}, of which {attribute.type} does not hold each multiple between {attribute.edges[0]} and "
            f"{attribute.edges[-1]}: give a larger one{least}"
        )
    if multiples_within(stepped) < 2:
        raise InvalidArgument(
            f"step is {step}, of which fewer than two multiples lie between {attribute.edges[0]} and "
            f"{attribute.edges[-1]}: give a smaller one"
        )
    return stepped


def _least(attribute: Attribute) -> str:
    """The smallest step of the type, in seconds where it tells moments."""
    per_second = attribute.of_type.ticks_per_second
    return format(1 / Decimal(per_second) if per_second else Decimal(1).scaleb(-(attribute.of_type.scale or 0)), "f")


def _starts(cursor: duckdb.DuckDBPyConnection, kind: str, every: str, low: int, high: int) -> list[int]:
    """The ticks at which periods start, around the bounds."""
    ends = (exp.cast(exp.Literal.number(tick), "BIGINT") for tick in (low, high))  # so many seconds fit in no INTEGER
    first, last = (exp.cast(from_tick(end, kind), "TIMESTAMP", dialect="duckdb") for end in ends)
    begin = exp.func("date_trunc", exp.Literal.string(every), first, dialect="duckdb")
    step = exp.Interval(this=exp.Literal.string("3" if every == "quarter" else "1"), unit=exp.var(_unit(every)))
    series = exp.Anonymous(this="generate_series", expressions=[begin, last, step])
    value = exp.cast(exp.column("start"), data_type(kind), dialect="duckdb")
    template = column_type(kind).to_tick
    assert template is not None
    starts = exp.select(exp.alias_(exp.Anonymous(this="unnest", expressions=[series]), "start")).subquery("starts")
    sql = exp.select(filled(template, x=value)).from_(starts).sql(dialect="duckdb")
    return sorted(math.floor(start) for (start,) in cursor.execute(sql).fetchall())


def _unit(every: str) -> str:
    return {"quarter": "MONTH"}.get(every, every.upper())
