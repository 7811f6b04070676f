"""The service and the books together: what users may do is what the books say now, and the owner says it while it runs."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time

import psycopg
import pytest

import dpsql
from dpsql.api.cli import main
from dpsql.service import audit_log
from dpsql.service.supervisor import serve

pytestmark = pytest.mark.medium
COUNT = "SELECT n FROM dp_query('SELECT count(*) AS n FROM t', epsilon => {})"
DEADLINE = 120.0


@pytest.fixture(scope="module")
def bank(tmp_path_factory):
    path = tmp_path_factory.mktemp("bank") / "bank.duckdb"
    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS a, (i % 5)::INTEGER AS b FROM range(2000) r(i)")
        db.sql("CREATE TABLE other AS SELECT 4711 AS private")
        db.protect("t", epsilon=10.0, delta=1e-9)
        db.domain("t", "b", lower=0, upper=4)
        db.synthesize("t", 1.0, relaxed_rows=16, steps=5, rows=300, release="first")
        db.synthesize("t", 1.0, relaxed_rows=16, steps=5, rows=200, release="second")
    return path


@pytest.fixture(scope="module")
def service(bank):
    with serve(str(bank), port=0) as running:
        yield running


@pytest.fixture
def owner(bank, service, capsys):
    """The owner's commands, which ask the keeper though it is another process that runs them."""

    def run(*words: str, status: int = 0) -> str:
        named = 2 if words[0] in ("user", "ledger") else 1
        found = main([*words[:named], str(bank), *words[named:]])
        shown = capsys.readouterr()
        assert found == status, shown.err
        return shown.out if status == 0 else shown.err

    return run


@pytest.fixture
def connect(service):
    def connected(user: str, token: str):
        return psycopg.connect(
            host="127.0.0.1", port=service.port, user=user, password=token, dbname="dpsql", sslmode="verify-full",
            sslrootcert=service.certificate, autocommit=True,
        )  # fmt: skip

    return connected


def tables(connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT table_name FROM information_schema.tables").fetchall()}


def ends(connection) -> bool:
    """Whether the service ends a session within the deadline."""
    until = time.monotonic() + DEADLINE
    while time.monotonic() < until:
        try:
            connection.execute("SELECT 1")
        except psycopg.OperationalError:
            return True
        time.sleep(0.1)
    return False


def test_a_user_who_is_added_while_it_runs_asks_within_their_limit(owner, connect, bank):
    token = owner("user", "add", "ann", "--limit", "t=0.5").strip()
    with connect("ann", token) as ann:
        first = ann.execute(COUNT.format(0.3)).fetchall()
        assert ann.execute(COUNT.format(0.3)).fetchall() == first  # free, the same noise
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded, match="limit of 0.5"):
            ann.execute(COUNT.format(0.4))
        ((source, spent),) = ann.execute("SELECT source, epsilon_spent FROM dp_budget()").fetchall()
        assert (source, round(spent, 6)) == ("t", 0.3)
        owner("user", "limit", "ann", "t=0.9")
        assert len(ann.execute(COUNT.format(0.4)).fetchall()) == 1
    assert "ann" in owner("user", "list")


def test_who_is_revoked_is_sent_away_and_stays_out(owner, connect):
    token = owner("user", "add", "bob", "--limit", "t=0.5").strip()
    with connect("bob", token) as bob:
        assert len(bob.execute(COUNT.format(0.1)).fetchall()) == 1
        owner("user", "revoke", "bob")
        with pytest.raises(psycopg.Error):  # refused by the keeper, or sent away already
            bob.execute(COUNT.format(0.2))
        assert ends(bob)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        connect("bob", token)


def test_a_token_that_was_rotated_ends(owner, connect):
    token = owner("user", "add", "carol").strip()
    with connect("carol", token) as carol:
        assert carol.execute("SELECT 1").fetchall() == [(1,)]
        new = owner("user", "rotate", "carol").strip()
        assert ends(carol)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        connect("carol", token)
    connect("carol", new).close()


