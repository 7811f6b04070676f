"""Bytes that are not PostgreSQL's, before and after the login: the connection ends, the service goes on."""

from __future__ import annotations

import os
import random
import re
import socket
import ssl
import struct
import time
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from tests.depth import depth
from tests.service.conftest import CANARY
from tests.service.processes import workers_of

pytestmark = pytest.mark.medium
TLS = struct.pack("!ii", 8, 80877103)


def raw(served, *, tls: bool) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", served.service.port), timeout=120)
    if not tls:
        return connection
    connection.sendall(TLS)
    assert connection.recv(1) == b"S"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(served.service.certificate)
    return context.wrap_socket(connection, server_hostname="localhost")


def ended(connection: socket.socket) -> bytes:
    """What comes until the server ends the connection; a timeout is a failure."""
    found = b""
    try:
        while part := connection.recv(65536):
            found += part
    except (ConnectionError, ssl.SSLError):
        pass
    return found


def startup(user: bytes) -> bytes:
    body = struct.pack("!i", 196608) + b"user\0" + user + b"\0\0"
    return struct.pack("!i", len(body) + 4) + body


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        struct.pack("!ii", 2**31 - 1, 196608),
        struct.pack("!ii", -1, 196608),
        struct.pack("!ii", 8, 12345),
        startup(b"\xff\xfe"),
        struct.pack("!ii", 12, 196608) + b"user",
        startup(b"alice") + b"p" + struct.pack("!i", 2**30),
        startup(b"alice") + b"p" + struct.pack("!i", 8) + b"nope",
        startup(b"alice")
        + b"p"
        + struct.pack("!i", 4 + 14 + 4 + 3)
        + b"SCRAM-SHA-256\0"
        + struct.pack("!i", 3)
        + b"n,,",
        startup(b"alice") + b"Q" + struct.pack("!i", 13) + b"SELECT 1\0",
    ],
    ids=lambda data: repr(data[:12]) if isinstance(data, bytes) else str(data),
)
def test_what_is_no_login_is_sent_away(served, data, tls):
    with raw(served, tls=tls) as connection:
        connection.sendall(data)
        assert b"SELECT" not in ended(connection)
    with psycopg.connect(served.dsn()) as connection:
        assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_random_messages_end_their_own_session_at_most(served):
    """Kinds and lengths are right, what is in them is not; a message that is refused leaves the session usable."""
    draw = random.Random(17)
    with psycopg.connect(served.dsn()) as connection:
        for _ in range(depth(200)):
            kind = draw.choice(b"PBDECdcfFHS")
            body = bytes(draw.choice(b"SP\0\0\0\1select1$") for _ in range(draw.randrange(40)))
            with raw_session(served) as session:
                session.sendall(bytes([kind]) + struct.pack("!i", len(body) + 4) + body + b"S" + struct.pack("!i", 4))
                session.sendall(b"X" + struct.pack("!i", 4))
                assert ended(session)
        assert connection.execute("SELECT 1").fetchall() == [(1,)]


VALID = [
    (b"P", b"s\0SELECT i FROM shown WHERE i = $1\0" + struct.pack("!hi", 1, 20)),
    (b"B", b"p\0s\0" + struct.pack("!hhhi", 1, 0, 1, 1) + b"7" + struct.pack("!hh", 1, 1)),
    (b"B", b"\0\0" + struct.pack("!hhh", 0, 0, 0)),
    (b"D", b"Ss\0"),
    (b"D", b"Pp\0"),
    (b"E", b"p\0" + struct.pack("!i", 5)),
    (b"C", b"Sp\0"),
    (b"Q", b"SELECT i, s, l FROM shown LIMIT 3\0"),
    (b"Q", b"COPY (SELECT i, s FROM shown LIMIT 3) TO STDOUT (FORMAT csv)\0"),
    (b"Q", b"BEGIN; DECLARE c CURSOR FOR SELECT 1; FETCH ALL c; CLOSE c; COMMIT\0"),
    (b"d", b"data"),
    (b"F", struct.pack("!iiiii", 1, 0, 0, 0, 0)),
    (b"H", b""),
    (b"S", b""),
]
"""Messages of every kind, as clients send them."""


def mutated(draw: random.Random) -> bytes:
    """A message of which a few bytes are others, or are missing, or are too many; its length is right, mostly."""
    kind, body = draw.choice(VALID)
    changed = bytearray(body)
    for _ in range(draw.randrange(4)):
        place = draw.randrange(len(changed) + 1)
        match draw.randrange(3):
            case 0 if place < len(changed):
                changed[place] = draw.randrange(256)
            case 1:
                del changed[place : place + draw.randrange(1, 9)]
            case _:
                changed[place:place] = draw.randbytes(draw.randrange(1, 9))
    length = (
        len(changed) + 4 if draw.random() < 0.99 else draw.choice([0, -1, 3, len(changed) + 3, 2**31 - 1, 2**20 + 5])
    )
    return kind + struct.pack("!i", length) + bytes(changed)


