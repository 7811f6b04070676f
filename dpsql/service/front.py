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
from contextlib import suppress
from typing import Final

from dpsql.errors import DpsqlError

from .allowlist import AllowList
from .analysis import Analyses
from .analyst import Analyst, Shared
from .audit import Audit
from .calls import Calls, KeeperLost, Login
from .options import Options
from .pgwire.commands import STATUS
from .pgwire.messages import LONGEST, BadMessage, Channel, Closed, text
from .pgwire.session import Session
from .pgwire.startup import CancelRequest, LoginFailed, authenticate, begin
from .process import until_told

_LOOK_SECONDS: Final = 0.05
_FAILED_SECONDS: Final = 0.5
_RIGHTS_SECONDS: Final = 1.0
_CHANGED: Final = "terminating connection because what you may do or see was changed: connect again"
_GOODBYE: Final = "terminating connection because the service stops"


class Front:
    """Listens, and has a thread for each client."""

    def __init__(self, options: Options, audit: Audit) -> None:
        self.options, self.audit = options, audit
        self.calls = Calls(options.socket)
        self.shared = Shared(Analyses(self.calls, options), self.calls, AllowList(), options, audit)
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.minimum_version = ssl.TLSVersion.TLSv1_2
        self.reload()
        self._clients: dict[tuple[int, int], Client] = {}
        self._room = threading.BoundedSemaphore(options.connections)
        self._lock = threading.Lock()
        self._numbers = 0

    def reload(self) -> None:
        """Read the certificate again: new connections have it."""
        self.tls.load_cert_chain(self.options.certificate, self.options.key)

    def listen(self) -> socket.socket:
        """The socket for analysts."""
        family = socket.AF_INET6 if ":" in self.options.host else socket.AF_INET
        return socket.create_server((self.options.host, self.options.port), family=family, backlog=128)

    def serve(self, listening: socket.socket) -> None:
        """Accept clients until the process ends; those beyond the most are sent away at once."""
        threading.Thread(target=self._look, daemon=True).start()
        threading.Thread(target=self._look_at_rights, daemon=True).start()
        while True:
            connection, address = listening.accept()
            if not self._room.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(target=self._client, args=(connection, str(address[0])), daemon=True).start()

    def _client(self, connection: socket.socket, address: str) -> None:
        try:
            Client(self, connection, address).run()
        finally:
            connection.close()
            self._room.release()

    def _look(self) -> None:
        """Interrupt what is cancelled or late."""
        while True:
            time.sleep(_LOOK_SECONDS)
            for client in list(self._clients.values()):
                if client.analyst is not None:
                    client.analyst.look()

    def _look_at_rights(self) -> None:
        """End the sessions of users who were revoked, or may do or see else than when they came."""
        while True:
            time.sleep(_RIGHTS_SECONDS)
            clients = [(client.analyst, client) for client in list(self._clients.values())]
            for login in {analyst.login for analyst, _ in clients if analyst is not None}:
                with suppress(DpsqlError):  # the keeper is starting again: later
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
        deadline = threading.Timer(self._front.options.login_seconds, self._late)
        deadline.daemon = True
        deadline.start()
        try:
            self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._logged_in(deadline)
        except LoginFailed as failed:
            self._front.audit({"event": "login refused", "user": failed.user, "address": self._address})
            time.sleep(_FAILED_SECONDS)  # guesses cost time
        except BadMessage as error:
            self._tell("08P01", str(error))
        except KeeperLost as error:
            self._tell("57P03", str(error))
        except DpsqlError as error:  # revoked meanwhile, or no audit
            self._tell("58000", str(error))
        except (Closed, OSError):
            pass
        finally:
            deadline.cancel()
            with suppress(OSError):
                self._channel.socket.close()

    def _logged_in(self, deadline: threading.Timer) -> None:
        front, channel = self._front, self._channel
        found = begin(channel, front.tls)
        if isinstance(found, CancelRequest):
            front.cancel(found)
            return
        user = found["user"]
        known = authenticate(channel, user, front.calls.credential)
        deadline.cancel()
        front.audit({"event": "login", "user": user, "address": self._address})
        channel.longest = LONGEST
        self.analyst = Analyst(front.shared, Login(user, str(known["token"])), channel.notice)
        options = front.options
        session = Session(channel, self.analyst, options.statement_seconds, options.most_rows)
        key = front.add(self)
        try:
            channel.send(b"R", struct.pack("!i", 0))
            reported = {**STATUS, "session_authorization": user, "application_name": found.get("application_name", "")}
            for name, value in reported.items():
                channel.send(b"S", text(name) + text(value))
            channel.send(b"K", struct.pack("!iI", *key))
            session.serve()
        finally:
            front.remove(key)
            session.close()

    def _late(self) -> None:
        with suppress(OSError):
            self._channel.socket.shutdown(socket.SHUT_RDWR)

    def _tell(self, code: str, message: str) -> None:
        with suppress(Closed, OSError):
            self._channel.error(code, message, severity="FATAL")
            self._channel.flush()

    def goodbye(self, words: str) -> None:
        """End the session."""
        if self.analyst is not None:
            self.analyst.cancel()
        self._tell("57P01", words)
        self._late()


def main() -> None:
    """`python -m dpsql.service.front`, with the options on standard input; ends when its standard input does."""
    from .process import audit_of

    options = Options.from_json(sys.stdin.readline())
    front = Front(options, audit_of(options, "front"))
    listening = front.listen()
    signal.signal(signal.SIGHUP, lambda *_: front.reload())
    threading.Thread(target=front.serve, args=[listening], daemon=True).start()
    sys.stdout.write(f"ready {listening.getsockname()[1]}\n")
    sys.stdout.flush()
    until_told()
    front.stop()
    os._exit(0)  # threads may wait in DuckDB or for clients


if __name__ == "__main__":
    main()
