"""The linear program on a reduced space, against a dense formulation, the theorem, and broken twins."""

from __future__ import annotations

import itertools
import math
import threading
import time
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import linprog

from dpsql.core.domain import Attribute, Domain
from dpsql.core.neighbours import Neighbours
from dpsql.core.prior import Prior, packed
from dpsql.core.threshold import Threshold
from dpsql.core.workload import Workload
from dpsql.errors import DomainTooLarge, InsufficientBudget, Interrupted, InvalidArgument
from dpsql.fitting.rows import linear_program
from dpsql.fitting.rows.linear_program import nearest_density, statistics
from dpsql.fitting.target import Target
from dpsql.mechanisms.base import Remark, make
from dpsql.mechanisms.defaults import make_for
from dpsql.mechanisms.facts import Facts
from dpsql.mechanisms.reduced_space.barak import Barak
from dpsql.mechanisms.reduced_space.lp import LP, all_points
from dpsql.privacy.accounting import exact
from dpsql.privacy.curator import Curator
from dpsql.privacy.pricing import price
from dpsql.runtime.progress import Quiet

from ..conftest import seeded_entropy
from ..counters import RELATIONS, Journal, Rows


def domain_of(*sizes: int) -> Domain:
    return Domain(
        tuple(
            Attribute(f"c{i}", "INTEGER", "values", tuple(str(value) for value in range(size)))
            for i, size in enumerate(sizes)
        )
    )


def noisy(domain, rows, cliques, generator, scale=3.0):
    """Measured marginals of rows, with whole-number noise."""
    found = []
    for clique in cliques:
        counts = np.bincount(packed(rows, domain.names, domain, clique), minlength=domain.size(clique))
        values = counts + np.rint(generator.laplace(0, scale, len(counts))).astype(np.int64)
        found.append(Target(clique, domain.shape(clique), values.astype(float), 1.0))
    return found


def case(seed: int):
    """A small program: domain, points, measurements, total."""
    generator = np.random.default_rng(seed)
    domain = domain_of(3, 4, 5, 2)
    rows = np.stack([generator.binomial(size - 1, 0.3, 80) for size in (3, 4, 5, 2)], axis=1)
    points = np.unique(np.stack([generator.integers(0, size, 25) for size in (3, 4, 5, 2)], axis=1), axis=0)
    cliques = (("c0", "c1"), ("c1", "c2", "c3"), ("c0",))
    return domain, points, noisy(domain, rows, cliques, generator), 80.0


def dense_answers(domain, points, measured):
    """A and ã of all cells, also of those without a point, with no row merged or left out."""
    blocks = [
        (packed(points, domain.names, domain, m.clique)[None] == np.arange(len(m.values))[:, None]) for m in measured
    ]
    return np.concatenate(blocks).astype(float), np.concatenate([m.values for m in measured])


def dense_optimum(domain, points, measured, total, objective, answerable=False):
    """The optimum by one dense linear program over all cells, or over those only that have a point."""
    rows, wanted = dense_answers(domain, points, measured)
    if answerable:
        wanted, rows = wanted[rows.any(axis=1)], rows[rows.any(axis=1)]
    wanted, (cells, many) = wanted / total, rows.shape
    if objective == "max":
        sides = np.block([[rows, -np.ones((cells, 1))], [-rows, -np.ones((cells, 1))]])
        cost, ones = np.append(np.zeros(many), 1.0), np.append(np.ones(many), 0.0)
    else:
        sides = np.block([[rows, -np.eye(cells)], [-rows, -np.eye(cells)]])
        cost, ones = np.append(np.zeros(many), np.ones(cells)), np.append(np.ones(many), np.zeros(cells))
    solved = linprog(cost, sides, np.concatenate([wanted, -wanted]), ones[None], [1.0], method="highs")
    return solved.fun


def achieved(domain, points, measured, total, weights, objective):
    rows, wanted = dense_answers(domain, points, measured)
    gaps = np.abs(rows @ weights - wanted / total)
    return gaps.max() if objective == "max" else gaps.sum()


def solve(domain, points, measured, total, objective="max", seconds=20.0, progress=None):
    facts = statistics(domain, points, measured, total, merge=objective == "max")
    return facts, nearest_density(facts, objective, seconds, progress or Quiet())


