"""Priors whose rows do not reach what was measured: said before and after, and what reaches farther."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from dpsql.core.domain import Attribute, Domain
from dpsql.evidence.prior_reach import reach_report
from dpsql.fitting.rows.iterative_estimation import Partial, update
from dpsql.fitting.rows.two_stages import two_stages
from dpsql.fitting.target import Target
from dpsql.runtime.progress import Quiet

from .test_ide import kl, least_entropy, one_hot

PRIORS = {
    "good": "SELECT ward, ill, age FROM visits WHERE i % 5 = 0",
    "constant": "SELECT 0 AS ward, false AS ill, 0 AS age",
}


@pytest.fixture
def visits(db):
    """3,000 rows whose three columns depend on each other, a public fifth of them, and a public table of one row."""
    db.sql(
        "CREATE TABLE visits AS SELECT i, i % 7 AS ward, i % 7 < 3 AS ill, (i % 7) // 2 + i % 3 AS age FROM range(3000) r(i)"
    )
    for name, query in PRIORS.items():
        db.sql(f"CREATE TABLE {name} AS {query}")
    db.protect("visits", epsilon=100.0, delta=1e-6)
    db.domain("visits", "i", exclude=True)
    for name, top in (("ward", 6), ("age", 5)):
        db.domain("visits", name, lower=0, upper=top, bins=top + 1, nulls=False)
    return db


def error(db, release) -> float:
    """The mean L1 error of the pairs of columns."""
    frame, truth, found = release.df(), db.sql("FROM visits").df(), []
    for pair in itertools.combinations(["ward", "ill", "age"], 2):
        p, q = (table.groupby(list(pair)).size() / len(table) for table in (frame, truth))
        found.append(p.sub(q, fill_value=0).abs().sum())
    return float(np.mean(found))


@pytest.mark.medium
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mechanism": "ide"}, "no row of the prior lies where about"),
        ({"mechanism": "ide", "region": "ill"}, "no row of the prior lies where about"),
        ({"mechanism": "ide", "method": "exact"}, "no row of the prior lies where about"),
        ({"mechanism": "pmwpub"}, "no row of the prior lies where about"),
        ({"mechanism": "pmwpub", "faithful": True}, "of the prior"),
    ],
)
def test_a_prior_of_one_row_is_said_to_reach_nothing(visits, options, words):
    """And one that has the rows that occur is not."""
    short = visits.synthesize("visits", 5.0, prior="constant", **options)
    assert any(words in one and "give a prior that has some" in one for one in short.warnings)
    assert words in repr(short)
    far = visits.synthesize("visits", 5.0, prior="good", **options)
    assert not any("of the prior" in one for one in far.warnings)
    assert error(visits, short) > 1.0 > 5 * error(visits, far)


def test_noise_alone_is_no_warning():
    """Cells that are empty, with noise of several hundredths of the rows, are not missed; with 300 rows in them they are."""
    domain = Domain((Attribute("a", "INTEGER", "values", tuple(map(str, range(100)))),))
    codes = np.arange(50)[:, None]
    for seed, (share, said) in itertools.product(range(10), ((0.0, False), (0.3, True))):
        noise = np.random.default_rng(seed).normal(0, 5, 100)
        values = np.concatenate([np.full(50, 20.0 * (1 - share)), np.full(50, 20.0 * share)]) + noise
        target = Target(("a",), (100,), values, 25.0)
        report = reach_report(domain, codes, lambda _: np.repeat([0.02, 0.0], 50), [target], 1000.0, "mend it")
        assert ("warning" in report) is said


def test_the_plan_says_which_values_a_prior_lacks(visits):
    """Before anything is charged, from public rows: with a private column of other values it says the same."""
    notes = list(visits.plan("visits", 1.0, mechanism="ide", prior="constant").note)
    assert any(
        "the prior has no row with ward = [1, 2), [2, 3)" in note and "reach := 'cells'" in note for note in notes
    )
    assert any(re.search(r"has 1 different row, in \d of the \d+ cells", note) for note in notes)
    assert any("KL(q‖prior) is at most 0 nats" in note for note in notes)
    visits.sql("UPDATE visits SET ward = 0, age = 0, ill = false")
    assert list(visits.plan("visits", 1.0, mechanism="ide", prior="constant").note) == notes
    good = list(visits.plan("visits", 1.0, mechanism="pmwpub", prior="good").note)
    assert not any("has no row with ward" in note for note in good)
    assert visits.sql("SELECT epsilon_spent FROM dp_budget()").fetchone() == (0.0,)


@pytest.mark.medium
def test_the_distance_from_a_prior_that_lacks_columns_is_within_its_bound(db):
    """Rows that stand for one row of the prior are lighter: the bound of the prior's own weights, 0, is the broken twin."""
    db.sql(
        "CREATE TABLE z AS SELECT 0 AS a, CASE WHEN i % 10 < 8 THEN 0 ELSE i % 7 END AS b, "
        "CASE WHEN i % 10 < 8 THEN 3 ELSE i % 4 END AS c FROM range(20000) r(i)"
    )
    db.sql("CREATE TABLE thin AS SELECT 0 AS a")
    db.protect("z", epsilon=10.0, delta=1e-6)
    for name, top in (("a", 2), ("b", 6), ("c", 3)):
        db.domain("z", name, lower=0, upper=top, nulls=False)
    how = {"mechanism": "ide", "prior": "thin", "workload": "all 1-way", "copies": 100}
    (said,) = [note for note in db.plan("z", 1.0, **how).note if "KL(q‖prior)" in note]
    bound = float(re.search(r"at most (\S+) nats", said)[1])
    assert 1 < db.synthesize("z", 1.0, **how).entry.report["distance"] <= bound == pytest.approx(np.log(100), rel=0.01)
    grouped = db.plan("z", 1.0, mechanism="ide", prior="thin", workload="all 1-way", group_by=["a"])
    assert not any("KL(q‖prior)" in note for note in grouped.note), "releases by group say no distance"


