"""What an owner does about users and accounts: in a database that this process opens, or in the service that has it.

A service has its database open for as long as it runs, and no other process can open it meanwhile. So the service's
keeper listens for its owner at a Unix socket, which only the keeper's own user of the system may open, and of which
`<database>.dpsql-service` says where it is:

    request   {"method": …, "arguments": {…}}              one line each
    answer    {"result": …}  or  {"error": class, "message": …}
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dpsql import errors
from dpsql.api.plain_table import plain_table
from dpsql.core import unix_socket
from dpsql.core.digits import up
from dpsql.errors import DpsqlError, InvalidArgument
from dpsql.privacy.account import ADD_UP

if TYPE_CHECKING:
    import pandas as pd

    from dpsql.api.database import Database

SUFFIX: Final = ".dpsql-service"
_SECONDS: Final = 120.0
_LONGEST: Final = 2**24


def _list(db: Database) -> dict[str, Any]:
    users = db.users.list()
    empty = "no users: dpsql user add FILE NAME --limit TABLE=EPSILON adds one"
    return _shown(users, empty, _ADD_UP)


def _releases(db: Database) -> dict[str, Any]:
    releases = db.releases()
    releases["name"] = [json.loads(request).get("release", "") for request in releases["request"]]
    by = db.ledger().dropna(subset=["release"]).groupby("release")["username"].first()
    releases["user"] = releases["release"].map(by)
    shown = releases[["release", "name", "user", "source", "state", "mechanism", "epsilon", "rows"]]
    empty = "nothing was released: dpsql synthesize FILE TABLE --epsilon 1 --output TABLE.csv makes a release"
    return _shown(shown, empty)


def _shown(frame: pd.DataFrame, empty: str, below: str = "") -> dict[str, Any]:
    """A list as a command prints it.

    Args:
        frame: its rows.
        empty: what is said where there are none.
        below: what is said below where there are some.
    """
    objects = frame.astype(object).where(frame.notna(), None)
    text = plain_table(list(frame.columns), objects.itertuples(index=False), empty)
    shown = f"{text}\n{below}" if below and len(frame) else text
    return {"columns": list(frame.columns), "text": shown, "empty": not len(frame)}


def _change(db: Database, action: str, table: str, reason: str, epsilon: float | None = None) -> str:
    """Change a table's account; what it is now, in words."""
    if action == "unprotect":
        db.unprotect(table, reason)
        return f"{table}: no longer protected"
    if action == "raise":
        account = db.raise_budget(table, epsilon if epsilon is not None else 0.0, reason)
    else:
        changes = {"reset": db.reset, "retire": db.retire, "forgive": db.forgive}
        if action not in changes:
            raise InvalidArgument(f"action is {action!r}: say raise, {', '.join(changes)} or unprotect")
        account = changes[action](table, reason)
    return f"{account.source}: epsilon {up(account.epsilon)}, spent {account.spent_words}"


def _budget(db: Database) -> dict[str, Any]:
    empty = "no table is protected: dpsql init FILE proposes how"
    return _shown(db.sql(_BUDGET).df(), empty, _ADD_UP)


_ADD_UP: Final = f"What is spent and left may be more than the whole: {ADD_UP}."
_BUDGET: Final = (  # what matters, in eighty characters
    "SELECT source, epsilon, epsilon_spent, epsilon_left, delta, releases FROM dp_budget()"
)
METHODS: Final[Mapping[str, Callable[..., Any]]] = {
    "add": lambda db, **given: db.users.add(**given),
    "rotate": lambda db, **given: db.users.rotate(**given),
    "revoke": lambda db, **given: db.users.revoke(**given),
    "limit": lambda db, **given: db.users.limit(**given),
    "list": _list,
    "releases": _releases,
    "publish": lambda db, **given: db.publish(**given) and None,
    "unpublish": lambda db, **given: db.unpublish(**given),
    "share_releases": lambda db, **given: db.share_releases(**given),
    "change": lambda db, **given: _change(db, **given),
    "settle": lambda db, **given: db.settle(**given),
    "budget": _budget,
}
"""What can be asked for: each takes a `Database` and the arguments of its method."""


