"""Names of the columns that a query shows: its own, and the errors behind those that are noisy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from dpsql.core.names import fold

SUFFIXES: Final = ("", "_stderr", "_low", "_high")


def with_errors(columns: Iterable[tuple[str, str, bool]]) -> list[tuple[str, str]]:
    """Names and types of columns, with those of their errors where they have some; none twice."""
    taken: set[str] = set()
    listed = []
    for name, kind, noisy in columns:
        for suffix in SUFFIXES if noisy else ("",):
            unique, number = name + suffix, 0
            while fold(unique) in taken:
                number += 1
                unique = f"{name}_{number}{suffix}"
            taken.add(fold(unique))
            listed.append((unique, "DOUBLE" if suffix else kind))
    return listed
