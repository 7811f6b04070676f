"""Rows of public tables in the codes of a domain: the host's part of DuckDB, whatever engine has the private rows."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import numpy as np
import numpy.typing as npt
from sqlglot import exp

from dpsql.core.domain import Attribute
from dpsql.core.names import fold
from dpsql.engines.duckdb.dialect import encode
from dpsql.engines.duckdb.types import column_of


def distinct_codes(
    cursor: duckdb.DuckDBPyConnection, table: exp.Expr, columns: Sequence[tuple[Attribute, str]], *, most: int
) -> tuple[npt.NDArray[np.int64], list[bool], npt.NDArray[np.float64]]:
    """The distinct rows of a public table, in codes.

    Args:
        cursor: a connection of the caller's, in the snapshot in which the table was found to be public.
        table: the table.
        columns: for each attribute, which column it is there; of whatever type.
        most: rows that are returned.

    Returns:
        Codes, shape (rows, attributes); whether a row has a value outside the domain of each attribute; and how many
        rows of the table each row stands for.
    """
    attributes = [attribute for attribute, _ in columns]
    mark = "null"
    while any(fold(name).startswith(mark) for attribute, other in columns for name in (attribute.name, other)):
        mark += "_"
    typed, failed = [], []
    for place, (attribute, name) in enumerate(columns):
        kind = exp.DataType.build(attribute.stored_type, dialect="duckdb")
        typed.append(exp.alias_(exp.TryCast(this=column_of(name), to=kind), attribute.name, quoted=True))
        typed.append(exp.alias_(exp.Is(this=column_of(name), expression=exp.null()), f"{mark}{place}"))
        lost = exp.Is(this=column_of(attribute.name), expression=exp.null())  # a value that is not of the column's type
        failed.append(exp.alias_(exp.and_(exp.not_(exp.column(f"{mark}{place}")), lost), f"f{place}"))
    rows = exp.select(*typed).from_(table).subquery("rows")
    codes = [exp.alias_(encode(attribute.inner), f"c{place}") for place, attribute in enumerate(attributes)]
    encoded = exp.select(*codes, *failed).from_(rows)
    grouped = exp.select("*", "count(*) AS n").from_(encoded.subquery("codes")).group_by("ALL").limit(most)
    answer = cursor.execute(grouped.sql(dialect="duckdb")).fetchnumpy()
    places = range(len(attributes))
    outside = [
        bool((np.ma.getmaskarray(np.ma.asarray(answer[f"c{n}"])) | np.asarray(answer[f"f{n}"], bool)).any())
        for n in places
    ]
    cell_codes = np.stack([np.ma.filled(np.ma.asarray(answer[f"c{n}"]), -1).astype(np.int64) for n in places], axis=1)
    return cell_codes, outside, np.asarray(answer["n"], np.float64)
