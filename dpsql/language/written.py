"""What somebody wrote, kept beside what sqlglot reads of it: the same words, so that both can be compared.

sqlglot translates: it may drop an argument that it does not know, or call another function. So an expression over the
protected table's columns keeps the words that it was written in (`own_words`), with columns in place of their names.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect

from dpsql.language.expressions import sql_of
from dpsql.language.interpreted import duckdb_parser

_SPAN: Final = "dpsql_span"
_LIST_END: Final = "dpsql_list_end"
_OWN: Final = "dpsql_own"
_ELSEWHERE: Final = "dpsql_elsewhere"
_TEXT: Final = re.compile(r"'(?:[^']|'')*'|\$\w*")


class _Words:
    """The tokens of a text, without comments; texts in unusual quotes as plain ones."""

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self.places = [(token.line, token.col - token.end + token.start) for token in tokens]
        self.starts = [token.start for token in tokens]
        self.ends = [token.end for token in tokens]
        self.texts = [_plain(text[token.start : token.end + 1], token) for token in tokens]

    def joined(self, first: int, last: int) -> str:
        """Some tokens, apart where they were."""
        apart = (self.starts[at] > self.ends[at - 1] + 1 for at in range(first + 1, last))
        words = [f"{' ' if space else ''}{self.texts[at]}" for at, space in enumerate(apart, start=first + 1)]
        return "".join([*self.texts[first : first + 1], *words]) if first < last else ""


@dataclass(frozen=True)
class _Span:
    """A part of a text: its first and its last character."""

    words: _Words
    start: int
    end: int

    def __deepcopy__(self, memo: Any) -> _Span:
        return self

    def text(self, replaced: Sequence[tuple[tuple[int, int], str]] = ()) -> str:
        """The words, with others in the place of some."""
        parts: list[str] = []
        at = bisect_left(self.words.starts, self.start)
        for (start, end), words in sorted(replaced):
            parts += [self.words.joined(at, bisect_left(self.words.starts, start)), words]
            at = bisect_right(self.words.ends, end)
        parts.append(self.words.joined(at, bisect_right(self.words.ends, self.end)))
        return " ".join(part for part in parts if part)


def _plain(written: str, token: Token) -> str:
    """A token that DuckDB and sqlglot read alike, so that a text ends at the same place for both."""
    has_quotes = "'" in written or "$" in written or token.token_type is TokenType.STRING
    if not has_quotes or token.token_type is TokenType.IDENTIFIER or _TEXT.fullmatch(written):
        return written
    return exp.Literal.string(token.text).sql(dialect="duckdb")


class _Parser(duckdb_parser()):  # type: ignore[misc]
    """DuckDB's parser, which tells where each operand was written."""

    words: _Words

    def _marked(self, parse: Callable[[], exp.Expr | None]) -> exp.Expr | None:
        first = self._index
        node = parse()
        if node is not None and self._index > first:
            node.meta[_SPAN] = self._span(first)
        return node

    def _span(self, first: int) -> _Span:
        """From a token to the one before the next."""
        return _Span(self.words, self._tokens[first].start, self._tokens[self._index - 1].end)

    def _parse_select(self, *args: Any, **options: Any) -> exp.Expr | None:
        first = self._index
        node: exp.Expr | None = super()._parse_select(*args, **options)
        if isinstance(node, exp.Query) and self._index > first:
            node.meta.setdefault(_SPAN, self._span(first))  # its own, without a WITH before it
        return node

    def _parse_projections(self) -> tuple[list[exp.Expr], list[exp.Expr] | None]:
        listed, left_out = super()._parse_projections()
        if listed:
            comma = self._tokens[self._index - 1].token_type is TokenType.COMMA
            last = self._index - 1 - comma
            listed[-1].meta[_LIST_END] = _Span(self.words, self._tokens[last].start, self._tokens[last].end)
        return listed, left_out

    def _parse_table(self, *args: Any, **options: Any) -> exp.Expr | None:
        return self._marked(lambda: super(_Parser, self)._parse_table(*args, **options))

    def _parse_unary(self) -> exp.Expr | None:
        return self._marked(super()._parse_unary)

    def _parse_factor(self, *args: Any, **options: Any) -> exp.Expr | None:
        return self._marked(lambda: super(_Parser, self)._parse_factor(*args, **options))

    def _parse_equality(self, *args: Any, **options: Any) -> exp.Expr | None:
        return self._marked(lambda: super(_Parser, self)._parse_equality(*args, **options))

    def _parse_disjunction(self) -> exp.Expr | None:
        return self._marked(super()._parse_disjunction)


