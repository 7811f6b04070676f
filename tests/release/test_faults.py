"""Kills and interrupts: what was charged is kept, and the same call completes the release at no further cost."""

from __future__ import annotations

import gc
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.errors import Interrupted, InvalidArgument
from dpsql.runtime.process_settings import uncollected
from dpsql.runtime.progress import Quiet, breaking

from ..processes import run_and_die

OPTIONS = "relaxed_rows := 16, steps := 20"
CALL = f"FROM dp_synthesize('t', epsilon := 1.0, {OPTIONS})"


def prepare(path: Path) -> None:
    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a, i % 3 = 0 AS b FROM range(100) r(i)")
        db.protect("t", epsilon=1.5, delta=1e-6)


def kill_in(module: str, name: str, path: Path, call: str) -> None:
    """Run a call in a process that dies by kill -9 where it uses a name of a module."""
    script = f"""
import os, signal, importlib, dpsql
def die(*_, **__): os.kill(os.getpid(), signal.SIGKILL)
setattr(importlib.import_module({module!r}), {name!r}, die)
dpsql.connect({str(path)!r}).sql({call!r}).fetchall()
"""
    assert run_and_die(script) == -signal.SIGKILL


QUERY = "FROM dp_query('SELECT a, count(*) AS n, avg(b::INT) AS share FROM t GROUP BY a', epsilon := 1.0)"


@pytest.mark.medium
@pytest.mark.parametrize(
    ("module", "name"),
    [("dpsql.engines.duckdb.engine", "DuckDBCounter"), ("dpsql.release.query_answers", "answers_frame")],
)
def test_a_query_killed_between_charge_and_publication(tmp_path, module, name):
    """kill -9 before and after the answer is journalled: the same query completes, charged once, with the same answer."""
    path = tmp_path / "bank.duckdb"
    prepare(path)
    kill_in(module, name, path, QUERY)
    with dpsql.connect(path) as db:
        assert db.sql("SELECT state IN ('reserved', 'measured') FROM dp_releases()").fetchall() == [(True,)]
        spent = db.sql("SELECT epsilon_spent, releases FROM dp_budget()").fetchall()
        told = db.sql("SELECT answer, cell, value FROM dpsql.cell ORDER BY ALL").fetchall()
        rows = db.sql(QUERY).fetchall()
        assert len(rows) in (2, 3)  # a group of NULL shows where noise makes it
        assert db.sql("SELECT epsilon_spent, releases FROM dp_budget()").fetchall() == spent
        assert db.sql("SELECT state FROM dp_releases()").fetchall() == [("published",)]
        assert set(told) <= set(db.sql("SELECT answer, cell, value FROM dpsql.cell").fetchall())
        assert bool(told) == (name == "answers_frame")


KILL_AT = {
    "after the charge": ("dpsql.engines.duckdb.engine", "DuckDBCounter"),
    "after the first answer": ("dpsql.mechanisms.projection.projection", "best_total"),
    "before the rows are stored": ("dpsql.release.synthesis", "coded"),
}


@pytest.mark.medium
@pytest.mark.parametrize("point", KILL_AT)
def test_killed_between_charge_and_publication(tmp_path, point):
    """kill -9 at a named point, then the same call: the release arrives and the budget was charged once."""
    path = tmp_path / "bank.duckdb"
    prepare(path)
    module, name = KILL_AT[point]
    kill_in(module, name, path, CALL)
    with dpsql.connect(path) as db:
        assert db.sql("SELECT state IN ('reserved', 'measured') FROM dp_releases()").fetchall() == [(True,)]
        spent = db.sql("SELECT epsilon_spent, releases FROM dp_budget()").fetchall()
        answers = db.sql("SELECT number, rho FROM dpsql.answer ORDER BY number").fetchall()
        values = db.sql("SELECT * FROM dpsql.cell ORDER BY ALL").fetchall()
        assert len(db.sql(CALL).fetchall()) > 0
        assert db.sql("SELECT epsilon_spent, releases FROM dp_budget()").fetchall() == spent
        assert db.sql("SELECT state FROM dp_releases()").fetchall() == [("published",)]
        # what was measured before the kill is used, not measured again
        assert db.sql("SELECT number, rho FROM dpsql.answer ORDER BY number").fetchall()[: len(answers)] == answers
        assert set(values) <= set(db.sql("SELECT * FROM dpsql.cell ORDER BY ALL").fetchall())


