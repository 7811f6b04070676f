"""What of a page people read as prose: `python -m tests.docs.prose FOLDER PAGE…` writes it there, for a linter.

Lines stay where they are, so that a linter's line numbers are those of the page. Left out are code, tables, HTML and
what is made from the code (see `tables.py`), whose words are the code's.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOP = ("README.md", "SECURITY.md", "CONTRIBUTING.md")
_MADE = re.compile(r"<!-- made by .*?<!-- end -->", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_FENCE = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
_ITEM = re.compile(r"^ *(?:[-*]|\d+\.) ")


def written() -> list[str]:
    """Every page that people wrote, from the root of the repository."""
    return [*TOP, *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))]


def prose_of(text: str) -> str:
    """A page with all that is no prose blanked out."""
    for left_out in (_MADE, _COMMENT, _FENCE):
        text = left_out.sub(lambda found: "\n" * found[0].count("\n"), text)
    lines = ["" if line.lstrip().startswith(("|", "<", "![")) else line for line in text.split("\n")]
    text = "\n".join(line.lstrip("# ") + "." if line.startswith("#") else line for line in lines)
    text = re.sub(r"`[^`\n]*(?:\n[^`\n]*)?`", lambda found: "x" + "\n" * found[0].count("\n"), text)
    return re.sub(r"\]\([^)]*\)", "]", text).replace("[", "").replace("]", "").replace("**", "")


def paragraphs(text: str) -> list[str]:
    """The paragraphs and items of lists of a page's prose, each on one line."""
    found: list[str] = [""]
    for line in prose_of(text).split("\n"):
        if not line.strip():
            found.append("")
        elif _ITEM.match(line):
            found.append(_ITEM.sub("", line))
        else:
            found[-1] += " " + line.strip()
    return [one.strip() for one in found if one.strip()]


def sentences(text: str) -> list[str]:
    """The sentences of a page's prose. A colon ends none."""
    return [one for p in paragraphs(text) for one in re.split(r"(?<=[.!?])\)? +(?=[A-Zδερ`x\"(0-9]|dpsql)", p)]


def cells(text: str) -> list[str]:
    """The cells of the tables that people wrote, links by their text."""
    text = _FENCE.sub("", _MADE.sub("", text))
    lines = [line for line in text.split("\n") if line.startswith("|")]
    split = [re.split(r"(?<!\\)\|", line.strip("|")) for line in lines]
    return [re.sub(r"\]\([^)]*\)", "]", cell).strip() for line in split for cell in line]


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for name in sys.argv[2:]:
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(prose_of((ROOT / name).read_text(encoding="utf-8")), encoding="utf-8")
