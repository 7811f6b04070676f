"""Domains found in private rows: charged, with noise, and no value of a single person ever among them."""

from __future__ import annotations

import threading
from fractions import Fraction

import duckdb
import numpy as np
import pytest
from scipy import stats

import dpsql
from dpsql.core.domain import Attribute, Domain
from dpsql.core.neighbours import Neighbours
from dpsql.errors import InsufficientBudget, InvalidArgument
from dpsql.privacy import discovery, distributions
from dpsql.privacy.accounting import account_budget, discovery_threshold, gaussian_variance
from dpsql.privacy.curator import Curator
from dpsql.runtime.progress import Quiet

from ..conftest import seeded_entropy
from ..counters import Journal, Rows
from .test_faults import kill_in

FALSE_ALARM = 1e-6
DELTA = 1e-6


@pytest.fixture
def raw_adult(db, data):
    """Adult as it is, protected, without domains."""
    db.sql(f"CREATE TABLE adult AS FROM '{data}/adult.csv.gz'")
    db.protect("adult", epsilon=3.0, delta=DELTA)
    return db


def columns(db, table):
    return dict(db.sql("SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ?", [table]).fetchall())


@pytest.mark.medium
def test_values_of_adult(raw_adult):
    """Every value that 400 rows have is found, none that fewer than 20 have; in the order of the values."""
    db, types = raw_adult, columns(raw_adult, "adult")
    texts = [name for name, kind in types.items() if kind == "VARCHAR"]
    assert len(texts) >= 8
    for name in texts:
        counts = dict(db.sql(f'SELECT "{name}", count(*) FROM adult WHERE "{name}" IS NOT NULL GROUP BY 1').fetchall())
        found = list(db.discover("adult", name, epsilon=0.2).values)
        assert {value for value, count in counts.items() if count >= 400} <= set(found)
        assert all(counts[value] >= 20 for value in found)
        assert found == sorted(found)
    shown = db.sql("SELECT DISTINCT mechanism, epsilon FROM dp_ledger() WHERE kind = 'charge'").fetchall()
    assert shown == [("discover (values)", 0.2)]


@pytest.mark.medium
def test_bins_of_adult(raw_adult):
    """Edges at the tenths of the ages, as near as whole years can be; few where half the rows are equal.

    The nearest edge is off by half of the rows of one age at most, and by the noise of the sums: 40 counts of 11 rows'
    noise are 72 rows; 0.009 of the rows is six times that.
    """
    found = raw_adult.discover("adult", "age", epsilon=0.5, lower=0, upper=120, bins=10)
    assert (found.origin, found.ticks[0], found.ticks[-1], found.regular) == ("discovered", 0, 121, 10)
    ages = raw_adult.sql("SELECT age FROM adult").fetchnumpy()["age"]
    below = np.searchsorted(np.sort(ages), found.ticks[1:-1]) / len(ages)
    one_age = np.unique(ages, return_counts=True)[1].max() / len(ages)
    assert abs(below - np.arange(1, 10) / 10).max() < one_age / 2 + 0.009
    hours = next(name for name in columns(raw_adult, "adult") if name.startswith("hours"))
    found = raw_adult.discover("adult", hours, epsilon=0.5, lower=0, upper=168, bins=10)
    assert 3 <= found.regular < 10


@pytest.mark.medium
def test_the_same_call_again_is_free_and_stable(raw_adult):
    call = "CALL dp_domain('adult', 'sex', discover := true, epsilon := 0.1)"
    first = raw_adult.sql(call).fetchall()
    before = raw_adult.ledger().to_csv()
    raw_adult.sql("UPDATE adult SET sex = 'someone else'")
    assert raw_adult.sql(call).fetchall() == first
    assert raw_adult.ledger().to_csv() == before
    raw_adult.domain("adult", "sex", values=["x"])
    assert raw_adult.sql(call).fetchall() == first
    assert raw_adult.sql("EXPLAIN " + call.replace("0.1", "0.2").replace("CALL", "FROM")).fetchall()
    assert raw_adult.ledger().to_csv() == before