def test_who_reads_nothing_holds_no_farewell_up(owner, connect):
    tokens = {name: owner("user", "add", name).strip() for name in ("deaf", "next")}
    deaf, other = (connect(name, token) for name, token in tokens.items())
    with contextlib.closing(deaf), contextlib.closing(other):  # psycopg may hold the one that was ended for open
        deaf.pgconn.send_query(b"SELECT i, i::VARCHAR FROM range(10000000) r(i)")  # and reads no row of it
        owner("user", "revoke", "deaf")
        time.sleep(3.0)  # meanwhile it is to be told
        owner("user", "revoke", "next")
        assert ends(other)


def test_each_user_sees_their_tables_and_no_others(owner, connect):
    tokens = {name: owner("user", "add", name, "--role", role).strip() for name, role in
              (("dora", "analyst"), ("emil", "reader"), ("finn", "reader"))}  # fmt: skip
    owner("publish", "first", "for_all", "--audience", "everyone", "--comment", "it's for all")
    owner("publish", "second", "for_emil", "--audience", "emil")
    shown = {"dora": {"for_all"}, "emil": {"for_all", "for_emil"}, "finn": {"for_all"}}
    for name, expected in shown.items():
        with connect(name, tokens[name]) as connection:
            assert tables(connection) == expected
            assert connection.execute("SELECT count(*), count(a), max(b) <= 4 FROM for_all").fetchall() == [
                (300, 300, True)
            ]
            ((comment,),) = connection.execute("SELECT obj_description('for_all'::regclass)").fetchall()
            assert "it's for all" in comment
            assert "-DP" in comment
            own = {"for_emil", "main.for_emil"} - {f"{place}{one}" for one in expected for place in ("", "main.")}
            for relation in {*own, "t", "other", "dpsql.person"}:
                with pytest.raises((psycopg.errors.UndefinedTable, psycopg.errors.InsufficientPrivilege)):
                    connection.execute(f"SELECT * FROM {relation}")
    with connect("emil", tokens["emil"]) as emil, connect("finn", tokens["finn"]) as finn:
        owner("unpublish", "for_emil")
        assert ends(emil)
        assert finn.execute("SELECT count(*) FROM for_all").fetchall() == [(300,)]  # theirs is as it was
        owner("publish", "second", "for_all", "--audience", "everyone")
        until = time.monotonic() + DEADLINE
        while finn.execute("SELECT count(*) FROM for_all").fetchall() != [(200,)]:
            assert time.monotonic() < until
            time.sleep(0.1)


def test_who_is_shown_it_no_longer_reads_no_new_row(owner, connect):
    """Not even before their session ends, when somebody who is shown the new rows comes meanwhile."""
    tokens = {name: owner("user", "add", name, "--role", role).strip() for name, role in
              (("olga", "analyst"), ("otto", "reader"))}  # fmt: skip
    for _ in range(3):
        owner("publish", "first", "narrowed", "--audience", "everyone")
        with connect("otto", tokens["otto"]) as otto:
            counted = "SELECT count(*) FROM narrowed"
            assert otto.execute(counted).fetchall() == [(300,)]
            owner("publish", "second", "narrowed", "--audience", "analysts")
            with connect("olga", tokens["olga"]) as olga:
                assert olga.execute(counted).fetchall() == [(200,)]
                with contextlib.suppress(psycopg.Error):  # sent away already
                    assert otto.execute(counted).fetchall() == [(300,)]
            assert ends(otto)
    owner("unpublish", "narrowed")


def test_one_cannot_log_in_as_another(owner, connect):
    token = owner("user", "add", "gina").strip()
    owner("user", "add", "hugo")
    for name in ("hugo", "GINA", "gina ", "owner", "dpsql"):
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            connect(name, token)


def test_the_owner_changes_an_account_while_it_runs(owner, connect):
    assert owner("budget").splitlines()[1].split()[1] == "10"
    assert owner("ledger", "raise", "t", "--epsilon", "11", "--reason", "the board agreed").startswith("t: epsilon 11,")
    assert owner("ledger", "forgive", "t", "--reason", "the disk was full").startswith("t: epsilon 11,")
    assert " 11 " in owner("budget")
    assert "give more" in owner("ledger", "raise", "t", "--epsilon", "2", "--reason", "less", status=1)
    assert "not protected" in owner("ledger", "retire", "other", "--reason", "no", status=1)
    with connect("kim", owner("user", "add", "kim", "--limit", "t=0.5").strip()) as kim:
        assert len(kim.execute(COUNT.format(0.1)).fetchall()) == 1


