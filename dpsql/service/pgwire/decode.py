"""Parameters that clients send, as Python's values for DuckDB."""

from __future__ import annotations

import re
import struct
import uuid
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

from dpsql.service import pg_arrays, pgtypes

from .messages import BadMessage

_DAY_ONE: Final = date(2000, 1, 1)
_DAY_AND_ZONE: Final = re.compile(r"(\d+-\d\d-\d\d) ?[+-]\d\d(:\d\d){0,2}")
_NUMBERS: Final = {16: "!?", 20: "!q", 21: "!h", 23: "!i", 26: "!I", 700: "!f", 701: "!d"}


def value(raw: bytes | None, form: int, oid: int) -> Any:
    """One parameter.

    Raises:
        BadMessage: it is not in the format of its type.
    """
    if raw is None:
        return None
    try:
        return _binary(raw, oid) if form == 1 else _text(raw, oid)
    except (struct.error, UnicodeDecodeError, OverflowError, ValueError, ArithmeticError):
        raise BadMessage("a parameter is not in the format of its type") from None


def _text(raw: bytes, oid: int) -> Any:
    text = raw.decode()
    element = pgtypes.BY_OID[oid].element if oid in pgtypes.BY_OID else None
    if element is not None:
        return [None if one is None else _text(one.encode(), element.oid) for one in pg_arrays.elements(text)]
    if oid == 17 and text.startswith("\\x"):
        return bytes.fromhex(text[2:])
    if oid == 1082:  # JDBC sends the zone of a date; PostgreSQL drops it, DuckDB refuses it
        found = _DAY_AND_ZONE.fullmatch(text)
        return text if found is None else found[1]
    return Decimal(text) if oid == 1700 else text


def _binary(raw: bytes, oid: int) -> Any:
    if oid in _NUMBERS:
        return struct.unpack(_NUMBERS[oid], raw)[0]
    if oid == 17:
        return raw
    if oid == 2950:
        return uuid.UUID(bytes=raw)
    if oid == 1082:
        return _DAY_ONE + timedelta(days=struct.unpack("!i", raw)[0])
    if oid in (1114, 1184):
        moment = datetime(2000, 1, 1, tzinfo=UTC) + timedelta(microseconds=struct.unpack("!q", raw)[0])
        return moment if oid == 1184 else moment.replace(tzinfo=None)
    if oid == 1083:
        seconds, micro = divmod(struct.unpack("!q", raw)[0], 1_000_000)
        return time(seconds // 3600, seconds // 60 % 60, seconds % 60, micro)
    if oid == 1186:
        micro, days, months = struct.unpack("!qii", raw)
        return f"{months} months {days} days {micro} microseconds"
    if oid == 1700:
        return _numeric(raw)
    if oid in pgtypes.BY_OID and pgtypes.BY_OID[oid].element is not None:
        return _array(raw)
    return raw.decode()


def _array(raw: bytes) -> list[Any]:
    """Dimensions, whether there are NULLs, the type of the elements; a length and a lower bound; the elements."""
    dimensions, _, oid = struct.unpack_from("!iiI", raw)
    if dimensions == 0:
        return []
    if dimensions != 1:
        raise ValueError
    (count, _), place, found = struct.unpack_from("!ii", raw, 12), 20, []
    for _ in range(count):
        (length,) = struct.unpack_from("!i", raw, place)
        place += 4
        if length > len(raw) - place:
            raise ValueError
        found.append(None if length < 0 else _binary(raw[place : place + length], oid))
        place += max(length, 0)
    return found


def _numeric(raw: bytes) -> Decimal:
    count, weight, sign, scale = struct.unpack_from("!hhHh", raw)
    if sign not in (0, 0x4000):
        raise ValueError
    digits = struct.unpack_from(f"!{count}h", raw, 8)
    number = sum((Decimal(digit).scaleb(4 * (weight - place)) for place, digit in enumerate(digits)), Decimal(0))
    return (-number if sign else number).quantize(Decimal(1).scaleb(-scale))
