"""Cells that stand out of a fit's noise are believed, the others stay with the fit: nearer to the truth than both."""

from __future__ import annotations

import itertools

import numpy as np

from dpsql.fitting.relaxed.settings import one_way_prior
from dpsql.fitting.relaxed.shrinkage import shrunken
from dpsql.fitting.relaxed.table import Blocks, RelaxedTable, simplex_projection
from dpsql.fitting.target import Target

from ...adult import adult_codes, domain_of, exact, noisy

NAMES = ("workclass", "education-num", "marital-status", "occupation", "relationship", "sex", "native-country")
DOMAIN = domain_of(NAMES)
TOTAL = float(len(adult_codes()[0]))


def product() -> RelaxedTable:
    """The model without any dependence."""
    prior = one_way_prior(DOMAIN, [noisy((name,), 5.0, 0) for name in NAMES], TOTAL)
    return RelaxedTable(Blocks.of(DOMAIN), prior[:, None].astype(np.float32), TOTAL)


def test_shrunken_pairs_are_nearer_than_the_model_and_than_the_noise():
    model = product()
    pairs = [noisy(clique, 60.0, 1) for clique in itertools.combinations(NAMES, 2)]
    found = shrunken(model, pairs)
    errors = np.array(
        [
            [
                np.abs(estimate - exact(one.clique) / TOTAL).sum()
                for estimate in (found[one.clique], model.project(one.clique), simplex_projection(one.values / TOTAL))
            ]
            for one in pairs
        ]
    ).mean(axis=0)
    assert errors[0] < 0.8 * errors[1]
    assert errors[0] < 0.8 * errors[2]


def test_a_cell_far_out_of_the_noise_is_believed_and_the_rest_stays():
    model = product()
    clique = ("workclass", "native-country")
    expected = model.project(clique).astype(float) * TOTAL
    values = expected + np.random.default_rng(0).normal(0, 10.0, len(expected))
    values[5] += 3000
    values[np.argmax(expected)] -= 3000
    (made,) = shrunken(model, [Target(clique, DOMAIN.shape(clique), values, 100.0)]).values()
    moved = made * TOTAL - expected
    assert 2900 < moved[5] < 3100
    assert np.abs(np.delete(moved, [5, np.argmax(expected)])).mean() < 3  # 8 of the noise alone


def test_it_gives_distributions_of_whole_noisy_marginals_only():
    one = noisy(("sex", "relationship"), 30.0, 2)
    part = Target(("sex",), (2,), np.array([3.0]), 9.0, cells=(1,))
    public = Target(("sex",), (2,), np.array([1.0, 2.0]), 0.0)
    found = shrunken(product(), [one, part, public])
    assert list(found) == [one.clique]
    assert abs(float(found[one.clique].sum()) - 1) < 1e-5
    assert found[one.clique].min() >= 0
