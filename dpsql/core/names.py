"""Names as DuckDB compares them, exactly first, else by the case of ASCII letters only; and as errors show them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from string import ascii_lowercase, ascii_uppercase

_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)


def fold(name: str) -> str:
    """The name with ASCII letters in lower case.

    >>> fold("Straße É")
    'straße É'
    """
    return name.translate(_LOWER)


def shorten(text: str) -> str:
    """A text as an error shows it: of at most 80 characters.

    >>> shorten("SELECT 1"), len(shorten("x" * 81))
    ('SELECT 1', 78)
    """
    return text if len(text) <= 80 else text[:77] + "…"


def quote(name: str) -> str:
    """An identifier in double quotes."""
    return '"' + name.replace('"', '""') + '"'


def as_text(text: str) -> str:
    """A text as SQL writes it.

    >>> as_text("o'x")
    "'o''x'"
    """
    return "'" + text.replace("'", "''") + "'"


def pick(wanted: str, names: Iterable[str]) -> str | None:
    """The one of `names` that `wanted` means; None if there is none.

    >>> pick("AGE", ["age", "sex"]), pick("é", ["É"])
    ('age', None)
    """
    listed = list(names)
    if wanted in listed:
        return wanted
    return next((name for name in listed if fold(name) == fold(wanted)), None)


def ends_with(name: Sequence[str], parts: Sequence[str]) -> bool:
    """Whether `parts` are the last parts of a qualified name.

    >>> ends_with(("memory", "main", "people"), ("MAIN", "People"))
    True
    """
    return [fold(part) for part in parts] == [fold(part) for part in name[-len(parts) :]]
