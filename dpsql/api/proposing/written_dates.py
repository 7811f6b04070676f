"""Dates, moments and times of day as people write them in texts: `25.12.22`, `Dec 25, 2022 2:05 PM`, `9:05 PM`.

    format  =  strptime's, which every text of a column has; days stand before months where both are possible

ISO 8601 is not here: such texts are read as they are. Nor is a month without a day, `Dec-22`, which is a value.
Years of two digits are those of strptime: 69 to 99 are of the 1900s.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from dpsql.engines.duckdb.calls import literal

_PARTS: Final = {
    "%d": r"\d{1,2}",
    "%m": r"\d{1,2}",
    "%Y": r"\d{4}",
    "%y": r"\d{2}",
    "%b": r"[A-Za-z]{3}",
    "%B": r"[A-Za-z]{3,9}",
    "%H": r"\d{1,2}",
    "%I": r"\d{1,2}",
    "%M": r"\d{2}",
    "%S": r"\d{2}",
    "%p": r"[AaPp][Mm]",
}
_ORDERS: Final = ("%d{0}%m{0}{1}", "%m{0}%d{0}{1}", "{1}{0}%m{0}%d")
_NAMED: Final = ("%d {0} {1}", "%d-{0}-{1}", "%d. {0} {1}", "%d/{0}/{1}", "{0} %d, {1}", "{0} %d {1}")
_CLOCKS: Final = ("%H:%M", "%H:%M:%S", "%I:%M %p", "%I:%M:%S %p", "%I:%M%p")
_BETWEEN: Final = (" ", ", ")


@dataclass(frozen=True)
class Format:
    """A way to write dates or times.

    Attributes:
        text: as strptime takes it.
        type: of what is written.
    """

    text: str
    type: str

    @property
    def example(self) -> str:
        """A made-up text of it.

        >>> Format("%B %d, %Y", "DATE").example
        'December 25, 2024'
        """
        return datetime(2024, 12, 25, 14, 5, tzinfo=UTC).strftime(self.text)

    @property
    def pattern(self) -> re.Pattern[str]:
        """Of a whole text, as far as letters and digits tell."""
        return re.compile(re.sub(r"%[A-Za-z]", lambda part: _PARTS[part[0]], re.escape(self.text).replace("\\%", "%")))

    def value(self, text: str) -> str:
        """SQL of what a text writes; NULL where it is written in another way."""
        return f"CAST(try_strptime({text}, {literal(self.text)}) AS {self.type})"


def _formats() -> Iterator[Format]:
    dates = [order.format(mark, year) for order in _ORDERS for mark in "./- " for year in ("%Y", "%y")]
    dates += [order.format(month, year) for order in _NAMED for month in ("%b", "%B") for year in ("%Y", "%y")]
    yield from (Format(date, "DATE") for date in dates if date != "%Y-%m-%d")
    for date, mark, clock in itertools.product(dates, _BETWEEN, _CLOCKS):
        yield Format(f"{date}{mark}{clock}", "TIMESTAMP")
    yield from (Format(clock, "TIME") for clock in _CLOCKS if "%p" in clock)


FORMATS: Final = tuple(_formats())
"""Those with days before months first."""


def formats_of(texts: Sequence[str]) -> list[Format]:
    """The formats that all of some texts may have, by their digits and letters.

    >>> [each.text for each in formats_of(["25/12/22", "1/5/23"])][:2]
    ['%d/%m/%y', '%m/%d/%y']
    >>> formats_of(["2 of 5"])
    []
    """
    few, rest = texts[:20], texts[20:]
    likely = [(each, each.pattern) for each in FORMATS if all(map(each.pattern.fullmatch, few))]
    return [each for each, pattern in likely if all(map(pattern.fullmatch, rest))]
