"""Bins far beyond most rows: noise there is no row, and what single bins hide is seen in all of them together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies

from dpsql.core.domain import Attribute, Domain
from dpsql.fitting.relaxed.denoising import denoised
from dpsql.fitting.relaxed.tails import NoisyBins, tails
from dpsql.fitting.target import Target

STDDEV = 30.0
AMOUNT = Attribute("amount", "INTEGER", "bins", ticks=tuple(range(0, 1001, 10)))
GROUP = Attribute("group", "INTEGER", "values", ("0", "1"))
MIDDLES = np.arange(5.0, 1000.0, 10.0)


def falling(rows: float, mean: float) -> np.ndarray:
    """Counts of an amount that falls evenly."""
    shares = np.exp(-MIDDLES / mean)
    return rows * shares / shares.sum()


def made(counts: np.ndarray, seed: int) -> np.ndarray:
    noisy = np.rint(counts + STDDEV * np.random.default_rng(seed).standard_normal(len(counts)))
    (target,) = denoised(
        Domain((AMOUNT,)), [Target(("amount",), (len(counts),), noisy, STDDEV**2)], float(counts.sum())
    )
    return target.values


@pytest.mark.parametrize("mean", [30.0, 80.0])
def test_noise_far_beyond_the_rows_moves_no_mean(mean):
    """Of 100 bins up to 70 are empty. Cut at 0, their noise alone would move the mean by more than a quarter."""
    counts = falling(5000, mean)
    means = [made(counts, seed) @ MIDDLES / counts.sum() for seed in range(20)]
    truth = counts @ MIDDLES / counts.sum()
    cut = [np.maximum(counts + STDDEV * np.random.default_rng(seed).standard_normal(100), 0) for seed in range(20)]
    assert np.mean([values @ MIDDLES / values.sum() for values in cut]) > 1.25 * truth
    assert abs(np.mean(means) / truth - 1) < 0.05
    assert np.sqrt(np.mean((np.array(means) / truth - 1) ** 2)) < 0.12


def test_a_far_group_that_is_seen_stays():
    """A tenth of the rows has the largest amounts."""
    counts = falling(4500, 30.0)
    counts[90:95] += 100
    assert np.mean([made(counts, seed)[85:].sum() for seed in range(10)]) > 400


@pytest.mark.parametrize("group", ["visits[1].group", "group"])
def test_in_linked_tables_all_marginals_that_hold_a_column_tell_of_it(group):
    """A column that was measured with much noise, beside a pair with little; a single table's by its own counts."""
    counts, draw = falling(5000, 80.0), np.random.default_rng(0)
    alone = Target(("amount",), (100,), counts + 300 * draw.standard_normal(100), 300.0**2)
    halves = np.stack([counts / 2] * 2, axis=1).ravel()
    pair = Target(("amount", group), (100, 2), halves + 10 * draw.standard_normal(200), 100.0)
    (first, same), (single,) = (
        denoised(Domain((AMOUNT, replace(GROUP, name=group))), [alone, pair], 5000.0),
        denoised(Domain((AMOUNT,)), [alone], 5000.0),
    )
    assert same == pair
    if group == "group":
        assert (first.values == single.values).all()
    else:
        assert np.abs(first.values - counts).sum() < 0.5 * np.abs(single.values - counts).sum()


@given(strategies.lists(strategies.integers(-50, 5000), min_size=8, max_size=60), strategies.sampled_from([1.0, 30.0]))
def test_what_is_seen_is_left_alone_and_tails_are_no_rows_below_0(values, stddev):
    counts = np.array(values, float)
    bins, moved = tails(NoisyBins(counts, np.arange(len(counts) + 1.0), stddev, len(counts)))
    seen = [*bins] or [*range(len(counts))]
    rest = np.setdiff1d(np.arange(len(counts)), seen)
    assert (moved[seen] == counts[seen]).all()
    assert (moved[rest] >= 0).all()
    assert np.isfinite(moved).all()
    if len(bins):  # whatever stands out by itself is seen
        assert {*np.flatnonzero(counts >= 4 * stddev)} <= {*bins}


def test_bounds_near_the_largest_float_have_no_tail():
    edges = np.linspace(-0.85e308, 0.85e308, 9) * 2
    _, moved = tails(NoisyBins(np.array([0.0, 900, 800, 1, 0, 0, 1, 0]), edges, 2.0))
    assert np.isfinite(moved).all()
