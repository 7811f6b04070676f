"""What DECLARE, FETCH and MOVE say of cursors, and where those go that go forward only."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final

from dpsql.service.tokens import first_word, tokens

from .failed import Failed

_KINDS: Final = frozenset({"BINARY", "ASENSITIVE", "INSENSITIVE", "NO", "SCROLL"})
_WAYS: Final = {
    "NEXT": ("FORWARD", 1.0),
    "PRIOR": ("BACKWARD", 1.0),
    "FIRST": ("ABSOLUTE", 1.0),
    "LAST": ("ABSOLUTE", -1.0),
}
_COUNTED: Final = frozenset({"FORWARD", "BACKWARD", "ABSOLUTE", "RELATIVE"})
_LONGEST: Final = 9
"""Digits of a count."""


@dataclass(frozen=True)
class Declared:
    """What a DECLARE says.

    Attributes:
        name: of the cursor.
        query: whose rows it has.
        hold: whether it outlives its transaction.
        scrolls: whether it goes back, too.
    """

    name: str
    query: str
    hold: bool
    scrolls: bool

    @classmethod
    def of(cls, sql: str) -> Declared | None:
        """Of a statement; None if it is no DECLARE.

        Raises:
            Failed: it is one, but not as PostgreSQL has it.
        """
        if first_word(sql) != "DECLARE":
            return None
        sql_tokens = tokens(sql)
        at = [place for place, (kind, _) in enumerate(sql_tokens) if kind != "space"]
        words = [sql_tokens[place][1].upper() for place in at]
        here = 2
        while words[here : here + 1] and words[here] in _KINDS:
            here += 1
        kinds = words[2:here]
        scrolls = "SCROLL" in kinds and "NO" not in kinds
        hold = words[here + 1 : here + 3] == ["WITH", "HOLD"]
        begins = here + (3 if hold or words[here + 1 : here + 3] == ["WITHOUT", "HOLD"] else 1)
        if words[here : here + 1] != ["CURSOR"] or words[begins : begins + 1] != ["FOR"]:
            raise Failed("42601", "a cursor is declared by DECLARE name CURSOR FOR SELECT …")
        return cls(
            name_of(sql_tokens[at[1]][1]), "".join(word for _, word in sql_tokens[at[begins] + 1 :]), hold, scrolls
        )


@dataclass(frozen=True)
class Fetched:
    """What a FETCH or MOVE says.

    Attributes:
        name: of the cursor.
        way: `FORWARD` or `BACKWARD` some rows, or to one row: `ABSOLUTE` or `RELATIVE`.
        count: of rows, or which row.
        moves: whether they are passed over only.
    """

    name: str
    way: str
    count: float
    moves: bool

    @classmethod
    def of(cls, sql: str) -> Fetched | None:
        """Of a statement; None if it is neither.

        Raises:
            Failed: it is one, but not as PostgreSQL has it.
        """
        if first_word(sql) not in ("FETCH", "MOVE"):
            return None
        shown = [word for kind, word in tokens(sql) if kind != "space"]
        words = [word.upper() for word in shown]
        if len(words) < 2:
            return None
        middle = [word for word in words[1:-1] if word not in ("FROM", "IN")]
        way, count = _WAYS.get(middle[0] if middle else "NEXT", ("", 0.0))
        if not way or len(middle) > 1:
            way = middle.pop(0) if middle[0] in _COUNTED else "FORWARD"
            count = _count(middle, way)
        if way in ("FORWARD", "BACKWARD") and count < 0:
            way, count = "BACKWARD" if way == "FORWARD" else "FORWARD", -count
        return cls(name_of(shown[-1]), way, count, words[0] == "MOVE")


def _count(words: list[str], way: str) -> float:
    """How many rows, or which one."""
    if way in ("FORWARD", "BACKWARD") and words in ([], ["ALL"]):
        return inf if words else 1.0
    text = "".join(words)
    digits = text.lstrip("+-")
    if len(text) - len(digits) > 1 or not digits.isdecimal() or len(digits) > _LONGEST:
        raise Failed("42601", "rows of a cursor are fetched by FETCH FORWARD 100 FROM name")
    return float(text)


def name_of(word: str) -> str:
    """A name as PostgreSQL reads it."""
    return word[1:-1].replace('""', '"') if word.startswith('"') else word.lower()


def ahead(fetched: Fetched, passed: int) -> tuple[float, float]:
    """How many rows to pass over and to take then, for a cursor that goes forward only.

    Args:
        fetched: where to.
        passed: how many rows it has passed.

    Raises:
        Failed: it would go back.
    """
    if fetched.way == "FORWARD" and fetched.count > 0:
        return 0, fetched.count
    row = fetched.count + (passed if fetched.way == "RELATIVE" else 0)
    if fetched.way in ("FORWARD", "BACKWARD") or row <= passed:
        raise Failed(
            "55000", "cursor can only scan forward: declare it with SCROLL to go back, and to know its last row"
        )
    return row - passed - 1, 1
