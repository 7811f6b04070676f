"""Periods: a public column says in which period a row lies, and each period of a table has a budget of its own.

    2026-03-09   a day          2026-Q1   a quarter: January to March
    2026-W11     a week, which begins on a Monday and is counted as ISO 8601 says
    2026-03      a month        2026      a year

A row lies in the period whose first moment is at or before its value, and whose end is after it. A row without a value,
and one whose value is infinite, lie in no period. So each row lies in one period at most, by its own value alone.

The books call a period `table."2026-03"`. No table has such a name in the books, because a name of a table is quoted
there only where it holds a dot or a quote.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from typing import Any, Final

from dpsql.core.names import quote
from dpsql.errors import InvalidArgument

TYPES: Final = ("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS")
"""The types of a column that says the period: of one with a time zone the session would decide."""
_KEY: Final = re.compile(r'(.*)\."(\d{4}(?:-\d\d(?:-\d\d)?|-W\d\d|-Q\d)?)"', re.DOTALL)


def _month(year: int, month: int) -> date:
    """The first day of a month, counted on from that year's January.

    >>> _month(2026, 13)
    datetime.date(2027, 1, 1)
    """
    return date(year + (month - 1) // 12, (month - 1) % 12 + 1, 1)


def _day(year: int, month: int, day: int) -> tuple[date, date]:
    begin = date(year, month, day)
    return begin, begin + timedelta(days=1)


def _week(year: int, week: int) -> tuple[date, date]:
    begin = date.fromisocalendar(year, week, 1)
    return begin, begin + timedelta(days=7)


def _quarter(year: int, quarter: int) -> tuple[date, date]:
    return _month(year, 3 * quarter - 2), _month(year, 3 * quarter + 1)


_EVERY: Final[Mapping[str, tuple[str, str, Callable[..., tuple[date, date]]]]] = {
    "day": (r"(\d{4})-(\d\d)-(\d\d)", "2026-03-09", _day),
    "week": (r"(\d{4})-W(\d\d)", "2026-W11", _week),
    "month": (
        r"(\d{4})-(0[1-9]|1[0-2])",
        "2026-03",
        lambda year, month: (_month(year, month), _month(year, month + 1)),
    ),
    "quarter": (r"(\d{4})-Q([1-4])", "2026-Q1", _quarter),
    "year": (r"(\d{4})", "2026", lambda year: (_month(year, 1), _month(year, 13))),
}
"""For each kind of period how it is written, an example, and its first day with the first day after it."""


@dataclass(frozen=True)
class Period:
    """The rows of one period of a table.

    Attributes:
        label: how the period is written.
        column: says in which period a row lies.
        type: of the column.
        begin: its first day.
        end: the first day after it.
    """

    label: str
    column: str
    type: str
    begin: date
    end: date

    @property
    def ends(self) -> tuple[str, str]:
        """The first moment, and the first one after it, as texts of the column's type that no session reads otherwise.

        >>> Periods("year", "at", "TIMESTAMP").period("2026").ends
        ('2026-01-01 00:00:00', '2027-01-01 00:00:00')
        """
        midnight = "" if self.type == "DATE" else " 00:00:00"
        return f"{self.begin.isoformat()}{midnight}", f"{self.end.isoformat()}{midnight}"

    @property
    def predicate(self) -> str:
        """Which rows lie in it, as SQL; of a row without a value it is not true.

        >>> print(Periods("month", "day", "DATE").period("2026-12").predicate)
        "day" >= DATE '2026-12-01' AND "day" < DATE '2027-01-01'
        """
        name = quote(self.column)
        begin, end = (f"{self.type} '{moment}'" for moment in self.ends)
        return f"{name} >= {begin} AND {name} < {end}"


@dataclass(frozen=True)
class Periods:
    """That each period of a table has a budget of its own, as its owner said when the table was protected.

    Attributes:
        every: `day`, `week`, `month`, `quarter` or `year`.
        column: says in which period a row lies.
        type: of the column.
    """

    every: str
    column: str
    type: str

    def __str__(self) -> str:
        """In words."""
        return f"each {self.every} of {self.column!r}"

    @property
    def stated(self) -> dict[str, str]:
        """What the ledger has of it, as JSON."""
        return asdict(self)

    @property
    def example(self) -> str:
        """A period as it is written."""
        return _EVERY[self.every][1]

    def period(self, label: str) -> Period:
        """The period of that label.

        Raises:
            InvalidArgument: it is none.

        >>> Periods("month", "day", "DATE").period("2026-12").end
        datetime.date(2027, 1, 1)
        """
        pattern, example, ends = _EVERY[self.every]
        match = re.fullmatch(pattern, label, re.ASCII)
        try:
            begin, end = ends(*map(int, match.groups() if match else ()))
        except (TypeError, ValueError, OverflowError):  # not written so, or no day of the calendar
            raise InvalidArgument(
                f"period is {label[:40]!r}, which is no {self.every}: write it as in period := '{example}'"
            ) from None
        return Period(label, self.column, self.type, begin, end)


def check_every(every: str) -> None:
    """Refuse what is no kind of period.

    Raises:
        InvalidArgument: it is none.
    """
    if every not in _EVERY:
        raise InvalidArgument(f"period is {every[:40]!r}: give {', '.join(map(repr, _EVERY))}")


def periods_from(stated: Mapping[str, Any]) -> Periods:
    """What the ledger states of a table's periods.

    Raises:
        InvalidArgument, KeyError: it is nothing of that kind.
    """
    check_every(stated["every"])
    if set(stated) != {"every", "column", "type"} or stated["type"] not in TYPES:
        raise InvalidArgument("it states no periods")
    return Periods(stated["every"], stated["column"], stated["type"])


def period_key(table: str, label: str) -> str:
    """What the books call a period of a table.

    >>> period_key("visits", "2026-03")
    'visits."2026-03"'
    """
    return f'{table}."{label}"'


def split_key(key: str) -> tuple[str, str | None]:
    """What the books call a table, and which of its periods a key is of; None where it is the table's own.

    >>> split_key('visits."2026-03"'), split_key("visits")
    (('visits', '2026-03'), ('visits', None))
    """
    match = _KEY.fullmatch(key)
    return (key, None) if match is None else (match[1], match[2])


def table_of(key: str) -> str:
    """What the books call the table of a key, be it the table's own or a period's."""
    return split_key(key)[0]
