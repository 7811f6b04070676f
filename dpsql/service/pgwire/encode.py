"""Results as rows of the protocol: DuckDB writes texts, NumPy writes binary numbers, both a column at a time."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dpsql.service import pgtypes

_EPOCH_DAYS: Final = 10957
"""From 1970 to 2000, where PostgreSQL's dates begin."""
_EPOCH_MICROSECONDS: Final = _EPOCH_DAYS * 86_400_000_000
_NUMBERS: Final = {16: "u1", 21: ">i2", 23: ">i4", 20: ">i8", 26: ">u4", 700: ">f4", 701: ">f8", 1083: ">i8"}
BINARY: Final = frozenset({*_NUMBERS, 17, 25, 1082, 1114, 1184, 1186, 1700, 2950})
"""Types with a binary format here; the protocol has no way to send others than as they are asked for."""
_BARE: Final = frozenset({16, 20, 21, 23, 700, 701, 1700, 1082, 2950})
"""Types whose texts need no quotes in an array."""


def text_of(column: str, kind: str) -> str:
    """An expression of the text that PostgreSQL writes a value as."""
    element = pgtypes.element_of(kind)
    if element is not None:
        return _array_text(column, element)
    oid = pgtypes.pg_type(kind).oid
    if oid == pgtypes.BOOL.oid:
        return f"CASE WHEN {column} THEN 't' WHEN NOT {column} THEN 'f' END"
    if oid == pgtypes.BYTEA.oid:
        return f"'\\x' || lower(hex({column}))"
    written = f"CAST({column} AS VARCHAR)"
    if oid in (pgtypes.FLOAT4.oid, pgtypes.FLOAT8.oid):
        return (
            f"CASE {written} WHEN 'inf' THEN 'Infinity' WHEN '-inf' THEN '-Infinity' WHEN 'nan' THEN 'NaN' "
            f"WHEN '-nan' THEN 'NaN' ELSE {written} END"
        )
    if oid in (pgtypes.DATE.oid, pgtypes.TIMESTAMP.oid, pgtypes.TIMESTAMPTZ.oid):
        return f"replace({written}, ' (BC)', ' BC')"
    if oid == pgtypes.INTERVAL.oid:
        return f"replace(replace({written}, ' months', ' mons'), ' month', ' mon')"
    return written


def _array_text(column: str, element: str) -> str:
    """An expression of an array's text: its elements in braces, quoted where they could be read otherwise."""
    shown = text_of("x", element)
    if pgtypes.pg_type(element).oid not in _BARE:
        quoted = f"'\"' || replace(replace({shown}, '\\', '\\\\'), '\"', '\\\"') || '\"'"
        plain = f"regexp_full_match({shown}, '[^\\s\"{{}},\\\\]+') AND upper({shown}) <> 'NULL'"
        shown = f"CASE WHEN {plain} THEN {shown} ELSE {quoted} END"
    parts = f"list_transform(CAST({column} AS {element}[]), lambda x: coalesce({shown}, 'NULL'))"
    joined = f"coalesce(list_aggregate({parts}, 'string_agg', ','), '')"
    return f"CASE WHEN {column} IS NOT NULL THEN '{{' || {joined} || '}}' END"


def binary_of(column: str, kind: str) -> str:
    """An expression whose Arrow values `binary` encodes."""
    element = pgtypes.element_of(kind)
    if element is not None:
        return f"list_transform(CAST({column} AS {element}[]), lambda x: {binary_of('x', element)})"
    oid = pgtypes.pg_type(kind).oid
    casts = {
        21: "SMALLINT",
        23: "INTEGER",
        20: "BIGINT",
        25: "VARCHAR",
        1114: "TIMESTAMP",
        1700: "VARCHAR",
        2950: "VARCHAR",
    }
    if oid == 1083:
        return f"epoch_us({column})"
    if oid in (1114, 1184):
        return f"epoch_us({column})"
    if oid == 1082:
        return f"CAST({column} - DATE '2000-01-01' AS INTEGER)"
    return f"CAST({column} AS {casts[oid]})" if oid in casts else column


@dataclass
class Column:
    """The values of a column, one after another.

    Attributes:
        data: their bytes.
        lengths: how many bytes each has, -1 for NULL.
    """

    data: np.ndarray[Any, np.dtype[np.uint8]]
    lengths: np.ndarray[Any, np.dtype[np.int64]]


def texts(values: Any) -> Column:
    """Of an Arrow array of strings or bytes."""
    array = values.cast(pa.large_binary()) if not pa.types.is_large_binary(values.type) else values
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    data = array.buffers()[2]
    shown = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    lengths = np.diff(offsets)
    valid = np.asarray(array.is_valid())
    if not valid.all():
        keep = np.repeat(valid, lengths)
        return Column(shown[offsets[0] : offsets[-1]][keep], np.where(valid, lengths, -1))
    return Column(shown[offsets[0] : offsets[-1]], lengths)


