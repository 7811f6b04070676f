"""Points: values that get a cell of their own beside bins, such as the zeros of an amount.

A point cuts the bin around it in two, so bins stay in order and without gaps:

    edges 0, 10000, 20000     points 0, 15000     →     0 │ [1, 10000) │ [10000, 15000) │ 15000 │ [15001, 20000)

Of floats the bin above a point begins at the next float that the type can hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import duckdb
import numpy as np

from dpsql.core.column_types import column_type
from dpsql.core.domain import Attribute
from dpsql.engines.duckdb.declare import check_size
from dpsql.engines.duckdb.ticks import edge_texts, ticks
from dpsql.engines.source import Column
from dpsql.errors import InvalidArgument


def with_points(
    cursor: duckdb.DuckDBPyConnection, column: Column, attribute: Attribute, points: Sequence[Any]
) -> Attribute:
    """A domain of bins with points.

    Raises:
        InvalidArgument: no bins, a point that is not of the type or not inside them, or the same one twice.
    """
    if attribute.kind != "bins":
        raise InvalidArgument("points go with bins: say lower and upper, or edges; with values each has its own cell")
    point_ticks = [tick + 0 for tick in ticks(cursor, points, column.type, "points")]  # −0.0 + 0 is 0.0
    if len({*point_ticks}) < len(point_ticks):
        raise InvalidArgument("points names a value twice: give each once")
    last = attribute.ticks[-1]
    for point, given in zip(point_ticks, points, strict=True):
        if attribute.is_float and last in (point, _after(point, column.type)):  # the last bin holds its upper end too
            raise InvalidArgument(
                f"points: {given} is the upper bound, or the number next to it: declare one above it, so that it gets "
                "a cell"
            )
        if not attribute.ticks[0] <= point < last:
            raise InvalidArgument(
                f"points: {given} is not between {attribute.edges[0]} and {attribute.edges[-1]}: declare bounds that "
                "hold it, or say nulls_as if it stands for a missing value"
            )
    return cut(cursor, attribute, point_ticks)


def cut(cursor: duckdb.DuckDBPyConnection, attribute: Attribute, points: Sequence[int | float]) -> Attribute:
    """The same bins, with these ticks as points; they are inside the bins."""
    kind = attribute.type
    ticks = tuple(sorted({*attribute.ticks, *points, *(_after(point, kind) for point in points)}))
    check_size(attribute.name, kind, ticks)
    return replace(attribute, ticks=ticks, edges=edge_texts(cursor, ticks, kind), points=tuple(sorted(points)))


def _after(point: int | float, type_name: str) -> int | float:
    """The next value of the type."""
    float_type = column_type(type_name).float_type
    if float_type is None:
        return point + 1
    return float(np.nextafter(float_type(point), float_type(np.inf)))
