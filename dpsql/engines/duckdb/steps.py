"""What a row adds to a sum, as SQL that DuckDB runs on private rows: of one column, or of two."""

from __future__ import annotations

from sqlglot import exp

from dpsql.core.domain import Domain
from dpsql.core.linear_query import Moment, Product
from dpsql.engines.duckdb.encode import encode_steps
from dpsql.engines.duckdb.types import data_type


def steps_of(domain: Domain, moment: Moment | Product) -> exp.Expr:
    """What a row adds, in whole steps: of one column, or of two; nothing to fail.

    The steps of each column are multiplied in DOUBLE, which does not overflow: each is 2^32 at most.
    """
    if isinstance(moment, Moment):
        return encode_steps(domain.by_name[moment.column], moment)
    doubles = [
        exp.cast(encode_steps(domain.by_name[one.column], one), "DOUBLE", dialect="duckdb")
        for one in (moment.first, moment.second)
    ]
    scale = exp.cast(exp.Literal.string(repr(moment.multiplier)), "DOUBLE", dialect="duckdb")
    product = exp.Mul(this=exp.Mul(this=doubles[0], expression=doubles[1]), expression=scale)
    steps = exp.TryCast(this=exp.func("round", product, dialect="duckdb"), to=data_type("BIGINT"))
    known = exp.Coalesce(this=steps, expressions=[exp.Literal.number(0)])
    low, high = exp.Literal.number(moment.low), exp.Literal.number(moment.high)
    return exp.func("greatest", exp.func("least", known, high, dialect="duckdb"), low, dialect="duckdb")
