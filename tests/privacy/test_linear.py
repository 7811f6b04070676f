"""Weighted counts in groups: what one row can change, and the noise that follows from it."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpsql.core.domain import Attribute, Domain
from dpsql.core.linear_query import LinearQuery, Moment, Part
from dpsql.core.marginal import Marginal, Measurement, Presence
from dpsql.core.neighbours import Neighbours
from dpsql.errors import InsufficientBudget, InvalidArgument
from dpsql.privacy.curator import Curator
from dpsql.privacy.distributions import GAUSSIAN
from dpsql.privacy.noise import discrete_gaussian, discrete_laplace
from dpsql.release.intervals import Noisy, plain, ratio
from dpsql.runtime.progress import Quiet

from ..conftest import seeded_entropy
from ..counters import RELATIONS, Journal, Rows

SIZES = {"a": 3, "b": 2, "c": 4}
DOMAIN = Domain(
    tuple(Attribute(name, "INTEGER", "values", tuple(map(str, range(size)))) for name, size in SIZES.items())
)


ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
PARTS = st.sampled_from([(("a",),), (("a", "b"),), (("a", "b"), ("c",)), (("a",), ("b",), ("c",))])


@st.composite
def queries(draw, parts=PARTS, *, of_units=False):
    """Random weights, groups and grouping sets over one to three parts; some aggregates count units."""
    aggregates, sets = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    found = []
    units = draw(st.sets(st.integers(0, aggregates - 1))) if of_units else set()
    for clique in draw(parts):
        cells = DOMAIN.size(clique)
        numbers = st.lists(st.integers(-3, 5), min_size=cells, max_size=cells)
        factors = np.array([draw(numbers) for _ in range(aggregates)])
        for a in units:
            factors[a] = factors[a] > 0
        keys = tuple(draw(st.integers(1, cells)) for _ in range(sets))
        groups = np.array([draw(st.lists(st.integers(0, k - 1), min_size=cells, max_size=cells)) for k in keys])
        found.append(Part(clique, factors, groups, keys))
    return LinearQuery(DOMAIN, tuple(found), frozenset(units))


def contribution(query: LinearQuery, *cells) -> np.ndarray:
    """What the rows of one unit in these cells (None: outside the domain) add to all answers, in scales."""
    inside, counts = np.unique(np.array([cell for cell in cells if cell is not None], np.int64), return_counts=True)
    marginal = Marginal(query.clique, DOMAIN.size(query.clique), inside, counts)
    presence = Presence(query.clique, np.zeros(len(inside), np.int64), inside, np.ones(1, np.int64))
    scaled = [part / np.array(query.scales)[:, None] for part in query.answers(marginal, presence)]
    return np.concatenate([part.ravel() for part in scaled])


def largest(query: LinearQuery, power: int, neighbours: Neighbours) -> float:
    """The most that a row changes, by trying every cell, and every pair of cells; or the rows of a unit."""
    cells = [None, *range(DOMAIN.size(query.clique))]
    if neighbours.unit_rows:
        listed = itertools.combinations_with_replacement(cells[1:], neighbours.unit_rows)
        changes = [contribution(query, *rows) for rows in listed]
    else:
        added = [contribution(query, cell) for cell in cells]
        changes = [x - y for x, y in itertools.combinations(added, 2)] if neighbours.total_is_public else added
    return max(float((np.abs(change) ** power).sum()) for change in changes)


@pytest.mark.medium
@settings(max_examples=200, deadline=None)
@given(queries(), st.sampled_from([1, 2]), st.sampled_from([ADD, REPLACE]))
def test_no_row_changes_more_than_the_sensitivity(query, power, neighbours):
    """Against every neighbour. Broken twins: a count's sensitivity for all, and added rows' for replaced ones."""
    assert largest(query, power, neighbours) <= query.sensitivity(power, neighbours) * (1 + 1e-9)


@pytest.mark.medium
@settings(max_examples=100, deadline=None)
@given(queries(of_units=True), st.sampled_from([1, 2]), st.integers(1, 3))
def test_no_unit_changes_more_than_the_sensitivity(query, power, rows):
    """All ways to spread the rows of a unit over the cells, numbers of units among the aggregates."""
    unit = Neighbours("add_remove", rows)
    assert largest(query, power, unit) <= query.sensitivity(power, unit) * (1 + 1e-9)


@pytest.mark.medium
@settings(max_examples=100, deadline=None)
@given(queries(), st.sampled_from([1, 2]), st.sampled_from(RELATIONS), st.data())
def test_no_value_changes_more_than_the_sensitivity(query, power, neighbours, data):
    """Some aggregates sum a column's own steps, which a row may have anywhere between the bounds."""
    numbers = data.draw(st.sets(st.integers(0, query.aggregates - 1), min_size=1))
    for part in query.parts:
        part.factors[list(numbers)] = part.factors[list(numbers)] > 0
    low = data.draw(st.integers(-9, 9))
    moments = {a: Moment("a", 1.0, low, low + data.draw(st.integers(0, 12))) for a in numbers}
    query = LinearQuery(DOMAIN, query.parts, frozenset(), moments)
    ends = {0} | {end for moment in moments.values() for end in (moment.low, moment.high)}

    def added(cell, steps):
        marginal = Marginal(query.clique, DOMAIN.size(query.clique), np.array([cell]), np.array([1]))
        sums = {
            a: replace(marginal, counts=np.clip(np.array([steps]), moment.low, moment.high))
            for a, moment in moments.items()
        }
        scaled = [part / np.array(query.scales)[:, None] for part in query.answers(marginal, None, sums)]
        return np.concatenate([part.ravel() for part in scaled])

    rows = [added(cell, steps) for cell in range(DOMAIN.size(query.clique)) for steps in ends]
    if neighbours.total_is_public:
        changes = [x - y for x, y in itertools.combinations([*rows, 0 * rows[0]], 2)]
    else:
        changes = [neighbours.cell * row for row in rows]  # the rows of a unit may be alike
    largest_change = max(float((np.abs(change) ** power).sum()) for change in changes)
    assert largest_change <= query.sensitivity(power, neighbours) * (1 + 1e-9)


