"""Rows outside a declared domain, and NULLs: every marginal holds every row, and no noise becomes a NULL."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dpsql
from dpsql.api.cli import main
from dpsql.core.domain import Attribute, Domain
from dpsql.core.marginal import Measurement
from dpsql.evidence.occupied import Occupied, occupied

QUICK = {"relaxed_rows": 64, "steps": 60}
ROWS = 40_000


@pytest.fixture
def mixed(db):
    """Of `a` one value of four is declared; `b` has no NULL, though it may; a tenth of `c` is NULL."""
    db.sql(
        f"CREATE TABLE t AS SELECT (i % 4)::INT AS a, i * 7 % 5 AS b, CASE WHEN i % 10 > 0 THEN i % 3 END AS c "
        f"FROM range({ROWS}) r(i)"
    )
    db.protect("t", epsilon=30.0, delta=1e-9)
    db.domain("t", "a", values=[0])
    db.domain("t", "b", lower=0, upper=4)
    db.domain("t", "c", lower=0, upper=2)
    return db


@pytest.mark.medium
@pytest.mark.parametrize("mechanism", ["projection", "direct", "hdmm"])
def test_the_table_has_the_measured_rows_and_shares(mixed, mechanism):
    """σ of a count is below 40 rows at ε = 1 here: 400 are ten deviations."""
    release = mixed.synthesize("t", 1.0, mechanism=mechanism, **QUICK)
    table = release.df()
    assert abs(len(table) - ROWS) < 400
    assert abs(table["a"].isna().sum() - 3 * ROWS / 4) < 1500  # the fit is a quick one
    assert table["b"].isna().sum() < 400  # none but in 3 of 100,000 releases, and then as many as noise
    assert abs(table["c"].isna().sum() - ROWS / 10) < 1500
    shares = release.outside
    assert abs(shares.pop("a") - 0.75) < 0.02
    assert all(share < 0.01 for share in shares.values())


@pytest.mark.medium
def test_all_marginals_have_the_same_total(mixed):
    """Each whole marginal adds up to all rows: σ·√cells of the largest one is 300."""
    mixed.synthesize("t", 1.0, **QUICK)
    sums = mixed.sql(
        "SELECT measurement, sum(value), any_value(stddev) * sqrt(count(*)) FROM dp_measurements(2) GROUP BY 1"
    )
    found = sums.fetchall()
    assert len(found) > 5
    for _, total, stddev in found:
        assert abs(total - ROWS) < 8 * stddev
    labels = {cell for (cell,) in mixed.sql("SELECT cell[1] FROM dp_measurements(2) WHERE columns = ['a']").fetchall()}
    assert labels == {"0", "NULL", "outside the domain"}


@pytest.mark.medium
def test_how_much_lies_outside_is_said(mixed, tmp_path, capsys):
    before = mixed.sql("SELECT outside FROM dp_domain('t', 'a', \"values\" := [0])").fetchall()
    assert before == [(None,)]
    release = mixed.synthesize("t", 1.0, **QUICK)
    assert "about 75% of the rows have a value of 'a' outside its declared domain" in repr(release)
    ((share,),) = mixed.sql("SELECT outside FROM dp_domain('t', 'a', \"values\" := [0])").fetchall()
    assert share == release.outside["a"]
    assert mixed.sql("SELECT outside < 0.01 FROM dp_domain('t', 'b', lower := 0, upper := 4)").fetchall() == [(True,)]
    assert mixed.sql("SELECT outside FROM dp_domain('t', 'a', \"values\" := [0, 1])").fetchall() == [(None,)]
    path = tmp_path / "t.duckdb"
    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE t AS SELECT i % 4 AS a FROM range(1000) r(i)")
        db.protect("t", epsilon=3.0, delta=1e-9)
        db.domain("t", "a", values=[0])
    command = ["synthesize", str(path), "t", "--epsilon", "1", "--output", str(tmp_path / "t.csv")]
    assert main([*command, "--option", "steps=20", "--option", "relaxed_rows=16"]) == 0
    assert "warning: about 7" in capsys.readouterr().out


@pytest.mark.medium
def test_values_outside_become_other_or_null(db):
    """`nulls := false` is the owner's word; a NULL that is there all the same is a value outside."""
    db.sql(
        "CREATE TABLE t AS SELECT CASE WHEN i % 2 = 0 THEN 'x' WHEN i % 3 = 0 THEN 'q' END AS a, i % 2 = 0 AS b FROM range(6000) r(i)"
    )
    db.sql("CREATE TABLE u AS FROM t")
    for table, rest in (("t", {"other": "else"}), ("u", {})):
        db.protect(table, epsilon=30.0, delta=1e-9)
        db.domain(table, "a", values=["x"], nulls=False, **rest)
    others = db.synthesize("t", 5.0, **QUICK).df()["a"].value_counts(dropna=False)
    assert set(others.index) == {"x", "else"}
    assert abs(others["else"] - 3000) < 300
    release = db.synthesize("u", 5.0, **QUICK)
    assert abs(release.df()["a"].isna().sum() - 3000) < 300
    assert 0.4 < release.outside["a"] < 0.6


