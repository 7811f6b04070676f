"""Messages between this process and the one in which people's expressions are tried.

    8 bytes: length of the head  |  the head, JSON  |  columns of numbers, as they lie in memory

Neither side unpickles anything: the head is plain values, and the head tells type and length of every column, which are
checked before a byte of it is read. For what arrives from a process in which a hostile text ran may be anything.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Head = dict[str, Any]
Numbers = npt.NDArray[Any]
_LARGEST_HEAD: Final = 1 << 28
_MOST_VALUES: Final = 1 << 25  # in a head: each takes many times its text in memory
_LARGEST: Final = 1 << 31  # bytes of all columns of a message
_KINDS: Final = frozenset("biufmM")  # NumPy's letters: truths, numbers, moments
_SIZES: Final = frozenset({1, 2, 4, 8})
_CHUNK: Final = 1 << 20
MOST_OF_ROWS: Final = 1 << 26
"""Bytes of the rows of one statement, in a head: whoever asked for them keeps several copies for a while."""


class Ended(Exception):
    """The other side has ended, or sent what is no message."""


def send(file: int, head: Head, columns: Sequence[Numbers] = ()) -> None:
    """Write a message to a pipe.

    Raises:
        OSError: the other side has ended.
    """
    plain = [np.ascontiguousarray(column) for column in columns]
    whole_head = {**head, "columns": [[column.dtype.str, len(column)] for column in plain]}
    text = json.dumps(whole_head).encode("ascii")
    _write(file, len(text).to_bytes(8, "big") + text)
    for column in plain:
        if column.size:
            _write(file, column.view(np.uint8).data)


def _write(file: int, data: bytes | memoryview) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left[:_CHUNK]) :]


def receive(file: int, most: int = _LARGEST_HEAD) -> tuple[Head, list[Numbers]]:
    """Read a message from a pipe.

    Args:
        file: the pipe.
        most: bytes of its head.

    Raises:
        Ended: there is none, or it is not well formed.
    """
    size = int.from_bytes(_read(file, 8), "big")
    if size > most:
        raise Ended
    text = bytes(_read(file, size))
    if sum(text.count(sign) for sign in (b",", b"[", b"{")) > _MOST_VALUES:
        raise Ended
    try:
        head = json.loads(text)
        listed = [(np.dtype(str(kind)), int(count)) for kind, count in head["columns"]]
    except (ValueError, TypeError, KeyError, RecursionError, MemoryError):
        raise Ended from None
    if not isinstance(head, dict) or any(k.kind not in _KINDS or k.itemsize not in _SIZES or n < 0 for k, n in listed):
        raise Ended
    if sum(kind.itemsize * count for kind, count in listed) > _LARGEST:
        raise Ended
    return head, [np.frombuffer(_read(file, kind.itemsize * count), kind) for kind, count in listed]


def _read(file: int, size: int) -> bytearray:
    """So many bytes; room is taken as they come, whatever was said of how many there are."""
    data = bytearray()
    while len(data) < size:
        some = os.read(file, min(_CHUNK, size - len(data)))
        if not some:
            raise Ended
        data += some
    return data


def written(columns: Mapping[str, Any]) -> tuple[Head, list[Numbers]]:
    """A result's columns as a head and columns of numbers: texts go into the head, masks are columns.

    Raises:
        TypeError: a value is neither a number, nor a moment, nor a text.
    """
    heads, numbers = list[list[Any]](), list[Numbers]()
    for name, values in columns.items():
        masked = np.ma.isMaskedArray(values)
        plain = np.ma.getdata(values) if masked else np.asarray(values)
        if plain.dtype == object:
            texts = [None if gone else text for text, gone in zip(plain, np.ma.getmaskarray(values), strict=True)]
            if not all(text is None or isinstance(text, str) for text in texts):
                raise TypeError
            heads.append([name, "texts", texts])
        elif plain.dtype.kind not in _KINDS:
            raise TypeError
        else:
            heads.append([name, "masked" if masked else "numbers", None])
            numbers += [plain, np.ma.getmaskarray(values)] if masked else [plain]
    return {"result": heads}, numbers


def read(head: Head, numbers: Sequence[Numbers]) -> dict[str, Any]:
    """A result's columns, of what `written` made.

    Raises:
        Ended: it is not well formed.
    """
    left, result = iter(numbers), dict[str, Any]()
    try:
        for name, kind, texts in head["result"]:
            if kind == "texts":
                result[str(name)] = _texts(texts)
            else:
                plain = next(left)
                result[str(name)] = np.ma.MaskedArray(plain, next(left)) if kind == "masked" else plain
    except (KeyError, TypeError, ValueError, StopIteration, np.ma.MaskError):
        raise Ended from None
    return result


def _texts(texts: Sequence[str | None]) -> Any:
    """A column of objects, masked where a text is missing, as DuckDB makes it."""
    if not all(text is None or isinstance(text, str) for text in texts):
        raise TypeError
    column = np.empty(len(texts), object)
    column[:] = texts
    missing = np.array([text is None for text in texts], bool)
    return np.ma.MaskedArray(column, missing) if missing.any() else column


def rows_of(head: Head) -> list[tuple[Any, ...]]:
    """Rows of plain values.

    Raises:
        Ended: it is not well formed.
    """
    rows = head.get("rows")
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise Ended
    if any(isinstance(value, list | dict) for row in rows for value in row):
        raise Ended
    return [tuple(row) for row in rows]
