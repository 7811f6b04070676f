"""Codes of rows themselves, for the owner who looks at how good a release is; no release is made of them.

    rows     =  SELECT *, row_number() OVER () AS place FROM source
    codes    =  SELECT code_1, …, code_k FROM rows [WHERE hash(place) % 2³¹ < share · 2³¹]

The hash of a row's place decides, so the same rows of the same table are drawn each time.
"""

from __future__ import annotations

from typing import Final

import duckdb
import numpy as np
import numpy.typing as npt
from sqlglot import exp

from dpsql.core.domain import Domain
from dpsql.engines.duckdb.counting import constant_errors
from dpsql.engines.duckdb.dialect import encode
from dpsql.engines.duckdb.settings import check_owned
from dpsql.engines.duckdb.units import unused
from dpsql.engines.source import Source

_STEPS: Final = 2**31


def codes_of(
    cursor: duckdb.DuckDBPyConnection, source: Source, domain: Domain, most: int
) -> tuple[npt.NDArray[np.int32], int]:
    """See `Engine.codes`."""
    number = exp.select(exp.alias_(exp.Count(this=exp.Star()), "n")).from_(source.table())
    place = unused(source, "dpsql_place")
    every_row = exp.alias_(exp.Window(this=exp.RowNumber()), place)
    rows = exp.select("*", every_row).from_(source.table()).subquery("rows", copy=False)
    names = [f"c{column}" for column in range(len(domain))]
    codes = [
        exp.Alias(this=encode(attribute), alias=exp.to_identifier(name))
        for name, attribute in zip(names, domain, strict=True)
    ]
    check_owned(cursor)
    with constant_errors():
        total = int(cursor.execute(number.sql(dialect="duckdb")).fetchall()[0][0])
        query = exp.Select(expressions=codes).from_(rows if total > most else source.table(), copy=False)
        if total > most:
            drawn = exp.Mod(this=exp.func("hash", exp.column(place), dialect="duckdb"), expression=_whole(_STEPS))
            query = query.where(exp.LT(this=drawn, expression=_whole(_STEPS * most // total)), copy=False)
            query = query.limit(most, copy=False)
        answer = cursor.execute(query.sql(dialect="duckdb")).fetchnumpy()
    columns = [np.asarray(np.ma.filled(answer[name], -1), np.int32) for name in names]
    return np.column_stack(columns), total


def _whole(number: int) -> exp.Expr:
    return exp.Literal.number(number)
