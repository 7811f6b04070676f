"""The beginning of a connection: TLS, the startup message, SCRAM-SHA-256."""

from __future__ import annotations

import ssl
import struct
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from dpsql.service.calls import Exchange, Refused

from .messages import BadMessage, Channel, Closed, Reader, text

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


def begin(channel: Channel, tls: ssl.SSLContext) -> CancelRequest | Mapping[str, str]:
    """Wrap the connection in TLS and read the startup message.

    Raises:
        Closed: the client does not speak TLS, or not PostgreSQL's protocol.
    """
    secure = False
    for _ in range(4):
        reader = Reader(channel.packet())
        code = reader.int32()
        if code == _TLS and not secure:
            channel.socket.sendall(b"S")
            try:  # the channel has the new socket before the handshake, so that the deadline can end it
                channel.socket = handshake = tls.wrap_socket(
                    channel.socket, server_side=True, do_handshake_on_connect=False
                )
                handshake.do_handshake()
            except (OSError, ValueError):
                raise Closed from None
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


def _parameters(channel: Channel, code: int, reader: Reader) -> Mapping[str, str]:
    found: dict[str, str] = {}
    while name := reader.text():
        found[name] = reader.text()
    unknown = [name for name in found if name.startswith("_pq_.")]
    if code != _VERSION_3 or unknown:
        channel.send(b"v", struct.pack("!ii", _VERSION_3, len(unknown)) + b"".join(map(text, unknown)))
    if not found.get("user"):
        _away(channel, "28000", "the startup message names no user", "")
    return found


def _away(channel: Channel, code: str, message: str, hint: str) -> None:
    channel.error(code, message, severity="FATAL", hint=hint)
    channel.flush()
    raise Closed


def authenticate(channel: Channel, user: str, login: Callable[[str, str], AbstractContextManager[Exchange]]) -> str:
    """Check the password by SCRAM-SHA-256, which the keeper does; returns what proves to it that the user logged in.

    Args:
        channel: the client's.
        user: who they say to be.
        login: see `Calls.login`.

    Raises:
        LoginFailed: it is wrong; what says so is to be flushed later.
    """
    channel.send(b"R", struct.pack("!i", 10) + text("SCRAM-SHA-256") + b"\0")
    channel.flush()
    reader = Reader(_answer(channel))
    if reader.text() != "SCRAM-SHA-256":
        raise BadMessage("the client chose another way to log in than SCRAM-SHA-256")
    try:
        with login(user, reader.take(reader.int32()).decode()) as exchange:
            channel.send(b"R", struct.pack("!i", 11) + exchange.first.encode())
            channel.flush()
            proof, token = exchange.final(_answer(channel).decode())
    except (Refused, UnicodeDecodeError):
        channel.error("28P01", f'{WRONG} "{user}"', severity="FATAL")
        raise LoginFailed(user) from None
    channel.send(b"R", struct.pack("!i", 12) + proof.encode())
    return token


def _answer(channel: Channel) -> bytes:
    kind, payload = channel.message()
    if kind != b"p":
        raise BadMessage("the client sent something else than its password's proof")
    return payload
