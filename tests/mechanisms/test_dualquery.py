"""DualQuery: what it costs, what its data player finds, and how near it comes at α."""

from __future__ import annotations

import itertools
import json
import math
import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpsql.core.digits import up
from dpsql.core.domain import Attribute, Domain
from dpsql.core.marginal import Marginal
from dpsql.core.neighbours import Neighbours
from dpsql.core.threshold import Threshold
from dpsql.core.workload import Workload
from dpsql.errors import DomainTooLarge, InsufficientBudget, InvalidArgument
from dpsql.fitting.rows.best_records import Goal, best_record, climb, exact_record, local_record, random_records
from dpsql.mechanisms.base import Remark
from dpsql.mechanisms.cell_queries import RecordCounts
from dpsql.mechanisms.promises import dualquery_bound
from dpsql.mechanisms.query_games.accuracy import Accuracy
from dpsql.mechanisms.query_games.dualquery import DualQuery
from dpsql.mechanisms.query_games.game import Parameters, alone_epsilon, amplified, most_rounds, original_epsilon
from dpsql.privacy.accounting import selection_rate, simple_epsilon, zcdp_epsilon
from dpsql.privacy.curator import Curator
from dpsql.privacy.pricing import price
from dpsql.runtime.progress import Quiet
from tests.depth import depth

from ..conftest import seeded_entropy
from ..counters import Journal


def boolean(columns: int) -> Domain:
    return Domain(tuple(Attribute(f"b{i}", "BOOLEAN", "values", ("false", "true")) for i in range(columns)))


DOMAIN = boolean(4)
PAIRS = Workload(tuple(itertools.combinations(DOMAIN.names, 2)))


class Table:
    """Exact counts of a table of codes, fast for many rows."""

    def __init__(self, domain: Domain, codes) -> None:
        self.domain, self.codes = domain, codes

    def marginal(self, clique):
        if not clique:
            return Marginal((), 1, np.array([0]), np.array([len(self.codes)]))
        columns = [self.domain.names.index(name) for name in clique]
        packed = np.ravel_multi_index(tuple(self.codes[:, c] for c in columns), self.domain.shape(clique))
        cells, counts = np.unique(packed, return_counts=True)
        return Marginal(clique, self.domain.size(clique), cells, counts)

    def among(self, places) -> Table:
        return Table(self.domain, self.codes[places])

    def largest_error(self, model, cliques) -> float:
        errors = [model.project(c) - self.marginal(c).dense() / len(self.codes) for c in cliques]
        return max(float(np.abs(error).max()) for error in errors)


def skewed(rows: int, columns: int = 4) -> np.ndarray:
    """Dependent Boolean columns: each copies the one before with probability 0.8."""
    generator = np.random.default_rng(5)
    codes = np.empty((rows, columns), np.int64)
    codes[:, 0] = generator.random(rows) < 0.2
    for column in range(1, columns):
        codes[:, column] = np.where(generator.random(rows) < 0.8, codes[:, column - 1], generator.random(rows) < 0.3)
    return codes


def curator(rho, *, rows=1000, neighbours=Neighbours.REPLACE_ONE, journal=None, seed="d"):
    table = Table(DOMAIN, skewed(rows))
    return Curator(table, DOMAIN, neighbours, Fraction(rho), journal or Journal(), Quiet(), seeded_entropy(seed))


@pytest.mark.parametrize(
    ("rounds", "samples", "eta", "rows"), [(2, 1, 3.0, 10), (7, 5, 0.25, 1000), (60, 9, 1.1, 48842)]
)
def test_cost_is_the_sum_over_the_rounds(rounds, samples, eta, rows):
    """By the ranges ε_t = 2η(t − 1)/n of its exponential mechanisms, and by the closed formula."""
    found = Parameters(rounds, samples, Fraction(eta) ** 2 / (2 * rows**2))
    ranges = [2 * Fraction(eta) * (t - 1) / rows for t in range(1, rounds + 1)]
    assert found.cost == sum((samples * e**2 / 8 for e in ranges), Fraction(0))
    assert found.cost == sum((samples * found.draw_cost(t - 1) for t in range(1, rounds + 1)), Fraction(0))
    closed = samples * eta**2 * rounds * (rounds - 1) * (2 * rounds - 1) / (12 * rows**2)
    assert float(found.cost) == pytest.approx(closed, rel=1e-12)
    assert found.eta(rows) == pytest.approx(eta, rel=1e-12)


