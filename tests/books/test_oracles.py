"""What a failure tells: a caller who can make a release fail for lack of memory or disk learns nothing of the rows."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import pytest

import dpsql
from dpsql.api.cli import main
from dpsql.books.accounts import charging
from dpsql.books.accounts.charging import MOST_STOPPED
from dpsql.engines.duckdb.counting import DuckDBCounter
from dpsql.privacy.ledger_state import State, Unfinished

ASKED = "FROM dp_query('SELECT v, count(*) AS n FROM t GROUP BY v', epsilon := 1)"


@pytest.fixture
def table(db):
    """A protected table `t` of 100 rows."""
    db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS v FROM range(100) r(i)")
    db.protect("t", epsilon=9.0, delta=1e-6)
    return db


CALLS = {
    "dp_query": ASKED,
    "dp_synthesize": "FROM dp_synthesize('t', epsilon := 1, mechanism := 'direct')",
    "dp_domain": "CALL dp_domain('t', 'w', discover := true, epsilon := 1)",
}


@pytest.fixture
def stopping(monkeypatch):
    """Every statement that reads rows fails when it has run, as one does for lack of memory: runs, error, mend."""
    runs: list[BaseException] = []
    failing = {"error": duckdb.OutOfMemoryException("could not allocate 41 rows")}

    def then_fail(read):
        def reading(*arguments):
            found = read(*arguments)
            if failing["error"] is None:
                return found
            runs.append(failing["error"])
            raise failing["error"]

        return reading

    for name in ("_fetch", "values"):
        monkeypatch.setattr(DuckDBCounter, name, then_fail(getattr(DuckDBCounter, name)))
    return runs, failing, monkeypatch.undo


@pytest.mark.medium
@pytest.mark.parametrize("call", CALLS)
def test_only_so_many_free_retries_read_rows(table, stopping, call):
    """Four runs in all read rows; then the release has failed, and another name is charged anew."""
    table.sql("ALTER TABLE t ADD COLUMN w VARCHAR DEFAULT 'x'")
    if call == "dp_synthesize":
        table.domain("t", "w", exclude=True)
    runs, _, mend = stopping
    for _ in range(4):
        with pytest.raises(duckdb.Error, match="stopped by the database"):
            table.sql(CALLS[call]).fetchall()
    for _ in range(3):
        with pytest.raises(duckdb.Error, match="stopped 4 times before"):
            table.sql(CALLS[call]).fetchall()
    assert len(runs) == 4
    mend()
    with pytest.raises(duckdb.Error, match="stopped 4 times before"):
        table.sql(CALLS[call]).fetchall()
    assert table.sql("SELECT releases FROM dp_budget()").fetchall() == [(1,)]
    if call != "dp_domain":
        again = CALLS[call].replace("epsilon := 1", "epsilon := 1, release := 'again'")
        assert table.sql(again).fetchall()
        assert table.sql("SELECT releases FROM dp_budget()").fetchall() == [(2,)]


@pytest.mark.medium
def test_a_retry_is_recorded_before_rows_are_read(tmp_path, stopping):
    """It counts also where the process ends at once, or the disk is too full to record how the run ended."""
    runs, _, mend = stopping
    path = tmp_path / "bank.duckdb"
    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS v FROM range(100) r(i)")
        db.protect("t", epsilon=9.0, delta=1e-6)
    for _ in range(4):
        with dpsql.connect(path) as db, pytest.raises(duckdb.Error, match="stopped by the database"):
            db.sql(ASKED).fetchall()
    mend()
    with dpsql.connect(path) as db:
        with pytest.raises(duckdb.Error, match="stopped 4 times before"):
            db.sql(ASKED).fetchall()
        kinds = [kind for (kind,) in db.sql("SELECT kind FROM dp_ledger() ORDER BY number").fetchall()]
    assert kinds == ["protect", "charge", "retry", "retry", "retry", "fail"]
    assert len(runs) == 4


@pytest.mark.medium
def test_a_retry_that_stores_an_answer_is_followed_by_as_many(table, stopping):
    """Long work that is stopped again and again comes to its end, as long as it comes nearer."""
    runs, _, mend = stopping
    for _ in range(3):
        with pytest.raises(duckdb.Error):
            table.sql(ASKED).fetchall()
    mend()
    assert table.sql(ASKED).fetchall()
    assert len(runs) == 3


def cheap(number) -> str:
    return ASKED.replace("epsilon := 1", f"epsilon := 1e-6, release := '{number}'")


@pytest.mark.medium
def test_only_so_many_cheap_releases_may_be_stopped(tmp_path, stopping):
    """Whether each is stopped would tell a bit of how many rows there are, for next to nothing of the budget."""
    runs, _, mend = stopping
    path = tmp_path / "bank.duckdb"
    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS v FROM range(100) r(i); CREATE TABLE u AS FROM t")
        for table in ("t", "u"):
            db.protect(table, epsilon=9.0, delta=1e-6)
        for number in range(MOST_STOPPED):
            with pytest.raises(duckdb.Error, match="stopped by the database"):
                db.sql(cheap(number)).fetchall()
        for number in range(3):
            with pytest.raises(duckdb.Error, match="32 releases of 't' were stopped"):
                db.sql(cheap(f"one more {number}")).fetchall()
        assert len(runs) == MOST_STOPPED
        assert db.sql("SELECT source, releases FROM dp_budget() ORDER BY 1").fetchall() == [("t", 32), ("u", 0)]
        mend()
    with dpsql.connect(path) as db:  # nothing that a process remembers: the ledger says it
        with pytest.raises(duckdb.Error, match="32 releases of 't'"):
            db.sql(cheap("another day")).fetchall()
        assert db.sql(cheap("u").replace("FROM t", "FROM u")).fetchall()  # each table by itself
        assert db.sql(cheap(3)).fetchall()  # what was charged is completed, but it told its bit: it makes no room
        with pytest.raises(duckdb.Error, match="32 releases of 't'"):
            db.sql(cheap("in its place")).fetchall()
        assert db.sql("SELECT releases FROM dp_budget() WHERE source = 't'").fetchall() == [(32,)]
    assert main(["ledger", "verify", str(path)]) == 0


@pytest.mark.medium
def test_what_is_stopped_and_completed_each_time_counts_too(tmp_path, stopping, monkeypatch):
    """Else an analyst fills the memory, asks, frees it and asks again, for as many bits as there are cheap releases."""
    monkeypatch.setattr(charging, "MOST_STOPPED", 3)
    _, failing, _ = stopping
    path = tmp_path / "bank.duckdb"
    error = failing["error"]
    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS v FROM range(100) r(i)")
        db.protect("t", epsilon=9.0, delta=1e-6)
        for number in range(3):
            failing["error"] = error
            with pytest.raises(duckdb.Error, match="stopped by the database"):
                db.sql(cheap(number)).fetchall()
            failing["error"] = None
            assert db.sql(cheap(number)).fetchall()
        with pytest.raises(duckdb.Error, match="3 releases of 't' were stopped"):
            db.sql(cheap("one more")).fetchall()
    assert main(["ledger", "verify", str(path)]) == 0


@pytest.mark.medium
def test_discoveries_that_find_nothing_stop_nobody(db, monkeypatch):
    """Noisy answers alone decide that, and they are paid for."""
    monkeypatch.setattr(charging, "MOST_STOPPED", 2)
    db.sql("CREATE TABLE t AS SELECT 'x' || i AS a FROM range(50) r(i)")
    db.protect("t", epsilon=9.0, delta=1e-6)
    for number in range(4):
        with pytest.raises(dpsql.DpsqlError, match="common enough"):
            db.discover("t", "a", epsilon=0.1 + number / 1000)
    assert db.query("SELECT count(*) AS n FROM t", 0.1).n.notna().all()


def test_releases_that_are_under_way_are_not_stopped():
    """More threads than may be stopped can each work on one; who was stopped once counts all the same."""
    one = Unfinished(7, "t", "", 1, 1)
    state = State(unfinished={f"{n}": one for n in range(5)} | {"again": replace(one, retried=True)})
    assert state.stopped("t") == 6
    assert state.stopped("t", {"0", "1", "2", "again"}) == 3


@pytest.mark.medium
def test_releases_that_were_stopped_count_until_the_owner_forgives(tmp_path, stopping, monkeypatch):
    """Failed ones too. The owner's word is in the ledger, and changes nothing of what is spent; nor does a reset."""
    monkeypatch.setattr(charging, "MOST_STOPPED", 2)
    _, _, mend = stopping
    path = tmp_path / "bank.duckdb"
    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS v FROM range(100) r(i)")
        db.protect("t", epsilon=9.0, delta=1e-6)
        for number in (0, 0, 0, 0, 1):
            with pytest.raises(duckdb.Error, match="stopped by the database"):
                db.sql(cheap(number)).fetchall()
        with pytest.raises(duckdb.Error, match="stopped 4 times before"):
            db.sql(cheap(0)).fetchall()
        with pytest.raises(duckdb.Error, match="2 releases of 't'"):
            db.sql(cheap(2)).fetchall()
        spent = db.sql("SELECT epsilon_spent FROM dp_budget()").fetchall()
    assert main(["ledger", "forgive", str(path), "t", "--reason", "the disk was full"]) == 0
    with dpsql.connect(path) as db:
        assert db.sql("SELECT epsilon_spent FROM dp_budget()").fetchall() == spent
        for number in (2, 3):
            with pytest.raises(duckdb.Error, match="stopped by the database"):
                db.sql(cheap(number)).fetchall()
        with pytest.raises(duckdb.Error, match="2 releases of 't'"):
            db.sql(cheap(4)).fetchall()
    mend()
    with dpsql.connect(path, owner=False) as db, pytest.raises(dpsql.DpsqlError, match="owner"):
        db.forgive("t", reason="I want to know")
    monkeypatch.setattr(charging, "MOST_STOPPED", 2)
    with dpsql.connect(path) as db:
        assert db.sql(cheap(1)).fetchall()  # one that was forgiven makes no room
        with pytest.raises(duckdb.Error, match="2 releases of 't'"):
            db.sql(cheap(4)).fetchall()
        db.reset("t", reason="other people")
        assert db.sql(cheap(4)).fetchall()
    assert main(["ledger", "verify", str(path)]) == 0


