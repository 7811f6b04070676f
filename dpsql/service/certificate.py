"""A self-signed certificate, made beside the database at the first start."""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import socket
import ssl
from pathlib import Path
from typing import Final

from dpsql.errors import InvalidArgument

_DAYS: Final = 3650


def certificate_beside(path: str) -> tuple[str, str]:
    """Paths of the certificate and its key beside a database; made if they are not there, for its owner's eyes."""
    certificate, key = Path(f"{path}.crt"), Path(f"{path}.key")
    if not (certificate.exists() and key.exists()):
        made, secret = _made()
        _write(key, secret)
        _write(certificate, made)
    return str(certificate), str(key)


def check_certificate(certificate: str, key: str) -> None:
    """Refuse a certificate that no client would take, before anybody is served with it.

    Raises:
        InvalidArgument: it cannot be read, is another key's, or its time is over.
    """
    from cryptography import x509

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
        ends = x509.load_pem_x509_certificate(Path(certificate).read_bytes()).not_valid_after_utc
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"certificate {certificate} with key {key} cannot be used: {error}") from None
    if ends < dt.datetime.now(dt.UTC):
        raise InvalidArgument(
            f"certificate {certificate} ended on {ends:%Y-%m-%d}: clients refuse it. Get a new one. If dpsql made it, "
            "remove it and its key: the next start makes another"
        )


def _write(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)


def _made() -> tuple[bytes, bytes]:
    """Certificate and key, in PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "dpsql")])
    now = dt.datetime.now(dt.UTC)
    hosts = [x509.DNSName("localhost"), x509.DNSName(socket.gethostname() or "localhost")]
    addresses = [x509.IPAddress(ipaddress.ip_address(text)) for text in ("127.0.0.1", "::1")]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=_DAYS))
        .add_extension(x509.SubjectAlternativeName([*hosts, *addresses]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM), secret
