"""FEM: nearer with more budget, and without perturbation the leader itself."""

from __future__ import annotations

import itertools
from fractions import Fraction

import duckdb
import numpy as np
import pytest

from dpsql.core.domain import Attribute, Domain
from dpsql.core.neighbours import Neighbours
from dpsql.core.threshold import Threshold
from dpsql.core.workload import Workload
from dpsql.errors import DomainTooLarge, InvalidArgument
from dpsql.fitting.rows.best_records import Goal, exact_record, local_record, perturbations, perturbed_leaders
from dpsql.fitting.rows.exact_leaders import exact_leaders
from dpsql.mechanisms.query_games.fem import FEM
from dpsql.privacy.accounting import zcdp_rho
from dpsql.privacy.curator import Curator
from dpsql.runtime.progress import Quiet

from ..conftest import seeded_entropy
from ..counters import Journal, Rows
from .test_dualquery import random_goal

DOMAIN = Domain(tuple(Attribute(f"c{i}", "INTEGER", "values", ("0", "1", "2")) for i in range(4)))
PAIRS = Workload(tuple(itertools.combinations(DOMAIN.names, 2)))


def table(rows: int = 2000) -> np.ndarray:
    generator = np.random.default_rng(3)
    codes = np.minimum(generator.geometric(0.6, (rows, 4)) - 1, 2)
    codes[:, 1] = np.where(generator.random(rows) < 0.7, codes[:, 0], codes[:, 1])
    return codes


TABLE = table()
COUNTS = Rows(DOMAIN, TABLE)


def release(rho: Fraction, seed: int, **options):
    journal = Journal()
    kernel = Curator(COUNTS, DOMAIN, Neighbours.ADD_REMOVE, rho, journal, Quiet(), seeded_entropy(f"fem {seed}"))
    outcome = FEM(**{"rounds": 40, "samples": 20, **options}).run(kernel, PAIRS, rho, seed, Quiet())
    return outcome, kernel, journal


def largest_error(model) -> float:
    return max(float(np.abs(model.project(c) - COUNTS.marginal(c).dense() / len(TABLE)).max()) for c in PAIRS.cliques)


@pytest.mark.slow
def test_error_falls_with_epsilon():
    """Means of three runs at ε = 0.01, 0.05 and 1."""
    errors = []
    for epsilon in (0.01, 0.05, 1.0):
        rho = zcdp_rho(epsilon, 1e-6)
        errors.append(np.mean([largest_error(release(rho, seed, rounds=80, noise=1.0)[0].model) for seed in range(3)]))
    assert errors[0] > 1.5 * errors[1]
    assert errors[1] > 1.5 * errors[2]
    assert errors[2] < 0.08


def test_spends_all_and_asks_one_cell_with_its_sign_each_round():
    outcome, kernel, journal = release(Fraction(1), 0, rounds=7)
    assert kernel.remaining == 0
    assert [answer.rho for answer in journal.answers] == [Fraction(1, 100)] + 7 * [Fraction(99, 700)]
    assert all(answer.selection is not None and len(answer.selection) == 1 for answer in journal.answers[1:])
    assert outcome.report["rounds"] == 7
    assert outcome.model.weights.sum() == pytest.approx(1)
    np.testing.assert_allclose(outcome.model.weights * 7 * 20, np.rint(outcome.model.weights * 7 * 20))


def queries(count: int) -> Goal:
    generator = np.random.default_rng(0)
    cells = [(PAIRS.cliques[generator.integers(6)], int(generator.integers(9))) for _ in range(count)]
    return Goal.of(DOMAIN, cells, generator.choice([-1.0, 1.0], count).tolist())


def test_without_perturbation_it_is_the_leader():
    """All records reach the largest value of all 81 records."""
    every = np.array(list(itertools.product(range(3), repeat=4)))
    for count in (0, 3, 25):
        goal, generator = queries(count), np.random.default_rng(1)
        found = goal.values(perturbed_leaders(goal, 15, 0.0, generator, Quiet()))
        assert found == pytest.approx(np.full(15, goal.values(every).max()))
        assert goal.values(local_record(goal, generator, Quiet())[None])[0] == pytest.approx(found[0])


