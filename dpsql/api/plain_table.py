"""Rows as text for a terminal: the one style of all commands that list something."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from dpsql.core.digits import down, up

_GAP: Final = "  "
_LONGEST: Final = 200
"""Characters of a cell; more are cut, because a table is to be looked at."""


def plain_table(columns: Sequence[str], rows: Iterable[Sequence[object]], empty: str = "none") -> str:
    """The rows below their columns' names; numbers stand to the right, what is left is rounded down, and losses up.

    >>> print(plain_table(["table", "epsilon_left"], [["visits", 0.7639999], ["bank", None]]))
    table   epsilon_left
    visits      0.763999
    bank

    Args:
        columns: their names.
        rows: of values.
        empty: what is said where there are no rows.
    """
    texts = [[_text(value, name) for value, name in zip(row, columns, strict=True)] for row in rows]
    if not texts:
        return empty
    numbers = [all(_is_number(row[place]) for row in texts) for place in range(len(columns))]
    widths = [max(len(line[place]) for line in (columns, *texts)) for place in range(len(columns))]
    lines = []
    for line in (columns, *texts):
        cells = zip(line, widths, numbers, strict=True)
        lines.append(_GAP.join(text.rjust(width) if right else text.ljust(width) for text, width, right in cells))
    return "\n".join(line.rstrip() for line in lines)


def _text(value: object, column: str) -> str:
    if value is None or value != value:  # NaN is pandas' NULL
        return ""
    if isinstance(value, float) and not value.is_integer():
        return down(value) if column.endswith("_left") else up(value)
    text = f"{value:.0f}" if isinstance(value, float) else _printable(str(value))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _printable(text: str) -> str:
    """A text without what a terminal obeys, or shows in another order: a user may have written it."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


def _is_number(text: str) -> bool:
    try:
        float(text or 0)
    except ValueError:
        return False
    return True
