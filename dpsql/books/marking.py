"""Tables under other names: which ones of a database its books protect, and the marks by which they are known.

See `dpsql.books.marks` for what a mark is.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import duckdb

from dpsql.books import ledger, public_list
from dpsql.books.accounts import list_accounts
from dpsql.books.marks import (
    Known,
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
from dpsql.books.migration import make_tables
from dpsql.books.statements import SCHEMA
from dpsql.books.store import Books
from dpsql.engines.source import Source

_ATTEMPTS: Final = 5


def holder(books: Books, source: Source) -> str | None:
    """The account that a table belongs to by its mark, its object id or its name; see `marks.holder_of`."""
    return holder_of(tokens_in(source.comment), source.key, source.identity, _known(books), _seen(books))


def standing(books: Books, tables: Sequence[Listed] | None = None) -> Standing:
    """Which tables of the database are protected; of all `tables` of the instance, if they were listed already."""
    listed = list_tables(books.cursor) if tables is None else tables
    mine = [table for table in listed if table.catalog == books.catalog]
    own = {table.name for table in mine if table.schema == SCHEMA}  # to ask for one in vain ends a transaction
    known = _known(books, listed="known_table" in own) if "account" in own else Known()
    return standing_of([table for table in mine if table.schema != SCHEMA], known, _seen(books))


def _seen(books: Books) -> Seen:
    return seen_by(books.cursor) or Seen()


def _known(books: Books, *, listed: bool = True) -> Known:
    """What the books know of the tables of their database; those of an earlier version may have no marks yet."""
    sources = [account.source for account in list_accounts(books)]
    try:
        rows = books.run("SELECT name, token FROM dpsql.known_table WHERE token IS NOT NULL") if listed else []
    except duckdb.CatalogException:
        rows = []
    return Known(sources, {token: name for name, token in rows})


def is_public(books: Books, table: Listed, now: Standing) -> bool:
    """Whether a table is surely none of an account: listed as public, or in a database without accounts."""
    if table in now.held:
        return False
    if not now.accounts:
        return table.identity not in _seen(books).copies
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


def refresh(books: Books) -> None:
    """Before the database is closed: list public tables with the rows that they hold now."""
    if books.is_writable and books.has("public_table"):
        work = partial(_refresh, books)
        with suppress(duckdb.TransactionException):
            books.transaction(work, attempts=_ATTEMPTS)


def _refresh(books: Books) -> None:
    now = standing_of(_tables(books), _known(books), _seen(books))
    public_list.refresh(books, now, _seen(books))


def list_all(books: Books) -> None:
    """Inside the transaction that opens a database's first account: its other tables are public."""
    now = standing_of(_tables(books), _known(books), _seen(books))
    public_list.add(books, (t for t in now.unclaimed if t.identity not in _seen(books).copies), _seen(books))


def list_table(books: Books, table: Listed) -> None:
    """A table that was just made from public rows is public."""
    if books.is_writable and books.has("public_table"):
        with suppress(duckdb.TransactionException):
            books.transaction(lambda: public_list.add(books, [table], _seen(books)), attempts=_ATTEMPTS)


def settle(books: Books, reason: str, source: Source | None = None) -> None:
    """No protected row is in a table, or in any as they are now, on the owner's word.

    See `dpsql.owner.account_changes.settle`.
    """

    def work() -> None:
        ledger.look(books)
        _mark(books)
        now = standing(books)
        chosen = [t for t in now.unclaimed if source is None or t.identity == source.identity]
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
    known = _known(books)
    now = standing_of(_tables(books), known, _seen(books))
    entries = public_list.read_list(books, now)  # before there are marks, if there were none
    for table, source in now.held.items():
        if source and not any(known.tokens.get(token) == source for token in table.tokens):
            token = new_token()
            write_mark(books.cursor, table, token)
            books.run("INSERT INTO dpsql.known_table VALUES ($name, $token)", {"name": source, "token": token})
    public_list.take_over(books, entries, now.unclaimed, _seen(books))
