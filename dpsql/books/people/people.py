"""Users of the service, as the books know them: names, roles, and what tells a right token. Never a token.

Every change is an event of the ledger, with names and a digest of the verifier. `check` compares the rows with it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from dpsql.books.ledger import ledger
from dpsql.books.ledger.store import Books
from dpsql.books.people.credentials import Credential, new_token
from dpsql.core import roles
from dpsql.core.names import fold
from dpsql.errors import BooksError, InvalidArgument, NotAllowed, UnknownName

ROLES: Final = tuple(roles.ROLES)
"""A reader reads what is published; an analyst also asks. No user is an owner."""
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.@-]{0,62}")
_COLUMNS: Final = "name, role, state, salt, iterations, stored_key, server_key"
SHARED: Final = "share_releases"
SINCE_ACCEPTED: Final = "number >= (SELECT coalesce(max(number), 0) FROM dpsql.event WHERE basis IS NOT NULL)"
"""Of events: what the ledger says since its owner last accepted it as it was."""
_EVENTS: Final = f"""
    SELECT content->>'$.user', arg_max(content->>'$.role', number), arg_max(content->>'$.state', number),
      arg_max(content->>'$.verifier', number)
    FROM dpsql.event
    WHERE (content->>'$.kind') = 'user' AND (content->>'$.verifier') IS NOT NULL AND {SINCE_ACCEPTED}
    GROUP BY 1 ORDER BY 1
"""  # noqa: S608
_DECIDED: Final = f"""
    SELECT content->>'$.value' FROM dpsql.event
    WHERE (content->>'$.kind') = 'decide' AND (content->>'$.name') = $name AND {SINCE_ACCEPTED}
    ORDER BY number DESC LIMIT 1
