"""PostgreSQL's operators and functions of jsonb that take what is written out, respelled as calls.

data @> '{"a": 1}'                   pgx.json_holds(…), a condition for each value that is written
tags @> '{a,b}'                      tags @> '["a", "b"]': an array
data ? 'a'                           pgx.json_has(data, 'a'), and likewise ?| and ?&
a::jsonb || '{"b": 1}'::jsonb        pgx.json_joined(a::jsonb, '{"b": 1}'::jsonb)
jsonb_path_exists(data, '$.a[*]')    pgx.jsonb_path_exists(pgx.json_path_elements(…))
jsonb_set(data, '{a,b}', '1')        pgx.json_set_at(data, '/a', '/a/b', '1'::JSON)
array[1, 2] || 3                     pgx.array_and_value(array[1, 2], 3)
"""

from __future__ import annotations

import json
from typing import Any, Final

from dpsql.core.names import as_text

from . import pg_arrays
from .allowlist import NotAllowed
from .from_postgres import clauses
from .json_paths import holds, path, pointer
from .operands import Operands
from .tokens import Token
from .word_walk import AROUND, WordWalk

_PATHS: Final = frozenset(f"jsonb_path_{what}" for what in ("query", "query_array", "query_first", "exists", "match"))
_SIGNS: Final = frozenset({"@", "?", "&", "|"})
_JSON: Final = frozenset({"json", "jsonb"})
_OF_JSON: Final = ("json_", "jsonb_", "to_json", "row_to_json")
_ARRAYS: Final = frozenset(
    {"array_agg", "array_append", "array_cat", "array_prepend", "array_remove", "string_to_array"}
)
"""Functions whose value is an array."""
_ARROWS: Final = (("-", ">"), ("-", ">", ">"), ("#", ">"), ("#", ">", ">"))
_ALONE: Final = "stands between two columns, calls, or values with their type: put what is around it in parentheses"
_HOLDS: Final = """@> of JSON is served with a value that is written out, such as data @> '{"a": 1}'"""
_MOST_STEPS: Final = 9
_SEVERAL: Final = {"|": "_any", "&": "_all"}


def json_operators(sql_tokens: list[Token]) -> list[Token]:
    """The tokens, with what is said above done.

    Raises:
        NotAllowed: what an operator stands between, or a path, is more than can be respelled.
    """
    words = {text.lower() for kind, text in sql_tokens if kind in ("word", "other")}
    if not words & _SIGNS and not words & (_PATHS | {"jsonb_set"}):
        return sql_tokens
    walk = _Walk(sql_tokens)
    walk.take_all()
    return walk.respelled()


