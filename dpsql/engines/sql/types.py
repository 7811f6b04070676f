"""`Native`: what a column is in a database, as far as counting goes; and columns and constants as SQL."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from sqlglot import exp

WHOLE: Final = "whole"
DECIMAL: Final = "decimal"
FLOAT: Final = "float"
NUMBER: Final = "number"
"""A decimal number of any number of digits."""
TEXT: Final = "text"
MEMBER: Final = "member"
"""Of an ENUM."""
TRUTH: Final = "truth"
DATE: Final = "date"
TIME: Final = "time"
TIMESTAMP: Final = "timestamp"
INSTANT: Final = "instant"
"""A timestamp with time zone."""
IDENTIFIER: Final = "identifier"
UNKNOWN: Final = "unknown"
"""Of a type whose values are not compared here: a column of it has no domain."""
UNKNOWN_IN_DUCKDB: Final = "BLOB"


@dataclass(frozen=True)
class Native:
    """A column's type.

    Attributes:
        kind: one of the constants above.
        in_duckdb: the DuckDB type that holds its values, as text.
        name: of the type in the database, where the kind alone does not say how a constant of it is written.
        members: of an ENUM, in their order.
    """

    kind: str
    in_duckdb: str
    name: str = ""
    members: tuple[str, ...] = ()


NO_DOMAIN: Final = Native(UNKNOWN, UNKNOWN_IN_DUCKDB)


def column_of(name: str) -> exp.Column:
    """A column from its name, as it is stored."""
    return exp.column(exp.to_identifier(name, quoted=True))


def decimal(precision: int, scale: int, name: str = "") -> Native:
    """A number with so many digits, so many of them after the point; a whole one has DuckDB's type of whole numbers.

    >>> decimal(5, 0).in_duckdb, decimal(38, 0).in_duckdb, decimal(9, 2).in_duckdb
    ('INTEGER', 'BIGINT', 'DECIMAL(9,2)')
    """
    if not 0 <= scale <= precision <= 38:
        return NO_DOMAIN
    if scale:
        return Native(DECIMAL, f"DECIMAL({precision},{scale})", name)
    return Native(WHOLE, "INTEGER" if precision <= 9 else "BIGINT")


def typed(text: str, kind: str, dialect: str) -> exp.Expr:
    """A constant that is read while the statement is planned.

    >>> typed("2024-02-29", "DATE", "bigquery").sql(dialect="bigquery")
    "CAST('2024-02-29' AS DATE)"
    """
    return exp.Cast(this=exp.Literal.string(text), to=_type_of(kind, dialect).copy())


@cache
def _type_of(kind: str, dialect: str) -> exp.DataType:
    """A type, which takes longer to read than to copy."""
    return exp.DataType.build(kind, dialect=dialect)


def literal(text: str, native: Native) -> exp.Expr:
    """A number, a truth value or a text as it stands.

    >>> literal("-7", Native(WHOLE, "BIGINT")).sql()
    '(-7)'
    """
    if native.kind == TRUTH:
        return exp.true() if text == "true" else exp.false()
    if native.kind in (TEXT, MEMBER):
        return exp.Literal.string(text)
    number = exp.Literal.number(text.removeprefix("-"))
    return exp.Paren(this=exp.Neg(this=number)) if text.startswith("-") else number
