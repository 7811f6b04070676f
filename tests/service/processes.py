"""Processes as Linux shows them."""

from __future__ import annotations

import os
from pathlib import Path


def children_of(process: int) -> list[int]:
    found = []
    for one in os.listdir("/proc"):
        if one.isdigit():
            try:
                parent = int(Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()[1])
            except OSError:  # it has ended
                continue
            if parent == process:
                found.append(int(one))
    return found


def workers_of(front: int) -> list[int]:
    """The processes of users: children of the front's child."""
    return [worker for nursery in children_of(front) for worker in children_of(nursery)]


def threads(process: int) -> int:
    return len(os.listdir(f"/proc/{process}/task"))
