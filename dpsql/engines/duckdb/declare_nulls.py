"""Values that stand for a missing one, such as 'N' or -9: they count as NULL, in a table that stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import duckdb
from sqlglot import exp

from dpsql.core.column_types import column_type, kind_of, lists_members, public_type
from dpsql.core.domain import Attribute
from dpsql.engines.duckdb.reading import read
from dpsql.engines.duckdb.ticks import canonical, check_distinct, is_among, tick
from dpsql.engines.duckdb.types import constant_of, text_of
from dpsql.engines.source import Column
from dpsql.errors import InvalidArgument


def null_texts(cursor: duckdb.DuckDBPyConnection, column: Column, nulls_as: Sequence[Any]) -> tuple[str, ...]:
    """Such values as DuckDB writes them in the column's own type.

    Raises:
        InvalidArgument: none, one that is not of the type, the same one twice, or a nested or binary type.
    """
    if not column_type(column.type).listable:
        raise InvalidArgument(
            f"column {column.name!r} is of type {kind_of(column.type)}, of whose values none can be named: leave "
            "nulls_as out"
        )
    kind = public_type(column.type)
    texts = canonical(cursor, nulls_as, kind, "nulls_as")
    if not texts:
        raise InvalidArgument("nulls_as is empty: give at least one value, or leave it out")
    check_distinct(cursor, texts, kind, "nulls_as")
    return tuple(texts)


def with_nulls(cursor: duckdb.DuckDBPyConnection, attribute: Attribute, texts: tuple[str, ...]) -> Attribute:
    """A domain in which these values count as NULL.

    Raises:
        InvalidArgument: one of them has another meaning in the domain.
    """
    if attribute.kind == "values" and attribute.origin == "type" and lists_members(attribute.type):
        left = tuple(value for value in attribute.values if value not in texts)
        if len(left) != len(attribute.values) - len(texts) or not left:
            raise InvalidArgument("nulls_as: name members of the column's type, not all of them")
        attribute = replace(attribute, values=left)
    for text in texts:
        others = [] if attribute.other is None or attribute.is_read else [attribute.other]
        is_other = text == attribute.other or is_among(cursor, text, others, attribute.type)
        if is_other or _is_value(cursor, attribute, text) or _is_inside(cursor, attribute, text):
            where = "other" if is_other else "values" if attribute.kind == "values" else "the bins"
            raise InvalidArgument(
                f"nulls_as: {text} is in {where} too, and a value is either missing or not: leave it out of one of them"
            )
    return replace(attribute, nulls_as=texts, nullable=True)


def _is_value(cursor: duckdb.DuckDBPyConnection, attribute: Attribute, text: str) -> bool:
    """Whether DuckDB calls it equal to one of the values."""
    return attribute.kind == "values" and is_among(cursor, text, attribute.values, attribute.type)


def _is_inside(cursor: duckdb.DuckDBPyConnection, attribute: Attribute, text: str) -> bool:
    """Whether a value lies in one of the bins."""
    if attribute.kind != "bins":
        return False
    try:
        value_tick = tick(cursor, _as_read(cursor, attribute, text), attribute.type, "nulls_as")
    except InvalidArgument:  # a text that is no number, or no finite one
        return False
    last = attribute.ticks[-1]
    return bool(attribute.ticks[0] <= value_tick < last or (attribute.is_float and value_tick == last))


def _as_read(cursor: duckdb.DuckDBPyConnection, attribute: Attribute, text: str) -> str:
    """The text of what is read from a stored value, itself a text; of one that is nothing in the form some other."""
    if not attribute.reading:
        return text.rstrip(attribute.suffix or None)
    made = text_of(read(constant_of(text, attribute.stored_type), attribute))
    return str(cursor.execute(exp.select(made).sql(dialect="duckdb")).fetchall()[0][0])