def test_killed_before_the_charge_costs_nothing(tmp_path):
    path = tmp_path / "bank.duckdb"
    prepare(path)
    script = f"""
import os, signal, dpsql, dpsql.books.accounts.charging as charging
charging.charge = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)
dpsql.connect({str(path)!r}).sql({CALL!r}).fetchall()
"""
    assert run_and_die(script) == -signal.SIGKILL
    with dpsql.connect(path) as db:
        assert db.sql("SELECT epsilon_spent, releases FROM dp_budget()").fetchall() == [(0.0, 0)]


LONG = "FROM dp_synthesize('t', epsilon := 1.0, relaxed_rows := 512, steps := 100000)"


def long_table(db: dpsql.Database) -> None:
    columns = ", ".join(f"i % {3 + k} AS c{k}" for k in range(8))
    db.sql(f"CREATE TABLE t AS SELECT {columns} FROM range(1000) r(i)")
    db.protect("t", epsilon=1.5, delta=1e-6)
    for k in range(8):
        db.domain("t", f"c{k}", lower=0, upper=2 + k)


def wait_for_fit(db: dpsql.Database) -> None:
    """Until the measurements are stored: the fit goes on for minutes then."""
    cursor = db.connection.cursor()
    for _ in range(3000):
        if cursor.execute("SELECT count(*) FROM dpsql.answer").fetchall()[0][0] > 1:
            time.sleep(3)  # past the compilation
            return
        time.sleep(0.1)
    raise AssertionError("the fit never began")


@pytest.mark.medium
def test_interrupted_from_another_thread(db, interrupting):
    long_table(db)
    stopped: list[float] = []

    def stop() -> None:
        wait_for_fit(db)
        stopped.append(time.monotonic())
        db.interrupt()

    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(duckdb.Error, match="(?i)interrupted"):
        db.sql(LONG).fetchall()
    elapsed = time.monotonic() - stopped[0]
    thread.join()
    assert elapsed < 120  # the work would take many minutes; measured 0.3 s, see tests/benchmarks
    spent = db.sql("SELECT epsilon_spent FROM dp_budget()").fetchall()
    with pytest.raises(Interrupted), interrupting(db, 4):
        db.synthesize("t", 1.0, relaxed_rows=512, steps=100000)
    assert db.sql("SELECT epsilon_spent FROM dp_budget()").fetchall() == spent
    assert db.sql("SELECT state IN ('reserved', 'measured') FROM dp_releases()").fetchall() == [(True,)]


@pytest.mark.medium
def test_work_of_python_alone_is_broken_off():
    """Where nothing is asked in between; once more where the first exception was lost; what it was turned into is it."""

    def work(lost: int) -> None:
        for _ in range(lost):
            try:
                for _ in range(10**10):
                    pass
            except Interrupted:
                continue
        try:
            for _ in range(10**10):
                pass
        except Interrupted:
            raise InvalidArgument("no SQL") from None

    for lost in (0, 1):
        with pytest.raises(Interrupted), breaking(Quiet(lambda: True)):
            work(lost)
        assert gc.isenabled()
    with pytest.raises(InvalidArgument), breaking(Quiet()):
        raise InvalidArgument("no SQL")


@pytest.mark.medium
@pytest.mark.parametrize("wait", [0.05, 0.2, 0.5, 1.0])
def test_a_long_text_is_interrupted_while_it_is_parsed(db, interrupting, wait):
    """An OR of 10,000 terms takes seconds to be understood: nothing is charged, and the next query is answered."""
    db.sql("CREATE TABLE t AS SELECT i % 100 AS c FROM range(1000) r(i)")
    db.protect("t", epsilon=1.5, delta=1e-6)
    db.domain("t", "c", lower=0, upper=99)
    query = "SELECT count(*) FROM t WHERE " + " OR ".join(f"c = {i % 100}" for i in range(10_000))
    with interrupting(db, wait), pytest.raises(duckdb.Error, match="(?i)interrupted"):
        db.sql("FROM dp_query(?, epsilon := 0.5)", [query]).fetchall()
    assert gc.isenabled()
    assert db.sql("SELECT releases FROM dp_budget()").fetchall() == [(0,)]
    assert len(db.query("SELECT c, count(*) FROM t GROUP BY c", epsilon=0.5)) in (100, 101)


