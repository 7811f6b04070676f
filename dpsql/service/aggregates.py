"""Aggregates of PostgreSQL's whose order or form DuckDB has otherwise, respelled.

array_agg(DISTINCT x)             array_agg(DISTINCT x ORDER BY x): PostgreSQL sorts to find what is distinct
json_agg(x ORDER BY y)            pgx.json_agg_of(array_agg(x ORDER BY y)), likewise with FILTER, OVER and DISTINCT
json_object_agg(k, v ORDER BY k)  pgx.json_object_agg_of(array_agg({'k': (k)::VARCHAR, 'v': to_json(v)} ORDER BY k))
"""

from __future__ import annotations

from typing import Final

from .allowlist import NotAllowed
from .tokens import Token
from .word_walk import WordWalk

_LISTS: Final = frozenset({"json_agg", "jsonb_agg"})
_OBJECTS: Final = frozenset({"json_object_agg", "jsonb_object_agg"})
_AGGREGATES: Final = _LISTS | _OBJECTS | {"array_agg", "string_agg"}


def aggregates(sql_tokens: list[Token]) -> list[Token]:
    """The tokens, with what is said above done.

    Raises:
        NotAllowed: DISTINCT is in what is distinct, so that no order of it is written.
    """
    if not any(kind == "word" and text.lower() in _AGGREGATES for kind, text in sql_tokens):
        return sql_tokens
    walk = _Walk(sql_tokens)
    walk.take_all()
    return walk.respelled()


class _Walk(WordWalk):
    """Goes over the words once."""

    def take_all(self) -> None:
        """Look at each word, and note what stands instead."""
        for at, text in enumerate(self._texts):
            if text in _AGGREGATES and self._text(at + 1) == "(" and self._closing.get(at + 1, 0) > at + 2:
                self._aggregate(at, text)

    def _aggregate(self, at: int, name: str) -> None:
        end = self._closing[at + 1]
        is_distinct = self._text(at + 2) == "distinct"
        first = at + 3 if is_distinct else at + 2
        places = self._top(first, end)
        comma = next((place for place in places if self._text(place) == ","), end)
        order = next((place for place in places if self._text(place) == "order" and self._kind(place) == "word"), end)
        if is_distinct and order == end and name not in _OBJECTS:
            if "distinct" in self._texts[first:end]:
                raise NotAllowed(f"{name} of DISTINCT values with DISTINCT in them: write ORDER BY behind them")
            self._instead[end] = f" ORDER BY {self._spelled(first, min(comma, order))})"
        last = self._last(end)
        if name in _LISTS | _OBJECTS and (is_distinct or order < end or last > end):
            self._json(at, name, (first, comma, order), end, last)

    def _json(self, at: int, name: str, parts: tuple[int, int, int], end: int, last: int) -> None:
        first, comma, order = parts
        self._instead[at] = f"pgx.{name}_of(array_agg"
        self._behind[last] = self._behind.get(last, "") + ")"
        if name in _OBJECTS:
            if comma >= order:
                raise NotAllowed(f"{name} takes a name and a value")
            self._before[first] = "{'k': (" + self._before.get(first, "")
            self._instead[comma] = ")::VARCHAR, 'v': to_json("
            self._behind[order - 1] = self._behind.get(order - 1, "") + ")}"

    def _top(self, at: int, end: int) -> list[int]:
        """The words up to an end that are in no parentheses, brackets or braces."""
        places, depth, place = [], 0, at
        while place < end:
            sign = self._text(place) if self._kind(place) == "other" else ""
            depth += (sign in ("[", "{")) - (sign in ("]", "}"))
            places += [place] if not depth else []
            place = self._closing.get(place, place) + 1
        return places

    def _last(self, end: int) -> int:
        """The last word of a call, with FILTER and OVER behind it."""
        if self._text(end + 1) == "filter" and self._text(end + 2) == "(":
            end = self._closing.get(end + 2, end)
        if self._text(end + 1) == "over":
            end = self._closing.get(end + 2, end + 2)
        return end