def test_the_curator_draws_at_the_rate_of_the_paper():
    """λ = √(2ρ_t)/(t − 1) is η/n for every t, so that P ∝ exp(η·Σ (q(D) − q(x_i))), and the range is 2η(t − 1)/n."""
    found = Parameters(9, 2, Fraction(Fraction(7, 10) ** 2, 2 * 500**2))
    for played in range(1, 9):
        rate = selection_rate(found.draw_cost(played), played)
        assert float(rate) == pytest.approx(0.7 / 500, rel=1e-12)
        assert rate <= Fraction(7, 10) / 500


def test_draws_follow_the_weights():
    """The score of a cell is (t − 1)·count − n·(records in it): frequencies within 5 standard errors of exp(η·Σ …)."""
    rows, played, eta, draws = 1000, 3, 1.5, 20_000
    counts = RecordCounts(DOMAIN, PAIRS.cliques[:1])
    for record in ([0, 0, 1, 1], [0, 1, 0, 0], [0, 0, 0, 0]):
        counts.add(np.array(record))
    assert counts.of(PAIRS.cliques[0]).tolist() == [2, 1, 0, 0]
    cost = Parameters(4, 1, Fraction(eta) ** 2 / (2 * rows**2)).draw_cost(played)
    drawn = curator(draws * cost).sample_cells(PAIRS.cliques[:1], lambda c: rows * counts.of(c), played, draws, cost)
    exact = Table(DOMAIN, skewed(rows)).marginal(PAIRS.cliques[0]).dense() / rows
    exponent = eta * (played * exact - counts.of(PAIRS.cliques[0]))
    weights = np.concatenate([np.exp(exponent), np.exp(-exponent)])
    expected = weights / weights.sum()
    seen = np.bincount([cell + (4 if sign < 0 else 0) for (_, cell), sign in drawn], minlength=8) / draws
    assert (np.abs(seen - expected) < 5 * np.sqrt(expected / draws)).all()


@pytest.fixture
def small(db):
    db.sql("CREATE TABLE t AS SELECT (i % 3)::TINYINT AS a, (i % 4 // 2)::TINYINT AS b FROM range(4000) r(i)")
    db.protect("t", epsilon=10.0, delta=1e-8, neighbours="replace_one")
    for column, top in (("a", 2), ("b", 1)):
        db.domain("t", column, lower=0, upper=top, nulls=False)
    return db


def random_goal(generator, attributes: int, values: int, count: int, *, thresholds: bool = False) -> Goal:
    asked, wanted = np.zeros((count, attributes), bool), np.zeros((count, attributes), np.int64)
    for row in range(count):
        columns = generator.choice(attributes, generator.integers(1, 4), replace=False)
        asked[row, columns] = True
        wanted[row, columns] = np.minimum(generator.geometric(0.4, len(columns)) - 1, values - 1)
    slack = np.array([generator.integers(0, parts) for parts in asked.sum(axis=1)], np.int16) * thresholds
    return Goal((values,) * attributes, asked, wanted, generator.choice([-1.0, 1.0, 2.0], count), slack)


@pytest.mark.medium
@pytest.mark.parametrize("thresholds", [False, True])
def test_local_search_reaches_the_integer_program(thresholds):
    """Never above the proven optimum, and below it once in 60 random instances at most; small ones by enumeration."""
    generator, below, instances = np.random.default_rng(0), 0, depth(60)
    for number in range(instances):
        attributes, values, count = [(4, 3, 12), (6, 4, 30), (12, 8, 40)][number % 3]
        goal = random_goal(generator, attributes, values, count, thresholds=thresholds)
        exact = exact_record(goal, 60, generator)
        found = goal.values(np.array([exact, local_record(goal, generator, Quiet())]))
        if number % 3 == 0:
            every = np.array(list(itertools.product(range(values), repeat=attributes)))
            assert goal.values(every).max() == pytest.approx(found[0])
        assert found[1] <= found[0] + 1e-9
        below += found[1] < found[0] - 1e-9
    assert below <= instances // 60


@pytest.mark.parametrize("thresholds", [False, True])
def test_climbing_never_loses_and_bias_counts(thresholds):
    generator = np.random.default_rng(1)
    goal = random_goal(generator, 6, 4, 50, thresholds=thresholds)
    starts = random_records(goal, 30, generator)
    bias = generator.standard_exponential((30, 24))
    after = climb(goal, starts, generator, Quiet(), bias)
    assert (goal.values(after, bias) >= goal.values(starts, bias) - 1e-9).all()
    expected = goal.values(after) + [
        sum(b[4 * i + v] for i, v in enumerate(x)) for b, x in zip(bias, after, strict=True)
    ]
    np.testing.assert_allclose(goal.values(after, bias), expected)
    for attribute in range(6):  # no single change helps
        for value in range(4):
            moved = after.copy()
            moved[:, attribute] = value
            assert (goal.values(moved, bias) <= goal.values(after, bias) + 1e-6).all()


