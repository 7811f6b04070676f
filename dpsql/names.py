"""Names as DuckDB compares them: exactly first, else by the case of ASCII letters only."""

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


def pick(wanted: str, names: Iterable[str]) -> str | None:
    """The one of `names` that `wanted` means; None if there is none.

    >>> pick("AGE", ["age", "sex"]), pick("é", ["É"])
    ('age', None)
    """
    found = list(names)
    if wanted in found:
        return wanted
    return next((name for name in found if fold(name) == fold(wanted)), None)


def ends_with(name: Sequence[str], parts: Sequence[str]) -> bool:
    """Whether `parts` are the last parts of a qualified name.

    >>> ends_with(("memory", "main", "people"), ("MAIN", "People"))
    True
    """
    return [fold(part) for part in parts] == [fold(part) for part in name[-len(parts) :]]
