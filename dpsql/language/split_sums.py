"""A sum of a sum as several: `sum(a + b)` is `sum(a) + sum(b)` of the rows where neither is NULL.

For columns whose bins hold several values it is what can be answered: each sum adds rows' own values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from sqlglot import exp

from dpsql.language.arithmetic import is_answer
from dpsql.language.expressions import columns_read, unwrapped
from dpsql.language.query import Aggregate, Query
from dpsql.language.windows import first_answer
from dpsql.language.written import rename_words


def split_sums(query: Query) -> Query | None:
    """The same query with its sums of sums split; None where it has none."""
    aggregates: dict[Aggregate, int] = {}
    made: list[exp.Expr] = []
    for aggregate in query.aggregates:
        parts = _parts(aggregate)
        answers = [exp.column(f"a{aggregates.setdefault(part, len(aggregates))}") for _, part in parts]
        signed = [exp.Neg(this=a) if sign < 0 else a for (sign, _), a in zip(parts, answers, strict=True)]
        total: exp.Expr = signed[0]
        for other in signed[1:]:
            total = exp.Add(this=total, expression=other)
        made.append(exp.Paren(this=total) if len(parts) > 1 else total)
    if not any(isinstance(tree, exp.Paren) for tree in made):
        return None
    outputs = tuple(_with_answers(tree, made) for tree in query.outputs)
    windows = tuple(cast(exp.Window, _with_answers(tree, made)) for tree in query.windows)
    noisy = tuple(first_answer(tree, windows) for tree in outputs)
    return replace(
        query,
        aggregates=tuple(aggregates),
        outputs=outputs,
        noisy=noisy,
        having=None if query.having is None else _with_answers(query.having, made),
        order=tuple(cast(exp.Ordered, _with_answers(tree, made)) for tree in query.order),
        windows=windows,
        qualify=None if query.qualify is None else _with_answers(query.qualify, made),
    )


def _parts(aggregate: Aggregate) -> list[tuple[int, Aggregate]]:
    """The signed aggregates that one is the sum of: itself, if it is of no sum of several columns.

    An average is a sum over a count, and a ratio of a sum a sum of ratios.
    """
    if aggregate.kind == "ratio":
        over, under = aggregate.sides
        return [(sign, replace(aggregate, sides=(part, under))) for sign, part in _parts(over)]
    is_sum = aggregate.kind in ("sum", "avg") and aggregate.argument is not None
    terms = list(_terms(cast(exp.Expr, aggregate.argument))) if is_sum else []
    if len(terms) < 2 or not all(columns_read(tree) for _, tree in terms):
        return [(1, aggregate)]
    if aggregate.kind == "avg":
        every = tuple(
            exp.Not(this=exp.Is(this=exp.Paren(this=tree.copy()), expression=exp.null())) for _, tree in terms
        )
        count = Aggregate("count", None, (*aggregate.filters, *every))
        parts = _parts(replace(aggregate, kind="sum"))
        return [(sign, Aggregate("ratio", None, (), sides=(part, count))) for sign, part in parts]
    parts = []
    for sign, term in terms:
        others = (exp.Paren(this=tree.copy()) for _, tree in terms if tree is not term)
        there = tuple(exp.Not(this=exp.Is(this=tree, expression=exp.null())) for tree in others)
        parts.append((sign, replace(aggregate, argument=term, filters=(*aggregate.filters, *there))))
    return parts


def _terms(tree: exp.Expr, sign: int = 1) -> Iterator[tuple[int, exp.Expr]]:
    inside = unwrapped(tree)
    if isinstance(inside, exp.Add | exp.Sub):
        yield from _terms(inside.this, sign)
        yield from _terms(inside.expression, -sign if isinstance(inside, exp.Sub) else sign)
    else:
        yield sign, tree


def _with_answers(tree: exp.Expr, made: list[exp.Expr]) -> exp.Expr:
    """An expression over answers, with others in their places."""

    def replaced(node: exp.Expr) -> exp.Expr:
        rename_words(node, {f"a{number}": by.sql(dialect="duckdb") for number, by in enumerate(made)})
        return made[int(node.name[1:])].copy() if is_answer(node) else node

    return tree.transform(replaced)
