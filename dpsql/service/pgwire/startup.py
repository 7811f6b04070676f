"""The beginning of a connection: TLS, the startup message, SCRAM-SHA-256."""

from __future__ import annotations

import hmac
import secrets
import ssl
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dpsql.service.directory import Credential

from .messages import BadMessage, Channel, Closed, Reader, text
from .scram import Server, WrongProof

_TLS, _GSS, _CANCEL, _VERSION_3 = 80877103, 80877104, 80877102, 196608
_UNKNOWN_KEY: Final = secrets.token_bytes(32)
"""Of this process: an unknown user is asked with a salt that is always the same, as a known one is."""
_ITERATIONS: Final = 4096
WRONG: Final = "password authentication failed for user"


@dataclass(frozen=True)
class CancelRequest:
    """A client asks on a connection of its own to stop what another one runs."""

    process: int
    key: int


@dataclass(frozen=True)
class Login:
    """Who has logged in.

    Attributes:
        user: their name.
        role: of theirs.
        parameters: of the startup message.
    """

    user: str
    role: str
    parameters: Mapping[str, str]


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
        channel.send(b"v", struct.pack("!ii", 0, len(unknown)) + b"".join(map(text, unknown)))
    if not found.get("user"):
        _away(channel, "28000", "the startup message names no user", "")
    return found


def _away(channel: Channel, code: str, message: str, hint: str) -> None:
    channel.error(code, message, severity="FATAL", hint=hint)
    channel.flush()
    raise Closed


def authenticate(
    channel: Channel, user: str, credential_of: Callable[[str], Mapping[str, Any] | None]
) -> Mapping[str, Any]:
    """Check the password by SCRAM-SHA-256; returns what the keeper knows of the user.

    Raises:
        LoginFailed: it is wrong.
    """
    known = credential_of(user)
    if known is None:
        salt = hmac.digest(_UNKNOWN_KEY, user.encode(), "sha256")[:16]
        verifier = Credential(salt, _ITERATIONS, secrets.token_bytes(32), secrets.token_bytes(32))
    else:
        salt, stored, key = (bytes.fromhex(known[name]) for name in ("salt", "stored_key", "server_key"))
        verifier = Credential(salt, int(known["iterations"]), stored, key)
    server = Server(verifier)
    channel.send(b"R", struct.pack("!i", 10) + text("SCRAM-SHA-256") + b"\0")
    channel.flush()
    try:
        reader = Reader(_answer(channel))
        if reader.text() != "SCRAM-SHA-256":
            raise BadMessage("the client chose another way to log in than SCRAM-SHA-256")
        channel.send(b"R", struct.pack("!i", 11) + server.first(reader.take(reader.int32()).decode()).encode())
        channel.flush()
        channel.send(b"R", struct.pack("!i", 12) + server.final(_answer(channel).decode()).encode())
    except (WrongProof, UnicodeDecodeError):
        channel.error("28P01", f'{WRONG} "{user}"', severity="FATAL")
        channel.flush()
        raise LoginFailed(user) from None
    if known is None:
        raise LoginFailed(user)
    return known


def _answer(channel: Channel) -> bytes:
    kind, payload = channel.message()
    if kind != b"p":
        raise BadMessage("the client sent something else than its password's proof")
    return payload
