"""Pairs that depend on each other are found in noise that hides each of their cells; independent ones are not."""

from __future__ import annotations

import itertools
import math

import numpy as np

from dpsql.core.domain import Attribute, Domain
from dpsql.fitting.relaxed.strong_pairs import forest_information, strong_pairs
from dpsql.fitting.target import Target

from ...adult import adult_codes, domain_of, noisy

TOTAL = float(len(adult_codes()[0]))


def test_pairs_of_adult_that_everyone_knows_are_found_and_the_strongest_comes_first():
    names = ("marital-status", "relationship", "sex", "race", "fnlwgt")
    measured = [noisy((name,), 50.0, 0) for name in names]
    measured += [noisy(pair, 400.0, 0) for pair in itertools.combinations(names, 2)]
    found = [one.clique for one in strong_pairs(domain_of(names), measured, TOTAL)]
    assert found[0] == ("marital-status", "relationship")
    assert ("relationship", "sex") in found
    assert ("race", "fnlwgt") not in found


def test_a_pair_is_found_although_none_of_its_cells_stands_out():
    """Ten values each, the same in both columns for a sixth of the rows: 150 rows a cell, in noise of 120."""
    rows, size, stddev = 9000.0, 10, 120.0
    domain = Domain(tuple(Attribute(name, "INTEGER", "values", tuple(map(str, range(size)))) for name in "ab"))
    flat = np.full((size, size), rows / size**2 * 5 / 6) + np.eye(size) * rows / size / 6
    generator = np.random.default_rng(0)
    ones = [Target((name,), (size,), np.full(size, rows / size), 1.0) for name in "ab"]

    def found(table: np.ndarray) -> int:
        times = 0
        for _ in range(60):
            values = table.ravel() + generator.normal(0, stddev, size**2)
            pair = Target(("a", "b"), (size, size), values, stddev**2)
            times += len(strong_pairs(domain, [*ones, pair], rows))
        return times

    strong = np.full((size, size), rows / size**2 / 2) + np.eye(size) * rows / size / 2
    assert found(strong) >= 55  # 405 rows in each cell of the diagonal beyond the product
    assert found(flat) < 55  # and fewer where there is less to find
    assert found(np.full((size, size), rows / size**2)) <= 4  # false alarms: 0.4 % each, 5 of 60 in 1 of 10,000


def test_the_information_of_a_forest_counts_no_cycle_twice():
    size = 8
    table = np.eye(size).ravel() * 1000.0
    pairs = [Target(clique, (size, size), table, 1.0) for clique in (("a", "b"), ("b", "c"), ("a", "c"))]
    assert math.isclose(forest_information(pairs), 2 * math.log(size), rel_tol=1e-9)
    assert forest_information([]) == 0.0


def test_triples_tell_of_a_pair_that_its_own_noise_hides():
    """Half of the rows have the same value in both columns beyond the product: lost in the pair's own noise."""
    rows, shape, stddev = 9000.0, (6, 6, 2), 700.0
    domain = Domain(
        tuple(
            Attribute(name, "INTEGER", "values", tuple(map(str, range(n))))
            for name, n in zip("abc", shape, strict=True)
        )
    )
    tied = np.full((6, 6), rows / 72) + np.eye(6) * rows / 12
    ones = [Target((name,), (n,), np.full(n, rows / n), 1.0) for name, n in zip("abc", shape, strict=True)]
    generator = np.random.default_rng(0)

    def times(pair: np.ndarray, *, pooled: bool) -> int:
        found = 0
        for _ in range(40):
            own = pair.ravel() + generator.normal(0, stddev, 36)
            whole = np.repeat(pair.ravel(), 2) / 2 + generator.normal(0, stddev / 5, 72)
            measured = [*ones, Target(("a", "b"), (6, 6), own, stddev**2)]
            measured.append(Target(("a", "b", "c"), shape, whole, (stddev / 5) ** 2))
            found += len(strong_pairs(domain, measured, rows, pooled=pooled))
        return found

    assert times(tied, pooled=True) >= 38
    assert times(tied, pooled=False) <= 25
    assert times(np.full((6, 6), rows / 36), pooled=True) <= 4  # false alarms


def test_a_trend_along_ordered_columns_is_found_in_noise_that_hides_the_pair():
    """Two columns of 32 values whose correlation is 0.6, 20 rows a cell, in noise of 70; without an order it is lost."""
    rows, size, stddev = 20_000.0, 32, 70.0
    place = np.linspace(-1, 1, size)
    rising, generator = np.exp(2 * np.outer(place, place)), np.random.default_rng(0)
    rising *= rows / rising.sum()
    shares = rising.sum(axis=1)
    flat = np.outer(shares, shares) / rows
    ordered = Domain(tuple(Attribute(name, "INTEGER", "bins", ticks=tuple(range(size + 1))) for name in "ab"))
    apart = Domain(tuple(Attribute(name, "INTEGER", "values", tuple(map(str, range(size)))) for name in "ab"))
    ones = [Target((name,), (size,), shares, 1.0) for name in "ab"]

    def times(domain: Domain, pair: np.ndarray, *, trends: bool = True) -> int:
        found = 0
        for _ in range(60):
            values = pair.ravel() + generator.normal(0, stddev, size**2)
            seen = Target(("a", "b"), (size, size), values, stddev**2)
            found += len(strong_pairs(domain, [*ones, seen], rows, trends=trends))
        return found

    assert times(ordered, rising) >= 50
    assert times(ordered, rising, trends=False) <= 20
    assert times(apart, rising) <= 20
    assert times(ordered, flat) <= 5  # false alarms: 0.8 % each, so 6 of 60 are rarer than 1 in 100,000


def test_a_weak_trend_is_no_strong_pair_however_clear_it_is():
    """Its correlation is 0.1, so it has 0.006 nats, and there are ten million rows to see it by."""
    rows, size = 10_000_000.0, 32
    place = np.linspace(-1, 1, size)
    rising = rows / size**2 * (1 + 0.3 * np.outer(place, place))
    domain = Domain(tuple(Attribute(name, "INTEGER", "bins", ticks=tuple(range(size + 1))) for name in "ab"))
    ones = [Target((name,), (size,), np.full(size, rows / size), 1.0) for name in "ab"]
    noise = np.random.default_rng(0).normal(0, 3000.0, size**2)
    assert not strong_pairs(domain, [*ones, Target(("a", "b"), (size, size), rising.ravel() + noise, 3000.0**2)], rows)
    risen = rows / size**2 * (1 + 0.95 * np.outer(place, place))  # 0.061 nats
    (found,) = strong_pairs(domain, [*ones, Target(("a", "b"), (size, size), risen.ravel() + noise, 6000.0**2)], rows)
    assert found.clique == ("a", "b")
