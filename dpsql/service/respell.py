"""PostgreSQL's spelling of a statement to DuckDB's: the catalogue's schema, casts to its names, operators."""

from __future__ import annotations

from typing import Final

from .catalogue import FUNCTIONS, RELATIONS
from .tokens import Token, tokens

_NAMES: Final = frozenset({"regclass", "regtype", "regproc", "regprocedure", "regoper", "regrole", "regnamespace"})
_TEXTS: Final = frozenset({"name", "unknown", "bpchar", "cstring", "oidvector", "int2vector"})
_RENAMED: Final = {"json_build_object": "json_object", "jsonb_build_object": "json_object"}
_BARE: Final = frozenset(
    {"version", "current_setting", "current_database", "current_schemas", "current_schema", "set_config"}
) | {name for name in FUNCTIONS if name.startswith(("pg_", "has_", "obj_", "col_", "shobj_", "format_", "to_reg"))}


def respelled(sql: str) -> str:
    """The statement as DuckDB reads it."""
    words = _Words(tokens(sql))
    while words.left():
        words.step()
    return "".join(words.done)


class _Words:
    """Goes over the tokens once."""

    def __init__(self, found: list[Token]) -> None:
        self._found, self._place = found, 0
        self.done: list[str] = []

    def left(self) -> bool:
        """Whether there are more."""
        return self._place < len(self._found)

    def _ahead(self, count: int) -> list[str]:
        """The next tokens that are no spaces, in lower case."""
        near = self._found[self._place : self._place + 4 * count]
        shown = [text.lower() for kind, text in near if kind != "space"]
        return [*shown, *[""] * count][:count]

    def _skip(self, count: int) -> None:
        """Leave out so many tokens that are no spaces, and the spaces between."""
        while count:
            count -= self._found[self._place][0] != "space"
            self._place += 1

    def step(self) -> None:
        """Take the next token, or a few."""
        kind, text = self._found[self._place]
        word = text.lower() if kind == "word" else ""
        if word in ("cast", "operator", "collate", "pg_catalog", "information_schema") or kind == "other":
            if self._several(word, text):
                return
        elif kind == "text" and text[:1] in "eE" and "\\" not in text:
            text = text[1:]
        elif word in _NAMES and self._last() == "as":
            text = "VARCHAR"
        elif word in _RENAMED and self._ahead(2)[1] == "(":
            text = _RENAMED[word]
        elif word in _BARE | RELATIONS and not self._after_point():
            following = self._ahead(2)[1]
            called = following == "("
            if (word in _BARE and called) or (word in RELATIONS and not called and following != "."):
                text = f"pgx.{text}"
        self.done.append(text)
        self._place += 1

    def _several(self, word: str, text: str) -> bool:
        """What is spelled in several tokens; whether it was."""
        ahead = self._ahead(6)
        if word == "operator" and ahead[1:4] == ["(", "pg_catalog", "."]:
            self._skip(4)
            operator = ""
            while self._found[self._place][1] != ")":
                operator += self._found[self._place][1]
                self._place += 1
            self._place += 1
            self.done.append(operator)
            return True
        if word == "collate" and ahead[1:4] in (["pg_catalog", ".", "default"], ["pg_catalog", ".", '"default"']):
            self._skip(4)
            return True
        if word in ("pg_catalog", "information_schema") and ahead[1] == "." and not self._after_point():
            self._skip(2)
            own = word != "pg_catalog" or ahead[3] != "(" or ahead[2] in FUNCTIONS
            self.done.append("" if not own else "pgx." if word == "pg_catalog" else "pgi.")
            return True
        if text == "::":
            return self._cast(ahead)
        if word == "cast" and ahead[3:6] == ["as", "regclass", ")"] and ahead[2][:1] in "'$":
            self._skip(6)
            self.done.append(f"pgx.to_regclass({ahead[2]})")
            return True
        return False

    def _cast(self, ahead: list[str]) -> bool:
        inner = ahead[3] if ahead[1:3] == ["pg_catalog", "."] else ahead[1]
        count = 4 if inner == ahead[3] and ahead[1] == "pg_catalog" else 2
        if inner == "regclass" and self._is_name():
            self._skip(count)
            self.done[-1] = f"pgx.to_regclass({self.done[-1]})"
            return True
        if inner in _NAMES | _TEXTS:
            self._skip(count)
            self.done.append("::VARCHAR")
            return True
        if count == 4:  # another type of Postgres' that DuckDB has, too
            self._skip(count)
            self.done.append(f"::{'BIGINT' if inner == 'oid' else inner}")
            return True
        if inner == "oid":
            self._skip(count)
            self.done.append("::BIGINT")
            return True
        return False

    def _is_name(self) -> bool:
        """Whether what was cast is the name of a table, and not its number."""
        last = self.done[-1] if self.done else ""
        return last.startswith("'") and not last.strip("'").isdigit()

    def _last(self) -> str:
        """The token before this that is no space, in lower case."""
        return next((text.lower() for text in reversed(self.done) if text.strip()), "")

    def _after_point(self) -> bool:
        return bool(self.done) and self.done[-1].endswith(".")
