"""Thresholds as a query class: what mwem, dualquery, fem and lp select, measure and optimise is the thresholds' error."""

from __future__ import annotations

import json
from fractions import Fraction

import duckdb
import numpy as np
import pytest
from scipy.optimize import linprog

import dpsql
from dpsql.books.releases.answers import _choice, _entry
from dpsql.core.domain import Attribute, Domain
from dpsql.core.marginal import Measurement
from dpsql.core.neighbours import Neighbours
from dpsql.core.threshold import Threshold, moved_of, threshold_counts
from dpsql.core.workload import Workload
from dpsql.fitting.relaxed.table import simplex_projection
from dpsql.fitting.rows import threshold_rows
from dpsql.fitting.rows.linear_program import nearest_density, statistics
from dpsql.fitting.rows.multiplicative_weights import Factored, absorb
from dpsql.fitting.target import Target
from dpsql.mechanisms import threshold_queries
from dpsql.mechanisms.base import make
from dpsql.mechanisms.reduced_space.threshold_answers import reach_of_sums, threshold_answers
from dpsql.models.fitness import Fitness
from dpsql.models.weighted_rows import WeightedRows
from dpsql.privacy.curator import Curator
from dpsql.privacy.distributions import LAPLACE
from dpsql.privacy.journal import SignedQuery
from dpsql.privacy.questions import SignedSelection
from dpsql.runtime.progress import Quiet

from ..conftest import seeded_entropy
from ..counters import Journal, Rows

SIZES = (3, 4, 3)
DOMAIN = Domain(
    tuple(
        Attribute(name, "INTEGER", "values", tuple(map(str, range(size))))
        for name, size in zip("abc", SIZES, strict=True)
    )
)
EITHER = Threshold(("a", "b", "c"), 1)
ASKED = "SELECT count(*) FROM t GROUP BY at_least(1, a, b, c)"
OPTIONS = {
    "mwem": {"rounds": 4},
    "mwem by thresholds": {"queries": "cells", "rounds": 12, "max_cells": 100, "start": "uniform", "passes": 20},
    "dualquery": {"rounds": 8, "samples": 100, "records": 50},
    "fem": {"rounds": 10, "samples": 50},
    "lp": {"points": 36},
    "lp, sum": {"points": 36, "objective": "l1"},
}


def table() -> np.ndarray:
    generator = np.random.default_rng(3)
    first = generator.integers(0, 3, 4000)
    return np.stack([first, (first + generator.integers(0, 2, 4000)) % 4, generator.binomial(2, 0.2, 4000)], axis=1)


def answers(rows: np.ndarray, family: Threshold = EITHER) -> np.ndarray:
    cells = np.stack(np.unravel_index(np.arange(np.prod(SIZES)), SIZES), axis=1)
    return (np.array([(rows == cell).sum(axis=1) >= family.least for cell in cells])).mean(axis=1)


@pytest.fixture
def db():
    with dpsql.connect() as opened:
        rows = table()
        opened.connection.register("rows", {f"x{i}": column for i, column in enumerate(rows.T)})
        opened.sql("CREATE TABLE t AS SELECT x0 AS a, x1 AS b, x2 AS c FROM rows")
        opened.protect("t", epsilon=1000.0, delta=1e-6)
        for name, size in zip("abc", SIZES, strict=True):
            opened.domain("t", name, lower=0, upper=size - 1, nulls=False)
        yield opened


@pytest.mark.medium
@pytest.mark.parametrize("name", OPTIONS)
def test_much_budget_gives_the_thresholds(db, name):
    """Through SQL: near the truth, where the uniform table is not; the promise and the plan are about thresholds."""
    mechanism = name.replace(",", " ").split()[0]
    given = ", ".join(f"{key} := {value!r}" for key, value in OPTIONS[name].items())
    call = f"('t', epsilon := 60.0, workload := '{ASKED}', mechanism := '{mechanism}', {given})"
    plan = db.sql(f"FROM dp_plan{call}").df()
    made = db.sql(f"SELECT a, b, c FROM dp_synthesize{call}").fetchnumpy()
    rows = np.stack([np.asarray(made[column]) for column in "abc"], axis=1)
    uniform = np.stack(np.unravel_index(np.arange(np.prod(SIZES)), SIZES), axis=1)
    truth = answers(table())
    assert np.abs(answers(uniform) - truth).max() > 0.15
    assert np.abs(answers(rows) - truth).max() < (0.05 if mechanism in ("mwem", "lp") else 0.13)
    report = json.loads(db.sql("SELECT report FROM dp_releases()").fetchall()[0][0])
    assert report["loss"] >= 0
    said = " ".join([*plan["note"].astype(str), *map(str, plan["marginal"])])
    assert "threshold" in said
    assert "all cells" not in said


