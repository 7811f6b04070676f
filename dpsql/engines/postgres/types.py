"""Types of Postgres: what each is in DuckDB, and constants of it in Postgres' SQL.

A constant is a text with a type, CAST('17' AS SMALLINT): Postgres reads it while it plans, before any row. A column is
never cast. Of texts the bytes are compared, by COLLATE "C", because a collation may call others equal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

_WHOLE: Final = {"int2": "SMALLINT", "int4": "INTEGER", "int8": "BIGINT"}
_FLOATS: Final = {"float4": "REAL", "float8": "DOUBLE PRECISION"}
_ALIKE: Final = {name: name.upper() for name in "date time timestamp uuid".split()}  # noqa: SIM905 - one is a sampler's
_OTHERS: Final = {"bool": "BOOLEAN", "numeric": "NUMERIC", "timestamptz": "TIMESTAMPTZ", **_ALIKE}
_CONSTANTS: Final = {**_WHOLE, **_FLOATS, **_OTHERS}
_TEXTS: Final = ("text", "varchar", "bpchar", "name")
_IN_DUCKDB: Final = {
    **_WHOLE,
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "bool": "BOOLEAN",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
    **_ALIKE,
    **dict.fromkeys(_TEXTS, "VARCHAR"),
}
UNKNOWN: Final = "BLOB"
"""In which type a column comes out whose type has no domain here."""
_MOST_DIGITS: Final = 38
_BC: Final = re.compile(r"^(.*) \(BC\)(.*)$")
_NUMBERS: Final = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


@dataclass(frozen=True)
class Native:
    """A column's type as Postgres has it, without the domains (CREATE DOMAIN) over it.

    Attributes:
        name: in pg_type, such as int4; of an ENUM `enum`.
        modifier: atttypmod, which holds the digits of a numeric; -1 without one.
        members: of an ENUM, in their order.
    """

    name: str
    modifier: int = -1
    members: tuple[str, ...] = ()

    @property
    def in_duckdb(self) -> str:
        """The DuckDB type that holds its values, as text.

        >>> Native("numeric", ((9 << 16) | 2) + 4).in_duckdb, Native("numeric").in_duckdb
        ('DECIMAL(9,2)', 'DOUBLE')
        """
        if self.name == "enum":
            members = (exp.Literal.string(member).sql(dialect="duckdb") for member in self.members)
            return f"ENUM({', '.join(members)})"
        if self.name == "numeric":
            digits = self.digits
            return "DOUBLE" if digits is None else f"DECIMAL({digits[0]},{digits[1]})"
        return _IN_DUCKDB.get(self.name, UNKNOWN)

    @property
    def digits(self) -> tuple[int, int] | None:
        """Of a numeric, its digits and those after the point; None where DuckDB has no such type."""
        if self.name != "numeric" or self.modifier < 4:
            return None
        packed = self.modifier - 4
        precision, scale = packed >> 16, packed & 0x7FF
        return (precision, scale) if 0 <= scale <= precision <= _MOST_DIGITS else None

    @property
    def is_known(self) -> bool:
        """Whether a column of it can have a domain."""
        return self.name == "enum" or self.name in _IN_DUCKDB or self.name == "numeric"

    @property
    def is_text(self) -> bool:
        """Whether values are texts, which are compared by their bytes."""
        return self.name in _TEXTS

    @property
    def is_float(self) -> bool:
        """Whether values are binary floats, which have a zero of each sign."""
        return self.name in _FLOATS

    @property
    def may_be_tiny(self) -> bool:
        """Whether a number may be so near to 0 that arithmetic with it fails in Postgres, which reports underflow."""
        return self.is_float or (self.name == "numeric" and self.digits is None)

    def can_be(self, text: str) -> bool:
        """Whether Postgres can read a text as a value: no text there has a NUL, and an ENUM its members only."""
        return "\x00" not in text and (self.name != "enum" or text in self.members)


def column_of(name: str) -> exp.Column:
    """A column from its name, as it is stored."""
    return exp.column(exp.to_identifier(name, quoted=True))


def value_of(name: str, native: Native) -> exp.Expr:
    """A column to compare with constants: of texts the bytes decide."""
    column = column_of(name)
    return exp.Collate(this=column, expression=exp.Identifier(this="C", quoted=True)) if native.is_text else column


def constant(text: str, native: Native) -> exp.Expr:
    """A constant of a type, from the text of the DuckDB value.

    >>> constant("inf", Native("float8")).sql(dialect="postgres")
    "CAST('Infinity' AS DOUBLE PRECISION)"
    """
    if native.name not in _CONSTANTS:  # of texts and ENUMs, which take the type of the column beside them
        return exp.Literal.string(text)
    return exp.Cast(this=exp.Literal.string(_spelled(text, native)), to=_kind(_CONSTANTS[native.name]))


def array(texts: Iterable[str], native: Native) -> exp.Expr:
    """An array of constants that are no texts."""
    listed = ",".join(f'"{_spelled(text, native)}"' for text in texts)
    return exp.Cast(this=exp.Literal.string(f"{{{listed}}}"), to=_kind(f"{_CONSTANTS[native.name]}[]"))


def whole(number: int) -> exp.Expr:
    """A constant of 64 bits, so that what is computed with it has as many.

    >>> whole(7).sql(dialect="postgres")
    "CAST('7' AS BIGINT)"
    """
    return exp.Cast(this=exp.Literal.string(str(number)), to=_kind("BIGINT"))


def double(number: float) -> exp.Expr:
    """A constant in double precision."""
    return exp.Cast(this=exp.Literal.string(repr(number)), to=_kind("DOUBLE PRECISION"))


def _kind(name: str) -> exp.DataType:
    return exp.DataType.build(name, dialect="postgres")


def _spelled(text: str, native: Native) -> str:
    """A value as Postgres reads it."""
    if native.is_float or native.name == "numeric":
        return _NUMBERS.get(text, text)
    before_christ = _BC.match(text)
    return f"{before_christ[1]}{before_christ[2]} BC" if before_christ else text