ERRORS = [
    duckdb.OutOfMemoryException("failed to allocate 7 rows"),
    duckdb.IOException("disk full after 7 rows"),
    duckdb.ConversionException("7"),
    duckdb.FatalException("7"),
    MemoryError("7"),
]


@pytest.mark.medium
def test_all_failures_read_alike(table, stopping):
    """Neither the class nor the text of the error is told."""
    _, failing, _ = stopping
    told = set()
    for number, error in enumerate(ERRORS):
        failing["error"] = error
        with pytest.raises(duckdb.Error) as raised:
            table.sql(ASKED.replace("epsilon := 1", f"epsilon := 1, release := '{number}'")).fetchall()
        told.add(str(raised.value))
    (text,) = told
    assert not any(word in text for word in ("Exception", "OutOf", "IO", "MemoryError", "7"))


LIMITS = {
    "memory_limit": "'500MB'",
    "max_memory": "'500MB'",
    "temp_directory": "'{}'",
    "max_temp_directory_size": "'1MB'",
    "block_allocator_memory": "'1GB'",
    "fsync_mode": "'NONE'",
}


@pytest.mark.medium
@pytest.mark.parametrize("setting", LIMITS)
def test_what_bounds_memory_and_disk_is_the_owners(table, tmp_path, setting):
    """Refused before the charge; the error's own statement mends it."""
    if not table.sql("SELECT 1 FROM duckdb_settings() WHERE name = ?", [setting]).fetchall():
        pytest.skip(f"this version of DuckDB has no {setting}")
    table.sql(f"SET GLOBAL {setting} = {LIMITS[setting].format(tmp_path)}")
    for call in (ASKED, CALLS["dp_synthesize"]):
        with pytest.raises(duckdb.Error, match="when dpsql was installed: say SET GLOBAL") as refused:
            table.sql(call).fetchall()
    assert table.sql("SELECT releases FROM dp_budget()").fetchall() == [(0,)]
    if setting != "block_allocator_memory":  # which DuckDB lets nobody make smaller
        table.sql(str(refused.value).split("say ")[1].split(". To have")[0])
        assert table.sql(ASKED).fetchall()


