"""The door of Quack, DuckDB's own protocol: checks passwords, and passes messages on to the process of each user.

    client ── HTTP ──▶ this process ── HTTP ──▶ the process of the user, in which DuckDB's server is: `quack_worker`

What users send is read there and nowhere else. Of a message this process reads its head only: see `quack_messages`. A
login is answered after the keeper has proven the password. The user's process never sees it: it gets a ticket in its
place. So what a user sends here ends their own process at most, and who has not logged in reaches none through it.
Programs of this machine find the ports of those processes by themselves: see SECURITY.md.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import Any, Final

from dpsql.errors import DpsqlError

from . import wire
from .audit import Audit
from .calls import Calls, Refused
from .front import prepare
from .options import Options
from .quack_messages import Head, NotQuack, Request, failure, head_of, session_of, with_password
from .relay import Relay
from .scram import Client
from .served import PULSE
from .workers import Worker, Workers

HOST: Final = "127.0.0.1"
_MODULE: Final = "dpsql.service.quack_worker"
_PENDING: Final = 50
"""Requests that are on their way, or at a login; one more ends the one that has been at it for longest."""
_LOOK_SECONDS: Final = 0.1
_FAILED_SECONDS: Final = 0.5
_TICKET_SECONDS: Final = 60.0
_STACK_BYTES: Final = 512 << 10
_PIECE: Final = 1 << 17
_LONGEST_ANSWER: Final = 4096
"""Of the answer to a login."""
_ENDED: Final = "this session has ended: connect again, by DETACH and ATTACH"


class QuackDoor:
    """See the module.

    Args:
        options: of the service.
        audit: where events of users go.
    """

    def __init__(self, options: Options, audit: Audit) -> None:
        self._options, self._audit = options, audit
        self._calls = Calls(options.socket)
        relay = Relay(audit, lambda pair: None)
        relay.workers = self._workers = Workers(options, relay.watch, _MODULE)
        relay.start()
        self._sessions: dict[bytes, tuple[Worker, int]] = {}
        self._ports: dict[Worker, int] = {}
        self._places: dict[int, str] = {}
        self._asking: Counter[str] = Counter()
        self._pending: dict[socket.socket, float] = {}
        self._lock = threading.RLock()
        self._numbers = 0

    def serve(self, listening: socket.socket) -> None:
        """Answer clients until the process ends: each connection is one request."""
        threading.stack_size(_STACK_BYTES)
        threading.Thread(target=self._look, daemon=True).start()
        while True:
            connection = wire.accepted(listening)
            with self._lock:
                self._pending[connection] = time.monotonic() + self._options.login_seconds
                longest = next(iter(self._pending)) if len(self._pending) > _PENDING else None
                if longest is not None:
                    del self._pending[longest]
                    _end(longest)
            with suppress(RuntimeError):
                threading.Thread(target=self._answer, args=[connection], daemon=True).start()

    def _look(self) -> None:
        """End requests that take too long to come."""
        while True:
            time.sleep(_LOOK_SECONDS)
            with self._lock:
                for connection in [one for one, until in self._pending.items() if time.monotonic() > until]:
                    del self._pending[connection]
                    _end(connection)

    def _come(self, connection: socket.socket) -> None:
        """A request is here, and from somebody who has logged in."""
        with self._lock:
            self._pending.pop(connection, None)

    def _answer(self, connection: socket.socket) -> None:
        """Answer one request; whatever it is, it ends its own connection at most."""
        with connection:
            try:
                prepare(connection)
                request = Request.of(connection)
                if request is not None:
                    self._pass_on(connection, request)
            except NotQuack as error:
                _say(connection, error.answer)
            except DpsqlError as error:
                _say(connection, failure(str(error)))
            except OSError:
                pass
            finally:
                self._come(connection)

    def _pass_on(self, connection: socket.socket, request: Request) -> None:
        head = head_of(request.body)
        if head.is_login:
            self._log_in(connection, request, head)
            return
        with self._lock:
            worker, _ = self._sessions.get(head.session, (None, 0))
        if worker is None:
            raise DpsqlError(_ENDED)
        self._come(connection)
        self._begin(worker.user)
        try:
            with self._sent(worker, request.body) as answer:
                while piece := _received(answer):
                    request.is_answered = True
                    connection.sendall(piece)
            if not request.is_answered:
                time.sleep(_LOOK_SECONDS)  # the relay hears why
                raise DpsqlError(worker.reason[1])
        finally:
            with self._lock:
                self._asking.subtract([worker.user])

    def _begin(self, user: str) -> None:
        """Count one more request of a user's.

        Raises:
            DpsqlError: they have as many as they may.
        """
        with self._lock:
            if self._asking[user] >= self._options.user_connections:
                raise DpsqlError(f"{self._options.user_connections} statements of {user} run already: wait for one")
            self._asking[user] += 1

    def _sent(self, worker: Worker, body: bytes) -> socket.socket:
        """Where the answer of a user's process comes from; it is empty where the process has ended."""
        port = None if worker.dead else self._ports.get(worker)
        if port is None:
            raise DpsqlError(worker.reason[1])
        try:
            answer = socket.create_connection((HOST, port), timeout=_TICKET_SECONDS)
            answer.settimeout(None)  # the process ends what takes too long
            answer.sendall(Request.written(body))
        except OSError:
            raise DpsqlError(worker.reason[1]) from None
        return answer

    # --- logins -----------------------------------------------------------------------------------------------------

    def _log_in(self, connection: socket.socket, request: Request, head: Head) -> None:
        user, _, password = head.password.partition(":")
        token = None if user == PULSE else proven(self._calls, user, password)
        if token is None:
            with suppress(DpsqlError):
                self._audit({"event": "login refused", "user": user[:63], "address": f"quack {HOST}"})
            time.sleep(_FAILED_SECONDS)  # guesses cost time
            raise DpsqlError("Authentication failed")
        self._come(connection)
        with suppress(DpsqlError):
            self._audit({"event": "login", "user": user, "address": f"quack {HOST}"})
        number = self._place(user)
        worker = None
        try:
            worker, ticket = self._ticket(user, token, number)
            with self._sent(worker, with_password(request.body, head, ticket)) as answer:
                answer.settimeout(_TICKET_SECONDS)
                said = bytearray()
                while len(said) < _LONGEST_ANSWER and (piece := _received(answer)):
                    said += piece
            session = session_of(bytes(said))
        except BaseException:
            self._forget(number, worker)
            raise
        if session is None:
            if not said:
                worker.kill()  # it answers nothing, though it may go on beating
            self._forget(number, worker)
        else:
            with self._lock:
                if number in worker.sessions:
                    self._sessions[session] = worker, number
        connection.sendall(said or failure(_ENDED))

    def _place(self, user: str) -> int:
        """A number for one more session of a user.

        Raises:
            DpsqlError: there is no place.
        """
        most, own = self._options.connections, self._options.user_connections
        with self._lock:
            if len(self._places) >= most:
                raise DpsqlError(f"{most} clients are connected already, the most that there may be")
            if list(self._places.values()).count(user) >= own:
                raise DpsqlError(
                    f"{own} clients of {user} are connected already, the most that there may be of one user"
                )
            self._numbers += 1
            self._places[self._numbers] = user
            return self._numbers

    def _ticket(self, user: str, token: str, number: int) -> tuple[Worker, str]:
        """The process of a user, and a ticket for one login to it."""
        ours, theirs = socket.socketpair()
        told: dict[str, Any] = {"user": user, "token": token, "number": number}
        with ours:
            with theirs:
                worker = self._workers.open(user, told, theirs, lambda: self._over(number))
            ours.settimeout(_TICKET_SECONDS)
            try:
                port, ticket = json.loads(wire.receive(ours)[1])
            except (TimeoutError, wire.Lost, ValueError):
                self._workers.ended(worker, number)
                raise wire.Lost("the process of this user did not start") from None
        with self._lock:
            self._ports = {one: port for one, port in self._ports.items() if not one.dead}
            self._ports[worker] = int(port)
        return worker, str(ticket)

    def _forget(self, number: int, worker: Worker | None) -> None:
        """A login came to nothing."""
        if worker is not None:
            self._workers.ended(worker, number)
        self._over(number)

    def _over(self, number: int) -> None:
        """A session has ended."""
        with self._lock:
            self._places.pop(number, None)
            self._sessions = {name: found for name, found in self._sessions.items() if found[1] != number}


