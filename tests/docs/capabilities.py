"""What dpsql and its peers can do: the table of the comparison, as README shows it."""

from __future__ import annotations

import re
from pathlib import Path

COMPARISON = Path(__file__).parents[2] / "docs" / "explanation" / "comparison.md"
_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")


def capability_table() -> str:
    """The first table of the comparison, without its links: they stand once."""
    section = COMPARISON.read_text(encoding="utf-8").partition("## What each can do\n")[2].split("\n## ")[0]
    return "".join(f"{line}\n" for line in _LINK.sub(r"\1", section).splitlines() if line.startswith("|"))