class _Walk(WordWalk):
    """Goes over the words once."""

    def __init__(self, sql_tokens: list[Token]) -> None:
        super().__init__(sql_tokens)
        self._clauses = clauses(sql_tokens, self._places)
        self._brackets = self._closed()
        self._starts: list[int | None] = []
        operands = Operands(self._words)
        for at in range(len(self._words)):
            operands.take(at)
            start = operands.start
            is_type = start is not None and start > 1 and self._texts[start - 1] == "::"
            self._starts.append(self._starts[start - 2] if is_type else start)  # type: ignore[operator]

    def take_all(self) -> None:
        """Look at each word, and note what stands instead."""
        for at, (kind, _) in enumerate(self._words):
            text = self._texts[at]
            if kind == "other":
                self._sign(at, text)
            elif text in _PATHS and self._text(at + 1) == "(":
                self._call_of_path(at)
            elif text == "jsonb_set" and self._text(at + 1) == "(":
                self._set(at)

    def _sign(self, at: int, text: str) -> None:
        behind, before = self._text(at + 1), self._text(at - 1)
        if text == "@" and behind == ">":
            self._holds(at, at - 1, at + 2)
        elif text == "<" and behind == "@":
            self._held(at)
        elif text == "&" and behind == "&":
            for place in (self._literal_before(at - 1), at + 2):
                self._array(place)
        elif text == "?" and before != "?":
            self._has(at)
        elif text == "|" and behind == "|" and before != "|":
            self._joined(at)

    def _left(self, end: int, operator: str) -> int:
        """Where the operand begins that ends at a word: arrows bind from the left, as it does."""
        start = self._starts[end] if end >= 0 else None
        while start is not None and (self._text(start - 1) not in AROUND or self._is_arrow(start)):
            end = start
            before = next((end - len(arrow) for arrow in _ARROWS if self._ends_with(end, arrow)), 0)
            start = self._starts[before - 1] if before > 0 else None
        if start is None:
            raise NotAllowed(f"{operator} {_ALONE}")
        return start

    def _is_arrow(self, start: int) -> bool:
        return any(self._ends_with(start, arrow) for arrow in _ARROWS)

    def _ends_with(self, start: int, arrow: tuple[str, ...]) -> bool:
        return tuple(self._texts[max(start - len(arrow), 0) : start]) == arrow

    def _right(self, at: int, operator: str) -> int:
        """The last word of the operand that begins at a word."""
        if self._kind(at) == "text":
            end: int | None = self._casts(at)
        elif self._text(at) == "array" and self._text(at + 1) == "[":
            end = self._casts(self._bracket(at + 1))
        else:
            end = self._operand(at)
        if end is None or (self._kind(end + 1) == "other" and self._text(end + 1) not in AROUND):
            raise NotAllowed(f"{operator} {_ALONE}")
        return end

    def _bracket(self, at: int) -> int:
        """Where a bracket ends; its own place where it does not."""
        return self._brackets.get(at, at)

    def _closed(self) -> dict[int, int]:
        open_at: list[int] = []
        ends = {}
        for at, (kind, text) in enumerate(self._words):
            if kind == "other" and text == "[":
                open_at.append(at)
            elif kind == "other" and text == "]" and open_at:
                ends[open_at.pop()] = at
        return ends

    def _literal_before(self, end: int) -> int:
        """The place of a text, with casts, that ends at a word; that word itself where there is none."""
        start = self._starts[end] if end >= 0 else None
        return start if start is not None and self._kind(start) == "text" and self._casts(start) == end else end

    def _value(self, at: int) -> Any:
        """The JSON that a text is; the text itself, where it is an array or none."""
        inner = self._literal(at)
        cast = self._text(at + 2) if self._text(at + 1) == "::" else ""
        if inner is None or (cast and cast not in _JSON):
            return None
        if inner.strip() == "{}" and not cast:
            raise NotAllowed("'{}' may be an array or an object: write '{}'::jsonb, or an array with its type")
        try:
            return [json.loads(inner)]
        except (ValueError, RecursionError):
            return None

    def _array(self, at: int) -> None:
        """Write a text of an array as DuckDB reads it."""
        text = self._words[at][1] if self._kind(at) == "text" else ""
        if text[:2] != "'{" or self._text(at + 1) == "::":
            return
        try:
            parts = pg_arrays.elements(text[1:-1].replace("''", "'"))
        except ValueError:
            return
        listed = (
            "NULL" if part is None else '"' + part.replace("\\", "\\\\").replace('"', '\\"') + '"' for part in parts
        )
        self._instead[at] = as_text(f"[{', '.join(listed)}]")

    def _is_json(self, first: int, last: int) -> bool:
        """Whether an operand is JSON, as its cast or its function says."""
        if self._text(last) in _JSON and self._text(last - 1) == "::":
            return True
        return self._kind(first) == "word" and self._text(last) == ")" and self._text(first).startswith(_OF_JSON)

    def _holds(self, at: int, end: int, value_at: int) -> None:
        """`x @> value`, whose x ends at a word."""
        value = self._value(value_at)
        if value is None:
            self._array(value_at)
            start = self._starts[end] if end >= 0 else None
            last = self._operand(value_at)
            if (start is not None and self._is_json(start, end)) or (last and self._is_json(value_at, last)):
                raise NotAllowed(_HOLDS)
            self._array(self._literal_before(end))
            return
        start, last = self._left(end, "@>"), self._right(value_at, "@>")
        self._before[start] = "pgx.json_holds(list_transform([" + self._before.get(start, "")
        self._instead[at] = self._rest(value[0])
        for place in range(at + 1, last + 1):
            self._instead[place] = ""

    def _rest(self, value: Any) -> str:
        return f"], lambda dpsql_j: CASE WHEN dpsql_j IS NOT NULL THEN {holds(value, 'dpsql_j')} END)[1])"

    def _held(self, at: int) -> None:
        """`value <@ x`."""
        first = self._literal_before(at - 1)
        value = self._value(first)
        if value is None:
            self._array(at + 2)
            last = self._operand(at + 2)
            if self._is_json(first, at - 1) or (last and self._is_json(at + 2, last)) or self._value(at + 2):
                raise NotAllowed(_HOLDS.replace("@>", "<@").replace("data <@ '{\"a\": 1}'", "'{\"a\": 1}' <@ data"))
            self._array(first)
            return
        if self._text(first - 1) not in AROUND:
            raise NotAllowed(f"<@ {_ALONE}")
        last = self._right(at + 2, "<@")
        for place in range(first, at + 2):
            self._instead[place] = ""
        self._instead[at] = "pgx.json_holds(list_transform(["
        self._behind[last] = self._rest(value[0])

    def _has(self, at: int) -> None:
        """`x ? name`, `x ?| names` and `x ?& names`."""
        sign = self._text(at + 1)
        count = 2 if sign in ("|", "&") else 1
        operator = "?" + sign * (count - 1)
        start, end = self._left(at - 1, operator), self._right(at + count, operator)
        self._before[start] = f"pgx.json_has{_SEVERAL.get(sign, '')}(" + self._before.get(start, "")
        self._instead[at] = ","
        if count == 2:
            self._instead[at + 1] = ""
            self._array(at + 2)
        self._behind[end] = ")"

    def _joined(self, at: int) -> None:
        """`||` of JSON, or of an array and an element, where its operands say so."""
        start = self._starts[at - 1] if at else None
        if start is None:
            return
        first, last = at + 2, self._ahead(at + 2)
        if self._is_json(start, at - 1) or self._is_json(first, last):
            if not (self._is_json(start, at - 1) and self._is_json(first, last)):
                raise NotAllowed(
                    "|| of JSON is served between values that say so: write ::jsonb behind both, or ::text"
                )
            self._wrap("pgx.json_joined", self._left(at - 1, "||"), at, self._right(first, "||"))
        elif self._is_array(start, at - 1) and self._is_scalar(first, last):
            self._wrap("pgx.array_and_value", self._left(at - 1, "||"), at, self._right(first, "||"))
        elif self._is_scalar(start, at - 1) and self._is_array(first, last):
            self._wrap("pgx.value_and_array", self._left(at - 1, "||"), at, self._right(first, "||"))

    def _ahead(self, at: int) -> int:
        if self._kind(at) == "text":
            return self._casts(at)
        if self._text(at) == "array" and self._text(at + 1) == "[":
            return self._casts(self._bracket(at + 1))
        return self._operand(at) or at

    def _wrap(self, function: str, start: int, at: int, end: int) -> None:
        self._before[start] = f"{function}(" + self._before.get(start, "")
        self._instead[at], self._instead[at + 1], self._behind[end] = ",", "", ")"

    def _is_array(self, first: int, last: int) -> bool:
        """Whether an operand is an array, as its words say."""
        if self._text(last) == "]" and self._text(last - 1) == "[" and self._text(last - 3) == "::":
            return True
        is_written = self._text(first) == "array" and self._text(first + 1) == "[" and self._bracket(first + 1) == last
        is_call = self._text(first) in _ARRAYS and self._closing.get(first + 1) == last
        return is_written or is_call

    def _is_scalar(self, first: int, last: int) -> bool:
        """Whether an operand is a number, or a value with a type that is none of an array or of JSON."""
        if self._kind(first) == "number" and first == last:
            return True
        return self._text(last - 1) == "::" and self._kind(last) == "word" and self._text(last) not in _JSON

    def _arguments(self, at: int) -> list[tuple[int, int]]:
        """The first and the last word of each argument of a call whose parenthesis is at a place."""
        end, first = self._closing.get(at, at), at + 1
        spans, place = [], at + 1
        while place <= end:
            if place == end or self._text(place) == ",":
                spans.append((first, place - 1))
                first = place + 1
            place = self._closing[place] + 1 if self._closing.get(place, end) < end else place + 1
        return spans

    def _call_of_path(self, at: int) -> None:
        name, spans = self._text(at), self._arguments(at + 1)
        last = spans[-1][0] if len(spans) == 2 else 0
        text = self._literal(last) if last else None
        if text is None or name == "jsonb_path_match" or spans[0][0] > spans[0][1]:
            raise NotAllowed(
                f"{name} is not served so: write jsonb_path_query, jsonb_path_exists, jsonb_path_query_array or "
                "jsonb_path_query_first of a value and a path that is written out, such as '$.a[*] ? (@.b > 1)'"
            )
        in_rows = name == "jsonb_path_query" and self._clauses[at] == "from"
        values = path(text, "\0")
        before, _, behind = values.partition("\0")
        place = at - 2 if self._text(at - 1) == "." else at
        for word in range(place, at):
            self._instead[word] = ""
        self._instead[at] = "unnest" if in_rows else f"pgx.{name}"
        self._instead[at + 1] = f"({before}"
        self._behind[spans[0][1]] = self._behind.get(spans[0][1], "") + behind
        for word in range(spans[0][1] + 1, spans[1][1] + 1):
            self._instead[word] = ""
        end = self._closing[at + 1]
        if in_rows and self._kind(end + 1) not in ("word", "quoted"):
            self._behind[end] = f' AS "{name}"("{name}")'

    def _set(self, at: int) -> None:
        spans = self._arguments(at + 1)
        first = spans[1][0] if len(spans) == 3 else 0
        try:
            steps = pg_arrays.elements(self._words[first][1][1:-1]) if first and self._kind(first) == "text" else []
        except ValueError:
            steps = []
        if not 0 < len(steps) < _MOST_STEPS or not all(step and (step[0] != "-") for step in steps):
            raise NotAllowed("jsonb_set takes a value, a path that is written out, such as '{a,b}', and a new value")
        self._instead[at] = "pgx.json_set_at"
        self._behind[spans[0][1]] = f", {as_text(pointer(*steps[:-1]))}, {as_text(pointer(*steps))}"
        for word in range(spans[0][1] + 1, spans[1][1] + 1):
            self._instead[word] = ""
