"""Private values to codes, as SQL that DuckDB runs.

It runs on private rows, so nothing in it can fail or take longer because of a value: comparisons with typed constants,
`TRY_CAST`, no arithmetic that could overflow. A row outside the domain gets the code of OTHER or of OUTSIDE; where the
attribute has neither, NULL.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from sqlglot import exp

from dpsql.core.domain import Attribute
from dpsql.core.linear_query import Moment
from dpsql.engines.duckdb.formulas import sql_of_formula
from dpsql.engines.duckdb.reading import missing, value
from dpsql.engines.duckdb.types import constant_of, data_type, filled

_MOST_SEARCHED: Final = 64


def encode(attribute: Attribute, read: exp.Expr | None = None) -> exp.Expr:
    """The code of a column; total on every value of the type. NULL outside a domain without OTHER and OUTSIDE.

    Args:
        attribute: of the column.
        read: where the column's values are in the attribute's type, if they were read before.
    """
    column = value(attribute) if read is None else read
    regular = _encode_values(attribute, column) if attribute.kind == "values" else _encode_bins(attribute, column)
    outside = attribute.outside_code if attribute.other_code is None else attribute.other_code
    known = exp.Coalesce(this=exp.Cast(this=regular, to=data_type("INTEGER")), expressions=[_null_or(outside)])
    null_code = attribute.null_code if attribute.nullable else outside
    is_missing = exp.If(this=missing(attribute), true=_null_or(null_code))
    return exp.Case(ifs=[is_missing], default=known)


def _null_or(code: int | None) -> exp.Expr:
    return exp.null() if code is None else exp.Literal.number(code)


def _encode_values(attribute: Attribute, column: exp.Expr) -> exp.Expr:
    """A hash look-up: the text that equal values share, as a member of an ENUM of the domain's texts.

    Where there is no such text, DuckDB compares the values themselves. It also does where earlier versions took two
    equal values, of which the first one counts.
    """
    of_type = attribute.of_type
    texts = [of_type.folded(value) for value in attribute.values]
    if of_type.equal_text is None or len({*texts}) < len(texts):
        return _place_of(attribute, column)
    kind = exp.DataType(this=exp.DataType.Type.ENUM, expressions=[exp.Literal.string(text) for text in texts])
    text = filled(of_type.equal_text, x=column)
    return exp.func("enum_code", exp.TryCast(this=text, to=kind), dialect="duckdb")


def _place_of(attribute: Attribute, column: exp.Expr) -> exp.Expr:
    """The place of a value among the domain's values, from 0 on; NULL where it is none of them."""
    listed = exp.Array(expressions=[exp.Literal.string(value) for value in attribute.values])
    typed = exp.Cast(this=listed, to=data_type(f"{attribute.type}[]"))
    place = exp.Anonymous(this="list_position", expressions=[typed, column])
    from_one = exp.Anonymous(this="nullif", expressions=[place, exp.Literal.number(0)])
    return exp.Sub(this=from_one, expression=exp.Literal.number(1))


def encode_steps(attribute: Attribute, moment: Moment, read: exp.Expr | None = None) -> exp.Expr:
    """What a row adds, in whole steps: inside the moment's bounds whatever the value is, and nothing to fail.

    The formula runs on values inside the bins only, and NaN is outside. It is written by `sql_of_formula` from nodes
    that cannot fail; what it makes NULL adds nothing, and the clamp comes last.
    """
    column = value(attribute) if read is None else read
    added = sql_of_formula(moment.formula, exp.TryCast(this=column, to=data_type("DOUBLE")))
    scaled = exp.Mul(this=added, expression=exp.Literal.number(f"{moment.multiplier:.17e}"))
    steps = exp.TryCast(this=exp.func("round", scaled, dialect="duckdb"), to=data_type("BIGINT"))
    low, high, outside, of_null = (
        exp.Literal.number(number) for number in (moment.low, moment.high, moment.outside, moment.missing)
    )
    known = exp.Coalesce(this=steps, expressions=[exp.Literal.number(0)])
    bounded = exp.func("greatest", exp.func("least", known, high, dialect="duckdb"), low, dialect="duckdb")
    return exp.case().when(missing(attribute), of_null).when(_within(attribute, column), bounded).else_(outside)


def _within(attribute: Attribute, column: exp.Expr) -> exp.Expr:
    """Whether a value is in one of the bins."""
    lowest, highest = (constant_of(attribute.edges[place], attribute.type) for place in (0, -1))
    return exp.and_(exp.GTE(this=column.copy(), expression=lowest), exp.LTE(this=column.copy(), expression=highest))


def _encode_bins(attribute: Attribute, column: exp.Expr) -> exp.Expr:
    """A search tree of comparisons with the edges, inside the range; nothing to overflow."""
    inside = _within(attribute, column)
    steps = _steps(attribute, column) if attribute.has_single_values else _period(attribute, column)
    if steps is None:
        steps = _search(column, attribute, 0, attribute.regular)
    # Inside the range the difference of a step cannot overflow; a CASE computes it for no other row.
    return exp.Case(ifs=[exp.If(this=inside, true=steps)])


def _steps(attribute: Attribute, column: exp.Expr) -> exp.Expr | None:
    """How many steps of its type a value is above the lowest one, for bins of one value; None for other types."""
    template = attribute.of_type.ticks_above
    if template is None:
        return None
    lowest = constant_of(attribute.edges[0], attribute.type)
    return filled(template, x=column, y=lowest, t=exp.Literal.number(attribute.ticks[0]))


def _period(attribute: Attribute, column: exp.Expr) -> exp.Expr | None:
    """The number of the period that a time is in, where all bins but the first and the last are as long; else None.

    A search tree of many thousand edges takes DuckDB seconds to parse.
    """
    to_tick = attribute.of_type.to_tick
    if to_tick is None or attribute.regular <= _MOST_SEARCHED:
        return None
    widths = np.diff(np.array(attribute.ticks, np.int64))
    width = int(widths[1])
    if (widths[1:-1] != width).any() or max(widths[0], widths[-1]) > width:
        return None
    passed = filled(to_tick, x=column)
    start = exp.Literal.number(int(attribute.ticks[1]) - width)
    whole = exp.Paren(this=exp.Sub(this=exp.TryCast(this=passed, to=data_type("BIGINT")), expression=start))
    return exp.IntDiv(this=whole, expression=exp.Literal.number(width))


def _search(column: exp.Expr, attribute: Attribute, low: int, high: int) -> exp.Expr:
    if high - low == 1:
        return exp.Literal.number(low)
    middle = (low + high) // 2
    edge = constant_of(attribute.edges[middle], attribute.type)
    below = exp.LT(this=column.copy(), expression=edge)  # the builder would copy each half again
    lower = exp.If(this=below, true=_search(column, attribute, low, middle))
    return exp.Case(ifs=[lower], default=_search(column, attribute, middle, high))