@pytest.mark.medium
def test_no_thread_is_begun_where_a_thread_may_be_broken_off(db, monkeypatch):
    """What is thrown into a thread that begins another can reach that one (Python 3.11): the first would wait for ever."""
    db.sql("CREATE TABLE t AS SELECT i % 100 AS c FROM range(1000) r(i)")
    db.protect("t", epsilon=5.0, delta=1e-6)
    db.sql("FROM dp_domain('t', 'c', lower := 0, upper := 99)")
    begun = []
    begin = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda thread: (begun.append(thread.name), begin(thread))[1])
    query = "SELECT c // 7 AS k, count(*) FROM t WHERE c * c > 50 GROUP BY k"
    assert db.sql("FROM dp_query(?, epsilon := 0.5)", [query]).fetchall()
    assert db.sql("FROM dp_plan(?, epsilon := 0.5)", [query]).fetchall()
    assert db.sql("FROM dp_constraint('t', 'c % 3 = 0')").fetchall()
    assert begun == []


@pytest.mark.medium
def test_interrupts_at_random_moments_end_as_such_or_come_too_late(db):
    """While a query is parsed, tried or answered: no other error, nothing left behind, and what was charged is kept."""
    db.sql("CREATE TABLE t AS SELECT i % 100 AS c FROM range(1000) r(i)")
    db.protect("t", epsilon=1000.0, delta=1e-6)
    db.domain("t", "c", lower=0, upper=99)
    room, ended = sys.getrecursionlimit(), []
    for number in range(12):
        condition = " OR ".join(f"c = {(number + i) % 100}" for i in range(700))
        query = f"SELECT c, count(*) AS n FROM t WHERE {condition} GROUP BY c HAVING c > {number}"
        timer = threading.Timer(random.Random(number).random() * 0.6, db.interrupt)
        timer.start()
        try:
            db.sql("FROM dp_query(?, epsilon := 0.5)", [query]).fetchall()
            ended.append("answered")
        except duckdb.Error as error:
            ended.append("interrupted" if re.search("(?i)interrupted", str(error)) else str(error))
        timer.join()
        assert gc.isenabled()
        assert sys.getrecursionlimit() == room
    assert set(ended) <= {"answered", "interrupted"}, ended
    assert "interrupted" in ended
    assert len(db.query("SELECT c, count(*) FROM t GROUP BY c", epsilon=0.5)) in (100, 101)


@pytest.mark.medium
def test_garbage_is_collected_where_some_thread_always_works():
    """As each parse holds the collector off, queries side by side would fill the memory."""

    class Cycle:
        def __init__(self):
            self.me = self

    with uncollected():
        with uncollected():
            kept = weakref.ref(Cycle())
            for _ in range(600_000):
                Cycle()
        assert not gc.isenabled()
        assert kept() is None
    assert gc.isenabled()


@pytest.mark.medium
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_control_c(tmp_path):
    """A real SIGINT while SQL runs: the statement ends within a second, the books are consistent, the process lives."""
    script = f"""
import os, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background of a shell is born ignoring it
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
import dpsql
from tests.release import test_faults
db = dpsql.connect()
db.sql("SET enable_progress_bar = false")  # DuckDB's own bar would stand in the output
test_faults.long_table(db)
def press():
    test_faults.wait_for_fit(db)
    global begin
    begin = time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=press).start()
try:
    db.sql(test_faults.LONG).fetchall()
except (KeyboardInterrupt, dpsql.DpsqlError, Exception) as error:
    print(type(error).__name__, "interrupted" in str(error), round(time.monotonic() - begin, 2))
print(db.sql("SELECT state FROM dp_releases()").fetchall(), db.sql("SELECT releases FROM dp_budget()").fetchall())
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)
except KeyboardInterrupt:
    print("Ctrl-C works as before")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=550)
    lines = done.stdout.splitlines()
    assert len(lines) == 3, done.stdout + done.stderr
    name, interrupted, seconds = lines[0].split()
    assert interrupted == "True", lines
    assert float(seconds) < 120
    assert lines[1] == "[('measured',)] [(1,)]"
    assert lines[2] == "Ctrl-C works as before"
