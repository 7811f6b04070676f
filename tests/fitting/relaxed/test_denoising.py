"""1-way marginals are nearer to the truth when they are denoised, on Adult; what is no column is left alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpsql.fitting.relaxed.denoising import denoised, haar, posterior_mean
from dpsql.fitting.relaxed.table import simplex_projection
from dpsql.fitting.target import Target

from ...adult import adult_codes, domain_of, exact, noisy

STDDEV = 120.0
CODES, SIZES = adult_codes()
DOMAIN = domain_of(tuple(SIZES))


def error(shares: np.ndarray, name: str) -> float:
    return float(np.abs(shares - exact((name,)) / len(CODES)).sum())


def mean_errors(name: str) -> tuple[float, float]:
    """Of the nearest distribution, and of the denoised one, over ten noises."""
    before, after = [], []
    for seed in range(10):
        one = noisy((name,), STDDEV, seed)
        before.append(error(simplex_projection(one.values / len(CODES)), name))
        (made,) = denoised(DOMAIN, [one], float(len(CODES)))
        assert made.values.min() >= 0
        assert math.isclose(made.values.sum(), len(CODES), rel_tol=1e-9)
        after.append(error(made.values / len(CODES), name))
    return float(np.mean(before)), float(np.mean(after))


@pytest.mark.parametrize(
    ("name", "most"),
    [("age", 0.85), ("fnlwgt", 0.85), ("native-country", 0.8), ("capital-loss", 0.93), ("hours-per-week", 0.99)],
)
def test_columns_of_many_values_are_nearer_to_the_truth(name, most):
    before, after = mean_errors(name)
    assert after < most * before


def test_columns_of_few_values_are_not_worse():
    for name in ("education-num", "marital-status", "race"):
        before, after = mean_errors(name)
        assert after < 1.1 * before


def test_what_is_no_noisy_column_stays():
    pair = Target(("age", "race"), (2, 2), np.array([5.0, -1.0, 3.0, 2.0]), 4.0)
    public = Target(("race",), (5,), np.arange(5.0), 0.0)
    part = Target(("age",), (85,), np.array([7.0]), 4.0, cells=(3,))
    assert denoised(DOMAIN, [pair, public, part], 100.0) == [pair, public, part]


def test_neighbours_that_have_nothing_in_common_keep_their_counts():
    """The transform of a column without an order is nearly the column: its thresholds are near 0."""
    values = np.random.default_rng(0).permutation(np.arange(64) * 1000.0)
    assert np.abs(haar(values, 10.0) - values).max() < 60


def test_where_a_long_column_begins_hardly_matters():
    """Shifts that are all even would pair the same neighbours each time: 1.4σ apart, here 0.02σ."""
    values = np.random.default_rng(0).normal(0, 1, 128) + np.where(np.arange(128) > 64, 5, 0)
    moved = np.roll(haar(np.roll(values, 1), 1.0), -1)
    assert np.abs(moved - haar(values, 1.0)).max() < 0.1


def test_a_prior_of_small_counts_moves_them_and_leaves_large_ones():
    values = np.array([*np.random.default_rng(0).normal(0, 10, 60), 5000.0])
    moved = posterior_mean(values, 10.0)
    assert moved[-1] == 5000.0
    assert np.abs(moved[:-1]).mean() < 0.3 * np.abs(values[:-1]).mean()
