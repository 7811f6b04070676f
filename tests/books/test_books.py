"""The books: a hash chain, a head outside the database, and what the owner does when they do not fit together."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import signal
from pathlib import Path

import duckdb
import numpy as np
import pytest

import dpsql
from dpsql.api.cli import main
from dpsql.books.accounts import verification
from dpsql.books.ledger import heads, ledger
from dpsql.books.ledger.store import Books, LookUp
from dpsql.errors import BooksError, InsufficientBudget, InvalidArgument

from ..processes import run_and_die

QUERY = "SELECT n FROM dp_query('SELECT a, count(*) AS n FROM t GROUP BY a', epsilon := {}, release := '{}')"


def prepare(path: Path | str) -> dpsql.Database:
    db = dpsql.connect(path)
    db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a, i % 3 = 0 AS b FROM range(100) r(i)")
    db.protect("t", epsilon=2.0, delta=1e-6)
    return db


def ask(db, name: str, epsilon: float = 0.3):
    return db.sql(QUERY.format(epsilon, name)).fetchall()


def head(path: Path) -> dict:
    return json.loads(heads.file_beside(path).read_text())


@pytest.fixture
def bank(tmp_path) -> Path:
    """A closed database with two releases."""
    path = tmp_path / "bank.duckdb"
    with prepare(path) as db:
        ask(db, "one")
        ask(db, "two")
    return path


# --- what is recorded -------------------------------------------------------------------------------------------------


@pytest.mark.medium
def test_every_event_is_linked_to_the_one_before(bank):
    with dpsql.connect(bank) as db:
        kinds = [kind for (kind,) in db.sql("SELECT kind FROM dp_ledger()").fetchall()]
        assert kinds == ["protect", "charge", "publish", "charge", "publish"]
        rows = db.sql("SELECT number, content, hash FROM dpsql.event ORDER BY number").fetchall()
        import hashlib

        before = None
        for number, content, digest in rows:
            assert (
                digest == hashlib.sha256((content if before is None else f"{before}\n{content}").encode()).hexdigest()
            )
            assert json.loads(content)["number"] == number
            before = digest
        assert head(bank)["hash"] == before
        assert head(bank)["number"] == 5
        shown = db.sql(
            "SELECT r.hash = e.hash FROM dp_releases() r JOIN dpsql.event e ON e.number = r.release"
        ).fetchall()
        assert shown == [(True,), (True,)]
        assert "secret" not in heads.file_beside(bank).read_text()


@pytest.mark.medium
def test_the_head_is_written_before_anything_is_told(tmp_path, monkeypatch):
    """The disk does not take it: nothing is told, the charge is kept; with room again the same answer, free."""
    path = tmp_path / "bank.duckdb"
    with prepare(path) as db:
        write, failing = heads.write_head, [True]

        def full(where, what):
            known = json.loads(where.read_text())["number"]
            if failing[0] and what.number > known + (what.number == 2):  # the publication, not the charge
                raise BooksError("the head of the ledger cannot be written")
            write(where, what)

        monkeypatch.setattr(heads, "write_head", full)
        with pytest.raises(duckdb.Error, match="cannot be written"):
            ask(db, "one")
        for told in ("dp_releases()", "dp_measurements(2)"):
            with pytest.raises(duckdb.Error, match="cannot be written"):
                db.sql(f"FROM {told}").fetchall()
        with pytest.raises(duckdb.Error, match="cannot be written"):
            ask(db, "one")
        failing[0] = False
        first = ask(db, "one")
        assert ask(db, "one") == first
        assert db.budget().releases[0] == 1
        assert head(path)["number"] == 3


@pytest.mark.medium
def test_a_folder_for_heads(tmp_path, monkeypatch):
    monkeypatch.setenv("DPSQL_HEADS", str(tmp_path / "safe"))
    (tmp_path / "safe").mkdir()
    path = tmp_path / "bank.duckdb"
    with prepare(path) as db:
        ask(db, "one")
    (found,) = (tmp_path / "safe").iterdir()
    assert found.name.startswith("bank.duckdb-")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bank.duckdb", "safe"]
    found.unlink()
    with pytest.raises(BooksError, match="the head of the ledger is missing"):
        dpsql.connect(path)


# --- what is noticed --------------------------------------------------------------------------------------------------

TAMPERED = {
    "an event changed": "UPDATE dpsql.event SET content = replace(content, '0.3', '0.1') WHERE number = 2",
    "an event and its hash": "UPDATE dpsql.event SET content = content || ' ', hash = sha256(content) WHERE number = 3",
    "an event removed": "DELETE FROM dpsql.event WHERE number = 2",
    "the last events removed": "DELETE FROM dpsql.event WHERE number >= 4",
    "all events removed": "DELETE FROM dpsql.event",
    "an event put in": "INSERT INTO dpsql.event SELECT number + 1, content, hash, NULL FROM dpsql.event WHERE number = 5",
    "a basis put in": "UPDATE dpsql.event SET basis = hash WHERE number = 4",
    "the account": "UPDATE dpsql.account SET rho_spent = 0, gdp_spent = 0",
    "the budget": "UPDATE dpsql.account SET gdp_budget = gdp_budget * 2",
    "the promise": "UPDATE dpsql.account SET epsilon = 9",
    "the units": "UPDATE dpsql.account SET unit_rows = 1",
    "the account removed": "DELETE FROM dpsql.account",
    "the secret": "UPDATE dpsql.account SET unit_secret = 'known'",
}


@pytest.mark.medium
@pytest.mark.parametrize("how", TAMPERED)
def test_tampering_is_noticed_on_open(bank, how):
    """And told how to look and what to do. The head is what notices that the last events are gone."""
    with duckdb.connect(str(bank)) as con:
        con.execute(TAMPERED[how])
    with pytest.raises(BooksError, match="dpsql ledger verify"):
        dpsql.connect(bank)


@pytest.mark.medium
@pytest.mark.parametrize("how", TAMPERED)
def test_tampering_is_noticed_before_a_charge(bank, how):
    """In the same process, by SQL on the open database."""
    with dpsql.connect(bank) as db:
        db.sql(TAMPERED[how])
        with pytest.raises(duckdb.Error, match="nothing is charged|is not protected"):
            ask(db, "three")
        assert db.sql("SELECT count(*) FROM dpsql.release").fetchall() == [(2,)]


@pytest.mark.medium
@pytest.mark.parametrize("how", TAMPERED)
def test_tampering_can_be_accepted(bank, how):
    """And then all fits together, with at least as much spent and at most as much promised as before."""
    with dpsql.connect(bank) as db:
        before = db.budget().iloc[0]
    with duckdb.connect(str(bank)) as con:
        con.execute(TAMPERED[how])
    assert main(["ledger", "accept", str(bank), "--reason", "looked at"]) == (1 if how == "all events removed" else 0)
    if how == "all events removed":
        return
    with dpsql.connect(bank) as db:
        after = db.budget().iloc[0]
        assert after.epsilon_spent >= before.epsilon_spent
        assert after.epsilon_left <= before.epsilon_left
        assert after.epsilon <= before.epsilon
        assert len(ask(db, "three", 0.1)) in (2, 3)  # a group of NULL shows where noise makes it
        assert db.budget().releases[0] > 2


def reserved(path: Path) -> None:
    """A bank with one release that is paid for, and killed before a count is read."""
    with prepare(path):
        pass
    crash(
        path,
        "import dpsql.engines.duckdb.engine\n"
        "dpsql.engines.duckdb.engine.DuckDBCounter = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"db.sql({QUERY.format(0.3, 'one')!r}).fetchall()",
    )


BEFORE_A_RESUME = {
    "more is granted": "UPDATE dpsql.release SET gdp = gdp * 100, rho = rho * 100",
    "less that counts": "UPDATE dpsql.release SET unit_rows = 1",
    "other neighbours": "UPDATE dpsql.release SET neighbours = 'replace_one'",
    "another request": "UPDATE dpsql.release SET request = replace(request, 'one', 'two')",
    "the account": "UPDATE dpsql.account SET gdp_spent = 0, rho_spent = 0",
    "the budget": "UPDATE dpsql.account SET gdp_budget = gdp_budget * 4, rho_budget = rho_budget * 4",
}


@pytest.mark.medium
@pytest.mark.parametrize("how", BEFORE_A_RESUME)
def test_what_is_resumed_is_what_was_charged(tmp_path, how):
    path = tmp_path / "bank.duckdb"
    reserved(path)
    with dpsql.connect(path) as db:
        db.sql(BEFORE_A_RESUME[how])
        with pytest.raises(duckdb.Error, match="dpsql ledger verify"):
            ask(db, "one")
        assert db.sql("SELECT count(*) FROM dpsql.answer").fetchall() == [(0,)]


@pytest.mark.medium
def test_what_was_told_is_not_measured_again(bank):
    """Answers and rows deleted, the release set back: no fresh noise for what is paid for once."""
    with dpsql.connect(bank) as db:
        db.sql(
            "UPDATE dpsql.release SET state = 'reserved', told = NULL; DELETE FROM dpsql.answer; DELETE FROM dpsql.cell"
        )
        with pytest.raises(duckdb.Error, match="was published already"):
            ask(db, "one")


@pytest.mark.medium
def test_what_the_head_does_not_know_is_not_told(tmp_path):
    """Killed between the publication and its head: a read-only reader is refused, an attached one brings the head up."""
    path = tmp_path / "bank.duckdb"
    with prepare(path):
        pass
    crash(
        path,
        "from dpsql.books.ledger import heads\n"
        "write = heads.write_head\n"
        "def dies(path, head):\n"
        "    write(path, head) if head.number < 3 else os.kill(os.getpid(), signal.SIGKILL)\n"
        "heads.write_head = dies\n"
        f"db.sql({QUERY.format(0.3, 'one')!r}).fetchall()",
    )
    assert head(path)["number"] == 2
    with dpsql.connect(path, read_only=True) as db:
        for told in (QUERY.format(0.3, "one"), "FROM dp_releases()", "FROM dp_measurements(2)"):
            with pytest.raises(duckdb.Error, match="which the head|the head of its ledger does not know"):
                db.sql(told).fetchall()
    with dpsql.connect(":memory:") as db:
        db.sql(f"ATTACH '{path}' AS bank")
        assert len(db.sql(QUERY.format(0.3, "one").replace("FROM t", "FROM bank.t")).fetchall()) in (2, 3)
    assert head(path)["number"] == 3


@pytest.mark.medium
def test_an_account_is_not_opened_on_books_that_do_not_fit(bank):
    with dpsql.connect(bank) as db:
        db.sql("CREATE TABLE u AS SELECT true AS a; UPDATE dpsql.account SET gdp_spent = 0")
        with pytest.raises(BooksError, match="the account of t is not what the ledger says"):
            db.protect("u", epsilon=1.0, delta=1e-6)
    assert head(bank)["accounts"]["t"]["gdp_spent"] != "0"


@pytest.mark.medium
def test_a_reset_ends_what_is_being_made(tmp_path, monkeypatch):
    """Charged before the reset, counted after it: not told."""
    with prepare(tmp_path / "bank.duckdb") as db:
        from dpsql.engines.duckdb import engine

        counter = engine.DuckDBCounter

        def late(*arguments, **named):
            monkeypatch.setattr(engine, "DuckDBCounter", counter)
            with dpsql.install(db.connection.cursor()) as other:
                other.reset("t", reason="other people")
            return counter(*arguments, **named)

        monkeypatch.setattr(engine, "DuckDBCounter", late)
        with pytest.raises(duckdb.Error, match="the account was reset"):
            ask(db, "one", 1.9)
        assert db.sql("SELECT state FROM dp_releases()").fetchall() == [("failed",)]


@pytest.mark.medium
def test_what_is_kept_for_discoveries_stays_kept(tmp_path):
    """A copy from before the discovery is accepted: half of δ is still kept, and the budget smaller."""
    path, copy = tmp_path / "bank.duckdb", tmp_path / "copy"
    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE t AS SELECT 'w' || i % 2 AS a FROM range(2000) r(i)")
        db.protect("t", epsilon=2.0, delta=1e-6)
    shutil.copy(path, copy)
    with dpsql.connect(path) as db:
        db.discover("t", "a", epsilon=0.5, delta=9e-7)
        known = db.sql("SELECT delta_reserved, delta_spent, gdp_budget, rho_budget FROM dpsql.account").fetchall()
    shutil.copy(copy, path)
    assert main(["ledger", "accept", str(path), "--reason", "copy of Monday"]) == 0
    with dpsql.connect(path) as db:
        found = db.sql("SELECT delta_reserved, delta_spent, gdp_budget, rho_budget FROM dpsql.account").fetchall()
        assert found == known
        with pytest.raises(InsufficientBudget):
            db.discover("t", "a", epsilon=0.4, delta=5e-7)


@pytest.mark.medium
def test_an_older_copy_is_noticed(tmp_path):
    path, copy = tmp_path / "bank.duckdb", tmp_path / "copy"
    with prepare(path) as db:
        ask(db, "one")
    shutil.copy(path, copy)
    with dpsql.connect(path) as db:
        ask(db, "two")
    shutil.copy(copy, path)
    with pytest.raises(BooksError, match="older than the head of its ledger"):
        dpsql.connect(path)


def crash(path: Path, statements: str) -> None:
    """Run in a process that is killed, so that what it did is in the write-ahead log."""
    script = f"""
