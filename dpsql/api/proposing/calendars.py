"""What is proposed for times of day, dates and durations that are written as numbers or texts; the rows tell.

A form is recognised where nearly all values are times in it, and where numbers that are none would hardly be so by
chance: of whole numbers up to 2400 two in five have more than 59 in their last two digits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from sqlglot import exp

from dpsql.api.proposing import names
from dpsql.api.proposing.context import Context
from dpsql.api.proposing.looked_dates import dates
from dpsql.api.proposing.looked_numbers import numbers_in_bins
from dpsql.api.proposing.looked_parts import LEAST
from dpsql.api.proposing.profile import Profile, profile
from dpsql.api.proposing.proposal import Ground, Proposal, ladder
from dpsql.core.domain import Attribute
from dpsql.core.readings import LAST, READINGS
from dpsql.engines.duckdb.reading import read
from dpsql.engines.source import Column

_HOURS: Final = (24, 12, 8, 6, 4, 2)
"""Parts of a day, each of whole hours."""
_MANY: Final = 12  # different minutes, all below 60: by chance once in 500 times
_LOST: Final = 0.001  # of the rows, that are no time in the form
_CLOCKS: Final = frozenset(
    (
        *("time", "hhmm", "hmm", "clock", "hour", "hours", "dep", "arr", "departure", "arrival", "start", "end"),
        *("begin", "sched", "scheduled", "opens", "closes", "uhr", "uhrzeit", "zeit", "heure", "hora", "orario"),
    )
)
_MOMENTS: Final = frozenset(
    (
        *("time", "timestamp", "ts", "epoch", "unix", "created", "updated", "modified", "date", "datetime", "at"),
        *("seen", "login", "start", "end", "when", "event", "ms", "us", "since", "logged", "occurred"),
    )
)
_DAYS: Final = frozenset(["julian", "doy", "yday", "jday", "date", "day"])
_DURATIONS: Final = frozenset(["duration", "elapsed", "lap", "length", "took", "taken", "runtime", "finish", "pace"])


def times_of_numbers(column: Column, seen: Profile, context: Context) -> Proposal | None:
    """A proposal for a column of whole numbers that write times; None for other numbers."""
    numbers = [int(number) for number in map(_whole, seen.values) if number is not None]
    if len(numbers) < len(seen.values) or not numbers:
        return None
    usual = [number for number in numbers if not _is_code(number)]
    if len({*usual}) < 3:
        return None
    words = {*names.words_of(column.name)}
    form = next((name for name, fits in _FORMS.items() if fits(usual, words)), None)
    if form is None:
        return None
    codes = [text for text in seen.values if _is_code(int(_whole(text) or 0))]
    return _proposal(column, seen, form, codes, context)


def times_of_texts(column: Column, seen: Profile, missing: Sequence[str], context: Context) -> Proposal | None:
    """A proposal for a column of texts with colons that write times; None for other texts."""
    written = [value.strip() for value in seen.values if value not in missing]
    form = _form_of_texts(written, {*names.words_of(column.name)})
    return None if form is None else _proposal(column, seen, form, missing, context)


def written_in(digits: Sequence[str], form: str) -> str:
    """The form by which texts of digits are written as they are: with zeros before the hour, or without."""
    padded = all(len(text.strip()) == READINGS[form].digits for text in digits)
    return form if padded or not form.startswith("HH") else form.removeprefix("H")


def _proposal(column: Column, seen: Profile, form: str, missing: Sequence[str], context: Context) -> Proposal | None:
    """The proposal, if nearly all rows are read so."""
    reading = READINGS[form]
    whole = Attribute(
        column.name, reading.type, "bins", reading=form, stored="BIGINT" if reading.is_number else "VARCHAR"
    )
    sql = read(exp.maybe_parse(seen.sql, dialect="duckdb"), whole).sql(dialect="duckdb")
    typed = profile(seen.source, column.name, reading.type, sql)
    counts = seen.rows_of(missing)
    codes = [text for text in missing if counts[text] >= LEAST]
    if seen.filled - typed.filled - sum(counts[text] for text in codes) > _LOST * seen.filled:
        return None
    of = Column(column.name, reading.type, nullable=True)
    inner = _periods(of, typed, context)
    if inner is None:
        return None
    stored, meant = reading.example
    why = f"times written as {form}, as {stored} for {meant}"
    if codes:
        why += f"; {', '.join(codes)} means that it is missing"

    def of_form(proposal: Proposal) -> Proposal:
        how = dict(proposal.how or {})
        if "exclude" not in how:
            how |= {"read_as": form, **({"nulls_as": codes} if codes else {})}
        return Proposal(column.name, column.type, Ground.LOOKED, f"{why}; {proposal.because}", how)

    return inner.each(of_form)


def _periods(column: Column, seen: Profile, context: Context) -> Proposal | None:
    """The cells of what is read: hours, periods of the calendar, or bins of seconds."""
    if column.type == "TIME":
        return clock(column)
    return numbers_in_bins(column, seen, context) if column.type == "BIGINT" else dates(column, seen)


def clock(column: Column) -> Proposal:
    """Hours of a day, which everybody knows."""

    def proposal(most: int) -> Proposal:
        bins = next(parts for parts in _HOURS if parts <= most)
        how: Mapping[str, Any] = {"lower": "00:00:00", "upper": LAST, "bins": bins}
        return Proposal(column.name, "TIME", Ground.LOOKED, f"a day has 24 hours, in {bins} cells", how)

    return ladder(proposal)


def _whole(text: str) -> int | None:
    match = re.fullmatch(r"([+-]?\d{1,18})(?:\.0*)?", text.strip())
    return None if match is None else int(match[1])


def _is_code(number: int) -> bool:
    """Whether it is a number that often stands for a missing value: a negative one, or all nines."""
    return number < 0 or (number > 99 and {*str(number)} == {"9"})


# --- forms of numbers -------------------------------------------------------------------------------------------------


def _is_hhmm(numbers: Sequence[int], words: set[str]) -> bool:
    minutes, hours = {number % 100 for number in numbers}, {number // 100 for number in numbers}
    if max(numbers) > 2400 or max(numbers) < 1000 or len(hours) < 3 or max(minutes) > 59:
        return False
    by_quarters = minutes <= {0, 15, 30, 45} and len(minutes) > 1
    by_fives = len(minutes) > 3 and all(minute % 5 == 0 for minute in minutes)
    return len(minutes) >= _MANY or (bool(words & _CLOCKS) and (by_quarters or by_fives))


def _is_hhmmss(numbers: Sequence[int], words: set[str]) -> bool:
    seconds, minutes = {number % 100 for number in numbers}, {number // 100 % 100 for number in numbers}
    small = max(seconds) < 60 and max(minutes) < 60
    return 100_000 <= max(numbers) <= 240_000 and small and min(len(seconds), len(minutes)) >= _MANY


def _is_yyyymmdd(numbers: Sequence[int], words: set[str]) -> bool:
    return (
        _all(numbers, 19000101, 21001231)
        and _all([n // 100 % 100 for n in numbers], 1, 12)
        and (_all([n % 100 for n in numbers], 1, 31))
    )


def _is_yyyymm(numbers: Sequence[int], words: set[str]) -> bool:
    return _all(numbers, 190001, 210012) and _all([n % 100 for n in numbers], 1, 12) and len({*numbers}) > 3


def _is_yyyyddd(numbers: Sequence[int], words: set[str]) -> bool:
    named = bool(words & _DAYS)
    return (
        _all(numbers, 1900001, 2100366)
        and _all([n % 1000 for n in numbers], 1, 366)
        and (named or len({*numbers}) > 30)
    )


def _since(unit: int) -> Callable[[Sequence[int], set[str]], bool]:
    """Whether numbers with the name of a moment are seconds, or parts of them, since 1970; of 1990 to 2049."""
    low, high = 631_152_000 * unit, 2_524_608_000 * unit
    return lambda numbers, words: bool(words & _MOMENTS) and _all(numbers, low, high)


def _all(numbers: Sequence[int], low: int, high: int) -> bool:
    return low <= min(numbers) and max(numbers) <= high


_FORMS: Final[Mapping[str, Callable[[Sequence[int], set[str]], bool]]] = {
    "HHMM": _is_hhmm,
    "HHMMSS": _is_hhmmss,
    "YYYYMMDD": _is_yyyymmdd,
    "YYYYMM": _is_yyyymm,
    "YYYYDDD": _is_yyyyddd,
    "EPOCH": _since(1),
    "EPOCH_MS": _since(1_000),
    "EPOCH_US": _since(1_000_000),
}


# --- forms of texts ---------------------------------------------------------------------------------------------------


def _form_of_texts(written: Sequence[str], words: set[str]) -> str | None:
    """The form of texts with colons; a clock has two digits before the colon, and never more than 24."""
    for parts, clock, duration in ((3, "HH:MM:SS", "H:MM:SS"), (2, "HH:MM", "M:SS")):
        pattern = r"(\d{1,6})" + r":[0-5]\d" * (parts - 1)
        matches = [re.fullmatch(pattern, text) for text in written]
        if len(matches) < 2 or None in matches:
            continue
        first = [match[1] for match in matches if match is not None]
        is_clock = all(len(hour) == 2 and int(hour) <= 24 for hour in first) and not words & _DURATIONS
        evening = max(map(int, first)) >= 13
        return clock if is_clock and (parts == 3 or evening or words & _CLOCKS) else duration
    return None