def test_the_owners_errors_are_those_of_the_file(owner):
    assert "give table=epsilon" in owner("user", "add", "ida", "--limit", "t", status=1)
    assert "there is no" in owner("user", "revoke", "nobody", status=1)
    assert "role is 'boss'" in owner("user", "add", "ida", "--role", "boss", status=1)


def test_what_was_done_is_in_the_audit_log(owner, connect, bank):
    token = owner("user", "add", "jack", "--limit", "t=0.5").strip()
    with connect("jack", token) as jack:
        jack.execute(COUNT.format(0.2))
        with pytest.raises(psycopg.Error):
            jack.execute("SELECT * FROM read_text('/etc/passwd')")
    with pytest.raises(psycopg.OperationalError):
        connect("jack", "a guess")
    expected, until = (
        {"call", "answered", "login", "statement", "refused", "login refused"},
        time.monotonic() + DEADLINE,
    )
    while not expected <= {event["event"] for event in audit_log.events(bank, user="jack")}:
        assert time.monotonic() < until  # some are written after the client has its answer
        time.sleep(0.1)
    found = [event for event in audit_log.events(bank, process="keeper") if event["event"] == "owner"]
    assert any(json.loads(event["request"])["arguments"].get("name") == "jack" for event in found)
    text = "".join(path.read_text() for path in audit_log.folder_of(bank).iterdir())
    assert token not in text
    assert audit_log.verify(bank)[1] == []


def test_whatever_comes_to_the_owners_socket_it_goes_on(owner, bank):
    path = bank.with_name(f"{bank.name}.dpsql-service")
    assert path.stat().st_mode & 0o777 == 0o600
    for line in (
        b'{"method":"limit","arguments":{"name":{"a":1},"table":["x"],"epsilon":1}}',
        b'{"method":"add","arguments":{"name":null}}',
        b"[" * 100_000,
        b'{"method":"list","arguments":[1]}',
        b"\xff",
    ):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path.read_text().strip())
            connection.sendall(line + b"\n")
            assert b"error" in connection.recv(2**16)
    owner("user", "add", "zoe")
    assert "zoe" in owner("user", "list")


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a folder of another user's")
def test_a_socket_in_a_folder_of_another_users_is_not_the_keepers(tmp_path):
    """After a crash the file that names the socket is there, and its folder may be anybody's."""
    path = tmp_path / "bank.duckdb"
    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE t AS SELECT 1 AS a")
        db.protect("t", epsilon=3.0, delta=1e-9)
    folder = tmp_path / "theirs"
    folder.mkdir()
    os.chown(folder, 12345, 12345)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "owner.sock"))
        listening.listen()
        (tmp_path / "bank.duckdb.dpsql-service").write_text(f"{folder}/owner.sock\n")
        done = subprocess.run(
            [sys.executable, "-m", "dpsql", "user", "add", str(path), "ann"],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "another user's" in done.stderr
    assert done.stdout == ""


def test_one_user_takes_so_many_places_and_no_more(tmp_path):
    path = tmp_path / "bank.duckdb"
    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS a FROM range(200) r(i)")
        db.protect("t", epsilon=3.0, delta=1e-9)
        tokens = {name: db.users.add(name, "reader") for name in ("ann", "ben")}
    with serve(str(path), port=0, user_connections=2) as running:

        def connected(name):
            return psycopg.connect(
                f"host=127.0.0.1 port={running.port} user={name} password={tokens[name]} dbname=dpsql sslmode=require"
            )

        with connected("ann"), connected("ann"):
            with pytest.raises(psycopg.OperationalError, match="2 clients of ann are connected already"):
                connected("ann")
            connected("ben").close()


@pytest.mark.slow
def test_a_statement_that_takes_too_much_memory_ends_alone(tmp_path):
    """DuckDB's own limit does not see the texts that a function makes; the system's does."""
    path = tmp_path / "bank.duckdb"
    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS a FROM range(200) r(i)")
        db.protect("t", epsilon=3.0, delta=1e-9)
        token = db.users.add("ann", "reader")
    with serve(str(path), port=0, memory="100MB", connections=10) as running:
        where = f"host=127.0.0.1 port={running.port} user=ann password={token} dbname=dpsql sslmode=require"
        process = running.process("front")
        with psycopg.connect(where, autocommit=True) as one:
            long = f"length(replace(replace('{'a' * 1000}', 'a', '{'b' * 1000}'), 'b', '{'c' * 3000}'))"
            with pytest.raises(psycopg.Error, match=r"Out of Memory|[Mm]emory"):
                one.execute(f"SELECT {long}")
            assert one.execute("SELECT 1").fetchall() == [(1,)], "the statement ended, and not the front"
            assert running.process("front") == process


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT x FROM range(30000000) t(x) ORDER BY hash(x) LIMIT 1 OFFSET 20000000",
        "SELECT count(*) FROM (SELECT x % 20000000, count(*) FROM range(30000000) t(x) GROUP BY 1)",
        "SELECT count(*) FROM range(20000000) a(x) JOIN range(20000000) b(y) ON hash(x) = hash(y)",
    ],
)
def test_a_statement_writes_nothing_to_the_disk(spare, sql):
    """DuckDB has no place to put what does not fit into memory, so the statement ends."""
    running, where, folder = spare
    with psycopg.connect(where, autocommit=True) as one:
        with pytest.raises(psycopg.Error, match=r"Out of Memory|[Mm]emory"):
            one.execute(sql)
        assert one.execute("SELECT 1").fetchall() == [(1,)]
    front = f"/proc/{running.process('front')}"
    opened = set()
    for descriptor in os.listdir(f"{front}/fd"):
        with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
            opened.add(os.path.realpath(f"{front}/fd/{descriptor}"))
    assert not [name for name in opened if "duckdb_temp" in name]
    places = (os.path.realpath(f"{front}/cwd"), tempfile.gettempdir(), str(folder))
    assert not [one for place in places for one in os.listdir(place) if one in (".tmp", "duckdb_temp")]