import os, signal, dpsql
db = dpsql.connect({str(path)!r})
{statements}
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert run_and_die(script) == -signal.SIGKILL


@pytest.mark.medium
def test_a_damaged_write_ahead_log_is_noticed(bank, tmp_path):
    """Cut at 60 places, deleted, or with flipped bytes: each time refused, or all is there; nothing is paid once, told twice."""
    crash(bank, "db.sql(" + repr(QUERY.format(0.3, "three")) + ").fetchall()")
    wal, known = Path(f"{bank}.wal"), head(bank)["number"]
    whole, kept = wal.read_bytes(), {p: p.read_bytes() for p in (bank, heads.file_beside(bank))}
    assert known == 7
    generator = np.random.default_rng(5)
    versions = [b""] + [whole[:n] for n in generator.integers(1, len(whole), 40)]
    for place in generator.integers(0, len(whole), 20):
        changed = bytearray(whole)
        changed[place] ^= 0xFF
        versions.append(bytes(changed))
    noticed = 0
    for version in versions:
        for file, content in kept.items():
            file.write_bytes(content)
        wal.write_bytes(version)
        if not version:
            wal.unlink()
        try:
            with dpsql.connect(bank) as db:
                assert db.budget().releases[0] == 3
                assert db.sql("SELECT count(*) FROM dp_ledger()").fetchall()[0][0] >= known
        except (BooksError, duckdb.Error):
            noticed += 1
        finally:
            Path(f"{bank}.wal").unlink(missing_ok=True)
    assert noticed >= len(versions) - 8


