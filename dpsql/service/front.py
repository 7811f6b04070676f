"""The front: the process that analysts connect to. It never opens the private file, and runs no statement.

It accepts, speaks TLS, has the keeper check the password, and passes on what comes then: see `relay` and `workers`.
"""

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
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from dpsql.errors import DpsqlError

from .audit import Audit
from .calls import Calls, KeeperLost
from .heartbeat import Heartbeat, OverHttp, OverTls
from .metrics import Counted, Endpoint, text_of
from .options import Full, Options, address_of
from .pgwire.binding import of_certificate
from .pgwire.messages import BadMessage, Channel, Closed
from .pgwire.startup import NO_SETTINGS, PROTOCOL, CancelRequest, LoginFailed, Secured, authenticate, begin
from .process import until_told
from .relay import Pair, Relay
from .room import Room
from .served import PULSE
from .wire import Lost
from .workers import CANCEL, Crowded, Workers

_LOOK_SECONDS: Final = 0.05
LONGEST_NAME: Final = 63
_LONGEST_APPLICATION: Final = 200
_SEND_SECONDS: Final = 60
_KEEPALIVE: Final = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 20, "TCP_KEEPCNT": 3}
"""Seconds after which a client that says nothing is asked whether it is there; and how often, before it is gone."""
_GOODBYE_SECONDS: Final = 1.5
_GOODBYE: Final = "terminating connection because the service stops"


class Front:
    """Listens, and has who comes log in."""

    def __init__(self, options: Options, audit: Audit) -> None:
        self.options, self.audit = options, Counted(audit)
        self.calls = Calls(options.socket)
        self.secured = secured(options)
        self.relay = Relay(self.audit, self._over)
        self.relay.workers = self.workers = Workers(options, self.relay.watch)
        self.hearts: list[Heartbeat] = []
        self._pairs: dict[tuple[int, int], Pair] = {}
        self.room = Room(options.login_seconds)
        self._logged_in: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._numbers = 0

    def reload(self) -> None:
        """Read the certificate again: new connections have it. Where it cannot be used, the one before stays."""
        try:
            self.secured = secured(self.options)
        except (OSError, ValueError) as error:
            sys.stderr.write(f"dpsql: the certificate {self.options.certificate} cannot be used: {error}\n")

    def serve_metrics(self) -> None:
        """Answer who asks for metrics or health, where the options say so."""
        if self.options.metrics:
            endpoint = Endpoint(address_of(self.options.metrics), self._metrics, self._healthy)
            threading.Thread(target=endpoint.serve, daemon=True).start()

    def _metrics(self) -> str:
        with self._lock:
            clients = self._logged_in.total(), len(self.room)
        workers = len(self.workers), self.workers.deaths
        return text_of(clients, workers, self.audit, self.calls.status)

    def hearts_of(self, port: int) -> list[Heartbeat]:
        """Of this door, which listens on `port`, and of Quack's if it is served."""
        seconds = self.options.silence_seconds
        hearts = [Heartbeat(self.calls, seconds, "front", OverTls(self.options, port).logs_in)]
        if self.options.quack:
            hearts.append(Heartbeat(self.calls, seconds, "quack", OverHttp(self.options).logs_in))
        return hearts

    def _healthy(self) -> bool:
        return bool(self.hearts) and all(heart.is_well() for heart in self.hearts)

    def listen(self) -> socket.socket:
        """The socket for analysts."""
        family = socket.AF_INET6 if ":" in self.options.host else socket.AF_INET
        return socket.create_server((self.options.host, self.options.port), family=family, backlog=128)

    def serve(self, listening: socket.socket) -> None:
        """Accept clients until the process ends. Who has not logged in takes no place of those who have."""
        self.relay.start()
        self.room.serve(listening, lambda connection, address: Client(self, connection, address))

    def place(self, user: str) -> Callable[[], None]:
        """Take a place among those who have logged in; what is returned gives it back.

        Raises:
            Full: there is none.
        """
        if user == PULSE:
            return lambda: None
        with self._lock:
            self.options.check_place(user, self._logged_in.total(), self._logged_in[user])
            self._logged_in[user] += 1
        taken = [user]

        def give_back() -> None:
            with self._lock:
                self._logged_in.subtract(taken)
                taken.clear()

        return give_back

    def open(self, client: ssl.SSLSocket, handshake: dict[str, Any]) -> None:
        """Begin a session of a user who has logged in.

        Args:
            client: their connection.
            handshake: `user`, `token` and `application`.

        Raises:
            Crowded: as many users are connected as may be.
            Full: there is no place.
            Lost: the process of the user cannot be started.
        """
        give_back = self.place(handshake["user"])
        with self._lock:
            self._numbers += 1
            key = (self._numbers, secrets.randbelow(1 << 31))
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                session = {**handshake, "number": key[0], "key": key[1]}
                worker = self.workers.open(handshake["user"], session, theirs, give_back)
        except BaseException:
            ours.close()
            give_back()
            raise
        pair = self._pairs[key] = Pair(client, ours, key[0], worker)
        self.relay.add(pair)

    def _over(self, pair: Pair) -> None:
        for key in [key for key, other in list(self._pairs.items()) if other is pair]:
            del self._pairs[key]

    def cancel(self, request: CancelRequest) -> None:
        """Stop the statement of a client, if the secret is theirs."""
        pair = self._pairs.get((request.process, request.key))
        if pair is not None:
            with suppress(Lost):
                pair.worker.tell(CANCEL, pair.number)

    def stop(self) -> None:
        """Tell all clients."""
        ends = time.monotonic() + _GOODBYE_SECONDS
        for pair in list(self._pairs.values()):
            self.relay.dismiss(pair, "57P01", _GOODBYE)
        while self._pairs and time.monotonic() < ends:
            time.sleep(_LOOK_SECONDS)


