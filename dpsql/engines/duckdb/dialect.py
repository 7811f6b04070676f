"""DuckDB's types, constants and arithmetic; see `dpsql.engines.sql.dialect`.

Values are looked up by their hash, and single values and regular periods are found by arithmetic, which nothing can
overflow inside the range: a CASE computes it for no other row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

from sqlglot import exp

from dpsql.core.domain import Attribute
from dpsql.core.formula import Formula
from dpsql.core.spacing import spacing_of
from dpsql.engines.duckdb.formulas import double, sql_of_formula
from dpsql.engines.duckdb.reading import missing, value
from dpsql.engines.duckdb.types import constant_of, data_type, filled
from dpsql.engines.sql import codes
from dpsql.engines.sql.dialect import Dialect
from dpsql.engines.sql.types import Native

_MOST_SEARCHED: Final = 64


class DuckDB(Dialect):
    """See `Dialect`.

    Args:
        attributes: of the columns.
        read: where a column's values are in the attribute's type, of columns that were read before.
    """

    label: ClassVar[str] = "DuckDB"
    sqlglot: ClassVar[str] = "duckdb"
    cannot: ClassVar[Mapping[str, str]] = {}

    def __init__(self, attributes: Iterable[Attribute] = (), read: Mapping[str, exp.Expr] | None = None) -> None:
        self._values = {attribute.name: value(attribute) for attribute in attributes} | dict(read or {})

    def constant(self, text: str, native: Native) -> exp.Expr:
        """See `Dialect.constant`."""
        return constant_of(text, native.in_duckdb)

    def column(self, name: str, native: Native) -> exp.Expr:
        """See `Dialect.column`; of a column of texts that are read as numbers, the numbers."""
        return self._values[name].copy()

    def missing(self, attribute: Attribute, native: Native) -> exp.Expr:
        """See `Dialect.missing`; texts by their bytes."""
        return missing(attribute)

    def listed(self, attribute: Attribute, column: exp.Expr) -> exp.Expr:
        """A hash look-up: the text that equal values share, as a member of an ENUM of the domain's texts.

        Where there is no such text, DuckDB compares the values themselves. It also does where earlier versions took two
        equal values, of which the first one counts.
        """
        of_type = attribute.of_type
        texts = [of_type.folded(value) for value in attribute.values]
        if of_type.equal_text is None or len({*texts}) < len(texts):
            place = _place_of(attribute, column)
        else:
            members = [exp.Literal.string(text) for text in texts]
            kind = exp.DataType(this=exp.DataType.Type.ENUM, expressions=members)
            text = exp.TryCast(this=filled(of_type.equal_text, x=column), to=kind)
            place = exp.func("enum_code", text, dialect="duckdb")
        return exp.Cast(this=place, to=data_type("INTEGER"))

    def place(self, attribute: Attribute, native: Native, column: exp.Expr) -> exp.Expr | None:
        """See `Dialect.place`: steps of the type above the lowest value, or the number of a period."""
        if not attribute.has_single_values:
            return _period(attribute, column)
        template = attribute.of_type.ticks_above
        if template is None:
            return None
        lowest = constant_of(attribute.edges[0], attribute.type)
        return filled(template, x=column, y=lowest, t=exp.Literal.number(attribute.ticks[0]))

    def scaled(
        self, attribute: Attribute, native: Native, column: exp.Expr, formula: Formula, multiplier: float
    ) -> exp.Expr:
        """See `Dialect.scaled`: the formula is written from nodes that cannot fail."""
        added = sql_of_formula(formula, exp.TryCast(this=column, to=data_type("DOUBLE")))
        return exp.Mul(this=added, expression=exp.Literal.number(f"{multiplier:.17e}"))

    def multiplied(self, first: exp.Expr, second: exp.Expr, multiplier: float) -> exp.Expr:
        """See `Dialect.multiplied`."""
        doubles = [exp.cast(steps, "DOUBLE", dialect="duckdb") for steps in (first, second)]
        return exp.Mul(this=exp.Mul(this=doubles[0], expression=doubles[1]), expression=double(multiplier))

    def clamped(self, number: exp.Expr, low: int, high: int) -> exp.Expr:
        """See `Dialect.clamped`; what is NULL adds nothing, and the clamp comes last."""
        steps = exp.TryCast(this=exp.func("round", number, dialect="duckdb"), to=data_type("BIGINT"))
        not_null = exp.Coalesce(this=steps, expressions=[exp.Literal.number(0)])
        least = exp.func("least", not_null, exp.Literal.number(high), dialect="duckdb")
        return exp.func("greatest", least, exp.Literal.number(low), dialect="duckdb")


def encode(attribute: Attribute) -> exp.Expr:
    """The code of a column; see `dpsql.engines.sql.codes.encode`."""
    return codes.encode(attribute, native_of(attribute), DuckDB([attribute]))


def native_of(attribute: Attribute) -> Native:
    """The type in which a column is compared."""
    return Native("", attribute.type)


def _place_of(attribute: Attribute, column: exp.Expr) -> exp.Expr:
    """The place of a value among the domain's values, from 0 on; NULL where it is none of them."""
    listed = exp.Array(expressions=[exp.Literal.string(value) for value in attribute.values])
    typed = exp.Cast(this=listed, to=data_type(f"{attribute.type}[]"))
    place = exp.Anonymous(this="list_position", expressions=[typed, column])
    from_one = exp.Anonymous(this="nullif", expressions=[place, exp.Literal.number(0)])
    return exp.Sub(this=from_one, expression=exp.Literal.number(1))


def _period(attribute: Attribute, column: exp.Expr) -> exp.Expr | None:
    """The number of the period that a time is in, where all bins but the first and the last are as long; else None.

    A search tree of many thousand edges takes DuckDB seconds to parse.
    """
    to_tick = attribute.of_type.to_tick
    if to_tick is None or attribute.regular <= _MOST_SEARCHED:
        return None
    first, *_, end = ticks = [int(tick) for tick in attribute.ticks]
    spacing = spacing_of(ticks)
    if spacing is None or spacing.many > 1 or not spacing.start <= first < end <= spacing.end:
        return None
    passed = filled(to_tick, x=column)
    start = exp.Literal.number(spacing.start)
    whole = exp.Paren(this=exp.Sub(this=exp.TryCast(this=passed, to=data_type("BIGINT")), expression=start))
    return exp.IntDiv(this=whole, expression=exp.Literal.number(spacing.width))
