"""What one user sends ends or fills their own process at most: others are answered, and the front stays."""

from __future__ import annotations

import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import psycopg
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import dpsql
from dpsql.core.roles import SERVED
from dpsql.service.audit_log import AuditError, AuditLog, verify
from dpsql.service.calls import Calls, Login, Refused
from dpsql.service.pgwire.failed import Failed
from dpsql.service.pgwire.holdings import Holdings, bytes_of
from dpsql.service.scram import Client
from dpsql.service.served import PULSE
from dpsql.service.supervisor import serve
from tests.service.conftest import Served, free_port
from tests.service.processes import children_of, threads, workers_of
from tests.service.test_wire import raw_session, read

SECONDS = 4.0
"""That a statement may take: on a loaded machine a first query takes more than two."""
DEEP = "(SELECT string_agg('[', '') || string_agg(']', '') AS s FROM range(150000)) t"
"""A text that nests deeper than any stack holds, and is built where no length of the statement tells."""
DEADLY = [
    f"SELECT length(s::JSON::VARIANT::VARCHAR) FROM {DEEP}",
    f"SELECT s::JSON::VARIANT::JSON IS NULL FROM {DEEP}",
    f"SELECT variant_typeof(s::JSON::VARIANT) FROM {DEEP}",
    f"SELECT length(json_pretty(s)) FROM {DEEP}",
    f"SELECT json_structure(s) IS NULL FROM {DEEP}",
    "SELECT " + "-" * 1 + " - " * 40_000 + "1",
    "SELECT " + "[" * 45_000 + "]" * 45_000,
]
MARKS = "(SELECT string_agg(chr(769), '') || string_agg(chr(790), '') AS s FROM range(100000)) t"
ENDLESS = f"SELECT s COLLATE NFC = 'b' FROM {MARKS}"
"""One value, in which DuckDB sorts marks by exchanging neighbours, and cannot be interrupted."""


def filled(path):
    """A file with a protected table, and the tokens of two users."""
    with dpsql.connect(str(path)) as db:
        db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS a FROM range(200) r(i)")
        db.protect("t", epsilon=3.0, delta=1e-9)
        return {name: db.users.add(name, limits={"t": 1.0}) for name in ("ann", "ben")}


@contextmanager
def bank(folder, **options):
    path = folder / "bank.duckdb"
    tokens = filled(path)
    stated = {"port": 0, "statement_seconds": SECONDS, "metrics": f"127.0.0.1:{free_port()}", **options}
    with serve(str(path), **stated) as service:
        served = Served(service, path, tokens)
        served.metrics = stated["metrics"]
        yield served


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with bank(tmp_path_factory.mktemp("workers")) as found:
        yield found


def connected(served, user):
    return psycopg.connect(served.dsn(user), autocommit=True)


def health(served):
    try:
        return urllib.request.urlopen(f"http://{served.metrics}/health", timeout=60).status
    except urllib.error.HTTPError as error:
        return error.code


