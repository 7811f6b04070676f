"""Released tables that their owner shows to users, under names; every change is an event of the ledger.

The name of a linked release is that of a schema, which has all its tables. They are shown and hidden together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from dpsql.books.ledger import ledger
from dpsql.books.ledger.store import Books
from dpsql.books.people.people import SINCE_ACCEPTED, Person, active, require_person
from dpsql.books.releases.keys import own_names
from dpsql.books.releases.releases import Entry, find_releases
from dpsql.books.releases.schema import replace_schema
from dpsql.core.names import fold
from dpsql.errors import BooksError, InvalidArgument, UnknownName

AUDIENCES: Final = ("analysts", "everyone")
LONGEST_COMMENT: Final = 2000
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_RESERVED: Final = frozenset({"main", "temp", "system", "memory", "information_schema", "pgx", "pgi"})
"""Schemas and databases that each process of a user has; those that begin with dpsql or pg_ are so, too."""
_LAST: Final = """
    SELECT arg_max(content->>'$.release', number) FROM dpsql.event
    WHERE (content->>'$.kind') = 'show' AND lower(content->>'$.name') = lower($name)
"""
_LISTED: Final = "SELECT name, release, audience, people, comment FROM dpsql.shown ORDER BY name"
_EVENTS: Final = f"""
    SELECT content->>'$.name', arg_max(content, number) FROM dpsql.event
    WHERE (content->>'$.kind') IN ('show', 'hide') AND {SINCE_ACCEPTED} GROUP BY 1