@pytest.mark.medium
def test_a_table_is_synthesised_after_discovery(db, quick):
    db.sql("CREATE TABLE t AS SELECT 'c' || i % 5 AS a, (i * i % 1000)::INTEGER AS b FROM range(4000) r(i)")
    db.protect("t", epsilon=3.0, delta=DELTA)
    db.discover("t", "a", epsilon=0.5)
    db.discover("t", "b", epsilon=0.5, lower=0, upper=1_000_000, bins=8)
    found = db.sql(f"SELECT DISTINCT a FROM dp_synthesize('t', epsilon := 1.0, {quick}) ORDER BY a").fetchall()
    assert {f"c{i}" for i in range(5)} <= {a for (a,) in found}
    assert db.sql("SELECT epsilon_spent < 3, releases FROM dp_budget()").fetchall() == [(True, 3)]


# --- who is never told ------------------------------------------------------------------------------------------------


@pytest.mark.medium
def test_values_of_single_units_are_never_told(db, monkeypatch):
    """Even with noise that lifts every count over the threshold; two rows of one unit are one unit."""
    monkeypatch.setattr(distributions, "discrete_gaussian", lambda v, n, e=None: np.full(n, 10**9))
    db.sql("CREATE TABLE t AS SELECT 'canary ' || i AS a FROM range(500) r(i)")
    db.sql("INSERT INTO t VALUES ('two'), ('two'), ('Zwei'), ('zwei')")
    db.protect("t", epsilon=3.0, delta=DELTA)
    assert db.discover("t", "a", epsilon=0.1).values == ("two",)
    db.sql(
        "CREATE TABLE u AS SELECT i // 2 AS who, CASE WHEN i < 10 THEN 'own ' || i // 2 ELSE 'all' END AS a FROM range(99) r(i)"
    )
    db.protect("u", epsilon=3.0, delta=DELTA, privacy_unit="who", max_rows=5)
    assert db.discover("u", "a", epsilon=0.1).values == ("all",)


def test_a_collation_does_not_show_one_persons_spelling(db):
    """'ALICE' of one person beside 'alice' of two: GROUP BY of a NOCASE column would show either."""
    db.sql("CREATE TABLE t (a VARCHAR COLLATE NOCASE)")
    db.sql("INSERT INTO t VALUES ('ALICE'), ('alice'), ('alice')")
    db.protect("t", epsilon=3.0, delta=DELTA)
    with pytest.raises(InvalidArgument, match="has a collation"):
        db.discover("t", "a", epsilon=0.1)
    assert db.sql("SELECT epsilon_spent FROM dp_budget()").fetchall() == [(0,)]


DOMAIN = Domain((Attribute("a", "INTEGER", "values", tuple(map(str, range(50)))),))


def told(rows, runs, rho, failure, neighbours=Neighbours.ADD_REMOVE):
    """In how many runs any value is told that only two units have."""
    found = 0
    table = Rows(DOMAIN, rows)
    for run in range(runs):
        curator = Curator(
            table, DOMAIN, neighbours, rho, Journal(), Quiet(), seeded_entropy(f"told {run}"), failure=failure
        )
        found += bool(curator.discover_values("a", rho, failure))
    return found


@pytest.mark.medium
def test_what_a_unit_makes_possible_is_told_with_probability_delta_at_most(monkeypatch):
    """3 values that two rows have, for units of 3 rows; inflated δ′ = 0.1. Broken twins: no 2, no share for each value."""
    rows, rho, failure, runs = [(i,) for i in (1, 2, 3)] * 2, Fraction(1, 200), 0.1, 4000
    units = Neighbours("add_remove", 3)
    known = told(rows, runs, rho, failure, units)
    assert stats.beta.ppf(FALSE_ALARM, known, runs - known + 1) <= failure
    assert known > 0.05 * runs  # not far below: the test has power
    right = discovery_threshold
    for broken in (
        lambda variance, failure, values: right(variance, failure, 1) - 3,
        lambda variance, failure, values: right(variance / 2, failure, values) - 2,
    ):
        monkeypatch.setattr(discovery, "discovery_threshold", broken)
        known = told(rows, runs, rho, failure, units)
        assert stats.beta.ppf(FALSE_ALARM, known, runs - known + 1) > failure


