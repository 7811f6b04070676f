"""Users in the books: limits in the same transaction as the charge, and everything an event of the ledger."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pytest

import dpsql
from dpsql.api.cli import main
from dpsql.books.accounts import charging
from dpsql.books.ledger import heads
from dpsql.books.people import limits, people
from dpsql.errors import BooksError, DpsqlError, InsufficientBudget, InvalidArgument, NotAllowed
from dpsql.privacy.accounting import RHO_UNIT, account_budget, gaussian_gdp, largest_epsilon
from tests.depth import some

TABLES_1 = (
    "CREATE TABLE t AS SELECT i % 2 = 0 AS a, 'w' || i % 2 AS ward, i % 9 AS n FROM range(3000) r(i)",
    "CREATE TABLE u AS SELECT i % 2 = 0 AS a, i % 40 AS who FROM range(100) r(i)",
    "CREATE TABLE votes AS SELECT i % 3 = 0 AS yes FROM range(1000) r(i)",
)
"""The tables of the books of version 1 among the fixtures."""
SQL = "SELECT sick, count(*) AS n FROM t GROUP BY sick"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The closed file and the head of its ledger."""
    folder = tmp_path_factory.mktemp("made")
    with dpsql.connect(folder / "bank.duckdb") as db:
        db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS sick, i % 5 = 0 AS smoker FROM range(300) r(i)")
        db.sql("CREATE TABLE votes AS SELECT i % 3 = 0 AS yes FROM range(300) r(i)")
        db.protect("t", epsilon=1.0, delta=1e-6)
        db.protect("votes", epsilon=1.0, delta=0)
    return folder


@pytest.fixture
def path(tmp_path, folder):
    return shutil.copytree(folder, tmp_path, dirs_exist_ok=True) / "bank.duckdb"


def ask(db, name, epsilon, release="", **more):
    arguments = {"sql": SQL, "epsilon": epsilon, "release": release, **more}
    return db.for_analyst(name).bind("dp_query", arguments).rows().read_all()


def ledger(db):
    return db.connection.execute("SELECT * FROM dpsql.event ORDER BY number").fetchall()


def charges(db):
    """By user and table, the sums of g that the ledger's events say."""
    found = {}
    for (text,) in db.connection.execute("SELECT content FROM dpsql.event ORDER BY number").fetchall():
        event = json.loads(text)
        if event["kind"] == "charge":
            pair = event.get("by"), event["source"]
            found[pair] = found.get(pair, 0) + int(event["gdp"])
    return found


@pytest.mark.medium
def test_a_limit_holds_by_the_sum_that_keeps_the_account(path):
    with dpsql.connect(path) as db:
        db.users.add("alice", limits={"t": 0.5})
        share = largest_epsilon(gaussian_gdp(0.5, 1e-6) / 3, 1e-6)
        for number in range(3):
            ask(db, "alice", share, f"r{number}")
        before = ledger(db)
        with pytest.raises(InsufficientBudget, match=r"Of the limit of 0\.5, .* is spent.*db\.users\.limit\('alice'"):
            ask(db, "alice", share, "r3")
        assert ledger(db) == before
        ask(db, "alice", share, "r2")  # again: free
        assert ledger(db) == before
        spent = charges(db)["alice", "t"] * RHO_UNIT
        assert spent <= account_budget(0.5, 1e-6).gdp
        db.users.limit("alice", "t", 0.9)
        ask(db, "alice", share, "r3")


@pytest.mark.medium
def test_a_large_delta_or_other_noise_does_not_get_past_a_limit(path):
    with dpsql.connect(path) as db:
        db.users.add("alice", limits={"t": 0.3})
        with pytest.raises(InsufficientBudget, match="limit of 0.3"):
            ask(db, "alice", 0.25, delta=0.4)  # more than 0.3 at the table's delta
        ask(db, "alice", 0.2)
        with pytest.raises(InsufficientBudget, match="limit of 0.3"):
            ask(db, "alice", 2.0, "l", mechanism="laplace")


@pytest.mark.medium
def test_pure_limits_add_up_exactly(path):
    with dpsql.connect(path) as db:
        db.users.add("alice", limits={"votes": 0.3})
        sql = "SELECT yes, count(*) AS n FROM votes GROUP BY yes"
        for number in range(3):
            ask(db, "alice", 0.1, f"r{number}", sql=sql, mechanism="laplace")
        with pytest.raises(InsufficientBudget, match="has nothing left on"):
            ask(db, "alice", 0.001, "more", sql=sql, mechanism="laplace")
        with pytest.raises(InvalidArgument, match="leave it out"):
            db.users.limit("alice", "votes", 0.3, delta=1e-9)


