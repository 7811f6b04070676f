"""What a row adds to a sum, as SQL that Spark runs: inside the moment's bounds, and nothing to fail.

    steps  =  CASE WHEN x is missing THEN missing WHEN x is in a bin THEN clamp(round(f(x)·multiplier)) ELSE outside END

The formula is DuckDB's, over the column in double precision, where Spark's arithmetic has no errors. Three of its
functions differ: Spark's floor, ceil and round make whole numbers of 64 bits, which would overflow. So each is written
with numbers below 2⁵³ only; larger ones are whole already.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlglot import exp

from dpsql.core.domain import Attribute, Domain
from dpsql.core.linear_query import Moment, Product
from dpsql.engines.duckdb.formulas import sql_of_formula
from dpsql.engines.spark.constants import double
from dpsql.engines.spark.encode import column_of, missing, within
from dpsql.engines.spark.types import Native

_WHOLE: Final = 2.0**53
_MOST: Final = 2.0**62
"""What is beyond this, or no number, adds nothing before it is clamped, as what is beyond 64 bits in DuckDB."""


def steps_of(domain: Domain, natives: Mapping[str, Native], moment: Moment | Product) -> exp.Expr:
    """What a row adds, in whole steps of 64 bits: of one column, or of two."""

    def steps(one: Moment) -> exp.Expr:
        return _steps(domain.by_name[one.column], natives[one.column], one)

    if isinstance(moment, Moment):
        return steps(moment)
    first = _times(steps(moment.first), 1.0)
    product = exp.Mul(this=first, expression=exp.Paren(this=steps(moment.second)))
    return _clamped(_times(product, moment.multiplier), moment.low, moment.high)


def _steps(attribute: Attribute, native: Native, moment: Moment) -> exp.Expr:
    added = sql_of_formula(moment.formula, exp.Paren(this=_times(column_of(attribute.name), 1.0))).transform(_as_spark)
    inside = exp.If(
        this=within(attribute, native), true=_clamped(_times(added, moment.multiplier), moment.low, moment.high)
    )
    of_null = exp.If(this=missing(attribute, native), true=exp.Literal.number(moment.missing))
    return exp.Case(ifs=[of_null, inside], default=exp.Literal.number(moment.outside))


def _times(number: exp.Expr, factor: float) -> exp.Expr:
    """A number in double precision: Spark makes one of it where it is multiplied by one."""
    return exp.Mul(this=exp.Paren(this=number), expression=double(factor))


def _clamped(number: exp.Expr, low: int, high: int) -> exp.Expr:
    """The nearest whole number of 64 bits, between two bounds; 0 between them for what is none."""
    rounded = _rounded(number)
    most = exp.Least(this=rounded, expressions=[double(float(high))])
    bounded = exp.Floor(this=exp.Greatest(this=most, expressions=[double(float(low))]))
    small = exp.LT(this=exp.Abs(this=number.copy()), expression=double(_MOST))
    return exp.Case(ifs=[exp.If(this=small, true=bounded)], default=exp.Literal.number(min(max(0, low), high)))


def _as_spark(node: exp.Expr) -> exp.Expr:
    """A function of DuckDB's as Spark has it."""
    if isinstance(node, exp.Floor | exp.Ceil):
        inside = node.this.transform(_as_spark)
        return _where_small(inside, type(node)(this=inside.copy()))
    if isinstance(node, exp.Round):
        decimals = node.args["decimals"]
        digits = -int(decimals.this.name) if isinstance(decimals, exp.Neg) else int(decimals.name)
        return _to_digits(node.this.transform(_as_spark), digits)
    return node


def _to_digits(number: exp.Expr, digits: int) -> exp.Expr:
    """A number rounded to so many digits after the point, or before it."""
    scale = double(10.0 ** abs(digits))
    up, down = (exp.Mul, exp.Div) if digits >= 0 else (exp.Div, exp.Mul)
    scaled = exp.Paren(this=up(this=exp.Paren(this=number), expression=scale))
    return exp.Paren(this=down(this=exp.Paren(this=_rounded(scaled)), expression=scale.copy()))


def _where_small(number: exp.Expr, whole: exp.Expr) -> exp.Expr:
    """A whole number of a number, in double precision; of one that is whole already, itself."""
    small = exp.LT(this=exp.Abs(this=number.copy()), expression=double(_WHOLE))
    return exp.Case(ifs=[exp.If(this=small, true=_times(whole, 1.0))], default=number)


def _rounded(number: exp.Expr) -> exp.Expr:
    """The nearest whole number in double precision, of two the one that is farther from 0."""
    size = exp.Abs(this=number)
    down = exp.Floor(this=size.copy())
    rest = exp.Sub(this=exp.Paren(this=size.copy()), expression=exp.Paren(this=down.copy()))
    up = exp.GTE(this=rest, expression=double(0.5))
    one = exp.Case(ifs=[exp.If(this=up, true=double(1.0))], default=double(0.0))
    away = exp.Add(this=_times(down, 1.0), expression=one)
    signed = exp.Mul(this=exp.Anonymous(this="sign", expressions=[number.copy()]), expression=exp.Paren(this=away))
    return _where_small(number.copy(), signed)