def test_a_unit_costs_what_its_rows_can_do_together():
    """c² for a count's L2²: twice what c rows in different groups do. Broken twin: c, which c equal rows exceed."""
    clique, ones = ("a",), np.ones((1, 3), np.int64)
    grouped = LinearQuery(DOMAIN, (Part(clique, ones, np.arange(3)[None, :], (3,)),))
    unit = Neighbours("add_remove", 2)
    assert grouped.sensitivity(2, unit) == 4 == largest(grouped, 2, unit)
    assert grouped.sensitivity(1, unit) == 2 == largest(grouped, 1, unit)
    units = LinearQuery(DOMAIN, grouped.parts, frozenset([0]))
    assert units.sensitivity(2, unit) == 2 == largest(units, 2, unit)
    in_all = LinearQuery(DOMAIN, (Part(clique, ones, np.zeros((1, 3), np.int64), (1,)),), frozenset([0]))
    assert in_all.sensitivity(2, Neighbours("add_remove", 8)) == 1


@pytest.mark.medium
@settings(max_examples=100, deadline=None)
@given(queries(parts=st.just((("a", "b"),))), st.sampled_from([1, 2]))
def test_it_is_tight_for_one_part_and_one_set(query, power):
    one_set = LinearQuery(DOMAIN, tuple(Part(p.clique, p.factors, p.groups[:1], p.keys[:1]) for p in query.parts))
    exact = largest(one_set, power, ADD)
    assert one_set.sensitivity(power, ADD) == pytest.approx(max(1.0, exact), rel=1e-9)


