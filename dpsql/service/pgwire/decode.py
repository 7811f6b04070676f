"""Parameters that clients send, as Python's values for DuckDB."""

from __future__ import annotations

import re
import struct
import uuid
from typing import Any, Final

from dpsql.errors import InvalidArgument
from dpsql.service import pg_arrays, pgtypes

from . import moments, numerics
from .messages import BadMessage

_NUMBERS: Final = {16: "!?", 20: "!q", 21: "!h", 23: "!i", 26: "!I", 700: "!f", 701: "!d"}
_WHOLE: Final = frozenset({20, 21, 23, 26})
_INTEGER: Final = re.compile(r"\s*[-+]?\d+\s*", re.ASCII)
_ESCAPED: Final = re.compile(rb"\\(\\|[0-3][0-7]{2})")
_NUMERIC: Final = pgtypes.NUMERIC.oid


def value(raw: bytes | None, form: int, oid: int) -> Any:
    """One parameter.

    Raises:
        BadMessage: it is not in the format of its type.
    """
    if raw is None:
        return None
    try:
        return _binary(raw, oid) if form == 1 else _text(raw, oid)
    except InvalidArgument:
        raise
    except (struct.error, UnicodeDecodeError, OverflowError, ValueError, ArithmeticError):
        raise BadMessage("a parameter is not in the format of its type") from None


def _text(raw: bytes, oid: int) -> Any:
    text = raw.decode()
    element = pgtypes.BY_OID[oid].element if oid in pgtypes.BY_OID else None
    if element is not None:
        parts = pg_arrays.elements(text)
        if element.oid == _NUMERIC:
            return numerics.parameters(parts)
        return [None if part is None else _text(part.encode(), element.oid) for part in parts]
    if oid == _NUMERIC:
        return numerics.parameter(text)
    if oid == 17:
        return _bytes(raw)
    if oid in _WHOLE and not _INTEGER.fullmatch(text):  # DuckDB would round 1.5
        raise ValueError("no whole number")
    if oid in (1082, 1114, 1184):
        return moments.from_client(text, with_time=oid != 1082)
    return moments.interval_from_client(text) if oid == 1186 else text


def _bytes(raw: bytes) -> bytes:
    """Of both of PostgreSQL's texts: hexadecimal digits, and letters with escapes."""
    if raw.startswith(b"\\x"):
        return bytes.fromhex(raw[2:].decode())
    return _ESCAPED.sub(lambda match: b"\\" if match[1] == b"\\" else bytes([int(match[1], 8)]), raw)


def _binary(raw: bytes, oid: int) -> Any:
    if oid in _NUMBERS:
        return struct.unpack(_NUMBERS[oid], raw)[0]
    if oid == 17:
        return raw
    if oid == 2950:
        return uuid.UUID(bytes=raw)
    if oid == 1082:
        return moments.day_text(struct.unpack("!i", raw)[0])
    if oid in (1114, 1184):
        shown = moments.moment_text(struct.unpack("!q", raw)[0])
        return shown if oid == 1114 or "infinity" in shown else f"{shown}+00"
    if oid == 1083:
        return moments.time_text(struct.unpack("!q", raw)[0])
    if oid == 1186:
        return moments.interval_text(raw)
    if oid == 1266:
        return moments.zoned_time_text(raw)
    if oid == _NUMERIC:
        return numerics.parameter(numerics.to_text(raw))
    if oid in pgtypes.BY_OID and pgtypes.BY_OID[oid].element is not None:
        return _array(raw)
    return raw.decode()


def _array(raw: bytes) -> Any:
    """Dimensions, whether there are NULLs, the type of the elements; a length and a lower bound; the elements."""
    dimensions, _, oid = struct.unpack_from("!iiI", raw)
    if dimensions == 0:
        return []
    if dimensions != 1:
        raise ValueError
    (count, _), place, parts = struct.unpack_from("!ii", raw, 12), 20, []
    for _ in range(count):
        (length,) = struct.unpack_from("!i", raw, place)
        place += 4
        if length > len(raw) - place:
            raise ValueError
        parts.append(None if length < 0 else raw[place : place + length])
        place += max(length, 0)
    if oid == _NUMERIC:
        return numerics.parameters([None if part is None else numerics.to_text(part) for part in parts])
    values = [None if part is None else _binary(part, oid) for part in parts]
    return [
        repr(element) if isinstance(element, float) else element for element in values
    ]  # DuckDB 1.5 takes NaN in a list for NULL
