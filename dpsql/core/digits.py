"""Numbers of promises as people read them: losses are rounded up, what is left of a budget down."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Final

PRECISE: Final = Context(prec=60)
Number = float | Fraction | Decimal


def up(value: Number, digits: int = 6) -> str:
    """A number of so many digits that is no less than the value: for what is spent, lost or promised.

    >>> up(0.1), up(1.00000001), up(4.19196e-10, 3)
    ('0.1', '1.00001', '4.2e-10')
    """
    return _rounded(value, digits, ROUND_CEILING)


def down(value: Number, digits: int = 6) -> str:
    """A number of so many digits that is no more than the value: for what is left.

    >>> down(0.99999999), down(0.0)
    ('0.999999', '0')
    """
    return _rounded(value, digits, ROUND_FLOOR)


def _rounded(value: Number, digits: int, rounding: str) -> str:
    exact = decimal(value)
    if not exact.is_finite():
        return str(float(exact))
    return f"{float(Context(prec=digits, rounding=rounding).plus(exact)):.{digits}g}"


def decimal(value: Number) -> Decimal:
    """The value; a float is what it is written as, so that 0.1 is 0.1."""
    if isinstance(value, Fraction):
        return PRECISE.divide(Decimal(value.numerator), Decimal(value.denominator))
    return value if isinstance(value, Decimal) else Decimal(repr(float(value)))
