"""Statistics in `dp_query`: with hardly any noise DuckDB's own, with noise inside their intervals as often as they say."""

from __future__ import annotations

import math
from types import SimpleNamespace

import duckdb
import numpy as np
import pytest

import dpsql
from dpsql.engines.duckdb.counting import DuckDBCounter
from dpsql.errors import DomainTooLarge
from dpsql.privacy.distributions import GAUSSIAN, LAPLACE
from dpsql.privacy.linear import exact_answers, linear_stddevs
from dpsql.release.intervals import Noisy
from dpsql.release.query_answers import QueryRequest, resolve_query
from dpsql.release.statistics import statistic

TABLE = """
    CREATE TABLE t AS
    SELECT
        (17 + (i * i + 7 * i) % 74)::INTEGER AS x,
        (20 + (17 + (i * i + 7 * i) % 74) / 2.5 + i * 37 % 400 / 10)::DOUBLE AS y,
        ((i * 7919 % 1000) ** 2 / 10)::DECIMAL(9, 2) AS z,
        CASE WHEN i % 11 <> 3 THEN i * 13 % 7 / 2.0 END AS w,
        (['a', 'b'])[1 + i % 2] AS g
    FROM range(4000) r(i);
    CREATE TABLE places AS FROM (VALUES ('a', 10.5), ('b', 12)) v(g, km);
"""


@pytest.fixture(scope="module")
def declared():
    with dpsql.connect() as db:
        db.sql(TABLE)
        db.protect("t", epsilon=1000.0, delta=1e-9)
        db.domain("t", "x", lower=17, upper=90, nulls=False)
        db.domain("t", "y", lower=20, upper=100, bins=16, nulls=False)
        db.domain("t", "z", lower=0, upper=100_000, bins=20, nulls=False)
        db.domain("t", "w", values=[n / 2 for n in range(7)])
        db.domain("t", "g", values=["a", "b"], nulls=False)
        yield db


def measured(db, sql: str, epsilon: float = 1.0, noise=GAUSSIAN) -> SimpleNamespace:
    """A query on its domain, its exact answers for one grouping set, and the noise that they would get; free."""
    with db.instance.cursor() as cursor:
        resolved = resolve_query(cursor, QueryRequest(sql, epsilon, mechanism=noise.name), to_charge=False)
        linear = resolved.evaluated.linear
        needed = type(linear.domain)(tuple(a for a in linear.domain if a.name in linear.clique))
        exact = exact_answers(DuckDBCounter(cursor, resolved.source, needed, once=True), linear)[0]
    spread = linear_stddevs(linear, resolved.budget.rho, resolved.account.neighbours, noise)
    return SimpleNamespace(evaluated=resolved.evaluated, exact=exact, spread=spread, noise=noise)


def answer(found: SimpleNamespace, noisy) -> object:
    return statistic(found.evaluated.measured[0], found.evaluated, noisy, {})


def without_noise(db, expression: str, where: str = "") -> float:
    found = measured(db, f"SELECT {expression} AS v FROM t {where}")
    return float(answer(found, [Noisy(values, 0.0, GAUSSIAN) for values in found.exact]).values[0])


EXACT = [
    "stddev(x)", "stddev_pop(y)", "var_samp(z)", "var_pop(z)", "variance(w)", "stddev(x) FILTER (WHERE z > 5000)",
    "corr(x, y)", "corr(x, w)", "corr(y, z)", "corr(y, w) FILTER (WHERE g = 'a')", "covar_samp(z, x)", "covar_pop(y, z)",
    "median(x)", "median(w)", "quantile_cont(x, 0.9)", "quantile_disc(x, 0.25)", "quantile(w, 0.7)", "quantile_cont(x, 0)",
    "quantile_cont(x // 10, 0.5)", "sum(z * x) / sum(x)", "sum(y * z) / sum(z)", "sum(w * y) / sum(w)", "sum(z) / count(*)",
    "count(*) FILTER (WHERE x > 40) / count(*)", "(sum(x)) / sum(z)::DOUBLE",
]  # fmt: skip