@pytest.mark.parametrize("objective", ["max", "l1"])
@pytest.mark.parametrize("seed", range(8))
def test_no_density_does_better(seed, objective):
    problem = case(seed)
    facts, found = solve(*problem, objective)
    assert found.optimal
    assert found.weights.min() >= 0
    assert found.weights.sum() == pytest.approx(1, abs=1e-12)
    best = dense_optimum(*problem, objective)
    assert achieved(*problem, found.weights, objective) == pytest.approx(best, abs=1e-7)
    if objective == "max":
        assert max(found.error, facts.empty) == pytest.approx(best, abs=1e-7)
        assert found.error == pytest.approx(dense_optimum(*problem, objective, answerable=True), abs=1e-7)
    generator = np.random.default_rng(seed)
    for spread in (0.05, 0.3, 1.0, 10.0):
        for other in generator.dirichlet(np.full(len(problem[1]), spread), 50):
            assert achieved(*problem, other, objective) >= best - 1e-9


def test_rows_are_added_until_none_is_violated(monkeypatch):
    """With hardly any rows to begin with, more rounds reach the same optimum."""
    problem = case(3)
    _, whole = solve(*problem)
    assert whole.rounds == 1
    monkeypatch.setattr(linear_program, "_MOST_WHOLE", 0)
    monkeypatch.setattr(linear_program, "_ROWS_PER_POINT", 0.1)
    _, found = solve(*problem)
    assert found.rounds > 1
    assert found.error == pytest.approx(whole.error, abs=1e-7)


def test_a_program_that_forgets_the_lower_sides_is_caught(monkeypatch):
    """The broken twin bounds A h − ã only from above.

    In four of these eight programs its optimum is below the true one, so its density cannot be the best: every one of
    them must be caught. (In the others the upper sides alone fix the optimum.)
    """
    right = linear_program._worst

    def broken(facts, *arguments):
        found = right(facts, *arguments)
        return found[found < len(facts.low)]

    monkeypatch.setattr(linear_program, "_MOST_WHOLE", 0)
    monkeypatch.setattr(linear_program, "_worst", broken)
    caught = 0
    for seed in range(8):
        problem = case(seed)
        facts, found = solve(*problem)
        best = dense_optimum(*problem, "max", answerable=True)
        if found.bound < best - 1e-3:
            assert facts.error(found.weights) > best + 1e-3
            assert not found.optimal
            caught += 1
    assert caught == 4


@pytest.mark.parametrize("objective", ["max", "l1"])
@pytest.mark.parametrize("scale", [0.0, 1e3, 1e9])
def test_always_has_an_answer(objective, scale):
    """Whatever the noise, also where no two marginals agree; one point only; no point in most cells."""
    generator = np.random.default_rng(5)
    domain = domain_of(3, 40)
    rows = np.stack([generator.integers(0, 3, 50), generator.integers(0, 40, 50)], axis=1)
    measured = noisy(domain, rows, (("c0",), ("c1",), ("c0", "c1")), generator, scale)
    for points in (rows[:1], np.unique(rows[:7], axis=0), all_points(domain)):
        facts, found = solve(domain, points, measured, 50.0, objective)
        assert np.isfinite(found.error)
        assert found.weights.min() >= 0
        assert found.weights.sum() == pytest.approx(1, abs=1e-9)
        assert facts.cells + facts.empty_cells == 3 + 40 + 120


def test_what_the_solver_cannot_finish_is_not_waited_for(monkeypatch):
    """Out of time: the best density so far, with how far it is from a bound."""
    problem = case(1)
    monkeypatch.setattr(linear_program, "linprog", lambda **_: SimpleNamespace(x=None, status=1))
    facts, found = solve(*problem)
    assert not found.optimal
    assert found.weights == pytest.approx(np.full(len(problem[1]), 1 / len(problem[1])))
    assert found.error == pytest.approx(facts.error(found.weights))
    _, at_once = solve(*problem, seconds=0.0)
    assert at_once.rounds == 0


@pytest.mark.parametrize("objective", ["max", "l1"])
def test_where_the_interior_point_method_fails_the_simplex_method_answers(monkeypatch, objective):
    problem = case(2)
    _, before = solve(*problem, objective)

    def failing(*, method, **program):
        return SimpleNamespace(x=None, status=4) if method == "highs-ipm" else linprog(method=method, **program)

    monkeypatch.setattr(linear_program, "linprog", failing)
    _, found = solve(*problem, objective)
    assert found.optimal
    assert found.error == pytest.approx(before.error, abs=1e-7)