@pytest.mark.medium
def test_thresholds_that_were_measured_one_by_one_are_shown(db):
    """`dp_measurements` and the errors of a release name them; a family's noise is that of single counts."""
    how = {"queries": "cells", "rounds": 5, "start": "uniform", "noise": "laplace"}
    release = db.synthesize("t", 8.0, workload=ASKED, mechanism="mwem", **how)
    kinds = {
        kind for (kind,) in db.sql("SELECT DISTINCT at_least FROM dp_measurements(?)", [release.entry.key]).fetchall()
    }
    assert kinds == {None, 1}  # the number of rows has none
    assert "at least 1" in set(release.errors["kind"])
    assert release.entry.report["asked"] == ["at least 1 of a/b/c"]


def test_drawn_thresholds_are_read_back_from_the_books():
    """As they were: a threshold with its sign is told from a cell."""
    question = SignedSelection(1, 1, 1, Fraction(1))
    for query in ((EITHER, 5), (("a", "b"), 5), (EITHER, 0)):
        for sign in (1, -1):
            written = json.loads(json.dumps(_entry(SignedQuery(query, sign))))
            assert _choice(question, *written) == SignedQuery(query, sign)


def test_an_update_by_a_threshold_is_the_dense_one():
    """A(x) ∝ A(x)·exp(q(x)·(m − q(A))/2n), of a single threshold and of several at once."""
    start = absorb(
        Factored.uniform(DOMAIN), [Target(("a",), (3,), np.array([30.0, 50.0, 20.0]), 1.0)], 100.0, 30, Quiet()
    )
    cells = (4, 17, 30)
    target = Target(EITHER.clique, SIZES, np.array([60.0, 90.0, 10.0]), 1.0, cells=cells, least=1)
    moved = absorb(start, [target], 100.0, 1, Quiet()).project(EITHER.clique)
    places = np.stack(np.unravel_index(np.arange(36), SIZES), axis=1)
    queries = (places[list(cells)][:, None] == places[None]).sum(axis=2) >= 1
    before = start.project(EITHER.clique)
    dense = before * np.exp(((target.values - 100 * (queries @ before)) / 200) @ queries)
    np.testing.assert_allclose(moved, dense / dense.sum())


def lp_case():
    generator = np.random.default_rng(1)
    points = np.unique(generator.integers(0, SIZES, (9, 3)), axis=0)
    noisy = np.bincount(np.ravel_multi_index(tuple(table().T), SIZES), minlength=36) + generator.normal(0, 60, 36)
    targets = threshold_answers(
        DOMAIN, [EITHER, Threshold(("a", "b", "c"), 2)], [Target(EITHER.clique, SIZES, noisy, 1.0)]
    )
    places = np.stack(np.unravel_index(np.arange(36), SIZES), axis=1)
    matches = (places[:, None] == points[None]).sum(axis=2)
    dense = np.concatenate([matches >= 1, matches >= 2]).astype(float)
    return points, targets, dense, np.concatenate([one.values for one in targets]) / 4000


def best_of(dense, wanted, objective):
    rows, points = dense.shape
    if objective == "max":
        sides = np.block([[dense, -np.ones((rows, 1))], [-dense, -np.ones((rows, 1))]])
        cost, ones = np.append(np.zeros(points), 1.0), np.append(np.ones(points), 0.0)
    else:
        sides = np.block([[dense, -np.eye(rows)], [-dense, -np.eye(rows)]])
        cost, ones = np.append(np.zeros(points), np.ones(rows)), np.append(np.ones(points), np.zeros(rows))
    return linprog(cost, sides, np.concatenate([wanted, -wanted]), ones[None], [1.0], method="highs").fun


@pytest.mark.parametrize("objective", ["max", "l1"])
def test_no_density_answers_thresholds_better(objective, monkeypatch):
    """The same optimum as one dense program; rows that forget thresholds of two matches do not reach it."""
    points, targets, dense, wanted = lp_case()

    def reached() -> float:
        facts = statistics(DOMAIN, points, targets, 4000.0, merge=objective == "max")
        gaps = np.abs(dense @ nearest_density(facts, objective, 20.0, Quiet()).weights - wanted)
        return float(gaps.max() if objective == "max" else gaps.sum())

    best = best_of(dense, wanted, objective)
    assert reached() == pytest.approx(best, abs=1e-7)
    right = threshold_rows.ThresholdRows.chosen
    broken = lambda self, places: right(threshold_rows.ThresholdRows(self.codes, self.shape, 1), places)  # noqa: E731
    monkeypatch.setattr(threshold_rows.ThresholdRows, "chosen", broken)
    assert reached() > best + 1e-3