def test_perturbation_spreads_the_records():
    goal, generator = queries(25), np.random.default_rng(1)
    distinct = [
        len(np.unique(perturbed_leaders(goal, 200, noise, generator, Quiet()), axis=0)) for noise in (0.0, 1.0, 100.0)
    ]
    assert distinct[0] < distinct[1] < distinct[2]
    values = perturbed_leaders(goal, 3000, 100.0, generator, Quiet())
    assert np.abs(values.mean(axis=0) - 1).max() < 0.15  # the noise alone: uniform over 0, 1, 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rounds": 0}, "rounds is 0"),
        ({"samples": 0}, "samples is 0"),
        ({"noise": -0.1}, "noise is -0.1: give 0 to"),
        ({"noise": float("nan")}, "noise is nan"),
    ],
)
def test_bad_options(options, said):
    with pytest.raises(InvalidArgument, match=said):
        FEM(**options)


def test_refused_from_public_facts():
    wide = Domain(tuple(Attribute(f"c{i}", "INTEGER", "values", tuple("abcdefghij")) for i in range(8)))
    with pytest.raises(DomainTooLarge, match="fem scores each one: at most 20000000 fit"):
        FEM().check(wide, Workload((wide.names,)), Neighbours.ADD_REMOVE)
    with pytest.raises(DomainTooLarge, match="fem scores each one: at most 20000000 fit"):
        FEM().check(wide, Workload((), (Threshold(wide.names, 2),)), Neighbours.ADD_REMOVE)


def test_plan_adds_up():
    planned = FEM(rounds=5).plan(DOMAIN, PAIRS, Neighbours.ADD_REMOVE, Fraction(1, 70), 1000)
    assert sum(line.rho for line in planned) == pytest.approx(1 / 70)
    assert "5 rounds" in planned[-1].note


@pytest.mark.parametrize("thresholds", [False, True])
def test_exact_leaders_are_the_best_of_all_records(thresholds):
    """Of 30 goals with noise, found by enumeration; the local search is never above them, and without it is below."""
    generator, below = np.random.default_rng(0), 0
    for number in range(30):
        goal = random_goal(generator, 4, 3, 12 * (number % 3), thresholds=thresholds)
        state = generator.bit_generator.state
        records = exact_leaders(goal, 2, 2.0, 60, generator, Quiet())
        generator.bit_generator.state = state
        bias = perturbations(goal, 2, 2.0, generator, None)
        every = np.array(list(itertools.product(range(3), repeat=4)))
        for own, record in zip(bias, records, strict=True):
            best = goal.values(every, np.tile(own, (len(every), 1))).max()
            assert goal.values(record[None], own[None])[0] == pytest.approx(best)
            below += goal.values(exact_record(goal, 60, generator)[None], own[None])[0] < best - 1e-6
    assert below > 10


@pytest.mark.medium
def test_the_integer_program_through_sql(people):
    """Of few columns; of many it is refused before a charge, with what works."""
    how = "mechanism := 'fem', search := 'milp', rounds := 5, samples := 5"
    people.sql(f"FROM dp_synthesize('people', epsilon := 1.0, {how})").fetchall()
    spent = people.budget().epsilon_spent.tolist()
    people.sql("CREATE TABLE wide AS SELECT i % 300 AS a, i % 2 AS b FROM range(900) r(i)")
    people.protect("wide", epsilon=3.0, delta=1e-6)
    for name, top in (("a", 299), ("b", 1)):
        people.domain("wide", name, lower=0, upper=top, bins=top + 1)
    with pytest.raises(duckdb.Error, match="search is 'milp', which solves an integer program .*of at most 200"):
        people.sql(f"FROM dp_synthesize('wide', epsilon := 1.0, {how})")
    assert people.budget().epsilon_spent.tolist()[:1] == spent
