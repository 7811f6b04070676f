"""The door of Quack, DuckDB's own protocol: checks passwords, and passes messages on to the process of each user.

    client ── HTTP ──▶ this process ── HTTP ──▶ the process of the user, in which DuckDB's server is: `quack_worker`

What users send is read there and nowhere else. Of a message this process reads its head only: see `quack_messages`. A
login is answered after the keeper has proven the password. The user's process never sees it: it gets a ticket in its
place. So what a user sends here ends their own process at most, and who has not logged in reaches none through it.

A request is read, and a password is proven, by a fixed number of threads: see `room`. All that comes after is passed on
by one thread: see `exchange`. So no client holds a thread that others need.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
import threading
from collections import Counter
from contextlib import suppress
from typing import Any, Final

from dpsql.errors import DpsqlError

from . import wire
from .audit import Audit
from .calls import Calls, Refused
from .exchange import Exchange, LoggingIn
from .front import LONGEST_NAME, prepare
from .options import Options
from .quack_messages import Head, NotQuack, Request, failure, head_of, with_password
from .relay import Pair, Relay
from .room import Room
from .scram import Client as Password
from .served import PULSE
from .workers import SESSION, Worker, Workers, silence_of

HOST: Final = "127.0.0.1"
_MODULE: Final = "dpsql.service.quack_worker"
_LOGIN_SECONDS: Final = 60.0
"""In which the process of a user answers a login, at least: it may have to start."""
_REFUSED: Final = failure("Authentication failed")
_ENDED: Final = "this session has ended: connect again, by DETACH and ATTACH"
_TROUBLE: Final = failure("the service could not read this request: it may have too little memory now")
"""Made before it is needed."""


class Client:
    """One connection, which is one request.

    Args:
        door: where it came.
        connection: the client's.
    """

    def __init__(self, door: QuackDoor, connection: socket.socket) -> None:
        self._door, self.connection = door, connection

    def run(self) -> None:
        """Take the request; whatever it is, it ends its own connection at most."""
        passed_on = False
        try:
            prepare(self.connection)
            request = Request.of(self.connection)
            passed_on = request is not None and self._door.take(self, request)
        except NotQuack as error:
            self._say(error.answer)
        except DpsqlError as error:
            self._say(failure(str(error)))
        except OSError:
            pass
        except Exception:
            self._say(_TROUBLE)
        finally:
            if not passed_on:
                self.connection.close()

    def refuse(self) -> None:
        """Say that the password is wrong, or that there is no such user."""
        self.connection.setblocking(False)
        self._say(_REFUSED)
        self.connection.close()

    def _say(self, answer: bytes) -> None:
        with suppress(OSError):
            self.connection.sendall(answer)

    def end(self) -> None:
        """End the connection, whatever its thread is at."""
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


class QuackDoor:
    """See the module.

    Args:
        options: of the service.
        audit: where events of users go.
    """

    def __init__(self, options: Options, audit: Audit) -> None:
        self._options, self._audit = options, audit
        self._calls = Calls(options.socket)
        self._room = Room(options.login_seconds)
        self._relay = Relay(audit, self._answered)
        self._relay.workers = self._workers = Workers(options, self._relay.watch, _MODULE)
        self._relay.start()
        self._sessions: dict[bytes, tuple[Worker, int]] = {}
        self._places: dict[int, str] = {}
        self._asking: Counter[int] = Counter()
        self._lock = threading.RLock()
        self._numbers = 0

    def serve(self, listening: socket.socket) -> None:
        """Answer clients until the process ends."""
        self._room.serve(listening, lambda connection, _: Client(self, connection))

    def take(self, client: Client, request: Request) -> bool:
        """Pass on a request, or refuse it later; whether one of these holds."""
        head = head_of(request.body)
        if head.is_login:
            return self._log_in(client, request, head)
        with self._lock:
            worker, number = self._sessions.get(head.session, (None, 0))
        if worker is None:
            raise DpsqlError(_ENDED)
        self._begin(worker.user, number)
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                worker.tell(SESSION, {}, theirs.fileno())
            body, silence = Request.written(request.body), silence_of(self._options)
            exchange = Exchange((client.connection, ours), number, worker, body, silence)
        except BaseException as error:
            ours.close()
            self._done(number)
            if isinstance(error, wire.Lost):
                raise DpsqlError(worker.reason[1]) from None
            raise
        self._relay.add(exchange)
        return True

    def _begin(self, user: str, number: int) -> None:
        """Count one more request of a session. The first of each always has a place.

        Raises:
            DpsqlError: there are as many as there may be.
        """
        most, own = self._options.connections, self._options.user_connections
        with self._lock:
            if self._asking[number]:
                of_user = sum(self._asking[place] for place, name in self._places.items() if name == user)
                if of_user >= own or self._asking.total() >= 2 * most:
                    raise DpsqlError(f"{of_user} statements of {user} run already: wait for one")
            self._asking[number] += 1

    def _done(self, number: int) -> None:
        with self._lock:
            self._asking[number] -= 1
            self._asking += Counter()  # without those of none

    def _answered(self, pair: Pair) -> None:
        """An exchange is over."""
        if not isinstance(pair, LoggingIn):
            self._done(pair.number)
        elif pair.session is None:
            self._workers.ended(pair.worker, pair.number)
            self._over(pair.number)

    # --- logins -----------------------------------------------------------------------------------------------------

    def _log_in(self, client: Client, request: Request, head: Head) -> bool:
        user, _, password = head.password.partition(":")
        token = proven(self._calls, user, password) if len(user) <= LONGEST_NAME else None
        event = {"event": "login refused" if token is None else "login", "user": user[:LONGEST_NAME]}
        if user != PULSE:
            with suppress(DpsqlError):  # who only reads goes on where the audit log is full
                self._audit({**event, "address": f"quack {HOST}"})
        if token is None:
            self._room.refuse_later(client.refuse)
            return True
        self._room.leave(client)
        number, ticket = self._place(user), secrets.token_hex(16)
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                handshake: dict[str, Any] = {"user": user, "token": token, "number": number, "ticket": ticket}
                worker = self._workers.open(user, handshake, theirs, lambda: self._over(number))
            body = Request.written(with_password(request.body, head, ticket))
            silence = max(_LOGIN_SECONDS, silence_of(self._options))
            ends = client.connection, ours
            self._relay.add(LoggingIn(ends, number, worker, body, silence, self._note))
        except BaseException:
            ours.close()
            self._over(number)
            raise
        return True

    def _note(self, login: LoggingIn) -> None:
        """A session has begun."""
        with self._lock:
            if login.session is not None and login.number in login.worker.sessions:
                self._sessions[login.session] = login.worker, login.number

    def _place(self, user: str) -> int:
        """A number for one more session of a user.

        Raises:
            Full: there is no place.
        """
        with self._lock:
            self._numbers += 1
            if user == PULSE:
                return self._numbers
            self._options.check_place(user, len(self._places), list(self._places.values()).count(user))
            self._places[self._numbers] = user
            return self._numbers

    def _over(self, number: int) -> None:
        """A session has ended."""
        with self._lock:
            self._places.pop(number, None)
            self._sessions = {name: session for name, session in self._sessions.items() if session[1] != number}


def proven(calls: Calls, user: str, token: str) -> str | None:
    """What proves to the keeper that a user logged in; None where the token is wrong, or there is no such user."""
    client = Password(token)
    try:
        with calls.login(user, client.first) as exchange:
            return exchange.final(client.final(exchange.first))[1]
    except Refused:
        return None


def main() -> None:
    """`python -m dpsql.service.quack`, with the options on standard input; ends when its standard input does."""
    from .process import audit_of, limit_memory, most_of_front, raise_descriptors, until_told

    options = Options.from_json(sys.stdin.readline())
    limit_memory(most_of_front(options))
    raise_descriptors()
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
