"""Whether the books of a database fit together: before it is charged from, quickly; for its owner, whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import duckdb

from dpsql.books.ledger import chain, keys, ledger
from dpsql.books.ledger.accounts import states
from dpsql.books.ledger.members import stated_members
from dpsql.books.ledger.migration import REQUESTS, migrate, version
from dpsql.books.ledger.origin import check_no_others
from dpsql.books.ledger.periods import stated_periods
from dpsql.books.ledger.store import Books, catalogs_with_books
from dpsql.books.people import limits, people, published_tables
from dpsql.books.releases import journal, releases
from dpsql.books.releases.empty_releases import is_hollow
from dpsql.books.releases.releases import find_release
from dpsql.books.tables.write_table_ids import mark_tables
from dpsql.errors import BooksError

_GRANTED_MORE: Final = """
    SELECT r.number FROM dpsql.release AS r JOIN dpsql.event AS e ON e.number = r.number
    WHERE r.number > $anchor AND (e.content->>'$.kind' <> 'charge' OR r.rho > CAST(e.content->>'$.rho' AS HUGEINT)
      OR r.gdp > CAST(e.content->>'$.gdp' AS HUGEINT))
    ORDER BY r.number LIMIT 1
"""
"""A release that may have spent more than was charged for it."""
_OTHER_REQUESTS: Final = f"""
    SELECT r.key FROM dpsql.request AS r FULL JOIN ({REQUESTS}) AS e ON e.key = r.key
    WHERE r.number IS DISTINCT FROM e.number LIMIT 1
"""  # noqa: S608
"""A request that is kept to find its charge by, and not in the ledger so, or the other way round."""


def check_all(cursor: duckdb.DuckDBPyConnection) -> None:
    """Check the books of every attached database that can be written.

    Raises:
        BooksError: those of one do not fit together, or are lost; see `check`.
    """
    with_books = set(catalogs_with_books(cursor))
    sql = "SELECT database_name FROM duckdb_databases() WHERE type = 'duckdb' AND NOT internal AND NOT readonly"
    for (catalog,) in sorted(cursor.execute(sql).fetchall()):
        books = Books(cursor, catalog)
        if catalog in with_books:
            check(books)
            mark_tables(books)
        else:
            check_no_others(books)


def check(books: Books) -> None:
    """Refuse to charge where the ledger, an account, or the head outside the database do not fit together.

    Of events that the head knows, the newest 50,000 are looked at; `verify` looks at all.

    Raises:
        BooksError: they do not, or the database is read-only, or a newer version of dpsql wrote it.
    """
    books.check_writable()
    with ledger.advised():
        check_links(books)
        migrate(books)
        ledger.advance(books)


def check_links(books: Books) -> None:
    """Refuse a ledger of whose newest events one is not what was recorded.

    Raises:
        BooksError: says which.
    """
    books.snapshot(lambda: chain.check_links(books.run, ledger.checked(books), books.key))


def verify(books: Books) -> None:
    """The same of all events, and that no answer was changed. The database may be read-only: nothing is written.

    Raises:
        BooksError: the ledger, an account, the answers that were published and the head do not fit together.
    """
    check_events(books)
    path = books.head_path
    if path is not None:
        books.snapshot(lambda: ledger.compare(books, path))
    books.snapshot(lambda: _check_published(books))


def check_events(books: Books) -> None:
    """Look at every event; at the accounts, and at what is kept of requests to find them by.

    Raises:
        BooksError: they do not fit together.
    """
    books.snapshot(lambda: _check_events(books))


def _check_events(books: Books) -> None:
    with ledger.naming_key(books):
        state = chain.everything_follows(books.run, books.key).state
        keys.check_key(books.key, state.key, books.head_path)
    chain.check_accounts(state, states(books))
    chain.check_members(state, stated_members(books))
    chain.check_periods(state, stated_periods(books))
    chain.check_withdrawn(books.run)
    more = books.run(_GRANTED_MORE, {"anchor": state.anchor})
    if more:
        raise BooksError(f"release {more[0][0]} is not what was charged: it was granted more than the ledger says")
    if version(books) > 1 and books.run(_OTHER_REQUESTS, {"anchor": state.anchor}):
        raise BooksError("the requests that the books know are not those that the ledger says were charged")
    people.check_people(books)
    limits.check_limits(books)
    published_tables.check_shown(books)


def _check_published(books: Books) -> None:
    """Refuse releases that are not those whose digests the ledger has: of what was paid for, and what was published."""
    paid = {content["key"]: content["paid"] for content in chain.events_of(books.run, "charge")}
    withdrawn = {content["key"]: content["number"] for content in chain.events_of(books.run, "withdraw")}
    for event in chain.events_of(books.run, "publish"):
        if event["number"] < withdrawn.get(event["key"], 0):
            continue
        try:
            _check_release(books, event, paid)
        except (duckdb.Error, ValueError, TypeError, KeyError, IndexError, AssertionError) as error:
            raise BooksError(f"release {event['release']} cannot be read ({type(error).__name__})") from None


def _check_release(books: Books, event: Mapping[str, Any], paid: Mapping[str, str]) -> None:
    """Refuse a release that is not what its publication says, or not what was paid for, by key as far as is known.

    Raises:
        BooksError: says what is not.
    """
    number, entry = event["release"], find_release(books, event["key"])
    if entry is None or entry.state != "published" or entry.number != number:
        raise BooksError(f"release {number}, which was published, is lost")
    if event["key"] in paid and entry.paid != paid[event["key"]]:
        raise BooksError(f"the record of release {number} is not what was charged")
    if journal.digest_of_answers(books, event["key"]) != event["answers"]:
        raise BooksError(f"the answers of release {number} are not those that were published")
    if is_hollow(books, entry):
        raise BooksError(
            f"release {number} was published without its rows, by a defect of DuckDB 2.0.0: ask for it "
            "again as it was asked for, and it is made again from its stored measurements, free"
        )
    if releases.digest_of_published(entry.report, releases.digest_of_rows(books, entry)) != event["told"]:
        raise BooksError(f"the rows or the report of release {number} are not those that were published")