@pytest.mark.parametrize("expression", EXACT)
def test_without_noise_it_is_duckdbs_own(declared, expression):
    """Sums of floats within their steps, which are 2^30 of the largest."""
    ((expected,),) = declared.sql(f"SELECT {expression} FROM t").fetchall()
    assert without_noise(declared, expression) == pytest.approx(float(expected), rel=1e-6, abs=1e-7)


@pytest.mark.parametrize(("expression", "width"), [("median(y)", 5.0), ("quantile_cont(z, 0.9)", 5000.0)])
def test_a_quantile_is_right_within_its_bin(declared, expression, width):
    ((expected,),) = declared.sql(f"SELECT {expression} FROM t").fetchall()
    found = measured(declared, f"SELECT {expression} AS v FROM t")
    shown = answer(found, [Noisy(values, 0.0, GAUSSIAN) for values in found.exact])
    assert shown.low[0] <= float(expected) <= shown.high[0]
    assert abs(shown.values[0] - float(expected)) <= width
    assert shown.high[0] - shown.low[0] <= 2 * width


COVERED = [
    ("var_pop(x)", 1.0), ("stddev(y)", 1.0), ("covar_samp(x, y)", 1.0), ("corr(x, y)", 1.0), ("corr(y, w)", 2.0),
    ("sum(z * x) / sum(x)", 0.5), ("count(*) FILTER (WHERE x > 40) / count(*)", 0.2),
]  # fmt: skip


def covers(db, expression: str, epsilon: float, noise, width: float = 1.0) -> float:
    """How many of 4,000 intervals, or of intervals of a part of their width, hold the truth."""
    found = measured(db, f"SELECT {expression} AS v FROM t", epsilon, noise)
    generator = np.random.default_rng(len(expression))
    drawn = []
    for values, spread in zip(found.exact, found.spread, strict=True):
        off = (
            generator.normal(0, spread, 4000) if noise.is_normal else generator.laplace(0, spread / math.sqrt(2), 4000)
        )
        drawn.append(Noisy(np.rint(values[0] + off), spread, noise))
    shown = answer(found, drawn)
    truth = float(db.sql(f"SELECT {expression} FROM t").fetchall()[0][0])
    middle, half = (shown.low + shown.high) / 2, (shown.high - shown.low) / 2
    return float((np.abs(truth - middle) <= width * half + 1e-9 * abs(truth)).mean())


@pytest.mark.parametrize(("expression", "epsilon"), COVERED)
def test_intervals_cover(declared, expression, epsilon):
    """95 % within six standard errors of 4,000 runs, 0.35 % each. Broken twins: noise √2 larger than is told."""
    assert 0.93 <= covers(declared, expression, epsilon, GAUSSIAN) <= 0.97
    assert covers(declared, expression, epsilon, GAUSSIAN, math.sqrt(1 / 2)) < 0.9


@pytest.mark.parametrize(("expression", "epsilon"), COVERED[:5:2])
def test_intervals_of_laplace_noise_cover(declared, expression, epsilon):
    """At least as often: z is that of a single draw, and sums of several have lighter tails."""
    assert 0.935 <= covers(declared, expression, epsilon, LAPLACE) <= 0.98


@pytest.mark.parametrize("expression", ["median(x)", "median(y)", "quantile_cont(z, 0.9)"])
def test_intervals_of_quantiles_cover_at_least(declared, expression):
    """As whole bins do. Broken twin: a tenth of the width."""
    assert covers(declared, expression, 0.1, GAUSSIAN) >= 0.935
    assert covers(declared, expression, 0.1, GAUSSIAN, 0.1) < 0.8