@pytest.mark.medium
@pytest.mark.parametrize("search", ["auto", "milp", "local"])
def test_best_record(search):
    generator = np.random.default_rng(2)
    clique = PAIRS.cliques[0]
    goal = Goal.of(DOMAIN, [(clique, 3), (clique, 0), (clique, 3), (("b2",), 1), (("b2",), 1)], [1, 1, 1, 1, -1])
    assert goal.weights.tolist() == [2.0, 1.0]  # merged, and what cancels is left out
    records = np.array([best_record(goal, search, 5.0, generator, Quiet()) for _ in range(40)])
    assert (records[:, :2] == 1).all()
    assert len(np.unique(records[:, 2:], axis=0)) == 4  # what no query asks for is drawn
    avoid = Goal.of(DOMAIN, [(clique, cell) for cell in range(3)], [-1.0] * 3)
    assert best_record(avoid, search, 5.0, generator, Quiet())[:2].tolist() == [1, 1]
    nothing = Goal.of(DOMAIN, [], [])
    assert best_record(nothing, search, 5.0, generator, Quiet()).shape == (4,)


def test_a_time_limit_still_gives_a_record():
    goal = random_goal(np.random.default_rng(3), 14, 10, 200)
    found = best_record(goal, "milp", 0.01, np.random.default_rng(0), Quiet())
    assert ((found >= 0) & (found < 10)).all()


@pytest.mark.medium
def test_error_at_alpha():
    """200,000 rows, all 2-way marginals of 3 Boolean columns, α = 0.6, β = 0.05, at what the paper's parameters cost.

    The theorem allows an error above α in 1 of 20 runs; about 0.01 is seen, so a false alarm of the bound α/3 is far rarer.
    """
    mechanism, rows = DualQuery(alpha=0.6), 200_000
    pairs = Workload(tuple(itertools.combinations(DOMAIN.names[:3], 2)))
    asked = mechanism.parameters(DOMAIN, pairs, Fraction(100), rows)
    assert asked.rounds == math.ceil(16 * math.log(24) / 0.36)
    assert asked.samples == math.ceil(48 * math.log(2 * 16 * asked.rounds / 0.05) / 0.36)
    assert asked.eta(rows) == pytest.approx(0.15)
    kernel = curator(asked.cost, rows=rows)
    outcome = mechanism.run(kernel, pairs, asked.cost, 0, Quiet())
    assert kernel.remaining == 0
    assert Table(DOMAIN, skewed(rows)).largest_error(outcome.model, pairs.cliques) <= 0.6 / 3
    assert len(outcome.model.codes) == asked.rounds


@pytest.mark.slow
def test_more_budget_is_nearer():
    """The mean of three runs; a table of uniform rows would err by 0.35."""
    errors = []
    for rho in (Fraction(1, 10_000), Fraction(1, 2)):
        runs = [
            DualQuery().run(curator(rho, rows=2000, seed=str(seed)), PAIRS, rho, seed, Quiet()) for seed in range(3)
        ]
        table = Table(DOMAIN, skewed(2000))
        errors.append(np.mean([table.largest_error(run.model, PAIRS.cliques) for run in runs]))
    assert errors[1] < 0.6 * errors[0]
    assert errors[1] < 0.1


def test_a_sample_plays_with_half_the_alpha():
    """m = 2 ln(2|Q|/β)/α², T′ = 64 ln|Q|/α², η′ = α/8, s′ = 192 ln(2|X|T′/β)/α², and m in place of n in the cost."""
    pairs = Workload(tuple(itertools.combinations(DOMAIN.names[:3], 2)))
    mechanism = DualQuery(alpha=0.6, subsample=True)
    played = mechanism.played_rows(DOMAIN, pairs, 200_000)
    assert played == math.ceil(2 * math.log(2 * 24 / 0.05) / 0.36)
    found = mechanism.parameters(DOMAIN, pairs, Fraction(10**6), played)
    assert found.rounds == math.ceil(64 * math.log(24) / 0.36)
    assert found.samples == math.ceil(192 * math.log(2 * 16 * found.rounds / 0.05) / 0.36)
    assert found.eta(played) == pytest.approx(0.6 / 8)
    t, s = found.rounds, found.samples
    assert float(found.cost) == pytest.approx(s * (0.6 / 8) ** 2 * t * (t - 1) * (2 * t - 1) / (12 * played**2))
    assert DualQuery(subsample=True).played_rows(DOMAIN, pairs, 1000.0) == 1000.0  # no more than there are
    assert DualQuery(subsample=True, sample_rows=70).played_rows(DOMAIN, pairs, 1000.0) == 70
    assert DualQuery().played_rows(DOMAIN, pairs, 1000.0) == 1000.0


