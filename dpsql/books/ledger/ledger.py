"""The ledger of a database: look at it, record events in it, and bring its head up to them.

`chain` says how events hang together, `heads` what the file of a head says; this is both for one database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import duckdb

from dpsql.books.ledger import chain, heads, keys
from dpsql.books.ledger.accounts import states
from dpsql.books.ledger.chain import Link, Point
from dpsql.books.ledger.members import stated_members
from dpsql.books.ledger.periods import stated_periods
from dpsql.books.ledger.store import Books
from dpsql.errors import BooksError
from dpsql.privacy import course
from dpsql.privacy.ledger_state import state_from

Result = TypeVar("Result")
ADVICE: Final = (
    "nothing is charged until its owner has looked: dpsql ledger verify <file>, and, if it is to be used as it is, "
    "dpsql ledger accept <file> --reason '…'"
)


@contextmanager
def advised() -> Iterator[None]:
    """Says beside what does not fit together what its owner can do."""
    try:
        yield
    except keys.KeyMissing:
        raise
    except BooksError as error:
        raise BooksError(f"{error}; {ADVICE}") from None


# --- look -------------------------------------------------------------------------------------------------------------


def events(books: Books) -> int:
    """How many events the ledger has; 0 where there is none."""
    try:
        return int(books.run("SELECT count(*) FROM dpsql.event")[0][0])
    except duckdb.CatalogException:
        return 0


def look(books: Books) -> Point:
    """Inside a transaction, before it records an event: the newest point, whose accounts must be what the ledger says.

    Raises:
        BooksError: they are not, or the ledger or its head do not fit together.
    """
    books.looked = checked(books)
    return books.looked


def checked(books: Books) -> Point:
    """The newest point, at which the accounts are what the ledger says."""
    point = _newest(books)
    chain.check_accounts(point.state, states(books))
    chain.check_members(point.state, stated_members(books))
    chain.check_periods(point.state, stated_periods(books))
    return point


def _newest(books: Books) -> Point:
    """The newest point of the ledger, from the last that was verified."""
    with naming_key(books):
        point = chain.look(books.run, books.name, books.key, _head_point(books))
        if point.link.number and not books.takes_key:
            keys.check_key(books.key, point.state.key, books.head_path)
    return point


def _head_point(books: Books) -> Point | None:
    """The point that the head knows, if it says what a charge needs to know.

    Raises:
        KeyMissing: the head is sealed with a key that is not there, or by who does not have it.
    """
    head = None if books.head_path is None else heads.read_head(books.head_path)
    if head is None or head.course is None or "failed" not in head.course:  # of before releases that stop were counted
        return None
    try:
        state = state_from(head.accounts, head.course)
    except (KeyError, TypeError, ValueError):
        raise BooksError(f"the head of the ledger in {str(books.head_path)!r} is damaged") from None
    if state.key is not None:
        keys.check_key(books.key, state.key, books.head_path)
        if head.seal != keys.seal_of(head.sealed, books.key):
            raise BooksError(f"the head of the ledger in {str(books.head_path)!r} was not written by who has its key")
    return Point(Link(head.number, head.hash), state)


@contextmanager
def naming_key(books: Books) -> Iterator[None]:
    """Says what to do where the key of an event is not there."""
    try:
        yield
    except chain.WrongKey as wrong:
        keys.check_key(books.key, wrong.wanted, books.head_path)


# --- record -----------------------------------------------------------------------------------------------------------


def commit(books: Books, work: Callable[[], Result]) -> Result:
    """Do some work that may record events, in a transaction; then see to it that the head knows them."""
    result = books.transaction(work)
    if books.recorded:
        advance(books)
    return result


def event(
    books: Books,
    kind: str,
    source: str | None = None,
    /,
    accounts: chain.States | None = None,
    basis: str | None = None,
    number: int | None = None,
    **content: Any,
) -> int:
    """Record what happened, inside a transaction; with the account as it is then, as `accounts` say if given.

    Returns:
        The number of the event.
    """
    fields: dict[str, Any] = {name: value for name, value in content.items() if value is not None}
    if source is not None:
        accounts = states(books) if accounts is None else accounts
        fields |= {"source": source, "account": accounts.get(source)}
    at = datetime.now(UTC).replace(tzinfo=None).isoformat(sep=" ")
    fields |= {"kind": kind, "at": at, "version": course.VERSION}
    before = books.looked or _newest(books)
    added = chain.append(books.run, fields, before, books.key, basis, number)
    books.recorded, books.looked = (books.recorded[0] if books.recorded else before.link, added), added
    chain.remember(books.name, added)
    return added.link.number


# --- the head ---------------------------------------------------------------------------------------------------------


def advance(books: Books) -> None:
    """Bring the head up to the newest event, if it is one that the ledger has.

    Raises:
        BooksError: it knows an event that the ledger does not have, an account is not what was recorded, or the head
            cannot be read or written.
    """
    path = books.head_path
    if path is None:
        return
    with heads.lock:
        newest = _following(books, path) or books.snapshot(lambda: compare(books, path))
        if newest is not None:
            heads.write_head(path, newest)


def _following(books: Books, path: Path) -> heads.Head | None:
    """The head after the transaction that this session committed last, if that follows the one in the file."""
    recorded, books.recorded = books.recorded, None
    head = heads.read_head(path)
    if recorded is None or head is None or Link(head.number, head.hash) != recorded[0]:
        return None
    return head_at(books, head.books, recorded[1])


def compare(books: Books, path: Path) -> heads.Head | None:
    """What the head in a file, which must be an event of the ledger, should be now; None if it is the newest.

    Raises:
        BooksError: it is missing, or no event of the ledger.
    """
    head = heads.read_head(path)
    if head is None:
        raise BooksError(
            f"the head of the ledger is missing: {str(path)!r} does not exist (it was moved, or the environment "
            "variable DPSQL_HEADS is another one)"
        )
    newest = chain.newest(books.run, head.number)
    if newest == Link(head.number, head.hash) and head.course is not None:
        return None
    if head.number and chain.at(books.run, head.number) != Link(head.number, head.hash):
        raise BooksError(
            f"the database is older than the head of its ledger, or damaged: {str(path)!r} knows event "
            f"{head.number}, which is not in the ledger of {newest.number} events"
        )
    return head_at(books, head.books, checked(books))


def head_at(books: Books, identity: str, point: Point) -> heads.Head:
    """What a head of books with that id says that knows all up to a point, sealed if the ledger has a key."""
    state = point.state
    head = heads.Head(identity, point.link.number, point.link.hash, state.accounts, state.to_json())
    return replace(head, seal=keys.seal_of(head.sealed, books.key if state.key else None))


def secure(books: Books) -> None:
    """After something was read, and before it is published: see to it that the head knows it.

    Raises:
        BooksError: it does not, and cannot be brought up.
    """
    if books.inside or books.head_path is None:
        return
    head = heads.read_head(books.head_path)
    newest = chain.newest(books.run, 0 if head is None else head.number)
    if head is None or newest.number > head.number:
        if not books.is_writable:
            raise BooksError(
                f"database {books.catalog!r} has events that the head of its ledger does not know, and is read-only: "
                "open it for writing once"
            )
        advance(books)


def known_events(books: Books) -> int:
    """The number of the newest event that the head knows."""
    head = None if books.head_path is None else heads.read_head(books.head_path)
    return chain.newest(books.run).number if head is None else head.number
