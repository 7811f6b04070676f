"""The files of the package by room, and their trees: what tests read that look at every file.

A test of a room looks at all its files, because a test a file takes longer to collect and report than to run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = sorted([*(ROOT / "dpsql").rglob("*.py"), *(ROOT / "udfs").rglob("*.py")])


def name_of(path: Path) -> str:
    """Where a file is in the checkout."""
    return str(path.relative_to(ROOT))


def room_of(path: Path) -> str:
    """The package that a file is in: a folder of `dpsql/`, itself, or `udfs`."""
    place = path.relative_to(ROOT).parts
    return "/".join(place[: 2 if place[0] == "dpsql" and len(place) > 2 else 1])


ROOMS = {room: [path for path in FILES if room_of(path) == room] for room in sorted(set(map(room_of, FILES)))}
"""The files of each room."""


def trees_of(room: str) -> Iterator[tuple[str, ast.Module]]:
    """The files of a room, one after the other: all trees at once would keep the garbage collector busy."""
    for path in ROOMS[room]:
        yield name_of(path), ast.parse(path.read_text(encoding="utf-8"))
