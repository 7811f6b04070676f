"""The words of a statement, to respell a few of them: texts, comments and quoted names are left as they are.

What is not closed goes on to the end, so that the time is in proportion to the length. Where DuckDB reads a statement
otherwise, nothing is lost: what runs is what the allow-list looked at, as DuckDB parsed it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

_TOKEN: Final = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<text>[eE]'(?:[^'\\]|''|\\.)*+(?:'|\Z)|'(?:[^']|'')*+(?:'|\Z)
        |\$(?P<tag>(?:[A-Za-z_\u0080-\U0010ffff][A-Za-z0-9_\u0080-\U0010ffff]*)?)\$.*?(?:\$(?P=tag)\$|\Z))
    |(?P<quoted>"(?:[^"]|"")*+(?:"|\Z))
    |(?P<parameter>\$\d+)
    |(?P<word>[A-Za-z_\u0080-\U0010ffff][\w$\u0080-\U0010ffff]*)
    |(?P<number>\d[\w.]*)
    |(?P<other>::|=>|:=|.)
    """,
    re.VERBOSE | re.DOTALL,
)
Token = tuple[str, str]
"""Its kind (space, text, quoted, parameter, word, number, other) and its characters."""


_COMMENT: Final = re.compile(r"/\*|\*/")


def tokens(sql: str) -> list[Token]:
    """All of them; joined they are the statement."""
    return list(_read(sql))


def _read(sql: str) -> Iterator[Token]:
    place = 0
    while match := _TOKEN.match(sql, place):
        kind, text = match.lastgroup or "other", match.group()
        if text[:2] == "/*":
            text = sql[place : _end_of_comment(sql, place)]
        place += len(text)
        yield "text" if kind == "tag" else kind, text


def _end_of_comment(sql: str, place: int) -> int:
    """Where a comment ends, which may have others inside."""
    depth = 0
    for sign in _COMMENT.finditer(sql, place):
        depth += 1 if sign.group() == "/*" else -1
        if not depth:
            return sign.end()
    return len(sql)


def word_places(sql_tokens: Sequence[Token]) -> list[int]:
    """Where the words stand: all tokens but spaces."""
    return [place for place, (kind, _) in enumerate(sql_tokens) if kind != "space"]


def first_word(sql: str) -> str:
    """The first in upper case; what follows is not looked at."""
    return next((text.upper() for kind, text in _read(sql) if kind != "space"), "")


def trimmed(sql: str) -> str:
    """Without the semicolons, spaces and comments at its end."""
    sql_tokens = tokens(sql)
    while sql_tokens and (sql_tokens[-1][0] == "space" or sql_tokens[-1][1] == ";"):
        sql_tokens.pop()
    return "".join(text for _, text in sql_tokens)


_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_ESCAPE: Final = re.compile(r"\\(.)|''", re.DOTALL)


def literal(text: str) -> str | None:
    """What a token of a text says; None of one between dollars, and of one with numbers of signs.

    >>> literal("'it''s'"), literal("E'it''s'"), literal("$$a$$")
    ("it's", "it's", None)
    """
    if text[:1] == "'":
        return text[1:-1].replace("''", "'")
    inner = text[2:-1]
    if text[:1] not in ("e", "E") or re.search(r"(?<!\\)(?:\\\\)*\\[0-7xuU]", inner):
        return None
    return _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[1]) if match[1] else "'", inner)