@pytest.mark.parametrize(("sizes", "whole"), [((2, 2, 2), True), ((10, 10, 10), False)])
def test_what_is_measured_for_thresholds_leaves_the_least_noise(sizes, whole):
    """Of 64 families over the same columns the marginals themselves, where they are small; else all subsets."""
    domain = Domain(
        tuple(Attribute(n, "INTEGER", "values", tuple(map(str, range(s)))) for n, s in zip("abc", sizes, strict=True))
    )
    cliques, spread = threshold_queries.to_measure(domain, Workload((), (EITHER,)), 2)
    assert cliques == (("a", "b", "c"),) if whole else len(cliques) == 7
    generator, ones = np.random.default_rng(0), []
    for _ in range(300):  # the noise of the noisiest query is what is said, with shares of one row's variance each
        noisy = [Target(c, domain.shape(c), generator.normal(0, 1, domain.size(c)), 1.0) for c in cliques]
        found = {t.clique: t.values for t in noisy}
        if whole:
            ones.append(threshold_counts(found["a", "b", "c"], sizes, 1)[0])
        else:
            ones.append(sum(f * found[c][0] for c, f in threshold_queries.coefficients(EITHER).items()))
    assert np.std(ones) == pytest.approx(spread, rel=0.2)


def test_the_reach_of_sums_holds_sums_of_laplace_noise():
    """Of seven equal ones beyond it are at most as many as is said; the reach of one alone would be too small there."""
    generator = np.random.default_rng(0)
    sums = generator.laplace(0, np.sqrt(0.5), (400_000, 7)).sum(axis=1) / np.sqrt(7)
    for failure in (0.3, 0.05, 1e-3):
        assert np.mean(np.abs(sums) > reach_of_sums(LAPLACE, failure)) <= failure
    assert np.mean(np.abs(sums) > LAPLACE.reach(0.3)) > 0.3


def test_loss_and_residual_are_of_thresholds():
    """A model that has the thresholds right and the cells wrong is near; the other way round it is not."""
    pair = Domain(DOMAIN.attributes[:2])
    everything = np.stack(np.unravel_index(np.arange(12), (3, 4)), axis=1)
    cells = np.full(12, 100.0)
    measured = Measurement(("a", "b"), (3, 4), cells.astype(np.int64), Fraction(25), "gaussian", Fraction(1))
    waves = np.outer([1, -1, 0], [1, -1, 0, 0]).ravel() * 60.0  # no 1-way marginal has it
    model = WeightedRows(pair, everything, (cells + waves) / 1200, 1200.0)
    by_cells = Fitness.of(model, [measured])
    by_thresholds = Fitness.of(model, [measured], [Threshold(("a", "b"), 1)])
    assert by_cells.loss == pytest.approx((waves**2).sum() / 50)
    assert by_thresholds.loss == pytest.approx((waves**2).sum() / (50 * 6))  # m = 6 cells count a row


@pytest.mark.parametrize("neighbours", [Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE])
def test_selection_is_by_the_error_of_thresholds(neighbours):
    """Marginals whose cells are far off, and whose thresholds are not, are not selected."""
    rows = table()
    curator = Curator(Rows(DOMAIN, rows), DOMAIN, neighbours, Fraction(10**6), Journal(), Quiet(), seeded_entropy("s"))
    mechanism = make(
        "mwem", {"start": "marginals", "queries": "marginals", "noise": "gaussian", "rounds": 1, "passes": 20}
    )
    workload = Workload((), (EITHER,))
    outcome = mechanism.run(curator, workload, Fraction(10**6), 0, Quiet())
    exact = Rows(DOMAIN, rows)
    product = {name: simplex_projection(exact.marginal((name,)).dense() / len(rows)) for name in "abc"}
    scores = {}
    for family in threshold_queries.candidates(workload):
        clique = family.clique
        shape = DOMAIN.shape(clique)
        model = np.einsum(",".join(clique) + "->" + "".join(clique), *(product[name] for name in clique)).ravel()
        gap = np.abs(threshold_counts(exact.marginal(clique).dense() - len(rows) * model, shape, 1)).sum()
        scores["/".join(clique)] = gap / moved_of(DOMAIN, family, neighbours)
    assert outcome.report["asked"] == [max(scores, key=scores.__getitem__)]


@pytest.mark.medium
def test_a_sum_of_errors_of_many_thresholds_is_refused(db):
    """Each point counts for many of them, so that the program would be dense."""
    wide = "; ".join(f"SELECT count(*) FROM w GROUP BY at_least(1, c{i}, c{i + 1}, c{i + 2})" for i in range(6))
    columns = ", ".join(f"i % {20 + j} AS c{j}" for j in range(8))
    db.sql(f"CREATE TABLE w AS SELECT {columns} FROM range(50) r(i)")
    db.protect("w", epsilon=9.0, delta=1e-6)
    for j in range(8):
        db.domain("w", f"c{j}", lower=0, upper=20 + j, nulls=False)
    with pytest.raises(duckdb.Error, match="objective is 'l1', which makes a linear program .*say objective := 'max'"):
        db.sql(f"FROM dp_synthesize('w', epsilon := 1.0, mechanism := 'lp', objective := 'l1', workload := '{wide}')")
    assert db.budget().epsilon_spent.tolist() == [0.0, 0.0]
