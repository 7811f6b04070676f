"""What a row adds to a sum, as DuckDB's SQL."""

from __future__ import annotations

from sqlglot import exp

from dpsql.core.domain import Domain
from dpsql.core.linear_query import Moment, Product
from dpsql.engines.duckdb.dialect import DuckDB, native_of
from dpsql.engines.sql.counts import Sums


def encode_steps(domain: Domain, moment: Moment | Product) -> exp.Expr:
    """In whole steps, as counters write it."""
    return Sums(moment).adds(domain, {attribute.name: native_of(attribute) for attribute in domain}, DuckDB(domain))
