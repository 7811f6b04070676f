"""What a row adds to a sum, as SQL: inside the moment's bounds whatever the value is, and nothing to fail.

    steps  =  CASE WHEN x is missing THEN missing WHEN x is in a bin THEN clamp(f(x)·multiplier) ELSE outside END
    of two =  clamp(steps_1 · steps_2 · multiplier), multiplied in DOUBLE, which does not overflow: each is 2^32 at most

The arithmetic is the dialect's: `Dialect.scaled`, `Dialect.multiplied` and `Dialect.clamped`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from dpsql.core.domain import Domain
from dpsql.core.linear_query import Moment, Product
from dpsql.engines.sql.codes import within
from dpsql.engines.sql.dialect import Dialect
from dpsql.engines.sql.types import Native


def steps_of(domain: Domain, natives: Mapping[str, Native], moment: Moment | Product, dialect: Dialect) -> exp.Expr:
    """What a row adds, in whole steps of 64 bits: of one column, or of two."""
    if isinstance(moment, Product):
        first, second = (steps_of(domain, natives, factor, dialect) for factor in (moment.first, moment.second))
        return dialect.clamped(dialect.multiplied(first, second, moment.multiplier), moment.low, moment.high)
    attribute, native = domain.by_name[moment.column], natives[moment.column]
    column = dialect.column(moment.column, native)
    added = dialect.scaled(attribute, native, column, moment.formula, moment.multiplier)
    inside = exp.If(
        this=within(attribute, native, dialect, column), true=dialect.clamped(added, moment.low, moment.high)
    )
    of_null = exp.If(this=dialect.missing(attribute, native), true=exp.Literal.number(moment.missing))
    return exp.Case(ifs=[of_null, inside], default=exp.Literal.number(moment.outside))


def columns_of(moment: Moment | Product) -> Sequence[str]:
    """The columns that a row's steps are of."""
    parts = (moment,) if isinstance(moment, Moment) else (moment.first, moment.second)
    return [part.column for part in parts]
