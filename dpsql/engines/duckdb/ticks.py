"""Public values as DuckDB writes them in a column's type, and as ticks, its whole numbers or floats, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import duckdb
import numpy as np
from sqlglot import exp

from dpsql.core.column_types import column_type
from dpsql.engines.duckdb.frames import Connection
from dpsql.engines.duckdb.types import constant_of, data_type, filled, text_of
from dpsql.errors import InvalidArgument

_LARGEST_TICK: Final = 2**62
_LARGEST_FLOAT: Final = 1e307  # the width of the whole range is finite too
_NUMBERED: Final = "SELECT unnest(CAST($1 AS VARCHAR[])) AS v, generate_subscripts(CAST($1 AS VARCHAR[]), 1) AS i"


def canonical(cursor: Connection, values: Sequence[Any], type_name: str, argument: str) -> list[str]:
    """Public values as DuckDB writes them in the column's type.

    Raises:
        InvalidArgument: a value is NULL or not of the type.
    """
    of_type = column_type(type_name)
    whole = of_type.is_exact and of_type.scale == 0
    for value in values:
        if value is None:
            raise InvalidArgument(f"{argument} holds NULL: NULL has a code of its own where the column is nullable")
        if whole and isinstance(value, float | Decimal) and value != value // 1:
            raise InvalidArgument(f"{argument}: {value} is not a {type_name}")
    try:
        return _converted(cursor, values, type_name)
    except duckdb.Error:
        wrong = next((value for value in values if not _is_of(cursor, value, type_name)), values)
        raise InvalidArgument(f"{argument}: {wrong!r} is not a {type_name}") from None


def _converted(cursor: Connection, values: Sequence[Any], type_name: str) -> list[str]:
    """In one statement: one for each value would take a millisecond each."""
    rows = cursor.execute(_conversion(type_name), [[_written(value) for value in values]]).fetchall()
    return [text for (text,) in rows]


@lru_cache(maxsize=256)
def _conversion(type_name: str) -> str:
    """The statement that writes texts as DuckDB writes the values of a type."""
    text = text_of(exp.cast(exp.column("v"), data_type(type_name), dialect="duckdb"))
    numbered = exp.maybe_parse(_NUMBERED, into=exp.Select, dialect="duckdb").subquery("numbered")
    return exp.select(text).from_(numbered).order_by("i").sql(dialect="duckdb")


def _is_of(cursor: Connection, value: Any, type_name: str) -> bool:
    try:
        _converted(cursor, [value], type_name)
    except duckdb.Error:
        return False
    return True


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def first_equal(cursor: Connection, texts: Sequence[str], type_name: str) -> list[int]:
    """For each of some canonical texts the place of the first one whose value DuckDB calls equal.

    >>> with duckdb.connect() as host:
    ...     first_equal(host, ["1 month", "2 days", "30 days"], "INTERVAL")
    [0, 1, 0]
    """
    of_type = column_type(type_name)
    if of_type.equal_text is not None:
        places: dict[str, int] = {}
        return [places.setdefault(of_type.folded(text), place) for place, text in enumerate(texts)]
    listed = exp.cast(exp.Placeholder(this="1"), data_type(f"{type_name}[]"), dialect="duckdb")
    typed = exp.select(exp.alias_(listed, "v")).subquery("typed")
    place = exp.Anonymous(this="list_position", expressions=[exp.column("v"), exp.column("x")])
    each = exp.select("v", "unnest(v) AS x", "generate_subscripts(v, 1) AS i").from_(typed).subquery("each_value")
    sql = exp.select(place).from_(each).order_by("i").sql(dialect="duckdb")
    return [place - 1 for (place,) in cursor.execute(sql, [list(texts)]).fetchall()]


def check_distinct(cursor: Connection, texts: Sequence[str], type_name: str, argument: str) -> None:
    """Refuse a list that names a value twice, in one spelling or in two.

    Raises:
        InvalidArgument: it does.
    """
    for place, first in enumerate(first_equal(cursor, texts, type_name)):
        if first < place and texts[first] == texts[place]:
            raise InvalidArgument(f"{argument} repeats {texts[place]!r}: give each once")
        if first < place:
            raise InvalidArgument(
                f"{argument} has {texts[first]!r} and {texts[place]!r}, which are one value of type {type_name}: give "
                "one of them"
            )


def is_among(cursor: Connection, text: str, others: Sequence[str], type_name: str) -> bool:
    """Whether DuckDB calls the value of a canonical text equal to one of others."""
    return bool(others) and first_equal(cursor, [*others, text], type_name)[-1] < len(others)


def canonical_each(cursor: Connection, texts: Sequence[str | None], type_name: str) -> list[str | None]:
    """Texts as DuckDB writes the values of a type; None of those that are no value of it, and of None."""
    given = [text for text in texts if text is not None]
    try:
        texts_there: Iterable[str | None] = iter(canonical(cursor, given, type_name, "a value") if given else [])
    except InvalidArgument:
        texts_there = (_canonical_or_none(cursor, text, type_name) for text in given)
    remaining = iter(texts_there)
    return [None if text is None else next(remaining) for text in texts]


def _canonical_or_none(cursor: Connection, text: str, type_name: str) -> str | None:
    try:
        return canonical(cursor, [text], type_name, "a value")[0]
    except InvalidArgument:
        return None


def tick(cursor: Connection, value: Any, type_name: str, argument: str) -> int | float:
    """A public value as a tick of the column's type; see `ticks`."""
    return ticks(cursor, [value], type_name, argument)[0]


