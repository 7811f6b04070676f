"""PostgreSQL's texts of arrays, such as `{a,"b c",NULL}`: one level of them, as clients send."""

from __future__ import annotations


def elements(text: str) -> list[str | None]:
    """The elements of an array. Each character is looked at once, because a client may send many.

    Raises:
        ValueError: it is no array, or one of arrays.
    """
    shown = text.strip()
    if len(shown) < 2 or shown[0] != "{" or shown[-1] != "}":
        raise ValueError("no array")
    inner = shown[1:-1]
    if not inner.strip():
        return []
    parts: list[str | None] = []
    place = 0
    while place <= len(inner):
        element, place = _element(inner, place)
        parts.append(element)
        place += 1  # the comma
    return parts


def _element(text: str, place: int) -> tuple[str | None, int]:
    """The element that begins at a place, and where the comma after it is, or the end."""
    while text[place : place + 1].isspace():
        place += 1
    if text[place : place + 1] == '"':
        return _quoted(text, place + 1)
    end = text.find(",", place)
    end = len(text) if end < 0 else end
    plain = text[place:end].strip()
    if not plain or any(sign in plain for sign in '{}"\\'):
        raise ValueError("no array")
    return None if plain.upper() == "NULL" else plain, end


def _quoted(text: str, place: int) -> tuple[str, int]:
    parts: list[str] = []
    while text[place : place + 1] != '"':
        place += text[place : place + 1] == "\\"
        if place >= len(text):
            raise ValueError("no array")
        parts.append(text[place])
        place += 1
    place += 1
    while text[place : place + 1].isspace():
        place += 1
    if text[place : place + 1] not in ("", ","):
        raise ValueError("no array")
    return "".join(parts), place
