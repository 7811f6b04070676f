r"""Marks: how an account knows its tables under whatever name they are now.

A mark is a token at the end of a table's comment: `Patients [dpsql:9f86…]`. DuckDB 1.5 and 2.0 keep the comment
through RENAME and every other ALTER, CHECKPOINT, a crash, a reopened file and COPY FROM DATABASE. A mark is lost with
its table (DROP, CREATE OR REPLACE), by EXPORT and IMPORT, or by another COMMENT ON TABLE. Each table has its own
token, which the books list. A table that lost its mark gets another one while its object id or its name tells whose it
is. Each table is marked once, for COMMENT is an ALTER: on DuckDB 2.0 another transaction that wrote to the table and is
still open fails at its COMMIT.

The object id (`table_oid`) is kept by the same ALTERs, and nobody can take it off. But it ends with the process: a file
that is opened or attached again gets new ones. So it serves within one process; see `Seen`.

Neither follows rows that SQL copies into another table. Anybody may copy a mark, too: a load that carries comments over
takes it to the new table, and the old one is left without. So a mark only ever adds protection, and its absence makes
nothing public: what is public stands on a list, see `dpsql.books.tables.public_list`.
"""

from __future__ import annotations

import re
import secrets
import threading
import weakref
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import duckdb
from sqlglot import exp

from dpsql.core.names import fold
from dpsql.engines.source import key_of

_MARK: Final = re.compile(r" ?\[dpsql:([0-9a-f]{32})\]")
_TABLES: Final = """
    SELECT database_name, database_oid, schema_name, table_name, table_oid, coalesce(comment, '')
    FROM duckdb_tables() WHERE NOT internal AND NOT temporary
"""
Identity = tuple[int, int]
"""The object ids of a database and of a table in it, in one DuckDB instance."""


@dataclass(frozen=True)
class Listed:
    """A table as DuckDB lists it."""

    catalog: str
    schema: str
    name: str
    identity: Identity
    comment: str

    @property
    def key(self) -> str:
        """See `dpsql.engines.duckdb.catalog.Source.key`."""
        return key_of(self.schema, self.name)

    @property
    def tokens(self) -> tuple[str, ...]:
        """Of its marks."""
        return tokens_in(self.comment)


def tokens_in(comment: str) -> tuple[str, ...]:
    """The tokens of the marks in a comment.

    >>> tokens_in("Patients [dpsql:00112233445566778899aabbccddeeff]")
    ('00112233445566778899aabbccddeeff',)
    """
    return tuple(_MARK.findall(comment))


def new_token() -> str:
    """A token that no other table has."""
    return secrets.token_hex(16)


def list_tables(cursor: duckdb.DuckDBPyConnection) -> list[Listed]:
    """All committed tables of all attached databases, those of the books too."""
    rows = cursor.execute(_TABLES).fetchall()
    return [Listed(catalog, schema, name, (home, oid), comment) for catalog, home, schema, name, oid, comment in rows]


def write_mark(cursor: duckdb.DuckDBPyConnection, table: Listed, token: str) -> None:
    """Put a mark into a table's comment, after what is said there."""
    _say(cursor, table, f"{_MARK.sub('', table.comment)} [dpsql:{token}]".strip())


def remove_marks(cursor: duckdb.DuckDBPyConnection, table: Listed) -> None:
    """Take the marks out of a table's comment."""
    _say(cursor, table, _MARK.sub("", table.comment).strip())


def _say(cursor: duckdb.DuckDBPyConnection, table: Listed, words: str) -> None:
    """Give a table a comment, none where there are no words."""
    target = exp.table_(table.name, db=table.schema, catalog=table.catalog, quoted=True)
    comment = exp.Literal.string(words) if words else exp.null()
    cursor.execute(exp.Comment(this=target, kind="TABLE", expression=comment).sql(dialect="duckdb"))


