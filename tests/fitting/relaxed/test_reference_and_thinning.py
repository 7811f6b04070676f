"""Rows that are pulled towards the pairs keep them, and steps that see half of the cells lead to the same fit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpsql.core.domain import Attribute, Clique, Domain
from dpsql.fitting.relaxed.fit_marginals import fit_marginals
from dpsql.fitting.relaxed.settings import Fit, Settings
from dpsql.fitting.target import Target
from dpsql.runtime.progress import Quiet

pytestmark = pytest.mark.medium
SIZE, ROWS = 12, 4000
DOMAIN = Domain(tuple(Attribute(name, "INTEGER", "values", tuple(map(str, range(SIZE)))) for name in "abcd"))
PAIR = ("a", "b")


def table() -> np.ndarray:
    """Four columns; b is mostly what a is, and d what c is."""
    draw = np.random.default_rng(0)
    a, c, other = draw.integers(0, SIZE, (3, ROWS))
    return np.stack(
        [a, np.where(draw.random(ROWS) < 0.7, a, other), c, np.where(draw.random(ROWS) < 0.7, c, a)], axis=1
    )


def counts(clique: Clique) -> np.ndarray:
    places = [DOMAIN.names.index(name) for name in clique]
    packed = np.ravel_multi_index(tuple(table()[:, places].T), DOMAIN.shape(clique))
    return np.bincount(packed, minlength=DOMAIN.size(clique)).astype(float)


def measured(stddev: float) -> list[Target]:
    draw = np.random.default_rng(1)
    cliques = [clique for order in (1, 2, 3) for clique in itertools.combinations(DOMAIN.names, order)]
    noisy = [counts(clique) + stddev * draw.normal(size=DOMAIN.size(clique)) for clique in cliques]
    return [
        Target(clique, DOMAIN.shape(clique), values, stddev**2, 1 / (2 * stddev**2))
        for clique, values in zip(cliques, noisy, strict=True)
    ]


def fitted(stddev: float, **settings: object) -> Fit:
    return fit_marginals(DOMAIN, measured(stddev), ROWS, Settings(rows=24, steps=200, **settings), 0, Quiet())


def distance(fit: Fit, clique: Clique) -> float:
    return float(np.abs(fit.model.project(clique) - counts(clique) / ROWS).sum())


def test_a_pull_towards_the_pairs_keeps_them_where_one_towards_their_product_does_not():
    plain, pulled = (fitted(20.0, pull=3000.0, reference=one) for one in (False, True))
    assert distance(pulled, PAIR) < 0.7 * distance(plain, PAIR)


def test_steps_that_see_half_of_the_cells_lead_to_the_same_fit():
    whole, thinned = (fitted(20.0, thinned=part) for part in (0.0, 0.8))
    assert not np.array_equal(whole.model.probabilities, thinned.model.probabilities)  # there are tiles to leave out
    assert thinned.residual == pytest.approx(whole.residual, rel=0.03)
    assert thinned.steps == whole.steps
    for clique in (PAIR, ("a", "b", "c"), ("b", "c", "d")):
        assert distance(thinned, clique) == pytest.approx(distance(whole, clique), rel=0.1)
