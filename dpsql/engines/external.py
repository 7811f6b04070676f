"""`ExternalEngine`: an engine whose tables `dp_source` registers. One line in `registry.EXTERNAL` names its class.

    register    arguments of dp_source → the columns of a stub, what identifies the relation, which rows are pinned
    check       right before a charge, and before rows are read: is what was pinned still there
    the rest    as `Engine` says; `source.place` is what was registered

The owner's call is not released, so `register` may read files and catalogues; it never reads a value of a row. The
stub is an empty table of the host with those columns, so all that is declared, parsed and evaluated is as ever.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar, Protocol

from dpsql.core.column_types import public_type
from dpsql.core.domain import Attribute
from dpsql.core.linear_query import LinearQuery
from dpsql.core.names import fold
from dpsql.engines.costs import Rates
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.place import PinnedFile
from dpsql.engines.protocol import Engine
from dpsql.engines.source import Column, Source
from dpsql.engines.sql.types import UNKNOWN_IN_DUCKDB
from dpsql.errors import DpsqlError, InvalidArgument


@dataclass(frozen=True)
class Registered:
    """What an engine makes of the arguments of `dp_source`.

    Attributes:
        columns: of the stub, in order: names, DuckDB's types, whether they may be NULL.
        address: what tells the relation from all others of the engine: host, database and table; an absolute path.
        relation: the arguments of `dp_source` that say what it is, to be stored: never a credential.
        pin: which rows of it count.
        identity: the columns that tell rows apart, where the engine wants some.
        files: those of the snapshot, of an engine that reads files.
        public: the pin in words, for the ledger: nothing that depends on the rows, such as their number or a digest.
        within: names of what has these rows, too, such as the table of which it is a partition. What they are names of,
            `pin["holds"]` lists for a relation itself, and for all of which it has the rows.
    """

    columns: tuple[Column, ...]
    address: str
    relation: Mapping[str, Any]
    pin: Mapping[str, Any]
    identity: tuple[str, ...] = ()
    files: Sequence[PinnedFile] = ()
    public: str = ""
    within: Sequence[str] = ()


class ExternalEngine(Engine, Protocol):
    """An engine whose tables `dp_source` registers; made with a connection to the host, as every engine.

    Attributes:
        takes: the arguments of `dp_source`, beside `engine`, that it understands; others are refused.
        cannot: of `presence` (count(DISTINCT unit) of a query), `among` (a mechanism's sample of rows) and `read_as`
            (texts that are read as numbers) those that it refuses, each with what works instead, as "say …".
        rates: how fast it counts, for plans.
    """

    takes: ClassVar[frozenset[str]]
    cannot: ClassVar[Mapping[str, str]]
    rates: ClassVar[Rates]

    def __init__(self, cursor: Cursor) -> None:
        """Open the engine beside a connection to the host, which it may use until it is closed."""

    def register(self, given: Mapping[str, Any]) -> Registered:
        """What is to be stored of a relation: its columns, what identifies it, which rows are pinned now.

        Args:
            given: the arguments that the owner gave, without those that are None; to move a pin, what was stored,
                under what the owner says now.

        Raises:
            InvalidArgument: an argument is missing or wrong; names it, its value and the call that works.
            DpsqlError: there is no such relation, or it does not answer; never with a text of the engine's own.
        """

    def check_unit(self, source: Source, unit: str) -> None:
        """Refuse a privacy unit that it cannot bound, when the table is protected.

        Raises:
            InvalidArgument: says the call of `dp_source` that works.
        """

    def check_domain(self, source: Source, attribute: Attribute) -> None:
        """Refuse a domain that it cannot count in, when it is declared; it may ask the engine, but for no row.

        Raises:
            InvalidArgument: says what works instead.
        """

    def check_listed(self, source: Source, column: str) -> None:
        """Refuse to list the values of a column, for a domain that is to be discovered, before it is charged.

        Raises:
            InvalidArgument: says what works instead.
        """

    def check_sums(self, query: LinearQuery) -> None:
        """Refuse a query with sums that it could fail to compute, because of a value of a row.

        Raises:
            InvalidQuery: says what works instead.
        """

    def draw(self, source: Source, target: str, share: float, secret: str, by: str | None) -> None:
        """Write a sample into an empty table of the host with the source's columns; only if it takes `sample`.

        Args:
            source: the relation, with its `place`.
            target: the table, as SQL.
            share: of the rows, or of the values of `by`.
            secret: SQL that reads what the choice is keyed by, so that no text of SQL holds it.
            by: the column whose values are in the sample as a whole; None for rows.
        """


def has_columns(source: Source, columns: Sequence[Column]) -> bool:
    """Whether a relation has the columns of a stub still, in their types; those that were added do not matter."""
    there = {column.name: column for column in columns}
    return all(
        column.name in there
        and column.type in (there[column.name].type, public_type(there[column.name].type))
        and column.nullable >= there[column.name].nullable
        for column in source.columns
    )


def driver(module: str, engine: str, extra: str) -> ModuleType:
    """A driver of an engine, which an extra installs.

    Raises:
        DpsqlError: it is not installed.
    """
    try:
        return import_module(module)
    except ImportError:
        raise DpsqlError(
            f"engine {engine!r} needs the package {module.partition('.')[0]}: pip install 'dpsql[{extra}]'"
        ) from None


def words_in(environment: str, what: str) -> str:
    """What leads to a server, from a variable of this process. `what` it holds, with an example, is for the error."""
    if not (words := os.environ.get(environment, "")):
        raise InvalidArgument(
            f"environment is {environment!r}: this process has no such variable. Set it to what {what}, before DuckDB "
            "starts"
        )
    return words


def check_unit_type(source: Source, unit: str, label: str) -> None:
    """Refuse a privacy unit whose values an engine cannot tell apart."""
    if source.column(unit).type == UNKNOWN_IN_DUCKDB:
        raise InvalidArgument(
            f"privacy_unit is {unit!r}: values of its type cannot be told apart in {label}, so name a column of texts, "
            "numbers or dates that says whose row it is"
        )


def check_case(names: Sequence[str], error_of: type[DpsqlError], whose: str = "") -> None:
    """Refuse names of columns of which DuckDB takes two for one."""
    if len(set(map(fold, names))) != len(names):
        raise error_of(f"two columns{whose} differ in case only, which DuckDB takes for one: rename one")
