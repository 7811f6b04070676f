"""Accounts that promise pure ε (δ = 0): only Laplace noise and selections, whose ε add up exactly to the promise."""

from __future__ import annotations

import threading
from fractions import Fraction

import duckdb
import pytest

import dpsql
from dpsql.privacy import account as ledger
from dpsql.privacy.accounting import exact

COUNT = "SELECT a, count(*) AS n FROM t GROUP BY a"


@pytest.fixture
def pure(db):
    """A table of 1,000 rows with an account of ε = 1, δ = 0."""
    db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a, i % 3 = 0 AS b, (i % 4)::TINYINT AS c FROM range(1000) r(i)")
    db.protect("t", epsilon=1.0, delta=0)
    db.domain("t", "c", lower=0, upper=3)
    return db


def ask(db, epsilon: float, release: str = "") -> list[tuple]:
    sql = f"FROM dp_query(?, epsilon := {epsilon}, mechanism := 'laplace', release := '{release}')"
    return db.sql(sql, [COUNT]).fetchall()


def spent(db) -> tuple:
    return db.sql("SELECT epsilon_spent, epsilon_left, epsilon_pure, releases FROM dp_budget()").fetchall()[0]


@pytest.mark.medium
def test_ten_times_a_tenth_is_the_whole_budget_and_no_more(pure):
    assert spent(pure) == (0, 1, 0, 0)
    for number in range(10):
        ask(pure, 0.1, str(number))
    assert spent(pure) == (1, 0, 1, 10)
    with pytest.raises(duckdb.Error, match=r"has nothing left; this asks for 1e-06"):
        ask(pure, 1e-6, "more")
    assert spent(pure) == (1, 0, 1, 10)
    assert ask(pure, 0.1, "3") == ask(pure, 0.1, "3")  # known, and free


@pytest.mark.medium
def test_what_was_spent_is_a_sum_that_never_exceeds_the_promise(pure):
    """A float sum of ten tenths would; so the sum is of multiples of 2⁻⁹⁶ that are not more than each ε."""
    assert sum([Fraction(0.1)] * 10) > 1
    assert 10 * exact(0.1) <= 1
    ask(pure, 0.7)
    assert spent(pure)[1] == 0.3
    with pytest.raises(duckdb.Error, match=r"has ε = 0\.3 left"):
        ask(pure, 0.30001, "more")
    ask(pure, 0.3, "more")
    assert spent(pure)[:2] == (1, 0)


@pytest.mark.medium
def test_what_is_said_to_be_left_can_be_asked_for(pure):
    ask(pure, 1e-13)
    left = spent(pure)[1]
    assert 0.9999 <= left < 1
    ask(pure, left, "more")


REFUSED = {
    "Gaussian noise": "FROM dp_query('SELECT count(*) FROM t', epsilon := 0.1)",
    "and a delta": "FROM dp_query('SELECT count(*) FROM t', epsilon := 0.1, delta := 1e-6)",
    "projection": "FROM dp_synthesize('t', epsilon := 0.1, mechanism := 'projection')",
    "with a delta": "FROM dp_synthesize('t', epsilon := 0.1, mechanism := 'projection', delta := 1e-6)",
    "Gaussian answers": "FROM dp_synthesize('t', epsilon := 0.1, mechanism := 'direct', noise := 'gaussian')",
    "zCDP selections": "FROM dp_synthesize('t', epsilon := 0.1, mechanism := 'mwem', noise := 'gaussian')",
    "bins": "CALL dp_domain('t', 'c', discover := true, epsilon := 0.1, lower := 0, upper := 9, bins := 3)",
    "a plan": "FROM dp_plan('t', epsilon := 0.1, mechanism := 'projection')",
    "a plan with a delta": "FROM dp_plan('t', epsilon := 0.1, delta := 1e-6, mechanism := 'projection')",
    "a plan of a query": "FROM dp_plan('SELECT count(*) FROM t', epsilon := 0.1, delta := 1e-6)",
}


@pytest.mark.medium
@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_pure_is_refused_before_a_charge_and_says_what_is(pure, what):
    with pytest.raises(duckdb.Error, match=r"(?s)(promises pure epsilon|delta is 0).*(laplace|declare the domain)"):
        pure.sql(REFUSED[what]).fetchall()
    assert spent(pure) == (0, 1, 0, 0)