def test_a_database_that_lost_everything_is_noticed(tmp_path):
    """The log deleted before it was ever written to the file: no books, but a head that knows some."""
    path = tmp_path / "bank.duckdb"
    crash(path, "db.sql('CREATE TABLE t AS SELECT true AS a'); db.protect('t', epsilon=1.0, delta=1e-6)")
    Path(f"{path}.wal").unlink()
    with pytest.raises(BooksError, match="but the database has none"):
        dpsql.connect(path)
    assert main(["ledger", "accept", str(path), "--reason", "x"]) == 1


@pytest.mark.medium
def test_what_was_committed_when_the_machine_stopped_is_taken_over(bank):
    """The database is ahead of its head: nothing of that was told, so it is no damage."""
    crash(
        bank,
        """
from dpsql.books.ledger import heads
heads.write_head = lambda *a: os.kill(os.getpid(), signal.SIGKILL)
db.sql("FROM dp_query('SELECT b, count(*) AS n FROM t GROUP BY b', epsilon := 0.2)").fetchall()
""",
    )
    assert head(bank)["number"] == 5
    with dpsql.connect(bank) as db:
        assert head(bank)["number"] == 6
        assert db.budget().releases[0] == 3
        assert len(db.sql("FROM dp_query('SELECT b, count(*) AS n FROM t GROUP BY b', epsilon := 0.2)").fetchall()) in (
            2,
            3,
        )
        assert db.budget().releases[0] == 3


