"""Public values as DuckDB writes them in a column's type, and as ticks, its whole numbers or floats, and back."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import duckdb
import numpy as np
from sqlglot import exp

from dpsql.core.domain import FLOAT_TYPES, INTEGER_TYPES, decimal_scale
from dpsql.engines.duckdb.types import constant_of, data_type, text_of, with_x
from dpsql.errors import InvalidArgument

_LARGEST_TICK: Final = 2**62
_LARGEST_FLOAT: Final = 1e307  # the width of the whole range is finite too
# tick <- value and value <- tick, by type; integers, decimals and floats are written out below
TO_TICK: Final = {
    "DATE": "CAST(date_diff('day', DATE '1970-01-01', x) AS BIGINT)",
    "TIME": "epoch_us(x)",
    "TIMESTAMP": "epoch_us(x)",
    "TIMESTAMP_S": "epoch_us(x) // 1000000",
    "TIMESTAMP_MS": "epoch_us(x) // 1000",
    "TIMESTAMP_NS": "epoch_ns(x)",
    "TIMESTAMP WITH TIME ZONE": "epoch_us(x)",
}
_FROM_TICK: Final = {
    "DATE": "DATE '1970-01-01' + CAST(x AS INTEGER)",
    "TIME": "TIME '00:00:00' + to_microseconds(x)",
    "TIMESTAMP": "make_timestamp(x)",
    "TIMESTAMP_S": "CAST(make_timestamp(x * 1000000) AS TIMESTAMP_S)",
    "TIMESTAMP_MS": "CAST(make_timestamp(x * 1000) AS TIMESTAMP_MS)",
    "TIMESTAMP_NS": "make_timestamp_ns(x)",
    "TIMESTAMP WITH TIME ZONE": "make_timestamp(x) AT TIME ZONE 'UTC'",
}
_NUMBERED: Final = "SELECT unnest(CAST($1 AS VARCHAR[])) AS v, generate_subscripts(CAST($1 AS VARCHAR[]), 1) AS i"


def canonical(cursor: duckdb.DuckDBPyConnection, values: Sequence[Any], type_name: str, argument: str) -> list[str]:
    """Public values as DuckDB writes them in the column's type.

    Raises:
        InvalidArgument: a value is NULL or not of the type.
    """
    for value in values:
        if value is None:
            raise InvalidArgument(f"{argument} holds NULL: NULL has a code of its own where the column is nullable")
        if type_name in INTEGER_TYPES and isinstance(value, float | Decimal) and value != value // 1:
            raise InvalidArgument(f"{argument}: {value} is not a {type_name}")
    try:
        return _converted(cursor, values, type_name)
    except duckdb.Error:
        wrong = next((value for value in values if not _is_of(cursor, value, type_name)), values)
        raise InvalidArgument(f"{argument}: {wrong!r} is not a {type_name}") from None


def _converted(cursor: duckdb.DuckDBPyConnection, values: Sequence[Any], type_name: str) -> list[str]:
    """In one statement: one for each value would take a millisecond each."""
    text = text_of(exp.cast(exp.column("v"), data_type(type_name), dialect="duckdb"))
    numbered = exp.maybe_parse(_NUMBERED, into=exp.Select, dialect="duckdb").subquery("numbered")
    query = exp.select(text).from_(numbered).order_by("i").sql(dialect="duckdb")
    return [found for (found,) in cursor.execute(query, [[_written(value) for value in values]]).fetchall()]


def _is_of(cursor: duckdb.DuckDBPyConnection, value: Any, type_name: str) -> bool:
    try:
        _converted(cursor, [value], type_name)
    except duckdb.Error:
        return False
    return True


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def tick(cursor: duckdb.DuckDBPyConnection, value: Any, type_name: str, argument: str) -> int | float:
    """A public value as a tick of the column's type.

    Raises:
        InvalidArgument: not of the type, not finite, or beyond the whole numbers that can be told apart.
    """
    text = canonical(cursor, [value], type_name, argument)[0]
    scale = decimal_scale(type_name)
    if type_name in FLOAT_TYPES:
        number = float(np.float32(text)) if type_name == "FLOAT" else float(text)
        if not abs(number) < _LARGEST_FLOAT:
            raise InvalidArgument(f"{argument} is {text}: give a number of less than {_LARGEST_FLOAT:g}")
        return number
    if type_name in INTEGER_TYPES or scale is not None:
        whole = int(text.replace(".", "")) if scale else int(text)
    else:
        tree: exp.Expr = exp.maybe_parse(TO_TICK[type_name], dialect="duckdb")
        sql = with_x(tree, constant_of(text, type_name))
        row = cursor.execute(exp.select(sql).sql(dialect="duckdb")).fetchall()[0][0]
        if row is None:
            raise InvalidArgument(f"{argument} is {text}: give a finite {type_name}")
        whole = int(row)
    if abs(whole) > _LARGEST_TICK:
        raise InvalidArgument(f"{argument} is {text}: bins reach from −2^62 to 2^62 steps of the type")
    return whole


def from_tick(value: exp.Expr, type_name: str) -> exp.Expr:
    """The value of a tick, in the column's type."""
    scale = decimal_scale(type_name)
    if scale:
        whole = exp.cast(value, f"DECIMAL({38 - scale - 1}, 0)", dialect="duckdb")
        step = constant_of("0." + "1".rjust(scale, "0"), f"DECIMAL({scale + 1}, {scale})")
        return exp.cast(exp.Mul(this=whole, expression=step), data_type(type_name), dialect="duckdb")
    if type_name in _FROM_TICK:
        return exp.paren(with_x(exp.maybe_parse(_FROM_TICK[type_name], dialect="duckdb"), value))
    return exp.cast(value, data_type(type_name), dialect="duckdb")


def edge_texts(cursor: duckdb.DuckDBPyConnection, ticks: Sequence[int | float], type_name: str) -> tuple[str, ...]:
    """Each edge as DuckDB writes the value; of the last one the largest value inside, which the type surely has."""
    shown = ticks if type_name in FLOAT_TYPES else [*ticks[:-1], int(ticks[-1]) - 1]
    if type_name in FLOAT_TYPES or type_name in INTEGER_TYPES:
        return tuple(map(repr, shown))
    value = from_tick(exp.column("tick"), type_name)
    sql = exp.select(text_of(value)).from_("dpsql_ticks").order_by("number").sql(dialect="duckdb")
    cursor.register("dpsql_ticks", {"number": np.arange(len(shown)), "tick": np.array(shown, np.int64)})
    try:
        return tuple(text for (text,) in cursor.execute(sql).fetchall())
    finally:
        cursor.unregister("dpsql_ticks")
