"""PostgreSQL's spelling of a statement to DuckDB's: the catalogue's schema, casts to its names, operators."""

from __future__ import annotations

import re
from typing import Final

from dpsql.core.names import as_text

from . import allowed, pg_arrays
from .aggregates import aggregates
from .casts import postfixed
from .catalogue import FUNCTIONS, RELATIONS
from .from_postgres import prepared
from .json_operators import json_operators
from .modifiers import modified
from .operators import operators
from .patterns import patterns
from .postgres_functions import SAME_NAMES
from .relations import vectors
from .tokens import Token, tokens

_NAMES: Final = frozenset(
    f"reg{kind}"
    for kind in "class type proc procedure oper operator role namespace collation config dictionary".split()  # noqa: SIM905
)
_FUNCTION_NAMES: Final = frozenset({"regproc", "regprocedure"})
_TYPE_NUMBERS: Final = frozenset({"prorettype", "atttypid", "typelem", "typbasetype", "oid"})
"""Columns of the catalogue with the number of a type."""
_TEXTS: Final = frozenset({"name", "unknown", "bpchar", "cstring", "oidvector", "int2vector"})
_RENAMED: Final = {"json_build_object": "json_object", "jsonb_build_object": "json_object"}
_BARE: Final = FUNCTIONS - allowed.FUNCTIONS - allowed.TABLE_FUNCTIONS
"""Functions of Postgres that DuckDB does not have, or whose own answer would tell of the instance."""
_SERIES: Final = "generate_series"
"""Among columns it makes rows in Postgres and a list in DuckDB: rows where the arguments are Postgres' own."""
_OURS: Final = _BARE | RELATIONS | {_SERIES} | SAME_NAMES
_NUMERICS: Final = frozenset({"numeric", "decimal", "dec"})
_CALLED: Final = {"oid": "BIGINT", "jsonb": "JSON"}
"""Types that have another name in DuckDB."""
_BOOLEANS: Final = frozenset({"bool", "boolean"})
_STATES: Final = {"on": "'true'", "off": "'false'"}
"""Texts of booleans that DuckDB does not read."""
_NUMERIC: Final = "DECIMAL(38, 10)"
"""Of PostgreSQL's numeric without digits, which holds any number: DuckDB's own has three after the point."""
_TIME: Final = "::TIMETZ::TIME"
"""DuckDB casts a moment to the time in the session's zone so alone, and all else to the same time."""
_AS_TEXT: Final = frozenset({"text", "varchar"})
_ENDS_COLUMN: Final = frozenset({"as", ",", "from"})
_COLUMN_PART: Final = re.compile(r'\w+|"[^"]+"|\.')
_BYTES: Final = re.compile(r"'\\x((?:[0-9a-fA-F]{2})*)'")
_LIKE: Final = frozenset({"like", "ilike"})
_QUANTIFIERS: Final = frozenset({"any", "some", "all"})
_ESCAPE: Final = "\\"
"""Of a pattern that names none, in PostgreSQL; DuckDB's has none then."""
_WHO: Final = frozenset({"current_user", "session_user", "current_role"})
"""Words that are calls without parentheses. `user` is left to DuckDB, because it may be a column."""


def respelled(sql: str, user: str = "dpsql") -> str:
    """The statement as DuckDB reads it.

    Args:
        sql: the statement.
        user: who says it.

    Raises:
        NotAllowed: a type has a modifier that cannot be obeyed.
    """
    words = _Words(modified(postfixed(prepared(operators(json_operators(aggregates(patterns(tokens(sql)))))))), user)
    while words.left():
        words.step()
    return "".join(words.done)


