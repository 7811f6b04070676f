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
HEAD = """# What the benchmarks measured

Each section names its command; most are written by it (`--write`), those of several commands, "Beside peers", "Thresholds"
and "Every mechanism", were put together from what these printed. The real tables are not part of this repository; the
scripts say where they look for them.
"""


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


def write(section: str, text: str, command: str = "") -> None:
    """Put a section into RESULTS.md, in place of its last version; the command is this process' by default."""
    command = command or shlex.join(["python", f"tests/benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])
    command = re.sub(r"(--peer \S+=)\S+", r"\1…", command)
    body = f"## {section}\n\n`{command}`\n\n{machine()}\n\n{text.strip()}\n"
    old = FILE.read_text(encoding="utf-8") if FILE.exists() else HEAD
    head, *parts = re.split(r"(?m)^(?=## )", old)
    parts = [part for part in parts if not part.startswith(f"## {section}\n")]
    FILE.write_text("\n".join(part.strip() + "\n" for part in (head, *parts, body)), encoding="utf-8")
