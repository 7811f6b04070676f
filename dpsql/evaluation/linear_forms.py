"""Comparisons in SQL as linear forms of columns, exactly: a < b + 3 is a - b - 3 < 0.

    numbers   as they are             dates, timestamps   days since 1970, and a number that is added is days

What is no such comparison is left out. So forms are no more than what follows from a predicate.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

from sqlglot import exp

from dpsql.core.domain import Attribute

Kind = Literal["number", "day", "span"]
Variable = tuple[int, str]
"""Of which row, and the column."""
_EPOCH: Final = datetime.datetime(1970, 1, 1)  # a TIMESTAMP has no zone
_DAY: Final = datetime.timedelta(days=1)
_DAYS: Final = {"DAY": Fraction(1), "HOUR": Fraction(1, 24), "MINUTE": Fraction(1, 1440), "SECOND": Fraction(1, 86400)}
_SIGNS: Final[Mapping[type[exp.Expr], int]] = {exp.LT: 1, exp.LTE: 1, exp.EQ: 1, exp.GT: -1, exp.GTE: -1}
_LONGEST: Final = 40
_LARGEST: Final = 2**50
"""Ticks beyond are not told apart by all that reads them."""


@dataclass(frozen=True)
class Form:
    """A sum of columns and a constant.

    Attributes:
        kind: what it is; a difference of dates is a number, an INTERVAL a span.
        of: the factor of each column.
        constant: what is added.
    """

    kind: Kind
    of: tuple[tuple[Variable, Fraction], ...]
    constant: Fraction

    def scaled(self, factor: Fraction) -> Form:
        """The same times a number."""
        return Form(
            self.kind, tuple((name, factor * coefficient) for name, coefficient in self.of), factor * self.constant
        )

    def plus(self, other: Form, kind: Kind) -> Form:
        """The sum of two."""
        factors = dict(self.of)
        for name, coefficient in other.of:
            factors[name] = factors.get(name, Fraction(0)) + coefficient
        some = tuple(sorted((name, coefficient) for name, coefficient in factors.items() if coefficient))
        return Form(kind, some, self.constant + other.constant)


@dataclass(frozen=True)
class Below:
    """That a form is at most zero, or below it."""

    form: Form
    strict: bool


def bounds_of(attribute: Attribute) -> tuple[Kind, Fraction, Fraction, bool] | None:
    """The kind, the least and the largest declared value, and whether all are whole; None of other columns."""
    if attribute.is_read or attribute.released_type != attribute.type or attribute.kind == "excluded":
        return None
    kind: Kind = "number" if attribute.is_number else "day"
    if attribute.kind == "values":
        if kind == "day" or not attribute.values:
            return None
        try:
            values = [Fraction(value) for value in attribute.values]
        except ValueError:  # such as nan
            return None
        return kind, min(values), max(values), all(value.denominator == 1 for value in values)
    step = _step(attribute)
    if step is None or max(map(abs, attribute.ticks)) > _LARGEST:
        return None
    last = attribute.ticks[-1] if attribute.is_float else attribute.ticks[-1] - 1
    return kind, Fraction(attribute.ticks[0]) * step, Fraction(last) * step, step == 1 and not attribute.is_float


def _step(attribute: Attribute) -> Fraction | None:
    """What a tick is: of the types whose ticks are known here."""
    if attribute.type in ("DOUBLE", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "DATE"):
        return Fraction(1)
    if attribute.type == "TIMESTAMP":
        return Fraction(1, 86_400_000_000)
    if attribute.type.startswith("DECIMAL("):
        return Fraction(1, 10 ** int(attribute.type[:-1].split(",")[1]))
    return None


def conjuncts(expression: exp.Expr) -> Iterator[exp.Expr]:
    """What a predicate says by AND: none of it is FALSE where the predicate is not."""
    if isinstance(expression, exp.Paren):
        yield from conjuncts(expression.this)
    elif isinstance(expression, exp.And):
        yield from conjuncts(expression.this)
        yield from conjuncts(expression.expression)
    elif isinstance(expression, exp.Between) and not expression.args.get("symmetric"):
        yield exp.GTE(this=expression.this, expression=expression.args["low"])
        yield exp.LTE(this=expression.this, expression=expression.args["high"])
    else:
        yield expression


def below_zero(conjunct: exp.Expr, column: Callable[[exp.Column], tuple[Variable, Kind] | None]) -> list[Below]:
    """What a comparison says; nothing where it is none of linear forms.

    Args:
        conjunct: the comparison.
        column: whose value a column is, and of which kind; None where it is not known.
    """
    sign = _SIGNS.get(type(conjunct))
    if sign is None:
        return []
    left, right = _form(conjunct.this, column), _form(conjunct.expression, column)
    if left is None or right is None or left.kind != right.kind or left.kind == "span":
        return []
    form = left.plus(right.scaled(Fraction(-1)), "number").scaled(Fraction(sign))
    if not form.of:
        return []
    if isinstance(conjunct, exp.EQ):
        return [Below(form, strict=False), Below(form.scaled(Fraction(-1)), strict=False)]
    return [Below(form, isinstance(conjunct, (exp.LT, exp.GT)))]


def _form(expression: exp.Expr, column: Callable[[exp.Column], tuple[Variable, Kind] | None]) -> Form | None:
    if isinstance(expression, exp.Paren):
        return _form(expression.this, column)
    if isinstance(expression, exp.Column):
        variable = column(expression)
        return None if variable is None else Form(variable[1], ((variable[0], Fraction(1)),), Fraction(0))
    if isinstance(expression, exp.Neg):
        inner = _form(expression.this, column)
        return inner.scaled(Fraction(-1)) if inner is not None and inner.kind == "number" else None
    if isinstance(expression, (exp.Add, exp.Sub, exp.Mul)):
        left, right = _form(expression.this, column), _form(expression.expression, column)
        return None if left is None or right is None else _combined(expression, left, right)
    return _constant(expression)


def _combined(operation: exp.Expr, left: Form, right: Form) -> Form | None:
    kinds = (left.kind, right.kind)
    if isinstance(operation, exp.Mul):
        constant, other = (left, right) if not left.of else (right, left)
        return other.scaled(constant.constant) if not constant.of and kinds == ("number", "number") else None
    if isinstance(operation, exp.Add):
        if kinds == ("number", "number"):
            return left.plus(right, "number")
        return left.plus(right, "day") if "day" in kinds and kinds != ("day", "day") else None
    if kinds == ("number", "number") or kinds[0] == "day" != kinds[1]:
        return left.plus(right.scaled(Fraction(-1)), kinds[0])
    return None  # a difference of dates is days, one of timestamps an INTERVAL


def _constant(expression: exp.Expr) -> Form | None:
    value: Fraction | None = None
    kind: Kind = "number"
    try:
        if isinstance(expression, exp.Literal) and not expression.is_string:
            value = Fraction(expression.this) if _is_short(expression.this) else None
        elif isinstance(expression, exp.Cast) and isinstance(expression.this, exp.Literal):
            if expression.to.is_type("date", "timestamp", "timestampntz") and expression.this.is_string:
                at = datetime.datetime.fromisoformat(expression.this.this)
                value, kind = Fraction((at - _EPOCH) // _DAY), "day"
                value += Fraction((at - _EPOCH) % _DAY // datetime.timedelta(microseconds=1), 86_400_000_000)
        elif isinstance(expression, exp.Interval) and isinstance(expression.this, exp.Literal):
            days = _DAYS.get(str(expression.args.get("unit") or "").upper().removesuffix("S"))
            is_span = days is not None and _is_short(expression.this.this)
            value, kind = Fraction(expression.this.this) * days if is_span and days is not None else None, "span"
    except (ValueError, TypeError, OverflowError):
        return None
    return None if value is None else Form(kind, (), value)


def _is_short(number: str) -> bool:
    """Whether a number is written without an exponent, which may be of any size, and with few digits."""
    return len(number) <= _LONGEST and "e" not in number.lower()