@pytest.fixture(scope="module")
def spare(tmp_path_factory):
    """A service with little memory."""
    folder = tmp_path_factory.mktemp("spare")
    path = folder / "bank.duckdb"
    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS a FROM range(200) r(i)")
        db.protect("t", epsilon=3.0, delta=1e-9)
        token = db.users.add("ann", "reader")
    with serve(str(path), port=0, memory="100MB", connections=10) as running:
        yield (
            running,
            f"host=127.0.0.1 port={running.port} user=ann password={token} dbname=dpsql sslmode=require",
            folder,
        )


def test_nothing_is_charged_that_is_not_in_the_audit_log(tmp_path):
    """The log's disk is full: every question is refused, and the ledger is as it was."""
    path = tmp_path / "bank.duckdb"
    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS a FROM range(200) r(i)")
        db.protect("t", epsilon=3.0, delta=1e-9)
        token = db.users.add("ann", limits={"t": 1.0})
        before = len(db.ledger())
    with serve(str(path), port=0, audit="tests.service.full:open_full") as running:
        dsn = f"host=127.0.0.1 port={running.port} user=ann password={token} dbname=dpsql sslmode=require"
        with psycopg.connect(dsn, autocommit=True) as ann, pytest.raises(psycopg.Error, match="nothing is charged"):
            ann.execute(COUNT.format(0.1))
    with dpsql.connect(path) as db:
        assert len(db.ledger()) == before


def test_the_file_is_the_owners_again_when_the_service_has_ended(tmp_path):
    path = tmp_path / "bank.duckdb"
    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS a FROM range(200) r(i)")
        db.protect("t", epsilon=3.0, delta=1e-9)
    with serve(str(path), port=0), pytest.raises(dpsql.DpsqlError, match="did not start"), serve(str(path), port=0):
        pass  # two services of one file
    assert not path.with_name("bank.duckdb.dpsql-service").exists()
    with dpsql.connect(path) as db:
        db.users.add("ann")