def test_a_solver_at_work_can_be_interrupted(monkeypatch):
    let_go, finished = threading.Event(), []
    monkeypatch.setattr(linear_program, "linprog", lambda **_: finished.append(let_go.wait(30)))
    begin = time.monotonic()
    with pytest.raises(Interrupted):
        solve(*case(1), progress=Quiet(lambda: time.monotonic() - begin > 0.3))
    assert not finished
    let_go.set()


def held(domain, rows, rho, neighbours=Neighbours.ADD_REMOVE, pure=None, prior=None, seed="lp"):
    journal = Journal()
    curator = Curator(
        Rows(domain, rows), domain, neighbours, rho, journal, Quiet(), seeded_entropy(seed), pure=pure, prior=prior
    )
    return curator, journal


def table(domain, count=200, seed=0):
    generator = np.random.default_rng(seed)
    return np.stack([generator.binomial(size - 1, 0.4, count) for size in domain.shape(domain.names)], axis=1)


WORKLOAD = Workload((("c0", "c1"), ("c1", "c2"), ("c3",)))


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("mechanism", [LP(points=20), LP(points=20, space="uniform"), Barak()])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, math.pi])
def test_its_epsilons_add_up(mechanism, neighbours, epsilon):
    """Of ε-DP, all of it to 25 digits and not a digit more; the ledger's ρ is spent exactly."""
    domain = domain_of(3, 4, 5, 2)
    budget = price(mechanism.questions(domain, WORKLOAD, neighbours), epsilon, 1e-6)
    assert budget.pure
    curator, journal = held(domain, table(domain), budget.rho, neighbours, budget.exact_epsilon)
    mechanism.run(curator, WORKLOAD, budget.rho, 0, Quiet())
    assert curator.remaining == 0
    assert 0 <= curator.remaining_pure < Fraction(1, 10**25)
    assert mechanism.course(Facts(domain, WORKLOAD, neighbours)).left == 0
    assert {answer.measurement.noise for answer in journal.answers} <= {"laplace", "none"}
    planned = mechanism.plan(domain, WORKLOAD, neighbours, budget.rho, 200)
    planned = [p for p in planned if not isinstance(p, Remark)]
    assert sum(p.rho for p in planned) == pytest.approx(float(budget.rho))
    by_clique = {p.clique: p.stddev for p in planned}
    for answer in journal.answers:
        measured = answer.measurement
        if measured.noise == "laplace":
            assert by_clique[measured.clique] == pytest.approx(measured.stddev)
            assert 2 * answer.rho == pytest.approx(float(neighbours.marginal_l1**2 * 2 / measured.variance))


def test_gaussian_noise_is_gaussian_dp_and_never_pure():
    domain, mechanism = domain_of(3, 4, 5, 2), LP(points=20, noise="gaussian")
    budget = price(mechanism.questions(domain, WORKLOAD, Neighbours.ADD_REMOVE), 1.0, 1e-6)
    assert budget.delta == 1e-6
    assert budget.gdp == budget.rho
    curator, journal = held(domain, table(domain), budget.rho)
    mechanism.run(curator, WORKLOAD, budget.rho, 0, Quiet())
    assert curator.remaining == 0
    assert {answer.measurement.noise for answer in journal.answers} == {"gaussian"}
    curator, journal = held(domain, table(domain), budget.rho, pure=Fraction(1))
    with pytest.raises(InvalidArgument, match="no pure epsilon"):
        mechanism.run(curator, WORKLOAD, budget.rho, 0, Quiet())
    assert journal.answers == []