@dataclass
class Seen:
    """What this process saw of a DuckDB instance since dpsql is in it.

    Attributes:
        homes: the id of the books that were opened in a database in memory, by its object id.
        held: the account of a protected table, by its object ids.
        public: the object ids of tables that are public: see `dpsql.books.tables.public_list`.
        copies: the object ids of tables that a statement made, or changed, from rows that may not be public.
        surely: the object ids of those that got rows of a protected table: they end the owner's word about their names.
        strayed: the object ids of public tables whose rows dpsql did not see come: they are not listed anew.
        changing: how many changes of a public table are under way or not yet listed, by its object ids.
        lock: for whoever begins or ends such a change.
        books: tables of books that were there: the database, and the name.
    """

    homes: dict[int, str] = field(default_factory=dict)
    held: dict[Identity, str] = field(default_factory=dict)
    public: set[Identity] = field(default_factory=set)
    copies: set[Identity] = field(default_factory=set)
    surely: set[Identity] = field(default_factory=set)
    strayed: set[Identity] = field(default_factory=set)
    changing: dict[Identity, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    books: set[tuple[str, str]] = field(default_factory=set)

    @property
    def doubtful(self) -> set[Identity]:
        """The object ids of tables that may hold protected rows, by what this process saw."""
        return self.copies | self.surely

    def doubt(self, table: Identity, *, surely: bool) -> None:
        """A table gets rows that may not be public, or that are surely a protected one's."""
        (self.surely if surely else self.copies).add(table)

    def trust(self, tables: Iterable[Identity]) -> None:
        """Tables of which the owner said that they hold no protected row."""
        for identity in tables:
            self.copies.discard(identity)
            self.surely.discard(identity)
            self.strayed.discard(identity)


_seen: Final[weakref.WeakKeyDictionary[duckdb.DuckDBPyConnection, Seen]] = weakref.WeakKeyDictionary()


def share(cursor: duckdb.DuckDBPyConnection, seen: Seen) -> None:
    """Let a connection of an instance know what was seen of that."""
    _seen[cursor] = seen


def seen_by(cursor: duckdb.DuckDBPyConnection) -> Seen | None:
    """What was seen of the connection's instance; None if dpsql did not open it."""
    return _seen.get(cursor)


@dataclass(frozen=True)
class BookedTables:
    """What the books of a database know of its tables.

    Attributes:
        accounts: their sources.
        tokens: the account of each token.
    """

    accounts: Collection[str] = ()
    tokens: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Standing:
    """Which tables of a database are protected.

    Attributes:
        held: the account of each protected table; empty where its mark is not of these books.
        unclaimed: the others, which are public only if they are listed as that.
        accounts: of the books.
    """

    held: Mapping[Listed, str]
    unclaimed: Sequence[Listed]
    accounts: Collection[str]


def holder_of(tokens: Iterable[str], name: str, identity: Identity, booked: BookedTables, seen: Seen) -> str | None:
    """The account that a table belongs to; empty if its mark is not of these books, None if it belongs to none."""
    owners = [booked.tokens.get(token, "") for token in tokens]
    if identity in seen.held:
        owners.append(seen.held[identity])
    if not owners:
        return next((source for source in booked.accounts if fold(source) == fold(name)), None)
    return owners[0] if len(set(owners)) == 1 else ""


def standing_of(tables: Iterable[Listed], booked: BookedTables, seen: Seen) -> Standing:
    """Which of the tables of one database are protected; remembers what it sees.

    Args:
        tables: all that are not of the books.
        booked: to the books.
        seen: in this process.
    """
    held: dict[Listed, str] = {}
    unclaimed: list[Listed] = []
    for table in tables:
        owner = holder_of(table.tokens, table.key, table.identity, booked, seen)
        if owner is None:
            unclaimed.append(table)
        else:
            held[table] = owner
    seen.held.update({table.identity: owner for table, owner in held.items() if owner})
    return Standing(held, unclaimed, booked.accounts)
