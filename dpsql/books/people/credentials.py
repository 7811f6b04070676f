"""Tokens of users, and what is kept to recognise them: SCRAM-SHA-256 verifiers (RFC 5802, RFC 7677).

    salted      = PBKDF2-HMAC-SHA-256(token, salt, iterations)
    stored key  = SHA-256(HMAC(salted, "Client Key"))          server key = HMAC(salted, "Server Key")

A token has 192 random bits, so that nobody can find it by trying, however fast a single trial is: the number of
iterations is the least that the protocol allows.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from typing import Final

ITERATIONS: Final = 4096
_TOKEN_BYTES: Final = 24
_SALT_BYTES: Final = 16


@dataclass(frozen=True)
class Credential:
    """What tells a right token from others. The token cannot be made from it.

    Attributes:
        salt: random, of this token alone.
        iterations: of PBKDF2.
        stored_key: with which a client's proof is tested.
        server_key: with which the server proves that it knows the user.
    """

    salt: bytes
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    def accepts(self, token: str) -> bool:
        """Whether it is the right token; takes as long for every wrong one."""
        stored_key = _keys(token, self.salt, self.iterations)[0]
        return hmac.compare_digest(stored_key, self.stored_key)

    @property
    def digest(self) -> str:
        """A digest, for the ledger: whether it was changed can be told from it, and nothing else."""
        parts = [self.salt.hex(), str(self.iterations), self.stored_key.hex(), self.server_key.hex()]
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()


def new_token() -> tuple[str, Credential]:
    """A new random token, and what is kept of it.

    >>> token, credential = new_token()
    >>> credential.accepts(token), credential.accepts(token + "x"), token in repr(credential)
    (True, False, False)
    """
    token, salt = "dpsql_" + secrets.token_urlsafe(_TOKEN_BYTES), secrets.token_bytes(_SALT_BYTES)
    return token, Credential(salt, ITERATIONS, *_keys(token, salt, ITERATIONS))


def credential_of_nobody(name: str, secret: str) -> Credential:
    """What the token of a user who is not there is tested with, so that nobody can tell: no token fits.

    Args:
        name: of the user; the same name has the same salt again, as one that is there has.
        secret: of the database.
    """
    salt = hmac.digest(secret.encode(), name.encode(errors="replace"), "sha256")[:_SALT_BYTES]
    return Credential(salt, ITERATIONS, secrets.token_bytes(32), secrets.token_bytes(32))


def _keys(token: str, salt: bytes, iterations: int) -> tuple[bytes, bytes]:
    """The stored key and the server key of a token."""
    salted = hashlib.pbkdf2_hmac("sha256", token.encode(), salt, iterations)
    client = hmac.digest(salted, b"Client Key", "sha256")
    return hashlib.sha256(client).digest(), hmac.digest(salted, b"Server Key", "sha256")
