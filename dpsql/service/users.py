"""The users that the books know: their tokens, roles, limits and released tables. A `Directory`."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from dpsql.api import analyst, owner_door
from dpsql.core.roles import CHARGING
from dpsql.runtime.progress import Progress

from . import arrow
from .directory import Bound, Columns, Credential, KnownUser, Published

if TYPE_CHECKING:
    from dpsql.api.database import Database
    from dpsql.books.ledger.chain import Link
    from dpsql.books.people import credentials

_KEPT: Final = 256
"""Calls whose binding is kept."""
_ASKABLE_SECONDS: Final = 60.0
"""For which it is kept what a user may ask about."""


@dataclass
class _Bound:
    """See `Bound`."""

    bound: analyst.Bound

    @property
    def columns(self) -> Columns:
        """See `Bound.columns`."""
        return list(self.bound.columns)

    @property
    def is_stored(self) -> bool:
        """See `Bound.is_stored`."""
        return self.bound.is_stored

    def is_of_now(self) -> bool:
        """See `Bound.is_of_now`."""
        return self.bound.is_of_now()

    def rows(self, progress: Progress, cancelled: Callable[[], bool]) -> Any:
        """See `Bound.rows`."""
        return self.bound.rows(progress, arrow.sent)


@dataclass(frozen=True)
class _Askable:
    """What a user may ask about.

    Attributes:
        since: the newest event of the ledger before it was looked up.
        looked: when, in seconds of a clock.
        tables: see `Directory.askable`.
    """

    since: Link
    looked: float
    tables: dict[str, list[tuple[str, str, str]]]


@dataclass
class _Published:
    """See `Published`."""

    name: str
    columns: Columns
    comment: str
    version: str
    audience: str
    schema: str
    keys: list[dict[str, Any]]
    required: list[str]
    reader: analyst.Analyst

    def read(self) -> Any:
        """See `Published.read`."""
        return self.reader.read(self.name, arrow.sent)


class Users:
    """See the module. The books are asked anew at each call.

    What a call for a release was bound to is kept, because one statement binds and runs it, and others ask it again. It
    is bound anew where anything but releases went on in the ledger since.

    Args:
        path: of the private database, which is opened without the owner's functions.
    """

    def __init__(self, path: str) -> None:
        from dpsql.api.database import connect

        self._database: Database = connect(path, owner=False)
        self._bound: OrderedDict[tuple[str, str, str], analyst.Bound] = OrderedDict()
        self._askable: dict[str, _Askable] = {}
        self._lock = threading.Lock()

    def find(self, user: str) -> KnownUser | None:
        """See `Directory.find`."""
        person = self._database.users.find(user)
        return None if person is None else KnownUser(person.role, _credential(person.credential))

    def nobody(self, user: str) -> Credential:
        """See `Directory.nobody`."""
        return _credential(self._database.credential_of_nobody(user))

    def bind(self, user: str, function: str, arguments: Mapping[str, object]) -> Bound:
        """See `Directory.bind`."""
        key = (user, function, json.dumps(arguments, sort_keys=True))
        with self._lock:
            earlier = self._bound.get(key)
        if earlier is not None and earlier.holds():
            return _Bound(earlier)
        bound = self._database.for_analyst(user).bind(function, arguments)
        if function in CHARGING and bound.relation.is_light:
            with self._lock:
                self._bound[key] = bound
                self._bound.move_to_end(key)
                while len(self._bound) > _KEPT:
                    self._bound.popitem(last=False)
        return _Bound(bound)

    def published(self, user: str) -> list[Published]:
        """See `Directory.published`. The comment says what the table is and promises, after the owner's own words."""
        reader = self._database.for_analyst(user)
        tables: list[Published] = []
        for table in reader.published():
            comment = "; ".join(text for text in (table.comment, table.guarantee, f"made by {table.mechanism}") if text)
            about = table.version, table.audience, table.schema, [asdict(key) for key in table.keys], [*table.required]
            tables.append(_Published(table.name, list(table.columns), comment, *about, reader))
        return tables

    def askable(self, user: str) -> dict[str, list[tuple[str, str, str]]]:
        """See `Directory.askable`. It is asked each second for each user, so it is kept until others could be meant.

        Domains are no events of the ledger: another one shows within `_ASKABLE_SECONDS`.
        """
        reader, now = self._database.for_analyst(user), time.monotonic()
        earlier = self._askable.get(user)
        if earlier is not None and now - earlier.looked < _ASKABLE_SECONDS and (newest := reader.still(earlier.since)):
            self._askable[user] = replace(earlier, since=newest)
            return earlier.tables
        since = reader.point()
        tables = {table.name: list(table.columns) for table in reader.askable()}
        self._askable[user] = _Askable(since, now, tables)
        return tables

    def budgets(self) -> list[tuple[str, float, float]]:
        """See `Directory.budgets`."""
        frame = self._database.budget()
        return [
            (str(source), float(whole), float(left))
            for source, whole, left in zip(frame["source"], frame["epsilon"], frame["epsilon_left"], strict=True)
        ]

    def owner(self, line: bytes) -> bytes:
        """See `Directory.owner`."""
        return owner_door.answer(self._database, line)

    def prepare(self, statement: str) -> None:
        """See `Directory.prepare`."""
        self._database.connection.execute(statement)

    def close(self) -> None:
        """See `Directory.close`."""
        self._database.close()


def _credential(stored: credentials.Credential) -> Credential:
    return Credential(stored.salt, stored.iterations, stored.stored_key, stored.server_key)


def open_users(path: str) -> Users:
    """The users of a database."""
    return Users(path)
