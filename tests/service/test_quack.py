"""Quack, the second door: what the first one refuses it refuses, and its clients get the same answers."""

from __future__ import annotations

import random
import re
import socket
import subprocess
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path

import duckdb
import psycopg
import pytest

import dpsql
from dpsql.errors import InvalidArgument
from dpsql.service.supervisor import serve
from tests.service.conftest import CANARY, Served, need_quack, serving
from tests.service.hostile import CORNERS, TRIED, generated
from tests.service.test_clients import ASK, FIT, LONG, PLAN, RELEASES, own_rows
from tests.service.test_documentation import free_port
from tests.service.test_hostile import HARMLESS

HOST = "127.0.0.1"


@pytest.fixture(scope="module")
def quack(tmp_path_factory: pytest.TempPathFactory):
    """The service, and the port of the second door."""
    need_quack()
    port = free_port()
    with serving(tmp_path_factory.mktemp("quack"), quack=port, statement_seconds=15.0) as found:
        yield found, port


def extension(name: str) -> str:
    (folder,) = find_spec(f"duckdb_extension_{name}").submodule_search_locations
    return str(next(Path(folder).rglob(f"{name}.duckdb_extension")))


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def loading() -> list[str]:
    return [f"LOAD {literal(extension(name))}" for name in ("httpfs", "quack")]


class Client:
    """A DuckDB that is attached to the service."""

    def __init__(self, served: Served, port: int, user: str = "alice", token: str | None = None) -> None:
        self.where, self.token = f"quack:{HOST}:{port}", f"{user}:{token or served.tokens[user]}"
        self.db = duckdb.connect()
        for statement in [
            *loading(),
            "SET TimeZone = 'UTC'",
            f"CREATE SECRET (TYPE quack, TOKEN {literal(self.token)})",
            f"ATTACH '{self.where}' AS bank",
        ]:
            self.db.execute(statement)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.db.close()

    def local(self, sql: str):
        return self.db.execute(sql).fetchall()

    def ask(self, sql: str):
        """A statement that is sent as it is."""
        return self.local(f"FROM bank.query({literal(sql)})")


def test_it_is_refused_where_it_cannot_be(tmp_path):
    path = tmp_path / "bank.duckdb"
    dpsql.connect(str(path)).close()
    if duckdb.__version__.startswith("1.5."):
        with pytest.raises(InvalidArgument, match="quack is 70000"):
            serve(str(path), quack=70000)
    else:
        with pytest.raises(InvalidArgument, match="quack is served with DuckDB 1.5"):
            serve(str(path), quack=9494)


