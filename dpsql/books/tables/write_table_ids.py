"""Tables under other names: which ones of a database its books protect, and the marks by which they are known.

See `dpsql.books.ledger.table_ids` for what a mark is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Final

import duckdb

from dpsql.books.ledger import ledger
from dpsql.books.ledger.accounts import list_accounts
from dpsql.books.ledger.members import list_members
from dpsql.books.ledger.migration import make_tables
from dpsql.books.ledger.statements import SCHEMA
from dpsql.books.ledger.store import Books
from dpsql.books.ledger.table_ids import (
    BookedTables,
    Listed,
    Seen,
    Standing,
    holder_of,
    list_tables,
    new_token,
    seen_by,
    standing_of,
    tokens_in,
    write_mark,
)
from dpsql.books.tables import public_list
from dpsql.core.names import fold
from dpsql.core.period import table_of
from dpsql.engines.source import Source

_ATTEMPTS: Final = 20


def holder(books: Books, source: Source) -> str | None:
    """The account that a table belongs to by its mark, its object id or its name; see `marks.holder_of`."""
    return holder_of(tokens_in(source.comment), source.table_key, source.identity, _booked_tables(books), _seen(books))


def standing(books: Books, tables: Sequence[Listed] | None = None) -> Standing:
    """Which tables of the database are protected; of all `tables` of the instance, if they were listed already."""
    listed = list_tables(books.cursor) if tables is None else tables
    mine = [table for table in listed if table.catalog == books.catalog]
    own = {table.name for table in mine if table.schema == SCHEMA}  # to ask for one in vain ends a transaction
    booked = _booked_tables(books, listed="known_table" in own) if "account" in own else BookedTables()
    return standing_of([table for table in mine if table.schema != SCHEMA], booked, _seen(books))


def _seen(books: Books) -> Seen:
    return seen_by(books.cursor) or Seen()


def _booked_tables(books: Books, *, listed: bool = True) -> BookedTables:
    """What the books know of the tables of their database; those of an earlier version may have no marks yet."""
    sources = list(dict.fromkeys(table_of(account.source) for account in list_accounts(books)))
    if sources:
        sources += [member.source for member in list_members(books)]
    try:
        rows = books.run("SELECT name, token FROM dpsql.known_table WHERE token IS NOT NULL") if listed else []
    except duckdb.CatalogException:
        rows = []
    return BookedTables(sources, {token: name for name, token in rows})


def protects(books: Books, key: str) -> bool:
    """Whether a table of that key belongs to an account."""
    return key in _booked_tables(books).accounts


def is_public(books: Books, table: Listed, now: Standing) -> bool:
    """Whether a table is surely none of an account: listed as public, or in a database without accounts."""
    if table in now.held:
        return False
    if not now.accounts:
        return table.identity not in _seen(books).doubtful
    return public_list.is_listed(books, table, public_list.read_list(books, now), _seen(books))


def mark(books: Books, source: Source) -> None:
    """Mark a table that is about to be released from, if it is a new one under its account's name."""
    if not tokens_in(source.comment):
        mark_tables(books)


def mark_tables(books: Books) -> None:
    """Mark what an account holds and has no mark yet.

    A table that somebody alters in an open transaction is marked another time.
    """
    if books.is_writable:
        with suppress(duckdb.TransactionException):
            books.transaction(lambda: _mark(books), attempts=_ATTEMPTS)


def list_all(books: Books) -> None:
    """Inside the transaction that opens a database's first account: its other tables are public."""
    now = standing_of(_tables(books), _booked_tables(books), _seen(books))
    doubtful = _seen(books).doubtful
    public_list.add(books, (table for table in now.unclaimed if table.identity not in doubtful), _seen(books))


