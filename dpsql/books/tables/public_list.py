"""The list of public tables: each by its name and its rows, or by its name alone on the owner's word.

DuckDB has no id of a table that outlives the process: object ids are given anew when a file is opened, in the order of
names, and a comment is a text that anybody may copy. So across a reopening a table is known by what it holds. Its entry
has a digest of its columns, the number of its rows and the first thousand of them. Rows of a protected table that come
under the name of a public one, by whatever statement, have another digest.

In one process the object id serves: DuckDB keeps it through every ALTER, and nobody can give it to another table.

While a database has accounts, a table that is not listed is a *suspect*: it is not public, and gets no budget of its
own. Tables are listed when the first account of their database is opened, when dpsql sees them made from public rows
(`dpsql.api.watching`), and on the owner's word (`dpsql ledger settle`), which the ledger keeps.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import duckdb
from sqlglot import exp

from dpsql.books.ledger.store import Books
from dpsql.books.ledger.table_ids import Listed, Seen, Standing
from dpsql.core.names import fold
from dpsql.engines.registry import find_parts
from dpsql.engines.source import Column

_MOST_ROWS: Final = 1000
_READ: Final = frozenset(
    """
    BOOLEAN TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT UHUGEINT FLOAT DOUBLE DECIMAL
    VARCHAR BLOB UUID DATE TIME TIMESTAMP TIMESTAMP_S TIMESTAMP_MS TIMESTAMP_NS INTERVAL ENUM
    """.split()  # noqa: SIM905
)
"""Types whose values become texts by no code that depends on how deeply they are nested."""
_HASHED: Final = frozenset({"VARCHAR", "BLOB"})
"""Types that are hashed as they are."""
_EARLIER: Final = ""
"""The name, which no table has, of the entry that says that these books had a list of names only."""


@dataclass(frozen=True)
class PublicList:
    """What the books know to be public.

    Attributes:
        digests: of the tables, by their names in lower case.
        words: names of which the owner said that no protected row comes under them.
        earlier: names that an earlier version listed, or that it took for public.
        taken_over: whether there are no such names left.
    """

    digests: Mapping[str, str] = field(default_factory=dict)
    words: frozenset[str] = frozenset()
    earlier: frozenset[str] = frozenset()
    taken_over: bool = True


def read_list(books: Books, standing: Standing) -> PublicList:
    """The list of a database's public tables."""
    entries = books.run("SELECT name, digest FROM dpsql.public_table") if books.has("public_table") else None
    if entries is not None and not any(name == _EARLIER for name, _ in entries):
        digests = {fold(name): digest for name, digest in entries if digest is not None}
        return PublicList(digests, frozenset(fold(name) for name, digest in entries if digest is None))
    names = books.run("SELECT name, token FROM dpsql.known_table") if books.has("known_table") else []
    if names:
        return PublicList(earlier=frozenset(fold(name) for name, token in names if token is None), taken_over=False)
    places = {fold(table.key) for table in standing.held}  # before there were marks: by name
    whole = all(fold(account) in places for account in standing.accounts)
    return PublicList(earlier=frozenset(fold(table.key) for table in standing.unclaimed if whole), taken_over=False)


def is_listed(books: Books, table: Listed, entries: PublicList, seen: Seen) -> bool:
    """Whether a table that no account claims is known to be public; remembers it if so."""
    name = fold(table.key)
    if table.identity in seen.surely or (table.identity in seen.copies and name not in entries.words):
        return False
    if table.identity not in seen.public:
        by_name = name in entries.words or name in entries.earlier
        if not by_name and (name not in entries.digests or entries.digests[name] != digest_of(books.cursor, table)):
            return False
        seen.public.add(table.identity)
    return True


def add(books: Books, tables: Iterable[Listed], seen: Seen, *, by_word: bool = False) -> None:
    """Inside a transaction: put tables on the list, as they are now or, by the owner's word, whatever rows come."""
    for table in tables:
        digest = None if by_word else digest_of(books.cursor, table)
        name = fold(table.key)
        if by_word or digest is not None:
            row = {"name": name, "digest": digest}
            books.run("INSERT OR REPLACE INTO dpsql.public_table VALUES ($name, $digest)", row)
        else:
            books.run("DELETE FROM dpsql.public_table WHERE name = $name", {"name": name})
        seen.public.add(table.identity)


def take_over(books: Books, entries: PublicList, unclaimed: Iterable[Listed], seen: Seen) -> None:
    """Inside a transaction: bring the list of an earlier version to this one."""
    if not entries.taken_over:
        taken = [table for table in unclaimed if fold(table.key) in entries.earlier]
        books.run("DELETE FROM dpsql.public_table WHERE name = $name", {"name": _EARLIER})
        books.run("DELETE FROM dpsql.known_table WHERE token IS NULL")
        add(books, taken, seen)


def is_current(books: Books, table: Listed, entries: PublicList) -> bool:
    """Whether a public table holds the rows that it is listed with, or is listed whatever it holds."""
    name = fold(table.key)
    if name in entries.words or name in entries.earlier:
        return True
    return name in entries.digests and entries.digests[name] == digest_of(books.cursor, table)


def renew(books: Books, tables: Iterable[tuple[Listed, str]], entries: PublicList, seen: Seen) -> None:
    """Inside a transaction: list tables by the rows that they hold now, and no longer under their earlier names."""
    chosen = [(table, name) for table, name in tables if table.identity not in seen.doubtful | seen.strayed]
    for table, name in chosen:
        if name != fold(table.key) and name in entries.digests:
            books.run("DELETE FROM dpsql.public_table WHERE name = $name", {"name": name})
    add(books, (table for table, _ in chosen if fold(table.key) not in entries.words), seen)


def leave(books: Books, table: Listed, entries: PublicList, seen: Seen, *, surely: bool) -> None:
    """Inside a transaction: take a table off the list; the owner's word ends only if protected rows surely come."""
    name = fold(table.key)
    if surely or name not in entries.words:
        seen.doubt(table.identity, surely=surely)
        books.run("DELETE FROM dpsql.public_table WHERE name = $name", {"name": name})


def digest_of(cursor: duckdb.DuckDBPyConnection, table: Listed) -> str | None:
    """A digest of a table's columns, number of rows and first rows; None if no row of it can be told from another.

    Values are hashed where they are: DuckDB hands over 32 letters for each row, however long its values are.
    """
    source = find_parts(cursor, (table.catalog, table.schema, table.name), (table.catalog, table.schema))
    values = [_hash(column) for column in source.columns if not column.generated and _is_flat(column.type)]
    rows = source.table().sql(dialect="duckdb")
    row = f"system.main.md5(CAST([{', '.join(values) or 'NULL'}] AS VARCHAR))"
    query = f"SELECT (SELECT count(*) FROM {rows}), {row} FROM {rows} LIMIT {_MOST_ROWS}"  # noqa: S608
    hashes = cursor.execute(query).fetchall()
    if hashes and not values:
        return None
    shape = [(column.name, column.type, column.generated) for column in source.columns]
    whole = json.dumps([shape, sorted(hashes)])
    return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()


def _is_flat(kind: str) -> bool:
    return not kind.endswith("]") and kind.partition("(")[0].strip() in _READ


def _hash(column: Column) -> str:
    value = exp.to_identifier(column.name, quoted=True).sql(dialect="duckdb")
    return f"system.main.md5({value if column.type in _HASHED else f'CAST({value} AS VARCHAR)'})"