"""  # noqa: S608


@dataclass(frozen=True)
class Shown:
    """A released table as users see it, or all tables of a linked release.

    Attributes:
        name: under which it is shown; of a linked release the schema of its tables.
        release: the ledger's number of the release whose rows it has.
        audience: `analysts`, `everyone` (readers too), or `users`.
        people: the names of those users.
        comment: what the owner says of it.
    """

    name: str
    release: int
    audience: str
    people: tuple[str, ...]
    comment: str

    def is_for(self, person: Person) -> bool:
        """Whether a user is shown it."""
        if self.audience == "users":
            return person.name in self.people
        return self.audience == "everyone" or person.role == "analyst"


def show(books: Books, entry: Entry, name: str, audience: str | Sequence[str], comment: str) -> Shown:
    """Inside a transaction: show a release to users; a name that is shown already gets the new release.

    The tables of a linked release are made in a schema of the database, too, in place of those that were published
    under that name before.

    Raises:
        InvalidArgument: the name is none, the release has no published rows, the audience is none, the comment is
            long, or the schema has a table of another kind.
        UnknownName: there is no active user of a name in the audience.
        DpsqlError: DuckDB cannot make the tables; says why.
    """
    if not _NAME.fullmatch(name):
        raise InvalidArgument(
            f"name is {name[:80]!r}: give a letter or _, then letters, digits or _, at most 63 in all"
        )
    if entry.state != "published" or entry.rows is None or "query" in json.loads(entry.request):
        raise InvalidArgument(f"release {entry.number} is no synthetic table that was made: publish a synthetic table")
    if len(comment) > LONGEST_COMMENT:
        raise InvalidArgument(f"comment has {len(comment)} characters, more than {LONGEST_COMMENT}: give a shorter one")
    for other in list_shown(books):
        if fold(other.name) == fold(name) and other.name != name:
            raise InvalidArgument(f"name is {name!r}, and {other.name!r} is shown already: give another name")
    shown_table = Shown(name, entry.number, *_audience(books, audience), comment)
    if entry.linked is not None:
        _check_schema(name)
        replace_schema(books, _last(books, name), entry, name)
    _write(books, shown_table)
    return shown_table


def _check_schema(name: str) -> None:
    if fold(name) in _RESERVED or fold(name).startswith(("dpsql", "pg_")):
        raise InvalidArgument(
            f"name is {name!r}, a schema that every database of the service has: give another one, such as 'synthetic'"
        )


def _last(books: Books, name: str) -> Entry | None:
    """The linked release that was shown under a name last, also where it is hidden by now."""
    ((number,),) = books.run(_LAST, {"name": name})
    entries = [] if number is None else find_releases(books, str(number))
    return next(
        (entry for entry in entries if str(entry.number) == number and entry.tables and entry.rows is not None), None
    )


def tables_of(table: Shown, entry: Entry) -> dict[str, int]:
    """The tables that are shown by their names, with the places that they have in their release."""
    if entry.linked is None:
        return {table.name: 0}
    return {f"{table.name}.{name}": place for place, name in enumerate(own_names(entry))}


def _audience(books: Books, audience: str | Sequence[str]) -> tuple[str, tuple[str, ...]]:
    if isinstance(audience, str):
        if audience not in AUDIENCES:
            raise InvalidArgument(f"audience is {audience!r}: give 'analysts', 'everyone', or a list of users' names")
        return audience, ()
    if not audience:
        raise InvalidArgument("audience is an empty list: give the names of users, 'analysts' or 'everyone'")
    return "users", tuple(sorted({active(books, name).name for name in audience}))


def _write(books: Books, table: Shown) -> None:
    books.run("DELETE FROM dpsql.shown WHERE name = $name", {"name": table.name})
    row: dict[str, Any] = {"name": table.name, "release": table.release, "audience": table.audience}
    row |= {"people": list(table.people), "comment": table.comment}
    books.run("INSERT INTO dpsql.shown VALUES ($name, $release, $audience, $people, $comment)", row)
    ledger.event(books, "show", **row)


def hide(books: Books, name: str) -> None:
    """Inside a transaction: show a table no longer; who read it keeps what they read.

    Raises:
        UnknownName: none of that name is shown.
    """
    if name not in {table.name for table in list_shown(books)}:
        names = ", ".join(table.name for table in list_shown(books)) or "none"
        raise UnknownName(f"no table {name[:80]!r} is published to users; there are {names}")
    books.run("DELETE FROM dpsql.shown WHERE name = $name", {"name": name})
    ledger.event(books, "hide", name=name)


def forget(books: Books, person: str) -> None:
    """Inside a transaction: show a user nothing by their name any more; what is for no other user is hidden."""
    for table in list_shown(books):
        if person in table.people:
            others = tuple(name for name in table.people if name != person)
            if others:
                _write(books, replace(table, people=others))
            else:
                hide(books, table.name)


def list_shown(books: Books) -> list[Shown]:
    """All that is shown, by name."""
    if not books.has("shown"):
        return []
    rows = books.run(_LISTED)
    return [
        Shown(name, int(number), audience, tuple(names), comment) for name, number, audience, names, comment in rows
    ]


def shown_to(books: Books, by: str) -> list[Shown]:
    """What a user is shown, by name.

    Raises:
        NotAllowed: there is no such user any more.
    """
    person = require_person(books, by)
    return [table for table in list_shown(books) if table.is_for(person)]


# --- verify -----------------------------------------------------------------------------------------------------------


def check_shown(books: Books) -> None:
    """Refuse what is shown to users where it is not what the ledger says.

    Raises:
        BooksError: says which.
    """
    if not books.has("shown"):
        return
    events = {event["name"]: event for event in _events(books) if event["kind"] == "show"}
    rows = {table.name: table for table in list_shown(books)}
    for name in sorted({*events, *rows}):
        if name not in events or name not in rows or _of_event(events[name]) != rows[name]:
            raise BooksError(f"the table {name} that users are shown is not what the ledger says")


def _events(books: Books) -> list[dict[str, Any]]:
    return [json.loads(content) for _, content in books.run(_EVENTS)]


def _of_event(event: dict[str, Any]) -> Shown:
    return Shown(event["name"], event["release"], event["audience"], tuple(event["people"]), event["comment"])


def restate(books: Books) -> None:
    """Inside a transaction, after the chain began anew: record what is shown as it is."""
    for table in list_shown(books):
        _write(books, table)