def test_a_sample_is_counted_instead_of_the_table():
    """The draws follow the counts of one sample of 300 rows of 200,000: frequencies within 5 standard errors."""
    rows, draws, eta = 300, 20_000, 1.5
    kernel, seen = curator(Fraction(10), rows=200_000), []
    among = kernel._counter.among
    kernel._counter.among = lambda places: seen.append(among(places)) or seen[-1]
    counts = RecordCounts(DOMAIN, PAIRS.cliques[:1])
    cost = Parameters(4, 1, Fraction(eta) ** 2 / (2 * rows**2)).draw_cost(2)
    for _ in range(2):  # the second question is of the same sample
        drawn = kernel.sample_cells(PAIRS.cliques[:1], lambda c: rows * counts.of(c), 2, draws // 2, cost, rows)
    assert len(seen) == 1
    assert len(seen[0].codes) == rows
    assert kernel.remaining == 10 - draws * cost
    exponent = eta * 2 * seen[0].marginal(PAIRS.cliques[0]).dense() / rows
    weights = np.concatenate([np.exp(exponent), np.exp(-exponent)])
    expected = weights / weights.sum()
    found = np.bincount([cell + (4 if sign < 0 else 0) for (_, cell), sign in drawn], minlength=8) / len(drawn)
    assert (np.abs(found - expected) < 5 * np.sqrt(expected / len(drawn))).all()
    assert kernel._journal.answers[-1].question.sample == 300


@pytest.mark.medium
def test_a_release_from_a_sample(small):
    """Through the public door: the plan and the report name the sample, and ε standing alone is less than was charged."""
    how = {"mechanism": "dualquery", "rounds": 20, "subsample": True, "sample_rows": 500}
    workload = "SELECT a, b, count(*) FROM t GROUP BY ALL"
    note = small.sql(
        "SELECT note FROM dp_plan('t', epsilon := 0.5, workload := $1, mechanism := 'dualquery', rounds := 20, "
        "subsample := true, sample_rows := 500) WHERE note LIKE '%sample%'",
        [workload],
    ).fetchall()[0][0]
    alone = float(note.split("standing alone, has epsilon ")[1].split()[0])
    singles = Fraction(1, 3) * price(DualQuery().questions(DOMAIN, PAIRS, Neighbours.REPLACE_ONE), 0.5, 1e-8).rho
    assert zcdp_epsilon(singles, 1 / 4000**2) < alone < 0.5  # the 1-way marginals are of all rows
    release = small.synthesize("t", 0.5, workload=workload, **how)
    assert json.loads(small.releases().iloc[-1].report)["sample"] == 500
    assert len(release.df()) == 4000


@pytest.mark.parametrize("inner", [0.1, 1.0, 6.0])
@pytest.mark.parametrize("rows", [2, 10, 1000])
def test_amplification_is_exact_for_randomised_response(inner, rows):
    """One bit of one of n rows, told by randomised response: the loss of a replaced row is ln(1 + (e^ε − 1)/n) exactly.

    Broken twins: ε·m/n, the first term of the series, promises too much; no amplification, nothing.
    """
    told = math.exp(inner) / (1 + math.exp(inner))
    without = 1 - told  # all rows 0: P(1)
    with_one = told / rows + (1 - told) * (1 - 1 / rows)
    loss = math.log(with_one / without)
    assert amplified(lambda delta: inner, 1 / rows, 1e-9) == pytest.approx(loss, rel=1e-9)
    assert loss > inner / rows
    assert loss < inner


def test_sampling_buys_no_privacy_at_the_same_eta():
    """ln(1 + (m/n)(e^{ε_m} − 1)) ≥ ε_n with ε_m = (n/m)·ε_n, and δ is (m/n)·δ_m."""
    for share in (0.001, 0.1, 0.5, 1.0):
        for whole in (0.01, 0.3, 2.0):
            assert amplified(lambda delta, e=whole / share: e, share, 1e-9) >= whole * (1 - 1e-12)
    asked = []
    amplified(lambda delta: asked.append(delta) or 1.0, 0.25, 1e-9)
    assert asked == [4e-9]


@pytest.mark.parametrize("rho", [Fraction(1, 10**6), Fraction(1, 70), Fraction(3)])
@pytest.mark.parametrize("rows", [1, 60, 48842])
@pytest.mark.parametrize("options", [{}, {"rounds": 30}, {"samples": 7}, {"rounds": 2, "samples": 1}])
def test_solved_eta_costs_exactly_rho(rho, rows, options):
    assert DualQuery(**options).parameters(DOMAIN, PAIRS, rho, rows).cost == rho


@pytest.mark.parametrize("eta", [0.01, 0.3, 2.5])
@pytest.mark.parametrize("samples", [1, 11])
def test_solved_rounds_cost_at_most_rho_and_one_more_costs_more(eta, samples):
    rho, rows = Fraction(1, 70), 48842
    found = DualQuery(eta=eta, samples=samples).parameters(DOMAIN, PAIRS, rho, rows)
    assert found.cost <= rho
    assert found.eta(rows) == pytest.approx(eta)
    more = Parameters(found.rounds + 1, samples, found.unit)
    assert more.cost > rho or found.rounds == 10_000


@pytest.mark.parametrize("share", [0.001, 0.1, 1.0])
def test_what_all_rows_tell_adds_to_what_a_sample_tells(share):
    """Never below the ε of either part, nor above that of both on all rows; the game's alone is the broken twin."""
    delta, game, singles = 1e-9, Fraction(1, 50), Fraction(1, 100)
    found = alone_epsilon(game, singles, share, delta)
    of_sample = amplified(lambda inner: zcdp_epsilon(game, inner), share, delta)
    assert max(of_sample, zcdp_epsilon(singles, delta)) < found <= zcdp_epsilon(game + singles, delta)
    parts = zcdp_epsilon(singles, delta / 2) + amplified(lambda inner: zcdp_epsilon(game, inner), share, delta / 2)
    assert found == pytest.approx(min(parts, zcdp_epsilon(game + singles, delta)))
    assert found < zcdp_epsilon(game + singles, delta) or share > 0.05, "a small sample saves something"


def test_the_promise_of_a_sample_has_the_sample_s_own_error():
    notes = [
        one.note
        for one in DualQuery(alpha=0.6, subsample=True).plan(
            DOMAIN, PAIRS, Neighbours.REPLACE_ONE, Fraction(10**7), 10**6
        )
        if isinstance(one, Remark)
    ]
    (said,) = [note for note in notes if "within" in note]
    error, probability = map(float, re.search(r"within (\S+) of the rows with probability (\S+)", said).groups())
    assert 0.55 < error <= 0.6, "half of it is the sample's"
    assert probability == 1 - 1.5 * 0.05


def every_parameters(wanted: Accuracy) -> float:
    """The least s·η²·T(T − 1)(2T − 1) that promises α, of a grid of η for every T."""
    best = math.inf
    for rounds in range(2, 40 * math.ceil(math.log(wanted.queries) / wanted.alpha**2)):
        eta = np.linspace(0, wanted.alpha, 402)[1:-1]
        left = wanted.alpha - eta - math.log(wanted.queries) / (eta * rounds)
        records = wanted.log_records + math.log(2 * rounds / wanted.beta)
        samples = np.ceil(12 * records / np.maximum(left, 1e-9) ** 2)
        cost = samples * eta**2 * rounds * (rounds - 1) * (2 * rounds - 1)
        best = min(best, cost[left > 0].min(initial=math.inf))
    return best


@pytest.mark.parametrize("alpha", [0.5, 0.7, 0.9])
def test_the_least_constants_promise_alpha_at_the_least_cost(alpha):
    """No (T, η, s) of a grid promises α for less; the paper's are the dear twin."""
    wanted = Accuracy(math.log(500), 300, alpha, 0.05, constants="least")
    found = wanted.parameters(1.0)
    bound = dualquery_bound(wanted.log_records, wanted.queries, found.rounds, found.samples, found.eta(1.0), 0.05)
    assert alpha * 0.99 < bound.error <= alpha * (1 + 1e-9)
    least = every_parameters(wanted)
    assert float(12 * found.cost) <= least * (1 + 1e-9)
    assert float(12 * replace(wanted, constants="paper").parameters(1.0).cost) > 2 * least


@pytest.mark.parametrize(
    "given",
    [{"rounds": 150}, {"eta": 0.1}, {"samples": 6000}, {"rounds": 150, "eta": 0.1}, {"rounds": 150, "samples": 6000},
     {"eta": 0.1, "samples": 6000}, {"rounds": 150, "eta": 0.1, "samples": 6000}],
)  # fmt: skip
def test_what_is_given_stays_and_the_rest_promises_alpha(given):
    wanted = Accuracy(math.log(500), 300, 0.7, 0.05, constants="least", **given)
    wanted.check_promised()
    found = wanted.parameters(1.0)
    now = {"rounds": found.rounds, "eta": found.eta(1.0), "samples": found.samples}
    assert {name: now[name] for name in given} == pytest.approx(given)
    bound = dualquery_bound(wanted.log_records, wanted.queries, found.rounds, found.samples, found.eta(1.0), 0.05)
    assert bound.error <= 0.7 * (1 + 1e-9)
    assert found.cost >= replace(wanted, rounds=None, eta=None, samples=None).parameters(1.0).cost


@pytest.mark.parametrize("constants", ["paper", "least"])
@pytest.mark.parametrize("given", [{"rounds": 20, "eta": 0.1, "samples": 20}, {"rounds": 3}, {"eta": 0.65}])
def test_an_alpha_that_the_theorem_does_not_promise_is_refused(constants, given):
    """A plan would otherwise name an ε by which nothing is proven."""
    mechanism = DualQuery(alpha=0.6, constants=constants, **given)
    with pytest.raises(InvalidArgument, match="leave them out, or alpha"):
        mechanism.check(DOMAIN, PAIRS, Neighbours.REPLACE_ONE)


def test_most_rounds():
    assert [most_rounds(Fraction(n)) for n in (0, 1, 4, 5, 13, 14, 10**30)] == [1, 2, 2, 3, 3, 4, 10_000]


class Eager(DualQuery):
    """The broken twin: it draws at η·√2, and so pays and asks for twice the ρ."""

    def parameters(self, domain, workload, rho, rows):
        found = super().parameters(domain, workload, rho, rows)
        return Parameters(found.rounds, found.samples, 2 * found.unit)


def test_the_curator_refuses_a_larger_eta():
    """It is stopped when what it draws would exceed the charge, and has been shown no more than was charged."""
    for rounds in (2, 12):
        journal, rho = Journal(), Fraction(1, 100)
        honest = DualQuery(rounds=rounds, samples=3)
        honest.run(curator(rho), PAIRS, rho, 0, Quiet())
        twin = Eager(rounds=rounds, samples=3)
        assert twin.parameters(DOMAIN, PAIRS, rho, 1000).cost == 2 * rho
        with pytest.raises(InsufficientBudget):
            twin.run(curator(rho, journal=journal), PAIRS, rho, 0, Quiet())
        assert sum(answer.rho for answer in journal.answers) <= rho


def test_alpha_that_is_too_dear_gets_the_eta_that_is_paid_for():
    """n is known in the run only, after the charge: nothing is lost, and the release says what would have fitted."""
    with pytest.raises(InvalidArgument, match=r"alpha 0.3 costs rho = .* alpha := 0\.\d+ fits"):
        DualQuery(alpha=0.3).parameters(DOMAIN, PAIRS, Fraction(1), 20_000)
    with pytest.raises(InvalidArgument, match="no alpha below 1 fits"):
        DualQuery(alpha=0.3).parameters(DOMAIN, PAIRS, Fraction(1, 50), 1000)
    for options in ({"alpha": 0.9, "rounds": 5, "samples": 4}, {"eta": 1e6, "rounds": 5, "samples": 4}):
        journal, rho = Journal(), Fraction(1, 10**6)
        report = DualQuery(**options).run(curator(rho, journal=journal), PAIRS, rho, 0, Quiet()).report
        assert sum(answer.rho for answer in journal.answers) == rho
        assert "played with eta" in report["warning"]


@pytest.mark.parametrize(
    ("options", "advice"),
    [({"alpha": 0.3}, r"alpha := 0\.\d+ fits|no alpha below 1 fits"), ({"eta": 1e6, "rounds": 5}, "give eta := ")],
)
def test_where_n_is_public_what_it_cannot_pay_is_refused(options, advice):
    """`check_public_rows` is asked before the charge; with privacy units, or a private n, the run warns instead."""
    mechanism, rho, relation = DualQuery(**options), Fraction(1, 10**6), Neighbours.REPLACE_ONE
    with pytest.raises(InvalidArgument, match=advice):
        mechanism.check_public_rows(DOMAIN, PAIRS, relation, rho, 1000)
    mechanism.check_public_rows(DOMAIN, PAIRS, relation, Fraction(10**12), 1000)
    DualQuery().check_public_rows(DOMAIN, PAIRS, relation, rho, 0)


@pytest.mark.medium
@pytest.mark.parametrize("options", [{"alpha": 0.2, "faithful": True}, {"eta": 1e6, "rounds": 5, "samples": 4}])
def test_what_a_public_n_cannot_pay_is_not_charged(small, options):
    with pytest.raises(InvalidArgument, match="fits|at most"):
        small.synthesize("t", 0.1, mechanism="dualquery", **options)
    assert small.budget().epsilon_spent.tolist() == [0.0]


def range_rate(found: Parameters, played: int) -> float:
    """ε_t = 2λ(t − 1) of a draw of round t, as the curator draws it: λ from the draw's ρ."""
    return 2 * float(selection_rate(found.draw_cost(played), played)) * played


def renyi(p: float, q: float, order: float) -> float:
    """D_order(p‖q) of two coins, natural logarithm."""
    return math.log(p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order)) / (order - 1)