@pytest.mark.medium
def test_the_command_of_duckdb(quack):
    served, port = quack
    where = Path(find_spec("duckdb_cli").submodule_search_locations[0])
    command = next(
        (path for path in [Path(sys.executable).with_name("duckdb"), *where.rglob("duckdb")] if path.is_file()), None
    )
    assert command is not None
    statements = [
        *loading(),
        f"CREATE SECRET (TYPE quack, TOKEN {literal('alice:' + served.tokens['alice'])})",
        f"ATTACH 'quack:{HOST}:{port}' AS bank",
        "SELECT count(*) AS rows, min(s) FROM bank.shown WHERE i < 20",
        f"FROM bank.query({literal(ASK)})",
        f"SELECT count(*) AS many FROM bank.query({literal(FIT)})",
    ]
    done = subprocess.run(
        [str(command), "-csv", "-c", ";".join(statements)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert '20,"text 0' in done.stdout
    assert re.search(r"^Female,\d+,", done.stdout, re.M)
    assert "many\n50" in done.stdout


@pytest.mark.medium
def test_answers_are_those_of_the_other_door(quack):
    served, port = quack
    with Client(served, port) as client, psycopg.connect(served.dsn(), autocommit=True) as other:
        for sql in (ASK, FIT, PLAN):
            assert client.ask(sql) == other.execute(sql).fetchall()
        assert client.ask(RELEASES) == other.execute(RELEASES).fetchall()
        assert client.local("SELECT * FROM bank.shown ORDER BY i") == own_rows("*")
        assert client.local("SELECT s FROM bank.shown WHERE i = 7") == own_rows("s")[7:8]
        assert client.local("SELECT count(*), sum(x) FROM bank.query('SELECT a.i AS x FROM shown a, shown b')") == [
            (1_000_000, 499_500_000)
        ]
        assert client.ask("SELECT i FROM shown WHERE i < 0") == []
        kinds = {name: kind for name, kind, *_ in client.local("DESCRIBE bank.shown")}
        assert (kinds["wide"], kinds["m"], kinds["l"]) == ("DECIMAL(38,4)", "ENUM('sad', 'ok')", "BIGINT[]")


@pytest.mark.medium
def test_what_was_tried_by_hand_and_what_the_catalogue_gives(quack):
    served, port = quack
    answered, statements = set(), [*TRIED, *CORNERS, *random.Random(3).sample(sorted(generated()), 150)]
    with Client(served, port) as client:
        spent = client.ask("SELECT epsilon_spent FROM dp_budget()")
        for sql in statements:
            try:
                shown = repr(client.ask(sql))
                answered.add(sql)
            except duckdb.Error as error:
                shown = str(error)
            for words in (CANARY, "PRIVATE KEY", "root:", str(served.path), "results.r", "received_"):
                assert words in sql or words not in shown.replace(sql, ""), sql
        for sql in (
            "CREATE TABLE bank.n (a INTEGER)",
            "DROP TABLE bank.shown",
            "INSERT INTO bank.shown (i) VALUES (1)",
        ):
            with pytest.raises(duckdb.Error, match="only SELECT is|Authorization failed"):
                client.local(sql)
        for sql in (
            "SELECT dpsql_answer('x', 'SELECT 1')",
            "SELECT dpsql_login('x', 'y', 'z')",
            "SELECT * FROM results.r1",
        ):
            with pytest.raises(duckdb.Error, match="may not be"):
                client.ask(sql)
        assert client.ask("SELECT count(*) FROM shown") == [(1000,)]
        assert client.ask("SELECT epsilon_spent FROM dp_budget()") == spent
    assert answered - HARMLESS == set()


@pytest.mark.medium
def test_who_may_not_log_in_and_who_may_not_ask(quack):
    served, port = quack
    for user, token in (("alice", "wrong"), ("nobody", served.tokens["alice"]), ("alice", served.tokens["rita"])):
        with pytest.raises(duckdb.Error, match="Authentication failed"):
            Client(served, port, user, token)
    with Client(served, port, "rita") as client:
        assert client.ask("SELECT * FROM dp_budget()") == []
        for sql in (ASK, FIT, PLAN):
            with pytest.raises(duckdb.Error, match="role reader"):
                client.ask(sql)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=5)
    socket.create_connection((HOST, port), timeout=5).close()


@pytest.mark.medium
def test_statements_end_in_time(quack):
    with Client(*quack) as client:
        with pytest.raises(duckdb.Error, match="more than 15 seconds"):
            client.ask(LONG)
        assert client.ask("SELECT 1") == [(1,)]


@pytest.mark.medium
def test_errors_are_dpsqls_own(quack):
    with Client(*quack) as client:
        for words, sql in (
            ("alice has ε = ", ASK.replace("0.1", "50")),
            ('"nope" not found', "SELECT nope FROM shown"),
            ("getenv may not be called", "SELECT getenv('HOME')"),
        ):
            with pytest.raises(duckdb.Error, match=words):
                client.ask(sql)


@pytest.mark.medium
def test_sessions_are_apart_and_many(quack):
    served, port = quack
    wrong = []

    def talk(number: int) -> None:
        with Client(served, port) as client:
            for place in range(5):
                if client.ask(f"SELECT {number}, i FROM shown WHERE i = {place}") != [(number, place)]:
                    wrong.append(number)

    threads = [threading.Thread(target=talk, args=[number]) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def _refusal(client: Client) -> str:
    """What a client reads that asks until it is refused."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            client.ask("SELECT 1")
        except duckdb.Error as error:
            return str(error)
        time.sleep(0.1)
    return "not refused"


@pytest.mark.medium
def test_a_revoked_user_is_sent_away_and_all_is_audited(quack):
    served, port = quack

    def owner(*words: str) -> str:
        command = [sys.executable, "-m", "dpsql", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    token = owner("user", "add", str(served.path), "otto", "--role", "reader").strip()
    with Client(served, port, "otto", token) as client:
        assert client.ask("SELECT count(*) FROM shown") == [(1000,)]
        owner("user", "revoke", str(served.path), "otto")
        last = _refusal(client)
        if "canceling statement" in last:  # it ran when the user was sent away
            last = _refusal(client)
        assert "connect again" in last
    with pytest.raises(duckdb.Error, match="Authentication failed"):
        Client(served, port, "otto", token)
    log = owner("audit", "show", str(served.path), "--json", "--process", "quack", "--user", "otto")
    for event in ('"event": "login"', '"event": "statement"', '"event": "login refused"'):
        assert event in log
    assert token not in log
    assert "each as it was written" in owner("audit", "verify", str(served.path))


@pytest.mark.medium
def test_messages_that_are_none_leave_it_alive(quack):
    """Bytes that are not the protocol's, before a login."""
    served, port = quack
    draw = random.Random(7)
    login = bytes.fromhex("64000101ffff6400") + b"alice:x" + bytes(60)
    for _ in range(200):
        body = bytearray(login)
        for _ in range(draw.randrange(1, 8)):
            body[draw.randrange(len(body))] = draw.randrange(256)
        head = f"POST /quack HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection((HOST, port), timeout=120) as connection:
            connection.sendall(head.encode() + body)
            while connection.recv(65536):
                pass
    before = served.service.process("quack")
    with Client(served, port) as client:
        assert client.ask("SELECT 1") == [(1,)]
    assert served.service.process("quack") == before
