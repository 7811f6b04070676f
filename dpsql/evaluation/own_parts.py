"""What the user wrote of an expression: all but the look-ups of joined tables, which are ours."""

from __future__ import annotations

from sqlglot import exp

from dpsql.engines.duckdb.types import data_type
from dpsql.language.expressions import conjuncts_of
from dpsql.language.members import asked_of
from dpsql.language.refusal import is_members


def without_lookups(tree: exp.Expr) -> exp.Expr:
    """An expression where values of joined tables, which are ours, are NULLs of their types."""

    def without_lookup(node: exp.Expr) -> exp.Expr:
        if is_members(node):
            return exp.true()
        if isinstance(node, exp.In) and node.args.get("query") is not None and is_members(node.args["query"]):
            return exp.In(this=without_lookups(node.this), expressions=[exp.null()])
        kind = node.meta.get("dpsql_type") if isinstance(node, exp.Subquery) else None
        return node if kind is None else exp.cast(exp.null(), data_type(kind))

    return tree.transform(without_lookup)


def own_parts(tree: exp.Expr) -> list[exp.Expr]:
    """All that is a user's of an expression: itself without look-ups, and the keys of those."""
    lookups = [node for node in tree.find_all(exp.Subquery) if node.meta.get("dpsql_type") is not None]
    keys = [equal.expression for lookup in lookups for equal in lookup.find_all(exp.EQ)]
    inner_parts = [part for query in asked_of(tree) for part in parts_of(query)]
    return [without_lookups(part) for part in (tree, *keys, *inner_parts)]


def parts_of(query: exp.Select) -> list[exp.Expr]:
    """The expressions of a query of a public table."""
    return [*query.expressions, *conjuncts_of(query.args["where"].this if query.args.get("where") else None)]
