"""Whether a warehouse gives constants the codes that DuckDB gives them: asked when a domain is declared.

    SELECT i, code(x) AS n FROM (SELECT 0 AS i, constant_0 AS x UNION ALL SELECT 1, constant_1 …)

The constants are the declared ones, their neighbours, and what warehouses differ in: NaN, infinity, blanks and cases of
letters. No row is read. A warehouse with another order of texts, another NaN or another reading of a date is found out
before anything is charged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlglot import exp

from dpsql.core.domain import Attribute
from dpsql.engines.checked import WrongCounts
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.duckdb.encode import encode as encode_in_duckdb
from dpsql.engines.duckdb.types import constant_of
from dpsql.engines.warehouse import types
from dpsql.engines.warehouse.encode import encode
from dpsql.engines.warehouse.failures import OtherOrder
from dpsql.engines.warehouse.session import Session
from dpsql.engines.warehouse.statements import Relation
from dpsql.engines.warehouse.types import Native, column_of

_MOST: Final = 400
"""Constants that are tried."""
_FLOATS: Final = ("nan", "inf", "-inf", "0.0", "-0.0", "1e300")


def check_codes(session: Session, relation: Relation, attribute: Attribute, host: Cursor) -> None:
    """Compare the codes of constants.

    Raises:
        OtherOrder: one differs; says which.
    """
    native, dialect = relation.natives[attribute.name], relation.dialect
    tried = [text for text in _tried(attribute, native) if dialect.can_be(text, native)][:_MOST]
    there = [dialect.constant(text, native) for text in tried]
    here = [constant_of(text, attribute.type) for text in tried]
    found = session.count(_codes(attribute, there, encode(attribute, native, dialect)))
    asked = _codes(attribute, here, encode_in_duckdb(attribute)).sql(dialect="duckdb")
    expected = dict(host.execute(asked).fetchall())
    try:
        codes = dict(zip(map(int, found["i"].to_pylist()), found["n"].to_pylist(), strict=True))
    except (KeyError, TypeError, ValueError):
        raise WrongCounts from None
    for number, text in enumerate([*tried, "NULL"]):
        code = codes.get(number)
        if number not in codes or (None if code is None else int(code)) != expected[number]:
            raise OtherOrder(
                f"{dialect.label} puts {text!r} of {attribute.name!r} elsewhere than DuckDB does, so the domain would "
                "not mean what it says: declare other values or bins, or leave the column out with exclude := true"
            )


def _codes(attribute: Attribute, constants: list[exp.Expr], code: exp.Expr) -> exp.Select:
    rows = [
        exp.select(
            exp.alias_(exp.Literal.number(number), "i", quoted=True), exp.alias_(value, attribute.name, quoted=True)
        )
        for number, value in enumerate([*constants, exp.null()])
    ]
    union: exp.Expr = rows[0]
    for row in rows[1:]:
        union = exp.Union(this=union, expression=row, distinct=False)
    together = exp.Subquery(this=union, alias=exp.TableAlias(this=exp.to_identifier("constants")))
    return exp.select(column_of("i"), exp.alias_(code, "n", quoted=True)).from_(together)


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
        elif native.kind in (types.WHOLE, types.DECIMAL) and "." not in text:
            yield from (str(int(text) - 1), str(int(text) + 1))