@pytest.mark.medium
def test_pure_releases_add_up_against_a_limit_as_long_as_they_do_in_the_account(path):
    with dpsql.connect(path) as db:
        db.users.add("alice", limits={"t": 0.9})
        db.users.add("bob", limits={"t": 0.2})
        for number in range(3):
            ask(db, "alice", 0.3, f"r{number}", mechanism="laplace")
        with pytest.raises(InsufficientBudget, match="has nothing left on t; this asks for 0.01"):
            ask(db, "alice", 0.01, "more", mechanism="laplace")
        with pytest.raises(InsufficientBudget, match=r"its releases so far are pure, which count by the sum"):
            ask(db, "alice", 0.1)
        assert db.users.list().epsilon_spent.tolist() == [0.9, 0]


@pytest.mark.medium
def test_a_small_limit_does_not_drain_an_account_that_counts_by_rho(path):
    """By Σε the release is within the limit, and by ρ it costs the account several times as much."""
    with dpsql.connect(path) as db:
        db.users.add("alice", limits={"t": 0.4})
        db.users.add("bob", limits={"t": 0.5})
        ask(db, "bob", 0.1)
        with pytest.raises(InsufficientBudget, match="after a release with a delta, pure ones count by their rho"):
            ask(db, "alice", 0.35, "r", mechanism="laplace")


@pytest.mark.medium
def test_of_a_retired_table_nothing_is_left(path):
    with dpsql.connect(path) as db:
        db.users.add("alice", limits={"t": 0.9})
        ask(db, "alice", 0.1, mechanism="laplace")
        db.retire("t", reason="no longer asked for")
        assert db.budget().set_index("source").epsilon_left["t"] == 0
        with pytest.raises(InsufficientBudget, match="has nothing left on t"):
            ask(db, "alice", 0.1, "more", mechanism="laplace")


def race(db, epsilon, count=2):
    """Threads that ask at once, each for another release of one user; returns how many were charged."""
    outcomes, start = [], threading.Barrier(count)

    def work(number):
        start.wait()
        try:
            ask(db, "alice", epsilon, f"race {number}")
            outcomes.append("charged")
        except InsufficientBudget:
            outcomes.append("refused")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == count
    return outcomes.count("charged")


@pytest.mark.medium
def test_two_threads_cannot_share_what_is_left_of_a_limit(path):
    with dpsql.connect(path) as db:
        db.users.add("alice", limits={"t": 0.3})
        assert race(db, 0.25) == 1
        assert charges(db)["alice", "t"] * RHO_UNIT <= account_budget(0.3, 1e-6).gdp


@pytest.mark.medium
def test_a_limit_that_is_tested_outside_the_transaction_is_passed(path, monkeypatch):
    """The broken twin: both threads have been tested before one of them charges."""
    tested, meet = limits.require_allowed, threading.Barrier(2, timeout=60)
    charge = charging.charge

    def before(books, asked):
        tested(books, asked.by, charging.account_now(books, asked.source), asked.budget)
        meet.wait()
        monkeypatch.setattr(limits, "require_allowed", lambda *_: None)  # not in the transaction
        return charge(books, asked)

    with dpsql.connect(path) as db:
        db.users.add("alice", limits={"t": 0.3})
        monkeypatch.setattr(charging, "charge", before)
        assert race(db, 0.25) == 2


@pytest.mark.medium
def test_users_together_cannot_pass_the_table(path):
    with dpsql.connect(path) as db:
        share = largest_epsilon(gaussian_gdp(1.0, 1e-6) / 4, 1e-6)
        for name in ("alice", "bob", "carol"):
            db.users.add(name, limits={"t": 1.0})
        for number, name in enumerate(("alice", "bob", "carol", "alice")):
            ask(db, name, share, f"r{number}")
        for name in ("alice", "bob", "carol"):
            with pytest.raises(InsufficientBudget, match="for all users together"):
                ask(db, name, share, "more")
        assert sum(charges(db).values()) * RHO_UNIT <= account_budget(1.0, 1e-6).gdp


