"""What of the private file a user of the service sees: tables that they have a limit on, releases, and names.

A user's own releases are theirs alone, unless the owner decided that users share releases: then those that were made
for all are everybody's. What is not theirs and what is not there are refused in the same words, for else the words
would tell what others asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import duckdb

from dpsql.books.ledger.accounts import account_key, account_now, list_accounts
from dpsql.books.ledger.members import list_members
from dpsql.books.ledger.store import Books
from dpsql.books.people import limits, people, published_tables
from dpsql.books.releases.releases import Entry, find_called, find_releases
from dpsql.core.period import table_of
from dpsql.engines.duckdb.names import current_schema, split_name
from dpsql.engines.registry import find_parts, find_source
from dpsql.engines.source import Source
from dpsql.errors import InvalidArgument, NotProtected, UnknownName

ALL_USERS: Final = "*"
"""Whose a release is that a user asked for while users share releases. No user can have that name."""


def alone_for(books: Books, by: str) -> str:
    """Whose a new release is: a user's own, `ALL_USERS` where users share releases, or empty for the owner's."""
    return ALL_USERS if by and people.shares_releases(books) else by


# --- tables -----------------------------------------------------------------------------------------------------------


def find_table(cursor: duckdb.DuckDBPyConnection, name: str | Sequence[str], search_path: str, by: str) -> Source:
    """The table that a name means to who asks: for a user one that they have a limit on, and never a view.

    Args:
        cursor: a connection of its own.
        name: as written, or its parts.
        search_path: where a bare name is looked up.
        by: the user; empty for the owner.

    Raises:
        UnknownName: in the same words whether there is none, or it is not for that user.
    """
    if not by:
        assert isinstance(name, str)
        return find_source(cursor, name, search_path)
    home = current_schema(cursor, search_path)
    parts = split_name(name) if isinstance(name, str) else tuple(name)
    text = name if isinstance(name, str) else ".".join(name)
    books = Books(cursor, home[0])
    people.require_person(books, by, role="analyst")
    try:
        source = None if parts is None else find_parts(cursor, parts, home)
    except (UnknownName, InvalidArgument):  # none, several, or a view
        source = None
    limited = {limit.source for limit in limits.list_limits(books, by)}
    if source is None or source.catalog != books.catalog or account_key(books, source.key) not in limited:
        raise UnknownName(
            f"there is no table {text[:200]!r} that {by!r} may ask about: FROM dp_budget() lists those that there are"
        )
    return source


def askable_sources(cursor: duckdb.DuckDBPyConnection, books: Books, by: str) -> list[Source]:
    """The tables that a user has a limit on, and those that share the budget of one."""
    accounts = dict.fromkeys(limit.source for limit in limits.list_limits(books, by))
    keys = [*accounts, *(member.source for member in list_members(books) if member.account in accounts)]
    sources = []
    for key in dict.fromkeys(keys):
        parts = split_name(key)
        with suppress(UnknownName, InvalidArgument, NotProtected):  # it was dropped, or is protected no longer
            assert parts is not None
            source = find_parts(cursor, parts, (books.catalog, "main"))
            account_now(books, account_key(books, source.key))
            sources.append(source)
    return sources


# --- releases ---------------------------------------------------------------------------------------------------------


def visible(books: Books, entries: Sequence[Entry], by: str) -> list[Entry]:
    """Those of some releases that who asks may know: the owner all; a user their own, and what they are shown."""
    if not by:
        return list(entries)
    numbers = {*own_numbers(books, by), *(table.release for table in published_tables.shown_to(books, by))}
    return [entry for entry in entries if entry.number in numbers]


def find_seen(books: Books, text: str, by: str, *, shown_too: bool) -> list[Entry]:
    """The releases that a name, key or number means to a user.

    A number is a place among the user's own releases, because the numbers of the ledger tell how much others ask.

    Args:
        books: of the user.
        text: the name or key of a release of their own, or its place; or a name under which one is shown.
        by: the user.
        shown_too: whether what they are shown counts.
    """
    named = [table for table in published_tables.shown_to(books, by) if shown_too and table.name == text]
    if named:
        return [
            entry
            for table in named
            for entry in find_releases(books, str(table.release))
            if entry.number == table.release
        ]
    own = own_numbers(books, by)
    if text.isdecimal() and len(text) < 10 and 1 <= int(text) <= len(own):
        number = own[int(text) - 1]
        return [entry for entry in find_releases(books, str(number)) if entry.number == number]
    return [entry for entry in find_called(books, text) if entry.number in own]


def own_numbers(books: Books, by: str) -> list[int]:
    """The ledger's numbers, in order, of releases that a user paid for, and of those that all users share.

    Of the latter those of tables that the user has a limit on: others they may not know of.
    """
    shared = people.shares_releases(books)
    accounts = {limit.source for limit in limits.list_limits(books, by)}
    tables = [*accounts, *(member.source for member in list_members(books) if member.account in accounts)]
    tables += [account.source for account in list_accounts(books) if table_of(account.source) in accounts]
    rows = books.run(
        "SELECT number FROM dpsql.release WHERE json_extract_string(request, '$.for') = $by "
        "OR json_extract_string(request, '$.for') = $all "
        "AND ($shared AND list_contains($tables::VARCHAR[], source) OR number IN "
        "(SELECT number FROM dpsql.payer WHERE person = $by)) ORDER BY number",
        {"by": by, "all": ALL_USERS, "shared": shared, "tables": tables},
    )
    return [int(number) for (number,) in rows]
