"""Dates, times and intervals: DuckDB's texts of them from PostgreSQL's formats, and the other way round.

Python's own dates end at the years 1 and 9999, DuckDB's and PostgreSQL's do not.
"""

from __future__ import annotations

import re
import struct
from datetime import date, timedelta
from typing import Final

_DAY: Final = 86_400_000_000
_DAY_ONE: Final = date(2000, 1, 1)
_CYCLE_DAYS, _CYCLE_YEARS = 146_097, 400
"""After so many days the calendar repeats."""
_ISO_DAY: Final = re.compile(r"\d++-\d++-\d++", re.ASCII)
_ERA: Final = re.compile(r"\s(AD|BC)(?=\s|$)", re.IGNORECASE | re.ASCII)
_ZONE: Final = re.compile(r"\s?[+-]\d\d(:\d\d){0,2}")
_TIME_ZONE: Final = re.compile(r"(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?", re.ASCII)
_CLOCK: Final = re.compile(r"(?<!\S)([-+]?)(\d{1,12}):(\d\d):(\d\d)(?:\.(\d{1,6}))?(?!\S)", re.ASCII)
_INTERVAL: Final = re.compile(
    r"(?:(-?\d+) years?)? ?(?:(-?\d+) months?)? ?(?:(-?\d+) days?)? ?"
    r"(?:(-?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?",
    re.ASCII,
)


def day_text(days: int) -> str:
    """DuckDB's text of a date, from days since 2000."""
    if days in (2**31 - 1, -(2**31)):
        return "infinity" if days > 0 else "-infinity"
    cycles, rest = divmod(days, _CYCLE_DAYS)
    day = _DAY_ONE + timedelta(rest)
    year = day.year + cycles * _CYCLE_YEARS
    return f"{year:04}{day:-%m-%d}" if year > 0 else f"{1 - year:04}{day:-%m-%d} (BC)"


def moment_text(microseconds: int) -> str:
    """DuckDB's text of a timestamp, from microseconds since 2000."""
    if microseconds in (2**63 - 1, -(2**63)):
        return "infinity" if microseconds > 0 else "-infinity"
    days, rest = divmod(microseconds, _DAY)
    return f"{day_text(days)} {time_text(rest)}"


def time_text(microseconds: int) -> str:
    """DuckDB's text of a time of the day, 24:00:00 among them.

    Raises:
        ValueError: it is none.
    """
    if not 0 <= microseconds <= _DAY:
        raise ValueError("no time of the day")
    seconds, rest = divmod(microseconds, 1_000_000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:06}"


def zoned_time_text(raw: bytes) -> str:
    """DuckDB's text of a time with its zone, from PostgreSQL's microseconds and seconds west."""
    microseconds, west = struct.unpack("!qi", raw)
    east = abs(west)
    shown = f"{east // 3600:02}:{east // 60 % 60:02}:{east % 60:02}"
    return f"{time_text(microseconds)}{'-' if west > 0 else '+'}{shown}"


def zoned_time_binary(text: str) -> bytes:
    """The other way round."""
    match = _TIME_ZONE.fullmatch(text)
    if match is None:
        raise ValueError(f"no text of DuckDB's: {text!r}")
    hours, minutes, seconds, part, sign, *zone = match.groups()
    east = sum(int(count or 0) * unit for count, unit in zip(zone, (3600, 60, 1), strict=True))
    return struct.pack("!qi", _clock(hours, minutes, seconds, part), -east if sign == "+" else east)


def interval_text(raw: bytes) -> str:
    """DuckDB's text of an interval, from PostgreSQL's microseconds, days and months."""
    microseconds, days, months = struct.unpack("!qii", raw)
    return f"{months} months {days} days {microseconds} microseconds"


def interval_binary(text: str) -> bytes:
    """The other way round, from what DuckDB writes, such as `1 year 2 months -3 days 04:05:06.5`."""
    match = _INTERVAL.fullmatch(text)
    if match is None:
        raise ValueError(f"no text of DuckDB's: {text!r}")
    years, months, days, sign, hours, minutes, seconds, part = match.groups()
    microseconds = _clock(hours, minutes, seconds, part) if hours else 0
    return struct.pack(
        "!qii", -microseconds if sign else microseconds, int(days or 0), 12 * int(years or 0) + int(months or 0)
    )


def _clock(hours: str, minutes: str, seconds: str, part: str | None) -> int:
    whole = int(hours) * 3600 + int(minutes) * 60 + int(seconds)
    return whole * 1_000_000 + int((part or "").ljust(6, "0"))


def from_client(text: str, *, with_time: bool) -> str:
    """A date or timestamp as clients write it, in DuckDB's spelling of years before Christ.

    Args:
        text: such as `0044-03-15 10:00:00 BC`. DuckDB reads the era as a time zone, and drops it.
        with_time: False for a date: JDBC sends a zone with it, which PostgreSQL drops and DuckDB refuses.
    """
    match = _ISO_DAY.match(shown := text.strip())
    if match is None:
        return text
    rest = shown[match.end() :]
    era = _ERA.search(rest)  # at the end, or with JDBC before the zone
    if era is not None:
        rest = rest[: era.start()] + rest[era.end() :]
    if not with_time and _ZONE.fullmatch(rest):
        rest = ""
    return f"{match[0]}{' (BC)' if era and era[1].upper() == 'BC' else ''}{rest}"


def interval_from_client(text: str) -> str:
    """An interval as PostgreSQL writes it, `-1 mons +3 days -04:05:06.5`, as every version of DuckDB reads it."""
    return re.sub(r"(?<!\S)\+(?=\d)", "", _CLOCK.sub(_microseconds, text))


def _microseconds(match: re.Match[str]) -> str:
    sign, *parts = match.groups()
    return f"{sign}{_clock(*parts)} microseconds"
