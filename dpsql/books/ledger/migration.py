"""The version of the tables of the books, and how older ones are brought to it."""

from __future__ import annotations

from typing import Final

from dpsql.books.ledger.statements import read
from dpsql.books.ledger.store import Books
from dpsql.errors import BooksError

VERSION: Final = 8
"""1 had no table of requests, 2 none of users, 3 knew of no domain or fact that was read off the rows, 4 knew public
tables by their names alone, 5 knew of no computed column, 6 of no table that shares an account, 7 of no period with a
budget of its own: an older dpsql would charge the whole table."""
_LISTED: Final = 5
"""The first version that lists public tables as they are."""
REQUESTS: Final = """
    SELECT content->>'$.key' AS key, max(number) AS number FROM dpsql.event
    WHERE (content->>'$.kind') = 'charge' AND number > $anchor GROUP BY 1
"""
"""The requests that were charged since the ledger was last accepted, and the events that did."""


def version(books: Books) -> int:
    """Of the tables of the books: 1 where none is written down.

    Raises:
        BooksError: a newer version of dpsql wrote them.
    """
    written = books.run("SELECT max(version) FROM dpsql.books")[0][0] if books.has("books") else None
    if written is not None and written > VERSION:
        raise BooksError(
            f"the books of database {books.catalog!r} are of version {written}, which a newer dpsql wrote: open it "
            "with that one"
        )
    return 1 if written is None else int(written)


def migrate(books: Books) -> None:
    """Bring older books to this version, in one transaction; doing it twice is harmless.

    Raises:
        BooksError: a newer version of dpsql wrote them.
    """
    if version(books) < VERSION:
        books.transaction(lambda: make_tables(books))


def make_tables(books: Books, *, some_missing: bool = False) -> None:
    """Inside a transaction: the tables of this version, those that are there already left as they are.

    Args:
        books: of one database.
        some_missing: whether somebody may have dropped one, so that the version alone does not say that all are there.
    """
    before = version(books)
    if before == VERSION and not some_missing:
        return
    for statement in read("books"):
        books.run(statement)
    if before == 1:  # or new, then there is no event
        anchor = int(books.run("SELECT coalesce(max(number), 0) FROM dpsql.event WHERE basis IS NOT NULL")[0][0])
        books.run(f"INSERT INTO dpsql.request {REQUESTS}", {"anchor": anchor})
    if before < _LISTED and books.run("SELECT count(*) FROM dpsql.event") != [(0,)]:
        books.run("INSERT INTO dpsql.public_table SELECT '', NULL")  # see `dpsql.books.tables.public_list`
    books.run("DELETE FROM dpsql.books")
    books.run("INSERT INTO dpsql.books VALUES ($version)", {"version": VERSION})
