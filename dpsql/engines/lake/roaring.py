"""Deletion vectors as Delta and Iceberg write them: bitmaps of 2³² places each, of blocks of 2¹⁶ places.

    place  =  2³² · key of the bitmap  +  2¹⁶ · key of the block  +  number in the block

Both keys come before the numbers, so a vector is refused before a place above the rows of its file costs memory.
"""

from __future__ import annotations

import zlib
from typing import Final

import numpy as np
import numpy.typing as npt

Places = npt.NDArray[np.int64]
FRAME: Final = 4
"""Bytes of the length before a vector, and of the checksum after it."""
_MAGIC: Final = 1681511377
_PLAIN, _RUNS = 12346, 12347
_STARTS_FROM: Final = 4
"""So many blocks, of which some are runs, have a list of where they start."""
_MOST_LISTED: Final = 4096
"""So many numbers of a block are a list; more are a bit for each of 2¹⁶."""
_MOST: Final = 1 << 16


class _Bytes:
    """Bytes that are read from their start; ValueError where they end too early."""

    def __init__(self, whole: bytes) -> None:
        self._whole, self._at = whole, 0

    def take(self, count: int) -> bytes:
        part = self._whole[self._at : self._at + count]
        if len(part) < count:
            raise ValueError("it ends too early")
        self._at += count
        return part

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), "little")

    def numbers(self, count: int) -> Places:
        return np.frombuffer(self.take(2 * count), dtype="<u2").astype(np.int64)


def unframed(framed: bytes) -> bytes:
    """A vector as files have it: its length before it, and a checksum after it.

    Raises:
        ValueError: it is damaged.
    """
    length, data, check = framed[:FRAME], framed[FRAME:-FRAME], framed[-FRAME:]
    if int.from_bytes(length, "big") != len(data) or int.from_bytes(check, "big") != zlib.crc32(data):
        raise ValueError("it is damaged")
    return data


def decoded(data: bytes, rows: int) -> Places:
    """The places that a vector has, in order.

    Args:
        data: the vector, from its magic number on; bytes after its end do not matter.
        rows: of its file.

    Raises:
        ValueError: it is damaged, or has a place that the file does not have.
    """
    source = _Bytes(data)
    if source.number(4) != _MAGIC:
        raise ValueError("it is of another kind")
    parts: list[Places] = []
    last = -1
    for _ in range(source.number(8)):
        key = source.number(4)
        if key <= last or key > rows >> 32:
            raise ValueError("its bitmaps are not in order, or above the rows")
        last = key
        parts += _of_bitmap(source, key << 32, rows)
    places = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
    if len(places) and (places[-1] >= rows or (np.diff(places) <= 0).any()):
        raise ValueError("its places are not in order, or above the rows")
    return places


def _of_bitmap(source: _Bytes, start: int, rows: int) -> list[Places]:
    """The places of one bitmap, by blocks."""
    cookie = source.number(4)
    runs = np.zeros(0, dtype=np.uint8)
    if cookie & 0xFFFF == _RUNS:
        count = (cookie >> 16) + 1
        runs = np.unpackbits(np.frombuffer(source.take(-(-count // 8)), dtype=np.uint8), bitorder="little")
    elif cookie == _PLAIN:
        count = source.number(4)
    else:
        raise ValueError("it is of another kind")
    head = source.numbers(2 * count).reshape(count, 2)
    if (np.diff(head[:, 0]) <= 0).any() or (count and start + (int(head[-1, 0]) << 16) >= rows):
        raise ValueError("its blocks are not in order, or above the rows")
    if not len(runs) or count >= _STARTS_FROM:
        source.take(4 * count)
    return [
        start + (int(key) << 16) + _of_block(source, int(most) + 1, is_runs=bool(len(runs) and runs[number]))
        for number, (key, most) in enumerate(head)
    ]


def _of_block(source: _Bytes, count: int, *, is_runs: bool) -> Places:
    """The numbers of one block, of which the head says how many there are."""
    if is_runs:
        pairs = source.numbers(2 * source.number(2)).reshape(-1, 2)
        if (pairs.sum(axis=1) >= _MOST).any() or (pairs[1:, 0] <= pairs[:-1].sum(axis=1)).any():
            raise ValueError("its runs are not in order")
        numbers = np.concatenate([np.arange(first, first + more + 1) for first, more in pairs]) if len(pairs) else None
    elif count <= _MOST_LISTED:
        return source.numbers(count)
    else:
        bits = np.unpackbits(np.frombuffer(source.take(_MOST // 8), dtype=np.uint8), bitorder="little")
        numbers = np.flatnonzero(bits)
    if numbers is None or len(numbers) != count:
        raise ValueError("a block has another number of places than its head says")
    return numbers.astype(np.int64)
