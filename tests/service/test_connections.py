"""How a client may connect: libpq's options about TLS, channel binding, the protocol's version and the kind of server."""

from __future__ import annotations

import datetime as dt
import struct

import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from dpsql.service.pgwire.binding import HEADER, is_bound, of_certificate
from dpsql.service.scram import Client
from tests.service.test_wire import ended, raw, startup

TAKEN = [
    {"channel_binding": "require"},
    {"channel_binding": "disable"},
    {"sslnegotiation": "direct"},
    {"sslnegotiation": "direct", "channel_binding": "require"},
    {"max_protocol_version": "latest"},
    {"min_protocol_version": "3.0", "max_protocol_version": "3.0"},
    *({"target_session_attrs": kind} for kind in ("any", "read-only", "prefer-standby", "primary")),
]
REFUSED = [({"target_session_attrs": kind}, words) for kind, words in {
    "read-write": "session is read-only", "standby": "server is not in hot standby mode"
}.items()]  # fmt: skip


def made(key, algorithm) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x" * 40)])
    begins = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    built = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    built = built.serial_number(7).not_valid_before(begins).not_valid_after(begins + dt.timedelta(1))
    return built.sign(key, algorithm).public_bytes(serialization.Encoding.PEM)


def test_what_is_signed_is_the_hash_of_the_certificate(tmp_path):
    """By the algorithm of its signature; the first one of a chain; none for Ed25519."""
    curve, path = ec.generate_private_key(ec.SECP256R1()), tmp_path / "x.crt"
    for key, algorithm in (
        (curve, hashes.SHA256()),
        (curve, hashes.SHA384()),
        (rsa.generate_private_key(65537, 1024), hashes.SHA512()),
    ):
        pem = made(key, algorithm)
        path.write_bytes(b"text before\n" + pem + made(curve, hashes.SHA256()))
        assert of_certificate(str(path)) == x509.load_pem_x509_certificate(pem).fingerprint(algorithm)
    path.write_bytes(made(ed25519.Ed25519PrivateKey.generate(), None))
    assert of_certificate(str(path)) is None


def test_a_proof_is_bound_to_one_certificate():
    final = "c=cD10bHMtc2VydmVyLWVuZC1wb2ludCwsb3RoZXI=,r=a,p=b"
    assert is_bound(final, b"other")
    assert not any(is_bound(wrong, b"mine") for wrong in (final, "c=biws,r=a,p=b", "c=%,r=a", "", "r=a"))


@pytest.mark.medium
def test_libpq_connects_by_each_option(small):
    """A server that nobody writes to is read-only, and no standby of another one."""
    if psycopg.pq.version() < 180000:
        pytest.skip("the options are those of libpq 18")
    for options in TAKEN:
        with psycopg.connect(small.dsn(**options)) as connection:
            assert connection.execute("SELECT 1").fetchall() == [(1,)], options
    for options, words in REFUSED:
        with pytest.raises(psycopg.OperationalError, match=words):
            psycopg.connect(small.dsn(**options))


def login(connection, first: bytes, way: bytes = b"SCRAM-SHA-256") -> bytes:
    """What comes when a client begins to prove its password so."""
    body = way + b"\0" + struct.pack("!i", len(first)) + first
    connection.sendall(startup(b"alice") + b"p" + struct.pack("!i", len(body) + 4) + body)
    return ended(connection)


@pytest.mark.medium
def test_who_stands_between_gets_no_proof_that_holds(small):
    """A client that was told there is no binding, or binds to another certificate, is sent away."""
    for first, way, words in (
        (b"y,,n=,r=abc", b"SCRAM-SHA-256", b"thinks that this server has no channel binding"),
        (b"n,,n=,r=abc", b"SCRAM-SHA-256-PLUS", b"is not that of the way"),
        (HEADER.encode() + b"n=,r=abc", b"SCRAM-SHA-256", b"is not that of the way"),
    ):
        with raw(small, tls=True) as connection:
            assert words in login(connection, first, way)
    with raw(small, tls=True) as connection:
        first = HEADER.encode() + Client("").first[3:].encode()
        body = b"SCRAM-SHA-256-PLUS\0" + struct.pack("!i", len(first)) + first
        connection.sendall(startup(b"alice") + b"p" + struct.pack("!i", len(body) + 4) + body)
        final = b"c=" + b"cD10bHMtc2VydmVyLWVuZC1wb2ludCwsb3RoZXI=" + b",r=abc,p=AAAA"
        connection.sendall(b"p" + struct.pack("!i", len(final) + 4) + final)
        assert b"another server's certificate" in ended(connection)
