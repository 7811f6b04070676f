"""Releases that were stopped before they were published: go on with one, within limits, or let it fail."""

from __future__ import annotations

import json
from typing import Final

from dpsql.books.ledger import chain, ledger
from dpsql.books.ledger.accounts import account_key
from dpsql.books.ledger.ledger import ADVICE
from dpsql.books.ledger.migration import migrate
from dpsql.books.ledger.origin import check_place
from dpsql.books.ledger.store import Books
from dpsql.books.releases import journal
from dpsql.books.releases.releases import Entry, event_of
from dpsql.errors import BooksError, DpsqlError

MOST_RETRIES: Final = 3
"""How often rows are read again for a release that was stopped, before it has a new answer."""


def resume(books: Books, entry: Entry) -> None:
    """Before more is measured for a release: the books must fit together, and it must be what was charged.

    Raises:
        BooksError: it is not, or it was published before.
    """
    check_place(books)
    books.check_writable()
    with ledger.advised():
        migrate(books)
        ledger.advance(books)
        state = books.snapshot(lambda: ledger.checked(books)).state
    paid = state.unfinished.get(entry.key)
    if paid is None:
        raise BooksError(
            f"release {entry.number} was published already, or ended otherwise, but its answers are lost; {ADVICE}"
        )
    same = (paid.number, paid.source, paid.paid) == (entry.number, account_key(books, entry.source), entry.paid)
    if not (same and paid.covers(entry.rho, entry.gdp)):
        raise BooksError(f"release {entry.number} is not what was charged; {ADVICE}")
    if paid.answers is not None and journal.digest_of_answers(books, entry.key) != paid.answers:
        raise BooksError(f"release {entry.number} was published already, but its answers are lost; {ADVICE}")


def retry(books: Books, entry: Entry) -> None:
    """Record, before rows are read again for a release that was stopped, that they are: only so many times.

    Whether a run ends for lack of memory or disk depends on the rows, so free runs without end would tell of them.

    Raises:
        DpsqlError: rows were read as often as they may be since its last answer was stored; it has failed.
    """

    def work() -> bool:
        accounts = ledger.look(books).state.accounts
        last, _ = journal.written(books, entry.key)
        before = [retry for retry in chain.events_of(books.run, "retry", entry.key) if retry["answers"] == last]
        if len(before) >= MOST_RETRIES:
            return False
        event_of(books, "retry", entry, accounts, answers=last)
        return True

    if not ledger.commit(books, work):
        reason = f"it was stopped {MOST_RETRIES + 1} times before it had stored a new answer"
        fail(books, entry, reason)
        raise DpsqlError(
            f"{entry.called} failed: {reason}; its charge is kept. Ask with more memory or disk, or for "
            "fewer or smaller marginals, under another name, release := '…', which is charged anew"
        )


def fail(books: Books, entry: Entry, reason: str, *, was_stopped: bool = True) -> None:
    """Record that a release cannot be completed, and why, in words of released values only; its charge is kept.

    Args:
        books: of its database.
        entry: the release.
        reason: why.
        was_stopped: whether something stopped it that may depend on the rows; else noisy answers alone decided.
    """

    def work() -> None:
        accounts = ledger.look(books).state.accounts
        books.run(
            "UPDATE dpsql.release SET state = 'failed', report = $report WHERE key = $key",
            {"report": json.dumps({"failed": reason}), "key": entry.key},
        )
        event_of(books, "fail", entry, accounts, reason=reason, stopped=was_stopped)

    ledger.commit(books, work)
