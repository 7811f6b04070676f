"""The front's side of the socket: what it asks of the keeper."""

from __future__ import annotations

import io
import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from dpsql.core import unix_socket
from dpsql.errors import DpsqlError, Interrupted

from . import wire
from .directory import Columns
from .protected_names import Protected

_ANSWER_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.1
_PROTECTED: Final = ""
"""In place of an audience, which is never empty."""


class Refused(DpsqlError):
    """The keeper refused a call.

    Attributes:
        kind: the name of the error's class in the keeper.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class KeeperLost(DpsqlError):
    """The keeper ended, or has not started yet."""


def _never() -> bool:
    return False


def _silent(text: str) -> None:
    """Progress that nobody wants."""


@dataclass(frozen=True)
class Login:
    """Who logged in.

    Attributes:
        user: the name.
        token: what the keeper said of their token then; it refuses calls once that is another one.
    """

    user: str
    token: str

    @property
    def credentials(self) -> dict[str, str]:
        """What each request says."""
        return {"user": self.user, "token": self.token}


def own_name(name: str, schema: str) -> str:
    """What a shown table is called in its schema, which is empty for those that have none of their own."""
    return name[len(schema) + 1 :] if schema else name


@dataclass(frozen=True)
class Shown:
    """What a user may see.

    Attributes:
        role: of the user.
        tables: the released tables by name, each with the attributes of `directory.Published`.
        protected: the tables that they may ask about, see `protected_names`.
    """

    role: str
    tables: Mapping[str, Mapping[str, Any]]
    protected: Protected = field(default_factory=dict)

    @property
    def audiences(self) -> frozenset[tuple[str, str]]:
        """Who is shown the same tables, together with the same others, may share them, and a catalogue of them."""
        shown = [(name, str(table["audience"])) for name, table in self.tables.items()]
        return frozenset([*shown, *((name, _PROTECTED) for name in self.protected)])

    @property
    def places(self) -> frozenset[tuple[str, str]]:
        """Schema and name, in lower case, of the tables that have a schema of their own."""
        own = [(name, str(table.get("schema", ""))) for name, table in self.tables.items()]
        return frozenset((schema.lower(), own_name(name, schema).lower()) for name, schema in own if schema)

    def without_growth(self, before: Shown) -> Shown:
        """The same without the protected tables that were not there before: others share that catalogue."""
        return replace(
            self, protected={name: table for name, table in self.protected.items() if name in before.protected}
        )


class Calls:
    """What the front may ask.

    Attributes:
        path: of the keeper's socket.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def hello(self) -> list[dict[str, Any]]:
        """The functions that are served."""
        functions: list[dict[str, Any]] = self._answer({"call": "hello"})["functions"]
        return functions

    def status(self) -> dict[str, Any]:
        """Who waits, and what is left of each table's budget."""
        status: dict[str, Any] = self._answer({"call": "status"})
        return status

    def pulse(self, cancelled: Callable[[], bool] = _never) -> str:
        """The password with which the heartbeat logs in."""
        with self._call({"call": "pulse"}, cancelled) as answer:
            return str(answer.json())

    @contextmanager
    def login(self, user: str, first: str) -> Iterator[Exchange]:
        """A login by SCRAM, whose server is the keeper.

        Args:
            user: who says to be that.
            first: the client's first message.
        """
        began = time.monotonic()
        late = lambda: time.monotonic() - began > _ANSWER_SECONDS  # noqa: E731
        with self._call({"call": "login", "user": user, "first": first}, late) as answer:
            yield Exchange(answer.json(), answer)

    def shown(self, user: Login) -> Shown:
        """A user's role, and the released tables that they are shown.

        Raises:
            Refused: there is no such user, or they were revoked.
        """
        answer = self._answer({"call": "published", **user.credentials})
        return Shown(answer["role"], {table["name"]: table for table in answer["tables"]}, answer["protected"])

    def shown_now(self, user: Login) -> Shown | None:
        """The same; None where there is no such user any more."""
        try:
            return self.shown(user)
        except Refused:
            return None

    def bind(
        self, user: Login, function: str, arguments: Mapping[str, object], cancelled: Callable[[], bool] = _never
    ) -> Columns:
        """The columns of a call."""
        request = {"call": "bind", **user.credentials, "function": function, "arguments": arguments}
        with self._call(request, cancelled) as answer:
            return [(name, kind) for name, kind in answer.json()]

    @contextmanager
    def rows(
        self,
        user: Login,
        function: str,
        arguments: Mapping[str, object],
        cancelled: Callable[[], bool] = _never,
        notify: Callable[[str], None] = _silent,
    ) -> Iterator[tuple[Columns, pa.RecordBatchReader]]:
        """The rows of a call; what the keeper works on ends when `cancelled` says so.

        Raises:
            Interrupted: it was cancelled.
            KeeperLost: the keeper ended.
            Refused: with the keeper's words.
        """
        request = {"call": "rows", **user.credentials, "function": function, "arguments": arguments}
        with self._call(request, cancelled, notify) as answer:
            columns = [(name, kind) for name, kind in answer.json()]
            yield columns, pa.ipc.open_stream(pa.PythonFile(io.BufferedReader(answer, wire.PIECE), mode="r"))

    @contextmanager
    def read(self, user: Login, name: str, version: str) -> Iterator[pa.RecordBatchReader]:
        """The rows of a released table that a user is shown."""
        with self._call({"call": "read", **user.credentials, "name": name, "version": version}) as answer:
            yield pa.ipc.open_stream(pa.PythonFile(io.BufferedReader(answer, wire.PIECE), mode="r"))

    def _answer(self, request: dict[str, Any]) -> Any:
        began = time.monotonic()
        with self._call(request, lambda: time.monotonic() - began > _ANSWER_SECONDS) as answer:
            return answer.json()

    @contextmanager
    def _call(
        self,
        request: dict[str, Any],
        cancelled: Callable[[], bool] = _never,
        notify: Callable[[str], None] = _silent,
    ) -> Iterator[_Answer]:
        try:
            with unix_socket.connect(self.path, _ANSWER_SECONDS) as connection:
                wire.send(connection, b"J", json.dumps(request, default=str).encode())
                yield _Answer(connection, cancelled, notify)
        except (OSError, wire.Lost):
            raise KeeperLost("the service's keeper ended or is starting: try again in a moment") from None


