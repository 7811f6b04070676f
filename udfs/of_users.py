"""What the SQL functions that look into the books tell a user of the service: their own, and what they are shown."""

from __future__ import annotations

import json
from typing import Any, Final

import duckdb

from dpsql.books.ledger.accounts import find_account
from dpsql.books.ledger.store import Books
from dpsql.books.people import limits, people, published_tables, visible_names
from dpsql.books.releases.releases import Entry, find_releases
from dpsql.core.names import shorten
from dpsql.engines.duckdb.names import current_schema
from dpsql.engines.source import Source
from dpsql.errors import UnknownName
from dpsql.release.domains import public_domains

from .extension import Instance

BUDGET_COLUMNS: Final = {
    "source": "VARCHAR",
    "period": "VARCHAR",
    "epsilon": "DOUBLE",
    "delta": "DOUBLE",
    "epsilon_spent": "DOUBLE",
    "epsilon_left": "DOUBLE",
    "releases": "BIGINT",
}
RELEASE_COLUMNS: Final = {
    "release": "BIGINT",
    "published": "VARCHAR",
    "source": "VARCHAR",
    "state": "VARCHAR",
    "mechanism": "VARCHAR",
    "epsilon": "DOUBLE",
    "delta": "DOUBLE",
    "rho": "DOUBLE",
    "rows": "BIGINT",
    "guarantee": "VARCHAR",
    "request": "VARCHAR",
    "report": "VARCHAR",
    "key": "VARCHAR",
}
_OF_THE_LEDGER: Final = frozenset({"for", "earlier", "since", "release"})
"""What a request holds that tells of other users, or what its maker calls it."""
Row = tuple[object, ...]


def books_of(cursor: duckdb.DuckDBPyConnection, instance: Instance) -> Books:
    """The books that users are in: of the database that was opened."""
    return Books(cursor, current_schema(cursor, instance.home)[0])


def budget_rows(instance: Instance, by: str) -> list[Row]:
    """One row for each limit of a user: what they caused in the period, and may still ask for."""
    with instance.lookup() as cursor:
        books = books_of(cursor, instance)
        people.require_person(books, by)
        limited = [limit for limit in limits.list_limits(books, by) if find_account(books, limit.source) is not None]
        return [row for limit in limited for row in limits.rows_of(books, limit)]


def release_rows(instance: Instance, by: str) -> list[Row]:
    """One row for each release of a user's own, and for each that they are shown."""
    with instance.lookup() as cursor:
        books = books_of(cursor, instance)
        person = people.require_person(books, by)
        own = visible_names.own_numbers(books, by) if person.role == "analyst" else []
        shown_tables = published_tables.shown_to(books, by)
        names = {table.release: table.name for table in shown_tables}
        rows = [_row(_of_number(books, number), place, names.get(number)) for place, number in enumerate(own, 1)]
        others = [table for table in shown_tables if table.release not in own]
        return rows + [_row(_of_number(books, table.release), None, table.name) for table in others]


def askable(instance: Instance, table: str, search_path: str, by: str) -> Source:
    """The table of a name that a user may ask about.

    Raises:
        UnknownName: in the same words whether there is none, or it is not for them.
    """
    with instance.lookup() as cursor:
        return visible_names.find_table(cursor, table, search_path, by)


def domain_rows(instance: Instance, source: Source, by: str) -> list[Row]:
    """One row for each column of a table that a user may ask about: public declarations."""
    with instance.lookup() as cursor:
        people.require_person(books_of(cursor, instance), by, role="analyst")
        return [(source.key, *column_domain.declared) for column_domain in public_domains(cursor, source)]


def _of_number(books: Books, number: int) -> Entry:
    return next(entry for entry in find_releases(books, str(number)) if entry.number == number)


def _row(entry: Entry, place: int | None, name: str | None) -> Row:
    request: dict[str, Any] = json.loads(entry.request)
    fields = {key: value for key, value in request.items() if key not in _OF_THE_LEDGER}
    if place is not None:
        fields |= {"release": request.get("release", "")}
    spent = float(request["epsilon"]), float(request["delta"]), float(entry.rho)
    words = json.dumps(fields, ensure_ascii=False, sort_keys=True), json.dumps(dict(entry.report), ensure_ascii=False)
    key = None if place is None else entry.key  # of another's, it would tell whose
    rows = entry.rows if entry.state == "published" else None
    return (place, name, entry.source, entry.state, entry.mechanism, *spent, rows, entry.guarantee, *words, key)


def find_own(instance: Instance, text: str, by: str) -> tuple[str, Entry]:
    """The database and entry of a release of a user's own.

    Raises:
        UnknownName: in the same words whether there is none, or it is another user's.
    """
    with instance.lookup() as cursor:
        books = books_of(cursor, instance)
        people.require_person(books, by, role="analyst")
        matches = visible_names.find_seen(books, text, by, shown_too=False)
    if len(matches) != 1:
        count = "several releases are" if matches else "no release is"
        raise UnknownName(f"{count} called {shorten(text)!r}: give a number, name or key of dp_releases()")
    return books.catalog, matches[0]
