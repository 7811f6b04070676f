"""The journal of a release: the curator's answers, stored before anything is made of them.

`dpsql.books.answers` says how an answer becomes rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dpsql.books import ledger
from dpsql.books.answers import COLUMNS, INSERT, Cells, answers_from, cells_of, digest, row_of
from dpsql.books.statements import qualified
from dpsql.books.store import Books
from dpsql.errors import BooksError, DpsqlError
from dpsql.privacy.journal import Answer


def append_answers(books: Books, release: str, answers: Sequence[Answer]) -> None:
    """Write answers of the curator, durably, after those that are there."""

    def work() -> None:
        last = _last(books, release)
        rows = [row_of(number, answer) for number, answer in enumerate(answers, start=last + 1)]
        if rows:  # an INSERT of no rows before one of many: see `publication.write_rows`
            books.run(INSERT, {"release": release, **{name: [row[name] for row in rows] for name in COLUMNS}})
        _append_cells(books, release, cells_of(answers, last + 1))

    books.transaction(work)


def _append_cells(books: Books, release: str, cells: Cells) -> None:
    """Inside a transaction: the values of answers, none of which may have any."""
    if not len(cells["cell"]):
        return
    books.cursor.register("dpsql_cells", cells)
    try:
        books.run("INSERT INTO dpsql.cell SELECT $release, answer, cell, value FROM dpsql_cells", {"release": release})
    finally:
        books.cursor.unregister("dpsql_cells")


def written(books: Books, release: str) -> tuple[int, Sequence[str]]:
    """Inside a transaction: the number of a release's last answer, and the digests of all.

    Raises:
        DpsqlError: it failed, was published, or belongs to what was reset; nothing may be added to it.
    """
    last = _last(books, release)
    sql = "SELECT string_agg(digest, ' ' ORDER BY number) FROM dpsql.answer WHERE release = $key"
    ((digests,),) = books.run(sql, {"key": release})
    return last, (digests or "").split()


def _last(books: Books, release: str) -> int:
    """Inside a transaction: the number of a release's last answer. All digests are read for a look at all only.

    Raises:
        DpsqlError: see `written`.
    """
    release_is = {"key": release}
    if books.run("SELECT state FROM dpsql.release WHERE key = $key", release_is) != [("reserved",)]:
        raise DpsqlError("the account was reset, or the release ended, while it was made: ask again")
    ((last,),) = books.run("SELECT max(number) FROM dpsql.answer WHERE release = $key", release_is)
    return last or 0


def answers(books: Books, release: str) -> list[Answer]:
    """The answers of a release, in order.

    Raises:
        BooksError: they are not those that were written.
    """
    found = _whole(books, release)
    if found is None:
        raise BooksError(f"the answers of a release are not those that were recorded; {ledger.ADVICE}")
    return found


def digest_of_answers(books: Books, release: str) -> str | None:
    """A digest of a release's answers; None if they are not as they were written."""
    found = _whole(books, release)
    return None if found is None else digest_of(map(digest, found))


def digest_of(digests: Iterable[str]) -> str:
    """A digest of all answers, from the digest of each."""
    return hashlib.sha256(" ".join(digests).encode()).hexdigest()


def _whole(books: Books, release: str) -> list[Answer] | None:
    """The answers of a release; None if they cannot be read, or a row is not as it was written."""
    rows, cells = _rows(books, release)
    first = min((row["number"] for row in rows), default=1)
    try:
        found = list(answers_from(rows, cells))
        again = [row_of(number, answer) for number, answer in enumerate(found, start=first)]
        values = cells_of(found, first)
    except (ValueError, TypeError, KeyError, IndexError):
        return None
    whole = again == rows and all(np.array_equal(values[name], cells[name]) for name in values)
    return found if whole else None


def _rows(books: Books, release: str) -> tuple[list[dict[str, Any]], Cells]:
    """The rows of a release's answers, and of their cells."""
    parameters = {"release": release}
    sql = f"SELECT {', '.join(COLUMNS)} FROM dpsql.answer WHERE release = $release ORDER BY number"  # noqa: S608
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in books.run(sql, parameters)]
    sql = "SELECT answer, cell, value FROM dpsql.cell WHERE release = $release ORDER BY answer, cell, value"
    found = books.cursor.execute(qualified(sql, books.catalog), parameters).fetchnumpy()
    return rows, {name: np.asarray(values, np.int64) for name, values in found.items()}
