"""Rows of a period, through the public door: which rows are counted, what is charged, and what is refused.

Answers have pure ε = 40 where counts are compared, so that one differs from the exact count with a probability of
2·e⁻⁴⁰, which no run meets.
"""

from __future__ import annotations

import json
import random
import signal
from collections import Counter
from dataclasses import replace
from datetime import date, datetime, timedelta

import pytest

import dpsql
from dpsql.api.cli import main
from dpsql.books.ledger import migration
from dpsql.engines import source as engine_source
from dpsql.errors import BooksError, DpsqlError, InsufficientBudget, InvalidArgument
from dpsql.privacy.course import follow
from dpsql.privacy.ledger_state import State
from tests.core.test_period import LABELS
from tests.depth import is_deep

from ..processes import run_and_die

EXACT = 40
QUERY = "SELECT ill, count(*) AS n FROM visits GROUP BY ill"


def made(db, rows, kind="DATE", every="month", epsilon=1000.0):
    """The table, protected, with those rows: a text of a moment, or None, and whether ill."""
    db.sql(f"CREATE OR REPLACE TABLE visits (day {kind}, ill BOOLEAN NOT NULL)")
    db.executemany("INSERT INTO visits VALUES (?, ?)", rows)
    db.protect("visits", epsilon=epsilon, delta=1e-9, period=every, by="day")


def counts(db, period, sql=QUERY, epsilon=EXACT):
    rows = db.execute("FROM dp_query(?, epsilon := ?, mechanism := 'laplace', period := ?)", [sql, epsilon, period])
    return {ill: n for ill, n, *_ in rows.fetchall()}


def half_year(db, epsilon=3.0):
    """Visits of six months: of the m-th 100·m, every third of them ill."""
    db.sql(
        "CREATE TABLE visits AS SELECT make_date(2026, m + 1, 1 + i % 28) AS day, i % 3 = 0 AS ill "
        "FROM range(6) r(m), range(600) s(i) WHERE i < 100 * (m + 1)"
    )
    db.protect("visits", epsilon=epsilon, delta=1e-9, period="month", by="day")


@pytest.fixture
def visits():
    with dpsql.connect() as db:
        half_year(db)
        yield db


def budget(db):
    return dict(db.sql("SELECT source, epsilon_left FROM dp_budget()").fetchall())


def events(db):
    return db.connection.execute("SELECT count(*) FROM dpsql.event").fetchall()[0][0]


# --- which rows are counted: many small tables ------------------------------------------------------------------------


def random_rows(draw: random.Random, kind: str, every: str):
    """Moments around the ends of a few periods, to the smallest step of the type; some NULL, some infinite."""
    ends = [date(2025, 12, 29), date(2026, 1, 1), date(2026, 2, 28), date(2026, 3, 1), date(2026, 4, 1)]
    step = {"DATE": timedelta(days=1), "TIMESTAMP_S": timedelta(seconds=1)}.get(kind, timedelta(microseconds=1))
    rows = []
    for _ in range(draw.randrange(1, 30)):
        end = datetime.combine(draw.choice(ends), datetime.min.time())
        moment = draw.choice([end, end - step, end + step, end + timedelta(days=draw.randrange(-40, 40))])
        rows.append((moment, draw.random() < 0.5))
    rows += [(None, draw.random() < 0.5) for _ in range(draw.randrange(3))]
    return [(None if moment is None else str(moment), ill) for moment, ill in rows] + [("infinity", True)]


def truth(rows, every):
    """The rows of each period, counted in Python."""
    dated = [(moment, ill) for moment, ill in rows if moment not in (None, "infinity")]
    return Counter((LABELS[every](datetime.fromisoformat(moment).date()), ill) for moment, ill in dated)


