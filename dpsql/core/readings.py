"""Numbers and texts that write a time of day, a date or a duration: how they are read, and how they are written again.

517 is 05:17 as `HHMM`, 201305 is May 2013 as `YYYYMM`. What is read has the order and the calendar of its type, so bins
are hours or months, and what is written from a tick inside a bin is a time that exists: no minute 75, no month 13.

    value   =  read(stored)       NULL where the stored value writes no time
    stored  =  write(value)       what is finer than the form is left out: 05:17:42 is written 517

SQL stands here as text, because the core knows no database: `x` is the stored value, as a whole number or as a text, in
`read`, and the value in `write`. `read` runs on private rows, so nothing in it may fail or take longer because of a
value: parts of numbers are taken by constants, casts are TRY_CAST, and numbers that could overflow are bounded first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LAST: Final = "23:59:59.999999"
"""The last microsecond of a day, as which midnight at its end, 2400, is read: it belongs to the last hour."""


@dataclass(frozen=True)
class Reading:
    """A form in which values are stored.

    Attributes:
        name: as `read_as` takes it.
        type: of what is read.
        read, write: SQL; see the module.
        digits: of the largest number, where the form is one of whole numbers; 0 of texts.
        padded: whether a text of it has all its digits: 0517.
        example: a stored value and what it is.
    """

    name: str
    type: str
    read: str
    write: str
    digits: int = 0
    padded: bool = False
    example: tuple[str, str] = ("", "")

    @property
    def is_number(self) -> bool:
        """Whether it reads whole numbers, and texts of their digits."""
        return self.digits > 0


def _clock(parts: str, form: str, last: str, valid: str = "") -> str:
    """SQL of a time of day from its parts; of midnight at the end of a day its last microsecond."""
    made = f"TRY_CAST(format('{form}', {parts}) AS TIME)" if parts else f"TRY_CAST({form} AS TIME)"
    within = valid or f"x BETWEEN 0 AND {last}"
    return f"CASE WHEN x = {last} THEN CAST('{LAST}' AS TIME) WHEN {within} THEN {made} END"


def _since(unit: int) -> str:
    """SQL of a timestamp from steps since 1970, bounded to the years 1 to 9999, so that nothing overflows."""
    low, high = -62_135_596_800 * (1_000_000 // unit), 253_402_300_800 * (1_000_000 // unit) - 1
    bounded = f"greatest(least(x, {high}), {low})"
    return f"CASE WHEN x BETWEEN {low} AND {high} THEN make_timestamp({bounded} * {unit}) END"


def _floored(unit: int) -> str:
    """SQL of whole steps since 1970, downwards before it too."""
    rest = f"(epoch_us(x) % {unit} + {unit}) % {unit}"
    return f"(epoch_us(x) - {rest}) // {unit}"


_HHMM: Final = (
    _clock("x // 100, x % 100", "{:02d}:{:02d}", "2400"),
    "hour(x) * 100 + minute(x)",
)
_HHMMSS: Final = (
    _clock("x // 10000, x // 100 % 100, x % 100", "{:02d}:{:02d}:{:02d}", "240000"),
    "hour(x) * 10000 + minute(x) * 100 + second(x)",
)
_DAY_OF_YEAR: Final = (
    "CASE WHEN x BETWEEN 1001 AND 9999366 AND x % 1000 BETWEEN 1 AND 366 "
    "AND (x % 1000 < 366 OR x // 1000 % 4 = 0 AND (x // 1000 % 100 <> 0 OR x // 1000 % 400 = 0)) "
    "THEN TRY_CAST(format('{:04d}-01-01', x // 1000) AS DATE) + CAST(greatest(least(x % 1000, 366), 1) - 1 AS INTEGER) "
    "END"
)

ALL: Final = (
    Reading("HHMM", "TIME", *_HHMM, digits=4, padded=True, example=("517 or '0517'", "05:17")),
    Reading("HMM", "TIME", *_HHMM, digits=4, example=("517 or '517'", "05:17")),
    Reading("HHMMSS", "TIME", *_HHMMSS, digits=6, padded=True, example=("51742 or '051742'", "05:17:42")),
    Reading("HMMSS", "TIME", *_HHMMSS, digits=6, example=("51742 or '51742'", "05:17:42")),
    Reading(
        "HH:MM",
        "TIME",
        _clock("", "x", "'24:00'", r"regexp_full_match(x, '\d\d:\d\d')"),
        "format('{:02d}:{:02d}', hour(x), minute(x))",
        example=("'05:17'", "05:17"),
    ),
    Reading(
        "HH:MM:SS",
        "TIME",
        _clock("", "x", "'24:00:00'", r"regexp_full_match(x, '\d\d:\d\d:\d\d')"),
        "format('{:02d}:{:02d}:{:02d}', hour(x), minute(x), second(x))",
        example=("'05:17:42'", "05:17:42"),
    ),
    Reading(
        "YYYYMMDD",
        "DATE",
        "CASE WHEN x BETWEEN 10101 AND 99991231 "
        "THEN TRY_CAST(format('{:04d}-{:02d}-{:02d}', x // 10000, x // 100 % 100, x % 100) AS DATE) END",
        "year(x) * 10000 + month(x) * 100 + day(x)",
        digits=8,
        padded=True,
        example=("20130501", "2013-05-01"),
    ),
    Reading(
        "YYYYMM",
        "DATE",
        "CASE WHEN x BETWEEN 101 AND 999912 THEN TRY_CAST(format('{:04d}-{:02d}-01', x // 100, x % 100) AS DATE) END",
        "year(x) * 100 + month(x)",
        digits=6,
        padded=True,
        example=("201305", "2013-05-01"),
    ),
    Reading(
        "YYYYDDD",
        "DATE",
        _DAY_OF_YEAR,
        "year(x) * 1000 + dayofyear(x)",
        digits=7,
        padded=True,
        example=("2013121", "2013-05-01"),
    ),
    Reading(
        "EPOCH",
        "TIMESTAMP",
        _since(1_000_000),
        _floored(1_000_000),
        12,
        example=("1367385462", "2013-05-01 05:17:42"),
    ),
    Reading(
        "EPOCH_MS",
        "TIMESTAMP",
        _since(1_000),
        _floored(1_000),
        15,
        example=("1367385462000", "2013-05-01 05:17:42"),
    ),
    Reading("EPOCH_US", "TIMESTAMP", _since(1), "epoch_us(x)", 18, example=("1367385462000000", "2013-05-01 05:17:42")),
    Reading(
        "H:MM:SS",
        "BIGINT",
        r"CASE WHEN regexp_full_match(x, '\d{1,6}:[0-5]\d:[0-5]\d') "
        "THEN CAST(TRY_CAST(split_part(x, ':', 1) AS INTEGER) AS BIGINT) * 3600 "
        "+ TRY_CAST(split_part(x, ':', 2) AS INTEGER) * 60 + TRY_CAST(split_part(x, ':', 3) AS INTEGER) END",
        "format('{:d}:{:02d}:{:02d}', x // 3600, x // 60 % 60, x % 60)",
        example=("'1:23:45'", "5025 seconds"),
    ),
    Reading(
        "M:SS",
        "BIGINT",
        r"CASE WHEN regexp_full_match(x, '\d{1,6}:[0-5]\d') "
        "THEN CAST(TRY_CAST(split_part(x, ':', 1) AS INTEGER) AS BIGINT) * 60 "
        "+ TRY_CAST(split_part(x, ':', 2) AS INTEGER) END",
        "format('{:d}:{:02d}', x // 60, x % 60)",
        example=("'83:45'", "5025 seconds"),
    ),
)
"""All forms."""

READINGS: Final = {reading.name: reading for reading in ALL}
"""The forms by name."""
