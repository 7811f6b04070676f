"""`Database`: a dialect of a database that is reached over ADBC; each has one in a file of its own.

types       the catalogue's names of types, and constants of each type, which are the only casts that are written
snapshot    an instant of the database's clock, and a table as it was then
session     what a connection is set to, so that nobody's default changes what a statement means
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from sqlglot import exp

from dpsql.engines.sql import types
from dpsql.engines.sql.dialect import Dialect
from dpsql.engines.sql.types import Native

_TIMES: Final = (types.DATE, types.TIMESTAMP, types.INSTANT)
_PLAIN: Final = re.compile(r"\d{4}-")


class Reached(Dialect):
    """A database that is reached over ADBC.

    Attributes:
        name: of the engine, as dp_source knows it, and of the extra that installs its driver.
        driver: the module of its ADBC driver.
        unless: what to see to where it cannot be reached.
        settings: statements that every connection begins with.
    """

    name: ClassVar[str]
    driver: ClassVar[str]
    unless: ClassVar[str] = "its options are right and that the user may log in"
    settings: ClassVar[Sequence[str]] = ()


class Database(Reached, ABC):
    """One whose table is counted as it was at an instant.

    Attributes:
        example: a relation, as errors show it.
        parts: how many parts the whole name of a table has.
    """

    example: ClassVar[str]
    parts: ClassVar[int] = 3

    @abstractmethod
    def native(self, type_name: str, precision: int | None, scale: int | None) -> Native:
        """What a type of the catalogue is; `NO_DOMAIN` where its values are not compared here.

        Args:
            type_name: as `columns` tells it.
            precision: the digits of a number, where the catalogue has them beside the name.
            scale: how many of them are after the point.
        """

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

    def can_be(self, text: str, native: Native) -> bool:
        """See `Dialect.can_be`: of dates and timestamps those of the years 1 to 9999, which every warehouse has."""
        is_plain = _PLAIN.match(text) is not None and not text.endswith(")")
        return super().can_be(text, native) and (is_plain or native.kind not in _TIMES)

    def stored(self, identifier: exp.Identifier) -> str:
        """A name as the catalogue has it."""
        return str(identifier.this)

    def connecting(self, options: Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """The arguments of the driver's `connect`, from the owner's options."""
        return (), {"db_kwargs": dict(options), "autocommit": True}
