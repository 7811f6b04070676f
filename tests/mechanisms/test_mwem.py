"""MWEM is faithful to the lecture: its updates, its output, and its two bounds on the error."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpsql.core.constraint import Allowed
from dpsql.core.domain import Attribute, Domain
from dpsql.core.marginal import Marginal
from dpsql.core.neighbours import Neighbours
from dpsql.core.workload import Workload
from dpsql.errors import DomainTooLarge, InvalidArgument
from dpsql.fitting.rows.multiplicative_weights import Factored, Weighted, absorb
from dpsql.fitting.target import Target
from dpsql.mechanisms.base import make
from dpsql.models.mixture import MixtureModel
from dpsql.privacy.curator import Curator
from dpsql.privacy.pricing import price
from dpsql.runtime.progress import Quiet
from tests.depth import depth

from ..conftest import seeded_entropy
from ..counters import Journal, Rows


def cube(columns: int, size: int = 2) -> Domain:
    values = tuple(map(str, range(size)))
    return Domain(tuple(Attribute(f"c{i}", "INTEGER", "values", values) for i in range(columns)))


def skewed(domain: Domain, rows: int, seed: int = 0) -> np.ndarray:
    """Rows whose neighbouring columns agree mostly."""
    generator = np.random.default_rng(seed)
    codes = np.empty((rows, len(domain)), np.int64)
    codes[:, 0] = generator.random(rows) < 0.2
    for column in range(1, len(domain)):
        same = generator.random(rows) < 0.9
        codes[:, column] = np.where(same, codes[:, column - 1], generator.integers(0, 2, rows))
    return codes


def exact(domain, rows, clique):
    return Rows(domain, rows).marginal(clique).dense().astype(float)


def without_privacy(domain, rows, cliques, rounds, step=1.0):
    """The lecture's first algorithm: true answers of the worst query; returns all iterates and the errors met."""
    n, now = len(rows), Factored.uniform(domain)
    truth = {clique: exact(domain, rows, clique) for clique in cliques}
    iterates, met = [now], []
    for _ in range(rounds):
        gaps = {c: truth[c] - n * now.project(c) for c in cliques}
        clique = max(gaps, key=lambda c: abs(gaps[c]).max())
        cell = int(abs(gaps[clique]).argmax())
        met.append((clique, cell, gaps[clique][cell]))
        exponents = np.zeros(len(gaps[clique]))
        exponents[cell] = step * gaps[clique][cell] / (2 * n)
        now = now.tilted(clique, exponents)
        iterates.append(now)
    return iterates, met


def potential(domain, rows, histogram) -> float:
    """Φ = Σ D(x)/n · log(D(x)/A(x))."""
    true = exact(domain, rows, domain.names) / len(rows)
    model = histogram.project(domain.names)
    inside = true > 0
    return float(np.sum(true[inside] * np.log(true[inside] / model[inside])))


def claim_2_holds(step) -> bool:
    domain = cube(6)
    rows = skewed(domain, 500)
    cliques = list(itertools.combinations(domain.names, 2))
    iterates, met = without_privacy(domain, rows, cliques, 40, step)
    potentials = [potential(domain, rows, histogram) for histogram in iterates]
    least = [(gap / (2 * len(rows))) ** 2 for _, _, gap in met]
    return all(a - b >= c - 1e-12 for a, b, c in zip(potentials, potentials[1:], least, strict=False))


def test_each_update_lowers_the_potential_as_claimed():
    assert claim_2_holds(1.0)


@pytest.mark.parametrize("step", [-1.0, 0.1])
def test_a_wrong_step_does_not(step):
    assert not claim_2_holds(step)


@pytest.mark.medium
@pytest.mark.parametrize("rounds", [80, 320])
def test_the_bound_without_privacy(rounds):
    """At these T the bound is below what the start, of which nothing was learnt, errs by."""
    domain = cube(7)
    rows = skewed(domain, 400)
    cliques = list(itertools.combinations(domain.names, 3))
    iterates, _ = without_privacy(domain, rows, cliques, rounds)
    bound = 2 * len(rows) * math.sqrt(math.log(2**7) / rounds)
    averages = {clique: np.mean([h.project(clique) for h in iterates[:-1]], axis=0) for clique in cliques}
    assert largest_error(domain, rows, averages) <= bound
    assert largest_error(domain, rows, {clique: iterates[0].project(clique) for clique in cliques}) > bound


def largest_error(domain, rows, answers):
    """Of all cells (rows)."""
    return max(abs(len(rows) * answer - exact(domain, rows, clique)).max() for clique, answer in answers.items())


