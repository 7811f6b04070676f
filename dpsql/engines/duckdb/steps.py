"""What a row adds to a sum, as SQL that DuckDB runs on private rows: of one column, or of two."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dpsql.core.domain import Domain
from dpsql.core.linear_query import Moment, Product
from dpsql.engines.duckdb.encode import encode_steps
from dpsql.engines.duckdb.types import data_type


def steps_of(domain: Domain, moment: Moment | Product, read: Callable[[str], exp.Expr | None]) -> exp.Expr:
    """What a row adds, in whole steps: of one column, or of two; nothing to fail.

    The steps of each column are multiplied in DOUBLE, which does not overflow: each is 2^32 at most.

    Args:
        domain: of the columns.
        moment: what is summed.
        read: where a column's values are in the attribute's type, if they were read before.
    """

    def steps(one: Moment) -> exp.Expr:
        return encode_steps(domain.by_name[one.column], one, read(one.column))

    if isinstance(moment, Moment):
        return steps(moment)
    doubles = [exp.cast(steps(one), "DOUBLE", dialect="duckdb") for one in (moment.first, moment.second)]
    scale = exp.cast(exp.Literal.string(repr(moment.multiplier)), "DOUBLE", dialect="duckdb")
    product = exp.Mul(this=exp.Mul(this=doubles[0], expression=doubles[1]), expression=scale)
    rounded = exp.TryCast(this=exp.func("round", product, dialect="duckdb"), to=data_type("BIGINT"))
    known = exp.Coalesce(this=rounded, expressions=[exp.Literal.number(0)])
    low, high = exp.Literal.number(moment.low), exp.Literal.number(moment.high)
    return exp.func("greatest", exp.func("least", known, high, dialect="duckdb"), low, dialect="duckdb")