def wrong_counts(seed: int) -> list[tuple[str, bool]]:
    """The periods of a random table, and of one with a row more, whose counts are not those of Python.

    The row more changes the counts of its own period alone, and by one.
    """
    draw = random.Random(seed)
    kind, every = draw.choice(["DATE", "TIMESTAMP", "TIMESTAMP_S"]), draw.choice(list(LABELS))
    rows = random_rows(draw, kind, every)
    wrong = []
    labels = sorted({label for label, _ in truth(rows, every)})
    asked = draw.sample(labels, min(3, len(labels)))
    for table in (rows[:-2] + rows[-1:], rows):  # neighbours
        expected = truth(table, every)
        with dpsql.connect() as db:
            db.sql("SET TimeZone = 'America/New_York'")
            made(db, table, kind, every)
            for label in asked:
                found = counts(db, label)
                wrong += [(label, ill) for ill in (False, True) if found.get(ill, 0) != expected[label, ill]]
    return wrong


SEEDS = range(12) if is_deep() else (0, 1, 5, 6, 7)
"""A quick run has each type of the day, and each length of a period."""


@pytest.mark.medium
@pytest.mark.parametrize("part", range(2))
def test_rows_of_a_period_are_counted_and_no_others(part):
    assert [wrong for seed in SEEDS[part::2] for wrong in wrong_counts(seed)] == []


def _all_rows(table, period):
    return engine_source.exp.select("*").from_(table).subquery("rows_of_period")


def _with_null(table, period):
    rows = _right(table, period)
    null = engine_source.exp.condition(f'"{period.column}" IS NULL')
    rows.this.set("where", engine_source.exp.Where(this=engine_source.exp.or_(rows.this.args["where"].this, null)))
    return rows


def _with_end(table, period):
    rows = _right(table, period)
    for end in rows.this.args["where"].find_all(engine_source.exp.LT):
        end.replace(engine_source.exp.LTE(this=end.this.copy(), expression=end.expression.copy()))
    return rows


_right = engine_source._rows_of


@pytest.mark.medium
@pytest.mark.parametrize("broken", [_all_rows, _with_null, _with_end])
def test_a_broken_filter_is_noticed(broken, monkeypatch):
    """No filter; rows without a day in every period; the first moment after a period in two."""
    monkeypatch.setattr(engine_source, "_rows_of", broken)
    assert any(wrong_counts(seed) for seed in SEEDS)


# --- canaries: February is not read for March -------------------------------------------------------------------------


def test_february_changes_nothing_of_march(visits):
    march = counts(visits, "2026-03", epsilon=1.0)
    assert counts(visits, "2026-03", epsilon=1.0) == march
    visits.sql("DELETE FROM visits WHERE month(day) = 2")
    visits.sql("INSERT INTO visits SELECT DATE '2026-02-03', true FROM range(5000)")
    assert counts(visits, "2026-03", epsilon=1.0) == march
    assert visits.sql("SELECT count(*) FROM dp_ledger() WHERE kind = 'charge'").fetchall() == [(1,)]


@pytest.mark.medium
def test_every_kind_of_request_reads_one_period():
    """Counts, sums, quantiles, marginals of a synthetic table, and values and bins that are discovered."""
    with dpsql.connect() as db:
        db.sql(
            "CREATE TABLE visits AS SELECT (DATE '2026-01-05' + CAST(30 * m AS INTEGER)) AS day, m AS cost, "
            "'only in ' || m AS word, true AS ill FROM range(4) r(m), range(500)"
        )
        db.protect("visits", epsilon=1000.0, delta=1e-9, period="month", by="day")
        db.domain("visits", "cost", lower=0, upper=10, bins=11)
        assert db.discover("visits", "word", epsilon=EXACT, period="2026-03").values == ("only in 2",)
        bins = db.discover("visits", "cost", epsilon=EXACT, lower=0, upper=100, bins=4, heavy=0.5, period="2026-04")
        assert bins.points == (3,)
        db.domain("visits", "cost", lower=0, upper=10, bins=11)
        db.domain("visits", "day", lower="2026-01-01", upper="2026-12-31", every="month")
        sql = "SELECT sum(cost) AS s, avg(cost) AS a, quantile_cont(cost, 0.5) AS q, count(*) AS n FROM visits"
        found = db.query(sql, epsilon=EXACT, period="2026-03").iloc[0]
        assert max(abs(found.s - 1000), abs(found.n - 500)) < 100  # of all periods 3000 and 2000; noise has σ < 5
        assert (round(found.a), round(found.q)) == (2, 2)
        for mechanism in ("direct", "pgm"):
            release = db.synthesize("visits", epsilon=EXACT, mechanism=mechanism, period="2026-02", rows=100)
            rows = release.df()
            assert (rows.cost == 1).mean() > 0.9, mechanism
            assert set(rows.day.astype(str).str[:7]) == {"2026-02"}
            assert set(rows.word) <= {"only in 2", None}
        evaluation = db.evaluate("visits", str(release.entry.number))
        assert evaluation.real_rows == 500
        assert "in period 2026-02" in release.entry.guarantee
        assert release.report(private=True)