def test_a_histogram_costs_as_much_as_a_marginal(declared):
    """However many bins, and whatever else is asked of other columns, a row is in one of them."""
    quantile, count = (measured(declared, f"SELECT {what} FROM t").spread for what in ("median(x)", "count(*)"))
    assert len(quantile) == 74
    assert set(quantile) == set(count)
    two = measured(declared, "SELECT median(x), median(y) FROM t").spread
    assert np.ptp(two) == 0
    assert two[0] == pytest.approx(math.sqrt(2 * count[0] ** 2 - 1 / 8), rel=1e-6)


def test_sums_around_the_middle_need_less_noise(declared):
    """A sum of squares of x up to 90 has noise for 8,100; of those around the middle, less half the largest, for 666."""
    found = measured(declared, "SELECT var_pop(x) FROM t")
    units = found.evaluated.units
    told = [spread * float(unit) / found.spread[0] for spread, unit in zip(found.spread, units, strict=True)]
    assert told == pytest.approx([1, 36.5, 36.5**2 / 2], rel=1e-3)


SHOWN = """
    SELECT g, stddev(x) AS s, corr(x, y) AS c, median(x) AS m, sum(z * x) / sum(x) AS r
    FROM t GROUP BY g HAVING s > 1 AND r > 0 ORDER BY r DESC
"""


@pytest.mark.medium
def test_a_query_is_planned_charged_and_shown(declared):
    """By SQL: the price in the plan, the columns of the result, one charge, and the same answers again at no cost."""
    plan = declared.sql("SELECT stddev, note, epsilon FROM dp_plan(?, epsilon := 20, assume_rows := 4000)", [SHOWN])
    planned = plan.fetchall()
    assert [row[2] for row in planned] == [20.0] * 4
    assert all("95 % interval ± " in note and "2000 rows a group" in note for _, note, _ in planned)
    before = len(declared.ledger())
    relation = declared.sql("FROM dp_query(?, epsilon := 20)", [SHOWN])
    names = [f"{name}{suffix}" for name in "scmr" for suffix in ("", "_stderr", "_low", "_high")]
    assert relation.columns == ["g", *names]
    rows = relation.fetchall()
    assert len(declared.ledger()) == before + 2
    assert [row[13] for row in rows] == sorted((row[13] for row in rows), reverse=True)
    rows, truth = sorted(rows), sorted(declared.sql(SHOWN).fetchall())
    for row, exact in zip(rows, truth, strict=True):
        for place in range(4):
            value, error, low, high = row[1 + 4 * place : 5 + 4 * place]
            assert low <= value <= high
            assert abs(value - float(exact[1 + place])) <= 6 * error + 0.5
    assert sorted(declared.sql("FROM dp_query(?, epsilon := 20)", [SHOWN]).fetchall()) == rows
    assert len(declared.ledger()) == before + 2


def test_the_plan_finds_the_least_epsilon(declared):
    least = declared.plan("SELECT corr(x, y) FROM t", max_error=0.05, assume_rows=4000).epsilon[0]
    note = declared.plan("SELECT corr(x, y) FROM t", least, assume_rows=4000).note[0]
    assert 0.048 <= float(note.split("± ")[1].split(" ")[0]) <= 0.05


@pytest.mark.parametrize("expression", ["stddev(x)", "corr(x, y)", "median(x)", "var_pop(y)"])
def test_of_hardly_any_rows_nothing_is_told_but_the_bounds(declared, expression):
    found = measured(declared, f"SELECT {expression} FROM t", 0.01)
    shown = answer(found, [Noisy(np.zeros(1), spread, GAUSSIAN) for spread in found.spread])
    assert np.isnan(shown.values[0])
    assert np.isnan(shown.stderr[0])
    bounds = {"stddev(x)": (0, 36.5), "corr(x, y)": (-1, 1), "median(x)": (17, 90), "var_pop(y)": (0, 1600)}
    assert shown.low[0] == bounds[expression][0]
    assert bounds[expression][1] <= shown.high[0] <= 2 * bounds[expression][1]


