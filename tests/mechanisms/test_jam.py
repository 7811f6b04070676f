"""`jam`: rounds that measure a marginal or take it from a public table, whichever is nearer."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest

from dpsql.core.neighbours import Neighbours
from dpsql.core.prior import Prior
from dpsql.core.workload import Workload
from dpsql.errors import InvalidArgument
from dpsql.evidence.earlier_releases import combined
from dpsql.fitting.target import Target
from dpsql.mechanisms.annealed_rounds import AnnealedRounds
from dpsql.mechanisms.base import make
from dpsql.mechanisms.residual.jam import as_sure, farther_than_drawn
from dpsql.privacy.curator import Curator
from dpsql.privacy.distributions import GAUSSIAN, SELECTION
from dpsql.privacy.journal import PublicMarginal, WholeMarginal
from dpsql.privacy.questions import SourceSelection
from dpsql.runtime.progress import Quiet

from ..conftest import seeded_entropy
from ..counters import RELATIONS, Journal, Rows
from .test_residual import chain, domain_of

pytestmark = pytest.mark.medium  # of each the first fit is compiled
QUICK = {"relaxed_rows": 32, "steps": 60}
PAIRS = Workload((("c0", "c1"), ("c1", "c2")))


def public_of(codes, names=("c0", "c1", "c2")) -> Prior:
    rows, weights = np.unique(codes, axis=0, return_counts=True)
    return Prior(names, rows, weights.astype(float))


def half_right(rows: int) -> Prior:
    """c0 and c1 as in the table, c2 shuffled."""
    codes = chain(rows, 4, seed=9)[:, :3]
    codes[:, 2] = np.random.default_rng(3).permutation(codes[:, 2])
    return public_of(codes)


def run(codes, domain, workload, rho, prior, neighbours=Neighbours.ADD_REMOVE, seed="jam", **options):
    journal, progress = Journal(), Quiet()
    curator = Curator(
        Rows(domain, codes), domain, neighbours, rho, journal, progress, seeded_entropy(seed), prior=prior
    )
    mechanism = make("jam", {**QUICK, **options})
    mechanism.check(domain, workload, neighbours)
    return curator, journal, mechanism.run(curator, workload, rho, 0, progress)


def test_what_the_public_table_has_right_is_taken_and_the_rest_is_measured():
    domain, codes = domain_of(4, 4, 4), chain(5000, 4)[:, :3]
    outcome = run(codes, domain, PAIRS, Fraction(1, 200), half_right(4000), steps=300)[2]
    selected = outcome.report["selected"]
    assert "c0, c1 (public)" in selected
    assert "c1, c2" in selected
    assert "c1, c2 (public)" not in selected
    for clique in PAIRS.cliques:
        exact = Rows(domain, codes).marginal(clique).dense() / len(codes)
        assert np.abs(outcome.model.project(clique) - exact).sum() < 0.2


def test_a_public_table_that_is_right_helps_where_noise_is_large():
    """Beside `residual`, which is the same without it."""
    domain, codes, rho = domain_of(4, 4, 4), chain(5000, 4)[:, :3], Fraction(1, 5000)
    exact = {clique: Rows(domain, codes).marginal(clique).dense() / len(codes) for clique in PAIRS.cliques}

    def error(model):
        return float(np.mean([np.abs(model.project(clique) - exact[clique]).sum() for clique in PAIRS.cliques]))

    public = public_of(chain(4000, 4, seed=9)[:, :3])
    ours = run(codes, domain, PAIRS, rho, public, steps=300)[2]
    curator = Curator(
        Rows(domain, codes), domain, Neighbours.ADD_REMOVE, rho, Journal(), Quiet(), seeded_entropy("residual")
    )
    alone = make("residual", {**QUICK, "steps": 300}).run(curator, PAIRS, rho, 0, Quiet())
    assert error(ours.model) < 0.6 * error(alone.model)


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_all_is_spent_and_what_is_taken_costs_its_selection(neighbours):
    domain, rho = domain_of(4, 4, 4), Fraction(1, 7)
    curator, journal, outcome = run(chain(300, 3), domain, PAIRS, rho, half_right(400), neighbours)
    assert curator.remaining == 0
    assert sum(answer.rho for answer in journal.answers) == rho
    sources = [place for place, answer in enumerate(journal.answers) if isinstance(answer.question, SourceSelection)]
    taken = []
    for place in sources:
        (choice,) = journal.answers[place].selection
        after = journal.answers[place + 1] if place + 1 < len(journal.answers) else None
        if isinstance(choice, PublicMarginal):
            taken.append(choice.clique)
            assert after is None or after.measurement is None
        else:
            assert isinstance(choice, WholeMarginal)
            assert after.measurement.clique == choice.clique
            assert after.rho == 9 * journal.answers[place].rho
    assert taken
    assert len(set(taken)) == len(taken) == outcome.report["public_marginals"]
    assert json.loads(json.dumps(outcome.report)) == outcome.report
    mechanism = make("jam", QUICK)
    assert {*mechanism.questions(domain, PAIRS, neighbours).kinds} == {GAUSSIAN, SELECTION}
    assert sum(part.rho for part in mechanism.plan(domain, PAIRS, neighbours, rho, 300.0)) == pytest.approx(1 / 7)


def test_a_run_goes_on_from_what_was_recorded():
    """Without a row: what is taken is as the journal says."""
    domain, rho, prior = domain_of(4, 4, 4), Fraction(1, 10), half_right(400)
    _, journal, first = run(chain(300, 3), domain, PAIRS, rho, prior)
    replayed = Journal(journal.answers)
    rows = Rows(domain, np.zeros((0, 3), int))
    curator = Curator(rows, domain, Neighbours.ADD_REMOVE, rho, replayed, Quiet(), seeded_entropy("x"), prior=prior)
    again = make("jam", QUICK).run(curator, PAIRS, rho, 0, Quiet())
    assert len(replayed.answers) == len(journal.answers)
    np.testing.assert_array_equal(first.model.project(domain.names), again.model.project(domain.names))


def test_what_is_taken_has_the_variance_of_a_measurement():
    domain, prior = domain_of(4, 4, 4), public_of(chain(300, 3))
    curator = Curator(
        Rows(domain, chain(300, 3)),
        domain,
        Neighbours.ADD_REMOVE,
        Fraction(48),
        Journal(),
        Quiet(),
        seeded_entropy("b"),
    )
    rounds = AnnealedRounds(curator, {("c0", "c1"): 1})
    answers = {"model": np.full(16, 300 / 16), "public": 300 * prior.project(domain, ("c0", "c1"))}
    measured, target = rounds.measure_or_take(
        [], [("c0", "c1")], lambda _: answers["model"], lambda _: answers["public"]
    )
    assert measured is None
    assert target.rho == pytest.approx(0.9)  # of 48/(16·3)
    assert target.variance == pytest.approx(1 / (2 * 0.9) + 1 / 8)
    np.testing.assert_array_equal(target.values, answers["public"])
    assert curator.remaining == 48 - Fraction(1, 10)


def test_public_rows_are_believed_as_far_as_they_scatter():
    """Many rows more than few, none less than a measurement, and rows from elsewhere less than drawn ones."""
    taken = Target(("c0",), (4,), np.full(4, 250.0), 10_000.0, 0.5)
    scatter = (1000**2 - 4 * 250**2) / 100 / 4
    assert as_sure(taken, 100.0, 1.0).variance == pytest.approx(scatter)
    assert as_sure(taken, 10_000.0, 1.0).variance == pytest.approx(scatter / 100)
    assert as_sure(taken, 100.0, 3.0).variance == pytest.approx(3 * scatter)
    assert as_sure(taken, 1.0, 1.0) == taken
    assert as_sure(taken, 100.0, 1.0).rho == pytest.approx(0.5 * 10_000 / scatter)


def test_public_rows_from_elsewhere_are_farther_than_drawn_ones():
    domain, generator = domain_of(4, 4, 4), np.random.default_rng(2)
    table, drawn = generator.integers(0, 4, (5000, 3)), generator.integers(0, 4, (500, 3))
    one_way = [
        Target((name,), (4,), Rows(domain, table).marginal((name,)).dense() + generator.normal(0, 3, 4), 9.0)
        for name in domain.names
    ]
    assert farther_than_drawn(one_way, public_of(drawn), domain, 5000.0) < 4
    elsewhere = np.minimum(drawn, 2)
    assert farther_than_drawn(one_way, public_of(elsewhere), domain, 5000.0) > 20
    assert farther_than_drawn(one_way, Prior((), np.zeros((1, 0), int), np.ones(1)), domain, 5000.0) == 1


def test_a_release_believes_public_rows_by_their_number():
    """The same distribution, of many rows and of few: the many pull the fit nearer."""
    domain, codes, rho = domain_of(4, 4, 4), chain(5000, 4)[:, :3], Fraction(1, 20_000)
    many = public_of(chain(4000, 4, seed=9)[:, :3])
    few = Prior(many.names, many.codes, many.weights / 200)
    far = []
    for prior in (few, many):
        model = run(codes, domain, PAIRS, rho, prior, steps=300)[2].model
        far.append(sum(float(np.abs(model.project(c) - prior.project(domain, c)).sum()) for c in PAIRS.cliques))
    assert far[1] < 0.5 * far[0]


def test_what_was_measured_and_taken_is_weighed_by_precision():
    own = Target(("a",), (2,), np.array([10.0, 20.0]), 4.0, 0.5)
    public = Target(("a",), (2,), np.array([20.0, 0.0]), 12.0, 0.25)
    other = Target(("b",), (2,), np.array([1.0, 2.0]), 3.0, 0.1)
    (mean, alone) = combined([own], [public, other])
    np.testing.assert_allclose(mean.values, [12.5, 15.0])
    assert (mean.variance, mean.rho) == (3.0, 0.75)
    assert alone is other


@pytest.mark.parametrize("rho", [Fraction(1, 10**6), Fraction(10**6)])
def test_one_column_no_rows_and_any_charge(rho):
    """Where noise is more than any error, and where there is none."""
    domain = domain_of(3)
    prior = Prior(("c0",), np.array([[1]]), np.ones(1))
    curator, _, outcome = run(np.zeros((0, 1), int), domain, Workload((("c0",),)), rho, prior)
    assert curator.remaining == 0
    assert outcome.model.sample(5, np.random.default_rng(0), Quiet()).shape == (5, 1)


def test_columns_that_the_public_table_lacks_are_measured():
    domain, prior = domain_of(4, 4, 4), public_of(chain(400, 4, seed=9)[:, :2], ("c0", "c1"))
    selected = run(chain(300, 3), domain, PAIRS, Fraction(1, 100), prior)[2].report["selected"]
    assert any(clique.endswith("(public)") for clique in selected)
    assert all("c2" not in clique for clique in selected if clique.endswith("(public)"))


def test_through_sql(db):
    """Its plan, its report and its rows; c is a + b, in the public table too."""
    for table, rows in (("t", 3000), ("p", 300)):
        db.sql(f"CREATE TABLE {table} AS SELECT i % 2 AS a, i % 3 AS b, i % 2 + i % 3 AS c FROM range({rows}) r(i)")
    db.protect("t", epsilon=10.0, delta=1e-6)
    for name, top in (("a", 1), ("b", 2), ("c", 3)):
        db.domain("t", name, lower=0, upper=top, bins=top + 1, nulls=False)
    with pytest.raises(InvalidArgument, match="'jam' starts from a public table: give prior"):
        db.plan("t", 1.0, mechanism="jam")
    how = "epsilon := 0.5, mechanism := 'jam', prior := 'p', workload := 'all 3-way', steps := 300"
    plan = str(db.sql(f"FROM dp_plan('t', {how}, assume_rows := 3000)").fetchall())
    assert "(selected marginals)" in plan
    assert "the prior has 6 different rows" in plan
    db.sql(f"CREATE TABLE s AS FROM dp_synthesize('t', {how})")
    (release,) = db.releases().itertuples()
    assert json.loads(release.report)["public_marginals"] > 0
    wrong, rows = db.sql("SELECT count(*) FILTER (c <> a + b), count(*) FROM s").fetchone()
    assert wrong < 0.1 * rows
    assert math.isclose(rows, 3000, abs_tol=200)
