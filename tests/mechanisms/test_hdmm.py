"""HDMM with Laplace noise, and with a graphical model."""

from __future__ import annotations

import itertools
from importlib.util import find_spec

import numpy as np
import pytest

from dpsql.core.domain import Attribute, Domain
from dpsql.fitting.laplace_strategy import best_laplace_strategy
from dpsql.fitting.least_squares import least_squares
from dpsql.fitting.target import Target

needs_mbi = pytest.mark.skipif(find_spec("mbi") is None, reason="the package mbi is not installed")
SIZES = (2, 3, 4, 5)
DOMAIN = Domain(
    tuple(Attribute(f"c{i}", "INTEGER", "values", tuple(map(str, range(size)))) for i, size in enumerate(SIZES))
)
PAIRS = list(itertools.combinations(DOMAIN.names, 2))
CANDIDATES = [part for order in range(1, 4) for part in itertools.combinations(DOMAIN.names, order)]


def expected(shares: np.ndarray) -> float:
    """The expected squared error of all pairs, by the least-squares estimate itself, of Laplace noise of these shares."""
    used = [
        Target(clique, DOMAIN.shape(clique), np.zeros(DOMAIN.size(clique)), 2 / share**2)
        for clique, share in zip(CANDIDATES, shares, strict=True)
        if share > 0
    ]
    estimate = least_squares(DOMAIN, used)
    return sum(estimate.variance(pair) * DOMAIN.size(pair) for pair in PAIRS)


def test_no_strategy_is_better():
    """Than the one that is found: not the workload itself, not the Gaussian one's, not 300 random ones near and far."""
    found = best_laplace_strategy(DOMAIN, PAIRS, CANDIDATES)
    assert found.sum() == pytest.approx(1)
    least = expected(found)
    random = np.random.default_rng(4)
    others = [np.array([float(clique in PAIRS) for clique in CANDIDATES])]
    for spread in (0.01, 0.1, 1.0):
        others += [np.abs(found + random.normal(0, spread * found.max(), len(found))) for _ in range(60)]
    others += [random.dirichlet(np.full(len(CANDIDATES), 0.3)) + 1e-6 for _ in range(120)]
    assert min(expected(other / other.sum()) for other in others) > least * (1 - 1e-3)
    for one, other in itertools.permutations(range(len(found)), 2):  # nor does a small part of a share move
        moved = found.copy()
        moved[one] -= found[one] / 50
        moved[other] += found[one] / 50
        assert expected(moved) > least * (1 - 1e-5)
    assert expected(others[0] / others[0].sum()) > 1.02 * least  # answering the workload itself is a broken strategy


@pytest.fixture
def pure(db):
    db.sql("CREATE TABLE t AS SELECT i % 2 AS a, i % 3 AS b, (i % 2 + i % 3) AS c FROM range(3000) r(i)")
    db.protect("t", epsilon=10.0, delta=0)
    for name, top in (("a", 1), ("b", 2), ("c", 3)):
        db.domain("t", name, lower=0, upper=top, bins=top + 1, nulls=False)
    return db


@pytest.mark.medium
def test_laplace_noise_is_pure_and_its_charge_is_spent(pure):
    """In an account of δ = 0; each marginal's noise is that of its part of ε, and the parts add up to it."""
    release = pure.synthesize("t", 2.0, mechanism="hdmm", noise="laplace", relaxed_rows=32, steps=50)
    assert "pure" in release.entry.guarantee or "2-DP" in release.entry.guarantee.replace("(2, 0)", "2-DP")
    measured = release.measurements.drop_duplicates("measurement")
    assert set(measured.noise) == {"laplace"}
    assert sum(1 / (one.stddev / np.sqrt(2)) for one in measured.itertuples()) == pytest.approx(2.0, rel=0.01)
    planned = pure.plan("t", 2.0, mechanism="hdmm", noise="laplace")
    assert sorted(planned.stddev.round(3)) == sorted(measured.stddev.round(3))
    assert pure.sql("SELECT epsilon_spent FROM dp_budget()").fetchone()[0] == pytest.approx(2.0)


@needs_mbi
@pytest.mark.medium
def test_a_graphical_model_of_what_it_measures(pure):
    """HDMM + PGM, through SQL: a and b are independent, c is their sum."""
    how = "mechanism := 'hdmm', noise := 'laplace', reconstruct := 'pgm', workload := 'all 2-way'"
    pure.sql(f"CREATE TABLE s AS FROM dp_synthesize('t', epsilon := 5.0, {how})")
    release = pure.synthesize("t", 5.0, mechanism="hdmm", noise="laplace", reconstruct="pgm", workload="all 2-way")
    assert len(pure.releases()) == 1
    assert release.entry.report["fit"] == "graphical model"
    wrong, rows = pure.sql("SELECT count(*) FILTER (c <> a + b), count(*) FROM s").fetchone()
    assert wrong < 0.05 * rows
    assert abs(rows - 3000) < 60


@needs_mbi
def test_a_tree_that_is_too_large_is_refused(db):
    db.sql(f"CREATE TABLE t AS SELECT {', '.join(f'i % 50 AS c{k}' for k in range(7))} FROM range(100) r(i)")
    db.protect("t", epsilon=3.0, delta=1e-6)
    for k in range(7):
        db.domain("t", f"c{k}", lower=0, upper=49, bins=50, nulls=False)
    with pytest.raises(Exception, match="the junction tree of the .* marginals .* megabytes, model_mb is 20"):
        db.synthesize("t", 1.0, mechanism="hdmm", reconstruct="pgm", workload="all 2-way")
    assert db.sql("SELECT epsilon_spent FROM dp_budget()").fetchone() == (0.0,)


@needs_mbi
@pytest.mark.medium
def test_mst_merges_rare_values(db):
    """Values that noise hides come out evenly, those that stand out as often as they are; by default as before."""
    db.sql(
        "CREATE TABLE t AS SELECT if(i < 3900, i % 3, 3 + i % 27) AS a, if(i < 3900, i % 3, 0) AS b FROM range(4000) r(i)"
    )
    db.protect("t", epsilon=30.0, delta=1e-6)
    for name, top in (("a", 29), ("b", 2)):
        db.domain("t", name, lower=0, upper=top, bins=top + 1, nulls=False)
    how = {"mechanism": "pgm", "selection": "mst", "steps": 200}
    merged = db.synthesize("t", 0.5, merge_rare=True, **how)
    rare = merged.entry.report["merged"]["a"]
    assert 20 <= rare <= 28
    counts = merged.df().groupby("a").size().reindex(range(30), fill_value=0)
    assert all(abs(counts[value] - 1300) < 150 for value in range(3))
    assert counts[3:].sum() < 400
    assert (counts[3:] > 0).sum() > 12
    plain = db.synthesize("t", 0.5, **how)
    assert "merged" not in plain.entry.report
    with pytest.raises(Exception, match="merge_rare is true, but selection is 'workload'"):
        db.synthesize("t", 0.5, mechanism="pgm", merge_rare=True)
