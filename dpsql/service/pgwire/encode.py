"""Results as rows of the protocol: DuckDB writes texts, NumPy writes binary numbers, both a column at a time."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dpsql.errors import DpsqlError
from dpsql.service import pgtypes

from . import moments, numerics

_EPOCH_DAYS: Final = 10957
"""From 1970 to 2000, where PostgreSQL's dates begin."""
_NUMBERS: Final = {16: "u1", 21: ">i2", 23: ">i4", 20: ">i8", 26: ">u4", 700: ">f4", 701: ">f8"}
_MOMENTS: Final = {
    1082: (pa.int32(), _EPOCH_DAYS),
    1083: (pa.int64(), 0),
    1114: (pa.int64(), _EPOCH_DAYS * 86_400_000_000),
    1184: (pa.int64(), _EPOCH_DAYS * 86_400_000_000),
}
"""Dates and times: the integers that Arrow has them as, and how far PostgreSQL counts from elsewhere."""
BINARY: Final = frozenset({*_NUMBERS, *_MOMENTS, 17, 25, 114, 1186, 1266, 1700, 2950})
"""Types with a binary format here; the protocol has no way to send others than as they are asked for."""
_BARE: Final = frozenset({16, 20, 21, 23, 26, 700, 701, 1083, 1266, 1700, 2950})
"""Types whose texts need no quotes in an array."""
_ELEMENTS: Final = {pgtypes.INT2VECTOR.name: "SMALLINT", pgtypes.OIDVECTOR.name: "UINTEGER"}
"""Of vectors, in DuckDB."""


def text_of(column: str, kind: str) -> str:
    """An expression of the text that PostgreSQL writes a value as."""
    element = pgtypes.element_of(kind)
    if element is not None:
        return _array_text(column, element)
    if kind in pgtypes.VECTORS:
        return f"translate(CAST({column} AS VARCHAR), '[],', '')"
    oid = pgtypes.pg_type(kind).oid
    if oid == pgtypes.BOOL.oid:
        return f"CASE WHEN {column} THEN 't' WHEN NOT {column} THEN 'f' END"
    if oid == pgtypes.BYTEA.oid:
        return f"'\\x' || lower(hex({column}))"
    written = f"CAST({column} AS VARCHAR)"
    if oid in (pgtypes.FLOAT4.oid, pgtypes.FLOAT8.oid):
        return _float_text(column, written)
    if oid in (pgtypes.DATE.oid, pgtypes.TIMESTAMP.oid, pgtypes.TIMESTAMPTZ.oid):
        before_christ = f"replace({written}, ' (BC)', '') || ' BC'"
        return f"CASE WHEN contains({written}, '(BC)') THEN {before_christ} ELSE {written} END"
    if oid == pgtypes.INTERVAL.oid:
        return _interval_text(written)
    if oid == pgtypes.NUMERIC.oid and pgtypes.is_fraction(kind):  # DuckDB writes .5
        return f"regexp_replace({written}, '^(-?)\\.', '\\10.')"
    return written


def _float_text(column: str, written: str) -> str:
    """An expression of PostgreSQL's text of a float: without `.0`.

    Each statement plans it anew, and DuckDB plans a comparison faster than a call.
    """
    return (
        f"CASE WHEN suffix({written}, '.0') THEN left({written}, -2) ELSE CASE {column} WHEN 'inf' THEN 'Infinity' "
        f"WHEN '-inf' THEN '-Infinity' WHEN 'nan' THEN 'NaN' ELSE {written} END END"
    )


def _interval_text(written: str) -> str:
    """An expression of PostgreSQL's text of an interval: -1 takes the plural, and what follows a minus has a sign."""
    mons = f"replace({written}, 'month', 'mon')"
    plural = f"regexp_replace({mons}, '-1 (year|mon|day)\\b', '-1 \\1s', 'g')"
    return f"regexp_replace({plural}, '(-\\d+ [a-z]+ )(\\d)', '\\1+\\2', 'g')"


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
    if kind in pgtypes.VECTORS:
        return f"CAST({column} AS {_ELEMENTS[kind]}[])"
    oid = pgtypes.pg_type(kind).oid
    casts = {
        20: "BIGINT",
        21: "SMALLINT",
        23: "INTEGER",
        25: "VARCHAR",
        114: "VARCHAR",
        1114: "TIMESTAMP",
        1186: "VARCHAR",
        1266: "VARCHAR",
        1700: "VARCHAR",
        2950: "VARCHAR",
    }
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
    if kind in _ELEMENTS:
        return _arrays(values, _ELEMENTS[kind], vector=True)
    oid = oid or pgtypes.pg_type(kind).oid
    if oid in (17, 25, 114) or oid not in BINARY:
        return texts(values)
    if oid in _FROM_TEXT:
        encode = _FROM_TEXT[oid]
        return texts(pa.array([None if v is None else encode(v) for v in values.to_pylist()], pa.large_binary()))
    valid = np.asarray(values.is_valid())
    if oid in _MOMENTS:
        return _fixed(_moments(values, oid)[valid], valid)
    numbers = np.asarray((values.cast(pa.uint8()) if oid == 16 else values).fill_null(0))
    return _fixed(numbers[valid].astype(_NUMBERS[oid]), valid)


