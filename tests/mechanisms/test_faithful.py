"""`faithful := true` is each paper's settings: rounds, order, steps, totals and noise, beside the formulas themselves."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpsql.core.neighbours import Neighbours
from dpsql.core.workload import Workload
from dpsql.mechanisms.base import make, registered
from dpsql.mechanisms.defaults import Meaning, make_for
from dpsql.mechanisms.facts import Facts
from dpsql.mechanisms.promises import log_records, mwem_best_rounds, mwem_bound
from dpsql.privacy.accounting import zcdp_rho
from dpsql.privacy.curator import Curator
from dpsql.privacy.pricing import price
from dpsql.release.plan import plan_table
from dpsql.runtime.progress import Quiet

from ..conftest import seeded_entropy
from ..counters import RELATIONS, Journal, Rows
from .test_ide import run as run_ide
from .test_ide import table_domain

DOMAIN = table_domain((2, 3, 4))
PAIRS = Workload(tuple(itertools.combinations(DOMAIN.names, 2)))


def faithful(name: str, **options):
    return make_for(name, {"faithful": True, **options}, pure=False)


def rows_of(count: int, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.stack([generator.binomial(size - 1, 0.2, count) for size in DOMAIN.shape(DOMAIN.names)], axis=1)


def run(mechanism, epsilon: float, rows: np.ndarray, neighbours=Neighbours.REPLACE_ONE):
    """A release, and its curator."""
    budget = price(mechanism.questions(DOMAIN, PAIRS, neighbours), epsilon, 1e-6)
    pure = budget.exact_epsilon if budget.pure else None
    curator = Curator(
        Rows(DOMAIN, rows), DOMAIN, neighbours, budget.rho, Journal(), Quiet(), seeded_entropy("faithful"), pure=pure
    )
    return mechanism.run(curator, PAIRS, budget.rho, 0, Quiet()), curator, budget


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("rows", [1000, 48_842])
def test_no_number_of_rounds_has_a_smaller_bound(epsilon, rows):
    records, queries = log_records(DOMAIN), 1000
    best = mwem_best_rounds(records, queries, epsilon, rows)

    def bound(rounds: int) -> float:
        return mwem_bound(records, queries, rounds, epsilon, rows).error

    assert bound(best) <= min(bound(rounds) for rounds in (max(1, best - 1), best + 1, 2 * best, max(1, best // 2)))


@pytest.mark.medium
@pytest.mark.parametrize("neighbours", RELATIONS)
def test_rounds_of_mwem_grow_with_epsilon_within_its_charge(neighbours):
    """T* follows from the charge and n̂; all of ε is spent, and no more ρ than was charged before n was known."""
    rounds = []
    for epsilon in (0.5, 10.0):
        outcome, curator, budget = run(faithful("mwem"), epsilon, rows_of(2000), neighbours)
        rounds.append(outcome.report["rounds"])
        assert budget.pure
        assert 0 <= curator.remaining_pure < Fraction(1, 10**20)
        assert curator.remaining >= 0
        asked = float(epsilon) * (1 if neighbours.total_is_public else 0.95)
        queries = sum(DOMAIN.size(clique) for clique in PAIRS.cliques)
        wanted = mwem_best_rounds(log_records(DOMAIN), queries, asked, outcome.report["total"] / neighbours.cell)
        assert rounds[-1] == pytest.approx(max(10, wanted), abs=1)
    assert 10 <= rounds[0] < rounds[1]


def test_the_order_of_fem_is_the_paper_s():
    """One round of the paper outputs what heard of no query: the same records whatever the rows are, but not by default."""
    tables = rows_of(500), 1 - np.minimum(rows_of(500), 1)
    for order, same in (("paper", True), ("heard", False)):
        mechanism = faithful("fem", rounds=1, samples=20, search="local", order=order)
        made = [run(mechanism, 10.0, rows)[0].model for rows in tables]
        answers = [np.concatenate([model.project(clique) for clique in PAIRS.cliques]) for model in made]
        assert np.allclose(*answers) is same
    assert (faithful("fem").search, faithful("fem").order) == ("auto", "paper")


@pytest.mark.parametrize("rows", [500, 48_842])
def test_rounds_and_draws_of_dualquery_are_those_of_its_theorem(rows):
    """T = 16 ln|Q|/α² and s = 48 ln(2|X|T/β)/α² at one α, whose T, η = α/4 and s cost ρ."""
    rho = zcdp_rho(1.0, 1e-6)
    found = faithful("dualquery").parameters(DOMAIN, PAIRS, rho, rows)
    queries = math.log(2 * sum(DOMAIN.size(clique) for clique in PAIRS.cliques))
    alpha = math.sqrt(16 * queries / found.rounds)
    draws = 48 * (log_records(DOMAIN) + math.log(2 * found.rounds / 0.05)) / alpha**2
    assert found.samples == pytest.approx(draws, rel=1 / found.rounds + 0.05)
    assert found.eta(rows) == pytest.approx(alpha / 4, rel=0.1)
    assert found.cost == rho


def test_steps_and_totals_of_ide_are_the_paper_s():
    """Twice as many steps as marginals; the total has half of ε; groups have the counts that were measured."""
    mechanism = faithful("ide")
    assert mechanism.passes == 2
    *_, journal, _ = run_ide(4.0, {"passes": 2, "totals": "paper"})
    total, *others = [math.sqrt(2 / float(answer.measurement.variance)) for answer in journal.answers]
    assert total == pytest.approx(2.0)
    assert sum(others) == pytest.approx(2.0)
    options = {"region": "c0", "group_by": "c1", "group_prior": False, "totals": "paper"}
    *_, journal, outcome = run_ide(0.5, options)
    (groups,) = [a.measurement.values for a in journal.answers if a.measurement.clique == ("c0", "c1")]
    made = outcome.model.project(("c0", "c1")) * outcome.model.total
    np.testing.assert_allclose(made, np.maximum(groups, 0), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("neighbours", [Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE])
def test_each_cell_of_lp_pays_for_itself(neighbours):
    """Laplace noise of scale |F|·Δ/ε (2|F|/ε with replace_one, the document's); the rest of ε stays unspent."""
    mechanism, epsilon = faithful("lp", points=20), 2.0
    budget = price(mechanism.questions(DOMAIN, PAIRS, neighbours), epsilon, 1e-6)
    assert budget.epsilon == epsilon
    course = mechanism.course(Facts(DOMAIN, PAIRS, neighbours, budget.rho, 1000.0))
    count = 1 + sum(DOMAIN.size(clique) for clique in PAIRS.cliques)
    left = 1 if neighbours.total_is_public else 0.95
    scale = math.sqrt(course.preview()[-1].stddev ** 2 / 2)
    assert scale == pytest.approx(neighbours.marginal_l1 * count / (left * epsilon), rel=1e-6)
    whole = make("lp", {"points": 20, "space": "uniform"})
    cheap = price(whole.questions(DOMAIN, PAIRS, neighbours), epsilon, 1e-6)
    other = whole.course(Facts(DOMAIN, PAIRS, neighbours, cheap.rho, 1000.0)).preview()[-1].stddev
    assert scale > 2 * other / math.sqrt(2)


def test_rap_takes_the_paper_s_steps_and_its_grid():
    mechanism = faithful("rap")
    assert (mechanism.steps, mechanism.relaxed_rows, mechanism.learning_rate) == (5000, 1000, 0.001)
    assert (mechanism.rounds, mechanism.queries_per_round, mechanism.conversion) == ("auto", "auto", "simple")


@pytest.mark.medium
@pytest.mark.parametrize("name", ["barak", "mwem", "fem", "dualquery", "lp"])
def test_what_was_made_by_the_settings_before_is_told_again_free(people, monkeypatch, name):
    """The same request, charged then, is neither charged nor made again; another name gets the settings of now."""
    people.domain("people", "sex", values=["F", "M"], nulls=True)
    small = {"fem": {"rounds": 2, "samples": 3}, "dualquery": {"workload": "all 1-way"}, "lp": {"points": 20}}
    how = {"epsilon": 0.5, "mechanism": name, "faithful": True, "workload": "all 2-way", **small.get(name, {})}
    with monkeypatch.context() as before:
        settings = {"meaning": Meaning.BEFORE}
        before.setattr("dpsql.release.synthesis.plan_table", lambda *given, **_: plan_table(*given, **settings))
        then = people.synthesize("people", **how)
    spent = people.budget()
    again = people.synthesize("people", **how)
    assert again.entry.key == then.entry.key
    assert people.budget().equals(spent)
    fresh = people.synthesize("people", **how, release="b")
    assert fresh.entry.request != then.entry.request
    changed = {k: v for k, v in (registered()[name].published() or {}).items() if k not in how}
    assert all(getattr(make(name, changed), option) == value for option, value in changed.items())
    assert not people.budget().equals(spent)