@pytest.mark.medium
def test_what_was_measured_of_march_is_not_told_of_april(visits):
    visits.query(QUERY, epsilon=1.0, period="2026-03")
    visits.synthesize("visits", epsilon=0.5, mechanism="direct", columns=["ill"], period="2026-03")
    free = visits.query("SELECT count(*) AS n FROM visits", epsilon=0, period="2026-03")
    assert abs(free.n[0] - 300) < 200
    with pytest.raises(InvalidArgument, match="no earlier release measured"):
        visits.query("SELECT count(*) AS n FROM visits", epsilon=0, period="2026-04")
    april = visits.synthesize("visits", epsilon=0.5, mechanism="pgm", columns=["ill"], period="2026-04")
    assert not april.entry.report.get("reused")


# --- what is charged --------------------------------------------------------------------------------------------------


@pytest.mark.medium
def test_each_period_has_a_budget_of_its_own(visits):
    """Also the largest ε: what is spent of March is not spent of April, and a later month's rows change neither."""
    counts(visits, "2026-03", epsilon=3.0)
    counts(visits, "2026-04", epsilon=1.0)
    assert budget(visits) == {"visits": 3.0, 'visits."2026-03"': 0.0, 'visits."2026-04"': 2.0}
    visits.sql("INSERT INTO visits SELECT DATE '2026-07-03', true FROM range(500)")
    with pytest.raises(InsufficientBudget, match=r'visits\."2026-03" has nothing left'):
        counts(visits, "2026-03", epsilon=0.1)
    counts(visits, "2026-07", epsilon=1.0)
    assert budget(visits)['visits."2026-03"'] == 0.0
    listed = visits.sql("SELECT source, kind FROM dp_ledger(source := 'visits') WHERE kind <> 'publish'").fetchall()
    months = [
        entry
        for month in ("03", "04", "07")
        for entry in ((f'visits."2026-{month}"', kind) for kind in ("protect", "charge"))
    ]
    assert listed == [("visits", "protect"), ("visits", "period"), *months]
    assert visits.sql("SELECT DISTINCT source FROM dp_releases() ORDER BY 1").fetchall() == [
        (one,) for one, kind in months if kind == "charge"
    ]


def test_a_plan_is_of_a_period_and_free(visits):
    counts(visits, "2026-03", epsilon=2.0)
    before = events(visits)
    left = [visits.plan(QUERY, epsilon=0.5, period=month).epsilon_left[0] for month in ("2026-03", "2026-04")]
    assert left[0] < 1.5 < left[1]
    assert visits.plan("visits", epsilon=0.5, columns=["ill"], period="2026-04").epsilon[0] == 0.5
    assert events(visits) == before