class _Words:
    """Goes over the tokens once."""

    def __init__(self, sql_tokens: list[Token], user: str) -> None:
        self._tokens, self._place = sql_tokens, 0
        self._user = as_text(user)
        self.done: list[str] = []

    def left(self) -> bool:
        """Whether there are more."""
        return self._place < len(self._tokens)

    def _ahead(self, count: int) -> list[str]:
        """The next tokens that are no spaces, in lower case."""
        near = self._tokens[self._place : self._place + 4 * count]
        shown = [text.lower() for kind, text in near if kind != "space"]
        return [*shown, *[""] * count][:count]

    def _skip(self, count: int) -> None:
        """Leave out so many tokens that are no spaces, and the spaces between."""
        while count:
            count -= self._tokens[self._place][0] != "space"
            self._place += 1

    def step(self) -> None:
        """Take the next token, or a few."""
        kind, text = self._tokens[self._place]
        word = text.lower() if kind == "word" else ""
        if word in ("operator", "collate", "pg_catalog", "information_schema") or kind == "other":
            if self._several(word, text):
                return
        elif kind == "text" and text[:2] == "'{" and self._ahead(4)[1::2] == ["::", "["]:
            text = _array(text)
        elif kind == "text" and text[:1] in "eE" and "\\" not in text:
            text = text[1:]
        elif word in _WHO and not self._after_point() and self._ahead(2)[1] != "(" and not self._after_as():
            text = f"pgx.{word}({self._user})"
        elif word == "current_catalog" and not self._after_point():
            text = "pgx.current_catalog()"
        elif word in _QUANTIFIERS and self._is_among():
            return
        elif word in _LIKE and self._escapes():
            self._several_like()
            return
        elif kind == "text" and _BYTES.fullmatch(text) and self._to_bytes():
            text = _bytes(text)
        elif word in _RENAMED and self._ahead(2)[1] == "(":
            text = _RENAMED[word]
        elif word in _OURS and not self._after_point():
            following = self._ahead(2)[1]
            called = following == "("
            if word == _SERIES:
                called = called and self._rows()
            if (word not in RELATIONS and called) or (word in RELATIONS and not called and following != "."):
                text = f"pgx.{text}"
        self.done.append(text)
        self._place += 1

    def _to_bytes(self) -> bool:
        """Whether this token is cast to bytes."""
        ahead = self._ahead(5)[1:]
        return ahead[:2] == ["::", "bytea"] or ahead == ["::", "pg_catalog", ".", "bytea"]

    def _is_among(self) -> bool:
        """Whether it was `= ANY('{…}')` or `<> ALL('{…}')`, whose elements have the type of the other side."""
        word, *ahead = self._ahead(4)
        literal = next((text for _, text in self._tokens[self._place : self._place + 8] if text[:2] == "'{"), "")
        operator = "".join(done for done in self.done[-4:] if done.strip())
        listed = _array(literal)
        negates = word == "all" and operator.endswith(("<>", "!="))
        equals = word != "all" and operator.endswith("=") and not operator.endswith(("!=", "<=", ">="))
        if ahead[0] != "(" or ahead[2] != ")" or listed == literal or not (negates or equals):
            return False
        for _ in range(2 if negates else 1):
            while not self.done[-1].strip():
                self.done.pop()
            self.done.pop()
        self._skip(4)
        elements = listed[1:-1] or "SELECT NULL WHERE false"
        self.done.append(f" {'NOT ' * negates}IN ({elements})")
        return True

    def _escapes(self) -> bool:
        """Whether the pattern is a text with a backslash, or a parameter, and nothing of its own says what escapes."""
        _, pattern, following = self._ahead(3)
        kinds = [kind for kind, text in self._tokens[self._place : self._place + 4] if text.lower() == pattern]
        written = pattern[:1] in ("'", "e") and _ESCAPE in pattern and "text" in kinds
        ends = following in ("", ")", ",", ";") or (following.isalpha() and following not in ("escape", "collate"))
        return (written or "parameter" in kinds) and ends

    def _several_like(self) -> None:
        """LIKE and its pattern, with PostgreSQL's escape."""
        left = 2
        while left:
            kind, text = self._tokens[self._place]
            left -= kind != "space"
            self.done.append(text)
            self._place += 1
        self.done.append(f" ESCAPE '{_ESCAPE}'")

    def _several(self, word: str, text: str) -> bool:
        """What is spelled in several tokens; whether it was."""
        ahead = self._ahead(6)
        if word == "operator" and ahead[1:4] == ["(", "pg_catalog", "."]:
            self._skip(4)
            operator = ""
            while self._tokens[self._place][1] != ")":
                operator += self._tokens[self._place][1]
                self._place += 1
            self._place += 1
            self.done.append(operator)
            return True
        if word == "collate" and ahead[1:4] in (["pg_catalog", ".", "default"], ["pg_catalog", ".", '"default"']):
            self._skip(4)
            return True
        if word == "pg_catalog" and ahead[1:3] == [".", "current_schema"] and ahead[3] != "(":
            self._skip(3)
            self.done.append("pgx.current_schema()")
            return True
        if word in ("pg_catalog", "information_schema") and ahead[1] == "." and not self._after_point():
            self._skip(2)
            own = word != "pg_catalog" or ahead[3] != "(" or ahead[2] in FUNCTIONS
            if ahead[2] == _SERIES:
                own = self._rows()
            self.done.append("" if not own else "pgx." if word == "pg_catalog" else "pgi.")
            return True
        if text == "::":
            return self._cast(ahead)
        return False

    def _cast(self, ahead: list[str]) -> bool:
        if ahead[1] == '"pg_catalog"':  # asyncpg quotes the names of types, too
            ahead = [word.strip('"') for word in ahead]
        inner = ahead[3] if ahead[1:3] == ["pg_catalog", "."] else ahead[1]
        count = 4 if inner == ahead[3] and ahead[1] == "pg_catalog" else 2
        if inner == "regclass" and self._is_name():
            self._skip(count)
            self.done[-1] = f"pgx.to_regclass({self.done[-1]})"
            return True
        if inner == "regclass" and self.done and self.done[-1].strip("'").isdigit():
            self._skip(count)
            self.done.append("::BIGINT")
            return True
        if inner == "regclass" and (ahead[count] in _ENDS_COLUMN or ahead[count : count + 2] == ["::", "text"]):
            named = self._named()
            if named:
                self._skip(count)
                self.done.append(f"pgx.regclass_name({named})")
                return True
        if inner == "regtype" and self._is_name() and self._compared() in _TYPE_NUMBERS:
            self._skip(count)
            self.done[-1] = f"pgx.to_regtype({self.done[-1].replace('pg_catalog.', '', 1)})"
            return True
        if inner in _FUNCTION_NAMES and self._is_name() and ahead[count] == "::":
            self._skip(count)
            self.done[-1] = f"pgx.to_regproc({self.done[-1]})"
            return True
        if inner in _AS_TEXT and self.done and self.done[-1].strip('"').lower() in vectors():
            self._skip(count)
            self.done.append(f"pgx.vector_text({self._named()})")
            return True
        if inner in _NAMES | _TEXTS:
            self._skip(count)
            if inner in _NAMES and self.done and self.done[-1].startswith("'pg_catalog."):
                self.done[-1] = self.done[-1].replace("pg_catalog.", "", 1)
            self.done.append("::VARCHAR")
            return True
        if inner in _BOOLEANS and self.done and self.done[-1].strip("'").strip().lower() in _STATES:
            self.done[-1] = _STATES[self.done[-1].strip("'").strip().lower()]
        if inner in _NUMERICS and ahead[count] != "(":
            self._skip(count)
            self.done.append(f"::{_NUMERIC}")
            return True
        if (
            inner == "time"
            and ahead[count] not in ("(", "[", "with", "without")
            and not _is_parameter(self._last_word())
        ):
            self._skip(count)
            self.done.append(_TIME)
            return True
        if count == 4 or inner in _CALLED:  # another type of Postgres' that DuckDB has, too
            self._skip(count)
            self.done.append(f"::{_CALLED.get(inner, inner)}")
            return True
        return False

    def _is_name(self) -> bool:
        """Whether what was cast is the name of a table, or a parameter, and not its number."""
        last = self.done[-1] if self.done else ""
        return _is_parameter(last) or (last.startswith("'") and not last.strip("'").isdigit())

    def _named(self) -> str:
        """Take back the column that was just written, with the names before it; nothing where it was none."""
        parts: list[str] = []
        while self.done and _COLUMN_PART.fullmatch(self.done[-1]) and (not parts or "." in (parts[-1], self.done[-1])):
            parts.append(self.done.pop())
        return "".join(reversed(parts))

    def _compared(self) -> str:
        """The name of what the last literal is compared with."""
        before = [done.lower() for done in self.done[-8:-1] if done.strip() and done not in "=<>!("]
        return before[-1] if before else ""

    def _rows(self) -> bool:
        """Whether a series here is of rows: its arguments are Postgres' own, and it stands among columns."""
        return "array_lower" in self._ahead(8) and self._last_word() in ("select", ",")

    def _last_word(self) -> str:
        return next((done.lower() for done in reversed(self.done) if done.strip()), "")

    def _after_as(self) -> bool:
        return self._last_word() == "as"

    def _after_point(self) -> bool:
        return bool(self.done) and self.done[-1].endswith(".")


def _is_parameter(text: str) -> bool:
    """Whether it is a parameter: the type that it is first cast to is its own."""
    return text.startswith("$") and text[1:].isdigit()


def _bytes(text: str) -> str:
    """A literal of PostgreSQL's bytes as DuckDB's: an x stands before each of them there."""
    digits = text[3:-1]
    return "'" + "".join(f"\\x{digits[place : place + 2]}" for place in range(0, len(digits), 2)) + "'"


def _array(text: str) -> str:
    """A literal of Postgres' arrays as DuckDB's; left as it is where it is none."""
    try:
        parts = pg_arrays.elements(text[1:-1].replace("''", "'"))
    except ValueError:
        return text
    return "[" + ", ".join("NULL" if element is None else as_text(element) for element in parts) + "]"
