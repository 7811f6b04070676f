"""The journal of a release: the curator's answers, stored before anything is made of them.

`dpsql.books.releases.answers` says how an answer becomes rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from dpsql.books.ledger import ledger
from dpsql.books.ledger.statements import qualified
from dpsql.books.ledger.store import Books
from dpsql.books.releases.answers import COLUMNS, INSERT, Cells, answers_from, cells_of, digest, row_of
from dpsql.books.releases.releases import Entry
from dpsql.errors import BooksError, DpsqlError
from dpsql.privacy.journal import Answer

_CELLS_AT_ONCE: Final = 1 << 18  # of answers that are read: so many take 10 MB
_SIZES: Final = "SELECT answer, count(*) FROM dpsql.cell WHERE release = $release GROUP BY answer"
_CELLS: Final = """
    SELECT answer, cell, value FROM dpsql.cell WHERE release = $release AND answer BETWEEN $first AND $last
    ORDER BY answer, cell, value
"""


class BooksJournal:
    """The curator's journal, kept in the books; see `dpsql.privacy.journal.Journal`.

    It holds what it read and wrote, so that a release need not read its answers back to say how near its fit is.
    """

    def __init__(self, books: Books, entry: Entry) -> None:
        self._books, self._entry = books, entry
        self._held: list[Answer] = []

    def recorded(self) -> Sequence[Answer]:
        """The answers of earlier runs, in order."""
        self._held = [] if self._entry.state == "reserved" else answers(self._books, self._entry.key)
        return tuple(self._held)

    def append(self, answers: Sequence[Answer]) -> None:
        """Write answers, durably."""
        self._held += append_answers(self._books, self._entry.key, answers)

    def whole(self) -> Sequence[Answer]:
        """The answers of the release, in order, as the books have them; read only where they are not those held.

        Cells are read before publication, which fails where one is not what was written.
        """
        if _digests(self._books, self._entry.key) == [digest(answer) for answer in self._held]:
            return tuple(self._held)
        return answers(self._books, self._entry.key)


def append_answers(books: Books, release: str, answers: Sequence[Answer]) -> list[Answer]:
    """Write answers of the curator, durably, after those that are there; returns them as they are read back."""

    def work() -> list[Answer]:
        last = _last(books, release)
        rows = [row_of(number, answer) for number, answer in enumerate(answers, start=last + 1)]
        books.run(INSERT, {"release": release, **{name: [row[name] for row in rows] for name in COLUMNS}})
        cells = cells_of(answers, last + 1)
        _append_cells(books, release, cells)
        return list(answers_from(rows, cells))

    return books.transaction(work)


def _append_cells(books: Books, release: str, cells: Cells) -> None:
    """Inside a transaction: the values of answers, none of which may have any."""
    if not len(cells["cell"]):  # an INSERT of no rows before one of many: see `publication.write_rows`
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
    return _last(books, release), _digests(books, release)


def _digests(books: Books, release: str) -> list[str]:
    """The digests of a release's answers, in order, as they were recorded."""
    sql = "SELECT string_agg(digest, ' ' ORDER BY number) FROM dpsql.answer WHERE release = $key"
    ((digests,),) = books.run(sql, {"key": release})
    return (digests or "").split()


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
    try:
        return [answer for part, _ in _read(books, release) for answer in part]
    except _Changed:
        raise BooksError(f"the answers of a release are not those that were recorded; {ledger.ADVICE}") from None


def digest_of_answers(books: Books, release: str) -> str | None:
    """A digest of a release's answers; None if they are not as they were written."""
    try:
        return digest_of(digest for _, digests in _read(books, release) for digest in digests)
    except _Changed:
        return None


def digest_of(digests: Iterable[str]) -> str:
    """A digest of all answers, from the digest of each."""
    return hashlib.sha256(" ".join(digests).encode()).hexdigest()


class _Changed(Exception):
    """Answers cannot be read, or a row is not as it was written."""


def _read(books: Books, release: str) -> Iterator[tuple[Sequence[Answer], Sequence[str]]]:
    """The answers of a release, and the digest of each as it is now; in order, a part after the other.

    Raises:
        _Changed: they cannot be read, or a row is not as it was written.
    """
    sql = f"SELECT {', '.join(COLUMNS)} FROM dpsql.answer WHERE release = $release ORDER BY number"  # noqa: S608
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in books.run(sql, {"release": release})]
    sizes = dict(books.run(_SIZES, {"release": release}))
    if not rows or not sizes.keys() <= {row["number"] for row in rows}:
        raise _Changed
    first = rows[0]["number"]
    for part in _parts(rows, sizes):
        cells = _cells(books, release, part[0]["number"], part[-1]["number"])
        yield _as_written(part, cells, first)
        first += len(part)


def _as_written(rows: Sequence[dict[str, Any]], cells: Cells, first: int) -> tuple[Sequence[Answer], Sequence[str]]:
    """The answers of rows that are numbered from `first` on, and their digests.

    Raises:
        _Changed: see `_read`.
    """
    try:
        answers = list(answers_from(rows, cells))
        again = [row_of(number, answer) for number, answer in enumerate(answers, start=first)]
        values = cells_of(answers, first)
    except (ValueError, TypeError, KeyError, IndexError):
        raise _Changed from None
    if again != rows or not all(np.array_equal(values[name], cells[name]) for name in values):
        raise _Changed
    return answers, [row["digest"] for row in again]


def _parts(rows: Sequence[dict[str, Any]], sizes: Mapping[int, int]) -> Iterator[list[dict[str, Any]]]:
    """Rows of answers, as many together as have so many cells that one reads at a time."""
    part: list[dict[str, Any]] = []
    cells = 0
    for row in rows:
        size = sizes.get(row["number"], 0)
        if part and cells + size > _CELLS_AT_ONCE:
            yield part
            part, cells = [], 0
        part.append(row)
        cells += size
    if part:
        yield part


def _cells(books: Books, release: str, first: int, last: int) -> Cells:
    """The values of the answers with these numbers, and those between."""
    parameters = {"release": release, "first": first, "last": last}
    columns = books.cursor.execute(qualified(_CELLS, books.catalog), parameters).fetchnumpy()
    return {name: np.asarray(values, np.int64) for name, values in columns.items()}