def test_broken_twins_of_the_sensitivity_are_noticed():
    """Two disjoint counts cost as much as one; a sum and a count together more; a replaced row twice an added one."""
    clique, groups = ("a",), np.zeros((1, 3), np.int64)
    disjoint = LinearQuery(DOMAIN, (Part(clique, np.array([[1, 0, 0], [0, 1, 1]]), groups, (1,)),))
    assert disjoint.sensitivity(2, ADD) == 1
    both = LinearQuery(DOMAIN, (Part(clique, np.array([[1, 2, 4], [1, 1, 1]]), groups, (1,)),))
    assert both.sensitivity(2, ADD) == pytest.approx(2)
    assert largest(both, 2, ADD) == 2 > 1  # 1, a count's, would be too little
    grouped = LinearQuery(DOMAIN, (Part(clique, np.ones((1, 3), np.int64), np.arange(3)[None, :], (3,)),))
    assert grouped.sensitivity(2, REPLACE) == 2 > grouped.sensitivity(2, ADD)
    signed = LinearQuery(DOMAIN, (Part(clique, np.array([[-2, 0, 2]]), groups, (1,)),))
    assert signed.sensitivity(2, REPLACE) == pytest.approx(4)  # from −2 to 2 with scale 2: (4/2)²
    assert largest(signed, 2, REPLACE) == 4


def curator(neighbours, rho, journal=None, *, pure=None, rows=((0, 0, 0),) * 40 + ((1, 1, 2),) * 25, seed="linear"):
    return Curator(
        Rows(DOMAIN, rows), DOMAIN, neighbours, Fraction(rho), journal or Journal(), Quiet(), seeded_entropy(seed),
        gdp=Fraction(rho) if pure is None else None, pure=pure,
    )  # fmt: skip


AGES = LinearQuery(
    DOMAIN,
    (Part(("a", "b"), np.array([[1] * 6, [10, 20, 30, 40, 50, 60]]), np.array([[0, 0, 1, 1, 2, 2]]), (3,)),),
)


@pytest.mark.medium
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_noise_has_the_spread_that_pays_for_it(neighbours, noise):
    """σ_a = s_a·Δ/√(2ρ), b_a = s_a·Δ₁/ε; over 2,000 runs the variance is within 6 standard errors of what is told."""
    rho = Fraction(1, 50)
    pure = Fraction(1, 5) if noise == "laplace" else None
    found = []
    for run in range(2000):
        asked = curator(neighbours, rho, pure=pure, seed=f"{run}")
        measured = asked.measure_linear(AGES, rho, noise)
        found.append([m.values for m in measured])
        assert asked.remaining == 0
    exact = AGES.answers(Rows(DOMAIN, ((0, 0, 0),) * 40 + ((1, 1, 2),) * 25).marginal(("a", "b")))[0]
    for a, m in enumerate(measured):
        if noise == "gaussian":
            told = AGES.scales[a] ** 2 * AGES.sensitivity(2, neighbours) / (2 * rho) + 1 / 8
        else:
            told = 2 * (AGES.scales[a] * AGES.sensitivity(1, neighbours) / math.sqrt(2 * rho)) ** 2
        assert float(m.variance) == pytest.approx(float(told), rel=1e-6)
        errors = (np.array([run[a] for run in found]) - exact[a]).ravel()
        excess = 5 if noise == "laplace" else 2  # kurtosis − 1
        assert abs((errors**2).mean() / float(told) - 1) < 6 * math.sqrt(excess / len(errors))
        assert abs((errors**2).mean() / (0.75 * float(told)) - 1) > 6 * math.sqrt(
            excess / len(errors)
        )  # a quarter less


def test_the_charge_is_debited_once_and_never_exceeded():
    journal = Journal()
    asked = curator(Neighbours.ADD_REMOVE, Fraction(1, 50), journal)
    asked.measure_linear(AGES, Fraction(1, 50))
    assert sum(answer.rho for answer in journal.answers) == Fraction(1, 50)
    with pytest.raises(InsufficientBudget):
        asked.measure_linear(AGES, Fraction(1, 10**9))
    again = curator(Neighbours.ADD_REMOVE, Fraction(1, 50), Journal(journal.answers), seed="other")
    first = [answer.measurement.values.tolist() for answer in journal.answers]
    assert [m.values.tolist() for m in again.measure_linear(AGES, Fraction(1, 50))] == first
    with pytest.raises(InvalidArgument, match="Gaussian noise proves no pure epsilon"):
        curator(Neighbours.ADD_REMOVE, Fraction(1, 50), pure=Fraction(1, 5)).measure_linear(AGES, Fraction(1, 50))