def proven(calls: Calls, user: str, token: str) -> str | None:
    """What proves to the keeper that a user logged in; None where the token is wrong, or there is no such user."""
    client = Client(token)
    try:
        with calls.login(user, client.first) as exchange:
            return exchange.final(client.final(exchange.first))[1]
    except Refused:
        return None


def _received(answer: socket.socket) -> bytes:
    try:
        return answer.recv(_PIECE)
    except OSError:  # the process ended
        return b""


def _say(connection: socket.socket, answer: bytes) -> None:
    with suppress(OSError):
        connection.sendall(answer)


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def main() -> None:
    """`python -m dpsql.service.quack`, with the options on standard input; ends when its standard input does."""
    from .process import audit_of, limit_memory, most_of_front, until_told

    options = Options.from_json(sys.stdin.readline())
    limit_memory(most_of_front(options))
    try:
        listening = socket.create_server((HOST, options.quack), backlog=128)
    except OSError as error:  # the port is taken
        sys.exit(f"dpsql: Quack cannot be served on port {options.quack}: {error.strerror}")
    door = QuackDoor(options, audit_of(options, "quack"))
    threading.Thread(target=door.serve, args=[listening], daemon=True).start()
    sys.stdout.write(f"ready {options.quack}\n")
    sys.stdout.flush()
    until_told()
    os._exit(0)  # threads may wait for clients


if __name__ == "__main__":
    main()