@pytest.mark.medium
@pytest.mark.parametrize("reach", ["cells", "domain"])
def test_rows_beyond_the_prior(visits, reach):
    """Through SQL: with a prior of one row the synthetic table is near all the same, and says how much is beyond it."""
    sql = f"FROM dp_synthesize('visits', epsilon := 5.0, mechanism := 'ide', prior := 'constant', reach := '{reach}')"
    visits.sql(sql).fetchall()
    release = visits.synthesize("visits", 5.0, mechanism="ide", prior="constant", reach=reach)
    assert len(visits.releases()) == 1
    assert error(visits, release) < 0.25
    assert release.entry.report["beyond"] > 0.5
    assert not release.warnings


@pytest.mark.medium
def test_cells_that_do_not_stand_out_follow_the_prior(visits):
    """Where none does, all of the mass is in no cell, and the prior stays as it is; where all do, nothing changes."""
    how = {"mechanism": "ide", "prior": "good", "reuse": False}
    still = visits.synthesize("visits", 3.0, clear=100.0, **how).entry.report
    assert still["distance"] == 0
    moved = visits.synthesize("visits", 3.0, **how).entry.report
    assert moved["distance"] > 0


def test_what_no_cell_covers_is_shared_in_proportion_or_evenly():
    """Cases 3 and 4 of Definition 3.1, as `clear` makes them: a partial workload of one cell of three."""
    partial = Partial.of(np.array([0, 1, 2, 2]), np.array([True, False, False, False]))
    shared = update(np.array([[0.4, 0.3, 0.2, 0.1]]), partial, np.array([[0.7]]))
    np.testing.assert_allclose(shared, [[0.7, 0.15, 0.1, 0.05]])
    evenly = update(np.array([[1.0, 0.0, 0.0, 0.0]]), partial, np.array([[0.7]]))
    np.testing.assert_allclose(evenly, [[0.7, 0.1, 0.1, 0.1]])


@pytest.mark.medium
def test_theorem_3_1_is_an_equality_for_one_marginal(visits):
    """With one marginal the estimate is as near to the prior as its answers allow; with more it is farther."""
    for marginals in (1, 3):
        release = visits.synthesize("visits", 5.0, mechanism="ide", prior="good", marginals=marginals, reuse=False)
        report = release.entry.report
        assert report["distance"] >= report["least_distance"] - 1e-4
        if marginals == 1:
            assert report["distance"] == pytest.approx(report["least_distance"], abs=2e-4)