@pytest.mark.medium
def test_days_and_months_begin_anew(path, monkeypatch):
    assert limits.begin_of("day", datetime(2026, 5, 17, 23, 59)) == datetime(2026, 5, 17)
    assert limits.begin_of("month", datetime(2026, 12, 31)) == datetime(2026, 12, 1)
    with dpsql.connect(path) as db:
        db.users.add("alice", limits={"t": 0.3}, per="day")
        db.users.limit("alice", "t", 0.4)
        ask(db, "alice", 0.25, "one")
        with pytest.raises(InsufficientBudget, match="0.3 per day, .* today"):
            ask(db, "alice", 0.25, "two")
        begin_of = limits.begin_of
        monkeypatch.setattr(
            limits, "begin_of", lambda p: begin_of(p) + timedelta(days=1) if p == "day" else begin_of(p)
        )
        ask(db, "alice", 0.25, "two")
        with pytest.raises(InsufficientBudget, match=r"limit of 0\.4, "):
            ask(db, "alice", 0.29, "three")


@pytest.mark.medium
@pytest.mark.parametrize("seed", some(range(3)))
def test_whatever_users_do_the_sums_are_those_of_the_ledger(path, seed):
    choose = np.random.default_rng(seed)
    names = ("alice", "bob", "carol")
    allowed = {name: 0.3 + 0.2 * place for place, name in enumerate(names)}
    with dpsql.connect(path) as db:
        for name in names:
            db.users.add(name, limits={"t": allowed[name]})
        for step in range(40):
            name = names[choose.integers(3)]
            kind = choose.integers(10)
            before = ledger(db)
            try:
                if kind == 0 and db.user_role(name):
                    db.users.revoke(name)
                elif kind == 1 and db.user_role(name) is None:
                    db.users.add(name)
                elif kind == 2:
                    db.share_releases(bool(choose.integers(2)))
                else:
                    ask(db, name, float(choose.choice([0.05, 0.1, 0.2])), f"r{choose.integers(8)}")
            except (InsufficientBudget, NotAllowed):
                assert ledger(db) == before, step
        found = charges(db)
        for name in names:
            assert found.get((name, "t"), 0) * RHO_UNIT <= account_budget(allowed[name], 1e-6).gdp
        kept = db.sql("SELECT person, sum(gdp)::VARCHAR FROM dpsql.payer GROUP BY 1").fetchall()
        assert {(who, "t"): int(amount) for who, amount in kept} == found
        spent = db.sql("SELECT gdp_spent::VARCHAR FROM dpsql.account WHERE source = 't'").fetchall()[0][0]
        assert sum(found.values()) == int(spent)
    assert main(["ledger", "verify", str(path)]) == 0


