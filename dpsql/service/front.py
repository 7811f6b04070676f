"""The front: the process that analysts connect to. It never opens the private file, and loads none of the fits."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import ssl
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from dpsql.errors import DpsqlError

from .allowlist import AllowList
from .analysis import Analyses
from .analyst import Analyst, Shared
from .audit import Audit
from .calls import Calls, KeeperLost, Login
from .metrics import Counted, Endpoint, text_of
from .options import Options, address_of
from .pgwire.commands import STATUS
from .pgwire.messages import LONGEST, BadMessage, Channel, Closed, text
from .pgwire.session import Session
from .pgwire.startup import CancelRequest, LoginFailed, authenticate, begin
from .process import until_told

_LOOK_SECONDS: Final = 0.05
_MOST_PENDING: Final = 200
_LONGEST_NAME: Final = 63
_SEND_SECONDS: Final = 60
"""In which a client must take something of what it is sent: who reads nothing keeps a place that others want."""
_KEEPALIVE: Final = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 20, "TCP_KEEPCNT": 3}
"""Seconds after which a client that says nothing is asked whether it is there; and how often, before it is gone."""
_FAILED_SECONDS: Final = 0.5
_GOODBYE_SECONDS: Final = 1.0
_RIGHTS_SECONDS: Final = 1.0
_CHANGED: Final = "terminating connection because what you may do or see was changed: connect again"
_GOODBYE: Final = "terminating connection because the service stops"


class Full(DpsqlError):
    """As many clients are connected as there may be."""


class Front:
    """Listens, and has a thread for each client."""

    def __init__(self, options: Options, audit: Audit) -> None:
        self.options, self.audit = options, Counted(audit)
        self.calls = Calls(options.socket)
        self.shared = Shared(Analyses(self.calls, options), self.calls, AllowList(), options, self.audit)
        self.tls = secured(options)
        self._clients: dict[tuple[int, int], Client] = {}
        self._pending: dict[Client, float] = {}
        self._logged_in: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._numbers = 0

    def reload(self) -> None:
        """Read the certificate again: new connections have it. Where it cannot be used, the one before stays."""
        try:
            self.tls = secured(self.options)
        except (OSError, ValueError) as error:
            sys.stderr.write(f"dpsql: the certificate {self.options.certificate} cannot be used: {error}\n")

    def serve_metrics(self) -> None:
        """Answer who asks for metrics or health, where the options say so."""
        if self.options.metrics:
            endpoint = Endpoint(address_of(self.options.metrics), self._metrics, self._healthy)
            threading.Thread(target=endpoint.serve_forever, daemon=True).start()

    def _metrics(self) -> str:
        with self._lock:
            clients = self._logged_in.total(), len(self._pending)
        return text_of(clients, self.audit.events, self.calls.status)

    def _healthy(self) -> bool:
        try:
            return bool(self.calls.status())
        except DpsqlError:
            return False

    def listen(self) -> socket.socket:
        """The socket for analysts."""
        family = socket.AF_INET6 if ":" in self.options.host else socket.AF_INET
        return socket.create_server((self.options.host, self.options.port), family=family, backlog=128)

    def serve(self, listening: socket.socket) -> None:
        """Accept clients until the process ends.

        Who has not logged in takes no place of those who have. When too many come at once, the one that has been at it
        for longest is sent away, so that silent connections keep nobody out.
        """
        threading.Thread(target=self._look, daemon=True).start()
        threading.Thread(target=self._look_at_rights, daemon=True).start()
        while True:
            try:
                connection, address = listening.accept()
            except OSError:  # no descriptor is free, or the client has gone already
                time.sleep(_LOOK_SECONDS)
                continue
            client = Client(self, connection, str(address[0]))
            with self._lock:
                self._pending[client] = time.monotonic() + self.options.login_seconds
                longest = next(iter(self._pending)) if len(self._pending) > _MOST_PENDING else None
            if longest is not None:
                self.logged_in(longest)
                longest.end()
            try:
                threading.Thread(target=client.run, daemon=True).start()
            except RuntimeError:  # there are too many, or too little memory
                self.logged_in(client)
                connection.close()

    def logged_in(self, client: Client) -> None:
        """A client is at its login no longer."""
        with self._lock:
            self._pending.pop(client, None)

    @contextmanager
    def room(self, user: str) -> Iterator[None]:
        """A place of a user's among those who have logged in.

        Raises:
            Full: there is none.
        """
        most, own = self.options.connections, self.options.user_connections
        with self._lock:
            if self._logged_in.total() >= most:
                raise Full(f"{most} clients are connected already, the most that there may be")
            if self._logged_in[user] >= own:
                raise Full(f"{own} clients of {user} are connected already, the most that there may be of one user")
            self._logged_in[user] += 1
        try:
            yield
        finally:
            with self._lock:
                self._logged_in[user] -= 1

    def _look(self) -> None:
        """Interrupt what is cancelled or late, and end logins that take too long."""
        while True:
            time.sleep(_LOOK_SECONDS)
            with self._lock:
                late = [client for client, until in self._pending.items() if time.monotonic() > until]
            for client in late:
                client.end()
            for client in list(self._clients.values()):
                if client.analyst is not None:
                    client.analyst.look()

    def _look_at_rights(self) -> None:
        """End the sessions of users who were revoked, or may do or see else than when they came."""
        while True:
            time.sleep(_RIGHTS_SECONDS)
            clients = [(client.analyst, client) for client in list(self._clients.values())]
            for login in {analyst.login for analyst, _ in clients if analyst is not None}:
                with suppress(Exception):  # the keeper is starting again, or a table cannot be fetched: later
                    shown = self.calls.shown_now(login)
                    for analyst, client in clients:
                        if analyst is not None and analyst.login == login and not analyst.may_stay(shown):
                            client.goodbye(_CHANGED)

    def add(self, client: Client) -> tuple[int, int]:
        """The number and secret by which a client's statements are cancelled."""
        with self._lock:
            self._numbers += 1
            key = (self._numbers, secrets.randbelow(1 << 31))
            self._clients[key] = client
        return key

    def remove(self, key: tuple[int, int]) -> None:
        """The client has gone."""
        self._clients.pop(key, None)

    def cancel(self, request: CancelRequest) -> None:
        """Stop the statement of a client, if the secret is theirs."""
        client = self._clients.get((request.process, request.key))
        if client is not None and client.analyst is not None:
            client.analyst.cancel()

    def stop(self) -> None:
        """Tell all clients."""
        for client in list(self._clients.values()):
            client.goodbye(_GOODBYE)


