"""Numbers that stand for a missing value, and how a proposal says so.

    below 0   −1, −9, −99.9 and the like, where no other value is below 0
    far off   nines, eights or sevens such as 999, −9999 or 99.99, of ten times the size of every other value

A top code such as 99999 of capital gains is not far off: other gains reach 41310, so that it stays a value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

from sqlglot import exp

from dpsql.api.proposing.inputs import Input
from dpsql.api.proposing.looked_parts import LEAST
from dpsql.api.proposing.profile import Profile
from dpsql.api.proposing.proposal import Ground, Proposal
from dpsql.core.column_types import column_type
from dpsql.core.names import quote
from dpsql.engines.source import Column

_FILLED: Final = "dpsql_filled_rows"
_NEGATIVE: Final = (-1, -9, -8, -7)
_FAR: Final = 10
"""Times the size of the largest other value."""


def missing_numbers(seen: Profile, finite: str) -> list[Decimal]:
    """The codes of a column, those of most rows first.

    Args:
        seen: the column.
        finite: the condition of a number, over `v`.
    """
    if not column_type(seen.type).is_number:
        return []
    rows = {Decimal(text): n for text, n in seen.top if is_finite(text)}
    frequent = [code for code, n in rows.items() if n >= LEAST]
    negative = [code for code in frequent if code in _NEGATIVE or (code < 0 and is_repeated(code))]
    ends = _ends_without(seen, negative, finite) if negative else None
    codes = negative if ends is not None and ends[0] >= 0 else []
    repeated = [code for code in frequent if code not in codes and is_repeated(code)]
    ends = _ends_without(seen, [*codes, *repeated], finite) if repeated else None
    if ends is not None:
        size = max(abs(ends[0]), abs(ends[1]), Decimal(1))
        codes = codes + [code for code in repeated if abs(code) >= _FAR * size]
    return codes


def is_repeated(number: Decimal) -> bool:
    """Whether a number is written with nines, eights or sevens alone, two at least.

    >>> is_repeated(Decimal("99.9")), is_repeated(Decimal("-9999.0")), is_repeated(Decimal("9"))
    (True, True, False)
    """
    written = f"{number.normalize():f}"
    digits = written.lstrip("-").replace(".", "")
    return len(digits) > 1 and {*digits} in ({"9"}, {"8"}, {"7"})


def _ends_without(seen: Profile, codes: Sequence[Decimal], finite: str) -> tuple[Decimal, Decimal] | None:
    """The smallest and the largest other value; None where there is none."""
    ends = seen.quantiles((0, 1), f"{finite} AND v NOT IN ({', '.join(map(str, codes))})")
    return (Decimal(ends[0]), Decimal(ends[1])) if ends else None


def is_finite(text: str) -> bool:
    """Whether a text of a number is neither infinite nor NaN.

    >>> is_finite("-9.0"), is_finite("-inf")
    (True, False)
    """
    return text.lower().lstrip("-") not in ("nan", "inf", "infinity")


@dataclass(frozen=True)
class MissingCodes:
    """Numbers that stand for a missing value, and how a proposal says so."""

    column: Column
    codes: Sequence[Decimal]

    def proposal(self, how: Mapping[str, Any], because: str, ground: Ground = Ground.LOOKED) -> Proposal:
        """A proposal with these arguments."""
        values = tuple(map(str, how.get("values", ())))
        if column_type(self.column.type).scale == 0 and "bins" in how and how["bins"] == _count(how):
            values = tuple(map(str, range(how["lower"], how["upper"] + 1)))
        if self.codes:
            how = {**how, "nulls_as": [f"{code.normalize():f}" for code in self.codes]}
            mean = "means" if len(self.codes) == 1 else "mean"
            because += f"; {', '.join(how['nulls_as'])} {mean} that it is missing"
        return Proposal(self.column.name, self.column.type, ground, because, how, codes=values)


def _count(how: Mapping[str, Any]) -> int:
    """How many whole numbers are between bounds."""
    return int(how["upper"] - how["lower"] + 1)


def with_nulls(source: Input, proposals: Sequence[Proposal]) -> Input:
    """The rows with NULL for numbers that stand for a missing value: formulas and orders are of the others.

    Args:
        source: of the rows.
        proposals: for its columns.
    """
    codes = [
        f"{p.filled_sql} AS {quote(p.column)}"
        for p in proposals
        if p.load is None and p.filled_sql != p.sql and "read_as" not in (p.how or ())
    ]
    if not codes:
        return source
    query = exp.select("* REPLACE (" + ", ".join(codes) + ")", dialect="duckdb")
    query = query.from_(exp.maybe_parse(source.rows, into=exp.Table, dialect="duckdb"))
    kind, view = "VIEW", exp.to_table(_FILLED)
    create = exp.Create(this=view, kind=kind, replace=True, expression=query)
    create.set("properties", exp.Properties(expressions=[exp.TemporaryProperty()]))
    source.cursor.execute(create.sql(dialect="duckdb"))
    return replace(source, rows=_FILLED)