@pytest.mark.medium
def test_free_answers_know_the_declared_groups_only(mixed):
    mixed.synthesize("t", 5.0, **QUICK)
    rows = mixed.sql("SELECT b, n FROM dp_query('SELECT b, count(*) AS n FROM t GROUP BY b', epsilon := 0)").fetchall()
    assert [b for b, _ in rows if b is not None] == [0, 1, 2, 3, 4]
    assert all(abs(n - ROWS / 5) < 400 for b, n in rows if b is not None)
    ((n,),) = mixed.sql("SELECT n FROM dp_query('SELECT count(*) AS n FROM t WHERE a = 0', epsilon := 0)").fetchall()
    assert abs(n - ROWS / 4) < 400


@pytest.mark.medium
def test_a_constraint_holds_of_every_row(mixed):
    mixed.constraint("t", "a IS NOT NULL OR b = 0")
    table = mixed.synthesize("t", 1.0, **QUICK).df()
    assert table["a"].isna().any()
    assert (table["b"][table["a"].isna()] == 0).all()


DOMAIN = Domain(
    (
        Attribute("a", "INTEGER", "values", ("0", "1"), nullable=True, outside=True),
        Attribute("b", "INTEGER", "values", ("0", "1", "2"), outside=True),
    )
)


def measured(generator, *, nulls: int, outside: int, stddev: int = 20) -> list[Measurement]:
    """Noisy marginals of a and of (a, b), of a table of so many rows without a value of `a`, or with a strange one."""
    one = np.array([500, 300, nulls, outside])
    two = np.zeros((4, 4))
    two[:, 0] = one
    found = []
    for clique, exact in ((("a",), one), (("a", "b"), two)):
        noise = np.rint(generator.normal(0, stddev, exact.size)).astype(np.int64)
        values = exact.ravel().astype(np.int64) + noise
        found.append(Measurement(clique, exact.shape, values, stddev**2, "gaussian", 1))
    return found


def test_what_noise_hides_is_left_out():
    """Of 2,000 tables without a NULL or a strange value at most 5 keep a code: 0.06 are expected, 6 in 10⁻¹⁰ of tests."""
    generator = np.random.default_rng(7)
    kept = [occupied(DOMAIN, measured(generator, nulls=0, outside=0)) for _ in range(2000)]
    assert sum(held.domain.by_name["a"].nullable for held in kept) <= 5
    assert sum(held.domain.by_name["a"].outside for held in kept) <= 5
    assert sum(held.domain.by_name["b"].outside for held in kept) <= 5


def test_what_stands_out_of_noise_is_kept():
    """200 rows are eleven deviations of what two marginals tell together, seven above the limit."""
    generator = np.random.default_rng(8)
    for _ in range(500):
        held = occupied(DOMAIN, measured(generator, nulls=200, outside=200))
        assert held.domain.by_name["a"].nullable
        assert held.domain.by_name["a"].outside
        assert abs(held.outside["a"] - 200 / 1200) < 0.15


def test_a_smaller_marginal_is_the_part_that_is_left():
    generator = np.random.default_rng(9)
    whole = measured(generator, nulls=0, outside=300)
    held = Occupied(DOMAIN, Domain((replace(DOMAIN.attributes[0], nullable=False), DOMAIN.attributes[1].inner)), {})
    assert held.codes["a"].tolist() == [0, 1, 3]
    assert held.codes["b"].tolist() == [0, 1, 2]
    part = held.measurements(whole)[1]

    class Fitted:
        total = 800.0

        def project(self, clique):
            return np.arange(held.domain.size(clique), dtype=np.float32)

    widened = held.model(Fitted())
    assert widened.project(()).tolist() == [0.0]  # the number of rows, which no column narrows
    assert widened.project(("a",)).tolist() == [0.0, 1.0, 0.0, 2.0]
    assert part.shape == (3, 3)
    assert part.values.tolist() == whole[1].values.reshape(4, 4)[[0, 1, 3]][:, :3].ravel().tolist()


@pytest.mark.medium
def test_a_query_shows_no_group_of_null_that_is_noise(mixed):
    """`b` may hold NULL and holds none: |noise| > 3σ in 0.3 % of queries, in all of three in 2·10⁻⁸."""
    call = "SELECT b, n FROM dp_query('SELECT b, count(*) AS n FROM t GROUP BY b', epsilon := 0.5, release := '{}')"
    found = [mixed.sql(call.format(number)).fetchall() for number in range(3)]
    assert any([b for b, _ in rows] == [0, 1, 2, 3, 4] for rows in found)
    call = "SELECT c, n FROM dp_query('SELECT c, count(*) AS n FROM t GROUP BY c', epsilon := 0.5)"
    rows = dict(mixed.sql(call).fetchall())
    assert abs(rows[None] - ROWS / 10) < 200


@pytest.mark.medium
def test_what_is_told_to_lie_outside_does(db):
    """The fit leaves out no code of which the report tells, also where only all measurements together show it."""
    db.sql("CREATE TABLE t AS SELECT i % 5 AS a, i % 3 AS b, i % 7 AS c FROM range(300) r(i)")
    db.protect("t", epsilon=30.0, delta=1e-6)
    for column, upper in (("a", 4), ("b", 2), ("c", 5)):
        db.domain("t", column, lower=0, upper=upper)
    for number in range(6):
        release = db.synthesize("t", 1.0, release=str(number), steps=20)
        found = db.sql("SELECT count(*) FILTER (WHERE c IS NULL) FROM release").fetchall()[0][0]
        assert (found > 0) == ("c" in release.outside)
        assert "c" in release.outside or number == 0  # from the second on the ones before tell, too
