"""A type as PostgreSQL's statements spell it: its words, its modifier in parentheses, the fields of an interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_SHORT: Final = {
    "char": "bpchar",
    "character": "bpchar",
    "nchar": "bpchar",
    "national": "bpchar",
    "bpchar": "bpchar",
    "varchar": "varchar",
    "bit": "bit",
    "varbit": "varbit",
    "decimal": "numeric",
    "dec": "numeric",
    "numeric": "numeric",
    "float": "float",
    "time": "time",
    "timetz": "timetz",
    "timestamp": "timestamp",
    "timestamptz": "timestamptz",
    "interval": "interval",
}
_LONGER: Final = {"bpchar": "varchar", "bit": "varbit"}
"""What VARYING makes of a type."""
_ZONED: Final = {"time": "timetz", "timestamp": "timestamptz"}
FIELDS: Final = ("year", "month", "day", "hour", "minute", "second")
"""Of an interval, the largest first."""
_NO_TYPE: Final = "char"
"""In quotation marks or behind a schema it is PostgreSQL's type of one byte."""


@dataclass(frozen=True)
class TypeWords:
    """A type in a statement.

    Attributes:
        name: PostgreSQL's own, in lower case; of types without a modifier as it is written.
        modifiers: the numbers in parentheses; None where there are no parentheses with numbers.
        fields: of an interval, the first and the last.
        arrays: how many pairs of brackets follow.
        end: the word behind it.
        spelled: the words that it was read from.
    """

    name: str
    modifiers: tuple[int, ...] | None
    fields: tuple[str, ...]
    arrays: int
    end: int
    spelled: str


def type_words(texts: Sequence[str], at: int) -> TypeWords:
    """The type that begins at a word.

    Args:
        texts: the words of a statement in lower case, without spaces.
        at: the first one's place.
    """
    begin, is_own = at, False
    if texts[at : at + 2] in (["pg_catalog", "."], ['"pg_catalog"', "."]):
        at, is_own = at + 2, True
    word = texts[at] if at < len(texts) else ""
    bare = word.strip('"')
    is_own |= bare != word
    name = bare if is_own and bare == _NO_TYPE else _SHORT.get(bare, bare)
    at += 1
    if word == "national" and texts[at : at + 1] in (["char"], ["character"]):
        at += 1
    if name in _LONGER and texts[at : at + 1] == ["varying"]:
        name, at = _LONGER[name], at + 1
    if word == "double" and texts[at : at + 1] == ["precision"]:
        at += 1
    fields: tuple[str, ...] = ()
    modifiers, at = _numbers(texts, at)
    if name == "interval" and modifiers is None:
        fields, modifiers, at = _fields(texts, at)
    if name in _ZONED and texts[at + 1 : at + 3] == ["time", "zone"]:
        zoned = texts[at] == "with"
        if zoned or texts[at] == "without":
            name, at = _ZONED[name] if zoned else name, at + 3
    arrays, at = _brackets(texts, at)
    if name == "bpchar" and modifiers is None and bare != "bpchar":
        modifiers = (1,)
    return TypeWords(name, modifiers, fields, arrays, at, " ".join(texts[begin:at]))


def _numbers(texts: Sequence[str], at: int) -> tuple[tuple[int, ...] | None, int]:
    """Numbers in parentheses, and the word behind them; none where something else is in them."""
    if texts[at : at + 1] != ["("]:
        return None, at
    place, numbers = at + 1, []
    while place < len(texts):
        sign = 1
        if texts[place] in ("-", "+"):
            sign, place = -1 if texts[place] == "-" else 1, place + 1
        digits = texts[place] if place < len(texts) else ""
        if not (digits.isascii() and digits.isdecimal()):
            return None, at
        numbers.append(sign * int(digits[:20]))
        following = texts[place + 1 : place + 2]
        if following == [")"]:
            return tuple(numbers), place + 2
        if following != [","]:
            return None, at
        place += 2
    return None, at


def _fields(texts: Sequence[str], at: int) -> tuple[tuple[str, ...], tuple[int, ...] | None, int]:
    """The fields that an interval is cut to, with the digits of its seconds."""
    if at >= len(texts) or texts[at] not in FIELDS:
        return (), None, at
    fields: tuple[str, ...] = (texts[at], texts[at])
    at += 1
    if texts[at : at + 1] == ["to"] and texts[at + 1 : at + 2] and texts[at + 1] in FIELDS:
        fields, at = (fields[0], texts[at + 1]), at + 2
    modifiers, at = _numbers(texts, at) if fields[1] == "second" else (None, at)
    return fields, modifiers, at


def _brackets(texts: Sequence[str], at: int) -> tuple[int, int]:
    """How many dimensions an array has, by brackets with a number or none; and the word behind them."""
    arrays = 0
    if texts[at : at + 1] == ["array"]:
        arrays, at = 1, at + 1
        sizes = 1
    else:
        sizes = len(texts)
    for number in range(sizes):
        width = 2 if texts[at : at + 2] == ["[", "]"] else 3
        if texts[at : at + 1] != ["["] or texts[at + width - 1 : at + width] != ["]"]:
            break
        at, arrays = at + width, max(arrays, number + 1)
    return arrays, at