def test_a_limit_set_while_a_release_runs_stops_it_before_it_reads(table, monkeypatch):
    """It was charged by then; set back, the same call goes on from there."""
    charge = charging.charge
    before = table.sql("SELECT current_setting('memory_limit')").fetchall()[0][0]

    def charge_and_set(*arguments, **named):
        entry = charge(*arguments, **named)
        table.connection.cursor().execute("SET GLOBAL memory_limit = '500MB'")
        return entry

    monkeypatch.setattr(charging, "charge", charge_and_set)
    with pytest.raises(duckdb.Error, match="setting memory_limit is"):
        table.sql(ASKED).fetchall()
    table.sql(f"SET GLOBAL memory_limit = '{before}'")
    assert table.sql(ASKED).fetchall()
    assert table.sql("SELECT releases FROM dp_budget()").fetchall() == [(1,)]


@pytest.mark.slow
def test_too_little_memory_is_no_free_oracle(tmp_path):
    """Really too little: a window over 400,000 rows in 60 MB, and no disk to spill to; the owner's own setting."""
    path = tmp_path / "bank.duckdb"
    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE t AS SELECT 'patient number ' || i AS who, i % 3 = 0 AS v FROM range(400_000) r(i)")
        db.protect("t", epsilon=9.0, delta=1e-6, privacy_unit="who", max_rows=2)
    for place in range(5):
        with dpsql.connect(path, config={"memory_limit": "60MB", "max_temp_directory_size": "0KB", "threads": 2}) as db:
            with pytest.raises(duckdb.Error, match="stopped by" if place < 4 else "stopped 4 times") as stopped:
                db.sql(ASKED).fetchall()
            assert "Memory" not in str(stopped.value)
    with dpsql.connect(path) as db, pytest.raises(duckdb.Error, match="stopped 4 times"):
        db.sql(ASKED).fetchall()


