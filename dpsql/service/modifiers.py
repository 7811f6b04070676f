"""Modifiers of types, which DuckDB reads and ignores: each is obeyed as PostgreSQL obeys it, or refused.

x::varchar(3)                pgx.as_varchar(x::VARCHAR, 3)
x::timestamp(2)              pgx.as_timestamp(x::TIMESTAMP, 10000): microseconds that the last digit stands for
timestamp(2) '2020-01-01'    as '2020-01-01'::timestamp(2)
x::char(5)                   padded where it is a column of the outermost SELECT, without blanks where it is compared
interval '90' minute         minutes of a text without units; what is smaller is cut off
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Final

from .allowlist import NotAllowed
from .operands import STOPS, Operands
from .tokens import Token, word_places
from .type_words import FIELDS, TypeWords, type_words

_LONGEST: Final = 10_485_760
"""Of a varchar, as there."""
_WIDEST: Final = 10_000
"""Of a char, whose blanks take memory."""
_MICROSECOND: Final = 6
"""Digits of a second at most."""
_DIGITS: Final = frozenset({"time", "timestamp", "timestamptz", "interval"})
"""Types whose modifier is digits of a second."""
_DUCKDBS: Final = frozenset({"numeric"})
"""Types whose modifiers DuckDB obeys."""
_READ_AS: Final = {"bpchar": "VARCHAR", "varchar": "VARCHAR", "timestamptz": "TIMESTAMPTZ"}
_MODIFIED: Final = _DUCKDBS | _DIGITS | {"bpchar", "varchar", "bit", "varbit", "float", "timetz"}
_CLOCKS: Final = {"current_timestamp": "timestamptz", "localtimestamp": "timestamp", "localtime": "time"}
_SIZES: Final = {"hour": 3_600_000_000, "minute": 60_000_000, "second": 1}
"""Microseconds of the fields that are parts of a day."""
_UNITS: Final = re.compile(
    r"'\s*(?:[-+]?(?:\d+(?:\.\d*)?|\.\d+)\s*[a-z]+\s*)*(?:[-+]?\d+:\d+:\d+(?:\.\d*)?)?\s*(?:ago\s*)?'", re.ASCII | re.I
)
"""A text of an interval in which every number has a unit: it means the same whatever its fields are."""
_NUMBER: Final = re.compile(r"'\s*[-+]?\d{1,9}(?:\.\d{1,9})?\s*'", re.ASCII)
_AROUND: Final = STOPS | {"", "(", ")", ",", ";", "end"}
"""What stands before and behind a comparison that is no part of another expression."""
_EQUALS: Final = frozenset({"=", "<>", "!=", "<", "<=", ">", ">="})
_GO_ON: Final = frozenset(
    "and at between collate ilike in is isnull like not notnull operator or over similar".split()  # noqa: SIM905
)
"""Words that go on with an expression; another one behind a column is its name."""


def modified(sql_tokens: list[Token]) -> list[Token]:
    """The tokens, with each modifier obeyed.

    Raises:
        NotAllowed: a modifier cannot be obeyed; it says what works instead.
    """
    return _Walk(sql_tokens).done()


class _Walk:
    """Goes over the words once, and says what stands in place of types, before operands and behind casts."""

    def __init__(self, sql_tokens: list[Token]) -> None:
        self._tokens = sql_tokens
        self._places = word_places(sql_tokens)
        self._words = [sql_tokens[place] for place in self._places]
        self._texts = [text.lower() for _, text in self._words]
        self._operands = Operands(self._words)
        self._has_blanks = any(kind == "text" and text.endswith(" '") for kind, text in self._words)
        """Whether a text has blanks at its end, which count in no comparison with a char."""
        self._before: defaultdict[int, list[Token]] = defaultdict(list)
        self._instead: dict[int, list[Token]] = {}

    def done(self) -> list[Token]:
        """All tokens of the statement that DuckDB reads."""
        at = 0
        while at < len(self._words):
            at = self._step(at)
        made: list[Token] = []
        numbers = {place: at for at, place in enumerate(self._places)}
        for place, token in enumerate(self._tokens):
            at = numbers.get(place, -1)
            made += reversed(self._before[at]) if at in self._before else ()
            made += self._instead.get(at, [token])
        return made

    def _step(self, at: int) -> int:
        """Take a word, or the words of a type; the place of the next one."""
        kind, text = self._words[at][0], self._texts[at]
        if text == "::":
            written = type_words(self._texts, at + 1)
            self._cast(written, at, at + 1, self._operands.start)
            return max(written.end, at + 1)
        if kind == "word" and text in _CLOCKS and self._texts[at + 1 : at + 2] == ["("]:
            return self._clock(at)
        if kind in ("word", "quoted") and self._texts[at - 1 : at] != ["."] and (end := self._literal(at)):
            return end
        self._operands.take(at)
        return at + 1

    def _literal(self, at: int) -> int:
        """Take a literal with its type before it, such as `varchar(3) 'abc'`; 0 where there is none."""
        written = type_words(self._texts, at)
        is_literal = written.end < len(self._words) and self._words[written.end][0] == "text"
        if is_literal and written.modifiers is not None and written.name not in _MODIFIED:
            raise NotAllowed(f"{written.spelled}: numbers in parentheses are not served for this type")
        if written.name not in _MODIFIED or written.arrays or written.fields:
            return 0
        if not is_literal:
            if written.modifiers is not None and "(" in written.spelled and written.name not in _DUCKDBS:
                raise NotAllowed(f"{written.spelled} is served in a cast, such as x::{written.spelled}, alone")
            return 0
        end, text = written.end + 1, written.end
        if written.name == "interval" and not written.fields and written.modifiers is None:
            fields = type_words(["interval", *self._texts[end : end + 6]], 0)
            written = TypeWords("interval", fields.modifiers, fields.fields, 0, end + fields.end - 1, "interval")
            end = written.end
        self._operands.start = at
        if written.modifiers is None and not written.fields and written.name not in ("numeric", "float"):
            return end
        self._instead.update({place: [] for place in range(at, end)})
        self._instead[text] = [("space", " "), self._words[text]]
        self._cast(written, text, text, at, literal=text)
        return end

    def _clock(self, at: int) -> int:
        """Take `current_timestamp(2)`."""
        written = type_words(["time", *self._texts[at + 1 : at + 5]], 0)
        if written.modifiers is None or len(written.modifiers) != 1 or written.arrays:
            raise NotAllowed(f"{self._texts[at]} takes how many digits its seconds have, such as {self._texts[at]}(0)")
        end, scale = at + written.end, _scale(written)
        self._instead.update({place: [] for place in range(at, end)})
        self._instead[at] = [*_called(f"as_{_CLOCKS[self._texts[at]]}"), self._words[at], *_arguments(scale)]
        self._operands.start = at
        return end

    def _cast(self, written: TypeWords, sign: int, first: int, start: int | None, literal: int = -1) -> None:
        """Obey the modifier of a cast.

        Args:
            written: the type.
            sign: the place of `::`, or of the literal that stands behind its type.
            first: the first word that stands for the type.
            start: where the operand begins.
            literal: the place of the operand, where it is a text alone.
        """
        name, spelled = written.name, written.spelled
        if name == "float":
            self._replace(written, sign, first, _float(written))
            return
        if name in ("bit", "varbit") and (name == "bit" or written.modifiers is not None):
            raise NotAllowed(f"{spelled} is not served: cut the text with left(x, n), and cast it by ::text")
        if name in _DUCKDBS and literal >= 0:
            numbers = f"({', '.join(map(str, written.modifiers))})" if written.modifiers else ""
            self._replace(written, sign, first, [("word", f"numeric{numbers}")])
            return
        if name in _MODIFIED and self._at(written.end) == "(" and literal < 0:
            raise NotAllowed(f"{spelled}: write numbers in the parentheses behind it")
        if (written.modifiers is None and not written.fields) or name in _DUCKDBS:
            return
        if name not in _MODIFIED or name == "timetz":
            other = "cast to time(n), or leave the digits away" if name == "timetz" else f"write {name} without them"
            raise NotAllowed(f"{spelled}: numbers in parentheses are not served for this type; {other}")
        if start is None or written.arrays > 1:
            raise NotAllowed(f"{spelled} is served behind an expression, and for arrays of one dimension")
        if literal < 0 and start == sign - 1 and self._words[start][0] == "text":
            literal = start
        calls, numbers_of = self._call(written, start, literal)
        self._before[start].append(("word", f"pgx.{calls}("))
        types = [("word", _READ_AS.get(name, name)), *[("other", "["), ("other", "]")] * written.arrays]
        self._replace(written, sign, first, [*types, *_arguments(*numbers_of)])

    def _replace(self, written: TypeWords, sign: int, first: int, types: list[Token]) -> None:
        """Write other words for a type."""
        if sign == first:  # a literal behind its type, which becomes a cast
            self._instead[sign] = [*self._instead[sign], ("other", "::"), *types]
            return
        self._instead.update({place: [] for place in range(first, written.end)})
        self._instead[first] = types

    def _call(self, written: TypeWords, start: int, literal: int) -> tuple[str, tuple[int, ...]]:
        """The function that obeys a modifier, and what it takes beside the value."""
        several = "s" if written.arrays else ""
        if written.name == "varchar":
            return f"as_varchar{several}", (_length(written, _LONGEST),)
        if written.name == "bpchar":
            return self._char(written, start, literal), (_length(written, _WIDEST),)
        if written.name == "interval":
            if written.arrays:
                raise NotAllowed(f"{written.spelled} is served for single values")
            return "as_interval", (*self._cut(written, literal), _scale(written))
        return f"as_{written.name}{several}", (_scale(written),)

    def _cut(self, written: TypeWords, literal: int) -> tuple[int, int, int]:
        """The months, days and microseconds that are the smallest parts of what is left of an interval."""
        if not written.fields:
            return 1, 1, 1
        first, last = written.fields
        text = self._words[literal][1] if literal >= 0 else ""
        if FIELDS.index(first) > FIELDS.index(last) or (last == "month" and first not in ("year", "month")):
            raise NotAllowed(f"an interval has no fields {first} to {last}")
        if first in ("year", "month") and last not in ("year", "month"):
            raise NotAllowed(f"an interval has no fields {first} to {last}")
        if _NUMBER.fullmatch(text):
            instead = self._instead.get(literal, [self._words[literal]])
            units = ("text", f"'{text.strip(chr(39)).strip()} {last}s'")
            self._instead[literal] = [units if token == self._words[literal] else token for token in instead]
        elif not _UNITS.fullmatch(text):
            raise NotAllowed(
                f"the fields of an interval are served of a text whose numbers have units, such as "
                f"interval '1 day 2 hours' {last}: cut others with date_trunc('{last}', x)"
            )
        months = 12 if last == "year" else 1
        return months, int(last not in ("year", "month")), _SIZES.get(last, 0)

    def _char(self, written: TypeWords, start: int, literal: int) -> str:
        """The function that gives a char its blanks, or takes those at the end away."""
        length = written.modifiers[0] if written.modifiers else 1
        low, high = start, written.end - 1
        if not written.arrays:
            if self._at(high + 1) == "::":
                return "as_bpchar_value"
            while self._at(low - 1) == "(" and self._at(high + 1) == ")" and self._at(low - 2) in _AROUND:
                low, high = low - 1, high + 1
            if self._is_compared(low, high):
                return "as_bpchar_value"
            if self._is_column(low, high, self._operands.depth - (start - low)):
                return "as_bpchar"
            if literal >= 0 and self._is_full(literal, length) and not self._has_blanks:
                return "as_bpchar"
        raise NotAllowed(
            f"{written.spelled} is served as a column of the outermost SELECT, compared with a text, or cast on: "
            f"write left(x, {length}), or rpad(left(x, {length}), {length}, ' ')"
        )

    def _is_column(self, low: int, high: int, depth: int) -> bool:
        """Whether it is a whole column of the outermost SELECT, so that nothing is computed with its blanks."""
        behind = self._at(high + 1)
        ends = behind in ("", ",", ";") or (self._is_name(high + 1) and behind not in _GO_ON)
        is_outermost = depth == 0 and self._operands.clause == "select" and not self._operands.sets
        return is_outermost and ends and self._at(low - 1) in ("select", ",")

    def _is_full(self, literal: int, length: int) -> bool:
        """Whether a text has all its letters and no blank at its end, so that no blank is added or ignored."""
        text = self._words[literal][1]
        inner = text[1:-1].replace("''", "'")
        return text[:1] == "'" and len(inner) == length and inner[-1:] != " "

    def _is_compared(self, low: int, high: int) -> bool:
        """Whether it is compared with a text without blanks at its end, and with nothing else around."""
        sign = 0
        while self._at(high + 1 + sign) in ("=", "<", ">", "!"):
            sign += 1
        other = high + 1 + sign
        if sign and "".join(self._texts[high + 1 : other]) in _EQUALS and self._at(low - 1) in _AROUND:
            return self._is_plain(other) and self._at(other + 1) in _AROUND
        sign = 0
        while self._at(low - 1 - sign) in ("=", "<", ">", "!"):
            sign += 1
        other = low - 1 - sign
        is_one = sign > 0 and "".join(self._texts[other + 1 : low]) in _EQUALS
        return is_one and self._is_plain(other) and self._at(other - 1) in _AROUND and self._at(high + 1) in _AROUND

    def _is_plain(self, at: int) -> bool:
        text = self._at(at)
        return text[:1] == "'" and text.endswith("'") and not text.endswith(" '")

    def _is_name(self, at: int) -> bool:
        return at < len(self._words) and self._words[at][0] in ("word", "quoted")

    def _at(self, at: int) -> str:
        return self._texts[at] if 0 <= at < len(self._texts) else ""


def _float(written: TypeWords) -> list[Token]:
    """The type of so many binary digits."""
    digits = written.modifiers[0] if written.modifiers else 53
    if not 1 <= digits <= 53:
        raise NotAllowed(f"{written.spelled}: write float(n) with n from 1 to 53")
    return [("word", "REAL" if digits <= 24 else "DOUBLE"), *[("other", "["), ("other", "]")] * written.arrays]


def _length(written: TypeWords, most: int) -> int:
    length = written.modifiers[0] if written.modifiers else 1
    if len(written.modifiers or ()) > 1 or not 1 <= length <= most:
        raise NotAllowed(f"{written.spelled}: write one length from 1 to {most}")
    return length


def _scale(written: TypeWords) -> int:
    """How many microseconds the last digit of the seconds stands for."""
    digits = _MICROSECOND if written.modifiers is None else written.modifiers[0]
    if len(written.modifiers or (0,)) > 1 or digits < 0:
        raise NotAllowed(f"{written.spelled}: write how many digits the seconds have, from 0 to {_MICROSECOND}")
    return int(10 ** (_MICROSECOND - min(digits, _MICROSECOND)))


def _called(name: str) -> list[Token]:
    return [("word", f"pgx.{name}"), ("other", "(")]


def _arguments(*numbers: int) -> list[Token]:
    """What stands behind the value of a call, to its end."""
    return [*(token for number in numbers for token in (("other", ","), ("number", str(number)))), ("other", ")")]
