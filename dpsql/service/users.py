"""The users that the books know: their tokens, roles, limits and released tables. A `Directory`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpsql.api import analyst, owner_door
from dpsql.runtime.progress import Progress

from . import arrow
from .directory import Bound, Columns, Credential, Published

if TYPE_CHECKING:
    from dpsql.api.database import Database
    from dpsql.books import credentials


@dataclass
class _Bound:
    """See `Bound`."""

    bound: analyst.Bound

    @property
    def columns(self) -> Columns:
        """See `Bound.columns`."""
        return list(self.bound.columns)

    def rows(self, progress: Progress, cancelled: Callable[[], bool]) -> Any:
        """See `Bound.rows`."""
        return self.bound.rows(progress, arrow.sent)


@dataclass
class _Published:
    """See `Published`."""

    name: str
    columns: Columns
    comment: str
    version: str
    audience: str
    reader: analyst.Analyst

    def read(self) -> Any:
        """See `Published.read`."""
        return self.reader.read(self.name, arrow.sent)


class Users:
    """See the module. Nothing is kept between calls: each asks the books anew.

    Args:
        path: of the private database, which is opened without the owner's functions.
    """

    def __init__(self, path: str) -> None:
        from dpsql.api.database import connect

        self._database: Database = connect(path, owner=False)

    def credential(self, user: str) -> Credential | None:
        """See `Directory.credential`."""
        found = self._database.credential(user)
        return None if found is None else _credential(found)

    def nobody(self, user: str) -> Credential:
        """See `Directory.nobody`."""
        return _credential(self._database.credential_of_nobody(user))

    def role(self, user: str) -> str | None:
        """See `Directory.role`."""
        return self._database.user_role(user)

    def bind(self, user: str, function: str, arguments: Mapping[str, object]) -> Bound:
        """See `Directory.bind`."""
        return _Bound(self._database.for_analyst(user).bind(function, arguments))

    def published(self, user: str) -> list[Published]:
        """See `Directory.published`. The comment says what the table is and promises, after the owner's own words."""
        reader = self._database.for_analyst(user)
        found: list[Published] = []
        for one in reader.published():
            comment = "; ".join(text for text in (one.comment, one.guarantee, f"made by {one.mechanism}") if text)
            found.append(_Published(one.name, list(one.columns), comment, one.version, one.audience, reader))
        return found

    def budgets(self) -> list[tuple[str, float, float]]:
        """See `Directory.budgets`."""
        found = self._database.budget()
        return [
            (str(one), float(whole), float(left))
            for one, whole, left in zip(found["source"], found["epsilon"], found["epsilon_left"], strict=True)
        ]

    def owner(self, line: bytes) -> bytes:
        """See `Directory.owner`."""
        return owner_door.answer(self._database, line)

    def close(self) -> None:
        """See `Directory.close`."""
        self._database.close()


def _credential(found: credentials.Credential) -> Credential:
    return Credential(found.salt, found.iterations, found.stored_key, found.server_key)


def open_users(path: str) -> Users:
    """The users of a database."""
    return Users(path)
