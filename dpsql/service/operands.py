"""Where the operand of each cast begins, in one walk over a statement: a `::` binds to all that stands before it.

a + f(x)[1]::varchar(3)      the operand is f(x)[1]
CASE … END::char(2)          the operand begins at CASE
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .tokens import Token

STOPS: Final = frozenset(
    """
    all analyse analyze and as asc asymmetric between both by collate copy declare desc distinct else escape except
    explain fetch for from full having ilike in inner intersect into is isnull join lateral leading like limit not
    notnull offset on or order outer placing select similar symmetric then to trailing union using values verbose when
    where window with
    """.split()  # noqa: SIM905 - easier to read so
)
"""Words after which an operand begins."""
_BEHIND: Final = frozenset({"filter", "over", "within"})
"""Words that go on with a call, behind its parenthesis."""
_NO_TYPES: Final = frozenset({"glob", "groups", "overlaps", "range", "rows", "uescape"})
"""Words before a text that give it no type, and may be names elsewhere."""
_PAIRS: Final = frozenset({("within", "group"), ("double", "precision")})
"""Words that go on with an operand together."""
_LISTS: Final = frozenset({"all", "any", "in", "operator", "some"})
"""Words before a parenthesis that closes no operand: a cast behind it is of more than what is in it."""
_STATES: Final = frozenset({"false", "null", "true", "unknown"})
"""What follows IS: a cast behind it is of the whole test."""
_CLAUSES: Final = frozenset(
    {"select", "from", "where", "group", "having", "order", "limit", "offset", "window", "fetch"}
)
_SETS: Final = frozenset({"union", "intersect", "except", "distinct"})


class Operands:
    """Walks over words, one after the other.

    Args:
        words: those of the statement that are no spaces.
    """

    def __init__(self, words: Sequence[Token]) -> None:
        self._words = words
        self._texts = [text.lower() for _, text in words]
        self._outer: list[tuple[str, int | None, int]] = []
        self.start: int | None = None
        """Of the operand that ends at the last word; None where there is none."""
        self.clause = ""
        self.sets = self._has_sets()

    @property
    def depth(self) -> int:
        """How many parentheses, brackets and CASEs are open."""
        return len(self._outer)

    def _has_sets(self) -> bool:
        depth = 0
        for kind, text in self._words:
            depth += (text in "([") - (text in ")]") if kind == "other" else 0
            if kind == "word" and not depth and text.lower() in _SETS:
                return True
        return False

    def take(self, at: int) -> None:
        """Go over the word at a place."""
        kind, _ = self._words[at]
        text, before = self._texts[at], self._texts[at - 1] if at else ""
        if kind == "other" and text in ("(", "["):
            goes_on = self.start is not None and self._ends_operand(at - 1)
            is_list = text == "(" and before in _LISTS and self._words[at - 1][0] == "word" and not self._in_position()
            self._outer.append((text, None if is_list else self.start if goes_on else at, at))
            self.start = None
        elif kind == "other" and text in (")", "]"):
            self._close()
        elif kind == "other":
            self.start = self.start if text == "." else None
        elif kind == "word":
            self._word(text, before, at)
        elif kind == "text":
            self.start = self.start if self._goes_on_to_text(at - 1) else at
        elif kind == "number":
            self.start = self._number(before, at)
        elif before == "collate":
            self.start = None
        elif before != "." or self.start is None:
            self.start = at

    def _in_position(self) -> bool:
        """Whether what is open is `position(`, whose IN stands before a text and no list."""
        opening = self._outer[-1][2] if self._outer else 0
        return opening > 0 and self._texts[opening - 1] == "position"

    def _goes_on_to_text(self, at: int) -> bool:
        """Whether the operand that ends at a word goes on to a text: `date '2020-01-01'`, or `'a'` before `'b'`."""
        is_open = self.start is not None and self._words[at][0] in ("word", "quoted", "text")
        return is_open and self._texts[at] not in _NO_TYPES

    def _number(self, before: str, at: int) -> int | None:
        """Where a number begins: it has words of its own before its point, and behind the sign of its exponent."""
        if before == ".":
            return at - 1 if self.start is None else self.start
        kind, text = self._words[at - 2] if at > 1 and before in ("+", "-") else ("", "")
        if kind != "number" or text[-1:] not in ("e", "E") or text[:2].lower() == "0x":
            return at
        return at - 3 if at > 2 and self._texts[at - 3] == "." else at - 2

    def _close(self) -> None:
        while self._outer and self._outer[-1][0] == "case":
            self._outer.pop()
        self.start = self._outer.pop()[1] if self._outer else None

    def _word(self, text: str, before: str, at: int) -> None:
        if before == "." and self.start is not None:
            return
        if text == "case":
            self._outer.append((text, at, at))
            self.start = None
        elif text == "end" and self._outer and self._outer[-1][0] == "case":
            self.start = self._outer.pop()[1]
        elif (text in _BEHIND and before == ")") or (before, text) in _PAIRS or before == "over":
            return
        elif before == "collate" or (before, text) == ("time", "zone") or self._is_state(text, before, at):
            self.start = None
        else:
            if text in _CLAUSES and not self._outer:
                self.clause = text
            self.start = None if text in STOPS else at

    def _is_state(self, text: str, before: str, at: int) -> bool:
        return text in _STATES and "is" in (before, self._texts[at - 2] if at > 1 and before == "not" else "")

    def _ends_operand(self, at: int) -> bool:
        kind, text = self._words[at]
        return kind in ("word", "quoted") or (kind == "other" and text in (")", "]"))
