"""Constants as SQL, of the texts in which DuckDB writes values."""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from dpsql.engines.warehouse import types
from dpsql.engines.warehouse.types import Native

_TIMES: Final = (types.DATE, types.TIMESTAMP, types.INSTANT)
_PLAIN: Final = re.compile(r"\d{4}-")


def is_plain_time(text: str, native: Native) -> bool:
    """Whether a date or timestamp is one of the years 1 to 9999, which every warehouse has; true of other kinds.

    >>> is_plain_time("infinity", Native("date", "DATE"))
    False
    """
    return native.kind not in _TIMES or (_PLAIN.match(text) is not None and not text.endswith(")"))


def typed(text: str, kind: str, dialect: str) -> exp.Expr:
    """A constant that is read while the statement is planned.

    >>> typed("2024-02-29", "DATE", "bigquery").sql(dialect="bigquery")
    "CAST('2024-02-29' AS DATE)"
    """
    return exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build(kind, dialect=dialect))


def literal(text: str, native: Native) -> exp.Expr:
    """A number, a truth value or a text as it stands."""
    if native.kind == types.TRUTH:
        return exp.true() if text == "true" else exp.false()
    if native.kind == types.TEXT:
        return exp.Literal.string(text)
    number = exp.Literal.number(text.removeprefix("-"))
    return exp.Paren(this=exp.Neg(this=number)) if text.startswith("-") else number


def whole(number: int) -> exp.Expr:
    """A whole number.

    >>> whole(-7).sql()
    '(-7)'
    """
    return literal(str(number), Native(types.WHOLE, "BIGINT"))
