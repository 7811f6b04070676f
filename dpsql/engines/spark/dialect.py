"""Spark's types and constants, and its arithmetic; see `dpsql.engines.sql.dialect`.

A constant is a text with a type, which Spark reads while it plans, before any row. Spark has NaN above all numbers, and
equal to itself, as DuckDB has. A formula is DuckDB's, over the column in double precision, where Spark's arithmetic has
no errors. Three of its functions differ: Spark's floor, ceil and round make whole numbers of 64 bits, which would
overflow. So each is written with numbers below 2⁵³ only; larger ones are whole already.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar, Final

from sqlglot import exp

from dpsql.core.domain import Attribute
from dpsql.core.formula import Formula
from dpsql.engines.duckdb.formulas import sql_of_formula
from dpsql.engines.sql import types
from dpsql.engines.sql.dialect import NUMBERS, Dialect
from dpsql.engines.sql.types import NO_DOMAIN, Native, column_of, typed

_KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "boolean": (types.TRUTH, "BOOLEAN"),
    "tinyint": (types.WHOLE, "TINYINT"),
    "smallint": (types.WHOLE, "SMALLINT"),
    "int": (types.WHOLE, "INTEGER"),
    "bigint": (types.WHOLE, "BIGINT"),
    "float": (types.FLOAT, "FLOAT"),
    "double": (types.FLOAT, "DOUBLE"),
    "date": (types.DATE, "DATE"),
    "timestamp": (types.INSTANT, "TIMESTAMP WITH TIME ZONE"),
    "timestamp_ntz": (types.TIMESTAMP, "TIMESTAMP"),
}
_TEXT: Final = re.compile(r"(string|varchar\(\d+\)|char\(\d+\))( collate \w+)?")
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
_BC: Final = re.compile(r"^0*(\d+)(-.*?) \(BC\)(.*)$")
_OFFSET: Final = re.compile(r"([+-]\d\d)$")
_WHOLE: Final = 2.0**53
_MOST: Final = 2.0**62
"""What is beyond this, or no number, adds nothing before it is clamped, as what is beyond 64 bits in DuckDB."""


def native_of(name: str) -> Native:
    """What a type of Spark is, by its name as Spark writes it.

    >>> [native_of(name).in_duckdb for name in ("decimal(9,2)", "string collate UTF8_LCASE", "map<int,int>")]
    ['DECIMAL(9,2)', 'VARCHAR', 'BLOB']
    """
    digits = _DECIMAL.fullmatch(name)
    if digits:
        return Native(types.DECIMAL, f"DECIMAL({digits[1]},{digits[2]})", name)
    if _TEXT.fullmatch(name):
        return Native(types.TEXT, "VARCHAR", name)
    return Native(*_KINDS[name], name) if name in _KINDS else NO_DOMAIN


def is_collated(native: Native) -> bool:
    """Whether Spark calls texts of other bytes equal."""
    return " collate " in native.name and not native.name.endswith(" collate UTF8_BINARY")


class Spark(Dialect):
    """See `Dialect`."""

    label: ClassVar[str] = "Spark"
    sqlglot: ClassVar[str] = "spark"
    long: ClassVar[Native] = native_of("bigint")
    cannot: ClassVar[Mapping[str, str]] = {
        **Dialect.cannot,
        "read_as": "register the table with engine := 'spark', make a column of numbers there, or copy the table into "
        "this database",
    }

    def can_be(self, text: str, native: Native) -> bool:
        """See `Dialect.can_be`: texts there may have a NUL."""
        return True

    def spelled(self, text: str, native: Native) -> str:
        """See `Dialect.spelled`: an offset has minutes, and the year 1 BC is 0."""
        if native.kind == types.FLOAT:
            return NUMBERS.get(text, text)
        before_christ = _BC.match(text)
        if before_christ:
            year = 1 - int(before_christ[1])
            text = f"{'-' if year < 0 else ''}{abs(year):04}{before_christ[2]}{before_christ[3]}"
        return _OFFSET.sub(r"\1:00", text) if native.kind == types.INSTANT else text

    def column(self, name: str, native: Native) -> exp.Expr:
        """See `Dialect.column`: of texts the bytes decide."""
        column = column_of(name)
        return exp.Collate(this=column, expression=exp.Var(this="UTF8_BINARY")) if is_collated(native) else column

    def shown(self, name: str, native: Native) -> exp.Expr:
        """See `Dialect.shown`: the bytes of its text, of which 0 and −0 are one."""
        value = column_of(name)
        text: exp.Expr = exp.Anonymous(this="concat", expressions=[value])
        if native.kind == types.INSTANT:  # which Spark would write in the zone of the session, and not say it
            layout = exp.Literal.string("yyyy-MM-dd HH:mm:ss.SSSSSSXXX")
            text = exp.Anonymous(this="date_format", expressions=[value, layout])
        if native.kind == types.FLOAT:
            zero = exp.EQ(this=value.copy(), expression=self.constant("0", native))
            text = exp.case().when(zero, "'0.0'").else_(text)
        return exp.Anonymous(this="encode", expressions=[text, exp.Literal.string("UTF-8")])

    def scaled(
        self, attribute: Attribute, native: Native, column: exp.Expr, formula: Formula, multiplier: float
    ) -> exp.Expr:
        """See `Dialect.scaled`."""
        added = sql_of_formula(formula, exp.Paren(this=_times(column_of(attribute.name), 1.0))).transform(_as_spark)
        return _times(added, multiplier)

    def multiplied(self, first: exp.Expr, second: exp.Expr, multiplier: float) -> exp.Expr:
        """See `Dialect.multiplied`."""
        return _times(exp.Mul(this=_times(first, 1.0), expression=exp.Paren(this=second)), multiplier)

    def clamped(self, number: exp.Expr, low: int, high: int) -> exp.Expr:
        """See `Dialect.clamped`."""
        most = exp.Least(this=_rounded(number), expressions=[double(float(high))])
        bounded = exp.Floor(this=exp.Greatest(this=most, expressions=[double(float(low))]))
        small = exp.LT(this=exp.Abs(this=number.copy()), expression=double(_MOST))
        return exp.Case(ifs=[exp.If(this=small, true=bounded)], default=exp.Literal.number(min(max(0, low), high)))


SPARK: Final = Spark()


def double(number: float) -> exp.Expr:
    """A constant in double precision."""
    return typed(repr(number), "DOUBLE", "spark")


def _times(number: exp.Expr, factor: float) -> exp.Expr:
    """A number in double precision: Spark makes one of it where it is multiplied by one."""
    return exp.Mul(this=exp.Paren(this=number), expression=double(factor))


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
    carry = exp.Case(ifs=[exp.If(this=up, true=double(1.0))], default=double(0.0))
    away = exp.Add(this=_times(down, 1.0), expression=carry)
    signed = exp.Mul(this=exp.Anonymous(this="sign", expressions=[number.copy()]), expression=exp.Paren(this=away))
    return _where_small(number.copy(), signed)
