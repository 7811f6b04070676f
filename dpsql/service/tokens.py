"""The words of a statement, to respell a few of them: texts, comments and quoted names are left as they are.

What is not closed goes on to the end, so that the time is in proportion to the length. Where DuckDB reads a statement
otherwise, nothing is lost: what runs is what the allow-list looked at, as DuckDB parsed it.
"""

from __future__ import annotations

import re
from typing import Final

_TOKEN: Final = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<text>[eE]?'(?:[^']|'')*+(?:'|\Z)|\$(?P<tag>[A-Za-z_]*)\$.*?(?:\$(?P=tag)\$|\Z))
    |(?P<quoted>"(?:[^"]|"")*+(?:"|\Z))
    |(?P<parameter>\$\d+)
    |(?P<word>[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*)
    |(?P<number>\d[\w.]*)
    |(?P<other>::|=>|:=|.)
    """,
    re.VERBOSE | re.DOTALL,
)
Token = tuple[str, str]
"""Its kind (space, text, quoted, parameter, word, number, other) and its characters."""


def tokens(sql: str) -> list[Token]:
    """All of them; joined they are the statement."""
    found = []
    for match in _TOKEN.finditer(sql):
        kind = match.lastgroup or "other"
        found.append(("text" if kind == "tag" else kind, match.group()))
    return found


def first_word(sql: str) -> str:
    """The first in upper case; what follows is not looked at."""
    found = (match.group().upper() for match in _TOKEN.finditer(sql) if match.lastgroup != "space")
    return next(found, "")


def trimmed(sql: str) -> str:
    """Without the semicolons, spaces and comments at its end."""
    found = tokens(sql)
    while found and (found[-1][0] == "space" or found[-1][1] == ";"):
        found.pop()
    return "".join(text for _, text in found)
