"""PostgreSQL's operators and forms that DuckDB has not, respelled as calls; what is between them is left as it is.

x BETWEEN SYMMETRIC a AND b      x BETWEEN pgx.lower_of(a, b) AND pgx.upper_of(a, b)
(a, b) OVERLAPS (c, d)           pgx.overlaps(a, b, c, d)
a # b                            xor(a, b)
x SIMILAR TO 'a%'                x SIMILAR TO pgx.similar_pattern('a%')
interval '1 day' / 2             pgx.interval_quotient(interval '1 day', 2)
interval '1 month - 1 day'       interval '1 month -1 day'
j #>> '{a,b}'                    j ->> '/a/b'
substr(x, n)                     pgx.substr_of(x, n), unless n is a number above 0
to_char(t, 'YYYY')               pgx.to_char_moment(t, 'YYYY')
SELECT generate_series(1, 3)     SELECT pgx.generate_series(1, 3), which makes rows
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from dpsql.core.names import as_text

from . import pg_arrays
from .allowlist import NotAllowed
from .from_postgres import clauses
from .json_paths import pointer
from .operands import STOPS, Operands
from .postgres_json import TABLES as OF_JSON
from .postgres_patterns import TABLES as OF_PATTERNS
from .tokens import Token
from .word_walk import AROUND, WordWalk

_MOMENT: Final = re.compile(r"yy|mm|dd|hh|mon|day|dy|iw|ww", re.IGNORECASE)
"""Of a format that no number has: so that the functions of numbers need not be bound."""
_WORDS: Final = frozenset(
    {"ordinality", "to_char", "symmetric", "overlaps", "similar", "interval", "substr", "substring", "generate_series"}
)
_ELEMENTS: Final = frozenset(f"{kind}_array_elements{text}" for kind in ("json", "jsonb") for text in ("", "_text"))
"""Functions whose one column is called `value`, and as their alias, too."""
_SPACES: Final = re.compile(r"([-+])\s+(?=\d)")
_DAY: Final = re.compile(r"'\d{4}-\d\d-\d\d'", re.ASCII)
_STEP: Final = re.compile(r"0|[1-9]\d*|[^\W\d][^\0]*")
"""Of a path: a place in an array, or a name that is no number."""
_NO_ALIAS: Final = STOPS | frozenset("cross natural left right full inner group order limit where on".split())  # noqa: SIM905
"""Words behind a function of FROM that are no name of it."""
_ENDS_PATTERN: Final = frozenset({")", "]", ",", ";", "="})
_UNCOUNTED: Final = frozenset({*OF_JSON, *OF_PATTERNS})
"""Functions of ours whose rows DuckDB does not number."""
_ENDS_BOUND: Final = (AROUND | {"or", "collate"}) - {"(", "["}


def operators(sql_tokens: list[Token]) -> list[Token]:
    """The tokens, with what is said above done.

    Raises:
        NotAllowed: one of them is part of more than can be respelled; it says what works instead.
    """
    if not any(
        text == "#" or text.lower() in _WORDS | _ELEMENTS for kind, text in sql_tokens if kind in ("word", "other")
    ):
        return sql_tokens
    return _Walk(sql_tokens).done()


class _Walk(WordWalk):
    """Goes over the words once."""

    def __init__(self, sql_tokens: list[Token]) -> None:
        super().__init__(sql_tokens)
        self._opening = {end: start for start, end in self._closing.items()}
        self._clauses = clauses(sql_tokens, self._places)
        self._names = frozenset(self._texts)
        self._reads = Counter(
            text for text, behind in zip(self._texts, [*self._texts[1:], ""], strict=True) if behind != "."
        )

    def done(self) -> list[Token]:
        """All tokens of the statement."""
        operands = Operands(self._words)
        for at, (kind, _) in enumerate(self._words):
            if kind in ("word", "other"):
                self._step(at, self._texts[at], operands.start)
            operands.take(at)
        made = list(self._tokens)
        for at, text in self._instead.items():
            kind = "text" if text.startswith("'") else "other" if text else "space"
            made[self._places[at]] = (kind, text or " ")
        more: list[Token] = []
        numbers = {place: at for at, place in enumerate(self._places)}
        for place, token in enumerate(made):
            at = numbers.get(place, -1)
            more += [("word", self._before[at]), ("other", "(")] if at in self._before else []
            more.append(token)
            more += [("other", ")")] if at in self._behind else []
        return more

    def _step(self, at: int, text: str, start: int | None) -> None:
        if text == "symmetric" and self._text(at - 1) == "between":
            self._symmetric(at)
        elif text == "overlaps" and self._text(at - 1) == ")" and self._text(at + 1) == "(":
            self._overlaps(at)
        elif text == "#" and self._text(at + 1) == ">":
            self._path(at)
        elif text == "#":
            self._xor(at, start)
        elif text == "ordinality" and self._text(at - 1) == "with":
            if self._text(self._opening.get(at - 2, 0) - 1) in _UNCOUNTED:
                raise NotAllowed("WITH ORDINALITY is served with unnest: unnest an array, or use row_number()")
        elif text == "similar" and self._text(at + 1) == "to":
            self._similar(at + 2)
        elif text == "interval" and self._kind(at + 1) == "text":
            if _SPACES.search(self._words[at + 1][1]):
                self._instead[at + 1] = _SPACES.sub(r"\1", self._words[at + 1][1])
            if self._text(at + 2) == "/":
                self._quotient(at, at + 2)
        elif text in _ELEMENTS and self._text(at + 1) == "(" and self._clauses[at] == "from":
            self._elements(self._closing.get(at + 1, at))
        elif text == "to_char" and self._text(at + 1) == "(" and self._text(at - 1) != ".":
            last = self._closing.get(at + 1, 0) - 1
            if self._kind(last) == "text" and self._text(last - 1) == "," and _MOMENT.search(self._texts[last]):
                self._instead[at] = "pgx.to_char_moment"
        elif text in ("substr", "substring") and self._text(at + 1) == "(" and self._text(at - 1) != ".":
            self._part(at, self._closing.get(at + 1, 0))
        elif (
            text == "generate_series"
            and self._text(at + 1) == "("
            and self._clauses[at] == "select"
            and self._text(at - 1) in ("select", ",", "distinct", "all")
        ):
            self._instead[at] = "pgx.generate_series"

    def _elements(self, end: int) -> None:
        """Call the column as its alias, unless it is read as `value`."""
        at = end + 2 if self._text(end + 1) == "as" else end + 1
        alias = self._text(at)
        if self._kind(at) not in ("word", "quoted") or self._text(at + 1) == "(" or alias in _NO_ALIAS:
            return
        if "value" not in self._names:
            self._instead[at] = f"{self._words[at][1]}({self._words[at][1]})"
            return
        if self._reads[alias] > 1:
            raise NotAllowed(f"write {alias}.value wherever {alias} is the element, or nowhere")

    def _similar(self, at: int) -> None:
        if self._kind(at) not in ("text", "parameter"):
            raise NotAllowed("SIMILAR TO is served with a pattern that is written out: use ~ for others")
        if self._kind(at + 1) == "other" and self._text(at + 1) not in _ENDS_PATTERN:
            raise NotAllowed("SIMILAR TO is served with a pattern that is written out as one text")
        if self._text(at + 1) == "escape":
            raise NotAllowed("SIMILAR TO is served without ESCAPE: use ~")
        self._before[at] = "pgx.similar_pattern"
        self._behind[at] = ")"

    def _symmetric(self, at: int) -> None:
        middle = self._end(at + 1, frozenset({"and"}))
        last = self._end(middle + 1, _ENDS_BOUND)
        if self._text(middle) != "and" or last <= middle + 1:
            raise NotAllowed("BETWEEN SYMMETRIC has two bounds with AND between them")
        if self._text(last) in ("<", ">", "!"):  # it may be an operator of the bound, such as >>
            raise NotAllowed("BETWEEN SYMMETRIC is served with bounds in parentheses where an operator is behind them")
        if "symmetric" in self._texts[at + 1 : last]:
            raise NotAllowed("BETWEEN SYMMETRIC in the bound of another is not served: use least and greatest")
        low, high = self._spelled(at + 1, middle), self._spelled(middle + 1, last)
        if _DAY.fullmatch(low) and _DAY.fullmatch(high):
            low, high = sorted((low, high))
        elif any(
            kind in ("text", "parameter") and place in (at + 1, middle + 1) for place, (kind, _) in self._near(at, last)
        ):
            raise NotAllowed("BETWEEN SYMMETRIC needs bounds with a type, such as date '2020-01-01'")
        else:
            low, high = f"pgx.lower_of({low}, {high})", f"pgx.upper_of({low}, {high})"
        for place in range(at, last):
            self._instead[place] = ""
        self._instead[at] = f" {low} AND {high} "

    def _near(self, first: int, last: int) -> list[tuple[int, Token]]:
        return list(enumerate(self._words[first:last], first))

    def _end(self, at: int, ends: frozenset[str]) -> int:
        """The place of the first of some words from a place on, in no parentheses."""
        while at < len(self._texts) and self._texts[at] not in ends and self._texts[at] not in (")", "]"):
            at = self._closing.get(at, at) + 1
        return at

    def _overlaps(self, at: int) -> None:
        left, right = self._opening.get(at - 1), self._closing.get(at + 1)
        if (
            left is None
            or right is None
            or (self._kind(left - 1) == "word" and self._text(left - 1) not in STOPS | {"row"})
        ):
            raise NotAllowed("OVERLAPS stands between two pairs in parentheses")
        if self._text(left - 1) == "row":
            self._instead[left - 1] = ""
        self._instead[left] = "pgx.overlaps("
        self._instead[at - 1] = self._instead[at] = ""
        self._instead[at + 1] = ","

    def _xor(self, at: int, start: int | None) -> None:
        if start is None and self._kind(at + 1) == "number":  # the column of that number
            return
        end = self._operand(at + 1)
        is_alone = start is not None and end is not None and self._text(start - 1) in AROUND
        if not is_alone or (self._kind(end + 1) == "other" and self._text(end + 1) not in AROUND):  # type: ignore[operator]
            raise NotAllowed("# is served between two columns, numbers or calls: write xor(a, b)")
        self._call("xor", start, at, end)  # type: ignore[arg-type]

    def _quotient(self, start: int, at: int) -> None:
        end = self._operand(at + 1)
        if end is not None and self._text(start - 1) not in ("*", "/", "%", "^"):
            self._call("pgx.interval_quotient", start, at, end)

    def _call(self, function: str, start: int, at: int, end: int) -> None:
        """A call in place of the operator at a place, whose operands begin and end at others."""
        self._before[start], self._instead[at] = function, ","
        self._behind[end] = ")"

    def _path(self, at: int) -> None:
        """A path of names and places, as a JSON pointer."""
        is_text = self._text(at + 2) == ">"
        path = at + 3 if is_text else at + 2
        kind, text = self._words[path] if path < len(self._words) else ("", "")
        try:
            steps = pg_arrays.elements(text[1:-1].replace("''", "'")) if kind == "text" and text[:1] == "'" else []
        except ValueError:
            steps = []
        if not steps or not all(step is not None and _STEP.fullmatch(step) for step in steps):
            raise NotAllowed("#> and #>> are served with a path that is written out, such as '{a,b,0}'")
        self._instead[at] = "->>" if is_text else "->"
        for place in range(at + 1, path):
            self._instead[place] = ""
        self._instead[path] = as_text(pointer(*steps))

    def _counts(self, commas: list[int]) -> bool:
        """Whether a length behind a comma, if there is one, is written out, so that it is not below 0."""
        return all(self._kind(comma + 1) == "number" for comma in commas)

    def _part(self, at: int, end: int) -> None:
        """A part of a text, which may begin before its first sign; a pattern is no place."""
        commas = []
        place = at + 2
        while 0 < place < end:
            if self._texts[place] in (",", "from", "for", "similar") and self._words[place][0] in ("other", "word"):
                commas.append(place)
            place = self._closing.get(place, place) + 1
        if not commas or end - commas[0] < 2:
            return
        first, kind = commas[0], self._kind(commas[0] + 1)
        is_short = first + 2 in (end, *commas[1:])
        if (
            self._texts[first] in ("for", "similar")
            or kind == "text"
            or (kind == "number" and is_short and self._text(first + 1) != "0" and self._counts(commas[1:]))
        ):
            return
        self._instead[at] = f"pgx.{self._texts[at]}_of"
        for comma in commas:
            self._instead[comma] = ","