@pytest.mark.medium
def test_a_release_that_was_killed_goes_on(tmp_path):
    path = tmp_path / "bank.duckdb"
    with dpsql.connect(path) as db:
        half_year(db)
    script = f"""
import os, signal, dpsql, dpsql.engines.duckdb.engine as engine
engine.DuckDBCounter = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
dpsql.connect({str(path)!r}).query({QUERY!r}, epsilon=1.0, period="2026-03")
"""
    assert run_and_die(script) == -signal.SIGKILL
    with dpsql.connect(path) as db:
        spent = db.sql("SELECT source, epsilon_spent FROM dp_budget()").fetchall()
        assert [source for source, _ in spent] == ["visits", 'visits."2026-03"']
        assert abs(db.query(QUERY, epsilon=1.0, period="2026-03").n.sum() - 300) < 200
        assert db.sql("SELECT source, epsilon_spent FROM dp_budget()").fetchall() == spent


def test_an_owner_changes_the_budgets_of_all_periods(visits):
    counts(visits, "2026-03", epsilon=3.0)
    visits.raise_budget("visits", epsilon=4.0, reason="the board agreed")
    assert budget(visits) == {"visits": 4.0, 'visits."2026-03"': 1.0}
    assert visits.forgive("visits", reason="looked").source == "visits"
    for refused in (visits.reset, visits.unprotect):
        with pytest.raises(InvalidArgument):
            refused("visits", reason="x")
    visits.retire("visits", reason="the study ended")
    before = events(visits)
    for month in ("2026-03", "2026-05"):
        with pytest.raises(InsufficientBudget, match="is retired"):
            counts(visits, month, epsilon=0.5)
    assert events(visits) == before


def test_a_protection_that_was_never_charged_is_taken_back(visits):
    visits.unprotect("visits", reason="by mistake")
    visits.protect("visits", epsilon=3.0, delta=1e-9)
    assert visits.query(QUERY, epsilon=1.0).n.sum() > 1500


@pytest.mark.medium
def test_limits_of_users_are_of_each_period(tmp_path):
    with dpsql.connect(tmp_path / "bank.duckdb") as db:
        half_year(db)
        db.users.add("alice", limits={"visits": 1.0})
        db.users.add("bob", limits={"visits": 1.0})

        def call(name, function, **arguments):
            return db.for_analyst(name).bind(function, arguments).rows().read_all().to_pylist()

        for month in ("2026-03", "2026-04"):
            call("alice", "dp_query", sql=QUERY, epsilon=0.9, period=month, mechanism="laplace")
        with pytest.raises(InsufficientBudget, match="Of the limit of 1"):
            call("alice", "dp_query", sql=QUERY, epsilon=0.2, period="2026-04", mechanism="laplace", release="b")
        with pytest.raises(InvalidArgument, match="say which one"):
            call("alice", "dp_query", sql=QUERY, epsilon=0.1)
        spent = [(row["source"], round(row["epsilon_spent"], 6)) for row in call("alice", "dp_budget")]
        assert spent == [("visits", 0.0), ('visits."2026-03"', 0.9), ('visits."2026-04"', 0.9)]
        assert [row["source"] for row in call("bob", "dp_budget")] == ["visits"]
    assert main(["ledger", "verify", str(tmp_path / "bank.duckdb")]) == 0


# --- what is refused, before any charge -------------------------------------------------------------------------------


def test_a_request_says_its_period(visits):
    before = events(visits)
    calls = [
        lambda: visits.query(QUERY, epsilon=0.1),
        lambda: visits.query(QUERY, epsilon=0),
        lambda: visits.synthesize("visits", epsilon=0.1, columns=["ill"]),
        lambda: visits.plan("visits", epsilon=0.1, columns=["ill"]),
        lambda: visits.plan(QUERY, epsilon=0.1),
        lambda: visits.discover("visits", "day", epsilon=0.1, lower="2026-01-01", upper="2026-12-31"),
    ]
    for call in calls:
        with pytest.raises(
            InvalidArgument, match="has a budget for each month of 'day': say which one, as in period := '2026-03'"
        ):
            call()
    with pytest.raises(InvalidArgument, match="which is no month"):
        visits.query(QUERY, epsilon=0.1, period="2026-W10")
    assert events(visits) == before