def begin_change(books: Books, table: Listed) -> None:
    """Before a statement that reads public rows alone changes a table: may it be listed anew afterwards?

    Only if nobody changed it unseen before. While a change is under way, the list is behind the table, so the first of
    several asks.
    """
    seen = _seen(books)
    with seen.lock:
        under_way = seen.changing.get(table.identity, 0)
        seen.changing[table.identity] = under_way + 1
        now = standing(books)
        if under_way or not now.accounts:
            return
        entries = public_list.read_list(books, now)
        if not (is_public(books, table, now) and public_list.is_current(books, table, entries)):
            seen.strayed.add(table.identity)


def end_changes(books: Books, made: Sequence[Listed], changed: Sequence[tuple[Listed, str]]) -> None:
    """After statements that read public rows alone: list the tables that they made or changed as they are now.

    Args:
        books: of their database.
        made: by the statements.
        changed: by them, each with its name of before.
    """
    seen = _seen(books)
    tables = [*((table, fold(table.key)) for table in made), *changed]

    def work() -> None:
        now = standing_of(_tables(books), _booked_tables(books), seen)
        held = {table.identity for table in now.held}
        if now.accounts:
            public_list.renew(
                books,
                [(t, name) for t, name in tables if t.identity not in held],
                public_list.read_list(books, now),
                seen,
            )

    if books.is_writable and books.has("public_table") and tables:
        with suppress(duckdb.TransactionException):
            books.transaction(work, attempts=_ATTEMPTS)
    with seen.lock:
        for table, _ in changed:
            seen.changing[table.identity] = seen.changing.get(table.identity, 1) - 1


def leave(books: Books, table: Listed, *, surely: bool) -> None:
    """Before a statement that may read protected rows changes a table: it is not public from now on.

    Args:
        books: of its database.
        table: that is changed.
        surely: whether the statement names a protected table.
    """
    seen = _seen(books)
    if books.is_writable and books.has("public_table"):
        books.transaction(lambda: public_list.leave(books, table, _entries(books), seen, surely=surely))
    else:
        seen.doubt(table.identity, surely=surely)


def end_words(books: Books, names: Collection[str]) -> None:
    """End the owner's word about tables of some names, without their schemas, in lower case."""

    def work() -> None:
        for name in _entries(books).words:
            if name in names or name.rpartition(".")[2] in names:
                books.run("DELETE FROM dpsql.public_table WHERE name = $name AND digest IS NULL", {"name": name})

    if books.is_writable and books.has("public_table"):
        books.transaction(work)


def _entries(books: Books) -> public_list.PublicList:
    return public_list.read_list(books, standing_of(_tables(books), _booked_tables(books), _seen(books)))


def settle(books: Books, reason: str, source: Source | None = None) -> None:
    """No protected row is in a table, or in any as they are now, on the owner's word.

    See `dpsql.owner.account_changes.settle`.
    """

    def work() -> None:
        ledger.look(books)
        _mark(books)
        now = standing(books)
        chosen = [t for t in now.unclaimed if source is None or t.identity == source.identity]
        _seen(books).trust(table.identity for table in chosen)
        public_list.add(books, chosen, _seen(books), by_word=source is not None)
        tables = None if source is None else source.key
        ledger.event(books, "settle", reason=reason, table=tables)

    ledger.commit(books, work)


def _tables(books: Books) -> list[Listed]:
    """Those of the database that are not of the books."""
    return [t for t in list_tables(books.cursor) if t.catalog == books.catalog and t.schema != SCHEMA]


def _mark(books: Books) -> None:
    """Inside a transaction: see `mark_tables`."""
    make_tables(books)  # books of an earlier version have no list
    booked = _booked_tables(books)
    now = standing_of(_tables(books), booked, _seen(books))
    entries = public_list.read_list(books, now)  # before there are marks, if there were none
    for table, source in now.held.items():
        if source and not any(booked.tokens.get(token) == source for token in table.tokens):
            token = new_token()
            write_mark(books.cursor, table, token)
            books.run("INSERT INTO dpsql.known_table VALUES ($name, $token)", {"name": source, "token": token})
    public_list.take_over(books, entries, now.unclaimed, _seen(books))