def coins(gap: float, score: float) -> tuple[float, float]:
    """How likely a cell is drawn, and not its negation, on two neighbours: by the cell's score, which moves by `gap`."""
    return 1 / (1 + math.exp(-score)), 1 / (1 + math.exp(-score - gap))


@pytest.mark.parametrize(("rounds", "samples", "eta"), [(12, 3, 4.0), (40, 5, 2.0), (200, 40, 0.3)])
def test_rho_against_the_renyi_divergence_of_the_draws(rounds, samples, eta):
    """Over all scores that a cell may have the composed divergence is at most ρ·order, and reaches 0.97 of it."""
    rows = 1000
    found = Parameters(rounds, samples, Fraction(eta) ** 2 / (2 * rows**2))
    for order in (1.01, 2.0, 10.0):
        worst = 0.0
        for played in range(1, rounds):
            gap = range_rate(found, played)
            scores = np.linspace(-3 - gap, 3, 301)
            both = [coins(gap, score) for score in scores]
            worst += samples * max(max(renyi(p, q, order), renyi(q, p, order)) for p, q in both)
        assert worst <= float(found.cost) * order * (1 + 1e-9)
        assert worst >= 0.97 * float(found.cost) * order


def test_the_check_by_renyi_divergence_would_see_half_of_rho():
    """The broken twin: half of the formula is no bound of the divergence of order 2."""
    found = Parameters(40, 5, Fraction(2) ** 2 / (2 * 1000**2))
    gaps = [range_rate(found, played) for played in range(1, 40)]
    assert sum(5 * renyi(*coins(gap, -gap / 2), 2.0) for gap in gaps) > 2.0 * float(found.cost) / 2


