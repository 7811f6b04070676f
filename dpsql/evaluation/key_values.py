"""Keys of synthetic rows as SQL values, from numbers that were given while the rows were drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy.typing as npt
from sqlglot import exp

from dpsql.core.column_types import column_type, kind_of
from dpsql.engines.duckdb.ticks import from_tick
from dpsql.engines.duckdb.types import data_type
from dpsql.engines.source import Source
from dpsql.errors import InvalidArgument

Numbers = npt.NDArray[Any]
_MOST: Final[Mapping[str, int]] = {
    "TINYINT": 2**7 - 1,
    "UTINYINT": 2**8 - 1,
    "SMALLINT": 2**15 - 1,
    "USMALLINT": 2**16 - 1,
    "INTEGER": 2**31 - 1,
    "UINTEGER": 2**32 - 1,
}
_UNLIMITED: Final = 2**53
_OTHERS: Final = ("VARCHAR", "UUID", "DATE", "TIMESTAMP", "DOUBLE")


@dataclass(frozen=True)
class Key:
    """A column of keys.

    Attributes:
        type: in which the numbers were given: of a foreign key that of the column that it leads to.
        values: the numbers, or of UUIDs two halves.
    """

    type: str
    values: tuple[Numbers, ...]

    def through(self, up: Numbers) -> Key:
        """The same of the rows below, each of which has its parent's."""
        return Key(self.type, tuple(part[up] for part in self.values))


def check_key(source: Source, name: str) -> None:
    """Refuse a type whose values cannot be numbered.

    Raises:
        InvalidArgument: it is one.
    """
    kind = source.column(name).type
    of_type = column_type(kind)
    if kind not in _OTHERS and not (of_type.is_number and not of_type.is_float):
        raise InvalidArgument(
            f"column {name!r} of {source.name!r} is a key of type {kind_of(kind)}, which synthetic rows cannot number: "
            "keys are whole numbers, DECIMAL, VARCHAR, UUID, DATE, TIMESTAMP or DOUBLE; ALTER TABLE … ALTER … TYPE"
        )


def check_numbers(source: Source, name: str, least: int, why: str) -> None:
    """Refuse a type that holds fewer numbers than rows need.

    Args:
        source: the table.
        name: of the column.
        least: how many.
        why: what needs them, and what mends it.

    Raises:
        InvalidArgument: it does.
    """
    kind = source.column(name).type
    if most_numbers(source, [name]) < least:
        raise InvalidArgument(
            f"column {name!r} of {source.name!r} is a key of type {kind_of(kind)}, which holds {_most(kind):,} "
            f"numbers: {why}"
        )


def most_numbers(source: Source, keys: Sequence[str]) -> int:
    """How many rows can have keys of their own in some columns."""
    return min((_most(source.column(name).type) for name in keys), default=_UNLIMITED)


def _most(kind: str) -> int:
    if (scale := column_type(kind).scale) is not None and kind.startswith("DECIMAL"):
        digits = int(kind.partition("(")[2].partition(",")[0])
        return int(10 ** min(15, digits - scale)) - 1
    return _MOST.get(kind, 2**20 if kind in ("DATE",) else _UNLIMITED)


def frame_of(keys: Mapping[str, Key]) -> dict[str, Numbers]:
    """Columns `k<i>`, of UUIDs `l<i>` beside it."""
    frame = {}
    for place, key in enumerate(keys.values()):
        for letter, part in zip("kl", key.values, strict=False):
            frame[f"{letter}{place}"] = part
    return frame


def values_of(keys: Mapping[str, Key], source: Source) -> dict[str, exp.Expr]:
    """The values of keys in their columns' types, made of the columns of `frame_of`."""
    typed = {}
    for place, (name, key) in enumerate(keys.items()):
        value: exp.Expr = exp.column(f"k{place}")
        if key.type == "UUID":
            halves = (value, exp.column(f"l{place}"))
            text = exp.Anonymous(this="format", expressions=[exp.Literal.string("{:016x}{:016x}"), *halves])
            value = exp.cast(text, "UUID", dialect="duckdb")
        elif column_type(key.type).from_tick is not None and not column_type(key.type).is_number:
            value = from_tick(exp.cast(value, "BIGINT", dialect="duckdb"), key.type)
        else:
            value = exp.cast(value, data_type(key.type), dialect="duckdb")
        kind = source.column(name).type
        typed[name] = value if kind == key.type else exp.cast(value, data_type(kind), dialect="duckdb")
    return typed
