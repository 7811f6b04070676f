"""Who may log in, and what each may call: the protocol between the keeper and whoever knows the users."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from dpsql.runtime.progress import Progress


@dataclass(frozen=True)
class Credential:
    """A verifier of SCRAM-SHA-256: who reads it can test a password, and cannot log in with it.

    Attributes:
        salt: of the password.
        iterations: of the hash.
        stored_key: see RFC 5802.
        server_key: see RFC 5802.
    """

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        """Without the keys, which are secrets."""
        return "Credential(…)"


@dataclass(frozen=True)
class KnownUser:
    """A user who may do something.

    Attributes:
        role: `reader` (released tables, and what is free) or `analyst` (releases, too).
        credential: what a password is checked with.
    """

    role: str
    credential: Credential


Columns = list[tuple[str, str]]
"""Names of columns, and their types as DuckDB writes them."""


class Bound(Protocol):
    """A call whose arguments were looked at, and nothing else: it has cost nothing yet."""

    @property
    def columns(self) -> Columns:
        """Of the result."""

    @property
    def is_stored(self) -> bool:
        """Whether its rows are there already: to run it charges nothing, and reads no private row."""

    def is_of_now(self) -> bool:
        """Whether nothing went on since that it depends on: to look it up again would give the same."""

    def rows(self, progress: Progress, cancelled: Callable[[], bool]) -> Any:
        """Do the work: charge, read, fit. A `pyarrow.RecordBatchReader` with these columns, cast by `arrow.sent`."""


class Published(Protocol):
    """A released table that analysts read.

    Attributes:
        name: analysts call it so; with its schema before it, where it has one.
        columns: its columns.
        comment: what it is.
        version: another text when its rows are others.
        audience: another text when others are shown it.
        schema: of a table of a linked release; empty of others.
        keys: its keys, each with the attributes of `dpsql.books.releases.keys.Key`.
        required: its columns that are NOT NULL in the table that it stands for.
    """

    name: str
    columns: Columns
    comment: str
    version: str
    audience: str
    schema: str
    keys: list[dict[str, Any]]
    required: list[str]

    def read(self) -> Any:
        """Its rows as a `pyarrow.RecordBatchReader`, cast by `arrow.sent`."""


class Directory(Protocol):
    """The users of a service. The keeper asks it at each call, so that who was revoked is refused at once."""

    def find(self, user: str) -> KnownUser | None:
        """A user as they are now; None if there is none of that name, or they were revoked."""

    def nobody(self, user: str) -> Credential:
        """What the password of a user who is not there is checked with; its salt is the same each time."""

    def bind(self, user: str, function: str, arguments: Mapping[str, object]) -> Bound:
        """A call by a user. The role was checked. Nothing is charged and no private row is read."""

    def published(self, user: str) -> list[Published]:
        """The released tables that a user is shown. The role was checked."""

    def askable(self, user: str) -> dict[str, list[tuple[str, str, str]]]:
        """The protected tables that a user may ask about: columns, types and what is declared of them."""

    def budgets(self) -> list[tuple[str, float, float]]:
        """Each protected table with its ε, and what is left of it."""

    def owner(self, line: bytes) -> bytes:
        """The answer to a request of the owner's: see `dpsql.api.owner_door`."""

    def prepare(self, statement: str) -> None:
        """Run a statement of the owner's before anybody is served; an error of DuckDB's is raised as it is."""

    def close(self) -> None:
        """The service ends."""
