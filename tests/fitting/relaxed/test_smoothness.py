"""Neighbouring values of an ordered column are seen together: a fit of Adult is nearer to the truth, and no other is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpsql.core.domain import Attribute, Domain
from dpsql.fitting.relaxed.denoising import denoised
from dpsql.fitting.relaxed.fit_marginals import fit_marginals
from dpsql.fitting.relaxed.settings import Settings
from dpsql.fitting.relaxed.smoothness import smooth_columns, smoothness
from dpsql.fitting.target import Target
from dpsql.runtime.progress import Quiet

from ...adult import adult_codes, domain_of, exact, noisy

NAMES = ("age", "marital-status", "hours-per-week", "relationship")
PAIRS = [("age", "marital-status"), ("age", "relationship"), ("marital-status", "hours-per-week")]


def test_public_types_alone_say_which_columns_are_ordered():
    domain = domain_of(("age", "race"))
    kappa = smooth_columns(domain)
    assert len(kappa) == domain.width
    assert kappa[:85] == (8.5,) * 84 + (0.0,)
    assert kappa[85:] == (0.0,) * 5


def test_codes_of_null_and_outside_are_nobodys_neighbours():
    age = replace(domain_of(("age",)).attributes[0], nullable=True, outside=True)
    kappa = smooth_columns(Domain((age,)))
    assert len(kappa) == 87
    assert kappa[84:] == (0.0, 0.0, 0.0)


def test_points_are_nobodys_neighbours():
    """Bins below and above a point are two columns: zeros of most rows pull at nothing."""
    gain = Attribute("gain", "INTEGER", "bins", ticks=(0, 1, 10, 20, 30, 40, 41, 50, 60, 70), points=(0, 40))
    assert gain.runs == (range(1, 5), range(6, 9))
    assert smooth_columns(Domain((gain,))) == (0.0, 0.4, 0.4, 0.4, 0.0, 0.0, 0.3, 0.3, 0.0)
    noisy = Target(("gain",), (9,), np.array([9e4, 500, 480, 530, 490, 4e4, 100, 90, 110]), variance=100.0)
    plain = replace(gain, points=())
    spiked, smoothed = (denoised(Domain((one,)), [noisy], float(noisy.values.sum()))[0].values for one in (gain, plain))
    assert abs(spiked[0] - 9e4) < 20
    assert np.ptp(spiked[1:5]) < np.ptp(noisy.values[1:5])
    assert np.ptp(spiked[1:5]) <= np.ptp(smoothed[1:5])


def test_weights_are_the_smaller_share_of_two_neighbours():
    assert smoothness(np.array([0.5, 0.2, 0.3]), (2.0, 2.0, 0.0)).tolist() == [0.4, 0.4, 0.0]
    assert smoothness(np.array([0.5, 0.5]), ()).tolist() == [0.0, 0.0]


def error(kappa: tuple[float, ...], order: np.ndarray) -> float:
    """Mean L1 of the pairs of a fit, with the codes of `age` in some order."""
    domain, rows = domain_of(NAMES), 6000
    measured = [noisy((name,), 20.0, 0, rows) for name in NAMES] + [noisy(pair, 40.0, 1, rows) for pair in PAIRS]
    moved = [_reordered(one, order) for one in measured]
    settings = Settings(rows=64, steps=200, smooth=kappa, strength=0.3)
    model = fit_marginals(domain, moved, float(rows), settings, 0, Quiet()).model
    truth = {pair: _in_order(exact(pair, rows).reshape(domain.shape(pair)), pair, order).ravel() for pair in PAIRS}
    return float(np.mean([np.abs(model.project(pair) - truth[pair] / rows).sum() for pair in PAIRS]))


def _in_order(table: np.ndarray, clique: tuple[str, ...], order: np.ndarray) -> np.ndarray:
    return np.take(table, order, axis=clique.index("age")) if "age" in clique else table


def _reordered(one, order):
    return replace(one, values=_in_order(one.values.reshape(one.shape), one.clique, order).ravel())


@pytest.mark.medium
def test_smoothness_helps_where_there_is_an_order_and_not_where_there_is_none():
    """The broken twin has the ages shuffled: what helps must be the order, and not a stronger pull."""
    domain, (_, sizes) = domain_of(NAMES), adult_codes()
    kappa, none, kept = smooth_columns(domain), (), np.arange(sizes["age"])
    shuffled = np.random.default_rng(0).permutation(kept)
    assert error(kappa, kept) < 0.96 * error(none, kept)
    assert error(kappa, shuffled) > error(none, kept)
