"""`Dialect`: what differs between warehouses; each has one in a file of its own, and all else is the same for all.

types       the catalogue's names of types, and constants of each type, which are the only casts that are written
snapshot    an instant of the warehouse's clock, and a table as it was then
session     what a connection is set to, so that nobody's default changes what a statement means
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from sqlglot import exp

from dpsql.engines.warehouse.types import Native, column_of


class Dialect(ABC):
    """One warehouse.

    Attributes:
        name: of the engine, as dp_source knows it, and of the extra that installs its driver.
        label: as errors say it.
        sqlglot: the name of its SQL.
        driver: the module of its ADBC driver.
        example: a relation, as errors show it.
        parts: how many parts the whole name of a table has.
        settings: statements that every connection begins with.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    sqlglot: ClassVar[str]
    driver: ClassVar[str]
    example: ClassVar[str]
    parts: ClassVar[int] = 3
    settings: ClassVar[Sequence[str]] = ()

    @abstractmethod
    def native(self, type_name: str, precision: int | None, scale: int | None) -> Native:
        """What a type of the catalogue is; `NO_DOMAIN` where its values are not compared here.

        Args:
            type_name: as `columns` tells it.
            precision: the digits of a number, where the catalogue has them beside the name.
            scale: how many of them are after the point.
        """

    @abstractmethod
    def can_be(self, text: str, native: Native) -> bool:
        """Whether the warehouse has the value that DuckDB writes so."""

    @abstractmethod
    def constant(self, text: str, native: Native) -> exp.Expr:
        """A constant of a type, from the text of the DuckDB value; it fails for no row, because none is in it."""

    @abstractmethod
    def columns(self, parts: Sequence[str]) -> str:
        """A statement that tells the columns of a table, in order.

        Its columns are name, kind, nullable ('YES' or 'NO'), digits, scale, collation (NULL or empty without one),
        computed ('YES' of a column that an expression makes of others) and of_table, which is 'BASE TABLE' unless it is
        something else than a table.
        """

    @abstractmethod
    def identity(self) -> str:
        """A statement that tells in one text, `n`, which database is asked, of all that there are; no credential."""

    @abstractmethod
    def now(self) -> str:
        """A statement that tells the snapshot of now in one text, `n`."""

    @abstractmethod
    def at(self, table: exp.Table, snapshot: str) -> exp.Expr:
        """A table as it was at a snapshot."""

    def column(self, name: str, native: Native) -> exp.Expr:
        """A column to compare with constants: where a default could call two texts equal, with what forbids that."""
        return column_of(name)

    def missing(self, name: str, texts: Sequence[str], native: Native) -> exp.Expr:
        """Whether a row has no value in a column: NULL, or one that the owner says stands for it."""
        is_null: exp.Expr = exp.Is(this=column_of(name), expression=exp.null())
        for text in texts:
            if self.can_be(text, native):
                is_null = exp.or_(is_null, self.equals(name, text, native), copy=False)
        return is_null

    def equals(self, name: str, text: str, native: Native) -> exp.Expr:
        """Whether a value is the one that DuckDB writes so."""
        return exp.EQ(this=self.column(name, native), expression=self.constant(text, native))

    def stored(self, identifier: exp.Identifier) -> str:
        """A name as the catalogue has it."""
        return str(identifier.this)

    def connecting(self, options: Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """The arguments of the driver's `connect`, from the owner's options."""
        return (), {"db_kwargs": dict(options), "autocommit": True}
