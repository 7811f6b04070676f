"""Numbers of children above those that noisy counts show are not drawn: a few such units would have most of the rows."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpsql.core.domain import Attribute, Domain
from dpsql.core.marginal import Measurement
from dpsql.core.tree import Link
from dpsql.core.unit_row import number_of_children
from dpsql.evidence.likely_numbers import likely_numbers

STDDEV = 30.0
NUMBER = number_of_children(Link("visits", "patients", ("pid",), ("pid",)).starts, "n")
DOMAIN = Domain((NUMBER, Attribute("sex", "INTEGER", "values", ("0", "1"))))
UNITS = [8_000, 6_000, 3_000, 1_000, 300]


def measured(units, seed, *, pairs=True):
    """The noisy number of children, alone and by sex."""
    draw = np.random.default_rng(seed)
    counts = np.zeros(NUMBER.size)
    counts[: len(units)] = units
    made = []
    for clique in [("n",), ("n", "sex")] if pairs else [("n",)]:
        values = counts if len(clique) == 1 else np.stack([counts * 0.6, counts * 0.4], axis=1).ravel()
        noisy = np.rint(values + STDDEV * draw.standard_normal(len(values))).astype(np.int64)
        variance = Fraction(int(STDDEV**2))
        made.append(Measurement(clique, DOMAIN.shape(clique), noisy, variance, "gaussian", Fraction(1, 100)))
    return made


@pytest.mark.parametrize("seed", range(20))
def test_numbers_that_are_noise_are_not_allowed(seed):
    (allowed,) = likely_numbers(DOMAIN, ["n"], measured(UNITS, seed))
    assert allowed.codes.ravel().tolist() == [*range(len(UNITS))]


def test_a_tail_that_stands_out_together_is_allowed():
    """No single number of it does."""
    thin = [*UNITS, *[45] * 8]
    lasts = [likely_numbers(DOMAIN, ["n"], measured(thin, seed))[0].codes.max() for seed in range(20)]
    assert np.mean([last > len(UNITS) for last in lasts]) > 0.8


def test_without_measurements_all_are_allowed():
    assert likely_numbers(DOMAIN, ["n"], []) == []


def test_no_row_stays_allowed_below_the_root():
    """A second visit may be missing; then so is the number of its labs."""
    from dataclasses import replace

    slot = Domain((replace(NUMBER, absent=True), DOMAIN.by_name["sex"]))
    counts = np.zeros(slot.size(("n",)), np.int64)
    counts[:2], counts[-1] = 5_000, 9_000
    alone = Measurement(("n",), slot.shape(("n",)), counts, Fraction(900), "gaussian", Fraction(1, 100))
    (allowed,) = likely_numbers(slot, ["n"], [alone])
    assert allowed.codes.ravel().tolist() == [0, 1, slot.by_name["n"].absent_code]


FALLING = np.round(8_000 * 0.5 ** np.arange(NUMBER.size)).astype(int)
MIDDLES = (np.array(NUMBER.ticks[:-1], float) + np.array(NUMBER.ticks[1:], float) - 1) / 2


def hidden(units, stddev, seed):
    """The noisy numbers of children of units, and shares of a model that took its noise for rows."""
    counts = np.zeros(NUMBER.size)
    counts[: len(units)] = units
    noisy = np.rint(counts + stddev * np.random.default_rng(seed).standard_normal(len(counts))).astype(np.int64)
    measurement = Measurement(("n",), (NUMBER.size,), noisy, Fraction(stddev**2), "gaussian", Fraction(1, 100))
    return measurement, np.maximum(noisy, 0) / np.maximum(noisy, 0).sum()


def mean_drawn(units, stddev, seed, *, tail):
    """The mean number of children where codes that are not let in are drawn among the others, to that of the units."""
    measurement, shares = hidden(units, stddev, seed)
    parts = likely_numbers(DOMAIN, ["n"], [measurement], 0, (lambda clique: shares) if tail else None)
    let_in = parts[0].codes.ravel() if parts else np.arange(NUMBER.size)
    counts = np.zeros(NUMBER.size)
    counts[: len(units)] = units
    return (MIDDLES[let_in] @ shares[let_in] / shares[let_in].sum()) / (MIDDLES @ counts / counts.sum())


def test_numbers_that_noise_hides_have_their_rows():
    """A third of the children belong to units with so many that noise hides each such number."""
    units = FALLING[:8]
    cut = np.mean([mean_drawn(units, 400, seed, tail=False) for seed in range(40)])
    kept = np.array([mean_drawn(units, 400, seed, tail=True) for seed in range(40)])
    assert cut < 0.85
    assert abs(kept.mean() - 1) < 0.08
    assert np.sqrt(np.mean((kept - 1) ** 2)) < 0.25


@pytest.mark.parametrize("seed", range(20))
def test_noise_in_wide_bins_is_no_tail(seed):
    """The last bins hold up to 100 children: all units have two, and noise says that some have a hundred."""
    assert abs(mean_drawn([0, 0, 8_000], 300, seed, tail=True) - 1) < 0.1


def test_a_number_that_is_always_likely_is_no_beginning_of_a_tail():
    measurement, shares = hidden([2_000, 2_000], 300, 3)
    (allowed,) = likely_numbers(DOMAIN, ["n"], [measurement], 9, lambda clique: shares)
    assert MIDDLES[allowed.codes.max()] < 20
