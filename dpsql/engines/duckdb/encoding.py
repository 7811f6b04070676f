"""Values to codes and back, as SQL that DuckDB runs.

Encoding runs on private rows, so nothing in it can fail or take longer because of a value: comparisons with typed
constants, `TRY_CAST`, no arithmetic that could overflow. A row outside the domain gets the code of OTHER or of OUTSIDE;
where the attribute has neither, NULL.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import duckdb
import numpy as np
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dpsql.core.domain import (
    FLOAT_TYPES,
    INTEGER_TYPES,
    Attribute,
    can_be_binned,
    decimal_scale,
    equal_width,
    kind_of,
    public_type,
)
from dpsql.core.linear_query import Moment
from dpsql.engines.duckdb.catalog import Column, Source, enum_values
from dpsql.engines.duckdb.formulas import sql_of_formula
from dpsql.errors import InvalidArgument

_LARGEST_TICK: Final = 2**62
_MOST_TICKS: Final = 2**62  # between the bounds, so that differences of two, and steps into a bin, are exact in 64 bits
_LARGEST_FLOAT: Final = 1e307  # the width of the whole range is finite too
_MOST_CODES: Final = 100_000
_MOST_SEARCHED: Final = 64
DEFAULT_BINS: Final = 100
_NOT_FOR_VALUES: Final = frozenset({"STRUCT", "MAP", "UNION", "BLOB", "BIT", "VARIANT", "GEOMETRY", "JSON"})

# tick <- value and value <- tick, by type; integers, decimals and floats are written out below
_TO_TICK: Final = {
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


@lru_cache(maxsize=1024)
def _parsed_type(name: str) -> exp.DataType:
    try:
        return exp.DataType.build(name, dialect="duckdb")
    except SqlglotError:
        raise InvalidArgument(f"values of type {name} are not supported: cast them to another type") from None


def data_type(name: str) -> exp.DataType:
    """A DuckDB type from its text."""
    return _parsed_type(name).copy()


def _typed(text: str, type_name: str) -> exp.Expr:
    """A constant of a type, from its text."""
    return exp.Cast(this=exp.Literal.string(text), to=data_type(type_name))  # a builder would copy the type again


def _identifier(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


def _text(expression: exp.Expr) -> exp.Expr:
    return exp.cast(expression, "VARCHAR", dialect="duckdb")


def _null_or(code: int | None) -> exp.Expr:
    return exp.null() if code is None else exp.Literal.number(code)


# --- declaring: public constants to codes' texts and ticks ------------------------------------------------------------


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


_NUMBERED: Final = "SELECT unnest(CAST($1 AS VARCHAR[])) AS v, generate_subscripts(CAST($1 AS VARCHAR[]), 1) AS i"


def _converted(cursor: duckdb.DuckDBPyConnection, values: Sequence[Any], type_name: str) -> list[str]:
    """In one statement: one for each value would take a millisecond each."""
    text = _text(exp.cast(exp.column("v"), data_type(type_name), dialect="duckdb"))
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
        tree: exp.Expr = exp.maybe_parse(_TO_TICK[type_name], dialect="duckdb")
        sql = _substitute(tree, _typed(text, type_name))
        row = cursor.execute(exp.select(sql).sql(dialect="duckdb")).fetchall()[0][0]
        if row is None:
            raise InvalidArgument(f"{argument} is {text}: give a finite {type_name}")
        whole = int(row)
    if abs(whole) > _LARGEST_TICK:
        raise InvalidArgument(f"{argument} is {text}: bins reach from −2^62 to 2^62 steps of the type")
    return whole


def _substitute(tree: exp.Expr, replacement: exp.Expr) -> exp.Expr:
    """`tree` with the column x replaced."""
    return tree.transform(
        lambda node: replacement.copy() if isinstance(node, exp.Column) and node.name == "x" else node
    )


def from_tick(value: exp.Expr, type_name: str) -> exp.Expr:
    """The value of a tick, in the column's type."""
    scale = decimal_scale(type_name)
    if scale:
        whole = exp.cast(value, f"DECIMAL({38 - scale - 1}, 0)", dialect="duckdb")
        step = _typed("0." + "1".rjust(scale, "0"), f"DECIMAL({scale + 1}, {scale})")
        return exp.cast(exp.Mul(this=whole, expression=step), data_type(type_name), dialect="duckdb")
    if type_name in _FROM_TICK:
        return exp.paren(_substitute(exp.maybe_parse(_FROM_TICK[type_name], dialect="duckdb"), value))
    return exp.cast(value, data_type(type_name), dialect="duckdb")