CHANGED = {
    "a noisy count": "UPDATE dpsql.cell SET value = value + 1 WHERE answer = 1 AND cell = 0",
    "a count removed": "DELETE FROM dpsql.cell WHERE cell = 1",
    "the noise that is stated": "UPDATE dpsql.answer SET variance = '1'",
    "the question": "UPDATE dpsql.answer SET question = replace(question, '{', '{ ')",
    "its cost": "UPDATE dpsql.answer SET rho = '1/1000'",
    "its cost, to nonsense": "UPDATE dpsql.answer SET rho = 'x'",
    "its noise, to nonsense": "UPDATE dpsql.answer SET variance = 'x'",
    "the standard error that is shown": "UPDATE dpsql.answer SET stddev = 0.1",
    "its digest": "UPDATE dpsql.answer SET digest = ''",
    "the cells moved": "UPDATE dpsql.cell SET cell = cell + 1",
    "an answer removed": "DELETE FROM dpsql.answer WHERE release = (SELECT min(release) FROM dpsql.answer)",
    "an answer of another release": (
        "UPDATE dpsql.answer SET number = number + 5, release = (SELECT max(release) FROM dpsql.answer) "
        "WHERE release = (SELECT min(release) FROM dpsql.answer)"
    ),
}


@pytest.mark.medium
@pytest.mark.parametrize("how", CHANGED)
def test_answers_that_were_changed_are_found(bank, capsys, how):
    """By whoever looks: the ledger has their digest. Accepted, they are what there is from then on."""
    assert main(["ledger", "verify", str(bank)]) == 0
    with duckdb.connect(str(bank)) as con:
        con.execute(CHANGED[how])
    assert main(["ledger", "verify", str(bank)]) == 1
    assert "are not those that were published" in capsys.readouterr().err
    assert main(["ledger", "accept", str(bank), "--reason", "looked at"]) == 0
    assert main(["ledger", "verify", str(bank)]) == 0