@pytest.mark.medium
@pytest.mark.parametrize("shift", [0.0, -1.0, 1.0])
def test_epsilon_against_the_numerical_composition_of_the_draws(shift):
    """dp-accounting composes the exact privacy losses of all draws: at most ε from ρ, and within a fifth of it where
    each draw is as likely to be one thing as the other, which tells most."""
    accounting = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    rounds, samples, rows = 30, 4, 1000
    found = Parameters(rounds, samples, Fraction(4) ** 2 / (2 * rows**2))
    composed = None
    for played in range(1, rounds):
        gap = range_rate(found, played)
        p, q = coins(gap, shift - gap / 2)
        one = accounting.from_two_probability_mass_functions(
            {0: math.log(p), 1: math.log1p(-p)},
            {0: math.log(q), 1: math.log1p(-q)},
            pessimistic_estimate=True,
            value_discretization_interval=1e-5,
        ).self_compose(samples)
        composed = one if composed is None else composed.compose(one)
    for delta in (1e-4, 1e-6, 1e-9):
        exact = composed.get_epsilon_for_delta(delta)
        ours = zcdp_epsilon(found.cost, delta)
        assert exact <= ours
        if not shift:
            assert ours <= 1.2 * exact
            assert zcdp_epsilon(found.cost / 2, delta) < exact  # the broken twin