@pytest.mark.medium
def test_noise_follows_from_how_many_values_a_unit_can_have():
    """σ² = c/2ρ + 1/8, 2/2ρ for replace_one; seen through how often a value at the threshold is told: half the time."""
    rho, failure = Fraction(1, 50), 1e-6
    for neighbours, squared in (
        (Neighbours.ADD_REMOVE, 1),
        (Neighbours("add_remove", 4), 4),
        (Neighbours.REPLACE_ONE, 2),
    ):
        least = discovery_threshold(gaussian_variance(rho, squared), failure, neighbours.cell)
        sigma = float(gaussian_variance(rho, squared)) ** 0.5
        for shift, share in ((0, 0.5), (1, stats.norm.cdf(1))):
            count = least + round(shift * sigma)
            known = told([(1,)] * count, 2000, rho, failure, neighbours)
            expected = stats.norm.sf((least - 0.5 - count) / sigma)
            assert abs(expected - share) < 0.1
            assert abs(known - 2000 * expected) < 5.5 * (2000 * expected * (1 - expected)) ** 0.5


# --- δ ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def three(db):
    db.sql(
        "CREATE TABLE t AS SELECT 'a' || i % 3 AS a, 'b' || i % 3 AS b, 'c' || i % 3 AS c, i % 2 = 0 AS d FROM range(3000) r(i)"
    )
    db.protect("t", epsilon=2.0, delta=DELTA)
    return db


def account(db):
    return db.sql("SELECT delta_reserved, delta_spent, rho_budget, gdp_budget FROM dpsql.account").fetchall()[0]


@pytest.mark.medium
def test_half_of_delta_is_kept_from_the_first_discovery_on(three):
    """The sums then keep (ε, δ/2); what the discoveries fail with adds up to δ/2 at most."""
    assert account(three)[:2] == (0.0, 0.0)
    three.discover("t", "a", epsilon=0.2, delta=DELTA / 2)
    reserved, spent, rho, gdp = account(three)
    assert reserved == DELTA / 2
    assert spent == pytest.approx(DELTA / 4, rel=1e-12)
    assert spent >= DELTA / 4
    expected = account_budget(2.0, DELTA - reserved * (1 + 1e-9))  # below δ/2 by more than Σδ′ may be rounded
    assert (rho, gdp) == (int(expected.rho * 2**96), int(expected.gdp * 2**96))
    assert expected.gdp < account_budget(2.0, DELTA).gdp
    three.discover("t", "b", epsilon=0.2, delta=DELTA / 4)
    with pytest.raises(InsufficientBudget, match="give delta := 2.4.*e-07 at most"):
        three.discover("t", "c", epsilon=0.2, delta=DELTA / 2)
    three.discover("t", "c", epsilon=0.2, delta=2.4e-7)
    assert three.sql("SELECT releases FROM dp_budget()").fetchall() == [(3,)]
    assert account(three)[1] <= account(three)[0]


@pytest.mark.medium
def test_after_another_release_it_is_too_late(three):
    """δ is not set aside once an answer was seen; bins need none."""
    three.sql("FROM dp_query('SELECT d, count(*) AS n FROM t GROUP BY d', epsilon := 0.1)").fetchall()
    with pytest.raises(InsufficientBudget, match="had a release before its first discovery"):
        three.discover("t", "a", epsilon=0.2)
    assert account(three)[:2] == (0.0, 0.0)


@pytest.mark.medium
def test_ten_discoveries_by_default_after_bins_or_before(db):
    """A tenth of δ each; a discovery of bins is one too, so δ is kept from it on."""
    db.sql(
        "CREATE TABLE t AS SELECT "
        + ", ".join(f"'v' || i % 2 AS c{n}" for n in range(11))
        + ", i AS x FROM range(1000) r(i)"
    )
    db.protect("t", epsilon=3.0, delta=DELTA)
    db.discover("t", "x", epsilon=0.1, lower=0, upper=1000)
    for n in range(10):
        db.discover("t", f"c{n}", epsilon=0.1)
    with pytest.raises(InsufficientBudget, match="0 of 5e-07 is left"):
        db.discover("t", "c10", epsilon=0.1)
    assert account(db)[1] == pytest.approx(DELTA / 2, rel=1e-12)