def edge_texts(cursor: duckdb.DuckDBPyConnection, ticks: Sequence[int | float], type_name: str) -> tuple[str, ...]:
    """Each edge as DuckDB writes the value; of the last one the largest value inside, which the type surely has."""
    shown = ticks if type_name in FLOAT_TYPES else [*ticks[:-1], int(ticks[-1]) - 1]
    if type_name in FLOAT_TYPES or type_name in INTEGER_TYPES:
        return tuple(map(repr, shown))
    value = from_tick(exp.column("tick"), type_name)
    sql = exp.select(_text(value)).from_("dpsql_ticks").order_by("number").sql(dialect="duckdb")
    cursor.register("dpsql_ticks", {"number": np.arange(len(shown)), "tick": np.array(shown, np.int64)})
    try:
        return tuple(text for (text,) in cursor.execute(sql).fetchall())
    finally:
        cursor.unregister("dpsql_ticks")


def can_not_be_listed(type_name: str) -> bool:
    """Whether a type is nested or binary, so that a column of it can have no domain."""
    return type_name.endswith("]") or type_name.split("(")[0] in _NOT_FOR_VALUES


def automatic(column: Column) -> Attribute | None:
    """The domain that a column's type declares by itself (BOOLEAN), else None.

    ENUM does not: its members may be the values that some table held when the type was made.
    """
    return declare_members(column, nullable=column.nullable) if column.type == "BOOLEAN" else None


def declare_members(column: Column, *, nullable: bool) -> Attribute:
    """The domain of an ENUM's members, or of both BOOLEANs.

    Raises:
        InvalidArgument: another type, which has no members.
    """
    values = ("false", "true") if column.type == "BOOLEAN" else enum_values(column.type)
    if values is None:
        raise InvalidArgument(
            f"column {column.name!r} is of type {kind_of(column.type)}, which lists no members: type := true is for "
            "ENUM columns; give values := […], or lower, upper and bins"
        )
    return Attribute(column.name, column.type, "values", values, nullable=nullable, origin="type")


def declare_values(
    cursor: duckdb.DuckDBPyConnection,
    column: Column,
    values: Sequence[Any],
    *,
    nullable: bool,
    other: Any,
    origin: str = "declared",
) -> Attribute:
    """A domain of listed values.

    Raises:
        InvalidArgument: no values, a repeated one, too many, one not of the column's type, or a nested or binary type.
    """
    if can_not_be_listed(column.type):
        raise InvalidArgument(
            f"column {column.name!r} is of type {kind_of(column.type)}, which can have no domain: say "
            f"dp_domain(…, {column.name!r}, exclude := true)"
        )
    kind = public_type(column.type)
    texts = canonical(cursor, values, kind, "values")
    other_text = None if other is None else canonical(cursor, [other], kind, "other")[0]
    if not texts:
        raise InvalidArgument("values is empty: give at least one")
    if len(texts) > _MOST_CODES:
        raise InvalidArgument(f"values has {len(texts)} entries, more than {_MOST_CODES}: group them")
    repeated = [text for text in {*texts} if texts.count(text) > 1] if len({*texts}) < len(texts) else []
    if repeated:
        raise InvalidArgument(f"values repeats {sorted(repeated)[0]!r}: give each once")
    if other_text in texts:
        raise InvalidArgument(f"other is {other_text!r}, which is one of values: choose another text")
    return Attribute(column.name, kind, "values", tuple(texts), nullable=nullable, other=other_text, origin=origin)


def declare_bins(
    cursor: duckdb.DuckDBPyConnection,
    column: Column,
    edges: Sequence[Any] | None,
    lower: Any,
    upper: Any,
    bins: int | None,
    *,
    nullable: bool,
    other: Any,
) -> Attribute:
    """A domain of intervals: explicit edges, or `bins` of equal width from lower to upper (both included).

    Raises:
        InvalidArgument: a type without order, edges not increasing, lower ≥ upper, too few or too many bins.
    """
    if not can_be_binned(column.type):
        raise InvalidArgument(
            f"column {column.name!r} is of type {kind_of(column.type)}, which has no bins: give values := […] or "
            "exclude := true"
        )
    is_float = column.type in FLOAT_TYPES
    if edges is not None:
        ticks = tuple(tick(cursor, edge, column.type, "edges") for edge in edges)
        if len(ticks) < 2 or any(a >= b for a, b in itertools.pairwise(ticks)):
            raise InvalidArgument("edges must be at least two values in increasing order, the last one exclusive")
    else:
        low, high = tick(cursor, lower, column.type, "lower"), tick(cursor, upper, column.type, "upper")
        if not (low < high or (low == high and not is_float)):
            raise InvalidArgument(f"lower is {lower}, upper {upper}: lower must be below upper")
        if bins is None:
            bins = DEFAULT_BINS if is_float else min(DEFAULT_BINS, int(high) - int(low) + 1)
        if bins < 1 or (not is_float and bins > int(high) - int(low) + 1):
            most = "" if is_float else f" to {int(high) - int(low) + 1}, one for each step of {column.type}"
            raise InvalidArgument(f"bins is {bins}: give 1{most}")
        if bins > _MOST_CODES:
            raise InvalidArgument(f"bins is {bins}: give at most {_MOST_CODES}")
        ticks = equal_width(low, high, bins, is_float=is_float)
        if column.type == "FLOAT":  # edges that the type can hold, so that no value changes its bin by rounding
            ticks = tuple(float(np.float32(value)) for value in ticks)
        if any(a >= b for a, b in itertools.pairwise(ticks)):
            raise InvalidArgument(f"bins is {bins}, more than {column.type} can tell apart between lower and upper")
    if len(ticks) > _MOST_CODES:
        raise InvalidArgument(f"edges has {len(ticks)} entries, more than {_MOST_CODES}")
    check_range(column.name, column.type, ticks)
    other_text = None if other is None else canonical(cursor, [other], column.type, "other")[0]
    texts = edge_texts(cursor, ticks, column.type)
    return Attribute(column.name, column.type, "bins", (), ticks, texts, nullable, other_text)


