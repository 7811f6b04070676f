"""Who waits for whom: calls that charge have their turns, and who asks again for what is there waits for nobody."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import psycopg
import pytest

import dpsql
from dpsql.service.supervisor import serve

pytestmark = pytest.mark.medium
COUNT = "SELECT n FROM dp_query('SELECT count(*) AS n FROM t', epsilon => 0.1, release => '{}')"
TABLE = "SELECT count(*) FROM dp_synthesize('t', epsilon => 0.1, mechanism => 'direct', rows => 20, release => '{}')"


@pytest.fixture
def bank(tmp_path):
    path = tmp_path / "bank.duckdb"
    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS a FROM range(2000) r(i)")
        db.protect("t", epsilon=10.0, delta=1e-9)
        token = db.users.add("ann", limits={"t": 5.0})
    with serve(str(path), port=0, directory="tests.service.held:open_held", user_queue=2) as running:
        where = f"host=127.0.0.1 port={running.port} user=ann password={token} dbname=dpsql sslmode=require"
        yield path, lambda: psycopg.connect(where, autocommit=True)


class Asking(threading.Thread):
    """A statement on a connection of its own, and whether it was told that it waits for another."""

    def __init__(self, connect, sql):
        super().__init__(daemon=True)
        self.sql, self.found, self.waits = sql, None, threading.Event()
        self.connection = connect()
        self.connection.add_notice_handler(self.hear)
        self.start()

    def hear(self, notice):
        if notice.message_primary == "waiting for 1 other calls":
            self.waits.set()

    def run(self):
        with self.connection:
            self.found = self.connection.execute(self.sql).fetchall()


def hold(path, connect, sql):
    """A call that has its turn and keeps it. Without the wait another that is asked for later may come before it."""
    held, end = Asking(connect, sql.format("held")), time.monotonic() + 60
    while not path.with_name("held").exists():
        assert time.monotonic() < end, "it has its turn"
        time.sleep(0.01)
    return held


def charges(path):
    with dpsql.connect(path) as db:
        return len(db.ledger().query("kind == 'charge'"))


def test_who_asks_again_waits_for_nobody(bank):
    path, connect = bank
    with connect() as ann:
        first = [ann.execute(sql.format("first")).fetchall() for sql in (COUNT, TABLE)]
        held = hold(path, connect, COUNT)
        behind = Asking(connect, COUNT.format("behind"))
        assert behind.waits.wait(60), "told that it waits for another call"
        for _ in range(3):  # although two calls of hers wait or run, which is the most that there may be
            assert [ann.execute(sql.format("first")).fetchall() for sql in (COUNT, TABLE)] == first
        with pytest.raises(psycopg.Error, match="2 calls of yours wait or run already"):
            ann.execute(COUNT.format("one too many"))
        assert (held.found, behind.found) == (None, None)
        path.with_name("go").touch()
        for one in (held, behind):
            one.join(60)
            assert len(one.found) == 1
        assert ann.execute(COUNT.format("behind")).fetchall() == behind.found


def test_a_fit_takes_no_place_of_a_query(bank):
    path, connect = bank
    fit = hold(path, connect, TABLE)
    with connect() as ann:
        assert len(ann.execute(COUNT.format("beside it")).fetchall()) == 1
    assert fit.found is None
    path.with_name("go").touch()
    fit.join(60)
    assert fit.found == [(20,)]


def test_what_was_bound_before_is_bound_anew_after_the_owner_changed_something(bank):
    """Also where the answer is there, and was asked for in the same session a moment ago."""
    path, connect = bank

    def owner(*words):
        subprocess.run([sys.executable, "-m", "dpsql", "user", words[0], str(path), *words[1:]], check=True)

    with connect() as ann:
        first = ann.execute(COUNT.format("")).fetchall()
        owner("limit", "ann", "t=0.01")
        assert ann.execute(COUNT.format("")).fetchall() == first, "free, whatever is left of the limit"
        owner("limit", "ann", "t=none")
        # by the keeper, or because a look at the rights came before the statement
        with pytest.raises(psycopg.Error, match="no table 't' that 'ann' may ask about|may do or see was changed"):
            ann.execute(COUNT.format(""))
    owner("limit", "ann", "t=1.0")
    with connect() as ann:  # a session that rights were taken from may be ended at any time
        assert ann.execute(COUNT.format("")).fetchall() == first