def test_a_table_with_one_budget_has_no_periods(db):
    db.sql("CREATE TABLE visits AS SELECT DATE '2026-03-01' AS day, true AS ill")
    db.protect("visits", epsilon=1.0, delta=1e-9)
    with pytest.raises(InvalidArgument, match="one budget for all its rows: leave period out"):
        db.query(QUERY, epsilon=0.1, period="2026-03")
    with pytest.raises(BooksError, match="a budget is set once"):
        db.protect("visits", epsilon=1.0, delta=1e-9, period="month", by="day")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"period": "month"}, "say by := '…' too"),
        ({"by": "day"}, "say period := 'month' too"),
        ({"period": "fortnight", "by": "day"}, "give 'day', 'week'"),
        ({"period": "month", "by": "zoned"}, "time zone of the session would decide"),
        ({"period": "month", "by": "word"}, "columns of type DATE or TIMESTAMP"),
        ({"period": "month", "by": "later"}, "a generated column"),
        ({"period": "month", "by": "gone"}, "has no column 'gone'"),
        ({"period": "month", "by": "day", "neighbours": "replace_one"}, "Say neighbours := 'add_remove'"),
        ({"period": "month", "by": "day", "privacy_unit": "pid", "max_rows": 2}, "whose epsilons add up"),
    ],
)
def test_what_is_not_covered_is_refused(db, said, words):
    db.sql(
        "CREATE TABLE visits (day DATE, zoned TIMESTAMPTZ, word VARCHAR, pid INTEGER, "
        "later DATE GENERATED ALWAYS AS (day + 1))"
    )
    with pytest.raises(DpsqlError) as refused:
        db.protect("visits", epsilon=1.0, delta=1e-9, **said)
    assert words in str(refused.value)
    assert budget(db) == {}


def test_rows_elsewhere_have_one_budget(db, tmp_path):
    db.sql(f"COPY (SELECT DATE '2026-03-01' AS day) TO '{tmp_path}/a.parquet'")
    db.source("visits", files=f"{tmp_path}/*.parquet")
    with pytest.raises(InvalidArgument, match="periods are of tables in DuckDB"):
        db.protect("visits", epsilon=1.0, delta=1e-9, period="month", by="day")


def test_other_tables_have_no_part_in_periods(visits):
    visits.sql("CREATE TABLE labs AS SELECT DATE '2026-03-01' AS day, true AS high")
    with pytest.raises(InvalidArgument, match="tables that share an account share one budget"):
        visits.protect("labs", account="visits", privacy_unit="day", max_rows=2)
    with pytest.raises(InvalidArgument, match="no other table has a part in one"):
        visits.link("labs", "visits", key="day", references="day", max_rows=2)
    with pytest.raises(InvalidArgument, match="leave period out"):
        visits.protect("labs", account="visits", privacy_unit="day", max_rows=2, period="month", by="day")


def test_the_column_that_says_the_period_stays(visits):
    for statement in ("ALTER day TYPE TIMESTAMP", "RENAME day TO other"):
        visits.sql(f"ALTER TABLE visits {statement}")
        before = events(visits)
        with pytest.raises(InvalidArgument, match="is not what it was when the table was protected: change it back"):
            visits.query(QUERY, epsilon=0.1, period="2026-03")
        assert events(visits) == before


def test_a_period_without_a_declared_day_has_no_synthetic_rows(visits):
    visits.domain("visits", "day", lower="2026-01-01", upper="2026-06-30")
    before = events(visits)
    with pytest.raises(InvalidArgument, match="no declared value of 'day' lies in it"):
        visits.synthesize("visits", epsilon=0.5, period="2026-07")
    assert events(visits) == before


# --- the ledger -------------------------------------------------------------------------------------------------------


def told(db):
    rows = db.connection.execute("SELECT content FROM dpsql.event ORDER BY number").fetchall()
    return [json.loads(content) for (content,) in rows]


