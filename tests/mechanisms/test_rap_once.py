"""RAP of many cells at once, T = 1, and with T and K from public facts: through SQL and Python."""

from __future__ import annotations

import math

import duckdb
import numpy as np
import pytest

from tests.conftest import settle

QUICK = {"mechanism": "rap", "relaxed_rows": 8, "steps": 5}
TRIPLE = "SELECT a, b, c, count(*) FROM cube GROUP BY a, b, c"
SIDE = 30
CELLS = (SIDE + 1) ** 3  # of three columns, with what lies outside: more than are listed one by one


@pytest.fixture
def cube(db):
    """Three columns that are equal in half of 4,000 rows, and a fourth that has nothing to do with them."""
    db.sql(
        f"CREATE TABLE cube AS SELECT a, if(i % 2 = 0, a, (7 * i) % {SIDE}) b, if(i % 2 = 0, a, (11 * i) % {SIDE}) c, "
        f"i % 2 AS d FROM (SELECT i, (13 * i + i // 7) % {SIDE} AS a FROM range(4000) r(i))"
    )
    db.protect("cube", epsilon=500.0, delta=1e-6, neighbours="replace_one")
    for name in "abc":
        db.domain("cube", name, lower=0, upper=SIDE - 1, bins=SIDE, nulls=False)
    db.domain("cube", "d", lower=0, upper=1, bins=2, nulls=False)
    return db


@pytest.mark.medium
def test_every_cell_has_the_noise_of_its_own_price(cube):
    """σ = √(m/2ρ) in each of m = 29,791 cells, as in the paper; of whole marginals √(2·1/2ρ)."""
    how = {"workload": TRIPLE, "rounds": 1, "start": "uniform", **QUICK}
    exact = np.zeros((SIDE + 1,) * 3)
    for a, b, c in cube.sql("SELECT a, b, c FROM cube").fetchall():
        exact[a, b, c] += 1
    for queries, change in (("cells", 1 / CELLS), ("marginals", 1 / 2)):
        plan = cube.plan("cube", 2.0, queries=queries, **how)
        (row,) = (row for row in plan.itertuples() if list(row.marginal) == ["a", "b", "c"])
        assert row.stddev == pytest.approx(math.sqrt(1 / (2 * plan.rho.sum() * change)), rel=0.01)
        release = cube.synthesize("cube", 2.0, queries=queries, **how)
        found = release.measurements
        noise = found["value"].to_numpy()[1:] - exact.ravel()
        assert len(noise) == CELLS
        assert noise.std() == pytest.approx(row.stddev, rel=0.03)
        assert release.entry.report["cells"] == CELLS
        assert release.df().shape == (4000, 4)


@pytest.mark.medium
def test_a_projection_of_less_noise_knows_more(cube):
    """How often a and b are equal: half of the time; of independent columns, or of noise alone, 1 in 30."""
    equal = {}
    for queries in ("marginals", "cells"):
        how = {"workload": TRIPLE, "rounds": 1, "queries": queries, "relaxed_rows": 100, "steps": 300, "reuse": False}
        frame = cube.synthesize("cube", 8.0, mechanism="rap", **how).df()
        equal[queries] = (frame.a == frame.b).mean()
    assert equal["cells"] < 0.08 < 1.5 * 0.08 < equal["marginals"] < 0.6


def test_the_plan_says_what_single_cells_cost(cube):
    how = {"workload": TRIPLE, "rounds": 1}
    said = [row.note for row in cube.plan("cube", 2.0, mechanism="rap", assume_rows=4000, **how).itertuples()]
    (noise,) = (note for note in said if "queries := 'marginals'" in note)
    cells, whole = (float(word) for word in noise.replace(",", "").split() if word.startswith("0") or "." in word[:-1])
    assert cells / whole == pytest.approx(math.sqrt(CELLS / 2), rel=0.01)
    plan = cube.plan("cube", 2.0, mechanism="rap", queries="marginals", **how)
    assert not any("queries := 'marginals'" in note for note in plan.note)
    more = cube.plan("cube", 2.0, mechanism="rap", steps=20_000, **how)
    assert more.seconds.iloc[0] > 2 * plan.seconds.iloc[0]