@pytest.mark.medium
def test_a_spill_to_disk_is_no_change_of_a_setting(tmp_path):
    """DuckDB turns the share of the disk that it may use into bytes when it writes there first."""
    with dpsql.connect(tmp_path / "t.duckdb", config={"memory_limit": "100MB", "threads": 1}) as db:
        db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS a FROM range(500) r(i)")
        db.protect("t", epsilon=3.0, delta=1e-9)
        db.sql(
            "CREATE TEMP TABLE sorted AS SELECT i, repeat(hash(i)::VARCHAR, 8) AS h FROM range(800_000) r(i) ORDER BY h"
        )
        assert db.sql("SELECT count(*) > 0 FROM duckdb_temporary_files()").fetchall() == [(True,)]
        assert len(db.sql("FROM dp_query('SELECT count(*) AS n FROM t WHERE a', epsilon := 0.5)").fetchall()) == 1


def test_a_transaction_that_is_open_is_refused_before_anything_is_loaded(tmp_path):
    """The connection can be closed then, the file opened again, and dpsql installed."""
    path = str(tmp_path / "t.duckdb")
    con = duckdb.connect(path, config={"allow_unsigned_extensions": "true"})
    con.begin()
    with pytest.raises(dpsql.DpsqlError, match="transaction"):
        dpsql.install(con)
    con.rollback()
    dpsql.install(con).close()
    duckdb.connect(path, read_only=True).close()
