"""Clients that say nothing, or too little: they keep nobody out, and are sent away when their time is over."""

from __future__ import annotations

import select
import socket
import ssl

import psycopg
import pytest

import dpsql
from tests.service.conftest import Served
from tests.service.test_wire import TLS, ended, raw, startup

pytestmark = pytest.mark.medium
SECONDS = 3.0
ROOM = 5


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A service with few places, and little time for a login."""
    path = tmp_path_factory.mktemp("small") / "bank.duckdb"
    with dpsql.connect(str(path)) as db:
        db.sql("CREATE TABLE t AS SELECT range AS a FROM range(10)")
        db.protect("t", epsilon=1.0, delta=1e-6)
        token = db.users.add("alice", "reader")
    with dpsql.serve(str(path), port=0, connections=ROOM, login_seconds=SECONDS) as service:
        yield Served(service, path, {"alice": token})


def silent(served):
    """Says nothing at all."""
    return raw(served, tls=False)


def half(served):
    """Begins the first message."""
    connection = raw(served, tls=False)
    connection.sendall(TLS[:3])
    return connection


def no_handshake(served):
    """Asks for TLS, and begins it not."""
    connection = raw(served, tls=False)
    connection.sendall(TLS)
    assert connection.recv(1) == b"S"
    return connection


def half_a_handshake(served):
    """Sends a part of its hello."""
    connection = no_handshake(served)
    coming, going = ssl.MemoryBIO(), ssl.MemoryBIO()
    hello = ssl.create_default_context().wrap_bio(coming, going, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        hello.do_handshake()
    connection.sendall(going.read()[:50])
    return connection


def no_startup(served):
    """Ends the handshake, and says no name."""
    return raw(served, tls=True)


def no_password(served):
    """Says a name, and no password."""
    connection = raw(served, tls=True)
    connection.sendall(startup(b"alice"))
    assert connection.recv(1) == b"R"
    return connection


KINDS = [silent, half, no_handshake, half_a_handshake, no_startup, no_password]


@pytest.mark.parametrize("kind", KINDS)
def test_a_login_has_its_time(small, kind):
    connections = [kind(small) for _ in range(3 * ROOM)]
    with psycopg.connect(small.dsn()) as connection:
        assert connection.execute("SELECT 1").fetchall() == [(1,)], "they keep nobody out"
    for connection in connections:
        connection.settimeout(10 * SECONDS)
        ended(connection)
        connection.close()


def test_500_silent_clients_keep_nobody_out(small):
    connections = [socket.create_connection(("127.0.0.1", small.service.port), timeout=30) for _ in range(500)]
    with psycopg.connect(small.dsn()) as connection:
        assert connection.execute("SELECT 1").fetchall() == [(1,)]
    for connection in connections:
        ended(connection)
        connection.close()


def test_whoever_is_one_too_many_is_told(small):
    there = [psycopg.connect(small.dsn()) for _ in range(ROOM)]
    with pytest.raises(psycopg.OperationalError, match="5 clients are connected already"):
        psycopg.connect(small.dsn())
    there.pop().close()
    for _ in range(2400):  # the front hears of it a moment later
        try:
            there.append(psycopg.connect(small.dsn()))
            break
        except psycopg.OperationalError:
            select.select([], [], [], 0.05)
    assert len(there) == ROOM
    for connection in there:
        connection.close()