class Client:
    """One connection, from its first byte to the end of its login."""

    def __init__(self, front: Front, connection: socket.socket, address: str) -> None:
        self._front, self._address = front, address
        self._connection = connection
        self._channel = Channel(connection)

    def run(self) -> None:
        """Log in; whatever a client sends ends its own connection at most."""
        passed_on = False
        try:
            prepare(self._connection)
            passed_on = self._begin()
        except LoginFailed as failed:
            self._note({"event": "login refused", "user": failed.user[:LONGEST_NAME], "address": self._address})
            passed_on = True
            self._front.room.refuse_later(self._refuse)
        except BadMessage as error:
            self._tell("08P01", str(error))
        except (KeeperLost, Lost) as error:
            self._tell("57P03", str(error))
        except (Full, Crowded) as error:
            self._tell("53300", str(error))
        except DpsqlError as error:
            self._tell("58000", str(error))
        except (Closed, OSError):
            pass
        finally:
            if not passed_on:
                self._close()

    def _begin(self) -> bool:
        """From the first byte to the end of the login; whether there is a session now."""
        front, channel = self._front, self._channel
        door = front.secured
        stated = begin(channel, door.tls)
        if isinstance(stated, CancelRequest):
            front.cancel(stated)
            return False
        user = stated["user"]
        token = authenticate(channel, user, front.calls.login, door.binding)
        channel.flush()
        front.room.leave(self)
        if user != PULSE:
            self._note({"event": "login", "user": user, "address": self._address})
        application = stated.get("application_name", "")[:_LONGEST_APPLICATION]
        assert isinstance(channel.socket, ssl.SSLSocket)
        settings = {name: value for name, value in stated.items() if name not in NO_SETTINGS and name[:5] != "_pq_."}
        handshake = {"user": user, "token": token, "application": application, "settings": settings}
        front.open(channel.socket, handshake)
        return True

    def _note(self, event: dict[str, Any]) -> None:
        """Into the audit log, if it can be written: who only reads goes on where it is full."""
        with suppress(DpsqlError):
            self._front.audit(event)

    def _refuse(self) -> None:
        """Send what was said of the password, if the client takes it now."""
        with suppress(Closed, OSError):
            self._channel.socket.setblocking(False)
            self._channel.flush()
        self._close()

    def _close(self) -> None:
        with suppress(OSError):
            self._channel.socket.close()
        self._connection.close()

    def end(self) -> None:
        """End the connection, whatever its thread is at."""
        with suppress(OSError):  # not the TLS socket's own, which would take the state from a thread that reads
            socket.socket.shutdown(self._channel.socket, socket.SHUT_RDWR)

    def _tell(self, code: str, message: str) -> None:
        with suppress(Closed, OSError):
            self._channel.error(code, message, severity="FATAL")
            self._channel.flush()


def secured(options: Options) -> Secured:
    """What makes connections TLS, with the certificate as it is now."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.minimum_version = ssl.TLSVersion.TLSv1_2
    tls.load_cert_chain(options.certificate, options.key)
    tls.set_alpn_protocols([PROTOCOL])
    return Secured(tls, of_certificate(options.certificate))


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
    from .process import audit_of, limit_memory, most_of_front, raise_descriptors

    options = Options.from_json(sys.stdin.readline())
    limit_memory(most_of_front(options))
    raise_descriptors()
    front = Front(options, audit_of(options, "front"))
    listening = front.listen()
    front.hearts = front.hearts_of(listening.getsockname()[1])
    front.serve_metrics()
    signal.signal(signal.SIGHUP, lambda *_: front.reload())
    threading.Thread(target=front.serve, args=[listening], daemon=True).start()
    front.hearts[0].beat(quiet=True)  # and so that the first user waits for nothing
    sys.stdout.write(f"ready {listening.getsockname()[1]}\n")
    sys.stdout.flush()
    for heart in front.hearts:
        heart.start()
    until_told()
    front.stop()
    os._exit(0)  # threads may wait in DuckDB or for clients


if __name__ == "__main__":
    main()
