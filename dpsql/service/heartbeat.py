"""The front logs in at each door, again and again: through accept, TLS, the keeper's look-up, and a statement.

`/health` says how the last beats went. The supervisor hears of each beat, and starts a door again when it hears none.
"""

from __future__ import annotations

import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from dpsql.errors import DpsqlError

from . import quack_messages
from .calls import Calls
from .options import Options
from .pgwire.messages import BadMessage, Channel, Closed, Reader, text
from .scram import Client
from .served import PULSE

BEAT: Final = "beat"
"""What the supervisor reads, with the door's name, a line for each beat."""
_SOON_SECONDS: Final = 1.0
"""Between two beats while no login goes through."""
_PIECE: Final = 1 << 16
_LEAST_SECONDS: Final = 0.2
_BEATS: Final = 4
"""In the time after which silence is an answer."""
_TLS: Final = 80877103
_VERSION: Final = 196608


class Heartbeat(threading.Thread):
    """See the module.

    Args:
        calls: to the keeper.
        seconds: after which silence is an answer.
        door: the process that this is the heart of.
        logs_in: whether a login with a password, and a statement after it, are answered; without a password, False as
            soon as the door says anything. It raises OSError or `Closed` where there is no such answer.
    """

    def __init__(self, calls: Calls, seconds: float, door: str, logs_in: Callable[[str], bool]) -> None:
        super().__init__(daemon=True)
        self._calls, self._seconds, self._door, self._logs_in = calls, seconds, door, logs_in
        self._well = -seconds

    def is_well(self) -> bool:
        """Whether a login went through to its end not long ago."""
        return time.monotonic() - self._well < self._seconds

    def run(self) -> None:
        """Until the process ends."""
        while True:
            pause = self._seconds / _BEATS if self.is_well() else min(_SOON_SECONDS, self._seconds / _BEATS)
            time.sleep(max(_LEAST_SECONDS, pause))
            self.beat()

    def beat(self, *, quiet: bool = False) -> None:
        """Log in once, and say that the door lives if it does; how the keeper does is said by `is_well`."""
        with suppress(OSError, DpsqlError, Closed, BadMessage, ValueError):
            password = self._password()
            if self._logs_in(password):
                self._well = time.monotonic()
            if not quiet:
                sys.stdout.write(f"{BEAT} {self._door}\n")
                sys.stdout.flush()

    def _password(self) -> str:
        """Empty where the keeper does not answer: it starts again by itself."""
        ends = time.monotonic() + self._seconds / 2
        try:
            return self._calls.pulse(lambda: time.monotonic() > ends)
        except DpsqlError:
            return ""


class OverTls:
    """The door of PostgreSQL's protocol, for its heart.

    Args:
        options: of the service.
        port: of the door.
    """

    def __init__(self, options: Options, port: int) -> None:
        self._seconds, self._place = options.silence_seconds, (_own_address(options.host), port)
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE  # it is this process

    def logs_in(self, password: str) -> bool:
        """See `Heartbeat`."""
        with socket.create_connection(self._place, timeout=self._seconds) as plain:
            plain.sendall(struct.pack("!ii", 8, _TLS))
            if plain.recv(1) != b"S":
                raise Closed
            with self._tls.wrap_socket(plain) as connection:
                channel = Channel(connection)
                startup = struct.pack("!i", _VERSION) + text("user") + text(PULSE) + b"\0"
                connection.sendall(struct.pack("!i", len(startup) + 4) + startup)
                _expected(channel, b"R")
                if not password:
                    return False
                client = Client(password)
                first = client.first.encode()
                channel.send(b"p", text("SCRAM-SHA-256") + struct.pack("!i", len(first)) + first)
                channel.flush()
                reader = _expected(channel, b"R")
                reader.int32()
                channel.send(b"p", client.final(reader.rest().decode()).encode())
                channel.flush()
                _expected(channel, b"Z")
                channel.send(b"Q", text("SELECT 1"))
                channel.flush()
                _expected(channel, b"D")
                _expected(channel, b"Z")
                channel.send(b"X")
                channel.flush()
                return True


class OverHttp:
    """The door of Quack, for its heart.

    Args:
        options: of the service.
    """

    def __init__(self, options: Options) -> None:
        self._seconds, self._place = options.silence_seconds, ("127.0.0.1", options.quack)

    def logs_in(self, password: str) -> bool:
        """See `Heartbeat`."""
        if not password:
            self._answer(quack_messages.goodbye(bytes(quack_messages.SESSION_BYTES)))
            return False
        session = quack_messages.session_of(self._answer(quack_messages.login(f"{PULSE}:{password}")))
        if session is None:
            raise Closed
        answer = self._answer(quack_messages.statement(session, "SELECT 1"))
        self._answer(quack_messages.goodbye(session))
        if not quack_messages.has_rows(answer):
            raise Closed
        return True

    def _answer(self, message: bytes) -> bytes:
        """The answer to a message.

        Raises:
            Closed: there is none.
        """
        answer = bytearray()
        with socket.create_connection(self._place, timeout=self._seconds) as connection:
            connection.sendall(quack_messages.Request.written(message))
            while len(answer) < quack_messages.LONGEST and (piece := connection.recv(_PIECE)):
                answer += piece
        if not answer:
            raise Closed
        return bytes(answer)


def _expected(channel: Channel, wanted: bytes) -> Reader:
    """The next message of a kind; others are passed over, and an error is one.

    Raises:
        Closed: an error came.
    """
    while True:
        kind, payload = channel.message()
        if kind == b"E":
            raise Closed
        if kind == wanted:
            return Reader(payload)


def _own_address(host: str) -> str:
    """Where one's own door is reached that listens everywhere."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)