def test_a_twin_with_too_little_noise_is_refused():
    """Scales too small by √2, that is twice the ρ: the curator answers the total and then stops it."""

    class Greedy(LP):
        def fit(self, walk, *arguments):
            return super().fit(replace(walk, facts=replace(walk.facts, rho=2 * walk.facts.rho)), *arguments)

    domain = domain_of(3, 4, 5, 2)
    mechanism = Greedy(points=20)
    budget = price(mechanism.questions(domain, WORKLOAD, Neighbours.ADD_REMOVE), 1.0, 1e-6)
    curator, journal = held(domain, table(domain), budget.rho, pure=Fraction(1))
    with pytest.raises(InsufficientBudget):
        mechanism.run(curator, WORKLOAD, budget.rho, 0, Quiet())
    assert [answer.measurement.clique for answer in journal.answers] == [()]
    assert curator._counter.read == [()]


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_barak_is_lp_with_all_points(neighbours):
    domain, outcomes = domain_of(3, 4, 5, 2), []
    for mechanism in (Barak(), LP(points=120, space="uniform")):
        curator, _ = held(domain, table(domain), Fraction(1), neighbours)
        outcomes.append(mechanism.run(curator, WORKLOAD, Fraction(1), 0, Quiet()))
    barak, lp = (outcome.model for outcome in outcomes)
    assert len(barak.codes) == 120
    np.testing.assert_array_equal(barak.codes, lp.codes)
    np.testing.assert_array_equal(barak.weights, lp.weights)
    assert outcomes[0].report == outcomes[1].report


@pytest.mark.parametrize("mechanism", [Barak(), LP(points=400)])
def test_much_budget_gives_the_table(mechanism):
    """With hardly any noise the whole domain answers to a row; the reduced space has more than it needs too."""
    domain = domain_of(3, 4, 5, 2, 2)
    rows = table(domain, 300)
    curator, _ = held(domain, rows, Fraction(10**7))
    outcome = mechanism.run(curator, WORKLOAD, Fraction(10**7), 0, Quiet())
    assert outcome.report["error"] < 0.01
    synthetic = outcome.model.sample(300, np.random.default_rng(0), Quiet())
    for clique in WORKLOAD.cliques:
        gaps = np.bincount(packed(synthetic, domain.names, domain, clique), minlength=domain.size(clique))
        gaps -= np.bincount(packed(rows, domain.names, domain, clique), minlength=domain.size(clique))
        assert np.abs(gaps).max() <= 12


def theorem(columns: int = 18):
    """Boolean data for which all conditions of Theorems 2.2 and 2.3 hold; returns what they need."""
    delta, gamma, functions = 0.04, 0.05, 4 + 2 + 1
    chances = np.full(columns, 0.5)
    chances[[0, 2]] = 0.6
    kappa = float(np.prod(2 * (chances**2 + (1 - chances) ** 2)))  # 2^p·Σφ² of a product
    points = math.ceil(kappa * functions / gamma / delta**2)
    rows = math.ceil(math.log(functions / gamma) / delta**2)
    sigma = delta / math.log(functions / gamma)
    return domain_of(*[2] * columns), chances, points, rows, 4 / (rows * sigma), delta, gamma


def test_the_plan_states_the_theorem():
    domain, _, points, rows, epsilon, delta, gamma = theorem()
    workload = Workload((("c0", "c1"), ("c2",)))
    assert points <= 2**18
    mechanism = LP(points=points, space="uniform", gamma=gamma)
    rho = price(mechanism.questions(domain, workload, Neighbours.REPLACE_ONE), epsilon, 1e-6).rho
    promise = mechanism.plan(domain, workload, Neighbours.REPLACE_ONE, rho, rows)[-1].note
    assert f"|F| = 7, gamma = 0.05, m = {points}, delta = 0.04" in promise
    assert f"8 delta = {8 * delta:.3g} with probability 0.8" in promise
    assert "number is at most 1.08" in promise
    assert "kappa <= |Omega| = 2.62e+05 for every table" in promise
    assert "an indication only, for it supposes rows drawn independently (bootstrap := true)" in promise
    few = LP(points=100, space="uniform").plan(domain, workload, Neighbours.REPLACE_ONE, rho, rows)[-1].note
    assert "promises nothing: even for kappa = 1" in few
    drowned = LP(points=100, space="uniform").plan(domain, workload, Neighbours.REPLACE_ONE, rho / 10**6, rows)[-1].note
    assert "delta must be at most 0.5" in drowned
    small = domain_of(3, 4, 5, 2)
    whole = Barak().plan(small, WORKLOAD, Neighbours.ADD_REMOVE, Fraction(1), 200)[-1].note
    assert "before rows are drawn" in whole
    assert LP().plan(small, WORKLOAD, Neighbours.ADD_REMOVE, Fraction(1), 200)[-1].note.startswith("all cells within")


