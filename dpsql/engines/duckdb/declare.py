"""What an owner declares of a column, public constants, as its domain: values, members of a type, or bins."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

import duckdb

from dpsql.core.column_types import column_type, kind_of, public_type
from dpsql.core.domain import Attribute, equal_width
from dpsql.core.names import as_text
from dpsql.engines.duckdb.ticks import canonical, check_distinct, edge_texts, first_equal, is_among, tick
from dpsql.engines.duckdb.ticks import ticks as ticks_of
from dpsql.engines.source import Column
from dpsql.errors import InvalidArgument

_MOST_TICKS: Final = 2**62  # between the bounds, so that differences of two, and steps into a bin, are exact in 64 bits
_MOST_CODES: Final = 100_000
DEFAULT_BINS: Final = 100


def automatic(column: Column) -> Attribute | None:
    """The domain that a column's type declares by itself (BOOLEAN), else None.

    ENUM does not: its members may be the values that some table held when the type was made.
    """
    own = column_type(column.type).declares_itself
    return declare_members(column, nullable=column.nullable) if own else None


def declare_members(column: Column, *, nullable: bool) -> Attribute:
    """The domain of an ENUM's members, or of both BOOLEANs.

    Raises:
        InvalidArgument: another type, which has no members.
    """
    values = column_type(column.type).members
    if values is None:
        raise InvalidArgument(
            f"column {column.name!r} is of type {kind_of(column.type)}, which lists no members: type := true is for "
            'ENUM columns; give "values" := […], or lower, upper and bins'
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
    if not column_type(column.type).listable:
        raise InvalidArgument(
            f"column {column.name!r} is of type {kind_of(column.type)}, which can have no domain: say "
            f"dp_domain(…, {as_text(column.name)}, exclude := true)"
        )
    kind = public_type(column.type)
    texts = canonical(cursor, values, kind, "values")
    other_text = None if other is None else canonical(cursor, [other], kind, "other")[0]
    if not texts:
        raise InvalidArgument("values is empty: give at least one")
    if len(texts) > _MOST_CODES:
        raise InvalidArgument(f"values has {len(texts)} entries, more than {_MOST_CODES}: group them")
    if origin == "reference":  # whose rows may hold equal values in several spellings
        texts = [texts[place] for place in dict.fromkeys(first_equal(cursor, texts, kind))]
    check_distinct(cursor, texts, kind, "values")
    if other_text is not None and is_among(cursor, other_text, texts, kind):
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
    check_has_bins(column)
    if edges is not None:
        ticks = tuple(ticks_of(cursor, edges, column.type, "edges"))
        if len(ticks) < 2 or any(a >= b for a, b in itertools.pairwise(ticks)):
            raise InvalidArgument("edges must be at least two values in increasing order, the last one exclusive")
    else:
        low, high = bounds(cursor, column, lower, upper)
        ticks = _equal(column, low, high, bins)
    return of_ticks(cursor, column, ticks, nullable=nullable, other=other)


def check_has_bins(column: Column) -> None:
    """Refuse a type without an order.

    Raises:
        InvalidArgument: it has none.
    """
    if not column_type(column.type).has_bins:
        raise InvalidArgument(
            f'column {column.name!r} is of type {kind_of(column.type)}, which has no bins: give "values" := […] or '
            "exclude := true"
        )


def bounds(cursor: duckdb.DuckDBPyConnection, column: Column, lower: Any, upper: Any) -> tuple[Any, Any]:
    """The ticks of the smallest and the largest value of bins.

    Raises:
        InvalidArgument: not of the type, or not in order.
    """
    low, high = tick(cursor, lower, column.type, "lower"), tick(cursor, upper, column.type, "upper")
    if not (low < high or (low == high and not column_type(column.type).is_float)):
        raise InvalidArgument(f"lower is {lower}, upper {upper}: lower must be below upper")
    return low, high


def _equal(column: Column, low: Any, high: Any, bins: int | None) -> tuple[int | float, ...]:
    """Edges of equal width, of so many bins.

    Where the steps from the lowest to the highest value are a multiple of the bins, so are the edges, and the last bin
    holds the highest value too: [0, 1000), …, [9000, 10000].
    """
    of_type = column_type(column.type)
    if bins is None:
        bins = DEFAULT_BINS if of_type.is_float else min(DEFAULT_BINS, int(high) - int(low) + 1)
    if bins < 1 or (not of_type.is_float and bins > int(high) - int(low) + 1):
        most = "" if of_type.is_float else f" to {int(high) - int(low) + 1}, one for each step of {column.type}"
        raise InvalidArgument(f"bins is {bins}: give 1{most}")
    if bins > _MOST_CODES:
        raise InvalidArgument(f"bins is {bins}: give at most {_MOST_CODES}")
    if not of_type.is_float and (high - low) % bins == 0 and (high - low) // bins > 1:
        return (*range(low, high, (high - low) // bins), high + 1)
    ticks = equal_width(low, high, bins, is_float=of_type.is_float)
    if of_type.is_float:  # edges that the type can hold, so that no value changes its bin by rounding
        ticks = tuple(map(of_type.rounded, ticks))
    if any(a >= b for a, b in itertools.pairwise(ticks)):
        raise InvalidArgument(f"bins is {bins}, more than {column.type} can tell apart between lower and upper")
    return ticks


def of_ticks(
    cursor: duckdb.DuckDBPyConnection,
    column: Column,
    ticks: tuple[int | float, ...],
    *,
    nullable: bool,
    other: Any,
) -> Attribute:
    """A domain of intervals between these edges.

    Raises:
        InvalidArgument: there are too many, or they are too far apart.
    """
    check_size(column.name, column.type, ticks)
    other_text = None if other is None else canonical(cursor, [other], column.type, "other")[0]
    texts = edge_texts(cursor, ticks, column.type)
    return Attribute(column.name, column.type, "bins", (), ticks, texts, nullable, other_text)


def check_size(name: str, type_name: str, ticks: Sequence[int | float]) -> None:
    """Refuse too many bins, and bins that are too far apart.

    Raises:
        InvalidArgument: they are.
    """
    if len(ticks) > _MOST_CODES:
        raise InvalidArgument(f"edges has {len(ticks)} entries, more than {_MOST_CODES}")
    check_range(name, type_name, ticks)


def check_range(name: str, type_name: str, ticks: Sequence[int | float]) -> None:
    """Refuse bins over so many steps that 64 bits do not hold their number.

    Raises:
        InvalidArgument: they are.
    """
    if ticks and not column_type(type_name).is_float and ticks[-1] - ticks[0] > _MOST_TICKS:
        raise InvalidArgument(
            f"column {name!r}: from the lowest to the highest bound are {ticks[-1] - ticks[0]} steps of {type_name}, "
            "more than 2^62: declare nearer bounds; what lies beyond them counts as outside the domain"
        )
