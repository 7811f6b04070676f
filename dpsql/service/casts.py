"""A cast by CAST is one by ::, so that what is respelled of the one is respelled of the other, for every type."""

from __future__ import annotations

from typing import Final

from .tokens import Token

_CASTS: Final = ("other", "::")
_OPENS: Final = ("other", "(")
_CLOSES: Final = ("other", ")")
_BARE: Final = frozenset({"text", "parameter"})
"""What is cast without parentheses, as a literal of a type is."""


def postfixed(sql_tokens: list[Token]) -> list[Token]:
    """The tokens with `CAST(x AS t)` as `((x)::t)`, in time that is in proportion to their number."""
    done: list[Token] = []
    outer: list[
        tuple[int, int] | None
    ] = []  # of each open parenthesis of a CAST that is being read: CAST's place, its own
    last = before = -1
    for kind, text in sql_tokens:
        if kind == "space":
            done.append((kind, text))
            continue
        if text == "(":
            is_cast = last >= 0 and done[last][0] == "word" and done[last][1].lower() == "cast"
            outer.append((last, len(done)) if is_cast and done[before][1] != "." else None)
        elif text == ")" and outer:
            outer.pop()
        elif kind == "word" and text.lower() == "as" and outer and outer[-1] is not None:
            _end_operand(done, *outer[-1])
            outer[-1] = None
            before, last = last, len(done) - 1
            continue
        before, last = last, len(done)
        done.append((kind, text))
    return done


def _end_operand(done: list[Token], cast: int, opening: int) -> None:
    """What is cast ends here, and its type follows."""
    while done[-1][0] == "space":
        done.pop()
    done[cast] = _OPENS
    kinds = [kind for kind, _ in done[opening + 1 : opening + 4] if kind != "space"]
    if len(done) <= opening + 4 and len(kinds) == 1 and kinds[0] in _BARE:
        done[opening] = ("space", " ")
    else:
        done.append(_CLOSES)
    done.append(_CASTS)
