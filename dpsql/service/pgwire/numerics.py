"""Numerics: PostgreSQL's digits in base 10,000 from texts and to texts, and texts as DuckDB's decimals. Nothing rounds.

value = sign · Σ digit[i] · 10000^(weight − i),    with `scale` decimals shown
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from decimal import Decimal
from functools import cache, lru_cache
from typing import Any, Final

import duckdb

from dpsql.errors import InvalidArgument

_NEGATIVE: Final = 0x4000
_SPECIAL: Final = {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}
_PLAIN: Final = re.compile(r"\s*+[-+]?(\d++(\.\d*+)?|\.\d++)(e[-+]?\d{1,5})?\s*+", re.ASCII | re.IGNORECASE)
_INFINITE: Final = re.compile(r"\s*([-+]?inf(inity)?|nan)\s*", re.ASCII | re.IGNORECASE)
_MOST: Final = 38
"""Digits of DuckDB's decimals."""
_WHOLE: Final = (("HUGEINT", -(2**127), 2**127 - 1), ("UHUGEINT", 0, 2**128 - 1))
"""Types of whole numbers that may have 39 digits."""


def to_binary(text: str) -> bytes:
    """How many digits, the weight of the first, the sign, how many decimals are shown, the digits.

    Args:
        text: a number as DuckDB writes it, without an exponent.
    """
    whole, _, part = text.lstrip("-").partition(".")
    whole, scale = whole.lstrip("0"), len(part)
    whole = whole.zfill(-(-len(whole) // 4) * 4)
    part = part.ljust(-(-len(part) // 4) * 4, "0")
    digits = [int((whole + part)[place : place + 4]) for place in range(0, len(whole + part), 4)]
    weight = len(whole) // 4 - 1
    while digits and digits[0] == 0:
        digits.pop(0)
        weight -= 1
    while digits and digits[-1] == 0:
        digits.pop()
    sign = _NEGATIVE if digits and text.startswith("-") else 0
    return struct.pack(f"!hhHh{len(digits)}h", len(digits), weight if digits else 0, sign, scale, *digits)


def to_text(raw: bytes) -> str:
    """The text of a binary numeric.

    Raises:
        ValueError: it is none.
        struct.error: it is too short.
    """
    count, weight, sign, scale = struct.unpack_from("!hhHh", raw)
    if sign in _SPECIAL:
        return _SPECIAL[sign]
    digits = struct.unpack_from(f"!{count}h", raw, 8)
    if sign not in (0, _NEGATIVE) or not 0 <= scale <= 16_383 or not all(0 <= digit < 10_000 for digit in digits):
        raise ValueError("no numeric")
    before = max(weight + 1, 0)
    whole = "".join(f"{digit:04}" for digit in digits[:before]) + "0000" * (before - count)
    part = "0000" * min(-weight - 1, 4096) + "".join(f"{digit:04}" for digit in digits[before:])
    return f"{'-' if sign else ''}{whole or '0'}.{part[:scale].ljust(scale, '0')}".rstrip(".")


def parameter(text: str) -> Any:
    """A numeric that a client sends, as DuckDB takes it.

    Raises:
        ValueError: it is no number.
        InvalidArgument: DuckDB has no type for it.
    """
    if _INFINITE.fullmatch(text):  # DuckDB's decimals have neither; a double compares with them as PostgreSQL does
        return float(text)
    texts, kind = _typed([text])
    return duckdb.Value(texts[0], _type(kind))


def parameters(texts: Sequence[str | None]) -> Any:
    """An array of them: all get the type that holds each without a loss."""
    shown, kind = _typed([text for text in texts if text is not None])
    left = iter(shown)
    return duckdb.Value([None if text is None else next(left) for text in texts], _type(f"{kind}[]"))


def _typed(texts: Sequence[str]) -> tuple[list[str], str]:
    """Numbers without exponents, and the smallest type of DuckDB that holds all."""
    numbers = [_number(text) for text in texts]
    exponents = [int(number.as_tuple().exponent) for number in numbers]
    scale = max([0, *(-exponent for exponent in exponents)])
    before = max([1 if scale == 0 else 0, *(number.adjusted() + 1 for number in numbers if number)])
    if before + scale > _MOST:  # zeros at the end are not worth a refusal
        numbers = [_without_zeros(number) for number in numbers]
        scale = max([0, *(-int(number.as_tuple().exponent) for number in numbers)])
    shown = [f"{number:f}" for number in numbers]
    if before + scale <= _MOST:
        return shown, f"DECIMAL({max(before + scale, 1)},{scale})"
    for kind, lowest, highest in _WHOLE if scale == 0 else ():
        if all(lowest <= int(number) <= highest for number in numbers):
            return shown, kind
    raise InvalidArgument(
        f"a numeric parameter needs {before} digits before the point and {scale} after it: DuckDB's decimals have "
        f"{_MOST} digits in all, so round it or send a double"
    )


def _number(text: str) -> Decimal:
    if not _PLAIN.fullmatch(text):
        raise ValueError("no number")
    number = Decimal(text.strip())  # exact, whatever the context's precision is
    if number and not -20_000 < number.adjusted() < _MOST + 1:
        raise InvalidArgument(f"a numeric parameter is about 1e{number.adjusted()}: DuckDB's whole numbers end at 3e38")
    return number


def _without_zeros(number: Decimal) -> Decimal:
    """The same number without the zeros at the end of its decimals."""
    text = f"{number:f}"
    return Decimal(text.rstrip("0").rstrip(".") or "0") if "." in text else number


@cache
def _types() -> duckdb.DuckDBPyConnection:
    """A DuckDB that only makes types, so that the one that Python shares is never opened."""
    return duckdb.connect(config={"enable_external_access": "false", "threads": "1"})


@lru_cache(maxsize=2000)
def _type(kind: str) -> Any:
    with _types().cursor() as cursor:
        return cursor.sqltype(kind)
