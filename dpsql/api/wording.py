"""What the text of a statement names, by DuckDB's own tokens: nothing is parsed, so nothing is misread.

A statement reads only what its text names: a table, a view, a variable of Python or a file by its name, anything else
through a function. Names that mean something else, such as columns, count too. So a statement is at worst taken to
read more than it does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import duckdb

from dpsql.core.names import fold

_SPACES: Final = " \t\r\n\f\v"
_READS: Final = frozenset(
    """from join using pivot unpivot pivot_wider pivot_longer summarize describe show table execute import call
    query query_table""".split()  # noqa: SIM905
)
"""Words without one of which a statement reads no rows but those of the table that it changes."""
_RESERVED: Final = frozenset(
    """select from where group having order limit offset as into and or not in is null on using with create table
    case when then else end union all distinct default values set insert update delete""".split()  # noqa: SIM905
)
"""Keywords that are no names, unless in quotes."""
_BETWEEN: Final = frozenset({"if", "not", "exists", "only"})
"""Words between a command and the name of its table."""
_STRING: Final = re.compile(r"[eExX]?'(.*)'|\$(\w*)\$(.*)\$\2\$", re.DOTALL)


@dataclass(frozen=True)
class Token:
    """A word, a text or a sign of a statement.

    Attributes:
        kind: `word`, `quoted`, `text` or `sign`.
        value: words in lower case, without quotes.
    """

    kind: str
    value: str

    @property
    def is_name(self) -> bool:
        """Whether it can be a part of a name."""
        return self.kind == "quoted" or (self.kind == "word" and self.value not in _RESERVED)


_EXPLAINED: Final = 4  # places before the statement of EXPLAIN (ANALYZE)
Name = tuple[str, ...]
"""The parts of a name in lower case, outermost first."""


@dataclass(frozen=True)
class Wording:
    """What a statement names.

    Attributes:
        first: its first word.
        second: what stands after it.
        names: every word with those before it that a dot joins to it, and the texts that may name a table.
        paths: texts, and quoted names, that may be files.
        targets: the tables that it changes or makes.
        makes: whether it makes tables.
        reads: whether it may read more rows than those of its targets.
        calls: words before a bracket.
        is_copy: whether it is a COPY, all of whose paths are files.
    """

    first: str
    second: str
    names: frozenset[Name]
    paths: tuple[str, ...]
    targets: tuple[Name, ...]
    makes: bool
    reads: bool
    calls: frozenset[str]
    is_copy: bool


def wording_of(text: str) -> Wording:
    """What a text names.

    >>> wording_of("INSERT INTO main.wards SELECT id FROM 'wards.csv'").targets
    (('main', 'wards'),)
    """
    tokens = list(_tokens(text))
    targets, places, makes, own = _targets(tokens)
    words = [token.value for token in tokens if token.kind == "word"]
    deletes = sum(a == "delete" and b == "from" for a, b in pairwise(words))
    counts = {word: words.count(word) for word in _READS}
    counts["from"] -= deletes
    counts["table"] -= own
    rest = [token for place, token in enumerate(tokens) if place not in places]
    return Wording(
        first=words[0] if words else "",
        second=tokens[1].value if len(tokens) > 1 else "",
        names=frozenset(_names(rest)),
        paths=tuple(_paths(rest)),
        targets=targets,
        makes=makes,
        reads=any(counts.values()),
        calls=frozenset(_calls(rest)),
        is_copy=any(
            token.value == "copy" and _begins(_before(tokens, place), place)
            for place, token in enumerate(tokens[: _EXPLAINED + 1])
        ),
    )


def _tokens(text: str) -> Iterator[Token]:
    """The tokens, without comments and without texts that a function of dpsql is given: it answers with noise."""
    data = text.encode()
    begins = duckdb.tokenize(text)
    ends = [place for place, _ in begins[1:]] + [len(data)]
    depth, before = 0, Token("sign", "")
    for (begin, kind), end in zip(begins, ends, strict=True):
        piece = data[begin:end].decode("utf-8", "replace").strip(_SPACES)
        token = _token(str(kind).rpartition(".")[2], piece)
        if token is None or (depth and token.kind == "text"):
            continue
        if token.kind == "sign" and (depth or (token.value == "(" and before.value.startswith("dp_"))):
            depth += {"(": 1, ")": -1}.get(token.value, 0)
        yield token
        before = token


def _token(kind: str, piece: str) -> Token | None:
    if kind == "comment" or not piece:
        return None
    if kind == "string_const":
        match = _STRING.fullmatch(piece)
        value = "" if match is None else match[1] if match[1] is not None else match[3]
        return Token("text", value.replace("''", "'"))
    if piece[0] == '"':
        return Token("quoted", fold(piece[1:-1].replace('""', '"')))
    return Token("word" if kind in ("identifier", "keyword") else "sign", fold(piece))


def _targets(tokens: Sequence[Token]) -> tuple[tuple[Name, ...], set[int], bool, int]:
    """The tables that a statement changes, the places of their names, whether it makes one, and `TABLE` before them."""
    targets: list[Name] = []
    places: set[int] = set()
    makes, own = False, 0
    for place, token in enumerate(tokens):
        if token.kind != "word":
            continue
        before = _before(tokens, place)
        is_made = token.value == "table" and "create" in before
        if not (is_made or _commands(token.value, before, place)):
            continue
        begin = place + 1
        while begin < len(tokens) and tokens[begin].kind == "word" and tokens[begin].value in _BETWEEN:
            begin += 1
        name, end = _dotted(tokens, begin)
        if name:
            targets.append(name)
            places |= set(range(begin, end))
            makes |= is_made
            own += token.value == "table"
    return tuple(targets), places, makes, own


def _commands(word: str, before: Sequence[str], place: int) -> bool:
    """Whether the name of a table that is changed stands after a word."""
    last = before[-1] if before else ""
    return (
        word == "into"
        or (word == "update" and last not in ("do", "then", "for"))
        or (word == "from" and last == "delete")
        or (word == "table" and last in ("alter", "truncate"))
        or word == "truncate"
        or (word == "copy" and _begins(before, place))
    )


def _before(tokens: Sequence[Token], place: int) -> list[str]:
    """At most three words before a place."""
    return [token.value for token in tokens[max(place - 3, 0) : place]]


def _begins(before: Sequence[str], place: int) -> bool:
    """Whether a word with at most three words before it is a statement's first, or that of one that is explained."""
    return place <= _EXPLAINED and {*before} <= {"explain", "analyze", "(", ")"}


