"""Expressions as text, to tell them apart, and what is in them."""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.errors import ErrorLevel

from dpsql.core.names import quote


def sql_of(tree: exp.Expr) -> str:
    """An expression as DuckDB's SQL; a quoted column, as most are, without the copy that is made for a generator."""
    name = tree.this
    plain = isinstance(tree, exp.Column) and isinstance(name, exp.Identifier) and name.quoted and not tree.comments
    if plain and not any(value for part, value in tree.args.items() if part != "this"):
        return quote(name.name)
    return tree.sql(dialect="duckdb", unsupported_level=ErrorLevel.IGNORE)  # `sandbox.check_expressions` refuses it


def structure(tree: exp.Expr) -> str:
    """A text that tells expressions apart: their nodes in brackets. Long chains are deep: `repr` would indent them.

    >>> import sqlglot
    >>> structure(sqlglot.parse_one("a + 1"))
    "Add(this=Column(this=Identifier(this='a', quoted=False, ), ), expression=Literal(this='1', is_string=False, ), )"
    """
    parts: list[str] = []
    left: list[tuple[bool, Any]] = [(False, tree)]
    while left:
        is_text, item = left.pop()
        if is_text:
            parts.append(item)
        elif isinstance(item, exp.Expr):
            parts.append(f"{type(item).__name__}(")
            left.append((True, ")"))
            for name, value in reversed(item.args.items()):
                if value is not None and value != []:
                    left += [(True, ", "), (False, value), (True, f"{name}=")]
        elif isinstance(item, list):
            parts.append("[")
            left.append((True, "]"))
            for value in reversed(item):
                left += [(True, ", "), (False, value)]
        else:
            parts.append(repr(item))
    return "".join(parts)


def comparable(tree: exp.Expr) -> str:
    """The text of an expression without its parentheses, to compare the trees: each node in brackets of its own."""
    tree = unwrapped(tree)
    if isinstance(tree, exp.Column):
        return sql_of(tree)
    return structure(tree if tree.find(exp.Paren) is None else tree.transform(lambda node: unwrapped(node)))


def unwrapped(node: exp.Expr) -> exp.Expr:
    """An expression without the parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def conjuncts_of(tree: exp.Expr | None) -> list[exp.Expr]:
    """The parts of a condition that all must hold, as they were written."""
    parts, waiting = [], [] if tree is None else [tree]
    while waiting:
        node = unwrapped(waiting.pop())
        if isinstance(node, exp.And):
            waiting += [node.expression, node.this]
        else:
            parts.append(node)
    return parts


def enclosed(tree: exp.Expr) -> exp.Expr:
    """A copy of an expression that can stand in any other: in parentheses if need be."""
    simple = isinstance(tree, exp.Column | exp.Literal | exp.Paren | exp.Null | exp.Boolean | exp.Anonymous)
    return tree.copy() if simple else exp.Paren(this=tree.copy())


def columns_read(tree: exp.Expr) -> set[str]:
    """The names of the origin's columns in an expression: those of dimensions are qualified, they are not."""
    return {column.name for column in tree.find_all(exp.Column) if not column.table}


def has_aggregate(tree: exp.Expr) -> bool:
    """Whether an aggregate is in it."""
    return not isinstance(tree, exp.Column) and tree.find(exp.AggFunc, exp.Filter) is not None


def holds_values(node: exp.Expr) -> bool:
    """Whether a child of an expression is an expression with a value, not a type or a unit."""
    return not isinstance(node, exp.DataType | exp.Identifier | exp.Var | exp.IntervalSpan)


def spelled(node: exp.Expr) -> exp.Expr:
    """DuckDB's other names of aggregates."""
    if isinstance(node, exp.Anonymous) and node.name.lower() == "mean" and len(node.expressions) == 1:
        return exp.Avg(this=node.expressions[0])
    if isinstance(node, exp.Anonymous) and node.name.lower() == "count_star" and not node.expressions:
        return exp.Count(this=exp.Star())  # as the definition of a view has it
    return node
