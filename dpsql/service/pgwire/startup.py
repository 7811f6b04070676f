"""The beginning of a connection: TLS, the startup message, SCRAM-SHA-256."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from dpsql.service.calls import Exchange, Refused

from .binding import is_bound
from .messages import BadMessage, Channel, Closed, Reader, text

_HANDSHAKE: Final = b"\x16"
"""The first byte of TLS, from a client that begins with it (`sslnegotiation=direct`)."""
PROTOCOL: Final = "postgresql"
"""By which such a client says what it will speak then."""
_SCRAM: Final = "SCRAM-SHA-256"
_BOUND: Final = "SCRAM-SHA-256-PLUS"
_TLS, _GSS, _CANCEL, _VERSION_3 = 80877103, 80877104, 80877102, 196608
NO_SETTINGS: Final = frozenset({"user", "database", "replication", "application_name"})
"""What the first message says beside settings."""
WRONG: Final = "password authentication failed for user"


@dataclass(frozen=True)
class CancelRequest:
    """A client asks on a connection of its own to stop what another one runs."""

    process: int
    key: int


class LoginFailed(Closed):
    """A wrong password, or a user who is not there."""

    def __init__(self, user: str) -> None:
        super().__init__()
        self.user = user


@dataclass(frozen=True)
class Secured:
    """The door's TLS.

    Attributes:
        tls: what makes connections TLS.
        binding: what clients sign of its certificate; None where they cannot.
    """

    tls: ssl.SSLContext
    binding: bytes | None


def begin(channel: Channel, tls: ssl.SSLContext) -> CancelRequest | Mapping[str, str]:
    """Wrap the connection in TLS and read the startup message.

    Raises:
        Closed: the client does not speak TLS, or not PostgreSQL's protocol.
    """
    secure = _begins_with_tls(channel)
    if secure:
        _wrap(channel, tls)
        assert isinstance(channel.socket, ssl.SSLSocket)
        if channel.socket.selected_alpn_protocol() != PROTOCOL:
            raise Closed
    for _ in range(4):
        reader = Reader(channel.packet())
        code = reader.int32()
        if code == _TLS and not secure:
            channel.socket.sendall(b"S")
            _wrap(channel, tls)
            secure = True
        elif code in (_GSS, _TLS):
            channel.socket.sendall(b"N")
        elif code == _CANCEL:
            return CancelRequest(reader.int32(), reader.int32())
        elif code >> 16 == _VERSION_3 >> 16:
            if not secure:
                _away(channel, "28000", "this server speaks TLS only", "connect with sslmode=require")
            return _parameters(channel, code, reader)
        else:
            break
    raise BadMessage("the first message is not PostgreSQL's")


def _begins_with_tls(channel: Channel) -> bool:
    try:
        return channel.socket.recv(1, socket.MSG_PEEK) == _HANDSHAKE
    except OSError:
        raise Closed from None


def _wrap(channel: Channel, tls: ssl.SSLContext) -> None:
    try:  # the channel has the new socket before the handshake, so that the deadline can end it
        channel.socket = handshake = tls.wrap_socket(channel.socket, server_side=True, do_handshake_on_connect=False)
        handshake.do_handshake()
    except (OSError, ValueError):
        raise Closed from None


def _parameters(channel: Channel, code: int, reader: Reader) -> Mapping[str, str]:
    parameters: dict[str, str] = {}
    while name := reader.text():
        parameters[name] = reader.text()
    unknown = [name for name in parameters if name.startswith("_pq_.")]
    if code != _VERSION_3 or unknown:
        channel.send(b"v", struct.pack("!ii", _VERSION_3, len(unknown)) + b"".join(map(text, unknown)))
    if not parameters.get("user"):
        _away(channel, "28000", "the startup message names no user", "")
    return parameters


def _away(channel: Channel, code: str, message: str, hint: str) -> None:
    channel.error(code, message, severity="FATAL", hint=hint)
    channel.flush()
    raise Closed


def authenticate(
    channel: Channel, user: str, login: Callable[[str, str], AbstractContextManager[Exchange]], binding: bytes | None
) -> str:
    """Check the password by SCRAM-SHA-256, which the keeper does; returns what proves to it that the user logged in.

    Args:
        channel: the client's.
        user: who they say to be.
        login: see `Calls.login`.
        binding: see `Secured`.

    Raises:
        LoginFailed: it is wrong; what says so is to be flushed later.
    """
    ways = [_SCRAM] if binding is None else [_BOUND, _SCRAM]
    channel.send(b"R", struct.pack("!i", 10) + b"".join(map(text, ways)) + b"\0")
    channel.flush()
    reader = Reader(_answer(channel))
    way = reader.text()
    if way not in ways:
        raise BadMessage(f"the client chose another way to log in than {' or '.join(ways)}")
    try:
        first = reader.take(reader.int32()).decode()
        _check_flag(first, way, ways)
        with login(user, first) as exchange:
            channel.send(b"R", struct.pack("!i", 11) + exchange.first.encode())
            channel.flush()
            final = _answer(channel).decode()
            if way == _BOUND and (binding is None or not is_bound(final, binding)):
                raise BadMessage("the client's proof is for another server's certificate")
            proof, token = exchange.final(final)
    except (Refused, UnicodeDecodeError):
        channel.error("28P01", f'{WRONG} "{user}"', severity="FATAL")
        raise LoginFailed(user) from None
    channel.send(b"R", struct.pack("!i", 12) + proof.encode())
    return token


def _check_flag(first: str, way: str, ways: list[str]) -> None:
    """Refuse a client that says something else of channel binding than it chose.

    Raises:
        BadMessage: it binds by another way, or was told that the server cannot bind: somebody may stand between.
    """
    if first.startswith("p=") != (way == _BOUND):
        raise BadMessage("the client's channel binding is not that of the way to log in that it chose")
    if first.startswith("y") and _BOUND in ways:
        raise BadMessage("the client thinks that this server has no channel binding, and it has")


def _answer(channel: Channel) -> bytes:
    kind, payload = channel.message()
    if kind != b"p":
        raise BadMessage("the client sent something else than its password's proof")
    return payload