def perform(db: Database, method: str, arguments: Mapping[str, Any]) -> Any:
    """Do it in a database.

    Raises:
        InvalidArgument: there is no such method, or it has no such arguments.
    """
    if method not in METHODS:
        raise InvalidArgument(f"method is {method!r}: there are {', '.join(METHODS)}")
    try:
        return METHODS[method](db, **arguments)
    except TypeError as error:
        raise InvalidArgument(f"{method} does not take these arguments: {error}") from None


def answer(db: Database, line: bytes) -> bytes:
    """What the keeper answers to a request of its owner's."""
    try:
        request = json.loads(line)
        with db.instance.as_owner():
            answer: dict[str, Any] = {"result": perform(db, str(request["method"]), dict(request["arguments"]))}
    except DpsqlError as error:
        answer = {"error": type(error).__name__, "message": str(error)}
    except (ValueError, KeyError, TypeError):
        answer = {"error": "InvalidArgument", "message": "the request is none"}
    except Exception as error:  # whatever it is, the keeper goes on listening to its owner
        answer = {"error": "DpsqlError", "message": f"internal error ({type(error).__name__})"}
    return json.dumps(answer, default=str).encode() + b"\n"


def announce(database: str, listening: Path) -> Path:
    """Say where the keeper of a database listens for its owner; returns the file that says it.

    Args:
        database: path of the file.
        listening: the Unix socket.
    """
    announced = Path(f"{database}{SUFFIX}")
    announced.unlink(missing_ok=True)
    descriptor = os.open(announced, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(f"{listening}\n")
    return announced


def ask(database: str, opened: Callable[[str], Database], method: str, arguments: Mapping[str, Any]) -> Any:
    """Do it in the service that has a database open, or else in the database.

    Args:
        database: path of the file.
        opened: opens it.
        method: of `METHODS`.
        arguments: of the method, by name.

    Raises:
        DpsqlError: what the method raises; from a service with the same words, and its class where dpsql has it.
    """
    service = _service(database)
    if service is None:
        with opened(database) as db:
            return perform(db, method, arguments)
    with service:
        service.settimeout(_SECONDS)
        service.sendall(json.dumps({"method": method, "arguments": dict(arguments)}).encode() + b"\n")
        line = read_line(service)
    if not line:
        raise DpsqlError("the service ended before it answered: look with dpsql user list whether it was done")
    answer = json.loads(line)
    if "error" in answer:
        kind = getattr(errors, answer["error"], DpsqlError)
        raise (kind if issubclass(kind, DpsqlError) else DpsqlError)(answer["message"])
    return answer["result"]


def read_line(connection: socket.socket) -> bytes:
    """Up to a line break; nothing where the other side went away before, or sends too much."""
    line = b""
    while not line.endswith(b"\n"):
        part = connection.recv(2**16)
        if not part or len(line) > _LONGEST:
            return b""
        line += part
    return line


def is_served(database: str) -> bool:
    """Whether a service has a database open.

    Raises:
        DpsqlError: see `ask`.
    """
    service = _service(database)
    if service is not None:
        service.close()
    return service is not None


def _service(database: str) -> socket.socket | None:
    """A connection to the service that has a database open; None where none runs.

    Raises:
        DpsqlError: another user of the system could be listening there: after a crash anybody could make the folder
            that is no longer there.
    """
    pointer = Path(f"{database}{SUFFIX}")
    try:
        path = pointer.read_text(encoding="utf-8").strip()
        folder, mine = Path(path).parent.stat(), {os.geteuid(), Path(database).stat().st_uid}
    except (OSError, AttributeError):  # no Unix sockets on Windows
        return None
    if folder.st_uid not in mine or folder.st_mode & 0o022:
        raise DpsqlError(
            f"{pointer} names a socket in a folder that is another user's: if no service runs, remove that file"
        )
    try:
        return unix_socket.connect(path, _SECONDS)
    except OSError:  # it ended, perhaps by force
        return None
