"""`Native`: what a column is in a warehouse, as far as counting goes; and the columns themselves, as SQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlglot import exp

WHOLE: Final = "whole"
DECIMAL: Final = "decimal"
FLOAT: Final = "float"
TEXT: Final = "text"
TRUTH: Final = "truth"
DATE: Final = "date"
TIME: Final = "time"
TIMESTAMP: Final = "timestamp"
INSTANT: Final = "instant"
"""A timestamp with time zone."""
UNKNOWN: Final = "unknown"
"""Of a type whose values are not compared here: a column of it has no domain."""
UNKNOWN_IN_DUCKDB: Final = "BLOB"


@dataclass(frozen=True)
class Native:
    """A column's type.

    Attributes:
        kind: one of the constants above.
        in_duckdb: the DuckDB type that holds its values, as text.
        wide: of a decimal, whether it has more digits than the warehouse's usual type of decimals.
    """

    kind: str
    in_duckdb: str
    wide: bool = False


NO_DOMAIN: Final = Native(UNKNOWN, UNKNOWN_IN_DUCKDB)


def column_of(name: str) -> exp.Column:
    """A column from its name, as it is stored."""
    return exp.column(exp.to_identifier(name, quoted=True))


def decimal(precision: int, scale: int, *, wide: bool = False) -> Native:
    """A number with so many digits, so many of them after the point; a whole one has DuckDB's type of whole numbers.

    >>> decimal(5, 0).in_duckdb, decimal(38, 0).in_duckdb, decimal(9, 2).in_duckdb
    ('INTEGER', 'BIGINT', 'DECIMAL(9,2)')
    """
    if not 0 <= scale <= precision <= 38:
        return NO_DOMAIN
    if scale:
        return Native(DECIMAL, f"DECIMAL({precision},{scale})", wide)
    return Native(WHOLE, "INTEGER" if precision <= 9 else "BIGINT")
