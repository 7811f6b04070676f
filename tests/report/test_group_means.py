"""Means of numbers in groups: those that a report calls likely right are, and a wrong noise is noticed."""

from __future__ import annotations

import numpy as np
import pytest

import dpsql
from dpsql.core.domain import Attribute
from dpsql.release.estimates import Estimate
from dpsql.release.group_means import RIGHT, group_means

GROUPS = Attribute("g", "VARCHAR", "values", tuple("abcdef"))
CELLS = np.array([3.0, 10.0, 25.0, 60.0, 150.0, 400.0, 1500.0, 9000.0])


def table(rng: np.random.Generator) -> np.ndarray:
    """Rows of six groups in eight cells of a skewed number, which groups have more or less of."""
    shares = 0.55 ** np.arange(8) * np.exp(rng.normal(0, 0.35, (6, 1)) * np.arange(8))
    rows = rng.integers(600, 4000, 6)
    return np.array([rng.multinomial(n, share / share.sum()) for n, share in zip(rows, shares, strict=True)], float)


def fitted(noisy: np.ndarray, exact: np.ndarray, stddev: float) -> np.ndarray:
    """A stand-in for a fit: rows of each group as far as they differ from the product beyond noise."""
    product = np.outer(exact.sum(axis=1), exact.sum(axis=0)) / exact.sum()
    apart = noisy - product
    believed = np.maximum(0, 1 - apart.shape[1] * stddev**2 / (apart**2).sum(axis=1, keepdims=True))
    rows = np.maximum(product + believed * apart, 0)
    return rows * exact.sum(axis=1, keepdims=True) / rows.sum(axis=1, keepdims=True)


def right(stddev: float, stated: float) -> tuple[float, float]:
    """The part of all means that are called likely right, and of these the part that is."""
    rng, called, true = np.random.default_rng(5), [], []
    for _ in range(200):
        exact = table(rng)
        made = fitted(exact + rng.normal(0, stddev, exact.shape), exact, stddev)
        pair = Estimate(("g", "x"), exact, stated**2, {}, is_normal=True)
        truth = dict(zip(GROUPS.values, exact @ CELLS / exact.sum(axis=1), strict=True))
        for mean in group_means("x", CELLS, GROUPS, pair, made):
            called.append(mean.is_likely)
            true.append(abs(mean.synthetic / truth[mean.label] - 1) <= RIGHT)
    chosen = np.array(true)[np.array(called)]
    return float(np.mean(called)), float(chosen.mean()) if chosen.size else 1.0


@pytest.mark.parametrize("stddev", [2.0, 5.0, 15.0, 40.0])
def test_means_that_are_called_likely_right_are(stddev):
    assert right(stddev, stddev)[1] >= 0.85


def test_a_little_noise_leaves_most_of_them():
    assert right(1.0, 1.0)[0] > 0.7


def test_a_wrong_noise_is_noticed():
    """The broken twin: noise of which a tenth is stated."""
    assert right(40.0, 4.0)[1] < 0.8


def test_a_pair_is_read_either_way_around():
    exact = table(np.random.default_rng(1))
    one = Estimate(("g", "x"), exact, 9.0, {}, is_normal=True)
    other = Estimate(("x", "g"), exact.T, 9.0, {}, is_normal=True)
    assert [*group_means("x", CELLS, GROUPS, one, exact)] == [*group_means("x", CELLS, GROUPS, other, exact.T)]


def test_small_groups_and_rows_without_a_number_are_left_out():
    made = np.array([[499.0, 0.0, 900.0], [300.0, 200.0, 0.0]])
    wards = Attribute("g", "VARCHAR", "values", ("a", "b"), nullable=True)
    pair = Estimate(("g", "x"), made, 1.0, {}, is_normal=True)
    (mean,) = group_means("x", np.array([1.0, 2.0, np.nan]), wards, pair, made)
    assert (mean.label, mean.rows, mean.synthetic) == ("b", 500.0, 1.4)


LOW, HIGH = "CASE WHEN i % 5 = 0 THEN 1 + i % 7", "ELSE (400 * (hash(i) % 3) + 5 * (hash(i, 1) % 20))::INTEGER END"


@pytest.mark.medium
def test_a_verdict_tells_which_means_of_groups_hold():
    """One group has only low amounts, and a single row more in the last bin is a large part of its mean."""
    with dpsql.connect() as db:
        db.sql(f"""
            CREATE TABLE t AS SELECT 'g' || (i % 5) AS g, {LOW} {HIGH} AS pay, (hash(i, 3) % 90)::INTEGER AS age
            FROM range(6000) r(i)
        """)
        db.protect("t", epsilon=10, delta=1e-9)
        db.domain("t", "g", values=[f"g{i}" for i in range(5)])
        db.domain("t", "pay", edges=[0, 5, 10, 20, 40, 100, 400, 5000])
        db.domain("t", "age", lower=0, upper=89, bins=9)
        release = db.synthesize("t", 1.0)
        numbers = {figures.name: figures.groups for figures in release.judgement.numbers}
        assert {mean.label: mean.is_likely for mean in numbers["pay"]}["g0"] is False
        assert all(mean.is_likely for mean in numbers["age"])
        assert len(numbers["age"]) == len(numbers["pay"]) == 5
        assert "noise hides those of pay (" in release.verdict.text
        assert "rows and more" in release.report().html
