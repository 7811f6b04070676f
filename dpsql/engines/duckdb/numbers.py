"""The numbers of a column of the database itself, such as of a synthetic table."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from dpsql.core.domain import Attribute
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.duckdb.reading import missing, value


def finite_number(attribute: Attribute) -> exp.Expr:
    """The value of a column as a finite number; NULL where it has none."""
    number = exp.TryCast(this=value(attribute), to=exp.DataType.build("DOUBLE"))
    is_one = exp.and_(exp.not_(missing(attribute)), exp.func("isfinite", number.copy()))
    return exp.Case(ifs=[exp.If(this=is_one, true=number)])


def numbers(cursor: Cursor, table: exp.Table, attribute: Attribute) -> npt.NDArray[np.float64]:
    """The finite values of a column, in whatever order."""
    inner = exp.select(exp.alias_(finite_number(attribute), "x")).from_(table).subquery("dpsql_numbers")
    query = exp.select("x").from_(inner).where("x IS NOT NULL").sql(dialect="duckdb")
    return np.asarray(cursor.execute(query).fetchnumpy()["x"], np.float64)