def parsed(text: str) -> list[exp.Expr]:
    """The statements of a text, each expression with its place in it.

    Raises:
        SqlglotError: it is no SQL.
    """
    dialect = Dialect.get_or_raise("duckdb")
    tokens = dialect.tokenize(text)
    parser = _Parser(dialect=dialect)
    parser.words = _Words(text, tokens)
    statements = parser.parse(tokens, text)
    return [tree for tree in statements if tree is not None and not isinstance(tree, exp.Semicolon)]


def as_written(node: exp.Expr) -> str | None:
    """The words of a node that somebody wrote; None where they are not known."""
    span = node.meta.get(_SPAN)
    return None if span is None else str(span.text())


def place_of(node: exp.Expr) -> tuple[int, int] | None:
    """The line and the column of a node in the text of whoever asks; None where it does not stand there."""
    first: tuple[int, tuple[int, int]] | None = None
    for part in [node] if _SPAN in node.meta else node.walk():
        span: _Span | None = part.meta.get(_SPAN)
        if _ELSEWHERE in part.meta:
            return None
        if span is not None:
            spot = span.start, span.words.places[bisect_left(span.words.starts, span.start)]
        elif part.meta.get("line") and (part is node or not isinstance(part, exp.Star)):  # FROM alone has one, too
            name = part.meta
            spot = name["start"], (name["line"], name["col"] - name["end"] + name["start"])
        else:
            continue
        first = spot if first is None else min(first, spot)
    return None if first is None else first[1]


def stands_elsewhere(query: exp.Expr) -> None:
    """Note that a query is not of the text of whoever asks, but the definition of a view."""
    for node in query.walk():
        node.meta[_ELSEWHERE] = True


def span_of(select: exp.Select) -> _Span | None:
    """Where a query was written, without the WITH before it; None where that is not known."""
    span: _Span | None = select.meta.get(_SPAN)
    return span


def keep_span(select: exp.Select, of: exp.Select) -> None:
    """Keep beside a query where the one was written that it stands for."""
    select.meta[_SPAN] = of.meta.get(_SPAN)


def list_end_of(select: exp.Select) -> tuple[tuple[int, int], str] | None:
    """The last word of a query's list, and where it is; None where that is not known."""
    span: _Span | None = select.expressions[-1].meta.get(_LIST_END)
    return None if span is None else ((span.start, span.end), span.text())


def own_words(tree: exp.Expr) -> str:
    """An expression over columns, in the words that it was written in where somebody wrote it."""
    inside = tree
    while isinstance(inside, exp.Paren) and _OWN not in inside.meta:
        inside = inside.this
    written = inside.meta.get(_OWN)
    return sql_of(tree) if written is None else str(written)


def keep_words(expression: exp.Expr, tree: exp.Expr, replaced: Sequence[tuple[exp.Expr, exp.Expr]]) -> None:
    """Keep beside an expression the words of which it was made.

    Args:
        expression: what was made.
        tree: what somebody wrote.
        replaced: parts of `tree`, with what stands in their place in `expression`.
    """
    span = tree.meta.get(_SPAN)
    parts = [(_place_of(part), _enclosed(by)) for part, by in replaced]
    placed_parts = [(place, words) for place, words in parts if place is not None]
    if span is not None and len(placed_parts) == len(parts):
        expression.meta[_OWN] = span.text(placed_parts)


def _enclosed(tree: exp.Expr) -> str:
    if isinstance(tree, exp.Select):  # in parentheses already
        return sql_of(tree)
    words = own_words(tree)
    return words if isinstance(tree, exp.Column) else f"({words})"


def kept_words(tree: exp.Expr, skipped: Callable[[exp.Expr], bool] | None = None) -> Iterator[tuple[exp.Expr, str]]:
    """All parts of an expression that somebody wrote, with their words; not what is inside of those to be skipped."""
    for node in tree.walk(prune=skipped):
        written = node.meta.get(_OWN)
        if written is not None:
            yield node, written


def rename_words(node: exp.Expr, names: Mapping[str, str]) -> None:
    """Put other words in the place of names, in the words that are kept beside a node."""
    written = node.meta.get(_OWN)
    if written is not None:
        words = _Words(written, Dialect.get_or_raise("duckdb").tokenize(written))
        words.texts = [names.get(text, text) for text in words.texts]
        node.meta[_OWN] = words.joined(0, len(words.texts))


def _place_of(node: exp.Expr) -> tuple[int, int] | None:
    """The first and the last character of a node."""
    if isinstance(node, exp.Column):
        parts = [part.meta for part in node.parts]
        if any("start" not in part for part in parts):
            return None
        return min(part["start"] for part in parts), max(part["end"] for part in parts)
    span = node.meta.get(_SPAN)
    if span is not None:
        return span.start, span.end
    if isinstance(node, exp.Binary):
        ends = _place_of(node.this), _place_of(node.expression)
        return None if ends[0] is None or ends[1] is None else (ends[0][0], ends[1][1])
    return None
