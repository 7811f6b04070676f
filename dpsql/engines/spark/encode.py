"""Private values to codes, as SQL that Spark runs where no Python may run in its tasks.

It runs on private rows, so nothing in it can fail because of a value: comparisons with typed constants, as a search
tree. No column is cast. A row outside the domain gets the code of OTHER or of OUTSIDE; where the attribute has neither,
NULL. Spark has NaN above all numbers, and equal to itself, as DuckDB has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

from sqlglot import exp

from dpsql.core.domain import Attribute
from dpsql.engines.spark.constants import constant
from dpsql.engines.spark.failures import NotInSpark
from dpsql.engines.spark.types import Native

READ_AS: Final = (
    "register the table with engine := 'spark', make a column of numbers there, or copy the table into this database"
)
_FEW: Final = 4  # values that are compared one after the other


def column_of(name: str) -> exp.Column:
    """A column from its name, as it is stored."""
    return exp.column(exp.to_identifier(name, quoted=True))


def value_of(name: str, native: Native) -> exp.Expr:
    """A column to compare with constants: of texts the bytes decide."""
    column = column_of(name)
    return exp.Collate(this=column, expression=exp.Var(this="UTF8_BINARY")) if native.is_collated else column


def encode(attribute: Attribute, native: Native) -> exp.Expr:
    """The code of a column; total on every value of the type. NULL outside a domain without OTHER and OUTSIDE.

    Raises:
        NotInSpark: its texts are read as numbers, which would be a cast that fails for some.
    """
    if attribute.text:
        raise NotInSpark(f"the texts of {attribute.name!r} cannot be read as numbers in Spark's SQL: {READ_AS}")
    outside = _code(attribute.outside_code if attribute.other_code is None else attribute.other_code)
    null_code = _code(attribute.null_code) if attribute.nullable else outside
    ifs = [exp.If(this=missing(attribute, native), true=null_code)]
    if attribute.kind != "values":
        ifs.append(exp.If(this=within(attribute, native), true=_bin_of(attribute, native)))
        return exp.Case(ifs=ifs, default=outside.copy())
    pairs = [(value, code) for code, value in enumerate(attribute.values)]
    order = _order_of(native)
    if order is None:
        equal = [exp.If(this=_equals(attribute.name, value, native), true=_code(code)) for value, code in pairs]
        return exp.Case(ifs=ifs + equal, default=outside.copy())
    pairs.sort(key=lambda pair: order(pair[0]))
    return exp.Case(ifs=ifs, default=_searched(attribute.name, pairs, native, outside))


def missing(attribute: Attribute, native: Native) -> exp.Expr:
    """Whether a row has no value in the column: NULL, or one that the owner says stands for it."""
    is_null = exp.Is(this=column_of(attribute.name), expression=exp.null())
    listed = [constant(text, native) for text in attribute.nulls_as]
    return exp.or_(is_null, exp.In(this=value_of(attribute.name, native), expressions=listed)) if listed else is_null


def within(attribute: Attribute, native: Native) -> exp.Expr:
    """Whether a value is in one of the bins."""
    lowest, highest = (constant(attribute.edges[place], native) for place in (0, -1))
    column = column_of(attribute.name)
    return exp.and_(exp.GTE(this=column, expression=lowest), exp.LTE(this=column.copy(), expression=highest))


def _code(code: int | None) -> exp.Expr:
    return exp.null() if code is None else exp.Literal.number(code)


def _bin_of(attribute: Attribute, native: Native) -> exp.Expr:
    """The number of the bin that a value is in, of one that is in a bin; nothing to overflow."""
    column = column_of(attribute.name)
    if attribute.has_single_values and native.is_whole:
        return exp.Sub(this=column, expression=constant(str(attribute.ticks[0]), Native("bigint")))
    return _period(attribute, column, native, 0, attribute.regular)


def _period(attribute: Attribute, column: exp.Expr, native: Native, low: int, high: int) -> exp.Expr:
    """The number of a bin, by a search among the edges."""
    if high - low == 1:
        return exp.Literal.number(low)
    middle = (low + high) // 2
    below = exp.LT(this=column.copy(), expression=constant(attribute.edges[middle], native))
    lower = exp.If(this=below, true=_period(attribute, column, native, low, middle))
    return exp.Case(ifs=[lower], default=_period(attribute, column, native, middle, high))


def _order_of(native: Native) -> Callable[[str], Any] | None:
    """By what constants of a type are in the order of Spark; None where that is not plain."""
    if native.is_text:
        return str.encode
    if native.is_whole:
        return int
    return Decimal if native.name.startswith("decimal") else None


def _searched(name: str, pairs: Sequence[tuple[str, int]], native: Native, outside: exp.Expr) -> exp.Expr:
    """The code of a value among values in order."""
    if len(pairs) <= _FEW:
        ifs = [exp.If(this=_equals(name, value, native), true=_code(code)) for value, code in pairs]
        return exp.Case(ifs=ifs, default=outside.copy()) if ifs else outside.copy()
    middle = len(pairs) // 2
    below = exp.LT(this=value_of(name, native), expression=constant(pairs[middle][0], native))
    lower = exp.If(this=below, true=_searched(name, pairs[:middle], native, outside))
    return exp.Case(ifs=[lower], default=_searched(name, pairs[middle:], native, outside))


def _equals(name: str, text: str, native: Native) -> exp.Expr:
    """Whether Spark calls a value equal to the one that DuckDB writes so; of floats both take 0 and −0 as one."""
    return exp.EQ(this=value_of(name, native), expression=constant(text, native))
