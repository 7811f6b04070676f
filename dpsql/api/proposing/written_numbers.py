"""Numbers as people write them in texts: `$1,234.50`, `1.000,50`, `150,0`, `(12)`, `12 kg`.

    style   =  what all texts share: a sign of money or a unit, the mark between thousands, the decimal mark
    number  =  the digits of a text that is of the style, from its first to its last letter; NULL of any other

A text that has three digits behind its only mark could be either way. Other texts of the column decide; else a comma
is between thousands, and a point is decimal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dpsql.engines.duckdb.calls import literal

_MONEY: Final = r"(?:[A-Z]{0,2}[$€£¥₹₽₩₺฿]|USD|EUR|GBP|CHF|JPY|CAD|AUD|SEK|NOK|DKK|PLN|CZK|INR|CNY|BRL|kr|Rs)"
_UNIT: Final = r"[^\d\s.,()+\-−'’][^\d.,()+\-−'’]{0,9}"
_BODY: Final = r"(?:\d[\d.,'’\u00a0\u202f ]*)?\d|[.,]\d+"
_TEXT: Final = re.compile(
    rf"(\()?\s*[+\-−]?\s*(?P<money>{_MONEY})?\s*[+\-−]?\s*(?P<body>{_BODY})\s*(?P<unit>{_UNIT})?\s*(?(1)\)|)"
)
_SPACES: Final = "'’\u00a0\u202f "
"""Marks that only stand between thousands."""
MOST_SCALE: Final = 6


@dataclass(frozen=True)
class Style:
    """How numbers are written.

    Attributes:
        money, unit: texts before and behind a number; empty without.
        thousands: the mark between thousands; empty without.
        decimal: the mark before decimals.
    """

    money: str
    unit: str
    thousands: str
    decimal: str

    @property
    def example(self) -> str:
        """A made-up number of the style.

        >>> style_of(["$12.50", "$1,000.00"]).example
        '$1,234.5'
        """
        return " ".join(part for part in (f"{self.money}1{self.thousands}234{self.decimal}5", self.unit) if part)

    def pattern(self) -> str:
        """The regular expression of a whole text."""
        point, between = re.escape(self.decimal), re.escape(self.thousands)
        grouped = rf"\d{{1,3}}(?:{between}\d{{3}})+|\d+" if self.thousands else r"\d+"
        body = rf"(?:(?:{grouped})(?:{point}\d*)?|{point}\d+)"
        money, unit = (rf"(?:{_escaped(text)})?" if text else "" for text in (self.money, self.unit))
        return rf"\(?[+−-]?\s*{money}\s*[+−-]?{body}\s*{unit}\)?"

    def decimals(self, text: str) -> str:
        """SQL of how many decimals a text has."""
        behind = literal(rf"{re.escape(self.decimal)}(\d*)")
        return f"length(regexp_extract({text}, {behind}, 1))"

    def number(self, text: str, kind: str) -> str:
        """SQL of the number; NULL of a text that is of another style."""
        digits = f"regexp_replace({text}, {literal(f'[^0-9{self.decimal}]')}, '', 'g')"
        digits = f"replace({digits}, ',', '.')" if self.decimal == "," else digits
        sign = f"CASE WHEN regexp_matches({text}, '[(−-]') THEN '-' ELSE '' END"
        return (
            f"CASE WHEN regexp_full_match({text}, {literal(self.pattern())}) "
            f"THEN TRY_CAST({sign} || {digits} AS {kind}) END"
        )


def is_number(text: str) -> bool:
    """Whether a text is a number of some style.

    >>> is_number("7 EUR"), is_number("A7"), is_number("7-8")
    (True, False, False)
    """
    return _TEXT.fullmatch(text.strip()) is not None


def style_of(texts: Sequence[str]) -> Style | None:
    """The style that all texts share; None where there is none, or more than one sign of money or unit."""
    matches = [match for match in map(_TEXT.fullmatch, map(str.strip, texts)) if match is not None]
    if len(matches) < len(texts) or not matches:
        return None
    signs = [{match[part] for match in matches if match[part]} for part in ("money", "unit")]
    marks = _marks([match["body"] for match in matches])
    if marks is None or any(len(each) > 1 for each in signs):
        return None
    money, unit = (next(iter(each), "").strip() for each in signs)
    return Style(money, unit, *marks)


def _marks(bodies: Sequence[str]) -> tuple[str, str] | None:
    """The marks between thousands and before decimals; None where they contradict each other."""
    between, point, either = set[str](), set[str](), set[str]()
    for body in bodies:
        marks = [letter for letter in body if not letter.isdigit()]
        behind = len(re.split(r"\D", body)[-1])
        if not marks:
            continue
        last, kinds = marks[-1], {*marks}
        if last in _SPACES or marks.count(last) > 1:
            between |= kinds
        elif len(kinds) > 1:
            between |= kinds - {last}
            point.add(last)
        elif behind != 3 or not re.fullmatch(r"[1-9]\d{0,2}", body.partition(last)[0]):
            point.add(last)
        else:
            either.add(last)
    for mark in sorted(either - point - between):
        (between if mark == "," or point else point).add(mark)
    if len(between) > 1 or len(point) > 1 or between & point:
        return None
    return next(iter(between), ""), next(iter(point), "." if between != {"."} else ",")


def _escaped(text: str) -> str:
    return r"\s+".join(map(re.escape, text.split()))
