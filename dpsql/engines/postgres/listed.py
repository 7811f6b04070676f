"""The values of a column that two privacy units have or more, for domains that are discovered with noise.

    SELECT concat(x) COLLATE "C" AS value, count(*) AS n FROM table WHERE x IS NOT NULL GROUP BY 1 HAVING count(*) >= 2

With privacy units it is the number of units, count(DISTINCT unit). Texts are those that Postgres writes; DuckDB writes
them anew. Two that DuckDB writes alike are one value, with the larger of their numbers: a unit more adds at most 1 to
it, as to each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from dpsql.engines.checked import WrongCounts, listed_once
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.duckdb.ticks import canonical
from dpsql.engines.postgres.types import Native, column_of, constant, value_of
from dpsql.errors import InvalidArgument

_IDENTITY: Final = ("VARCHAR",)  # texts that are written alike in both


def listed_values(
    fetch: Callable[[exp.Expr], dict[str, Any]],
    rows: exp.Expr,
    column: str,
    natives: Mapping[str, Native],
    unit: str | None,
    host: Cursor,
) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Values as DuckDB writes them, in the order of their bytes, and how many units have each."""
    native, value = natives[column], column_of(column)
    shown: exp.Expr = exp.Anonymous(this="concat", expressions=[value])
    if native.is_float:  # 0 and −0 are one value
        shown = exp.case().when(exp.EQ(this=value.copy(), expression=constant("0", native)), "'0'").else_(shown)
    text = exp.Collate(this=exp.Paren(this=shown), expression=exp.Identifier(this="C", quoted=True))
    counted = exp.Count(this=exp.Star() if unit is None else exp.Distinct(expressions=[value_of(unit, natives[unit])]))
    there = exp.Not(this=exp.Is(this=value.copy(), expression=exp.null()))
    query = exp.select(exp.alias_(text, "value"), exp.alias_(counted, "n")).from_(rows).where(there)
    many = exp.GTE(this=counted.copy(), expression=exp.Literal.number(2))
    found = fetch(query.group_by(exp.Literal.number(1)).having(many))
    try:
        pairs = list(zip(found["value"].to_pylist(), map(int, found["n"].to_pylist()), strict=True))
    except (KeyError, TypeError, ValueError):
        raise WrongCounts from None
    written = _written([text for text, _ in pairs], native, host)
    return listed_once(zip(written, (number for _, number in pairs), strict=True), native.in_duckdb)


def _written(texts: list[str], native: Native, host: Cursor) -> list[str]:
    """Texts of Postgres as DuckDB writes the values."""
    kind = native.in_duckdb
    if native.name == "bpchar":
        return [text.rstrip(" ") for text in texts]
    if kind in _IDENTITY or native.name == "enum":
        return texts
    shown = [f"{text[:-3]} (BC)" if text.endswith(" BC") else text for text in texts]
    try:
        return canonical(host, shown, kind, "a value")
    except InvalidArgument:
        raise WrongCounts from None
