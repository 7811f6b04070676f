"""Postgres' types and constants; see `dpsql.engines.sql.dialect`.

A constant is a text with a type, CAST('17' AS SMALLINT): Postgres reads it while it plans, before any row. A column is
never cast. Of texts the bytes are compared, by COLLATE "C", because a collation may call others equal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, Final

from sqlglot import exp

from dpsql.core.domain import Attribute
from dpsql.core.formula import Formula
from dpsql.core.spacing import spacing_of
from dpsql.engines.postgres.formulas import clamped, number_of, rounded
from dpsql.engines.sql import types
from dpsql.engines.sql.database import Reached
from dpsql.engines.sql.dialect import NUMBERS, READ_AS
from dpsql.engines.sql.types import NO_DOMAIN, Native, column_of, typed

_KINDS: Final[Mapping[str, Native]] = {
    "int2": Native(types.WHOLE, "SMALLINT", "SMALLINT"),
    "int4": Native(types.WHOLE, "INTEGER", "INTEGER"),
    "int8": Native(types.WHOLE, "BIGINT", "BIGINT"),
    "float4": Native(types.FLOAT, "FLOAT", "REAL"),
    "float8": Native(types.FLOAT, "DOUBLE", "DOUBLE PRECISION"),
    "numeric": Native(types.NUMBER, "DOUBLE", "NUMERIC"),
    "bool": Native(types.TRUTH, "BOOLEAN", "BOOLEAN"),
    "timestamptz": Native(types.INSTANT, "TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ"),
    **{
        name: Native(kind, name.upper(), name.upper())
        for kind, name in zip(
            (types.DATE, types.TIME, types.TIMESTAMP, types.IDENTIFIER),
            "date time timestamp uuid".split(),  # noqa: SIM905 - one is a sampler's
            strict=True,
        )
    },
    **{name: Native(types.TEXT, "VARCHAR", name) for name in ("text", "varchar", "bpchar", "name")},
}
_BC: Final = re.compile(r"^(.*) \(BC\)(.*)$")


def native_of(name: str, modifier: int = -1, members: Sequence[str] = ()) -> Native:
    """What a type of Postgres is, without the domains (CREATE DOMAIN) over it.

    Args:
        name: in pg_type, such as int4; of an ENUM `enum`.
        modifier: atttypmod, which holds the digits of a numeric; -1 without one.
        members: of an ENUM, in their order.

    >>> native_of("numeric", ((9 << 16) | 2) + 4).in_duckdb, native_of("numeric").in_duckdb
    ('DECIMAL(9,2)', 'DOUBLE')
    """
    if name == "enum":
        listed = (exp.Literal.string(member).sql(dialect="duckdb") for member in members)
        return Native(types.MEMBER, f"ENUM({', '.join(listed)})", members=tuple(members))
    packed = modifier - 4
    if name == "numeric" and packed >= 0 and (packed & 0x7FF) <= (packed >> 16) <= 38:  # else DuckDB has no such type
        return Native(types.DECIMAL, f"DECIMAL({packed >> 16},{packed & 0x7FF})", "NUMERIC")
    return _KINDS.get(name, NO_DOMAIN)


class Postgres(Reached):
    """See `Dialect`."""

    name: ClassVar[str] = "postgres"
    label: ClassVar[str] = "Postgres"
    sqlglot: ClassVar[str] = "postgres"
    driver: ClassVar[str] = "adbc_driver_postgresql"
    unless: ClassVar[str] = "the server runs and that psql connects with the same words"
    long: ClassVar[Native] = _KINDS["int8"]
    cannot: ClassVar[Mapping[str, str]] = {"read_as": READ_AS}
    settings: ClassVar[Sequence[str]] = (
        "SET client_min_messages = 'error'",  # libpq prints notices
        "SET search_path = 'pg_catalog'",
        "SET row_security = 'off'",  # refuse what a policy would hide
        "SET standard_conforming_strings = 'on'",
        "SET timezone = 'UTC'",
        "SET datestyle = 'ISO, YMD'",
        "SET intervalstyle = 'postgres'",
        "SET extra_float_digits = '1'",
        "SET transform_null_equals = 'off'",
        "SET idle_in_transaction_session_timeout = '0'",  # a mechanism thinks between its questions
        "SET jit = 'off'",  # compiling a search tree takes longer than running it
        "SET application_name = 'dpsql'",
    )

    def spelled(self, text: str, native: Native) -> str:
        """See `Dialect.spelled`."""
        if native.kind in (types.FLOAT, types.NUMBER, types.DECIMAL):
            return NUMBERS.get(text, text)
        before_christ = _BC.match(text)
        return f"{before_christ[1]}{before_christ[2]} BC" if before_christ else text

    def read(self, text: str, native: Native) -> str:
        """See `Dialect.read`; a text that is padded with blanks has none in DuckDB."""
        if native.kind == types.TEXT:
            return text.rstrip(" ") if native.name == "bpchar" else text
        is_before_christ = native.kind in (types.DATE, types.TIMESTAMP, types.INSTANT) and text.endswith(" BC")
        return f"{text[:-3]} (BC)" if is_before_christ else text

    def column(self, name: str, native: Native) -> exp.Expr:
        """See `Dialect.column`: of texts the bytes decide."""
        column = column_of(name)
        return _by_bytes(column) if native.kind == types.TEXT else column

    def shown(self, name: str, native: Native) -> exp.Expr:
        """See `Dialect.shown`: as text, of which 0 and −0 are one."""
        value = column_of(name)
        text: exp.Expr = exp.Anonymous(this="concat", expressions=[value])
        if native.kind == types.FLOAT:
            text = exp.case().when(exp.EQ(this=value.copy(), expression=self.constant("0", native)), "'0'").else_(text)
        return _by_bytes(exp.Paren(this=text))

    def order(self, native: Native) -> Callable[[str], Any] | None:
        """See `Dialect.order`: blanks at the end of a padded text do not count."""
        return (lambda text: text.rstrip(" ").encode()) if native.name == "bpchar" else super().order(native)

    def place(self, attribute: Attribute, native: Native, column: exp.Expr) -> exp.Expr | None:
        """See `Dialect.place`: arithmetic for numerics, else width_bucket, which searches in an array of the edges.

        Numerics have no fixed length, so width_bucket would read half of their array to come to its middle.
        """
        counted = super().place(attribute, native, column)
        if counted is not None:
            return counted
        if native.name == "NUMERIC":
            return self._spaced(attribute, native, column)
        listed = ",".join(f'"{self.spelled(text, native)}"' for text in attribute.edges[:-1])
        edges = typed(f"{{{listed}}}", f"{native.name}[]", self.sqlglot)
        number = exp.Anonymous(this="width_bucket", expressions=[column.copy(), edges])
        return exp.Sub(this=number, expression=exp.Literal.number(1))

    def _spaced(self, attribute: Attribute, native: Native, column: exp.Expr) -> exp.Expr | None:
        """The number of a bin of equal width, by arithmetic of numerics, which is exact; None for other bins.

        Nothing overflows for a value in the bins. `div` leaves out what is after the point.
        """
        ticks, digits = _ticks_of(attribute, native)
        spacing = spacing_of(ticks)
        if spacing is None or (spacing.many > 1 and native.kind != types.DECIMAL):  # between two ticks are values, too
            return None
        start, many, width, last, zero = (
            self.constant(text, native)
            for text in (
                f"{spacing.start}e-{digits}",
                str(spacing.many),
                f"{spacing.width}e-{digits}",
                str(spacing.last),
                "0",
            )
        )
        passed: exp.Expr = exp.Paren(this=exp.Sub(this=column.copy(), expression=start))
        if spacing.many > 1:
            passed = exp.Mul(this=passed, expression=many)
        number = exp.Least(this=exp.Anonymous(this="div", expressions=[passed, width]), expressions=[last])
        return exp.Cast(this=exp.Greatest(this=number, expressions=[zero]), to=exp.DataType.build("INT"))

    def scaled(
        self, attribute: Attribute, native: Native, column: exp.Expr, formula: Formula, multiplier: float
    ) -> exp.Expr:
        """See `Dialect.scaled`.

        Raises:
            CannotSum: the formula could fail on some value.
        """
        return number_of(attribute, native, formula, multiplier, lambda text: self.constant(text, native))

    def multiplied(self, first: exp.Expr, second: exp.Expr, multiplier: float) -> exp.Expr:
        """See `Dialect.multiplied`: Postgres makes a double of a whole number where it is multiplied by one."""
        double = exp.Mul(this=exp.Paren(this=first), expression=self._double(1.0))
        product = exp.Mul(this=double, expression=exp.Paren(this=second))
        return exp.Mul(this=product, expression=self._double(multiplier))

    def clamped(self, number: exp.Expr, low: int, high: int) -> exp.Expr:
        """See `Dialect.clamped`."""
        return clamped(rounded(number), low, high)

    def _double(self, number: float) -> exp.Expr:
        return self.constant(repr(number), _KINDS["float8"])


def _ticks_of(attribute: Attribute, native: Native) -> tuple[Sequence[int], int]:
    """The edges of bins as whole numbers of 10⁻ᵈ, and d."""
    if native.kind == types.DECIMAL:
        return [int(tick) for tick in attribute.ticks], attribute.of_type.scale or 0
    digits = max(0, *(-int(Decimal(text).as_tuple().exponent) for text in attribute.edges))
    return [int(Fraction(text) * 10**digits) for text in attribute.edges], digits


def _by_bytes(text: exp.Expr) -> exp.Expr:
    return exp.Collate(this=text, expression=exp.Identifier(this="C", quoted=True))


POSTGRES: Final = Postgres()