@pytest.mark.medium
@pytest.mark.parametrize(
    "options",
    [
        *("", "mechanism := 'direct', noise := 'laplace'", "mechanism := 'mwem'", "mechanism := 'lp'"),
        *("mechanism := 'barak'", "mechanism := 'ide', prior := 'known'"),
    ],
)
def test_every_pure_mechanism_makes_a_table_for_its_epsilon(pure, options):
    pure.sql("CREATE TABLE known AS SELECT i % 5 = 0 AS a, i % 3 = 0 AS b, (i % 4)::TINYINT AS c FROM range(99) r(i)")
    call = f"dp_synthesize('t', epsilon := 0.6{options and ', ' + options})"
    assert len(pure.sql(f"FROM {call}").fetchall()) > 500
    assert spent(pure)[2:] == (0.6, 1)
    guarantee, kinds = pure.sql(
        "SELECT guarantee, (SELECT list(DISTINCT noise ORDER BY noise) FROM dp_measurements('2')) FROM dp_releases()"
    ).fetchall()[0]
    assert guarantee.startswith("0.6-DP, by Laplace noise and selections")
    assert kinds == ["laplace"]
    with pytest.raises(duckdb.Error, match=r"has ε = 0\.4 left"):
        ask(pure, 0.41)


def test_auto_takes_a_pure_mechanism_and_says_so(pure):
    mechanism, why = pure.sql("SELECT DISTINCT mechanism, choice FROM dp_plan('t', epsilon := 0.1)").fetchall()[0]
    assert mechanism == "direct"
    assert "promises pure epsilon" in why


@pytest.mark.medium
def test_threads_together_spend_no_more(pure):
    outcomes = []

    def work(number: int) -> None:
        with pure.connection.cursor() as cursor:
            try:
                sql = f"FROM dp_query('{COUNT}', epsilon := 0.3, mechanism := 'laplace', release := 'r{number}')"
                outcomes.append(len(cursor.execute(sql).fetchall()))
            except duckdb.Error as error:
                outcomes.append(str(error))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(outcome, int) for outcome in outcomes) == 3
    assert all("this asks for" in outcome for outcome in outcomes if isinstance(outcome, str))
    assert spent(pure)[3] == 3


@pytest.mark.medium
def test_the_books_refuse_what_the_check_before_would_let_through(pure, monkeypatch):
    """The conditional update alone keeps the budget: a broken check of the request overspends nothing."""
    monkeypatch.setattr(ledger.Account, "require", lambda *_: None)
    monkeypatch.setattr(ledger.Account, "check_kind", lambda *_: None)
    ask(pure, 0.9)
    with pytest.raises(duckdb.Error, match="spent meanwhile"):
        ask(pure, 0.2, "more")
    with pytest.raises(duckdb.Error, match="spent meanwhile"):  # not pure: no ε of it adds up
        pure.sql("FROM dp_query('SELECT count(*) FROM t', epsilon := 0.01, delta := 1e-6)").fetchall()
    assert spent(pure)[0] == 0.9


@pytest.mark.medium
def test_an_owners_changes_leave_it_pure(tmp_path):
    path = tmp_path / "t.duckdb"
    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a FROM range(1000) r(i)")
        db.protect("t", epsilon=1.0, delta=0)
        ask(db, 1.0)
    from dpsql.api.cli import main

    assert main(["ledger", "raise", str(path), "t", "--epsilon", "1.5", "--reason", "asked"]) == 0
    with dpsql.connect(path) as db:
        ask(db, 0.5, "after")
        with pytest.raises(duckdb.Error, match="this asks for"):
            ask(db, 0.01, "more")
    assert main(["ledger", "reset", str(path), "t", "--reason", "new rows"]) == 0
    with dpsql.connect(path) as db:
        assert spent(db) == (0, 1.5, 0, 0)
        with pytest.raises(duckdb.Error, match="delta is 0"):
            db.sql(f"FROM dp_query('{COUNT}', epsilon := 0.1)").fetchall()
        ask(db, 1.5, "anew")
        with pytest.raises(duckdb.Error, match="this asks for"):
            ask(db, 0.01, "more")
