"""PostgreSQL's texts of arrays, such as `{a,"b c",NULL}`: one level of them, as clients send."""

from __future__ import annotations

import re
from typing import Final

_PART: Final = re.compile(r'\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^,{}"\\]*?))\s*(?P<end>,|\Z)', re.DOTALL)


def elements(text: str) -> list[str | None]:
    """The elements of an array.

    Raises:
        ValueError: it is no array, or one of arrays.
    """
    shown = text.strip()
    if len(shown) < 2 or shown[0] != "{" or shown[-1] != "}":
        raise ValueError("no array")
    found: list[str | None] = []
    inner, place = shown[1:-1], 0
    if not inner.strip():
        return []
    while True:
        part = _PART.match(inner, place)
        if part is None or part["plain"] == "":
            raise ValueError("no array")
        if part["quoted"] is not None:
            found.append(re.sub(r"\\(.)", r"\1", part["quoted"], flags=re.DOTALL))
        else:
            found.append(None if part["plain"].upper() == "NULL" else part["plain"])
        if not part["end"]:
            return found
        place = part.end()
