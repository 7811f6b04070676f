"""Whether the books of a database are its own: neither lost, nor a copy with which a budget could be spent twice."""

from __future__ import annotations

import secrets
from pathlib import Path

import duckdb

from dpsql.books.ledger import heads
from dpsql.books.ledger.store import Books
from dpsql.books.ledger.table_ids import seen_by
from dpsql.errors import BooksError


def identity(books: Books) -> str | None:
    """The id that the books were given when they were opened; None if there are none."""
    try:
        rows = books.run("SELECT content->>'$.books' FROM dpsql.event WHERE number = 1")
    except duckdb.CatalogException:
        return None
    return None if not rows else str(rows[0][0])


def new_identity(books: Books) -> str:
    """The id of new books; before anything of them is committed a head that knows none, so that none is missing."""
    check_no_others(books)
    given, path = secrets.token_hex(16), books.head_path
    if path is not None:
        heads.write_head(path, heads.Head(given))
    return given


def remember_home(books: Books) -> None:
    """Let the process know which books were opened in this database, for one in memory has no head."""
    seen, given = seen_by(books.cursor), identity(books)
    if seen is not None and given is not None:
        seen.homes[books.oid] = given


def check_no_others(books: Books) -> None:
    """Refuse to open books where a head says that the database had some, which are lost.

    Raises:
        BooksError: there is such a head.
    """
    path = books.head_path
    head = None if path is None else heads.read_head(path)
    if head is not None and head.number:
        raise BooksError(
            f"{str(path)!r} knows a ledger of {head.number} events, but the database has none: it was damaged, or "
            "restored from an older copy. If it is another database at the same place, remove that file"
        )


def check_place(books: Books) -> None:
    """Refuse books that were copied here with the rows, whose budget is spent where they come from.

    Raises:
        BooksError: they were: into memory, or to a file whose ledger is attached twice.
    """
    copied = f"the books of database {books.catalog!r} are a copy of those of another one, and rows have one budget: "
    path = books.head_path
    if path is None:
        seen, given = seen_by(books.cursor), identity(books)
        if seen is not None and given is not None and seen.homes.get(books.oid) != given:
            raise BooksError(f"{copied}release from the database that they were copied from")
        return
    mine = heads.read_head(path)
    sql = "SELECT path FROM duckdb_databases() WHERE path IS NOT NULL AND type = 'duckdb' AND database_oid <> $oid"
    others = [Path(other) for (other,) in books.cursor.execute(sql, {"oid": books.oid}).fetchall()]
    for other in others:
        if mine is not None and _identity_beside(other) == mine.books:
            raise BooksError(f"{copied}detach the one that is the copy, this or {str(other)!r}")


def _identity_beside(database: Path) -> str | None:
    """The id of the books of a database file, as their head says; None if there is no readable one."""
    try:
        head = heads.read_head(heads.file_beside(database))
    except BooksError:
        return None
    return None if head is None else head.books
