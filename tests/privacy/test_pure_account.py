"""Accounts that promise pure ε (δ = 0): only Laplace noise and selections, whose ε add up exactly to the promise."""

from __future__ import annotations

import threading
from fractions import Fraction

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsql
from dpsql.api.cli import main
from dpsql.core.neighbours import Neighbours
from dpsql.errors import InsufficientBudget
from dpsql.privacy import account as ledger
from dpsql.privacy.accounting import account_budget, exact, make_budget, pure_budget

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


# --- pure releases of a table that has a delta ------------------------------------------------------------------------


@pytest.fixture
def mixed(db):
    """A table of 1,000 rows with an account of ε = 3, δ = 10⁻⁹."""
    db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a FROM range(1000) r(i)")
    db.protect("t", epsilon=3.0, delta=1e-9)
    return db


def ask_gaussian(db, epsilon: float) -> list[tuple]:
    return db.sql(f"FROM dp_query('{COUNT}', epsilon := {epsilon})").fetchall()


@pytest.mark.medium
def test_pure_releases_alone_add_up_where_there_is_a_delta(mixed):
    """By their ρ = ½ each, the sum of zCDP would not hold the first of them."""
    assert exact(3.0) == 3 * exact(1.0)
    for number in range(3):
        ask(mixed, 1.0, str(number))
        assert spent(mixed)[0] == spent(mixed)[2] == number + 1
    with pytest.raises(
        duckdb.Error, match=r"t has nothing left; this asks for 0\.001\. Of epsilon 3 at delta 1e-09, 3 is"
    ):
        ask(mixed, 0.001, "more")
    with pytest.raises(duckdb.Error, match=r"nothing left.*its releases so far are pure, which count by the sum"):
        ask_gaussian(mixed, 0.01)
    assert spent(mixed) == (3, 0, 3, 3)


@pytest.mark.medium
def test_a_pure_release_is_told_what_fits_by_either_sum(mixed):
    ask(mixed, 2.5)
    assert spent(mixed)[1] == 0.5
    with pytest.raises(duckdb.Error, match=r"t has ε = 0\.5 left; this asks for 1"):
        ask(mixed, 1.0, "more")
    with pytest.raises(duckdb.Error, match=r"nothing left; this asks for 0\.1 at .*; a pure one may ask for 0\.5"):
        ask_gaussian(mixed, 0.1)
    ask(mixed, 0.5, "more")


@pytest.mark.medium
@pytest.mark.parametrize("first", ["gaussian", "laplace"])
def test_after_a_release_with_a_delta_pure_ones_count_by_rho(mixed, first):
    """Σε beside the sum of the others would promise both together: 3 + 3 at delta, and more."""
    if first == "laplace":
        ask(mixed, 0.2)
    ask_gaussian(mixed, 0.5)
    assert spent(mixed)[2] is None
    with pytest.raises(duckdb.Error, match=r"after a release with a delta, pure ones count by their rho"):
        ask(mixed, 1.0, "more")
    ask(mixed, 0.1, "small")


@pytest.mark.medium
def test_the_books_alone_keep_both_sums(mixed, monkeypatch):
    monkeypatch.setattr(ledger.Account, "require", lambda *_: None)
    ask(mixed, 2.9)
    for how in (lambda: ask(mixed, 0.2, "more"), lambda: ask_gaussian(mixed, 0.01)):
        with pytest.raises(duckdb.Error, match="spent meanwhile"):
            how()
    assert spent(mixed)[0] == 2.9


@pytest.mark.medium
def test_a_ledger_with_more_rho_than_the_sum_holds_fits_together(tmp_path):
    path = tmp_path / "t.duckdb"
    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a FROM range(1000) r(i)")
        db.protect("t", epsilon=2.0, delta=1e-9)
        ask(db, 1.0)
        ask(db, 1.0, "again")
        account = db.sql("SELECT rho_spent > rho_budget AS more FROM dpsql.account").fetchall()
    assert account == [(True,)]
    assert main(["ledger", "verify", str(path)]) == 0
    with dpsql.connect(path) as db:
        assert spent(db) == (2, 0, 2, 2)


BUDGETS = st.one_of(
    st.floats(0.01, 1.5).map(lambda e: pure_budget(e, Fraction(e) ** 2 / 2)),
    st.floats(0.01, 1.5).map(lambda e: make_budget(e, 1e-9, "gdp")),
    st.floats(0.01, 1.5).map(lambda e: make_budget(e, 1e-9, "tight")),
)


@pytest.mark.medium
@given(st.lists(BUDGETS, max_size=12), st.sampled_from([0.5, 1.0, 3.0]))
@settings(max_examples=60)
def test_what_is_charged_ends_within_one_of_the_sums(asked, epsilon):
    """The proof needs it: all releases are pure and Σε ≤ ε, or the sum that the first release fixed holds."""
    budget = account_budget(epsilon, 1e-9)
    unspent = dict.fromkeys(("rho_spent", "gdp_spent", "pure_spent"), Fraction(0))
    account = ledger.Account(
        "t", epsilon, 1e-9, Neighbours.ADD_REMOVE, None, None, 0.0, 0.0, budget.rho, gdp_budget=budget.gdp, currency=None,
        releases=0, since=1, retired=False, **unspent,
    )  # fmt: skip
    charged = []
    for one in asked:
        try:
            account.require(one)
        except InsufficientBudget:
            fitting = account.fitting_like(one)
            assert fitting < one.epsilon
            continue
        account, charged = account.after(one), [*charged, one]
    by_pure = all(one.pure for one in charged) and sum(one.exact_epsilon for one in charged) <= exact(epsilon)
    by_gdp = bool(charged) and charged[0].currency == "gdp" and sum(one.gdp for one in charged) <= budget.gdp
    by_rho = bool(charged) and charged[0].currency == "zcdp" and sum(one.rho for one in charged) <= budget.rho
    assert by_pure or by_gdp or by_rho
    assert account.epsilon_spent <= epsilon
