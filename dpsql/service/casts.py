"""A cast by CAST is one by ::, so that what is respelled of the one is respelled of the other, for every type."""

from __future__ import annotations

from typing import Final

from .tokens import Token

_CASTS: Final = ("other", "::")
_OPENS: Final = ("other", "(")
_CLOSES: Final = ("other", ")")
_BARE: Final = frozenset({"text", "parameter"})
"""What is cast without parentheses, as a literal of a type is."""


def postfixed(found: list[Token]) -> list[Token]:
    """The tokens with `CAST(x AS t)` as `((x)::t)`, in time that is in proportion to their number."""
    done: list[Token] = []
    outer: list[_Open] = []
    last = before = -1
    for kind, text in found:
        if kind == "space":
            done.append((kind, text))
            continue
        if text == "(":
            is_cast = last >= 0 and done[last][0] == "word" and done[last][1].lower() == "cast"
            outer.append(_Open(last if is_cast and done[before][1] != "." else None, len(done)))
        elif text == ")" and outer:
            outer.pop()
        elif kind == "word" and text.lower() == "as" and outer and outer[-1].is_read():
            outer[-1].end_operand(done)
            before, last = last, len(done) - 1
            continue
        before, last = last, len(done)
        done.append((kind, text))
    return done


class _Open:
    """A parenthesis that is open, and the place of the CAST before it."""

    def __init__(self, cast: int | None, place: int) -> None:
        self._cast, self._place = cast, place

    def is_read(self) -> bool:
        """Whether what is cast is being read."""
        return self._cast is not None

    def end_operand(self, done: list[Token]) -> None:
        """What is cast ends here, and its type follows."""
        while done[-1][0] == "space":
            done.pop()
        done[self._cast or 0] = _OPENS
        words = [kind for kind, _ in done[self._place + 1 : self._place + 4] if kind != "space"]
        if len(done) <= self._place + 4 and len(words) == 1 and words[0] in _BARE:
            done[self._place] = ("space", " ")
        else:
            done.append(_CLOSES)
        done.append(_CASTS)
        self._cast = None