@pytest.mark.medium
def test_a_request_that_was_killed_is_completed_by_its_user_at_no_second_charge(path):
    """Killed between the charge and the publication: who first asked has paid, once."""
    with dpsql.connect(path) as db:
        db.users.add("alice", limits={"t": 0.3})
        db.users.add("bob", limits={"t": 0.3})
    script = f"""
import os, dpsql
from dpsql.books.releases import publication
publication.publish_answers = lambda *_: os._exit(9)
db = dpsql.connect({str(path)!r})
db.for_analyst("alice").bind("dp_query", {{"sql": {SQL!r}, "epsilon": 0.25}}).rows()
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 9
    with dpsql.connect(path) as db:
        before = charges(db)
        assert list(before) == [("alice", "t")]
        ask(db, "alice", 0.25)
        assert charges(db) == before
        ask(db, "bob", 0.25)  # bob's own, for he does not share
        assert charges(db)["bob", "t"] == before["alice", "t"]
    assert main(["ledger", "verify", str(path)]) == 0


@pytest.mark.medium
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("UPDATE dpsql.person SET role = 'reader'", "user alice is not"),
        ("UPDATE dpsql.person SET stored_key = repeat('00', 32)", "user alice is not"),
        ("UPDATE dpsql.allowance SET epsilon = 9", "the limit of user alice on t"),
        ("DELETE FROM dpsql.allowance", "the limit of user alice on t"),
        ("UPDATE dpsql.payer SET person = 'bob'", "who caused charge"),
        ("DELETE FROM dpsql.payer", "who caused charge"),
        ("INSERT INTO dpsql.decision VALUES ('share_releases', 'true')", "whether users share"),
        ("INSERT INTO dpsql.shown VALUES ('x', 1, 'everyone', [], '')", "the table x that users are shown"),
    ],
)
def test_what_is_not_what_the_ledger_says_is_noticed_and_can_be_accepted(path, capsys, change, words):
    with dpsql.connect(path) as db:
        db.users.add("alice", limits={"t": 0.3})
        ask(db, "alice", 0.2)
    assert main(["ledger", "verify", str(path)]) == 0
    with duckdb.connect(str(path)) as con:
        con.execute(change)
    assert main(["ledger", "verify", str(path)]) == 1
    assert words in capsys.readouterr().err
    if "payer" not in change:
        assert main(["ledger", "accept", str(path), "--reason", "a test"]) == 0
    else:
        assert main(["ledger", "accept", str(path), "--reason", "a test"]) == 0
    assert main(["ledger", "verify", str(path)]) == 0


@pytest.mark.medium
def test_no_token_is_kept_anywhere(path):
    with dpsql.connect(path) as db:
        token = db.users.add("alice", limits={"t": 0.3})
        other = db.users.rotate("alice")
        assert db.users.check("alice", other)
        assert not db.users.check("alice", token)
        assert not db.users.check("nobody", token)
        assert db.credential("alice").accepts(other)
        shown = repr(db.credential("alice")) + db.users.list().to_string() + db.ledger().to_string()
        assert other not in shown
        assert db.credential("alice").stored_key.hex() not in shown
    for file in path.parent.iterdir():
        assert other.encode() not in file.read_bytes(), file


@pytest.mark.medium
@pytest.mark.parametrize("name", ["", "1a", "a b", "a'b", "x" * 64, "ä"])
def test_names_are_plain(path, name):
    with dpsql.connect(path) as db:
        before = ledger(db)
        with pytest.raises(InvalidArgument, match="name is"):
            db.users.add(name)
        assert ledger(db) == before


@pytest.mark.medium
def test_who_is_there_already_is_refused(path):
    with dpsql.connect(path) as db:
        db.users.add("alice")
        before = ledger(db)
        for name in ("alice", "Alice"):
            with pytest.raises(InvalidArgument, match="rotate"):
                db.users.add(name)
        with pytest.raises(InvalidArgument, match="role is 'owner'"):
            db.users.add("bob", role="owner")
        with pytest.raises(InvalidArgument, match="per is 'year'"):
            db.users.add("bob", limits={"t": 1.0}, per="year")
        with pytest.raises(DpsqlError, match="nobody"):
            db.users.revoke("nobody")
        assert ledger(db) == before


def test_users_want_books(tmp_path):
    with dpsql.connect(tmp_path / "new.duckdb") as db, pytest.raises(BooksError, match="protect a table first"):
        db.users.add("alice")


@pytest.mark.medium
def test_a_reset_account_begins_limits_anew(path):
    with dpsql.connect(path) as db:
        db.users.add("alice", limits={"t": 0.3})
        ask(db, "alice", 0.25)
        db.reset("t", reason="other people")
        ask(db, "alice", 0.25)
        assert Fraction(db.users.list().releases[0]) == 1


@pytest.mark.medium
def test_a_user_who_is_not_known_in_a_transaction_is_not_charged(path):
    """Asked of the transaction that charges: an analyst who became a reader since the call was bound."""
    with dpsql.connect(path) as db:
        db.users.add("alice", limits={"t": 0.3})
        require, charge = people.require_person, charging.charge

        def later(books, asked):
            books.run("UPDATE dpsql.person SET state = 'revoked'")
            return charge(books, asked)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(charging, "charge", later)
            before = ledger(db)
            with pytest.raises(NotAllowed, match="'alice' may not"):
                ask(db, "alice", 0.2)
        assert ledger(db) == before
        assert require is people.require_person


@pytest.mark.medium
@pytest.mark.parametrize("fixture", ["books_1", "golden"])
def test_older_books_get_users_when_they_are_opened_for_writing(tmp_path, fixture):
    """Of version 1 and 2: without users while they are read; then a user asks, and all still fits together."""
    path, folder = tmp_path / "old.duckdb", Path(__file__).parents[1] / "fixtures"
    with duckdb.connect(str(path)) as con:
        made = json.loads((folder / "golden.json").read_text())["tables"] if fixture == "golden" else TABLES_1
        for statement in made:
            con.execute(statement)
        con.execute((folder / f"{fixture}.sql").read_text())
    heads.file_beside(path).write_text((folder / f"{fixture}.dpsql-head").read_text())
    with dpsql.connect(path, read_only=True) as db:
        assert len(db.users.list()) == 0
        with pytest.raises(NotAllowed):
            db.for_analyst("alice")
        with pytest.raises(BooksError, match="read-only"):
            db.users.add("alice")
    with dpsql.connect(path) as db:
        account = next(a for a in db.budget().itertuples() if a.epsilon_left > 0.05 and a.delta > 0)
        db.users.add("alice", limits={account.source: 0.05})
        found = db.for_analyst("alice").bind(
            "dp_query", {"sql": f"SELECT count(*) AS n FROM {account.source}", "epsilon": 0.02}
        )
        assert found.rows().read_all().num_rows == 1
        assert [who for who, _ in charges(db) if who] == ["alice"]
    assert main(["ledger", "verify", str(path)]) == 0
