"""Constants of Spark's SQL: a text with a type, which Spark reads while it plans, before any row."""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from dpsql.engines.spark.types import Native

_NUMBERS: Final = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_BC: Final = re.compile(r"^0*(\d+)(-.*?) \(BC\)(.*)$")
_OFFSET: Final = re.compile(r"([+-]\d\d)$")


def constant(text: str, native: Native) -> exp.Expr:
    """A constant of a type, from the text of the DuckDB value.

    >>> constant("inf", Native("double")).sql(dialect="spark")
    "CAST('Infinity' AS DOUBLE)"
    >>> constant("2020-01-01 00:00:00+00", Native("timestamp")).sql(dialect="spark")
    "CAST('2020-01-01 00:00:00+00:00' AS TIMESTAMP)"
    """
    if native.is_text:
        return exp.Literal.string(text)
    return exp.Cast(this=exp.Literal.string(_spelled(text, native)), to=_kind(native.name))


def whole(number: int) -> exp.Expr:
    """A constant of 64 bits, so that what is computed with it has as many."""
    return constant(str(number), Native("bigint"))


def double(number: float) -> exp.Expr:
    """A constant in double precision."""
    return constant(repr(number), Native("double"))


def _kind(name: str) -> exp.DataType:
    return exp.DataType.build(name, dialect="spark")


def _spelled(text: str, native: Native) -> str:
    """A value as Spark reads it: an offset has minutes, and the year 1 BC is 0."""
    if native.is_float:
        return _NUMBERS.get(text, text)
    before_christ = _BC.match(text)
    if before_christ:
        year = 1 - int(before_christ[1])
        text = f"{'-' if year < 0 else ''}{abs(year):04}{before_christ[2]}{before_christ[3]}"
    return _OFFSET.sub(r"\1:00", text) if native.name == "timestamp" else text
