"""SCRAM-SHA-256 (RFC 5802), as PostgreSQL has it: the server's side, which is the keeper's, and a client's.

`scramp` makes verifiers, and its server refuses the empty user name that PostgreSQL's own clients send, because the
startup message names the user. So the exchange itself, which is four HMACs, is here.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping

from dpsql.service.directory import Credential

BOUND = "p=tls-server-end-point"
"""The flag of a client that binds its proof to the certificate that it saw."""


class WrongProof(Exception):
    """The password is wrong, or the client does not speak SCRAM."""


class Server:
    """One exchange: two messages of the client and two answers."""

    def __init__(self, verifier: Credential) -> None:
        self._verifier = verifier
        self._header, self._bare, self._first = "", "", ""

    def first(self, message: str) -> str:
        """The answer to the client's first message: a nonce, the salt, the iterations."""
        flag, _, rest = message.partition(",")
        authorized, _, self._bare = rest.partition(",")
        fields = _fields(self._bare)
        if flag not in ("n", "y", BOUND) or "r" not in fields or not fields["r"] or "m" in fields:
            raise WrongProof
        self._header = f"{flag},{authorized},"
        salt = base64.b64encode(self._verifier.salt).decode()
        self._first = f"r={fields['r']}{secrets.token_urlsafe(24)},s={salt},i={self._verifier.iterations}"
        return self._first

    def final(self, message: str) -> str:
        """The answer to the client's last message: the proof that the server knows the password, too."""
        without, _, proof = message.rpartition(",p=")
        fields = _fields(without)
        if not self._is_said_again(fields.get("c", "")) or fields.get("r") != _fields(self._first)["r"]:
            raise WrongProof
        auth_message = f"{self._bare},{self._first},{without}".encode()
        try:
            shown = base64.b64decode(proof, validate=True)
        except (binascii.Error, ValueError):
            raise WrongProof from None
        signature = hmac.digest(self._verifier.stored_key, auth_message, "sha256")
        if len(shown) != len(signature):
            raise WrongProof
        key = bytes(a ^ b for a, b in zip(shown, signature, strict=True))
        if not hmac.compare_digest(hashlib.sha256(key).digest(), self._verifier.stored_key):
            raise WrongProof
        return "v=" + base64.b64encode(hmac.digest(self._verifier.server_key, auth_message, "sha256")).decode()

    def _is_said_again(self, field: str) -> bool:
        """Whether the client's header is that of its first message. What it binds is the door's to look at."""
        try:
            sent = base64.b64decode(field, validate=True)
        except (binascii.Error, ValueError):
            return False
        header = self._header.encode()
        return sent.startswith(header) if self._header.startswith(BOUND) else sent == header


class Client:
    """The client's side of one exchange, for a door whose clients send their token as it is.

    Attributes:
        first: the first message.
    """

    def __init__(self, token: str) -> None:
        self._token, self._bare = token, f"n=,r={secrets.token_urlsafe(18)}"
        self.first = f"n,,{self._bare}"

    def final(self, message: str) -> str:
        """The last message, to the server's answer to the first."""
        server_fields = _fields(message)
        without = f"c=biws,r={server_fields['r']}"
        salt = base64.b64decode(server_fields["s"])
        salted = hashlib.pbkdf2_hmac("sha256", self._token.encode(), salt, int(server_fields["i"]))
        key = hmac.digest(salted, b"Client Key", "sha256")
        auth_message = f"{self._bare},{message},{without}".encode()
        signature = hmac.digest(hashlib.sha256(key).digest(), auth_message, "sha256")
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        return f"{without},p={base64.b64encode(proof).decode()}"


def _fields(message: str) -> Mapping[str, str]:
    return {name: value for name, equals, value in (part.partition("=") for part in message.split(",")) if equals}