class Counted(Rows):
    """Rows whose marginals are counted once, fast."""

    def __init__(self, domain, rows) -> None:
        super().__init__(domain, rows[:0])
        self._domain, self._codes, self._known = domain, rows, {}

    def marginal(self, clique):
        if clique not in self._known:
            places = [self._domain.names.index(name) for name in clique]
            shape = self._domain.shape(clique)
            flat = (
                np.ravel_multi_index(tuple(self._codes[:, p] for p in places), shape)
                if clique
                else self._codes[:, 0] * 0
            )
            cells, counts = np.unique(flat, return_counts=True)
            self._known[clique] = Marginal(clique, self._domain.size(clique), cells, counts)
        return self._known[clique]


def curator_of(domain, rows, budget, seed, table=None):
    return Curator(
        table or Rows(domain, rows),
        domain,
        Neighbours.REPLACE_ONE,
        budget.rho,
        Journal(),
        Quiet(),
        seeded_entropy(seed),
        pure=budget.exact_epsilon if budget.pure else None,
    )


@pytest.mark.medium
def test_the_private_bound():
    """Claim 3 of the lecture: it fails with probability at most 2T/|Q|; false-alarm rate 1e-6 over 6 runs.

    50,000 rows of which nine tenths are alike, T = 100 and 4,608 queries: the bound is 0.56 n, less than the 0.87 n of
    a model that learns nothing, so a mechanism that steps the wrong way, or not at all, fails each time.
    """
    domain, epsilon, rounds, count = cube(8), 2.0, 100, 50_000
    rows = skewed(domain, count)
    rows[: 9 * count // 10] = 1
    table = Counted(domain, rows)
    workload = Workload(tuple(c for size in (5, 6, 7) for c in itertools.combinations(domain.names, size)))
    queries = sum(domain.size(clique) for clique in workload.cliques)
    mechanism = make("mwem", {"rounds": rounds})
    budget = price(mechanism.questions(domain, workload, Neighbours.REPLACE_ONE), epsilon, 1e-9)
    bound = 2 * count * math.sqrt(math.log(2**8) / rounds) + 10 * rounds * math.log(queries) / epsilon
    assert bound < 0.6 * count

    def error(model):
        return max(abs(count * model.project(c) - table.marginal(c).dense()).max() for c in workload.cliques)

    failed = 0
    for run in range(6):
        curator = curator_of(domain, rows, budget, f"{run}", table)
        failed += error(mechanism.run(curator, workload, budget.rho, 0, Quiet()).model) > bound
    assert error(Factored.uniform(domain)) > bound
    allowed = stats.binom.ppf(1 - 1e-6, 6, 2 * rounds / queries)
    assert failed <= allowed < 6


def test_the_output_is_the_average_before_the_last_update():
    domain, rows = cube(4), skewed(cube(4), 300)
    workload = Workload((domain.names[:2], domain.names[2:]))
    mechanism = make("mwem", {"rounds": 3})
    budget = price(mechanism.questions(domain, workload, Neighbours.REPLACE_ONE), 1.0, 1e-9)
    journal = Journal()
    curator = curator_of(domain, rows, budget, "average")
    curator._journal = journal
    model = mechanism.run(curator, workload, budget.rho, 0, Quiet()).model
    measured = [a.measurement for a in journal.answers if a.measurement is not None and a.measurement.cells]
    iterates = [Factored.uniform(domain)]
    for answer in measured:
        iterates.append(absorb(iterates[-1], [Target.of(answer)], 300.0, 1, Quiet()))
    assert len(iterates) == 4
    for clique in workload.cliques:
        expected = np.mean([h.project(clique) for h in iterates[:3]], axis=0)
        np.testing.assert_allclose(model.project(clique), expected, rtol=1e-6)
        assert not np.allclose(model.project(clique), np.mean([h.project(clique) for h in iterates[1:]], axis=0))


def test_the_budget_is_the_sum_of_its_steps():
    """ε/2T for each of 2T steps: T·((ε/2T)²/8 + (ε/2T)²/2) of zCDP where n is public."""
    domain = cube(3)
    budget = price(
        make("mwem", {"rounds": 5}).questions(domain, Workload((domain.names,)), Neighbours.REPLACE_ONE), 2.0, 1e-9
    )
    assert budget.pure
    assert float(budget.rho) == pytest.approx(5 * (0.2**2 / 8 + 0.2**2 / 2))


@settings(max_examples=depth(60), deadline=None)
@given(st.data())
def test_factored_and_weighted_are_the_dense_histogram(data):
    sizes = data.draw(st.lists(st.integers(2, 3), min_size=2, max_size=4))
    domain = Domain(
        tuple(Attribute(f"c{i}", "INTEGER", "values", tuple(map(str, range(s)))) for i, s in enumerate(sizes))
    )
    codes = np.stack(np.unravel_index(np.arange(math.prod(sizes)), sizes), axis=1)
    dense = np.full(len(codes), 1 / len(codes))
    factored, weighted = Factored.uniform(domain), Weighted(domain, codes, dense)
    for _ in range(data.draw(st.integers(1, 4))):
        clique = domain.clique(data.draw(st.lists(st.sampled_from(domain.names), min_size=1, max_size=3)))
        size = domain.size(clique)
        exponents = np.array(data.draw(st.lists(st.floats(-2, 2), min_size=size, max_size=size)))
        cells = np.ravel_multi_index(tuple(codes[:, domain.names.index(n)] for n in clique), domain.shape(clique))
        dense = dense * np.exp(exponents[cells])
        dense /= dense.sum()
        factored, weighted = factored.tilted(clique, exponents), weighted.tilted(clique, exponents)
    np.testing.assert_allclose(factored.project(domain.names), dense, rtol=1e-9)
    np.testing.assert_allclose(weighted.weights, dense, rtol=1e-9)


@pytest.mark.medium
def test_stronger_variants_are_nearer():
    """On 5,000 rows at ρ = 0.05: whole marginals with past measurements against the lecture's cells."""
    domain, rows = cube(8), skewed(cube(8), 5000)
    workload = Workload(tuple(itertools.combinations(domain.names, 2)))

    def error(**options):
        mechanism = make("mwem", {"rounds": 10, **options})
        curator = Curator(
            Rows(domain, rows), domain, Neighbours.REPLACE_ONE, Fraction(1, 20), Journal(), Quiet(), seeded_entropy("v")
        )
        model = mechanism.run(curator, workload, Fraction(1, 20), 0, Quiet()).model
        return np.mean([abs(model.project(c) - exact(domain, rows, c) / 5000).sum() for c in workload.cliques])

    strong = error(queries="marginals", noise="gaussian", passes=20, output="last")
    assert strong < 0.5 * error(noise="gaussian")


def test_more_rounds_than_queries_select_some_again():
    """So T is not bounded by the workload: one marginal, and each round measures it, with other noise."""
    domain = cube(2)
    mechanism, rho = make("mwem", {"queries": "marginals", "noise": "gaussian", "rounds": 7}), Fraction(1)
    curator = Curator(
        Rows(domain, skewed(domain, 50)), domain, Neighbours.REPLACE_ONE, rho, Journal(), Quiet(), seeded_entropy("m")
    )
    mechanism.check(domain, Workload((domain.names,)), Neighbours.REPLACE_ONE)
    mechanism.run(curator, Workload((domain.names,)), rho, 0, Quiet())
    measured = [a.measurement for a in curator._journal.answers if a.measurement is not None and a.measurement.clique]
    assert len(measured) == 7
    assert len({tuple(m.values) for m in measured}) > 1
    assert curator.remaining == 0


def test_adult_is_not_enumerated():
    """14 columns of together 10¹⁷ tuples: groups stay below max_cells."""
    domain = Domain(tuple(Attribute(f"c{i}", "INTEGER", "values", tuple(map(str, range(20)))) for i in range(14)))
    rows = np.random.default_rng(0).integers(0, 20, size=(1000, 14))
    workload = Workload(tuple(itertools.combinations(domain.names[:7], 2)))
    curator = Curator(
        Rows(domain, rows), domain, Neighbours.ADD_REMOVE, Fraction(1), Journal(), Quiet(), seeded_entropy("adult")
    )
    mechanism = make("mwem", {"queries": "marginals", "noise": "gaussian", "rounds": 12, "max_cells": 10_000})
    outcome = mechanism.run(curator, workload, Fraction(1), 0, Quiet())
    assert outcome.report["largest_group"] <= 10_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rounds": 0}, "rounds is 0: give 1"),
        ({"rounds": "many"}, "rounds is 'many'"),
        ({"queries": "pairs"}, "queries is 'pairs': say one of 'cells', 'marginals'"),
        ({"noise": "none"}, "noise is 'none'"),
        ({"output": "best"}, "output is 'best'"),
        ({"passes": 0}, "passes is 0"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(InvalidArgument, match=message):
        make("mwem", options)


def test_a_marginal_larger_than_a_group_is_refused():
    domain = cube(3, 50)
    with pytest.raises(DomainTooLarge, match="ask for marginals of fewer columns"):
        make("mwem", {"max_cells": 1000}).check(domain, Workload((domain.names,)), Neighbours.ADD_REMOVE)


@pytest.mark.medium
def test_rounds_from_sql_are_a_number_or_auto(people):
    for rounds in ("3", "'3'", "'auto'"):
        name = rounds.strip("'") + str(len(rounds))
        call = (
            "dp_synthesize('people', epsilon := 0.5, mechanism := 'mwem', faithful := true, "
            f"rounds := {rounds}, release := '{name}')"
        )
        assert people.sql(f"SELECT count(*) > 0 FROM {call}").fetchall() == [(True,)]
    charges = people.sql("SELECT delta FROM dp_ledger() WHERE kind = 'charge'").fetchall()
    assert charges == [(0.0,)] * 3
    guarantee = people.sql("SELECT guarantee FROM dp_releases()").fetchall()[0][0]
    assert guarantee.startswith("0.5-DP, by Laplace noise and selections")


def test_measurement_of_a_marginal_moves_all_of_its_cells():
    domain = cube(2)
    measured = Target(domain.names, (2, 2), np.array([70.0, 10, 10, 10]), 1.0)
    near = absorb(Factored.uniform(domain), [measured], 100.0, 400, Quiet())
    np.testing.assert_allclose(near.project(domain.names), [0.7, 0.1, 0.1, 0.1], atol=1e-3)


@pytest.mark.parametrize("exponents", [[0.0, 900.0, -900.0, 5.0], [-1e6, 1e6, 0.0, 0.0]])
def test_large_steps_leave_a_distribution(exponents):
    """Also where the cells that would gain most have no mass at all."""
    domain = cube(2)
    codes = np.array([[0, 0], [1, 0], [1, 1]])
    start = Factored(domain, ((domain.names, np.array([[0.5, 0.0], [0.2, 0.3]])),))
    for model in (Weighted(domain, codes, np.array([0.5, 0.2, 0.3])), start, Factored.uniform(domain)):
        moved = model.tilted(domain.names, np.array(exponents)).project(domain.names)
        assert np.isfinite(moved).all()
        assert moved.sum() == pytest.approx(1)
        assert (moved[model.project(domain.names) == 0] == 0).all()


@pytest.mark.parametrize("options", [{}, {"passes": 3}, {"queries": "marginals", "start": "marginals", "passes": 4}])
def test_the_average_is_of_all_iterates_though_none_is_kept(options):
    """The model computes them once more: the same numbers, the mean of T distributions, each of them in turn."""
    domain, rho = cube(4), Fraction(4)
    mechanism = make("mwem", {"rounds": 6, **options})
    table = np.random.default_rng(0).integers(0, 2, (500, 4))
    asked = Curator(Rows(domain, table), domain, Neighbours.REPLACE_ONE, rho, Journal(), Quiet(), seeded_entropy("m"))
    model = mechanism.run(asked, Workload((domain.names[:2], domain.names[1:3])), rho, 0, Quiet()).model
    assert not isinstance(model.parts, tuple)
    iterates = list(model.parts)
    assert len(iterates) == len(model.parts) == 6
    for clique in (domain.names[:2], domain.names[2:]):
        mean = np.mean([one.project(clique) for one in iterates], axis=0)
        np.testing.assert_allclose(model.project(clique), mean, rtol=1e-6)
    assert len({one.project(domain.names[:2]).tobytes() for one in iterates}) > 3
    rows = model.sample(600, np.random.default_rng(1), Quiet())
    seen = np.bincount(rows[:, 0] * 2 + rows[:, 1], minlength=4) / 600
    assert np.abs(seen - model.project(domain.names[:2])).max() < 0.03


class GoneThrough(list):
    """Histograms that know how often somebody went through them, as `Iterates` are computed anew each time."""

    times = 0

    def __iter__(self):
        self.times += 1
        return super().__iter__()


def test_an_average_is_gone_through_once_for_all_rows_to_mend():
    """Not once for each column: to mend the rows of a release of Adult took half of its time."""
    domain, parts = cube(4), GoneThrough([Factored.uniform(cube(4))] * 3)
    only = [
        Allowed((name,), (name,), ("declared",), np.zeros((1, 1), np.int64), np.zeros((1, 1))) for name in domain.names
    ]
    codes = MixtureModel(domain, parts, 100.0).sample(200, np.random.default_rng(0), Quiet(), only)
    assert not codes.any()
    assert parts.times == 2, "once for the rows, once to mend them"
