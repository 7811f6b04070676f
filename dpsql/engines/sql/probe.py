"""Whether a warehouse reads constants, and gives them codes, as DuckDB does: asked when a domain is declared.

    SELECT i, code(x) AS n, x FROM (SELECT 0 AS i, constant_0 AS x UNION ALL SELECT 1, constant_1 …)

The constants are the declared ones, their neighbours, and what warehouses differ in: NaN, infinity, blanks and cases of
letters. No row is read. A warehouse with another order of texts, another NaN or another reading of a date is found out
before anything is charged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlglot import exp

from dpsql.core.domain import Attribute
from dpsql.engines.checked import WrongCounts
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.duckdb.dialect import encode as encode_in_duckdb
from dpsql.engines.duckdb.ticks import canonical, canonical_each
from dpsql.engines.duckdb.types import constant_of
from dpsql.engines.sql import types
from dpsql.engines.sql.codes import encode
from dpsql.engines.sql.dialect import Dialect
from dpsql.engines.sql.failures import OtherOrder
from dpsql.engines.sql.session import Session
from dpsql.engines.sql.types import Native, column_of
from dpsql.errors import InvalidArgument

_MOST: Final = 400
"""Constants that are tried."""
_FLOATS: Final = ("nan", "inf", "-inf", "0.0", "-0.0", "1e+300")


def check_codes(session: Session, dialect: Dialect, native: Native, attribute: Attribute, host: Cursor) -> None:
    """Compare the constants themselves, and their codes.

    Raises:
        OtherOrder: one differs; says which.
    """
    tried = _readable(host, [text for text in _tried(attribute, native) if dialect.can_be(text, native)], attribute)
    there = [dialect.constant(text, native) for text in tried]
    here = [constant_of(text, attribute.type) for text in tried]
    answer = session.count(_codes(attribute, there, encode(attribute, native, dialect)))
    query = _codes(attribute, here, encode_in_duckdb(attribute)).sql(dialect="duckdb")
    expected = {number: code for number, code, _ in host.execute(query).fetchall()}
    try:
        rows = zip(*(answer[name].to_pylist() for name in _named(attribute)), strict=True)
        codes_there = {int(number): (code, value) for number, code, value in rows}
    except (KeyError, TypeError, ValueError):
        raise WrongCounts from None
    for number, text in enumerate([*tried, None]):
        code, value = codes_there.get(number, (-1, text))
        if (None if code is None else int(code)) != expected[number] or not _same(host, value, text, attribute):
            raise OtherOrder(
                f"{dialect.label} puts {'NULL' if text is None else repr(text)} of {attribute.name!r} elsewhere than "
                "DuckDB does, so the domain would not mean what it says: declare other values or bins, or leave the "
                "column out with exclude := true"
            )


def _codes(attribute: Attribute, constants: list[exp.Expr], code: exp.Expr) -> exp.Select:
    number_of, code_of, name = _named(attribute)
    rows = [
        exp.select(exp.alias_(exp.Literal.number(number), number_of, quoted=True), exp.alias_(value, name, quoted=True))
        for number, value in enumerate([*constants, exp.null()])
    ]
    union: exp.Expr = rows[0]
    for row in rows[1:]:
        union = exp.Union(this=union, expression=row, distinct=False)
    together = exp.Subquery(this=union, alias=exp.TableAlias(this=exp.to_identifier("constants")))
    return exp.select(column_of(number_of), exp.alias_(code, code_of, quoted=True), column_of(name)).from_(together)


def _named(attribute: Attribute) -> tuple[str, str, str]:
    """The columns of what `_codes` asks for: a number, a code, the constant."""
    return f"{attribute.name}_i", f"{attribute.name}_n", attribute.name


def _same(host: Cursor, value: Any, text: str | None, attribute: Attribute) -> bool:
    """Whether a value of the warehouse is the one that DuckDB writes so."""
    if value is None or text is None:
        return value is text
    if isinstance(value, str):
        return value == text
    try:
        here, there = canonical(host, [text, str(value)], attribute.type, "a value")
    except InvalidArgument:
        return False
    return here == there or {here, there} == {"0.0", "-0.0"}


def _readable(host: Cursor, texts: Sequence[str], attribute: Attribute) -> list[str]:
    """Those that are values of the type, as DuckDB writes them, each once."""
    canonical_texts = canonical_each(
        host, texts[:_MOST], attribute.type
    )  # a neighbour may be beyond the ends of the type
    return list(dict.fromkeys(text for text in canonical_texts if text is not None))


def _tried(attribute: Attribute, native: Native) -> Iterator[str]:
    """Texts of constants, the likeliest to differ first."""
    if native.kind == types.FLOAT:
        yield from _FLOATS
    listed = attribute.values if attribute.kind == "values" else attribute.edges
    yield from attribute.nulls_as
    step = max(1, len(listed) // (_MOST // 4))
    for text in dict.fromkeys((*listed[::step], listed[-1])) if listed else ():
        yield text
        if native.kind == types.TEXT:
            yield from (f"{text} ", text.upper(), text.lower(), f"{text}\u0308")
        elif native.kind == types.FLOAT:
            yield from (repr(math.nextafter(float(text), way)) for way in (-math.inf, math.inf))
        elif native.kind in (types.WHOLE, types.DECIMAL) and "." not in text:
            yield from (str(int(text) - 1), str(int(text) + 1))