def noisy(values, stddev: float, noise: str) -> Noisy:
    return Noisy.of(Measurement(("a",), (len(values),), np.asarray(values), Fraction(stddev) ** 2, noise, Fraction(1)))


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize(("total", "count"), [(40_000, 1000), (-3_000, 60), (900, 30)])
def test_intervals_cover(noise, total, count):
    """2,000 runs: 95 % of intervals of sums and counts hold the truth, of averages at least that; too narrow ones fail.

    False alarm: 93 % or 97 % is 4 standard errors away. Laplace averages are wider than they need be.
    """
    generator = np.random.default_rng(7)
    over, under = 90.0, 3.0
    draw = generator.normal if noise == "gaussian" else lambda m, s, n: generator.laplace(m, s / math.sqrt(2), n)
    sums = noisy(np.rint(draw(total, over, 2000)), over, noise)
    counts = noisy(np.rint(draw(count, under, 2000)), under, noise)
    of_sum, of_average = plain(sums, 1.0, whole=True), ratio(sums, counts, 1.0, (-1000.0, 1000.0))
    covered = ((of_sum.low <= total) & (total <= of_sum.high)).mean()
    assert 0.93 <= covered <= 0.97
    true = total / count
    average = ((of_average.low <= true) & (true <= of_average.high)).mean()
    assert 0.93 <= average <= (0.97 if noise == "gaussian" else 1.0)
    middle, half = (of_average.low + of_average.high) / 2, (of_average.high - of_average.low) / 2
    assert (np.abs(true - middle) <= 0.8 * half).mean() < (0.92 if noise == "gaussian" else 0.99)


def test_intervals_of_correlated_sums_and_counts():
    """Of one noisy histogram the sum and the count are made: Fieller with the covariance covers, without it does not."""
    generator, values, rows = np.random.default_rng(3), np.arange(1, 21), np.full(20, 30)
    drawn = rows + np.rint(generator.normal(0, 12.0, (2000, 20)))
    over = Noisy(drawn @ values, 12 * math.sqrt((values**2).sum()), GAUSSIAN)
    under = Noisy(drawn.sum(axis=1), 12 * math.sqrt(20), GAUSSIAN)
    true = (rows @ values) / rows.sum()
    found = ratio(over, under, 1.0, (0.0, 21.0), covariance=12**2 * values.sum())
    assert 0.93 <= ((found.low <= true) & (true <= found.high)).mean() <= 0.97
    without = ratio(over, under, 1.0, (0.0, 21.0))
    assert ((without.low <= true) & (true <= without.high)).mean() > 0.98


@pytest.mark.parametrize(("noise", "stddev"), [("gaussian", 0.504), ("gaussian", 3.0), ("laplace", 1.4)])
def test_intervals_cover_where_noise_is_small(noise, stddev):
    """Whole numbers: the interval's half is rounded up to whole steps, and covers 95 % at least."""
    draw = discrete_gaussian if noise == "gaussian" else discrete_laplace
    parameter = Fraction(stddev**2) if noise == "gaussian" else Fraction(stddev / math.sqrt(2))
    drawn = draw(parameter, 20_000, seeded_entropy("small"))
    found = plain(noisy(1000 + drawn, stddev, noise), 1.0, whole=True)
    assert ((found.low <= 1000) & (found.high >= 1000)).mean() >= 0.945
    assert (np.abs(drawn) <= 1.96 * stddev).mean() < 0.945  # as if the noise were continuous


def test_an_average_of_hardly_any_rows_knows_its_bounds_only():
    found = ratio(noisy([50, -5], 9.0, "gaussian"), noisy([2, -3], 3.0, "gaussian"), 1.0, (0.0, 10.0))
    assert found.low.tolist() == [0, 0]
    assert found.high.tolist() == [10, 10]
    assert np.isnan(found.stderr).all()
    assert np.isnan(found.values).all()


def test_normal_quantile():
    assert stats.norm.ppf(0.975) == pytest.approx(1.959963984540054, rel=1e-15)