def _fixed(numbers: np.ndarray[Any, Any], valid: np.ndarray[Any, Any]) -> Column:
    encoded = np.ascontiguousarray(numbers)
    return Column(encoded.view(np.uint8).reshape(-1), np.where(valid, encoded.dtype.itemsize, -1))


def _moments(values: Any, oid: int) -> np.ndarray[Any, Any]:
    """Dates and times as PostgreSQL counts them. Infinity is the greatest number, and -infinity the least.

    Raises:
        DpsqlError: one is before what the binary format holds, which begins 30 years after DuckDB's own.
    """
    integers, shift = _MOMENTS[oid]
    numbers = np.asarray(values.view(integers).fill_null(0))
    bounds = np.iinfo(numbers.dtype)
    below = numbers == -bounds.max  # DuckDB's -infinity; PostgreSQL's is one less
    if shift and bool(np.any(~below & (numbers <= bounds.min + shift))):
        raise DpsqlError(
            f"a {pgtypes.BY_OID[oid].spelled} is before what PostgreSQL's binary format holds: "
            "ask for text, or for CAST(… AS VARCHAR)"
        )
    shifted = np.where(below, bounds.min + shift, numbers) - numbers.dtype.type(shift)
    shown = np.where(numbers == bounds.max, bounds.max, shifted) if shift else numbers
    return shown.astype(numbers.dtype.newbyteorder(">"))


def _arrays(values: Any, element: str, *, vector: bool = False) -> Column:
    """Of an Arrow array of lists: how many dimensions, whether there are NULLs, the type, the length, the elements.

    A vector counts from 0, and has a dimension where it is empty, too.
    """
    oid = pgtypes.element_type(element).oid
    flat = binary(values.flatten(), element, oid)
    raw, widths = flat.data.tobytes(), flat.lengths.tolist()
    encoded: list[bytes | None] = []
    item = place = 0
    counts = np.diff(np.asarray(values.offsets)).tolist()
    for count, valid in zip(counts, np.asarray(values.is_valid()).tolist(), strict=True):
        if not valid:
            encoded.append(None)
            continue
        parts, nulls = [], False
        for width in widths[item : item + count]:
            parts.append(struct.pack("!i", width) + raw[place : place + max(width, 0)])
            nulls, place = nulls or width < 0, place + max(width, 0)
        item += count
        shaped = bool(count) or vector
        head = struct.pack("!iiI", shaped, nulls, oid)
        encoded.append(head + (struct.pack("!ii", count, not vector) if shaped else b"") + b"".join(parts))
    return texts(pa.array(encoded, pa.large_binary()))


def _uuid(value: str) -> bytes:
    return bytes.fromhex(value.replace("-", ""))


_FROM_TEXT: Final = {
    1186: moments.interval_binary,
    1266: moments.zoned_time_binary,
    1700: numerics.to_binary,
    2950: _uuid,
}
"""Types whose binary format is made of DuckDB's text, a value at a time."""


def data_rows(columns: list[Column], count: int, message: bytes = b"D") -> bytes:
    """Messages of rows, all at once: heads, then each column's values put where they belong."""
    lengths = np.zeros((count, len(columns)), np.int64)
    for place, column in enumerate(columns):
        lengths[:, place] = np.maximum(column.lengths, 0)
    sizes = 7 + 4 * len(columns) + lengths.sum(axis=1)
    begins = np.concatenate([[0], np.cumsum(sizes)])
    out = np.zeros(int(begins[-1]), np.uint8)
    starts = begins[:-1]
    out[starts] = ord(message)
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