def check_range(name: str, type_name: str, ticks: Sequence[int | float]) -> None:
    """Refuse bins over so many steps that 64 bits do not hold their number.

    Raises:
        InvalidArgument: they are.
    """
    if ticks and type_name not in FLOAT_TYPES and ticks[-1] - ticks[0] > _MOST_TICKS:
        raise InvalidArgument(
            f"column {name!r}: from the lowest to the highest bound are {ticks[-1] - ticks[0]} steps of {type_name}, "
            "more than 2^62: declare nearer bounds; what lies beyond them counts as outside the domain"
        )


# --- encoding: private values to codes --------------------------------------------------------------------------------


def encode(attribute: Attribute) -> exp.Expr:
    """The code of a column; total on every value of the type. NULL outside a domain without OTHER and OUTSIDE."""
    column = _identifier(attribute.name)
    regular = _encode_values(attribute, column) if attribute.kind == "values" else _encode_bins(attribute, column)
    outside = attribute.outside_code if attribute.other_code is None else attribute.other_code
    known = exp.Coalesce(this=exp.Cast(this=regular, to=data_type("INTEGER")), expressions=[_null_or(outside)])
    null_code = attribute.null_code if attribute.nullable else outside
    missing = exp.If(this=exp.Is(this=column, expression=exp.null()), true=_null_or(null_code))
    return exp.Case(ifs=[missing], default=known)


def _encode_values(attribute: Attribute, column: exp.Column) -> exp.Expr:
    """A hash look-up: the text of the value as a member of an ENUM of the domain's texts."""
    kind = exp.DataType(this=exp.DataType.Type.ENUM, expressions=[exp.Literal.string(v) for v in attribute.values])
    return exp.func("enum_code", exp.TryCast(this=_text(column), to=kind), dialect="duckdb")


def encode_steps(attribute: Attribute, moment: Moment) -> exp.Expr:
    """What a row adds, in whole steps: inside the moment's bounds whatever the value is, and nothing to fail.

    The formula runs on values inside the bins only, and NaN is outside. It is written by `sql_of_formula` from nodes
    that cannot fail; what it makes NULL adds nothing, and the clamp comes last.
    """
    column = _identifier(attribute.name)
    value = sql_of_formula(moment.formula, exp.TryCast(this=column, to=data_type("DOUBLE")))
    scaled = exp.Mul(this=value, expression=exp.Literal.number(f"{moment.multiplier:.17e}"))
    steps = exp.TryCast(this=exp.func("round", scaled, dialect="duckdb"), to=data_type("BIGINT"))
    low, high, outside, missing = (
        exp.Literal.number(number) for number in (moment.low, moment.high, moment.outside, moment.missing)
    )
    known = exp.Coalesce(this=steps, expressions=[exp.Literal.number(0)])
    bounded = exp.func("greatest", exp.func("least", known, high, dialect="duckdb"), low, dialect="duckdb")
    is_null = exp.Is(this=column.copy(), expression=exp.null())
    return exp.case().when(is_null, missing).when(_within(attribute, column), bounded).else_(outside)


def _within(attribute: Attribute, column: exp.Column) -> exp.Expr:
    """Whether a value is in one of the bins."""
    lowest, highest = (_typed(attribute.edges[place], attribute.type) for place in (0, -1))
    return exp.and_(exp.GTE(this=column.copy(), expression=lowest), exp.LTE(this=column.copy(), expression=highest))


