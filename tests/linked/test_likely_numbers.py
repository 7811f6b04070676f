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
