"""What a declared domain of the column that says the period has of one period: public facts, made of both alone."""

from __future__ import annotations

from datetime import date
from typing import Final

from dpsql.core.column_types import column_type
from dpsql.core.constraint import Constraint
from dpsql.core.domain import Attribute
from dpsql.core.period import Period

_SECONDS: Final = 86_400


def reaches(period: Period, attribute: Attribute) -> bool:
    """Whether a declared value lies in a period, or a bin has some that does."""
    begin, end = _ticks(period)
    if attribute.kind == "bins":
        return attribute.ticks[0] < end and attribute.ticks[-1] > begin
    first, after = period.ends
    return any(first <= value < after for value in attribute.values)  # ISO 8601: in the order of time


def fact_of(period: Period, attribute: Attribute | None) -> Constraint | None:
    """That rows lie in the period for which they were chosen, so that synthetic rows do, too; None where it cannot be.

    A value `other` stands for all that are not declared, which may lie in the period. Bins are of a column's whole
    domain: where none begins in the period, a value of it is one of a bin that reaches over an end.
    """
    if attribute is None or attribute.kind == "excluded" or attribute.other is not None:
        return None
    if attribute.type != period.type or not reaches(period, attribute):
        return None
    begin, end = _ticks(period)
    if attribute.kind == "bins" and not any(begin <= edge < end for edge in attribute.ticks[:-1]):
        return None
    return Constraint(period.predicate, (period.column,))


def _ticks(period: Period) -> tuple[int, int]:
    """Both ends of a period, in ticks of the column's type."""
    per_day = 1 if period.type == "DATE" else _SECONDS * column_type(period.type).ticks_per_second
    epoch = date(1970, 1, 1)
    return (period.begin - epoch).days * per_day, (period.end - epoch).days * per_day