def _encode_bins(attribute: Attribute, column: exp.Column) -> exp.Expr:
    """A search tree of comparisons with the edges, inside the range; nothing to overflow."""
    inside = _within(attribute, column)
    steps = _steps(attribute, column) if attribute.has_single_values else _period(attribute, column)
    if steps is None:
        steps = _search(column, attribute, 0, attribute.regular)
    # Inside the range the difference of a step cannot overflow; a CASE computes it for no other row.
    return exp.Case(ifs=[exp.If(this=inside, true=steps)])


def _steps(attribute: Attribute, column: exp.Column) -> exp.Expr | None:
    """How many steps of its type a value is above the lowest one, for bins of one value; None for other types."""
    lowest = _typed(attribute.edges[0], attribute.type)
    if attribute.type in INTEGER_TYPES:
        whole = exp.TryCast(this=column.copy(), to=data_type("BIGINT"))
        return exp.Sub(this=whole, expression=exp.Literal.number(attribute.ticks[0]))
    scale = decimal_scale(attribute.type)
    if scale is not None:  # at most 100,000 steps, which a DOUBLE tells apart
        difference = exp.Paren(this=exp.Sub(this=column.copy(), expression=lowest))
        steps = exp.Mul(
            this=exp.TryCast(this=difference, to=data_type("DOUBLE")), expression=exp.Literal.number(10**scale)
        )
        return exp.TryCast(this=exp.func("round", steps, dialect="duckdb"), to=data_type("BIGINT"))
    if attribute.type == "DATE":
        days: exp.Expr = exp.maybe_parse("date_diff('day', y, x)", dialect="duckdb")
        above_lowest = _substitute(days, column).transform(
            lambda node: lowest.copy() if node == exp.column("y") else node
        )
        return exp.TryCast(this=above_lowest, to=data_type("BIGINT"))
    return None


def _period(attribute: Attribute, column: exp.Column) -> exp.Expr | None:
    """The number of the period that a time is in, where all bins but the first and the last are as long; else None.

    A search tree of many thousand edges takes DuckDB seconds to parse.
    """
    if attribute.type not in _TO_TICK or attribute.regular <= _MOST_SEARCHED:
        return None
    widths = np.diff(np.array(attribute.ticks, np.int64))
    width = int(widths[1])
    if (widths[1:-1] != width).any() or max(widths[0], widths[-1]) > width:
        return None
    passed = _substitute(exp.maybe_parse(_TO_TICK[attribute.type], dialect="duckdb"), column)
    start = exp.Literal.number(int(attribute.ticks[1]) - width)
    whole = exp.Paren(this=exp.Sub(this=exp.TryCast(this=passed, to=data_type("BIGINT")), expression=start))
    return exp.IntDiv(this=whole, expression=exp.Literal.number(width))


def _search(column: exp.Column, attribute: Attribute, low: int, high: int) -> exp.Expr:
    if high - low == 1:
        return exp.Literal.number(low)
    middle = (low + high) // 2
    edge = _typed(attribute.edges[middle], attribute.type)
    below = exp.LT(this=column.copy(), expression=edge)  # the builder would copy each half again
    lower = exp.If(this=below, true=_search(column, attribute, low, middle))
    return exp.Case(ifs=[lower], default=_search(column, attribute, middle, high))


# --- decoding: released codes to values -------------------------------------------------------------------------------


def released_columns(source: Source, names: Sequence[str], attributes: Iterable[Attribute]) -> exp.Select:
    """A SELECT of no row, with the columns of a synthetic table in the types in which they come out."""
    as_text = {attribute.name for attribute in attributes if attribute.released_type == "VARCHAR"}
    columns = [_identifier(name) for name in names]
    typed = [exp.alias_(_text(c), c.name, quoted=True) if c.name in as_text else c for c in columns]
    return exp.select(*typed).from_(source.table()).limit(0)


def decode(attribute: Attribute, code: str, ticks: str) -> exp.Expr:
    """The value of a code, from the columns `code` and (for bins) `ticks` of a released frame."""
    index = exp.column(code)
    if attribute.kind == "excluded":
        return exp.null()
    if attribute.kind == "values":
        texts: list[exp.Expr] = [exp.Literal.string(value) for value in attribute.values]
        texts += [exp.Literal.string(attribute.other)] if attribute.other is not None else []
        listed = exp.func(
            "list_extract",
            exp.Array(expressions=texts),
            exp.Add(this=index, expression=exp.Literal.number(1)),
            dialect="duckdb",
        )
        return exp.cast(listed, data_type(attribute.released_type), dialect="duckdb")
    regular = exp.LT(this=index, expression=exp.Literal.number(attribute.regular))
    value = exp.case().when(regular, from_tick(exp.column(ticks), attribute.type))
    if attribute.other is not None:
        is_other = exp.EQ(this=index.copy(), expression=exp.Literal.number(attribute.other_code))
        value = value.when(is_other, _typed(attribute.other, attribute.type))
    return value