def test_a_kappa_that_is_known_is_enough_or_not():
    """The plan says for how much, and how many points would do; the report says κ of the density that was found."""
    domain, _, points, rows, epsilon, _, gamma = theorem()
    workload = Workload((("c0", "c1"), ("c2",)))

    def promise(kappa):
        mechanism = LP(points=points, space="uniform", gamma=gamma, kappa=kappa)
        rho = price(mechanism.questions(domain, workload, Neighbours.REPLACE_ONE), epsilon, 1e-6).rho
        return mechanism.plan(domain, workload, Neighbours.REPLACE_ONE, rho, rows)[-1].note

    assert "condition number is at most 1.05, as kappa says" in promise(1.05)
    refused = promise(3.0)
    assert "promises nothing: for kappa = 3 it wants" in refused
    assert float(refused.split("it wants ")[1].split(" ")[0]) == pytest.approx(points * 3 / 1.0816, rel=0.01)
    with pytest.raises(InvalidArgument, match=r"kappa is 0\.5: give 1 to inf"):
        LP(kappa=0.5)


@pytest.mark.medium
def test_the_report_has_kappa_of_the_density(db):
    db.sql("CREATE TABLE t AS SELECT i % 50 = 0 AS a, i % 2 = 0 AS b FROM range(2000) r(i)")
    db.protect("t", epsilon=500.0, delta=1e-6)
    report = db.synthesize("t", 200.0, mechanism="lp").entry.report
    shares = np.array([0.02, 0.0, 0.48, 0.5])  # (a, b), (a, not b), (not a, b), (not a, not b)
    assert report["kappa"] == pytest.approx(4 * (shares**2).sum(), abs=0.05)


def test_the_plan_states_the_conditions():
    """Theorem 2.2's n for F one by one, κ's bound where there is one, and what 2.3 supposes that does not hold."""
    domain, _, points, rows, epsilon, delta, gamma = theorem()
    workload = Workload((("c0", "c1"), ("c2",)))

    def notes(neighbours=Neighbours.REPLACE_ONE, **options):
        mechanism = LP(**{"points": points, "gamma": gamma, **options})
        budget = price(mechanism.questions(domain, workload, neighbours), epsilon, 1e-6)
        plan = mechanism.plan(domain, workload, neighbours, budget.rho, rows)
        return [line.note for line in plan if isinstance(line, Remark)]

    least = math.ceil(2 * 7 * math.log(7 / gamma) / (epsilon * delta))
    assert least == pytest.approx(
        3.5 * rows, rel=0.01
    )  # the theorem pays for |F| = 7 functions, k = 2 marginals take 4
    privacy, _ = notes(space="uniform")
    assert f"Theorem 2.2 with |F| = 7, gamma = 0.05, epsilon = {epsilon:.4g}, delta = 0.04" in privacy
    assert float(privacy.split("n >= ")[1].split(" ")[0]) == pytest.approx(least, rel=1e-3)
    assert "epsilon-DP for every n" in privacy
    held = notes(space="uniform", bootstrap=True)[-1]
    assert "supposes" not in held
    drawn = notes(space="prior", bootstrap=True)[-1]
    assert "kappa has no bound here" in drawn
    assert "supposes" not in drawn
    assert "points independent of the rows" in notes(space="measured", points=10**5, bootstrap=True)[-1]
    private = notes(Neighbours.ADD_REMOVE, space="uniform", bootstrap=True, points=10**5)[-1]
    assert "supposes a public n" in private
    assert len(notes(space="uniform", noise="gaussian")) == 1


@pytest.mark.medium
def test_accuracy_of_theorem_2_3():
    """8δ-accurate with probability 1 − 4γ on Boolean data with κ = 2^p·Σφ² known, μ uniform, k = n independent rows.

    γ = 0.05: the theorem lets each run fail with probability 0.2, so 4 of 4 fail with at most 0.0016, and a run beside
    them whose points miss the data (no κ bounds it) must fail. The seeds are fixed; in these runs none fails.
    """
    domain, chances, points, count, epsilon, delta, gamma = theorem()
    workload = Workload((("c0", "c1"), ("c2",)))
    mechanism = LP(points=points, space="uniform", gamma=gamma, bootstrap=True)
    rho = price(mechanism.questions(domain, workload, Neighbours.REPLACE_ONE), epsilon, 1e-6).rho
    errors = []
    for seed in range(4):
        rows = (np.random.default_rng(seed).random((count, len(chances))) < chances).astype(np.int64)
        curator, _ = held(domain, rows, rho, Neighbours.REPLACE_ONE, exact(epsilon), seed=str(seed))
        model = mechanism.run(curator, workload, rho, seed, Quiet()).model
        synthetic = model.sample(count, np.random.default_rng(seed), Quiet())
        errors.append(
            max(
                np.abs(Prior(domain.names, part, np.ones(count)).project(domain, clique) - exact).max()
                for clique in workload.cliques
                for part, exact in [(synthetic, Prior(domain.names, rows, np.ones(count)).project(domain, clique))]
            )
        )
    assert sum(error > 8 * delta for error in errors) == 0
    assert max(errors) < 3 * delta  # the proof's constants are generous