@pytest.mark.medium
@pytest.mark.parametrize(
    ("kind", "lower", "upper"), [("DOUBLE", -9e306, 9e306), ("FLOAT", 1.0, 1.000001), ("DOUBLE", 1e-310, 1e-305)]
)
def test_bins_of_odd_ranges(db, kind, lower, upper):
    db.sql(f"CREATE TABLE t AS SELECT {lower}::{kind} AS x FROM range(1000) r(i)")
    db.protect("t", epsilon=900.0, delta=DELTA)
    found = db.discover("t", "x", epsilon=5.0, lower=lower, upper=upper)
    assert all(a < b for a, b in zip(found.ticks, found.ticks[1:], strict=False))
    if kind == "DOUBLE":
        with pytest.raises(duckdb.Error, match="too large or too small to be summed"):
            db.sql("FROM dp_query('SELECT avg(x) AS m FROM t', epsilon := 1)").fetchall()
        assert db.budget().releases[0] == 1


@pytest.mark.medium
def test_threads_share_what_is_kept(db):
    """12 columns at once, δ for 5: exactly 5 are told, and what is charged is for those."""
    db.sql(
        "CREATE TABLE t AS SELECT " + ", ".join(f"'v' || i % 2 AS c{n}" for n in range(12)) + " FROM range(1000) r(i)"
    )
    db.protect("t", epsilon=3.0, delta=DELTA)
    outcomes = []
    connections = [db.connection.cursor() for _ in range(12)]

    def work(number: int) -> None:
        call = f"FROM dp_domain('t', 'c{number}', discover := true, epsilon := 0.1, delta := {DELTA / 5.001})"
        try:
            connections[number].execute(call).fetchall()
            outcomes.append("told")
        except duckdb.Error as error:
            outcomes.append("refused" if "exceeds what t keeps for that" in str(error) else str(error))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["refused"] * 7 + ["told"] * 5
    assert db.sql("SELECT count(*) FROM dp_ledger() WHERE kind = 'charge'").fetchall() == [(5,)]
    assert account(db)[1] <= account(db)[0]


# --- faults and refusals ----------------------------------------------------------------------------------------------


@pytest.mark.medium
@pytest.mark.parametrize("name", ["_values", "declare_values"])
def test_a_discovery_that_is_killed_goes_on(tmp_path, name):
    """kill -9 between the charge and the record: charged once, and what was journalled stays."""
    path = tmp_path / "bank.duckdb"
    call = "FROM dp_domain('t', 'a', discover := true, epsilon := 0.5)"
    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE t AS SELECT 'a' || i % 3 AS a FROM range(3000) r(i)")
        db.protect("t", epsilon=2.0, delta=DELTA)
    kill_in("dpsql.release.discovery", name, path, call)
    with dpsql.connect(path) as db:
        assert db.sql("SELECT state IN ('reserved', 'measured') FROM dp_releases()").fetchall() == [(True,)]
        spent = account(db)
        assert db.sql(call).fetchall()[0][5][:3] == ["a0", "a1", "a2"]
        assert account(db) == spent
        assert db.sql("SELECT state FROM dp_releases()").fetchall() == [("published",)]


def test_nothing_common_enough(db):
    """The charge is kept, the reason told; the same call again costs nothing more."""
    db.sql("CREATE TABLE t AS SELECT 'x' || i % 500 AS a FROM range(1000) r(i)")
    db.protect("t", epsilon=2.0, delta=DELTA)
    for _ in range(2):
        with pytest.raises(Exception, match="no value of column 'a' is common enough"):
            db.discover("t", "a", epsilon=0.1)
    assert db.sql("SELECT releases FROM dp_budget()").fetchall() == [(1,)]