class Client:
    """One connection, from its first byte on.

    Attributes:
        analyst: once they have logged in.
    """

    def __init__(self, front: Front, connection: socket.socket, address: str) -> None:
        self._front, self._address = front, address
        self._connection = connection
        self._channel = Channel(connection)
        self.analyst: Analyst | None = None

    def run(self) -> None:
        """Log in and serve; whatever a client sends ends its own connection at most."""
        try:
            prepare(self._connection)
            self._begin()
        except LoginFailed as failed:
            self._front.audit({"event": "login refused", "user": failed.user[:_LONGEST_NAME], "address": self._address})
            time.sleep(_FAILED_SECONDS)  # guesses cost time
        except BadMessage as error:
            self._tell("08P01", str(error))
        except KeeperLost as error:
            self._tell("57P03", str(error))
        except Full as error:
            self._tell("53300", str(error))
        except DpsqlError as error:  # revoked meanwhile, or no audit
            self._tell("58000", str(error))
        except (Closed, OSError):
            pass
        finally:
            self._front.logged_in(self)
            with suppress(OSError):
                self._channel.socket.close()
            self._connection.close()

    def _begin(self) -> None:
        """From the first byte to the end of the login, and on."""
        front, channel = self._front, self._channel
        found = begin(channel, front.tls)
        if isinstance(found, CancelRequest):
            front.cancel(found)
            return
        user = found["user"]
        token = authenticate(channel, user, front.calls.login)
        front.logged_in(self)
        with front.room(user):
            front.audit({"event": "login", "user": user, "address": self._address})
            channel.longest = LONGEST
            self.analyst = Analyst(front.shared, Login(user, token), channel.notice)
            self._serve(user, found.get("application_name", ""))

    def _serve(self, user: str, application: str) -> None:
        front, channel, options = self._front, self._channel, self._front.options
        assert self.analyst is not None
        session = Session(channel, self.analyst, options.statement_seconds, options.most_rows)
        key = front.add(self)
        try:
            channel.send(b"R", struct.pack("!i", 0))
            reported = {**STATUS, "session_authorization": user, "application_name": application}
            for name, value in reported.items():
                channel.send(b"S", text(name) + text(value))
            channel.send(b"K", struct.pack("!iI", *key))
            session.serve()
        finally:
            front.remove(key)
            session.close()

    def end(self) -> None:
        """End the connection, whatever its thread is at."""
        with suppress(OSError):  # not the TLS socket's own, which would take the state from a thread that reads
            socket.socket.shutdown(self._channel.socket, socket.SHUT_RDWR)

    def _tell(self, code: str, message: str) -> None:
        with suppress(Closed, OSError):
            self._channel.error(code, message, severity="FATAL")
            self._channel.flush()

    def goodbye(self, words: str) -> None:
        """End the session."""
        if self.analyst is not None:
            self.analyst.cancel()
        farewell = threading.Thread(target=self._tell, args=("57P01", words), daemon=True)
        farewell.start()
        farewell.join(_GOODBYE_SECONDS)  # who reads nothing holds nobody up
        self.end()


def secured(options: Options) -> ssl.SSLContext:
    """What makes connections TLS, with the certificate as it is now."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.minimum_version = ssl.TLSVersion.TLSv1_2
    tls.load_cert_chain(options.certificate, options.key)
    return tls


def prepare(connection: socket.socket) -> None:
    """Give a client's connection its deadlines; systems have not all of them."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _SEND_SECONDS, 0))
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def main() -> None:
    """`python -m dpsql.service.front`, with the options on standard input; ends when its standard input does."""
    from .process import audit_of, limit_memory

    options = Options.from_json(sys.stdin.readline())
    limit_memory(options)
    front = Front(options, audit_of(options, "front"))
    listening = front.listen()
    front.serve_metrics()
    signal.signal(signal.SIGHUP, lambda *_: front.reload())
    threading.Thread(target=front.serve, args=[listening], daemon=True).start()
    sys.stdout.write(f"ready {listening.getsockname()[1]}\n")
    sys.stdout.flush()
    until_told()
    front.stop()
    os._exit(0)  # threads may wait in DuckDB or for clients


if __name__ == "__main__":
    main()