def until(condition, seconds=120.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.medium
@pytest.mark.parametrize("sql", DEADLY, ids=[sql[:40] for sql in DEADLY])
def test_a_statement_that_is_too_deep_ends_its_own_process_at_most(served, sql):
    front = served.service.process("front")
    with connected(served, "ben") as ben:
        with suppress(psycopg.Error), connected(served, "ann") as ann:
            ann.execute(sql)
        assert ben.execute("SELECT 1").fetchall() == [(1,)], "nothing of it reaches another user"
        with connected(served, "ann") as again:
            assert again.execute("SELECT 2").fetchall() == [(2,)]
    assert served.service.process("front") == front


def test_who_is_too_deep_is_told_by_a_code(served):
    with connected(served, "ann") as ann:
        with pytest.raises(psycopg.Error, match="too large or too deep") as failure:
            ann.execute(DEADLY[0])
        assert failure.value.sqlstate == "54001"
        assert ann.broken


@pytest.mark.medium
def test_what_cannot_be_interrupted_is_ended_at_twice_its_time(served):
    with ThreadPoolExecutor(1) as pool, connected(served, "ben") as ben:
        hanging = pool.submit(connected(served, "ann").execute, ENDLESS)
        while not hanging.done():
            assert ben.execute("SELECT count(*) FROM range(1000)").fetchall() == [(1000,)]
        assert hanging.exception().sqlstate == "57014"
        assert "twice its time limit" in str(hanging.exception())
    with connected_again(served, "ann") as again:
        assert again.execute("SELECT 1").fetchall() == [(1,)]


def connected_again(served, user):
    """A connection to the next process; the one before may still be there to say that it ends."""
    while True:
        try:
            return connected(served, user)
        except psycopg.OperationalError as error:
            assert "connect again" in str(error)


@pytest.mark.medium
def test_what_was_charged_before_a_death_is_not_charged_again(served):
    asked = "SELECT * FROM dp_query('SELECT count(*) AS n FROM t', epsilon => 0.1)"
    spent = "SELECT epsilon_spent FROM dp_budget()"
    with connected(served, "ann") as ann:
        before = ann.execute(asked).fetchall(), ann.execute(spent).fetchall()
        with pytest.raises(psycopg.Error):
            ann.execute(DEADLY[0])
    with connected(served, "ann") as ann:
        assert (ann.execute(asked).fetchall(), ann.execute(spent).fetchall()) == before


# --- memory -----------------------------------------------------------------------------------------------------------


def message(kind, body):
    return kind + struct.pack("!i", len(body) + 4) + body


def bound(name, value):
    return message(b"B", name + b"\0s\0" + struct.pack("!hhi", 0, 1, len(value)) + value + struct.pack("!h", 0))


@pytest.mark.medium
@pytest.mark.parametrize("value", [b"a" * 1_000_000, "🙈".encode() + b"a" * 1_000_000], ids=["1 MB", "4 MB"])
def test_parameters_fill_no_memory(served, value):
    """Before, a session could keep 1,000 portals of 4 MB each."""
    front = served.service.process("front")
    with raw_session(served, "ann") as session:
        session.sendall(message(b"P", b"s\0SELECT length($1)\0" + struct.pack("!hi", 1, 25)) + message(b"H", b""))
        assert read(session)[0] in b"1N"
        answers = []
        for number in range(100):
            session.sendall(bound(b"p%d" % number, value) + message(b"H", b""))
            answers.append(read(session))
            if answers[-1][0] == b"E":
                break
        kind, words = answers[-1]
        assert (kind, b"54000" in words, b"16777216 is the most" in words) == (b"E", True, True)
        assert len(answers) < 20
    with connected(served, "ben") as ben:
        assert ben.execute("SELECT 1").fetchall() == [(1,)]
    assert served.service.process("front") == front


KINDS = st.sampled_from(["statement", "portal", "cursor"])
STEPS = st.lists(st.tuples(st.integers(0, 3), KINDS, st.integers(0, 20), st.integers(0, 60_000), st.booleans()))


@settings(max_examples=60, deadline=None)
@given(STEPS)
@example([(number, "portal", 0, 60_000, False) for number in range(4)])  # each has room, all together have not
def test_sessions_of_a_user_keep_no_more_than_they_may(steps):
    of_user = Holdings(150_000)
    sessions, kept = [Holdings(80_000, of_user) for _ in range(4)], {}
    for number, kind, name, length, drops in steps:
        key, text = (number, kind, name), "x" * length
        if drops:
            sessions[number].drop((kind, name))
            kept.pop(key, None)
        else:
            with suppress(Failed):
                sessions[number].keep((kind, name), text)
                kept[key] = bytes_of(text)
        for session in range(4):
            assert sum(count for (whose, *_), count in kept.items() if whose == session) <= 80_000
        assert sum(kept.values()) <= 150_000
    for session in sessions:
        session.close()
    of_user.keep("all", "x" * 140_000)


@settings(max_examples=60, deadline=None)
@given(st.recursive(st.text() | st.none() | st.integers() | st.binary(), lambda inner: st.lists(inner)))
def test_what_is_inside_counts(value):
    assert bytes_of([value, value]) > bytes_of(value)


def test_settings_are_few_and_short(served):
    with connected(served, "ann") as ann:
        with pytest.raises(psycopg.Error, match="settings are set, the most"):
            for number in range(200):
                ann.execute(f"SET mine.unknown_{number} = 'x'")
        assert ann.execute("SET mine.unknown_1 = 'y'").statusmessage == "SET", "one that is set may be changed"
        with pytest.raises(psycopg.Error, match="63 is the most"):
            ann.execute(f"SET mine.{'a' * 90_000} = 'x'")
        ann.execute("RESET ALL")
        ann.execute("SET mine.another = 'x'")


@pytest.mark.parametrize("times", [2, 20, 4000])
def test_a_cursor_is_of_a_select(served, times):
    with connected(served, "ann") as ann, pytest.raises(psycopg.Error) as failure:
        ann.execute("DECLARE c CURSOR WITH HOLD FOR " + "DECLARE c CURSOR FOR " * times + "SELECT 1")
    assert failure.value.sqlstate == "42601"
    assert "not of a DECLARE" in str(failure.value)


def test_no_client_starts_a_thread_of_the_front(served):
    front = served.service.process("front")
    with connected(served, "ann"):
        before = threads(front)
        others = [connected(served, user) for user in ("ann", "ben") * 8]
        silent = [socket.create_connection(("127.0.0.1", served.service.port)) for _ in range(50)]
        assert threads(front) <= before
    for one in (*others, *silent):
        one.close()


# --- places -----------------------------------------------------------------------------------------------------------


@pytest.mark.medium
def test_so_many_users_have_a_process_and_no_more(tmp_path):
    with bank(tmp_path, processes=1, silence_seconds=4.0) as few:
        front = few.service.process("front")
        with connected(few, "ann") as ann:
            assert len(workers_of(few.service.process("front"))) == 2
            until(lambda: "no" in refusal(few, "ben"))
            assert ann.execute("SELECT 1").fetchall() == [(1,)]
            for _ in range(3):
                beat = few.service._beats["front"]
                until(lambda beat=beat: few.service._beats["front"] > beat)
            assert ann.execute("SELECT 1").fetchall() == [(1,)]
        until(lambda: refusal(few, "ben") == "")
        assert len(workers_of(front)) <= 2, "the heartbeat's has a place of its own"
        assert few.service.process("front") == front, "who fills the places does not stop the heart"


def refusal(served, user):
    try:
        connected(served, user).close()
    except psycopg.OperationalError as error:
        return "no: " + str(error)
    return ""


def test_the_heartbeats_user_sees_and_does_nothing(served):
    calls = Calls(served.service._options.socket)
    client = Client(calls.pulse())
    with calls.login(PULSE, client.first) as exchange:
        login = Login(PULSE, exchange.final(client.final(exchange.first))[1])
    assert calls.shown(login).tables == {}
    for function in SERVED:
        with pytest.raises(Refused, match="there is no user"):
            calls.bind(login, function, {})
    with pytest.raises(Refused, match="there is no user"), calls.read(login, "t", "1"):
        pass


# --- the heartbeat ----------------------------------------------------------------------------------------------------


@pytest.mark.medium
def test_a_front_that_lets_nobody_in_is_started_again(tmp_path):
    with bank(tmp_path, silence_seconds=4.0) as silent:
        front = silent.service.process("front")
        until(lambda: health(silent) == 200)
        os.kill(front, signal.SIGSTOP)  # it lives, and answers nobody
        until(lambda: silent.service.process("front") != front)
        until(lambda: refusal(silent, "ann") == "")
        front = silent.service.process("front")
        keeper = silent.service.process("keeper")
        os.kill(keeper, signal.SIGSTOP)
        try:
            until(lambda: health(silent) == 503)
        finally:
            os.kill(keeper, signal.SIGCONT)
        until(lambda: health(silent) == 200)
        assert silent.service.process("front") == front, "it was the keeper who said nothing"


@pytest.mark.medium
def test_a_supervisor_that_was_stopped_ends_no_front(tmp_path):
    """Both stand still for longer than the silence, and the supervisor goes on first."""
    filled(tmp_path / "bank.duckdb")
    code = f"from dpsql.service.supervisor import serve\nserve({str(tmp_path / 'bank.duckdb')!r}, port=0, silence_seconds=5.0)"
    code += ".__enter__().wait()"
    supervisor = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    try:
        until(lambda: len(fronts_of(supervisor.pid)) == 1 and children_of(fronts_of(supervisor.pid)[0]))
        front = fronts_of(supervisor.pid)
        os.kill(supervisor.pid, signal.SIGSTOP)
        os.kill(front[0], signal.SIGSTOP)
        time.sleep(8.0)
        os.kill(supervisor.pid, signal.SIGCONT)
        time.sleep(1.0)
        assert fronts_of(supervisor.pid) == front
        os.kill(front[0], signal.SIGCONT)
    finally:
        supervisor.kill()
        supervisor.wait()


def fronts_of(supervisor):
    return [one for one in children_of(supervisor) if "dpsql.service.front" in about(one, "cmdline")]


# --- a process that was broken into -----------------------------------------------------------------------------------


def about(process, what):
    with open(f"/proc/{process}/{what}") as file:
        return file.read()


SECRETS = {
    "DPSQL_LEDGER_KEY": "0123456789abcdef" * 4,
    "BANK_PG": "postgresql://counter:canary@db/bank",
    **dict.fromkeys(("PGPASSWORD", "AWS_SECRET_ACCESS_KEY", "PASSWORD_OF_ANOTHER"), "canary-4711"),
}


@pytest.mark.medium
def test_no_process_but_the_keeper_has_a_secret(tmp_path, monkeypatch):
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    with bank(tmp_path) as one, connected(one, "ann"):
        front = one.service.process("front")
        seen_by_keeper = {*re.findall(r"(\w+)=", about(one.service.process("keeper"), "environ"))}
        assert {*SECRETS} <= seen_by_keeper
        for process in (front, *children_of(front), *workers_of(front)):
            assert not {*SECRETS} & {*re.findall(r"(\w+)=", about(process, "environ"))}
        for process in (*children_of(front), *workers_of(front)):
            assert os.readlink(f"/proc/{process}/fd/1") == os.devnull, "the front's output is read by the supervisor"


SAID = r"""
import socket, subprocess, sys, threading, time
from dpsql.service import wire
from dpsql.service.options import Options
from dpsql.service.relay import Relay
from dpsql.service.workers import Worker, Workers

relay = Relay(lambda event: None, lambda pair: None)
relay.workers = Workers(Options("x"), relay.watch)
relay.start()
for kind in b"ABEGL?":
    for payload in (b"Infinity", b"NaN", b"[" * 100000, b'[1, "\ud800", "x"]', b"[Infinity, 1, 1]", b"\xff", b"9" * 9999):
        ours, theirs = socket.socketpair()
        process = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
        worker = Worker("ann", ours, process.pid)
        relay.watch(worker)
        theirs.sendall(wire.frame(bytes([kind]), payload))
        theirs.close()
        while not worker.dead:
            time.sleep(0.01)
        process.wait()
print("alive", relay.is_alive())
"""


@pytest.mark.medium
def test_whatever_a_process_says_ends_that_process_alone():
    ended = subprocess.run([sys.executable, "-c", SAID], capture_output=True, text=True, timeout=300)
    assert (ended.stdout, ended.returncode) == ("alive True\n", 0), ended.stderr


# --- the audit log ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [20_000, 50_000])
def test_an_audit_log_has_a_size_and_says_when_it_is_nearly_full(tmp_path, capsys, most):
    log = AuditLog(tmp_path / "log", "front", most=most)
    with pytest.raises(AuditError, match="audit_bytes"):
        for number in range(10_000):
            log({"event": "x", "user": "ann", "number of it": number})
    sizes = [path.stat().st_size for path in (tmp_path / "log").iterdir()]
    assert 0.9 * most < sum(sizes) <= most
    assert len(sizes) > 4, "there is something to move away"
    assert capsys.readouterr().err.count("move full files away") == 1
    text = "".join(path.read_text() for path in (tmp_path / "log").iterdir())
    assert len(re.findall("audit log nearly full", text)) == 1
    log.close()
    away = tmp_path / "away"
    away.mkdir()
    for path in (tmp_path / "log").glob("front-*.jsonl"):
        path.rename(away / path.name)
    log = AuditLog(tmp_path / "log", "front", most=most)
    log({"event": "it goes on", "user": "ann"})
    log.close()
    for path in (tmp_path / "log").iterdir():
        path.rename(away / path.name)
    assert verify(away)[1] == ["keeper.jsonl is not there: it was removed"] or verify(away)[1] == [
        "keeper: keeper.jsonl is not there: it was removed"
    ]


@pytest.mark.medium
def test_where_the_audit_log_is_full_charges_stop_and_readers_go_on(tmp_path):
    with bank(tmp_path, audit_bytes="30KB") as full, connected(full, "ann") as ann:
        for _ in range(200):
            ann.execute("SELECT 1 AS " + "a" * 50)
        spent = ann.execute("SELECT 1")
        with pytest.raises(psycopg.Error, match="nothing is charged") as failure:
            ann.execute("SELECT * FROM dp_query('SELECT count(*) AS n FROM t', epsilon => 0.1)")
        assert failure.value.sqlstate == "58000"
        assert spent.fetchall() == [(1,)]
        with connected(full, "ben") as ben:
            assert ben.execute("SELECT 2").fetchall() == [(2,)], "who only reads comes in"
        text = urllib.request.urlopen(f"http://{full.metrics}/metrics", timeout=60).read().decode()
        assert float(re.search(r"^dpsql_audit_missing_total (\S+)$", text, re.MULTILINE)[1]) > 0
        assert "dpsql_audit_bytes_most 30000.0" in text
        folder = tmp_path / "bank.duckdb.dpsql-audit"
        for path in folder.glob("front-*.jsonl"):
            path.rename(tmp_path / path.name)
        until(lambda: charged(ann), 60)
        lines = "".join(path.read_text() for path in folder.glob("front*.jsonl"))
        assert "lines missing" in lines


def charged(connection):
    try:
        connection.execute("SELECT * FROM dp_query('SELECT count(*) AS n FROM t', epsilon => 0.1)")
    except psycopg.Error:
        return False
    return True