@pytest.mark.medium
@pytest.mark.parametrize(
    ("kind", "lower", "upper", "value"),
    [
        ("DOUBLE", 0, 1e9, "exp(i % 200 / 10.0)"),
        ("FLOAT", -1, 1, "sin(i)"),
        ("DECIMAL(9, 2)", 0, 50_000, "i * i % 100000 / 100"),
        ("DATE", "1900-01-01", "2100-01-01", "DATE '2020-01-01' + (i % 400)::INTEGER"),
        ("TIMESTAMP", "2000-01-01", "2040-01-01", "TIMESTAMP '2020-01-01' + to_minutes(i * 7 % 100000)"),
        ("TINYINT", -5, 60, "i % 50"),
        ("BIGINT", 0, 2**40, "i * i * i"),
    ],
)
@pytest.mark.parametrize("rows", [0, 3000])
def test_bins_of_every_type(db, kind, lower, upper, value, rows):
    """Edges increase within the bounds, both included; each bin of many rows holds some; an empty table gives some too."""
    db.sql(f"CREATE TABLE t AS SELECT ({value})::{kind} AS a FROM range({rows}) r(i)")
    db.protect("t", epsilon=5.0, delta=DELTA)
    found = db.discover("t", "a", epsilon=2.0, lower=lower, upper=upper, bins=6)
    declared = Attribute(**{**vars(found), "origin": "declared"})
    db.domain("t", "a", lower=lower, upper=upper, bins=1)
    assert 1 <= found.regular <= 6
    assert all(a < b for a, b in zip(found.ticks, found.ticks[1:], strict=False))
    assert found.size == declared.size
    db.discover("t", "a", epsilon=2.0, lower=lower, upper=upper, bins=6)
    counts = db.sql(
        "SELECT n FROM dp_query('SELECT a IS NULL AS k, count(*) AS n FROM t GROUP BY k', epsilon := 2)"
    ).fetchall()
    assert sum(n for (n,) in counts) == pytest.approx(rows, abs=60)
    if rows:
        assert found.regular >= 4


REFUSED = {
    "discover := true": "say epsilon too",
    "epsilon := 0.1": "a declaration costs nothing",
    "discover := true, epsilon := 0": "epsilon is 0",
    "discover := true, epsilon := 0.1, delta := 2": "delta is 2",
    "discover := true, epsilon := 0.1, \"values\" := ['a']": "leave one of them out",
    "discover := true, epsilon := 0.1, exclude := true": "leave one of them out",
    "discover := true, epsilon := 0.1, bins := 3": "give lower and upper too",
    "discover := true, epsilon := 0.1, lower := 3": "lower and upper go together",
    "discover := true, epsilon := 0.1, lower := 3, upper := 5": "has no bins",
    "discover := true, epsilon := 99": "this asks for",
}


@pytest.mark.parametrize("arguments", REFUSED)
def test_refused_before_any_charge(three, arguments):
    with pytest.raises(duckdb.Error, match=REFUSED[arguments]):
        three.sql(f"FROM dp_domain('t', 'a', {arguments})").fetchall()
    assert three.sql("SELECT count(*) FROM dp_ledger() WHERE kind = 'charge'").fetchall() == [(0,)]


def test_columns_that_cannot_be_discovered(db):
    db.sql("CREATE TABLE t AS SELECT i AS who, [i] AS l, i % 2 = 0 AS b, (i % 3)::VARCHAR AS a FROM range(10) r(i)")
    db.protect("t", epsilon=2.0, delta=DELTA, privacy_unit="who", max_rows=2)
    for name, reason in {
        "who": "is the privacy unit",
        "l": "can have no domain",
        "b": "tells its values",
        "x": "has no column",
    }.items():
        with pytest.raises(duckdb.Error, match=reason):
            db.sql(f"FROM dp_domain('t', '{name}', discover := true, epsilon := 0.1)").fetchall()
    db.sql("CREATE TABLE open AS SELECT 'a' AS a")
    with pytest.raises(duckdb.Error, match="is not protected"):
        db.sql("FROM dp_domain('open', 'a', discover := true, epsilon := 0.1)").fetchall()
