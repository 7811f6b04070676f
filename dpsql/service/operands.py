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
    all analyse analyze and as asc between by collate copy declare desc distinct else escape except explain fetch for
    from full having ilike in inner intersect into is isnull join lateral like limit not notnull offset on or
    order outer select similar then to union using values verbose when where window with
    """.split()  # noqa: SIM905 - easier to read so
)
"""Words after which an operand begins."""
_BEHIND: Final = frozenset({"filter", "over", "within"})
"""Words that go on with a call, behind its parenthesis."""
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
            self._outer.append((text, self.start if goes_on else at, at))
            self.start = None
        elif kind == "other" and text in (")", "]"):
            self._close()
        elif kind == "other":
            self.start = self.start if text == "." else None
        elif kind == "word":
            self._word(text, before, at)
        elif before != "." or self.start is None:
            self.start = at

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
        elif (text in _BEHIND and before == ")") or (text == "group" and before == "within") or before == "over":
            return
        else:
            if text in _CLAUSES and not self._outer:
                self.clause = text
            self.start = None if text in STOPS else at

    def _ends_operand(self, at: int) -> bool:
        kind, text = self._words[at]
        return kind in ("word", "quoted") or (kind == "other" and text in (")", "]"))
