"""Which lines of a marginal are fitted, and that a fit of them is as near to the truth."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpsql.core.domain import Attribute, Domain
from dpsql.fitting.relaxed.empty_lines import Lines, all_lines, telling_lines
from dpsql.fitting.relaxed.fit_marginals import fit_marginals
from dpsql.fitting.relaxed.settings import Settings
from dpsql.fitting.relaxed.table import Blocks
from dpsql.fitting.relaxed.tiles import layout_of
from dpsql.fitting.target import Target
from dpsql.runtime.progress import Quiet
from dpsql.strategy.effort import by_noise

SIZES, ROWS, STDDEV = (12, 12, 10), 20_000, 8.0
NAMES = ("a", "b", "c")
CLIQUES = [clique for order in (1, 2, 3) for clique in itertools.combinations(NAMES, order)]


@pytest.fixture(scope="module")
def domain():
    constants = [tuple(map(str, range(size))) for size in SIZES]
    return Domain(tuple(Attribute(n, "INTEGER", "values", each) for n, each in zip(NAMES, constants, strict=True)))


@pytest.fixture(scope="module")
def truth():
    """b is a or the next value, c is drawn from what a and b are together."""
    draw = np.random.default_rng(3)
    a = draw.integers(0, SIZES[0], ROWS)
    b = (a + draw.integers(0, 2, ROWS)) % SIZES[1]
    c = (a + b + draw.integers(0, 3, ROWS)) % SIZES[2]
    return np.stack([a, b, c], axis=1)


@pytest.fixture(scope="module")
def measured(domain, truth):
    draw, found = np.random.default_rng(4), []
    for clique in CLIQUES:
        shape = domain.shape(clique)
        cells = np.ravel_multi_index([truth[:, NAMES.index(name)] for name in clique], shape)
        counts = np.bincount(cells, minlength=domain.size(clique)) + draw.normal(0, STDDEV, domain.size(clique))
        found.append(Target(clique, shape, counts, STDDEV**2, 0.1))
    return found


def test_a_line_is_fitted_where_its_sum_stands_out(measured):
    lines = telling_lines(measured, 2.0)["a", "b", "c"]
    others = tuple(name for place, name in enumerate(NAMES) if place != lines.last)
    sums = next(one.values for one in measured if one.clique == others)
    np.testing.assert_array_equal(lines.fitted, np.flatnonzero(sums > 2 * STDDEV))
    assert lines.cells == len(lines.fitted) * SIZES[lines.last] < 0.5 * np.prod(SIZES)


def test_all_lines_are_fitted_where_no_sum_was_measured(measured):
    alone = [one for one in measured if len(one.clique) == 3]
    lines = telling_lines(alone, 2.0)["a", "b", "c"]
    assert (lines.last, lines.cells) == (0, np.prod(SIZES))
    whole = telling_lines(measured, 0.0)
    assert all(lines.cells == np.prod([SIZES[NAMES.index(n)] for n in clique]) for clique, lines in whole.items())


def test_a_noisier_sum_must_be_larger(measured):
    """Else what noise alone fills of it would be fitted."""
    noisier = [Target(m.clique, m.shape, m.values, 100 * m.variance if len(m.clique) == 2 else 1.0) for m in measured]
    sums = {one.clique: one.values for one in measured}
    lines = telling_lines(noisier, 2.0)["a", "b", "c"]
    others = tuple(name for place, name in enumerate(NAMES) if place != lines.last)
    assert (sums[others][lines.fitted] > 20 * STDDEV).all()


def test_tiles_hold_the_lines_and_nothing_else(domain, measured):
    triple = measured[-1]
    lines = telling_lines(measured, 2.0)
    for chosen in (lines[triple.clique], all_lines(SIZES)):
        laid_out = layout_of(Blocks.of(domain), [triple], 1.0, 1.0, lines={triple.clique: chosen})
        (tiles,) = (one for one in laid_out.values() if one.count.any())
        along = np.moveaxis(triple.values.reshape(SIZES), chosen.last, -1).reshape(-1, SIZES[chosen.last])
        held = tiles.target[tiles.weight > 0][:, : SIZES[chosen.last]]
        np.testing.assert_allclose(held, along[chosen.fitted], rtol=1e-5)


def test_size_classes_do_not_follow_from_noise():
    """Size classes follow from the columns, and not from the lines that noise lets stand out."""
    sizes, names = (40, 90, 8), ("a", "b", "c")
    triple = Target(names, sizes, np.zeros(np.prod(sizes)), 1.0)
    classes = set()
    for last, lines in ((0, 720), (1, 320), (2, 100)):
        chosen = {names: Lines(last, np.arange(lines), lines * sizes[last])}
        classes.add(tuple(sorted(layout_of(Blocks(names, sizes), [triple], 1.0, 1.0, lines=chosen))))
    assert len(classes) == 1


@pytest.mark.medium
def test_a_fit_of_these_lines_is_as_near(domain, truth, measured):
    def gap(telling: float) -> float:
        settings = Settings(rows=64, steps=150, telling=telling)
        model = fit_marginals(domain, measured, float(ROWS), settings, 0, Quiet()).model
        real = np.bincount(np.ravel_multi_index(truth.T, SIZES), minlength=np.prod(SIZES)) / ROWS
        return float(np.abs(model.project(NAMES) - real).sum())

    assert gap(2.0) < 1.05 * gap(0.0)


def test_lines_are_left_out_at_little_noise_only():
    found = [by_noise(Settings(), error, ()).telling for error in (0.001, 0.005, 0.0056, 0.0064, 0.02, 0.3)]
    assert found[:2] == [2.0, 2.0]
    assert 0 < found[2] < 2
    assert found[3:] == [0, 0, 0]
