"""Arguments of calls and options of mechanisms, checked: one in its kind, or an error that names it and its value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from dpsql.errors import InvalidArgument

Checked = TypeVar("Checked")
KINDS: Final[Mapping[type, str]] = {int: "a whole number", float: "a number", str: "a text"}
"""How an error asks for each."""


def checked(name: str, value: Any, kind: type[Checked]) -> Checked:
    """An argument in its kind, so that equal requests have equal keys; refuses one of another kind.

    >>> checked("rows", 100.0, int), checked("epsilon", 1, float)
    (100, 1.0)

    Raises:
        InvalidArgument: not of the kind.
    """
    if kind is bool and not isinstance(value, bool):
        value = {"true": True, "false": False}.get(str(value).lower(), value)
        if not isinstance(value, bool):
            raise InvalidArgument(f"{name} is {value!r}: say true or false")
    fits = isinstance(value, str | bool) is issubclass(kind, str | bool) and (kind is not str or isinstance(value, str))
    try:
        converted = kind(value) if fits else None  # type: ignore[call-arg]
    except (TypeError, ValueError, OverflowError):
        converted = None
    if converted is None or (kind is int and converted != value):
        raise InvalidArgument(f"{name} is {value!r}: give {KINDS.get(kind, f'a value of the kind {kind.__name__}')}")
    return converted


def checked_names(name: str, value: Any) -> tuple[str, ...]:
    """Columns or words that an option names, as a list or as text with commas; refuses anything else.

    >>> checked_names("group_by", "ward, year"), checked_names("group_by", ["ward", "year"])
    (('ward', 'year'), ('ward', 'year'))

    Raises:
        InvalidArgument: not of texts, none at all, or an empty one.
    """
    names = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    is_list = isinstance(names, list | tuple) and all(
        isinstance(name_given, str) and name_given for name_given in names
    )
    if not is_list or not names:
        raise InvalidArgument(
            f"{name} is {value!r}: give names as a list, such as ['one', 'other'], or as text with commas, or leave "
            "it out"
        )
    return tuple(names)


def check_range(name: str, value: float, low: float, high: float) -> None:
    """Refuse an option outside low … high."""
    if not low <= value <= high:
        raise InvalidArgument(f"{name} is {value:g}: give {low:g} to {high:g}")


def check_rounds(rounds: int | str) -> None:
    """Refuse a number of rounds that is neither 'auto' nor positive."""
    if isinstance(rounds, str):
        if rounds != "auto":
            raise InvalidArgument(f"rounds is {rounds!r}: give a whole number, or 'auto'")
    else:
        check_range("rounds", rounds, 1, 10_000)


def check_word(name: str, value: str, words: Sequence[str]) -> None:
    """Refuse an option that is none of the known words."""
    if value not in words:
        raise InvalidArgument(f"{name} is {value!r}: say one of {', '.join(map(repr, words))}")