RECORDS = {
    "a release lost": ("DELETE FROM dpsql.release WHERE number = 2", "release 2, which was published, is lost"),
    "all releases lost": ("DROP TABLE dpsql.release", "cannot be read|missing or was changed"),
    "all answers lost": ("DROP TABLE dpsql.answer", "cannot be read|missing or was changed"),
    "the guarantee": ("UPDATE dpsql.release SET guarantee = '(0.0001, 0)-DP'", "record of release 2 is not what was"),
    "the request": ("UPDATE dpsql.release SET request = replace(request, '0.3', '0.1')", "is not what was charged"),
    "the cap": ("UPDATE dpsql.release SET unit_rows = 1", "is not what was charged"),
    "its state": ("UPDATE dpsql.release SET state = 'failed'", "which was published, is lost"),
    "its report": ("UPDATE dpsql.release SET report = '{}'", "rows or the report of release 2 are not those"),
    "a stored answer": ("UPDATE dpsql.release_2 SET a0 = a0 + 1", "rows or the report of release 2 are not those"),
    "stored answers lost": ("DROP TABLE dpsql.release_2", "release 2 cannot be read"),
    "stored answers swapped": (
        "ALTER TABLE dpsql.release_2 RENAME TO x; ALTER TABLE dpsql.release_4 RENAME TO release_2; "
        "ALTER TABLE dpsql.x RENAME TO release_4",
        "rows or the report of release 2 are not those",
    ),
}


@pytest.mark.medium
@pytest.mark.parametrize("how", RECORDS)
def test_records_that_were_changed_are_found(bank, capsys, how):
    statement, flaw = RECORDS[how]
    with duckdb.connect(str(bank)) as con:
        con.execute(statement)
    assert main(["ledger", "verify", str(bank)]) == 1
    assert re.search(flaw, capsys.readouterr().err)
    assert main(["ledger", "accept", str(bank), "--reason", "looked at"]) == 0
    assert main(["ledger", "verify", str(bank)]) == 0


@pytest.mark.medium
def test_what_was_charged_and_lost_is_not_charged_again(bank):
    with duckdb.connect(str(bank)) as con:
        con.execute("DELETE FROM dpsql.release WHERE number = 2")
    with dpsql.connect(bank) as db:
        spent = db.budget().epsilon_spent[0]
        with pytest.raises(duckdb.Error, match="charged before, as release 2, whose record is lost"):
            ask(db, "one")
        assert db.budget().epsilon_spent[0] == spent
        ask(db, "three")


@pytest.mark.medium
def test_an_account_follows_from_its_events(bank, capsys):
    """Events that are well chained, but by which something is spent no more: a forgery must say that it is a reset."""
    with duckdb.connect(str(bank)) as con:
        number, digest, content = con.execute(
            "FROM dpsql.event SELECT number, hash, content ORDER BY 1 DESC"
        ).fetchone()
        forged = json.loads(content) | {"number": number + 1}
        forged["account"] |= {"gdp_spent": "0", "rho_spent": "0"}
        text = json.dumps(forged, ensure_ascii=False, sort_keys=True)
        row = [number + 1, text, hashlib.sha256(f"{digest}\n{text}".encode()).hexdigest(), None]
        con.execute("INSERT INTO dpsql.event VALUES (?, ?, ?, ?)", row)
        con.execute("UPDATE dpsql.account SET gdp_spent = 0, rho_spent = 0")
    assert main(["ledger", "verify", str(bank)]) == 1
    assert f"event {number + 1} of the ledger does not follow" in capsys.readouterr().err


@pytest.mark.medium
def test_what_a_killed_process_left_beside_the_head_is_removed(bank):
    left = Path(f"{heads.file_beside(bank)}.12345.new")
    left.write_text("half")
    other = left.with_name("other.duckdb.dpsql-head.12345.new")
    other.write_text("of another database")
    folder = left.with_name(f"{heads.file_beside(bank).name}.6789.new")
    folder.mkdir()  # none of ours, and no reason to stop
    heads._swept.clear()
    with dpsql.connect(bank) as db:
        ask(db, "three")
    assert (left.exists(), folder.exists(), other.exists()) == (False, True, True)