def test_the_alpha_that_is_offered_fits():
    with pytest.raises(InvalidArgument) as refused:
        DualQuery(alpha=0.3).parameters(DOMAIN, PAIRS, Fraction(1), 20_000)
    offered = float(str(refused.value).split("alpha := ")[1].split(" ")[0])
    assert DualQuery(alpha=offered).parameters(DOMAIN, PAIRS, Fraction(1), 20_000).cost <= 1
    with pytest.raises(InvalidArgument):
        DualQuery(alpha=offered - 0.002).parameters(DOMAIN, PAIRS, Fraction(1), 20_000)


@pytest.mark.parametrize("options", [{"eta": 50.0}, {"eta": 50.0, "rounds": 40}])
def test_eta_that_is_too_large_is_refused_and_what_is_offered_fits(options):
    rho = Fraction(1, 1000)
    with pytest.raises(InvalidArgument, match="eta := ") as refused:
        DualQuery(samples=5, **options).parameters(DOMAIN, PAIRS, rho, 100)
    offered = float(str(refused.value).split("eta := ")[1].split(" ")[0])
    found = DualQuery(samples=5, **{**options, "eta": offered}).parameters(DOMAIN, PAIRS, rho, 100)
    assert 0.99 * rho < found.cost <= rho


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"alpha": 0.0}, "alpha is 0: give a number between 0 and 1"),
        ({"alpha": 1.0}, "alpha is 1"),
        ({"alpha": -0.5}, "alpha is -0.5"),
        ({"alpha": math.nan}, "alpha is nan"),
        ({"beta": 0.0}, "beta is 0"),
        ({"beta": 1.0}, "beta is 1"),
        ({"rounds": 1}, "rounds is 1: give 2 to"),
        ({"samples": 0}, "samples is 0"),
        ({"eta": 0.0}, "eta is 0"),
        ({"eta": math.nan}, "eta is nan"),
        ({"seconds": 0.0}, "seconds is 0"),
        ({"sample_rows": 50}, "sample_rows is 50, of what sample"),
        ({"sample_rows": 0, "subsample": True}, "sample_rows is 0"),
        ({"alpha": 0.5, "start": "marginals"}, "alpha is 0.5, which the theorem promises of the paper's algorithm"),
        ({"alpha": 0.5, "records": 2}, "say faithful := true, or leave alpha out"),
        ({"constants": "least"}, "constants is 'least', of which alpha"),
        ({"alpha": 0.5, "constants": "few"}, "constants is 'few': say one of 'paper', 'least'"),
        ({"search": "quick"}, "search is 'quick': say one of 'auto', 'milp', 'local'"),
    ],
)
def test_bad_options(options, said):
    with pytest.raises(InvalidArgument, match=said):
        DualQuery(**options)