def ticks(cursor: Connection, values: Sequence[Any], type_name: str, argument: str) -> list[int | float]:
    """Public values as ticks of the column's type.

    Raises:
        InvalidArgument: not of the type, not finite, or beyond the whole numbers that can be told apart.
    """
    return [_tick_of(cursor, text, type_name, argument) for text in canonical(cursor, values, type_name, argument)]


def _tick_of(cursor: Connection, text: str, type_name: str, argument: str) -> int | float:
    """The tick of a canonical text."""
    of_type = column_type(type_name)
    tick_value = _tick_by_sql(cursor, text, type_name) if of_type.tick_of is None else of_type.tick_of(text)
    if tick_value is None:
        raise InvalidArgument(f"{argument} is {text}: give a finite {type_name}")
    if of_type.is_float and not abs(tick_value) < _LARGEST_FLOAT:
        raise InvalidArgument(f"{argument} is {text}: give a number of less than {_LARGEST_FLOAT:g}")
    if not of_type.is_float and abs(tick_value) > _LARGEST_TICK:
        raise InvalidArgument(f"{argument} is {text}: bins reach from −2^62 to 2^62 steps of the type")
    return tick_value


def _tick_by_sql(cursor: Connection, text: str, type_name: str) -> int | None:
    """The tick of a value from its text, by SQL; None if it is infinite."""
    to_tick = column_type(type_name).to_tick
    assert to_tick is not None
    sql = filled(to_tick, x=constant_of(text, type_name))
    row = cursor.execute(exp.select(sql).sql(dialect="duckdb")).fetchall()[0][0]
    return None if row is None else int(row)


def from_tick(value: exp.Expr, type_name: str) -> exp.Expr:
    """The value of a tick, in the column's type."""
    template = column_type(type_name).from_tick
    if template is None:
        return exp.cast(value, data_type(type_name), dialect="duckdb")
    return exp.paren(filled(template, x=value))


def edge_texts(cursor: Connection, ticks: Sequence[int | float], type_name: str) -> tuple[str, ...]:
    """Each edge as DuckDB writes the value; of the last one the largest value inside, which the type surely has."""
    of_type = column_type(type_name)
    shown = ticks if of_type.is_float else [*ticks[:-1], int(ticks[-1]) - 1]
    if of_type.text_of is not None:
        return tuple(map(of_type.text_of, shown))
    value = from_tick(exp.column("tick"), type_name)
    sql = exp.select(text_of(value)).from_("dpsql_ticks").order_by("number").sql(dialect="duckdb")
    cursor.register("dpsql_ticks", {"number": np.arange(len(shown)), "tick": np.array(shown, np.int64)})
    try:
        return tuple(text for (text,) in cursor.execute(sql).fetchall())
    finally:
        cursor.unregister("dpsql_ticks")