@pytest.mark.medium
def test_columns_of_any_name_are_stored_and_verified(tmp_path):
    """One named as DuckDB's own number of a row."""
    path = tmp_path / "bank.duckdb"
    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS rowid, i % 3 = 0 AS told FROM range(50) r(i)")
        db.protect("t", epsilon=2.0, delta=1e-6)
        assert db.synthesize("t", 1.0, relaxed_rows=4, steps=2).df().columns.tolist() == ["rowid", "told"]
        db.sql("FROM dp_query('SELECT rowid, count(*) AS n FROM t GROUP BY rowid', epsilon := 0.5)").fetchall()
    assert main(["ledger", "verify", str(path)]) == 0


@pytest.mark.medium
def test_an_event_that_was_rolled_back_is_never_in_the_head(bank):
    with dpsql.connect(bank) as db, db.instance.cursor() as cursor:
        books = Books(cursor, "bank")

        def fails() -> None:
            ledger.look(books)
            ledger.event(books, "fail", "t", release=2, key="none", reason="x")
            raise duckdb.IOException("disk full")

        with pytest.raises(duckdb.IOException):
            ledger.commit(books, fails)
        verification.check(books)
        assert head(bank)["number"] == ledger.events(books) == 5
        ask(db, "three")


# --- what the owner does ----------------------------------------------------------------------------------------------


@pytest.mark.medium
def test_verify_and_accept(bank, tmp_path, capsys):
    """What the head knows to be spent stays spent, what was paid for and not published fails; and it is on record."""
    assert main(["ledger", "verify", str(bank)]) == 0
    assert "5 events, all as recorded" in capsys.readouterr().out
    copy = tmp_path / "copy"
    shutil.copy(bank, copy)
    with dpsql.connect(bank) as db:
        ask(db, "three", 0.9)
        spent = db.budget().epsilon_spent[0]
    shutil.copy(copy, bank)
    assert main(["ledger", "verify", str(bank)]) == 1
    assert "older than the head" in capsys.readouterr().err
    assert main(["ledger", "accept", str(bank), "--reason", "  "]) == 1
    assert "reason is empty" in capsys.readouterr().err
    assert main(["ledger", "accept", str(bank), "--reason", "disk died, copy of Monday"]) == 0
    assert main(["ledger", "verify", str(bank)]) == 0
    with dpsql.connect(bank) as db:
        assert db.budget().epsilon_spent[0] == spent
        last = db.sql("SELECT kind, reason FROM dp_ledger() ORDER BY number").fetchall()[-2:]
        assert last == [("accept", "disk died, copy of Monday")] * 2
        assert (
            db.sql("SELECT max(number) FROM dp_ledger()").fetchall()[0][0] > 8
        )  # numbers that were lost are not used again
        with pytest.raises(duckdb.Error, match="; this asks for "):
            ask(db, "three", 1.9)
        ask(db, "four", 0.2)
    assert main(["ledger", "accept", str(bank), "--reason", "again"]) == 1
    assert "nothing to accept" in capsys.readouterr().err
    with duckdb.connect(str(bank)) as con:
        con.execute("UPDATE dpsql.event SET content = content || ' ' WHERE number = 2")
    with pytest.raises(BooksError, match="that were accepted"):
        dpsql.connect(bank)


@pytest.mark.medium
def test_an_account_that_a_copy_does_not_have_is_opened_again(tmp_path):
    path, copy = tmp_path / "bank.duckdb", tmp_path / "copy"
    with prepare(path) as db:
        ask(db, "one")
    shutil.copy(path, copy)
    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE u AS SELECT i % 2 = 0 AS a FROM range(50) r(i)")
        db.protect("u", epsilon=1.0, delta=1e-6)
        db.sql("FROM dp_query('SELECT count(*) AS n FROM u', epsilon := 0.7)").fetchall()
    shutil.copy(copy, path)
    assert main(["ledger", "accept", str(path), "--reason", "copy of Monday"]) == 0
    with dpsql.connect(path) as db:
        budget = db.budget().set_index("source")
        assert budget.epsilon_spent["u"] > 0.69
        assert budget.epsilon["u"] == 1.0


