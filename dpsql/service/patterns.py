r"""Patterns that a statement writes out, as RE2 reads them: the same meaning, or a refusal.

x ~ 'a.b'                       x ~ '(?s)a.b': a point fits a new line, too
x ~ '\w'                        x ~ '[\pL\p{Nd}_]': letters of every language
x ~ $1                          x ~ pgx.checked_pattern($1), which refuses what RE2 reads otherwise
x ~ '\yab'                      pgx.pattern_in(x, '(?:\b){1}ab', ''), which has texts in ASCII alone
regexp_match(x, '<.+?>')        regexp_match(x, '(?Us)<.+>'): all of it takes as little as it can
regexp_replace(x, 'b', '<\&>')  regexp_replace(x, 'b', '<\0>')
"""

from __future__ import annotations

import re
from typing import Final

from dpsql.core.names import as_text

from .allowlist import NotAllowed
from .operands import Operands
from .postgres_patterns import BOUNDARY
from .tokens import Token
from .word_walk import AROUND, WordWalk

_FUNCTIONS: Final = frozenset(
    """
    regexp_replace regexp_match regexp_matches regexp_like regexp_count regexp_substr regexp_instr
    regexp_split_to_array regexp_split_to_table substring
    """.split()  # noqa: SIM905 - easier to read so
)
_ANY: Final = frozenset({"regexp_like", "regexp_instr"})
"""Functions that only say whether, or where, something fits first: how long it is does not matter."""
_PIECE: Final = re.compile(
    r"""(?P<escape>\\(?:u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}(?![0-9A-Fa-f])|.))
    |(?P<set>\[\^?\]?(?:\[:[a-z]{1,9}:\]|\\.|[^\]\\])*+\])
    |(?P<options>\(\?[a-z]+\))
    |(?P<group>\(\?:|\()
    |(?P<times>(?:[*+?]|\{\d+(?P<more>,\d*)?\})(?P<lazy>\??))
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_LETTERS: Final = r"\pL\p{Nd}_"
_IN_SETS: Final = {"[:alpha:]": r"\pL", "[:alnum:]": r"\pL\p{Nd}", "[:digit:]": "0-9", r"\w": _LETTERS}
_IN_SET: Final = re.compile(r"\[:\w+:\]|\\.", re.DOTALL)
_OUTSIDE: Final = {
    "w": f"[{_LETTERS}]", "W": f"[^{_LETTERS}]", "y": BOUNDARY, "Y": BOUNDARY.replace("b", "B"), "Z": r"\z",
}  # fmt: skip
_SAME: Final = frozenset("dDsSAntrfvwWyYZ")
"""Letters behind a backslash that RE2 reads so, or that are respelled."""


class Pattern:
    """A pattern of PostgreSQL's.

    Args:
        text: as it is written.
        is_any: whether it only matters that it fits, and not what.

    Attributes:
        spelled: as RE2 reads it.
        has_ends: whether it looks for ends of words, which RE2 finds in ASCII alone.

    Raises:
        NotAllowed: it means something that RE2 does not say.

    >>> Pattern("a.+?b").spelled
    '(?Us)a.+b'
    """

    def __init__(self, text: str, *, is_any: bool = False) -> None:
        self.has_ends = False
        self._text = text
        self._pieces: list[re.Match[str]] = []
        for piece in _PIECE.finditer(text):
            if piece.group() == "[":  # to look on for its end at each of many would take the square of their number
                raise NotAllowed(f"a [ in the pattern {text[:80]} has no ]")
            self._pieces.append(piece)
        self._has_point = False
        options = ""
        if self._pieces and self._pieces[0]["options"]:
            options = self._pieces.pop(0).group()[2:-1]
            if not set(options) <= {"i", "s"}:
                raise NotAllowed(f"of the options in {text}, (?i) is served")
        lazy = {
            piece["lazy"] for piece in self._pieces if piece["times"] and (piece["more"] or piece.group()[0] != "{")
        }
        if not is_any and "?" in lazy:
            self._check_lazy(lazy)
            options += "U"
        parts = [self._part(at, is_any=is_any) for at in range(len(self._pieces))]
        options += "s" if self._has_point and "s" not in options else ""
        self.spelled = (f"(?{''.join(sorted(set(options)))})" if options else "") + "".join(parts)

    def _check_lazy(self, lazy: set[str]) -> None:
        of_groups = re.search(r"\)(?:[*+?]|\{\d+,\d*\})", re.sub(r"\\.", "", self._text, flags=re.DOTALL))
        if "" in lazy or of_groups or any(piece.group() == "|" for piece in self._pieces):
            raise NotAllowed(
                f"{self._text[:80]}: of signs like *? and + the first says for the whole pattern there how much "
                "it takes: write ? behind all of them, behind no parentheses, and no |"
            )

    def _part(self, at: int, *, is_any: bool) -> str:
        piece = self._pieces[at]
        text = piece.group()
        if piece["escape"]:
            return self._escape(at, text[1:])
        if piece["set"]:
            return _IN_SET.sub(self._in_set, text)
        if piece["options"]:
            raise NotAllowed(f"options in a pattern stand at its begin: {self._text[:80]}")
        if piece["times"] and piece["lazy"] and not is_any:
            return text[:-1]
        self._has_point = self._has_point or text == "."
        return text

    def _in_set(self, match: re.Match[str]) -> str:
        text = match.group()
        if text[1:] in ("b", "B", "W", "D", "S", "m", "M", "y", "Y") or text[1:].isdecimal():
            raise NotAllowed(f"{text} in brackets is not served: {self._text[:80]}")
        return _IN_SETS.get(text, text)

    def _escape(self, at: int, text: str) -> str:
        if text[0] in ("u", "x") and len(text) > 1:
            return f"\\x{{{text[1:]}}}"
        if text in ("b", "B"):
            raise NotAllowed(rf"\{text} is a sign in PostgreSQL, and no end of a word: write \y, \Y, \m or \M")
        if text.isdecimal():
            raise NotAllowed(rf"\{text}, what an earlier part was, is not served in a pattern: {self._text[:80]}")
        if text in ("m", "M"):
            beside = at + 1 if text == "m" else at - 1
            near = self._pieces[beside].group() if 0 <= beside < len(self._pieces) else ""
            if not (near.isalnum() or near in ("_", r"\w", r"\d")):
                raise NotAllowed(
                    rf"\{text} is served beside a letter, \w or \d: write \y, which is an end on either side"
                )
        elif text.isalpha() and text not in _SAME:
            raise NotAllowed(rf"\{text} is not served in a pattern: {self._text[:80]}")
        self.has_ends = self.has_ends or text in ("y", "Y", "m", "M")
        return BOUNDARY if text in ("m", "M") else _OUTSIDE.get(text, "\\" + text)


def patterns(sql_tokens: list[Token]) -> list[Token]:
    """The tokens, with what is said above done.

    Raises:
        NotAllowed: a pattern means something that RE2 does not say.
    """
    if not any(text == "~" or text.lower() in _FUNCTIONS for kind, text in sql_tokens if kind in ("word", "other")):
        return sql_tokens
    walk = _Walk(sql_tokens)
    walk.take_all()
    return walk.respelled()


class _Walk(WordWalk):
    """Goes over the words once."""

    def take_all(self) -> None:
        """Look at each word, and note what stands instead."""
        operands = Operands(self._words)
        start: int | None = None  # of the operand before the last word
        for at, (kind, text) in enumerate(self._words):
            if kind == "other" and text == "~" and self._text(at + 1) != "~" and self._text(at - 1) != "~":
                self._fits(at, operands.start if self._text(at - 1) != "!" else start)
            elif kind == "word" and self._texts[at] in _FUNCTIONS and self._text(at + 1) == "(":
                self._call(at)
            start = operands.start
            operands.take(at)

    def _fits(self, at: int, start: int | None) -> None:
        """`x ~ 'pattern'`, and likewise ~*, !~ and !~*."""
        place = at + 2 if self._text(at + 1) == "*" else at + 1
        text = self._literal(place)
        if text is None or self._text(place + 1) == "|":
            self._check(place)
            return
        pattern = Pattern(text, is_any=True)
        self._replace(place, text, pattern.spelled)
        if not pattern.has_ends:
            return
        if start is None or self._text(start - 1) not in AROUND:
            raise NotAllowed(f"~ with {text} stands behind a column, a call or a value with its type: use parentheses")
        negates = self._text(at - 1) == "!"
        self._before[start] = f"{'(NOT ' * negates}pgx.pattern_in("
        self._instead.update(dict.fromkeys(range(at - negates, place), ""))
        self._instead[at] = ","
        self._instead[place] = f"{as_text(pattern.spelled)}, '{'i' * (place > at + 1)}'){')' * negates}"

    def _call(self, at: int) -> None:
        commas, place, end = [], at + 2, self._closing.get(at + 1, 0)
        while 0 < place < end:
            if self._texts[place] == "," or (self._texts[place] == "from" and self._texts[at] == "substring"):
                commas.append(place)
            place = self._closing.get(place, place) + 1
        text = self._literal(commas[0] + 1) if commas else None
        if text is None or commas[0] + 2 not in (end, *commas):
            if commas and self._texts[at] == "regexp_replace":
                self._check(commas[0] + 1)
            return
        name = self._texts[at]
        pattern = Pattern(text, is_any=name in _ANY)
        self._replace(commas[0] + 1, text, pattern.spelled)
        if name != "regexp_replace" or len(commas) < 2:
            return
        replacement = self._literal(commas[1] + 1)
        if replacement is not None:
            self._replace(commas[1] + 1, replacement, re.sub(r"\\(.)", self._rewritten, replacement, flags=re.DOTALL))
        if pattern.has_ends:
            self._instead[at] = "pgx.replaced_in"

    def _check(self, at: int) -> None:
        """Refuse what RE2 reads otherwise when the pattern is there, where it is a parameter."""
        if self._kind(at) == "parameter":
            self._instead[at] = f"pgx.checked_pattern({self._words[at][1]})"

    def _rewritten(self, match: re.Match[str]) -> str:
        return r"\0" if match[1] == "&" else match.group()

    def _replace(self, at: int, text: str, spelled: str) -> None:
        if spelled != text or self._words[at][1][:1] in ("e", "E"):
            self._instead[at] = as_text(spelled)