"""  # noqa: S608


@dataclass(frozen=True)
class Person:
    """A user.

    Attributes:
        name: as they log in.
        role: of `ROLES`.
        state: `active` or `revoked`.
        credential: what tells their token.
    """

    name: str
    role: str
    state: str
    credential: Credential

    @property
    def is_active(self) -> bool:
        """Whether they may do anything."""
        return self.state == "active"


# --- find -------------------------------------------------------------------------------------------------------------


def list_people(books: Books) -> list[Person]:
    """All users, by name; none where the books are older than users are."""
    if not books.has("person"):
        return []
    return [_person(row) for row in books.run(f"SELECT {_COLUMNS} FROM dpsql.person ORDER BY name")]  # noqa: S608


def find_person(books: Books, name: str) -> Person | None:
    """The user of that name, None if there is none."""
    if not books.has("person"):
        return None
    rows = books.run(f"SELECT {_COLUMNS} FROM dpsql.person WHERE name = $name", {"name": name})  # noqa: S608
    return _person(rows[0]) if rows else None


def require_person(books: Books, name: str, *, role: str = "reader") -> Person:
    """The user of that name, who is active and has at least that role, as this transaction sees it.

    Raises:
        NotAllowed: in the same words whether there is no such user, they were revoked, or have another role.
    """
    person = find_person(books, name)
    if person is None or not person.is_active or ROLES.index(person.role) < ROLES.index(role):
        raise NotAllowed(
            f"user {name!r} may not do this: there is no such {role}, or they were revoked; the owner says "
            f"dpsql user list <file>, and dpsql user add <file> {name} --role {role}"
        )
    return person


def _person(row: Sequence[Any]) -> Person:
    name, role, state, salt, iterations, stored, server = row
    keys = bytes.fromhex(salt), int(iterations), bytes.fromhex(stored), bytes.fromhex(server)
    return Person(name, role, state, Credential(*keys))


# --- change -----------------------------------------------------------------------------------------------------------


def add_person(books: Books, name: str, role: str) -> str:
    """Inside a transaction: a new user, or one who was revoked, with a new token, which is returned and not kept.

    Raises:
        InvalidArgument: the name or role is none, or there is an active user of that name.
    """
    if not _NAME.fullmatch(name):
        raise InvalidArgument(
            f"name is {name[:80]!r}: give a letter, then letters, digits or any of _ . @ -, at most 63 in all"
        )
    if role not in ROLES:
        raise InvalidArgument(f"role is {role!r}: give 'reader' or 'analyst'")
    for person in list_people(books):
        if fold(person.name) == fold(name) and (person.is_active or person.name != name):
            raise InvalidArgument(f"there is a user {person.name!r} already: dpsql user rotate gives them a new token")
    token, credential = new_token()
    _record(books, "add", Person(name, role, "active", credential))
    return token


def rotate_token(books: Books, name: str) -> str:
    """Inside a transaction: a new token for an active user, which is returned and not kept; the old one ends.

    Raises:
        UnknownName: there is no active user of that name.
    """
    person = active(books, name)
    token, credential = new_token()
    _record(books, "rotate", Person(name, person.role, "active", credential))
    return token


def revoke_person(books: Books, name: str) -> None:
    """Inside a transaction: a user may do nothing any more; what they caused stays theirs.

    Raises:
        UnknownName: there is no active user of that name.
    """
    person = active(books, name)
    _record(books, "revoke", Person(name, person.role, "revoked", person.credential))


def active(books: Books, name: str) -> Person:
    """The active user of that name, for the owner.

    Raises:
        UnknownName: there is none.
    """
    active_person = find_person(books, name)
    if active_person is None or not active_person.is_active:
        active_names = [person.name for person in list_people(books) if person.is_active]
        raise UnknownName(f"there is no active user {name!r}; there are {', '.join(active_names) or 'none'}")
    return active_person


def _record(books: Books, action: str, person: Person) -> None:
    credential = person.credential
    row = {
        "name": person.name,
        "role": person.role,
        "state": person.state,
        "salt": credential.salt.hex(),
        "iterations": credential.iterations,
        "stored_key": credential.stored_key.hex(),
        "server_key": credential.server_key.hex(),
    }
    books.run("DELETE FROM dpsql.person WHERE name = $name", {"name": person.name})
    values = ", ".join(f"${name}" for name in row)
    books.run(f"INSERT INTO dpsql.person ({_COLUMNS}) VALUES ({values})", row)  # noqa: S608
    about: dict[str, Any] = {
        "user": person.name,
        "role": person.role,
        "state": person.state,
        "verifier": credential.digest,
    }
    ledger.event(books, "user", action=action, **about)


# --- what the owner decided for all -----------------------------------------------------------------------------------


def shares_releases(books: Books) -> bool:
    """Whether users get each other's releases again, free; they do not unless the owner decided it."""
    if not books.has("decision"):
        return False
    rows = books.run("SELECT value FROM dpsql.decision WHERE name = $name", {"name": SHARED})
    return bool(rows) and rows[0][0] == "true"


def share_releases(books: Books, *, shared: bool) -> None:
    """Inside a transaction: decide it."""
    value = "true" if shared else "false"
    books.run("DELETE FROM dpsql.decision WHERE name = $name", {"name": SHARED})
    books.run("INSERT INTO dpsql.decision VALUES ($name, $value)", {"name": SHARED, "value": value})
    ledger.event(books, "decide", name=SHARED, value=value)


# --- verify -----------------------------------------------------------------------------------------------------------


def restate(books: Books) -> None:
    """Inside a transaction, after the chain began anew: record users, and what was decided for them, as they are."""
    for person in list_people(books):
        _record(books, "accept", person)
    if shares_releases(books):
        share_releases(books, shared=True)


def check_people(books: Books) -> None:
    """Refuse users, or what the owner decided, that are not what the ledger says.

    Raises:
        BooksError: says whose.
    """
    if not books.has("person"):
        return
    stated = {name: (role, state, verifier) for name, role, state, verifier in books.run(_EVENTS)}
    rows = {p.name: (p.role, p.state, p.credential.digest) for p in list_people(books)}
    for name in sorted({*stated, *rows}):
        if stated.get(name) != rows.get(name):
            raise BooksError(f"user {name} is not what the ledger says")
    decided = books.run(_DECIDED, {"name": SHARED})
    if shares_releases(books) != (bool(decided) and decided[0][0] == "true"):
        raise BooksError("whether users share releases is not what the ledger says")