@pytest.mark.medium
def test_what_was_measured_and_lost_cannot_be_measured_again(tmp_path):
    """The copy has a release that is paid for; its answers were told later, and are not in it."""
    path, copy = tmp_path / "bank.duckdb", tmp_path / "copy"
    with prepare(path):
        pass
    crash(
        path,
        """
import dpsql.engines.duckdb.engine
dpsql.engines.duckdb.engine.DuckDBCounter = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)
db.sql("""
        + repr(QUERY.format(0.3, "one"))
        + """).fetchall()
""",
    )
    with dpsql.connect(path) as db:
        assert db.sql("SELECT state FROM dp_releases()").fetchall() == [("reserved",)]
    shutil.copy(path, copy)
    with dpsql.connect(path) as db:
        ask(db, "one")
    shutil.copy(copy, path)
    assert main(["ledger", "accept", str(path), "--reason", "copy of Monday"]) == 0
    with dpsql.connect(path) as db, pytest.raises(duckdb.Error, match="it may have been published before"):
        ask(db, "one")


@pytest.mark.medium
def test_raise_reset_retire(bank, capsys):
    with dpsql.connect(bank) as db:
        first = ask(db, "one")
        with pytest.raises(InvalidArgument, match="give more"):
            db.raise_budget("t", epsilon=1.0, reason="why not")
        account = db.raise_budget("t", epsilon=3.0, reason="agreed on Monday")
        assert account.epsilon_spent == pytest.approx(db.budget().epsilon_spent[0])
        ask(db, "three", 2.0)
        assert ask(db, "one") == first
        db.sql("UPDATE t SET a = true")
        assert db.reset("t", reason="other people's rows").epsilon_spent == 0
        assert db.sql("SELECT releases, epsilon_spent FROM dp_budget()").fetchall() == [(0, 0)]
        again = ask(db, "one")  # another release of other rows
        assert again != first
        assert db.budget().releases[0] == 1
        with pytest.raises(duckdb.Error, match="no earlier release measured"):
            db.sql("FROM dp_query('SELECT b, count(*) AS n FROM t GROUP BY b', epsilon := 0)").fetchall()
    assert main(["ledger", "retire", str(bank), "t", "--reason", "the study is over"]) == 0
    assert main(["ledger", "raise", str(bank), "t", "--epsilon", "9", "--reason", "x"]) == 0
    with dpsql.connect(bank) as db:
        with pytest.raises(duckdb.Error, match="is retired"):
            ask(db, "four", 0.01)
        assert ask(db, "one") == again
        told = db.sql("SELECT kind, reason FROM dp_ledger() WHERE reason IS NOT NULL").fetchall()
        assert told == [
            ("raise", "agreed on Monday"),
            ("reset", "other people's rows"),
            ("retire", "the study is over"),
            ("raise", "x"),
        ]


@pytest.mark.medium
def test_pure_releases_add_up_to_a_pure_promise(db):
    """Σε where every release is ε-DP; none once one is not."""
    db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a FROM range(100) r(i)")
    db.protect("t", epsilon=2.0, delta=1e-6)
    for number in range(3):
        call = f"FROM dp_query('SELECT a, count(*) AS n FROM t GROUP BY a', epsilon := 0.1, mechanism := 'laplace', release := '{number}')"
        db.sql(call).fetchall()
    assert db.budget().epsilon_pure[0] == pytest.approx(0.3)
    db.sql("FROM dp_query('SELECT a, count(*) AS n FROM t GROUP BY a', epsilon := 0.1)").fetchall()
    assert np.isnan(db.budget().epsilon_pure[0])


# --- kinds of databases -----------------------------------------------------------------------------------------------


@pytest.mark.medium
def test_a_protected_table_is_not_public_under_another_name(db):
    """Its rows can be seen by no join, no reference and no prior."""
    db.sql("CREATE TABLE visits AS SELECT i % 2 = 0 AS ill, i % 9 AS id FROM range(50) r(i)")
    db.sql("CREATE TABLE people AS SELECT i AS id, 'canary ' || i AS name, i % 2 = 0 AS ill FROM range(9) r(i)")
    for table in ("visits", "people"):
        db.protect(table, epsilon=1.0, delta=1e-6)
    db.sql("ALTER TABLE people RENAME TO people_2025")
    joined = "SELECT s.name, count(*) AS n FROM visits v JOIN people_2025 s ON v.id = s.id GROUP BY ALL"
    for statement in (
        f"FROM dp_query('{joined}', epsilon := 0.1)",
        f"FROM dp_plan('{joined}', epsilon := 0.1)",
        "CALL dp_domain('visits', 'id', reference := 'people_2025.id')",
        "FROM dp_synthesize('visits', epsilon := 0.1, columns := ['ill'], prior := 'people_2025')",
    ):
        with pytest.raises(duckdb.Error, match="'people_2025'.* protected") as refused:
            db.sql(statement).fetchall()
        assert "canary" not in str(refused.value)
    assert db.budget().releases.tolist() == [0, 0]


