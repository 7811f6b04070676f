"""Tables under other names: which ones of a database its books protect, and the marks by which they are known.

See `dpsql.books.marks` for what a mark is.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import duckdb

from dpsql.books import ledger
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
from dpsql.core.names import fold
from dpsql.engines.source import Source

_ATTEMPTS: Final = 5


def holder(books: Books, source: Source) -> str | None:
    """The account that a table belongs to by its mark, its object id or its name; see `marks.holder_of`."""
    seen = seen_by(books.cursor) or Seen()
    return holder_of(tokens_in(source.comment), source.key, source.identity, _known(books), seen)


def standing(books: Books, tables: Sequence[Listed] | None = None) -> Standing:
    """Which tables of the database are protected; of all `tables` of the instance, if they were listed already."""
    listed = list_tables(books.cursor) if tables is None else tables
    mine = [table for table in listed if table.catalog == books.catalog]
    own = {table.name for table in mine if table.schema == SCHEMA}  # to ask for one in vain ends a transaction
    known = _known(books, listed="known_table" in own) if "account" in own else Known(there=False)
    seen = seen_by(books.cursor) or Seen()
    return standing_of([table for table in mine if table.schema != SCHEMA], known, seen)


def _known(books: Books, *, listed: bool = True) -> Known:
    """What the books know of the tables of their database; those of an earlier version may have no list yet."""
    sources = [account.source for account in list_accounts(books)]
    try:
        rows = books.run("SELECT name, token FROM dpsql.known_table") if listed else []
    except duckdb.CatalogException:
        rows = []
    tokens = {token: name for name, token in rows if token is not None}
    return Known(sources, tokens, {fold(name) for name, token in rows if token is None})


def mark(books: Books, source: Source) -> None:
    """Mark a table that is about to be released from, if it is a new one under its account's name."""
    if not tokens_in(source.comment):
        mark_tables(books)


def mark_tables(books: Books) -> None:
    """Mark what an account holds and has no mark yet, and list the tables that are public, as far as is sure.

    A table that somebody alters in an open transaction is marked another time.
    """
    if books.is_writable:
        with suppress(duckdb.TransactionException):
            books.transaction(lambda: _mark(books), attempts=_ATTEMPTS)


def settle(books: Books, reason: str) -> None:
    """Nothing else is a table of an account, on the owner's word; see `dpsql.owner.account_changes.settle`."""

    def work() -> None:
        ledger.look(books)
        _mark(books, trusted=True)
        ledger.event(books, "settle", reason=reason)

    ledger.commit(books, work)


def _mark(books: Books, *, trusted: bool = False) -> None:
    """Inside a transaction: see `mark_tables`; where the owner says so, all is sure."""
    make_tables(books)  # books of an earlier version have no list
    now, known = standing(books), _known(books)
    sure = trusted or not now.suspects
    tokens = {} if sure else dict(known.tokens)
    for table, source in now.held.items():
        here = [token for token in table.tokens if known.tokens.get(token) == source]
        if source and not here and (sure or source not in now.doubtful):
            seen = (seen_by(books.cursor) or Seen()).held.get(table.identity)
            here = [seen[1] if seen and seen[1] else new_token()]
            write_mark(books.cursor, table, here[0])
        tokens |= dict.fromkeys(here, source)
    free = [table.key for table in (*now.others, *now.suspects)]
    public = free if sure else known.public
    if tokens != known.tokens or set(map(fold, public)) != set(known.public):
        books.run("DELETE FROM dpsql.known_table")
        for name, token in [
            *((source, token) for token, source in tokens.items()),
            *((name, None) for name in public),
        ]:
            books.run("INSERT INTO dpsql.known_table VALUES ($name, $token)", {"name": name, "token": token})