def small(seed: int, noise: float):
    """A support of some rows over three columns, a prior on it, and noisy columns of another table: many weights fit."""
    random = np.random.default_rng(seed)
    domain = Domain(tuple(Attribute(name, "INTEGER", "values", ("0", "1", "2")) for name in "abc"))
    codes = np.unique(random.integers(0, 3, (16, 3)), axis=0)
    p, q = random.dirichlet(np.ones(len(codes)), 2)
    targets, matrix = [], []
    for i in range(3):
        hot = one_hot(codes[:, i], 3)
        matrix.append(hot)
        targets.append(Target(("abc"[i],), (3,), 1000 * (hot @ q + random.normal(0, noise, 3)), 1.0))
    return domain, codes, p, targets, np.vstack(matrix)


@pytest.mark.parametrize("seed", range(4))
def test_the_exact_two_stages(seed):
    """No weights are nearer to the answers; of those as near none is nearer to the prior, by a general solver."""
    domain, codes, p, targets, matrix = small(seed, 0.02)
    found = two_stages(domain, codes, p, targets, 1000.0, 20.0, Quiet())
    wanted = np.concatenate([one.values for one in targets]) / 1000
    reached = matrix.any(axis=1)
    loss = np.abs(matrix @ found.weights - wanted)[reached].sum()
    assert found.optimal
    assert loss == pytest.approx(found.least, abs=1e-5)
    random = np.random.default_rng(9)
    for _ in range(200):  # moves that keep a distribution
        other = np.maximum(found.weights + random.normal(0, 0.01, len(p)), 0)
        assert np.abs(matrix @ (other / other.sum()) - wanted)[reached].sum() >= loss - 1e-6
    exact = least_entropy(p, matrix, matrix @ found.weights)
    assert kl(found.weights, p) == pytest.approx(kl(exact, p), abs=1e-4)


@pytest.mark.medium
def test_the_second_stage_stays_as_near_to_the_answers():
    """Without another beginning 3 of 100 searches ended early, the most of them .05 away."""
    for seed in range(100, 200):
        domain, codes, p, targets, _ = small(seed, 0.02)
        assert two_stages(domain, codes, p, targets, 1000.0, 20.0, Quiet()).apart < 1e-5, seed


@pytest.mark.medium
def test_iterations_come_near_to_the_exact_stages(visits):
    """Through Python: the same answers within a tenth of an L1 error, and about as near to the prior."""
    how = {"mechanism": "ide", "prior": "good", "workload": "all 2-way", "reuse": False}
    fast = visits.synthesize("visits", 20.0, iterations=300, **how)
    exact = visits.synthesize("visits", 20.0, method="exact", **how)
    assert exact.entry.report["fit"] == "prior, reweighted in two exact stages"
    assert error(visits, exact) < 0.1
    assert error(visits, fast) < 0.1
    assert abs(fast.entry.report["distance"] - exact.entry.report["distance"]) < 0.1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("reach := 'everywhere'", "reach is 'everywhere'"),
        ("reach := 'cells', region := 'ill'", "reach is 'cells', which goes without region"),
        ("clear := 2.0, group_by := 'ill'", "clear is 2.0, which goes without region"),
        ("clear := -1", "clear is -1"),
        ("method := 'quick'", "method is 'quick'"),
        ("method := 'exact', reach := 'cells'", "reach is 'cells', but method is 'exact'"),
        ("seconds := 0", "seconds is 0"),
    ],
)
def test_bad_options_cost_nothing(visits, options, words):
    sql = f"FROM dp_synthesize('visits', epsilon := 1.0, mechanism := 'ide', prior := 'good', {options})"
    with pytest.raises(Exception, match=words):
        visits.sql(sql).fetchall()
    assert visits.sql("SELECT epsilon_spent FROM dp_budget()").fetchone() == (0.0,)


def test_a_domain_of_many_records_is_refused(db):
    db.sql("CREATE TABLE wide AS SELECT i % 9 a, i % 9 b, i % 9 c, i % 9 d FROM range(100) r(i)")
    db.sql("CREATE TABLE p AS FROM wide")
    db.protect("wide", epsilon=3.0, delta=1e-6)
    for name in "abcd":
        db.domain("wide", name, lower=0, upper=8, bins=9, nulls=False)
    with pytest.raises(Exception, match="1e\\+04 records, more than support = 2000.*reach := 'cells'"):
        db.synthesize("wide", 1.0, mechanism="ide", prior="p", reach="domain", support=2000)
    assert db.sql("SELECT epsilon_spent FROM dp_budget()").fetchone() == (0.0,)
