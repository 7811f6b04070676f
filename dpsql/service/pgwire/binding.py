"""Channel binding `tls-server-end-point` (RFC 5929): the password's proof holds on one server's certificate only.

A client that asks for it (`channel_binding=require`) signs the hash of the certificate that it saw. Whoever stands
between, with another certificate, cannot pass that proof on.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from dpsql.service.scram import BOUND

HEADER: Final = f"{BOUND},,"
_RSA, _ECDSA = bytes.fromhex("2a864886f70d0101"), bytes.fromhex("2a8648ce3d04")
_HASHES: Final = {
    _RSA + b"\x04": "sha256",
    _RSA + b"\x05": "sha256",
    _RSA + b"\x0b": "sha256",
    _RSA + b"\x0c": "sha384",
    _RSA + b"\x0d": "sha512",
    _ECDSA + b"\x01": "sha256",
    _ECDSA + b"\x03\x02": "sha256",
    _ECDSA + b"\x03\x03": "sha384",
    _ECDSA + b"\x03\x04": "sha512",
}
"""The hash that goes with the algorithm by which a certificate is signed; MD5 and SHA-1 are not used for it."""


def of_certificate(path: str) -> bytes | None:
    """What clients sign of a certificate; None of another form, or where it is signed without a hash (Ed25519)."""
    pem = Path(path).read_text(encoding="ascii", errors="replace")
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    if begin not in pem:  # "TRUSTED CERTIFICATE" has more than the certificate
        return None
    first = pem[pem.index(begin) : pem.index(end) + len(end)]  # those of a chain come after
    return of_der(ssl.PEM_cert_to_DER_cert(first))


def of_der(certificate: bytes) -> bytes | None:
    """The same, of the certificate's own bytes."""
    (whole,) = _parts(certificate)
    _, algorithm, _ = _parts(whole)
    name = _HASHES.get(next(_parts(algorithm)))
    return None if name is None else hashlib.new(name, certificate).digest()


def _parts(data: bytes) -> Iterator[bytes]:
    """The values of DER that stand one after another."""
    place = 0
    while place < len(data):
        length, place = data[place + 1], place + 2
        if length & 0x80:
            width = length & 0x7F
            length, place = int.from_bytes(data[place : place + width], "big"), place + width
        yield data[place : place + length]
        place += length


def is_bound(final: str, binding: bytes) -> bool:
    """Whether a client's last message signs the certificate of this server."""
    field = final.partition(",")[0]
    try:
        binding_sent = base64.b64decode(field.removeprefix("c="), validate=True)
    except (binascii.Error, ValueError):
        return False
    return field.startswith("c=") and hmac.compare_digest(binding_sent, HEADER.encode() + binding)