def test_points_that_miss_the_data_are_not_accurate():
    """The twin of the theorem's test: the same data, all points with c2 = 0, where κ is infinite."""
    domain, chances, _, count, _, delta, _ = theorem(6)
    generator = np.random.default_rng(0)
    rows = (generator.random((count, len(chances))) < chances).astype(np.int64)
    points = all_points(domain)
    points = points[points[:, 2] == 0]
    _, found = solve(domain, points, noisy(domain, rows, (("c2",),), generator), float(count))
    missed = np.abs(np.bincount(points[:, 2], found.weights, 2) - np.bincount(rows[:, 2], minlength=2) / count).max()
    assert missed > 8 * delta


def test_a_prior_gives_the_points():
    domain = domain_of(3, 4, 5, 2)
    public = np.unique(table(domain, 30, seed=9)[:, :3], axis=0)
    prior = Prior(domain.names[:3], public, np.ones(len(public)))
    known = {tuple(row) for row in public}

    def run(**options):
        curator, journal = held(domain, table(domain), Fraction(1), prior=prior)
        outcome = LP(**options).run(curator, WORKLOAD, Fraction(1), 0, Quiet())
        inside = [tuple(row[:3]) in known for row in outcome.model.codes]
        return inside, outcome.report["space"], [answer.measurement.clique for answer in journal.answers]

    inside, space, asked = run(points=50, space="prior")
    assert all(inside)
    assert space == "prior"
    assert ("c0",) not in asked
    inside, space, asked = run(points=50)
    assert 10 < sum(inside) < len(inside)
    assert space == "prior and measured"
    assert ("c0",) in asked
    assert asked.count(("c3",)) == 1  # measured for the workload already
    assert run(points=50, space="uniform")[1] == "uniform"


def test_the_points_follow_the_noise():
    """The usual number of points, and all of a domain that has no more."""
    domain = domain_of(3, 4)
    for how, noise, points in (
        ({}, 0.0023, 1000),
        ({}, 0.23, 312),
        ({}, 10.0, 200),
        ({"objective": "l1"}, 0.0023, 400),
        ({"points": 7}, 0.0023, 7),
    ):
        assert LP(**how).count(domain, WORKLOAD, noise) == points
    curator, _ = held(domain, table(domain), Fraction(1))
    outcome = LP().run(curator, Workload((("c0", "c1"),)), Fraction(1), 0, Quiet())
    assert outcome.report["space"] == "all of the domain"
    assert outcome.report["points"] == 12


def test_the_points_of_the_theorem():
    """m = δ⁻²·K·|F|/γ, as the promise counts; no more than a program holds; of sums and thresholds those of trials."""
    domain, _, points, rows, _, delta, gamma = theorem()
    workload = Workload((("c0", "c1"), ("c2",)))

    def count(noise=delta, asked=workload, **options):
        return LP(**{"gamma": gamma, "rule": "theorem", **options}).count(domain, asked, noise)

    assert count(kappa=1.0816) == pytest.approx(points, rel=1e-3)
    assert count() == math.ceil(7 / gamma / delta**2)
    assert count(0.7) == count(0.5) == math.ceil(4 * 7 / gamma)
    assert count(1e-6) == 100_000
    assert count(1e-6, Workload(tuple(itertools.combinations(domain.names, 2)))) == 5_000_000 // 153
    assert count(objective="l1") == 400
    assert count(asked=Workload((), (Threshold(("c0", "c1"), 1),))) < 1000
    assert count(points=9) == 9
    mechanism = make_for("lp", {"faithful": True, "gamma": gamma, "kappa": 1.0}, pure=False)
    budget = price(mechanism.questions(domain, workload, Neighbours.REPLACE_ONE), 0.56, 1e-6)
    for about in (rows, rows / 2):  # by noise that is as large as sampling, and larger
        promise = mechanism.plan(domain, workload, Neighbours.REPLACE_ONE, budget.rho, about)[-1].note
        assert "within 8 delta" in promise