def test_a_ledger_follows_only_if_periods_are_charged(visits):
    """A charge of the whole table, a period's account with more ε, of no label, or of a table without periods."""
    counts(visits, "2026-03", epsilon=1.0)
    whole, period, opened, charged, *_ = told(visits)
    state = follow(follow(State(), whole), period)
    after = follow(follow(state, opened), charged)
    assert set(after.accounts) == {"visits", 'visits."2026-03"'}
    assert after.accounts['visits."2026-03"']["since"] == after.accounts["visits"]["since"]

    def of(event, source, **changes):
        return {**event, "source": source, "account": {**event["account"], "source": source, **changes}}

    more = {**of(opened, opened["source"], epsilon="4.0"), "epsilon": 4.0}
    forged = {
        "it is no event of that kind": of(opened, 'visits."2026-13"'),
        "the table has one budget": of(opened, 'others."2026-03"'),
        "promises something else than its table": more,
        "each period of the table has an account of its own": of(charged, "visits"),
    }
    for why, event in forged.items():
        with pytest.raises(BooksError, match=why):
            follow(state, event)
    with pytest.raises(BooksError, match="does not follow"):
        follow(after, {**period, "number": 9})
    for account in (whole, charged):
        with pytest.raises(BooksError, match="no budget of a period begins anew"):
            follow(after, {**account, "kind": "reset"})
    whole_retired = {**after.accounts["visits"], "retired": "True"}
    retired = replace(follow(state, opened), accounts={**follow(state, opened).accounts, "visits": whole_retired})
    with pytest.raises(BooksError, match="is retired, or has one budget"):
        follow(retired, charged)


@pytest.mark.medium
def test_a_version_that_knows_no_periods_refuses_the_books(tmp_path, monkeypatch):
    """Version 7 of the books was the last without periods; its dpsql would charge the whole table once more."""
    with dpsql.connect(tmp_path / "bank.duckdb") as db:
        half_year(db)
    monkeypatch.setattr(migration, "VERSION", 7)
    with pytest.raises(BooksError, match="which a newer dpsql wrote"):
        dpsql.connect(tmp_path / "bank.duckdb")


@pytest.mark.medium
def test_periods_that_are_not_what_the_ledger_says_are_noticed(tmp_path):
    path = tmp_path / "bank.duckdb"
    with dpsql.connect(path) as db:
        half_year(db)
        counts(db, "2026-03", epsilon=2.0)
    assert main(["ledger", "verify", str(path)]) == 0
    change = "import duckdb; duckdb.connect({!r}).execute({!r})"
    assert (
        run_and_die(change.format(str(path), "UPDATE dpsql.period SET stated = replace(stated, 'month', 'day')")) == 0
    )
    assert main(["ledger", "verify", str(path)]) == 1
    with pytest.raises(BooksError, match="which periods of visits have a budget is not what the ledger says"):
        dpsql.connect(path)
    assert main(["ledger", "accept", str(path), "--reason", "looked at"]) == 1  # each day would have a new budget
    assert (
        run_and_die(
            change.format(str(path), "UPDATE dpsql.period SET stated = replace(stated, 'day\", \"c', 'month\", \"c')")
        )
        == 0
    )
    assert (
        run_and_die(change.format(str(path), "UPDATE dpsql.account SET rho_spent = 0, gdp_spent = 0, pure_spent = 0"))
        == 0
    )
    assert main(["ledger", "accept", str(path), "--reason", "looked at"]) == 0
    with dpsql.connect(path) as db:
        assert budget(db)['visits."2026-03"'] == 1.0
        with pytest.raises(InvalidArgument, match="say which one"):
            db.query(QUERY, epsilon=0.1)
        counts(db, "2026-04", epsilon=3.0)
    assert run_and_die(change.format(str(path), "DELETE FROM dpsql.period")) == 0
    assert main(["ledger", "accept", str(path), "--reason", "looked at"]) == 1