def binary(values: Any, kind: str, oid: int = 0) -> Column:
    """Of an Arrow array, in PostgreSQL's binary format of the type, or of another one that is said."""
    element = pgtypes.element_of(kind)
    if element is not None:
        return _arrays(values, element)
    oid = oid or pgtypes.pg_type(kind).oid
    if oid in (17, 25) or oid not in BINARY:
        return texts(values)
    if oid in (1186, 1700, 2950):
        encode = {1186: _interval, 1700: _numeric, 2950: _uuid}[oid]
        return texts(pa.array([None if v is None else encode(v) for v in values.to_pylist()], pa.large_binary()))
    valid = np.asarray(values.is_valid())
    numbers = np.asarray((values.cast(pa.uint8()) if oid == 16 else values).fill_null(0))
    if oid in (1114, 1184):
        numbers = numbers - _EPOCH_MICROSECONDS
    form = {1082: ">i4", 1114: ">i8", 1184: ">i8"}.get(oid) or _NUMBERS[oid]
    encoded = np.ascontiguousarray(numbers[valid].astype(form))
    width = encoded.dtype.itemsize
    return Column(encoded.view(np.uint8).reshape(-1), np.where(valid, width, -1))


def _arrays(values: Any, element: str) -> Column:
    """Of an Arrow array of lists: how many dimensions, whether there are NULLs, the type, the length, the elements."""
    oid = pgtypes.element_type(element).oid
    flat = binary(values.flatten(), element, oid)
    raw, widths = flat.data.tobytes(), flat.lengths.tolist()
    found: list[bytes | None] = []
    item = place = 0
    counts = np.diff(np.asarray(values.offsets)).tolist()
    for count, valid in zip(counts, np.asarray(values.is_valid()).tolist(), strict=True):
        if not valid:
            found.append(None)
            continue
        parts, nulls = [], False
        for width in widths[item : item + count]:
            parts.append(struct.pack("!i", width) + raw[place : place + max(width, 0)])
            nulls, place = nulls or width < 0, place + max(width, 0)
        item += count
        head = struct.pack("!iiI", 1 if count else 0, nulls, oid)
        found.append(head + (struct.pack("!ii", count, 1) if count else b"") + b"".join(parts))
    return texts(pa.array(found, pa.large_binary()))


def _interval(value: Any) -> bytes:
    months, days, nanoseconds = value
    return struct.pack("!qii", nanoseconds // 1000, days, months)


def _uuid(value: str) -> bytes:
    return bytes.fromhex(value.replace("-", ""))


def _numeric(value: str) -> bytes:
    """Digits in base 10,000, the weight of the first, the sign, and how many decimals are shown."""
    number = Decimal(value)
    whole, _, part = f"{abs(number):f}".partition(".")
    whole, shown = whole.lstrip("0"), len(part)
    whole = whole.zfill(-(-len(whole) // 4) * 4)
    part = part.ljust(-(-len(part) // 4) * 4, "0")
    digits = [int((whole + part)[place : place + 4]) for place in range(0, len(whole + part), 4)]
    weight = len(whole) // 4 - 1
    while digits and digits[0] == 0:
        digits.pop(0)
        weight -= 1
    while digits and digits[-1] == 0:
        digits.pop()
    sign = 0x4000 if number < 0 else 0
    return struct.pack(f"!hhHh{len(digits)}h", len(digits), weight if digits else 0, sign, shown, *digits)


def data_rows(columns: list[Column], count: int) -> bytes:
    """Messages `D` of rows, all at once: heads, then each column's values put where they belong."""
    lengths = np.zeros((count, len(columns)), np.int64)
    for place, column in enumerate(columns):
        lengths[:, place] = np.maximum(column.lengths, 0)
    sizes = 7 + 4 * len(columns) + lengths.sum(axis=1)
    begins = np.concatenate([[0], np.cumsum(sizes)])
    out = np.zeros(int(begins[-1]), np.uint8)
    starts = begins[:-1]
    out[starts] = ord("D")
    _put(out, starts + 1, (sizes - 1).astype(">i4"))
    _put(out, starts + 5, np.full(count, len(columns), ">i2"))
    at = starts + 7
    for place, column in enumerate(columns):
        _put(out, at, column.lengths.astype(">i4"))
        at = at + 4
        widths = lengths[:, place]
        if len(column.data):
            before = np.concatenate([[0], np.cumsum(widths)[:-1]])
            target = np.repeat(at - before, widths)
            target += np.arange(len(target))
            out[target] = column.data
        at = at + widths
    return out.tobytes()


HEAD: Final = "'d----'"
"""Before each line of COPY, in DuckDB's SQL: room for the head of its message, the kind and the length."""


def copy_lines(lines: Column) -> bytes:
    """Messages `d`, one for each line, because clients take a message for a row.

    Args:
        lines: each with the room of `HEAD` before it.
    """
    out = lines.data.copy()
    begins = np.cumsum(lines.lengths) - lines.lengths
    _put(out, begins + 1, (lines.lengths - 1).astype(">i4"))  # the length counts itself, and not the kind
    return out.tobytes()


def _put(out: np.ndarray[Any, Any], places: np.ndarray[Any, Any], numbers: np.ndarray[Any, Any]) -> None:
    width = numbers.dtype.itemsize
    digits = np.ascontiguousarray(numbers).view(np.uint8).reshape(-1, width)
    for place in range(width):
        out[places + place] = digits[:, place]