@dataclass(frozen=True)
class Exchange:
    """A login that is under way.

    Attributes:
        first: the keeper's answer to the client's first message.
    """

    first: str
    answer: _Answer

    def final(self, message: str) -> tuple[str, str]:
        """The keeper's answer to the client's last message, and `Login.token`.

        Raises:
            Refused: the password is wrong.
        """
        answer = self.answer.reply(message)
        return str(answer["proof"]), str(answer["token"])


class _Answer(io.RawIOBase):
    """The frames of an answer; as a file, the Arrow stream in them."""

    def __init__(self, connection: socket.socket, cancelled: Callable[[], bool], notify: Callable[[str], None]) -> None:
        super().__init__()
        self._connection, self._cancelled, self._notify = connection, cancelled, notify
        self._left = b""
        self._ended = False

    def reply(self, value: str) -> Any:
        """Send a text, and read the answer to it."""
        wire.send_json(self._connection, value)
        return self.json()

    def json(self) -> Any:
        """The next frame, which is JSON."""
        kind, payload = self._next()
        if kind != b"J":
            raise wire.Lost("the keeper answered with something else")
        return json.loads(payload)

    def _next(self) -> tuple[bytes, bytes]:
        while True:
            self._await()
            self._connection.settimeout(_ANSWER_SECONDS)
            kind, payload = wire.receive(self._connection)
            if kind == b"P":
                self._notify(json.loads(payload))
            elif kind == b"E":
                error = json.loads(payload)
                raise Interrupted if error["class"] == "Interrupted" else Refused(error["class"], error["message"])
            else:
                return kind, payload

    def _await(self) -> None:
        """Wait for a frame, and look whether it is wanted still."""
        self._connection.settimeout(_LOOK_SECONDS)
        while True:
            if self._cancelled():
                raise Interrupted
            try:
                self._connection.recv(1, socket.MSG_PEEK)
            except TimeoutError:
                continue
            return

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Bytes of the Arrow stream."""
        while not self._left and not self._ended:
            kind, payload = self._next()
            self._ended, self._left = kind == b"Z", payload if kind == b"A" else b""
        count = min(len(buffer), len(self._left))
        buffer[:count], self._left = self._left[:count], self._left[count:]
        return count