@pytest.mark.parametrize("count", [1000, pytest.param(100_000, marks=[pytest.mark.slow, pytest.mark.audit])])
def test_mutated_messages_end_their_own_session_at_most(served, count):
    """No crash, no thread that stays, and no memory that grows."""
    draw, process = random.Random(5), served.service.process("front")
    left, sessions = count, 0
    with psycopg.connect(served.dsn()) as connection:
        before = None
        while left > 0:
            with raw_session(served) as session:
                many = min(left, 200)
                try:
                    session.sendall(b"".join(mutated(draw) for _ in range(many)) + b"S\0\0\0\4X\0\0\0\4")
                    session.shutdown(socket.SHUT_WR)
                except OSError:
                    pass  # it was sent away in the middle
                ended(session)
            left, sessions = left - many, sessions + 1
            if sessions == 50:
                before = resident(process)
        assert connection.execute("SELECT 1").fetchall() == [(1,)]
        assert served.service.process("front") == process
        assert before is None or resident(process) < before + 100_000, "KiB"
        until = time.monotonic() + 60
        while threads(process) > 230:  # those that log in, and a few
            assert time.monotonic() < until
            time.sleep(0.1)


def test_mutated_beginnings_end_themselves_at_most(served):
    draw, process = random.Random(6), served.service.process("front")
    for _ in range(depth(300)):
        data = bytearray(startup(b"alice") + b"p" + struct.pack("!i", 8) + b"nope")
        for _ in range(draw.randrange(1, 5)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        with raw(served, tls=True) as connection:
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            ended(connection)
    with psycopg.connect(served.dsn()) as connection:
        assert connection.execute("SELECT 1").fetchall() == [(1,)]
    assert served.service.process("front") == process


def status(process: int, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+)", Path(f"/proc/{process}/status").read_text(), re.MULTILINE)
    return int(found[1]) if found else 0


def resident(process: int) -> int:
    """KiB of memory."""
    return status(process, "VmRSS")


def threads(process: int) -> int:
    return status(process, "Threads")


def raw_session(served, user="alice"):
    """A session after its login, as a bare socket."""
    from scramp import ScramClient

    connection = raw(served, tls=True)
    connection.sendall(startup(user.encode()))
    read(connection)
    client = ScramClient(["SCRAM-SHA-256"], user, served.tokens[user])
    first = client.get_client_first().encode()
    body = b"SCRAM-SHA-256\0" + struct.pack("!i", len(first)) + first
    connection.sendall(b"p" + struct.pack("!i", len(body) + 4) + body)
    client.set_server_first(read(connection)[1][4:].decode())
    final = client.get_client_final().encode()
    connection.sendall(b"p" + struct.pack("!i", len(final) + 4) + final)
    while read(connection)[0] != b"Z":
        pass
    return connection


def read(connection) -> tuple[bytes, bytes]:
    head = exactly(connection, 5)
    return head[:1], exactly(connection, struct.unpack("!i", head[1:])[0] - 4)


def exactly(connection, count: int) -> bytes:
    found = b""
    while len(found) < count:
        part = connection.recv(count - len(found))
        assert part, "the server ended the connection"
        found += part
    return found


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="reads another process' memory as Linux shows it")
def test_the_fronts_memory_holds_nothing_private(served):
    with psycopg.connect(served.dsn(), autocommit=True) as connection:
        connection.execute(
            "SELECT * FROM dp_query('SELECT sex, count(*) AS n FROM adult GROUP BY sex', epsilon => 0.01)"
        )
        front = served.service.process("front")
        shown = [in_memory(worker, b"it's made, not measured") for worker in workers_of(front)]
        assert any(shown), "the search finds what is there"
        for process in (front, *workers_of(front)):
            assert not in_memory(process, CANARY.encode())


ASKED = (
    "SELECT * FROM dp_query('SELECT note, count(*) AS n FROM asked GROUP BY note', epsilon => 0.1)",
    "SELECT * FROM dp_query('SELECT size, count(*) AS n FROM asked WHERE note <> ''usual'' GROUP BY size', epsilon => 0.1)",
    "SELECT * FROM dp_query('SELECT CAST(note AS INTEGER) AS x, count(*) AS n FROM asked GROUP BY x', epsilon => 0.1)",
    "SELECT * FROM dp_query('SELECT max(note) FROM asked', epsilon => 0.1)",
    "SELECT * FROM dp_synthesize('asked', epsilon => 0.2, mechanism => 'direct')",
    "SELECT * FROM dp_plan('asked', epsilon => 0.1)",
    "SELECT note FROM asked",
)
"""Questions about a table whose rows hold the canary, refused ones among them."""


@pytest.mark.medium
@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="reads another process' memory as Linux shows it")
def test_what_a_call_counts_stays_with_the_keeper(served):
    answered = 0
    with psycopg.connect(served.dsn(), autocommit=True) as connection:
        for sql in ASKED:
            try:
                shown = repr(connection.execute(sql).fetchall())
                answered += 1
            except psycopg.Error as error:
                shown = str(error)
            assert CANARY not in shown, sql
    assert answered >= 4
    assert in_memory(served.service.process("keeper"), CANARY.encode()), "the search finds it where it is"
    front = served.service.process("front")
    for process in (front, *workers_of(front)):
        assert not in_memory(process, CANARY.encode())


def in_memory(process: int, words: bytes) -> bool:
    """Whether a process holds words; not where it has ended, as one that only wrote the catalogue."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return _in_memory(process, words)
    return False


def _in_memory(process: int, words: bytes) -> bool:
    with open(f"/proc/{process}/maps") as maps, open(f"/proc/{process}/mem", "rb", 0) as memory:
        for line in maps:
            begin, end, access = re.match(r"(\w+)-(\w+) (\S+)", line).groups()
            if not access.startswith("rw"):
                continue
            try:
                memory.seek(int(begin, 16))
                if words in memory.read(int(end, 16) - int(begin, 16)):
                    return True
            except (OSError, ValueError, OverflowError):
                continue
    return False
