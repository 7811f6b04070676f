"""DuckDB's types from their texts, and columns and constants of a type in SQL."""

from __future__ import annotations

from functools import lru_cache

from sqlglot import exp
from sqlglot.errors import SqlglotError

from dpsql.core.column_types import TEXT, column_type
from dpsql.errors import InvalidArgument


@lru_cache(maxsize=1024)
def _parsed_type(name: str) -> exp.DataType:
    try:
        return exp.DataType.build(name, dialect="duckdb")
    except SqlglotError:
        raise InvalidArgument(f"values of type {name} are not supported: cast them to another type") from None


def data_type(name: str) -> exp.DataType:
    """A DuckDB type from its text."""
    return _parsed_type(name).copy()


def constant_of(text: str, type_name: str) -> exp.Expr:
    """A constant of a type, from its text."""
    return exp.Cast(this=exp.Literal.string(text), to=data_type(type_name))  # a builder would copy the type again


def column_of(name: str) -> exp.Column:
    """A column from its name."""
    return exp.column(exp.to_identifier(name, quoted=True))


def text_of(expression: exp.Expr) -> exp.Expr:
    """An expression as DuckDB writes its value."""
    return exp.cast(expression, "VARCHAR", dialect="duckdb")


def equal_text(value: exp.Expr, type_name: str) -> exp.Expr:
    """A text of a value that equal values of its type share, where the type has one; else the value's own text."""
    return filled(column_type(type_name).equal_text or TEXT, x=value)


@lru_cache(maxsize=256)
def _parsed(template: str) -> exp.Expr:
    return exp.maybe_parse(template, dialect="duckdb")


def filled(template: str, **values: exp.Expr) -> exp.Expr:
    """The SQL of a `ColumnType` with its placeholders replaced: x, y and t.

    >>> filled("x - t", x=column_of("age"), t=exp.Literal.number(18)).sql(dialect="duckdb")
    '"age" - 18'
    """
    return _parsed(template).transform(  # which copies it
        lambda node: values[node.name].copy() if isinstance(node, exp.Column) and node.name in values else node
    )
