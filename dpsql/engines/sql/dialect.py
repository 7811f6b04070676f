"""`Dialect`: how one database writes columns and constants, and what it cannot count; all else is the same for all.

It runs on private rows, so nothing that a dialect writes can fail because of a value: comparisons with typed constants,
which are read before any row, and no cast of a column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any, ClassVar, Final

from sqlglot import exp

from dpsql.core.domain import Attribute
from dpsql.core.formula import Formula
from dpsql.engines.sql.failures import NotCounted
from dpsql.engines.sql.types import DECIMAL, MEMBER, TEXT, WHOLE, Native, column_of, literal, typed

PRESENCE: Final = "count rows with count(*), or copy the table into this database"
NUMBERS: Final = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
"""Numbers of DuckDB that databases write in other words."""
AMONG: Final = "leave out the option that draws a sample, or copy the table into this database"
READ_AS: Final = 'make a column of numbers there, or declare "values" := […] in place of read_as'
SUMS: Final = "count groups with count(*), or copy the table into this database"


class Dialect:
    """One database's SQL.

    Attributes:
        label: of the database, as errors say it.
        sqlglot: the name of its SQL.
        casts: by kind, the type that a constant is written with; one without stands as it is.
        long: the type of whole numbers of 64 bits.
        cannot: what it refuses to count, each with what works instead; see `ExternalEngine.cannot`.
    """

    label: ClassVar[str]
    sqlglot: ClassVar[str]
    casts: ClassVar[Mapping[str, str]] = MappingProxyType({})
    long: ClassVar[Native] = Native(WHOLE, "BIGINT")
    cannot: ClassVar[Mapping[str, str]] = MappingProxyType({"presence": PRESENCE, "among": AMONG, "read_as": READ_AS})

    def can_be(self, text: str, native: Native) -> bool:
        """Whether the database has the value that DuckDB writes so."""
        return "\x00" not in text and (native.kind != MEMBER or text in native.members)

    def constant(self, text: str, native: Native) -> exp.Expr:
        """A constant of a type, from the text of the DuckDB value; it fails for no row, because none is in it."""
        kind = native.name or self.casts.get(native.kind)
        if kind is None or native.kind in (TEXT, MEMBER):
            return literal(text, native)
        return typed(self.spelled(text, native), kind, self.sqlglot)

    def spelled(self, text: str, native: Native) -> str:
        """A value as the database reads it, from the text of the DuckDB value."""
        return text

    def read(self, text: str, native: Native) -> str:
        """A value as DuckDB reads it, from the database's text."""
        return text

    def whole(self, number: int) -> exp.Expr:
        """A constant of 64 bits, so that what is computed with it has as many."""
        return self.constant(str(number), self.long)

    def column(self, name: str, native: Native) -> exp.Expr:
        """A column to compare with constants: where a default could call two texts equal, with what forbids that."""
        return column_of(name)

    def shown(self, name: str, native: Native) -> exp.Expr:
        """The value of a column, or its text in bytes, such that equal values are shown alike."""
        return self.column(name, native)

    def order(self, native: Native) -> Callable[[str], Any] | None:
        """By what constants of a type are in the order of the database; None where that is not plain."""
        if native.kind == TEXT:
            return str.encode
        if native.kind == MEMBER:
            return native.members.index
        return Decimal if native.kind in (WHOLE, DECIMAL) else None

    def equals(self, name: str, text: str, native: Native) -> exp.Expr:
        """Whether a value is the one that DuckDB writes so."""
        return exp.EQ(this=self.column(name, native), expression=self.constant(text, native))

    def missing(self, attribute: Attribute, native: Native) -> exp.Expr:
        """Whether a row has no value in a column: NULL, or one that the owner says stands for it."""
        is_null: exp.Expr = exp.Is(this=column_of(attribute.name), expression=exp.null())
        for text in attribute.nulls_as:
            if self.can_be(text, native):
                is_null = exp.or_(is_null, self.equals(attribute.name, text, native), copy=False)
        return is_null

    def place(self, attribute: Attribute, native: Native, column: exp.Expr) -> exp.Expr | None:
        """The number of the bin that a value is in, of one that is in a bin; None to search for it among the edges."""
        if attribute.has_single_values and native.kind == WHOLE:  # nothing to overflow
            return exp.Sub(this=column_of(attribute.name), expression=self.whole(int(attribute.ticks[0])))
        return None

    def listed(self, attribute: Attribute, column: exp.Expr) -> exp.Expr | None:
        """The place of a value among the domain's, NULL where it is none; None to search for it by comparisons."""
        return None

    # --- sums ---------------------------------------------------------------------------------------------------------

    def scaled(
        self, attribute: Attribute, native: Native, column: exp.Expr, formula: Formula, multiplier: float
    ) -> exp.Expr:
        """A formula of a value that is in one of the bins, in steps that need not be whole; nothing to fail.

        Raises:
            DpsqlError: arithmetic of the database could fail for some value.
        """
        raise NotCounted(f"sums are not computed in {self.label}: {SUMS}")

    def multiplied(self, first: exp.Expr, second: exp.Expr, multiplier: float) -> exp.Expr:
        """The steps of two columns multiplied, in steps that need not be whole."""
        raise NotCounted(f"sums are not computed in {self.label}: {SUMS}")

    def clamped(self, number: exp.Expr, low: int, high: int) -> exp.Expr:
        """The nearest whole number of 64 bits, of two the one farther from 0, between two bounds; of none 0."""
        raise NotCounted(f"sums are not computed in {self.label}: {SUMS}")
