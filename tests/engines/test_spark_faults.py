"""What goes wrong with Spark: the charge stands, nothing is lost, and no error or log of ours quotes a row."""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.errors import DpsqlError

from .spark_bank import WAYS, Lot, lot

pytestmark = pytest.mark.medium
CANARY = "Ms Canary of 12 Row Street"
QUERY = "FROM dp_query('SELECT ward, count(*) FROM people GROUP BY ward', epsilon := 1)"


@pytest.fixture(params=["spark"])  # what is asked goes through the same `Session.run`, whichever way it is counted
def people(request, tmp_path) -> Iterator[Lot]:
    """A table with a canary in it."""
    with lot(tmp_path) as found:
        found.sql(
            f"CREATE TABLE {{s}}.people USING parquet AS SELECT id, concat('w', id % 3) AS ward, '{CANARY}' AS note "
            "FROM range(3000)"
        )
        register(found, request.param)
        yield found


def register(found: Lot, way: str) -> None:
    found.way = way
    found.source("people", way)
    found.db.protect("people", epsilon=10.0, delta=1e-6)
    found.db.domain("people", "ward", values=["w0", "w1", "w2"])
    for name in ("id", "note"):
        found.db.domain("people", name, exclude=True)


def spent(db: dpsql.Database) -> float:
    """Of the budget."""
    return db.sql("SELECT epsilon_spent FROM dp_budget()").fetchall()[0][0]


def fails(match: str, ask: Callable[[], object], capfd) -> None:
    """It does, in words that quote no row, and nothing is printed."""
    capfd.readouterr()
    with pytest.raises((DpsqlError, duckdb.Error), match=match) as failed:
        ask()
    shown = "".join(traceback.format_exception(failed.value)) + "".join(capfd.readouterr())
    assert "Canary" not in shown
    assert "spark.apache" not in shown
    assert "SQLSTATE" not in shown


def goes_on(people: Lot) -> None:
    """The same call does, for what was charged."""
    charged = spent(people.db)
    assert charged > 0
    rows = people.db.sql(QUERY).fetchall()
    assert [ward for ward, *_ in rows] == ["w0", "w1", "w2"]
    assert all(800 < count < 1200 for _, count, *_ in rows)
    assert spent(people.db) == charged


def files(people: Lot) -> list[str]:
    """Of the table."""
    found = people.spark.session.table(f"{people.schema}.people").inputFiles()
    return [file.removeprefix("file://") for file in found]


def test_a_table_of_other_rows_is_refused_before_the_charge(people, capfd):
    """And counted again when the pin is moved."""
    people.sql("INSERT INTO {s}.people SELECT id, 'w1', 'x' FROM range(300)")
    fails("CALL dp_source", lambda: people.db.sql(QUERY).fetchall(), capfd)
    assert spent(people.db) == 0
    people.db.source("people")
    rows = dict(row[:2] for row in people.db.sql(QUERY).fetchall())
    assert rows["w1"] > rows["w0"] + 150


@pytest.mark.parametrize("change", ["DROP TABLE {s}.people", "ALTER TABLE {s}.people RENAME TO {s}.persons"])
def test_a_table_that_is_gone_is_refused_before_the_charge(people, change, capfd):
    people.sql("DROP TABLE IF EXISTS {s}.persons", change)
    fails("dp_source", lambda: people.db.sql(QUERY).fetchall(), capfd)
    assert spent(people.db) == 0


def test_a_file_that_breaks_after_the_charge(people, capfd, monkeypatch):
    """Spark fails on it, or it is not what was pinned; when it is restored the same call goes on."""
    from dpsql.engines.spark.engine import SparkEngine

    path = files(people)[0]
    whole, times = Path(path).read_bytes(), os.stat(path)
    check = SparkEngine.check

    def breaks(self, source):
        check(self, source)
        with open(path, "r+b") as file:
            file.truncate(len(whole) // 2)

    monkeypatch.setattr(SparkEngine, "check", breaks)
    fails("what was charged is kept|restore them", lambda: people.db.sql(QUERY).fetchall(), capfd)
    monkeypatch.undo()
    Path(path).write_bytes(whole)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    goes_on(people)


def test_a_value_that_cannot_be_read(tmp_path, capfd):
    """Spark's own words quote it; ours do not, and the charge stands."""
    with lot(tmp_path) as found:
        folder = found.spark.folder / "broken"
        folder.mkdir(exist_ok=True)
        (folder / "part.csv").write_text(f"1\n{CANARY}\n")
        found.sql(f"CREATE TABLE {{s}}.people (ward INT) USING csv OPTIONS (mode 'FAILFAST') LOCATION '{folder}'")
        for way in WAYS:
            found.db.sql("DROP TABLE IF EXISTS people")
            found.source("people", way)
            found.db.protect("people", epsilon=10.0, delta=1e-6)
            found.db.domain("people", "ward", values=[1, 2])
            fails("what was charged is kept", lambda: found.db.sql(QUERY).fetchall(), capfd)
            assert spent(found.db) > 0


def test_a_worker_that_is_killed(people, capfd, monkeypatch):
    """In a cluster Spark tries again; here the task is lost, and the same call goes on."""

    def killed(*_):
        def task(batches):
            import os
            import signal

            for batch in batches:
                os.kill(os.getpid(), signal.SIGKILL)
                yield batch

        return task

    monkeypatch.setattr("dpsql.engines.spark.in_tasks.in_task", killed)
    fails("what was charged is kept", lambda: people.db.sql(QUERY).fetchall(), capfd)
    monkeypatch.undo()
    goes_on(people)


def test_an_interrupt_of_the_call(people, capfd, monkeypatch):
    from dpsql.engines.spark.counting import SparkCounter

    fetch = SparkCounter._fetch

    def slow(self, work):
        time.sleep(0.3)
        return fetch(self, lambda: (time.sleep(0.5), work())[1])

    monkeypatch.setattr(SparkCounter, "_fetch", slow)
    timer = threading.Timer(0.5, people.db.interrupt)
    timer.start()
    fails("(?i)interrupt", lambda: people.db.sql(QUERY).fetchall(), capfd)
    timer.join()
    monkeypatch.undo()
    if spent(people.db):
        goes_on(people)


def test_a_session_that_was_stopped(people, capfd):
    """Last in this file: the next test starts another Spark."""
    from . import spark_session

    people.db.sql(QUERY.replace("epsilon := 1", "epsilon := 2")).fetchall()
    before = spent(people.db)
    there = files(people)
    people.spark.session.stop()
    fails("no session of Spark runs", lambda: people.db.sql(QUERY).fetchall(), capfd)
    assert spent(people.db) == before
    spark_session.spark.cache_clear()
    spark_session.spark()
    assert there


def test_words_that_lead_nowhere(tmp_path, monkeypatch):
    with dpsql.connect(tmp_path / "bank.duckdb") as db:
        with pytest.raises(DpsqlError, match="BANK_SPARK.*has no such variable"):
            db.source("t", engine="spark", relation="a.t", environment="BANK_SPARK")
        with pytest.raises(DpsqlError, match="relation or files"):
            lot_words(db)


def lot_words(db: dpsql.Database) -> None:
    from .spark_session import spark

    spark()
    db.source("t", engine="spark", relation="a.t", files="b")