def test_one_bin_has_no_quantile(db):
    db.sql("CREATE TABLE u AS SELECT i / 10 AS x FROM range(100) r(i)")
    db.protect("u", epsilon=1.0, delta=1e-6)
    db.domain("u", "x", lower=0, upper=10, bins=1)
    with pytest.raises(duckdb.Error, match="one bin, in which every quantile lies: declare more bins"):
        db.sql("FROM dp_query('SELECT median(x) FROM u', epsilon := 1)").fetchall()
    assert db.sql("SELECT releases FROM dp_budget()").fetchall() == [(0,)]


@pytest.mark.medium
def test_quantiles_and_correlations_of_what_earlier_releases_measured_are_free(db):
    db.sql(TABLE)
    db.protect("t", epsilon=20.0, delta=1e-9)
    db.domain("t", "x", lower=17, upper=90, nulls=False)
    db.domain("t", "w", values=[n / 2 for n in range(7)])
    for name in ("y", "z", "g"):
        db.domain("t", name, exclude=True)
    db.sql("FROM dp_synthesize('t', epsilon := 10, mechanism := 'direct', columns := ['x', 'w'])").fetchall()
    before = len(db.ledger())
    sql = "SELECT median(x) AS m, corr(x, w) AS c, stddev(x) AS s FROM t"
    ((m, m_low, m_high, c, c_low, c_high, s, s_low, s_high),) = db.sql(
        "SELECT m, m_low, m_high, c, c_low, c_high, s, s_low, s_high FROM dp_query(?, epsilon := 0)", [sql]
    ).fetchall()
    assert len(db.ledger()) == before
    assert m_low <= m <= m_high
    assert c_low <= c <= c_high <= c_low + 0.2
    assert s_low <= s <= s_high
    ((exact_m, exact_s),) = db.sql("SELECT median(x), stddev(x) FROM t").fetchall()
    assert abs(m - exact_m) <= 3
    assert abs(s - exact_s) <= 2


@pytest.mark.medium
def test_adult(load_adult):
    """Real data through SQL: intervals hold DuckDB's own answers, at a noise that is hardly there."""
    sql = """
        SELECT sex, stddev(age) AS a, corr(age, hours_per_week) AS b, median(age) AS c, quantile_cont(hours_per_week, 0.9) AS d,
            sum(capital_gain) / count(*) AS e, sum(education_num * hours_per_week) / sum(hours_per_week) AS f
        FROM adult GROUP BY sex ORDER BY sex
    """
    with dpsql.connect() as db:
        load_adult(db)
        rows = db.sql("FROM dp_query(?, epsilon := 3)", [sql]).fetchall()
        truth = [row for row in db.sql(sql).fetchall() if row[0] is not None]
        for row, exact in zip([row for row in rows if row[0] is not None], truth, strict=True):
            assert row[0] == exact[0]
            for place, value in enumerate(exact[1:]):
                shown, error, low, high = row[1 + 4 * place : 5 + 4 * place]
                assert abs(shown - float(value)) <= 6 * error + 0.5, (place, row)
                assert high - low <= {0: 3, 1: 0.2, 2: 4, 3: 12, 4: 2000, 5: 1}[place]


def test_far_values_are_refused_or_told_rightly(db):
    """Squares of values up to 2^61 are summed in coarser steps; of floats beyond 1e100 nothing is."""
    db.sql(
        "CREATE TABLE far AS SELECT ((i - 50) * (2::HUGEINT ** 54)::BIGINT)::BIGINT AS a, i * 1e98 AS b FROM range(100) r(i)"
    )
    db.protect("far", epsilon=1000.0, delta=1e-6)
    db.domain("far", "a", lower=-(2**61), upper=2**61 - 1, bins=64, nulls=False)
    db.domain("far", "b", lower=0.0, upper=1e100, bins=4, nulls=False)
    found = measured(db, "SELECT stddev(a) FROM far")
    assert max(found.evaluated.linear.scales) <= 2**32
    shown = answer(found, [Noisy(values, 0.0, GAUSSIAN) for values in found.exact])
    assert shown.values[0] == pytest.approx(float(db.sql("SELECT stddev(a) FROM far").fetchall()[0][0]), rel=1e-6)
    for what in ("stddev(b)", "corr(a, b)"):
        with pytest.raises(duckdb.Error, match="too large or too small to be summed"):
            db.sql(f"FROM dp_query('SELECT {what} FROM far', epsilon := 1)").fetchall()
    assert db.sql("SELECT releases FROM dp_budget()").fetchall() == [(0,)]


