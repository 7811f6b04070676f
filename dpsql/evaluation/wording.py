"""Whether expressions mean what people wrote: both texts are evaluated on the same values, and compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import sqlglot
from sqlglot import TokenType, exp

from dpsql.core.names import shorten
from dpsql.errors import InvalidQuery
from dpsql.evaluation.workers import Empty
from dpsql.language.expressions import sql_of
from dpsql.language.refusal import is_members
from dpsql.language.written import kept_words

_AS_WRITTEN: Final = (TokenType.STRING, TokenType.IDENTIFIER)


def different_words(trees: Iterable[exp.Expr]) -> list[tuple[exp.Expr, str]]:
    """The parts of expressions that are written out in other words than people wrote, each with those."""
    pairs = {(sql_of(node), words): (node, words) for tree in trees for node, words in kept_words(tree, is_members)}
    return [pair for (text, words), pair in pairs.items() if _tokens(text) != _tokens(words)]


def _tokens(text: str) -> list[str]:
    """What tells texts apart for DuckDB: not the case of words, nor spaces."""
    tokens = sqlglot.tokenize(text, read="duckdb")
    return [f"{t.token_type}{t.text}" if t.token_type in _AS_WRITTEN else t.text.lower() for t in tokens]


def check_written(empty: Empty, written: Sequence[tuple[exp.Expr, str]], rows: exp.Expr) -> None:
    """Refuse expressions that are something else than in the words that people wrote.

    Args:
        empty: a database that holds nothing private.
        written: expressions and words.
        rows: public values of all columns that they read.

    Raises:
        InvalidQuery: with the words that mean something else.
        duckdb.Error: DuckDB does not take the words, or the expression.
    """
    if not written:
        return
    same = []
    for tree, words in written:
        ours, theirs = exp.Paren(this=tree.copy()), exp.Paren(this=exp.Var(this=words))
        alike = exp.NullSafeEQ(this=ours, expression=theirs)
        kinds = [exp.Anonymous(this="typeof", expressions=[side.copy()]) for side in (ours, theirs)]
        both = exp.And(this=exp.Paren(this=alike), expression=exp.EQ(this=kinds[0], expression=kinds[1]))
        same.append(exp.Anonymous(this="bool_and", expressions=[both]))
    (truths,) = empty.execute(sql_of(exp.select(*same).from_(rows))).fetchall()
    for (_, words), is_same in zip(written, truths, strict=True):
        if is_same is False:
            raise InvalidQuery(
                f"query: {shorten(words)} would be evaluated as something else than DuckDB takes it for: say it more "
                "plainly"
            )
