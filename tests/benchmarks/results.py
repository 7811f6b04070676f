"""Writes what a benchmark measured into RESULTS.md beside it, with the machine, versions and command."""

from __future__ import annotations

import datetime
import os
import platform
import re
import shlex
import sys
from importlib.metadata import version
from pathlib import Path

FILE = Path(__file__).parent / "RESULTS.md"
CLAIMS = FILE.with_name("CLAIMS.md")
LONGEST = 4_000
"""Words of RESULTS.md, without the rules of its tables: it is the present state, and what was before is in its history."""


def machine() -> str:
    """The machine and the versions, on one line."""
    import jax

    names = ("duckdb", "jax", "numpy")
    devices = ", ".join(f"{d.platform} {d.device_kind}" for d in jax.devices())
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"{platform.system()} {platform.machine()}, {cores} cores, device {devices}; Python "
        f"{platform.python_version()}, dpsql {version('dpsql')}, {versions}; {datetime.date.today()}"
    )


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def words(text: str) -> int:
    """How many words somebody reads, without the rules of tables."""
    return sum(bool(word.strip("|-")) for word in text.split())


def write(section: str, text: str, command: str = "", file: Path = FILE) -> None:
    """Put a section into a file, in place of its last version; the command is this process' by default."""
    command = command or shlex.join(["python", f"tests/benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])
    command = re.sub(r"(--peer \S+=)\S+", r"\1…", command)
    body = f"## {section}\n\n`{command}`\n\n{machine()}\n\n{text.strip()}\n"
    head, *parts = re.split(r"(?m)^(?=## )", file.read_text(encoding="utf-8"))
    places = [place for place, part in enumerate(parts) if part.startswith(f"## {section}\n")]
    for place in places or [len(parts)]:
        parts[place : place + 1] = [body]
    file.write_text("\n".join(part.strip() + "\n" for part in (head, *parts)), encoding="utf-8")
