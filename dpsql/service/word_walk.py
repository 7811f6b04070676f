"""A walk over the words of a statement, which says what stands in place of them, before and behind."""

from __future__ import annotations

from typing import Final

from .from_postgres import closing
from .operands import STOPS
from .tokens import Token, literal, tokens, word_places

AROUND: Final = STOPS | {"", "(", ")", ",", ";", "[", "]", "=", "<", ">", "!", "end"}
"""What stands before and behind an operand that is no part of a sum, a product and the like."""


class WordWalk:
    """The words, and what stands instead.

    Args:
        sql_tokens: all tokens of the statement.
    """

    def __init__(self, sql_tokens: list[Token]) -> None:
        self._tokens = sql_tokens
        self._places = word_places(sql_tokens)
        self._words = [sql_tokens[place] for place in self._places]
        self._texts = [text.lower() if kind == "word" else text for kind, text in self._words]
        self._closing = closing(sql_tokens, self._places)
        self._instead: dict[int, str] = {}
        self._before: dict[int, str] = {}
        self._behind: dict[int, str] = {}

    def _text(self, at: int) -> str:
        return self._texts[at] if 0 <= at < len(self._texts) else ""

    def _kind(self, at: int) -> str:
        return self._words[at][0] if 0 <= at < len(self._words) else ""

    def _literal(self, at: int) -> str | None:
        """What a text at a place says; None where there is none, or one that is not read here."""
        return literal(self._words[at][1]) if self._kind(at) == "text" else None

    def _spelled(self, first: int, last: int) -> str:
        """What stands from one word to before another."""
        if last >= len(self._places):
            return "".join(text for _, text in self._tokens[self._places[first] :]).strip()
        return "".join(text for _, text in self._tokens[self._places[first] : self._places[last]]).strip()

    def _operand(self, at: int) -> int | None:
        """The last word of what begins at a place, and is no sum or the like; None where it is something else."""
        if self._kind(at) in ("number", "parameter"):
            end = at
            if self._text(at + 1) == ".":
                return None
        elif self._kind(at) in ("word", "quoted") and self._text(at) not in STOPS | {"case", "interval"}:
            end = at
            while self._text(end + 1) == "." and self._kind(end + 2) in ("word", "quoted"):
                end += 2
            end = self._closing.get(end + 1, end)
        elif self._text(at) == "(":
            end = self._closing.get(at, 0)
            if not end:
                return None
        else:
            return None
        end = self._casts(end)
        return None if self._text(end + 1) in ("[", ".") else end

    def _casts(self, end: int) -> int:
        """The last word of the casts behind a word; the word itself where there are none."""
        while self._text(end + 1) == "::" and self._kind(end + 2) == "word":
            end = self._closing.get(end + 3, end + 2)
            while self._text(end + 1) == "[" and self._text(end + 2) == "]":
                end += 2
        return end

    def respelled(self) -> list[Token]:
        """All tokens of the statement, with what stands instead: the same ones where nothing does."""
        return tokens(self._written()) if self._instead or self._before or self._behind else self._tokens

    def _written(self) -> str:
        numbers = {place: at for at, place in enumerate(self._places)}
        parts: list[str] = []
        for place, (_, text) in enumerate(self._tokens):
            at = numbers.get(place, -1)
            parts += [self._before.get(at, ""), self._instead.get(at, text), self._behind.get(at, "")]
        return "".join(parts)