@pytest.mark.medium
def test_a_macro_does_not_stand_for_a_function_of_the_engine(db):
    """Nor does a setting of others: the same noise, and the same counts."""
    db.sql("CREATE TABLE t AS SELECT CASE WHEN i % 2 = 0 THEN 'a' ELSE 'A' END AS v FROM range(1000) r(i)")
    db.protect("t", epsilon=1000.0, delta=1e-6)
    db.domain("t", "v", values=["a", "A"], nulls=False)
    for macro in (
        *("encode(x) AS lower(x)::BLOB", "enum_code(x) AS error('x')", "sum(x) AS 17", "count_star() AS 17"),
        *('"+"(a, b) AS 42', "sha256(x) AS '00'", "any_value(x) AS 'A'", "duckdb_tables() AS TABLE SELECT 1"),
    ):
        db.sql(f"CREATE MACRO {macro}")
    db.sql("SET GLOBAL default_collation = 'NOCASE'; SET GLOBAL integer_division = true")
    query = "FROM dp_query('SELECT v, count(*) AS n FROM t GROUP BY v', epsilon := 20) SELECT v, n"
    found = sorted(db.sql(query).fetchall())
    assert [value for value, _ in found] == ["A", "a"]
    assert all(abs(count - 500) < 10 for _, count in found)
    rows = db.sql("FROM dp_synthesize('t', epsilon := 20)").fetchall()
    assert abs(rows.count(("a",)) - 500) < 20
    assert abs(len(rows) - 1000) < 20


@pytest.mark.medium
def test_a_database_in_memory_has_no_head(db):
    db.sql("CREATE TABLE t AS SELECT true AS a")
    db.protect("t", epsilon=1.0, delta=1e-6)
    ask(db, "one")
    db.sql("UPDATE dpsql.account SET gdp_spent = 0")
    with pytest.raises(duckdb.Error, match="the account of t is not what the ledger says"):
        ask(db, "two")


@pytest.mark.medium
def test_an_attached_database_has_books_and_a_head_of_its_own(bank, tmp_path):
    with dpsql.connect(tmp_path / "other.duckdb") as db:
        db.sql(f"ATTACH '{bank}' AS bank")
        call = "FROM dp_query('SELECT a, count(*) AS n FROM bank.t GROUP BY a', epsilon := 0.1)"
        db.sql(call).fetchall()
        assert head(bank)["number"] == 7
        assert not heads.file_beside(tmp_path / "other.duckdb").exists()
        db.sql("UPDATE bank.dpsql.account SET gdp_spent = 0")
        with pytest.raises(duckdb.Error, match="nothing is charged"):
            db.sql(call.replace("0.1", "0.2")).fetchall()


@pytest.mark.medium
def test_read_only(bank):
    with dpsql.connect(bank, read_only=True) as db:
        assert len(ask(db, "one")) in (2, 3)
        with pytest.raises(duckdb.Error, match="read-only"):
            ask(db, "new")
        with pytest.raises(BooksError, match="read-only"):
            db.retire("t", reason="x")
    assert head(bank)["number"] == 5


@pytest.mark.medium
def test_nothing_fits_in_what_was_raised_meanwhile(db):
    """A budget that does not suffice says so, with the books as they were."""
    db.sql("CREATE TABLE t AS SELECT true AS a")
    db.protect("t", epsilon=0.5, delta=1e-6)
    with pytest.raises(InsufficientBudget):
        db.synthesize("t", 0.6)
    db.raise_budget("t", epsilon=0.7, reason="agreed")
    assert db.synthesize("t", 0.6, relaxed_rows=4, steps=2).entry.state == "published"


# --- one look-up ------------------------------------------------------------------------------------------------------


def test_a_look_up_reads_a_fact_once_until_it_changes_it_itself():
    spent = "SELECT rho_spent FROM dpsql.account WHERE source = $source"
    with prepare(":memory:") as db, db.instance.cursor() as cursor:
        (account,) = db.sql("SELECT source FROM dpsql.account").fetchall()
        of = {"source": account[0]}
        books, fresh = LookUp(cursor, "memory"), Books(cursor, "memory")
        before = books.run(spent, of)
        ask(db, "one")
        after = fresh.run(spent, of)
        assert before != after
        assert books.run(spent, of) == before
        assert books.transaction(lambda: books.run(spent, of)) == after  # where a charge is decided
        assert books.run(spent, of) == after
        books.run(spent, {"source": "another"})
        books.run("UPDATE dpsql.account SET rho_spent = rho_spent + 1 WHERE source = $source", of)
        assert books.run(spent, of) == fresh.run(spent, of) != after