def test_keys_tell_statistics_apart(declared):
    """Each statistic, argument, share and side has a key of its own, and so a charge of its own."""
    asked = ["stddev(x)", "stddev_pop(x)", "median(x)", "quantile_cont(x, 0.25)", "quantile_disc(x, 0.5)", "corr(x, y)",
             "corr(y, x)", "covar_pop(x, y)", "sum(x) / sum(y)", "sum(x) / count(*)", "sum(x)"]  # fmt: skip
    keys = set()
    with declared.instance.cursor() as cursor:
        for one in asked:
            keys.add(resolve_query(cursor, QueryRequest(f"SELECT {one} FROM t", 1.0), to_charge=False).key)
    assert len(keys) == len(asked)


@pytest.mark.medium
def test_sums_for_each_unit(db):
    """A ratio may have the number of units below: of no other column may distinct values be counted."""
    db.sql("CREATE TABLE visits AS SELECT i // 2 AS person, (i % 5)::INTEGER AS days FROM range(4000) r(i)")
    db.protect("visits", epsilon=100.0, delta=1e-6, privacy_unit="person", max_rows=2)
    db.domain("visits", "days", lower=0, upper=4, nulls=False)
    asked = "SELECT sum(days) / count(DISTINCT person) AS v FROM visits"
    ((value, low, high),) = db.sql("SELECT v, v_low, v_high FROM dp_query(?, epsilon := 50)", [asked]).fetchall()
    assert low <= value <= high
    assert abs(value - 4) < 0.1
    before = len(db.ledger())
    with pytest.raises(dpsql.DpsqlError, match="DISTINCT values are counted of the privacy unit only"):
        db.query("SELECT sum(days) / count(DISTINCT days) FROM visits", 1.0)
    assert len(db.ledger()) == before


def test_a_value_for_the_rest_stretches_the_bin_that_it_lies_in(db):
    """Seven tenths of the rows are what `other` stands for, so the median is that, far below the bins."""
    db.sql("CREATE TABLE t AS SELECT CASE WHEN i % 10 < 7 THEN 1000 + i ELSE i % 100 END AS y FROM range(20000) r(i)")
    db.protect("t", epsilon=50.0, delta=1e-9)
    db.domain("t", "y", lower=0, upper=99, bins=10, other=-500)
    found = db.query("SELECT median(y) AS m FROM t", 5.0)
    assert found.m_low[0] == -500
    assert found.m_high[0] <= 9
    db.domain("t", "y", lower=0, upper=99, bins=10, other=None)
    assert db.query("SELECT median(y) AS m FROM t", 5.0).m_low[0] >= 0


def test_many_quantiles_share_the_memory(db):
    """Eight histograms have an eighth of the bins each, or are refused before anything is charged."""
    db.sql("CREATE TABLE t AS SELECT (i % 250)::SMALLINT AS x, (i % 300)::SMALLINT AS g FROM range(3000) r(i)")
    db.protect("t", epsilon=5.0, delta=1e-9)
    db.domain("t", "x", lower=0, upper=249, bins=250)
    db.domain("t", "g", lower=0, upper=299, bins=300)
    medians = ", ".join(f"median(x) FILTER (WHERE g + x > {n})" for n in range(40))
    with pytest.raises(DomainTooLarge, match="fewer quantiles"):
        db.plan(f"SELECT {medians} FROM t", 1.0)
    assert db.budget()["releases"].tolist() == [0]
