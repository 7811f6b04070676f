"""What a user may see grows and shrinks while their session is open; and whose words the keeper's log takes."""

from __future__ import annotations

import contextlib
import functools
import socket
import time

import psycopg
import pytest

import dpsql
from dpsql.api import owner_door
from dpsql.api.analyst import Analyst
from dpsql.service import audit_log, wire
from dpsql.service.calls import Shown
from dpsql.service.supervisor import serve
from dpsql.service.users import open_users
from tests.service.conftest import Served

LISTED = "SELECT relname FROM pg_class ORDER BY relname"
LOOKS = 3.0
"""Seconds in which the service looks several times whether a session may go on."""


@pytest.fixture(scope="module")
def bank(tmp_path_factory):
    folder = tmp_path_factory.mktemp("growth")
    path, door = folder / "bank.duckdb", folder / "keeper.sock"
    with dpsql.connect(path) as db:
        for name in ("t", "u"):
            db.sql(f"CREATE TABLE {name} AS SELECT i % 3 = 0 AS a FROM range(200) r(i)")
            db.protect(name, epsilon=3.0, delta=1e-9)
        tokens = {name: db.users.add(name, limits={"t": 1.0}) for name in ("alice", "bob")}
    with serve(str(path), port=0, socket=str(door)) as running:
        yield Served(running, path, tokens), door


def owner(path, method, **arguments):
    return owner_door.ask(str(path), dpsql.connect, method, arguments)


@pytest.mark.medium
def test_who_may_ask_about_more_goes_on_with_the_session(bank):
    served, _ = bank
    with (
        psycopg.connect(served.dsn(), autocommit=True) as alice,
        psycopg.connect(served.dsn("bob"), autocommit=True) as bob,
    ):
        owner(served.path, "limit", name="alice", table="u", epsilon=1.0)
        time.sleep(LOOKS)
        assert alice.execute(LISTED).fetchall() == bob.execute(LISTED).fetchall() == [("t",)]
        assert len(alice.execute("FROM dp_query('SELECT count(*) AS n FROM u', epsilon => 0.1)").fetchall()) == 1
    with psycopg.connect(served.dsn(), autocommit=True) as alice:
        assert alice.execute(LISTED).fetchall() == [("t",), ("u",)]
        owner(served.path, "limit", name="alice", table="u", epsilon=None)
        until = time.monotonic() + 120
        with pytest.raises(psycopg.OperationalError, match="was changed"):
            while time.monotonic() < until:
                alice.execute("SELECT 1")
                time.sleep(0.1)


def test_what_is_taken_away_is_no_growth():
    table = [["a", "BOOLEAN", "one of false, true"]]
    before, more = Shown("analyst", {}, {"t": table}), Shown("analyst", {}, {"t": table, "u": table})
    assert more.without_growth(before) == before
    assert before.without_growth(more).audiences != more.audiences


@pytest.mark.medium
@pytest.mark.parametrize("sent", [
    {"call": "rows", "user": "bob", "token": "0" * 64, "function": "dp_query", "arguments": {"sql": "forged"}},
    {"call": "bind", "user": "nobody", "token": "", "function": "forged", "arguments": {}},
    {"call": "forged", "user": "bob", "function": "dp_query", "arguments": {}},
    5, None, "function", ["function"], [],
])  # fmt: skip
def test_who_has_no_token_writes_nothing_into_the_log(bank, sent):
    """Whoever opens the keeper's socket could say that another was refused."""
    served, door = bank
    before = len(list(audit_log.events(served.path, process="keeper")))
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(str(door))
        wire.send_json(connection, sent)
        assert wire.receive(connection)[0] == b"E"
    assert len(list(audit_log.events(served.path, process="keeper"))) == before


@pytest.mark.medium
def test_of_a_refused_call_the_log_has_the_beginning(bank):
    served, _ = bank
    with psycopg.connect(served.dsn("bob"), autocommit=True) as bob, pytest.raises(psycopg.Error):
        bob.execute("FROM dp_query(%s, epsilon => 0.1)", [f"SELECT '{'x' * 50_000}' FROM t"])
    (event,) = [one for one in audit_log.events(served.path, user="bob") if one["event"] == "refused"]
    assert event["function"] == "dp_query"
    assert event["arguments"]["epsilon"] == 0.1
    assert len(event["arguments"]["sql"]) < 3000


@pytest.mark.medium
def test_what_may_be_asked_is_looked_up_when_it_may_be_something_else(tmp_path, monkeypatch):
    """The keeper is asked each second for each user, and a look at all domains takes long."""
    looked = []
    monkeypatch.setattr(Analyst, "askable", lambda self, look=Analyst.askable: looked.append(self.name) or look(self))
    path = tmp_path / "bank.duckdb"
    with dpsql.connect(path) as db:
        for name in ("t", "u"):
            db.sql(f"CREATE TABLE {name} AS SELECT i % 3 = 0 AS a FROM range(200) r(i)")
            db.protect(name, epsilon=3.0, delta=1e-9)
        for name in ("alice", "bob"):
            db.users.add(name, limits={"t": 1.0})
    with contextlib.closing(open_users(str(path))) as users:
        first = users.askable("alice")
        users.bind("bob", "dp_query", {"sql": "SELECT count(*) AS n FROM t", "epsilon": 0.1}).is_of_now()
        assert users.askable("alice") == first == {"t": [("a", "BOOLEAN", "one of false, true")]}
        assert looked == ["alice"]
        assert list(users.askable("bob")) == ["t"]
        owner_of = functools.partial(owner_door.perform, users._database)
        changes = [
            ("limit", {"name": "alice", "table": "u", "epsilon": 1.0}, ["t", "u"]),
            ("limit", {"name": "alice", "table": "t", "epsilon": None}, ["u"]),
            ("change", {"action": "unprotect", "table": "u", "reason": "a trial"}, []),
        ]
        for method, arguments, seen in changes:
            with users._database.instance.as_owner():
                owner_of(method, arguments)
            assert list(users.askable("alice")) == seen