def test_fewer_cells_are_listed_as_before(cube):
    """A request that an earlier version could make asks the same question, so that its journal goes on."""
    release = cube.synthesize(
        "cube", 2.0, workload="SELECT a, d, count(*) FROM cube GROUP BY a, d", rounds=1, start="uniform", **QUICK
    )
    assert len(release.measurements) == 1 + (SIDE + 1) * 3  # the number of rows is the first
    assert release.entry.report.keys() >= {"cells", "steps"}
    assert "pull" not in release.entry.report


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("rounds := 3, queries := 'marginals'", "queries is 'marginals', but rounds is 3"),
        ("rounds := 1, queries := 'rows'", "queries is 'rows'"),
        ("rounds := 'some'", "rounds is 'some'"),
        ("queries_per_round := 'some'", "queries_per_round is 'some'"),
        ("rounds := 1, workload := 'SELECT count(*) FROM cube GROUP BY at_least(2, a, b, c)'", "at most 20000"),
    ],
)
def test_bad_options_cost_nothing(cube, options, words):
    workload = "" if "workload" in options else ", workload := 'all 3-way'"
    with pytest.raises(Exception, match=words):
        cube.sql(f"FROM dp_synthesize('cube', epsilon := 1.0, mechanism := 'rap', {options}{workload})").fetchall()
    assert cube.sql("SELECT epsilon_spent FROM dp_budget()").fetchone() == (0.0,)


def asked(db, table: str, epsilon: float) -> int:
    """How many cells a release measured."""
    release = db.synthesize(
        table, epsilon, rounds="auto", queries_per_round="auto", start="uniform", workload="all 2-way", **QUICK
    )
    return len(release.measurements) - 1  # the number of rows


@pytest.mark.medium
def test_rounds_follow_from_public_facts(cube):
    """A table of other rows, but as many, is asked as often; more ε is asked more."""
    cube.sql("CREATE TABLE other AS SELECT 0 AS a, 0 AS b, 0 AS c, 0 AS d FROM cube")
    settle(cube, "other")
    cube.protect("other", epsilon=500.0, delta=1e-6, neighbours="replace_one")
    for name, side in (("a", SIDE), ("b", SIDE), ("c", SIDE), ("d", 2)):
        cube.domain("other", name, lower=0, upper=side - 1, bins=side, nulls=False)
    little, much = (asked(cube, "cube", epsilon) for epsilon in (1.0, 10.0))
    assert little < much
    assert [asked(cube, "other", epsilon) for epsilon in (1.0, 10.0)] == [little, much]
    how = {"rounds": "auto", "queries_per_round": "auto", "workload": "all 2-way", "start": "uniform", **QUICK}
    more, fewer = (int(cube.plan("cube", 10.0, assume_rows=rows, **how).cells.max()) for rows in (4000, 400))
    assert fewer < more == much


@pytest.mark.parametrize("call", ["dp_synthesize", "dp_plan"])
def test_more_cells_than_can_be_held_are_refused_before_the_charge(db, call):
    db.sql("CREATE TABLE wide AS SELECT i % 250 AS a, i % 240 AS b, i % 230 AS c FROM range(500) r(i)")
    db.protect("wide", epsilon=3.0, delta=1e-6)
    for name in "abc":
        db.domain("wide", name, lower=0, upper=249, bins=250, nulls=False)
    how = "epsilon := 1.0, workload := 'all 3-way', mechanism := 'rap', rounds := 1"
    with pytest.raises(duckdb.Error, match=r"has 1\.\d+e\+07 cells, .* give rounds and queries_per_round"):
        db.sql(f"FROM {call}('wide', {how})")
    assert db.budget().epsilon_spent.tolist() == [0.0]