def _dotted(tokens: Sequence[Token], begin: int) -> tuple[Name, int]:
    """The name that begins at a place, and where it ends."""
    parts: list[str] = []
    place = begin
    while place < len(tokens) and (tokens[place].is_name or tokens[place].kind == "text"):
        parts.append(fold(tokens[place].value))
        place += 1
        if place < len(tokens) and tokens[place].value == "." and tokens[place].kind == "sign":
            place += 1
        else:
            break
    return tuple(parts), place


def _names(tokens: Sequence[Token]) -> Iterator[Name]:
    """Each word with those that dots join to it before it; a text that may name a table by itself.

    But no word behind AS, which is a new name.
    """
    parts: Name = ()
    is_joined = False
    for place, token in enumerate(tokens):
        if place and token.is_name and (tokens[place - 1].kind, tokens[place - 1].value) == ("word", "as"):
            parts, is_joined = (), False
            continue
        if token.is_name:
            parts = (*parts, token.value) if is_joined else (token.value,)
            yield parts
        elif token.kind == "text":
            yield (fold(token.value),)
        is_joined = token.kind == "sign" and token.value == "." and bool(parts)
        if not is_joined and not token.is_name:
            parts = ()


def _paths(tokens: Sequence[Token]) -> Iterator[str]:
    for token in tokens:
        if token.kind in ("text", "quoted") and token.value:
            yield token.value


def _calls(tokens: Sequence[Token]) -> Iterator[str]:
    for token, following in pairwise(tokens):
        if token.is_name and following.value == "(" and following.kind == "sign":
            yield token.value