def test_bootstrap_draws_rows_independently():
    domain, counts = domain_of(3, 4, 5, 2), {}
    for bootstrap in (False, True):
        curator, _ = held(domain, table(domain), Fraction(1))
        model = LP(points=30, bootstrap=bootstrap).run(curator, WORKLOAD, Fraction(1), 0, Quiet()).model
        rows = model.sample(2000, np.random.default_rng(0), Quiet())
        found = np.bincount(packed(rows, domain.names, domain, domain.names), minlength=120)
        wanted = np.bincount(packed(model.codes, domain.names, domain, domain.names), 2000 * model.weights, 120)
        counts[bootstrap] = np.abs(found - wanted).max()
    assert counts[False] < 1
    assert 3 < counts[True] < 200


def test_a_program_out_of_time_is_told(monkeypatch):
    monkeypatch.setattr(linear_program, "linprog", lambda **_: SimpleNamespace(x=None, status=1))
    domain = domain_of(3, 4, 5, 2)
    curator, _ = held(domain, table(domain), Fraction(1))
    assert "was not solved" in LP(points=30).run(curator, WORKLOAD, Fraction(1), 0, Quiet()).report["warning"]


@pytest.mark.medium
@pytest.mark.parametrize(
    ("name", "options", "error", "words"),
    [
        ("lp", {"noise": "cauchy"}, InvalidArgument, "noise is 'cauchy'"),
        ("lp", {"objective": "l2"}, InvalidArgument, "objective is 'l2'"),
        ("lp", {"space": "full"}, InvalidArgument, "space is 'full'"),
        ("lp", {"space": "prior"}, InvalidArgument, "give prior"),
        ("lp", {"points": 0}, InvalidArgument, "points is 0"),
        ("lp", {"seconds": 0}, InvalidArgument, "seconds is 0"),
        ("lp", {"seconds": float("nan")}, InvalidArgument, "seconds is nan"),
        ("lp", {"gamma": 0.3}, InvalidArgument, "gamma is 0.3"),
        ("barak", {"space": "uniform"}, InvalidArgument, "its options are"),
        ("barak", {"workload": "all 2-way"}, DomainTooLarge, "barak weights every one of at most 5000"),
        ("lp", {"workload": "SELECT a, b, c, d, count(*) FROM wide GROUP BY ALL"}, DomainTooLarge, "at most 5e"),
        ("lp", {"points": 100_000, "workload": "all 2-way"}, DomainTooLarge, "fewer marginals or points"),
    ],
)
def test_bad_input_is_refused_before_the_charge(db, name, options, error, words):
    letters = "abcdefghijklmn"
    db.sql("CREATE TABLE wide AS SELECT " + ", ".join(f"1 AS {letter}" for letter in letters))
    db.protect("wide", epsilon=1, delta=1e-6)
    for letter in letters:
        db.domain("wide", letter, lower=0, upper=99)
    with pytest.raises(error, match=words):
        db.synthesize("wide", 1.0, mechanism=name, **{"workload": "SELECT a, count(*) FROM wide GROUP BY a", **options})
    assert db.budget().epsilon_spent.tolist() == [0.0]


@pytest.mark.medium
@pytest.mark.parametrize("name", ["lp", "barak"])
def test_the_guarantee_is_pure(people, name):
    people.synthesize("people", 0.5, mechanism=name, seconds=5, faithful=True)
    people.synthesize("people", 0.5, mechanism=name, seconds=5)
    guarantees = people.releases().guarantee.tolist()
    assert guarantees[0].startswith("0.5-DP, by Laplace noise")
    assert guarantees[1].startswith("(0.5, 1e-06)-DP, by")
    assert "Gaussian DP" in guarantees[1]
    assert (
        people.sql(f"SELECT max(note) FROM dp_plan('people', epsilon := 1.0, mechanism := '{name}') WHERE cells = 0")
        .fetchall()[0][0]
        .startswith("all cells within")
    )


def test_make_takes_options_as_text():
    assert make("lp", {"points": 30, "noise": "gaussian"}).noise == "gaussian"
    assert make("lp", {}).noise == "laplace"
    assert make("lp", {"space": "prior"}).needs_prior
    assert not make("lp", {}).needs_prior