def test_refused_from_public_facts():
    wide = Domain(tuple(Attribute(f"c{i}", "INTEGER", "values", tuple("abcdefghij")) for i in range(8)))
    mechanism = DualQuery()
    with pytest.raises(DomainTooLarge, match="at most 20000000 fit"):
        mechanism.check(wide, Workload((wide.names,)), Neighbours.ADD_REMOVE)
    mechanism.check(wide, Workload((wide.names[:7],)), Neighbours.ADD_REMOVE)
    with pytest.raises(DomainTooLarge, match="at most 20000000 fit"):
        mechanism.check(wide, Workload((), (Threshold(wide.names, 2),)), Neighbours.ADD_REMOVE)
    with pytest.raises(InvalidArgument, match="would take days"):
        DualQuery(alpha=0.01).check(DOMAIN, PAIRS, Neighbours.ADD_REMOVE)


def test_plan_compares_the_four_analyses():
    """ρ of the note is four times ours; the original composes all rounds as if they were the last."""
    *planned, promise = DualQuery().plan(DOMAIN, PAIRS, Neighbours.ADD_REMOVE, Fraction(1, 70), 48842)
    assert sum(line.rho for line in planned) == pytest.approx(1 / 70)
    assert promise.topic == "promise"
    found = DualQuery().parameters(DOMAIN, PAIRS, Fraction(99, 7000), 48842)
    delta, note = 1 / 48842**2, planned[-1].note
    original = original_epsilon(found, 48842, delta)
    ours, theirs = zcdp_epsilon(found.cost, delta), simple_epsilon(4 * found.cost, delta)
    pure = sum(found.samples * 2 * found.eta(48842) * played / 48842 for played in range(found.rounds))
    assert ours < theirs < original
    shown = [up(epsilon, 4) for epsilon in (ours, theirs, original)]  # a loss is rounded up
    assert "by this analysis {}, by the note's {}, by the original paper's {}".format(*shown) in note
    assert f"pure (delta 0) {up(pure, 4)}" in note
    refused = DualQuery(alpha=0.1).plan(DOMAIN, PAIRS, Neighbours.REPLACE_ONE, Fraction(1, 70), 1000)
    assert "would cost more than there is for 1000 rows: alpha 0.1 costs" in refused[-1].note


def test_a_plan_foresees_that_a_larger_charge_plays_longer(db):
    """Ten times the ε plays more rounds and more draws, so that Adult's release took 9, 33 and 505 CPU seconds."""
    db.sql("CREATE TABLE t AS SELECT i % 700 AS a, i % 500 AS b FROM range(1000) r(i)")
    db.protect("t", epsilon=100.0, delta=1e-6)
    for name, size in (("a", 700), ("b", 500)):
        db.domain("t", name, lower=0, upper=size - 1, bins=size, nulls=False)
    plan = "SELECT max(seconds) FROM dp_plan('t', epsilon := {}, mechanism := 'dualquery', assume_rows := 1000000)"
    seconds = [db.sql(plan.format(epsilon)).fetchone()[0] for epsilon in (0.01, 0.1, 1)]
    assert seconds[0] < seconds[1] < seconds[2]
