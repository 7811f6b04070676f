"""Numbers of promises: how likely a factor is exceeded, and that every loss is rounded up."""

from __future__ import annotations

import itertools
import re
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from dpsql.core.digits import down, up
from dpsql.privacy.accounting import gaussian_gdp
from dpsql.privacy.promised import bound, largest_excess, normal_excess

PRECISE = 50
LOSSES = [(0.1, 1e-9), (0.2, 1e-6), (0.5, 1e-6), (1.0, 1e-9), (1.0, 1e-6), (3.0, 1e-7), (10.0, 1e-9), (0.3, 1e-3)]


def tail(x: mpf) -> mpf:
    return mp.erfc(-x / mp.sqrt(2)) / 2


@pytest.mark.parametrize(("epsilon", "delta"), LOSSES)
def test_probabilities_of_excess_are_those_of_mpmath_and_above(epsilon, delta):
    gdp = gaussian_gdp(epsilon, delta)
    with mp.workdps(PRECISE):
        mu = mp.sqrt(2 * mpf(gdp.numerator) / gdp.denominator)
        exact = tail(mu / 2 - epsilon / mu)
        assert exact <= normal_excess(gdp, epsilon) <= exact * (1 + mpf("1e-6"))
        point = mp.findroot(lambda t: mp.log(tail(mu - t)) - epsilon - mp.log(tail(-t)), epsilon / mu)
        largest = tail(mu - point)
        assert largest <= largest_excess(gdp, epsilon) <= largest * (1 + mpf("1e-6"))
        # the broken twin: delta in its place is far too small
        assert delta < exact / 2
        assert exact < largest


@pytest.mark.medium
@given(
    mu=st.floats(0.02, 4.0),
    epsilon=st.floats(0.05, 6.0),
    cuts=st.lists(st.floats(-6.0, 6.0), min_size=1, max_size=6, unique=True),
)
@settings(max_examples=150, deadline=None)
def test_whatever_is_computed_exceeds_the_factor_no_more_often_than_is_said(mu, epsilon, cuts):
    """Outcomes are intervals of a normal number; and every third of them is told by one word."""
    with mp.workdps(30):
        ends = [mpf("-inf"), *sorted(map(mpf, cuts)), mpf("inf")]
        p = [tail(high - mu) - tail(low - mu) for low, high in itertools.pairwise(ends)]
        q = [tail(high) - tail(low) for low, high in itertools.pairwise(ends)]
        outcomes = list(zip(p, q, strict=True))
        merged = [(sum(one for one, _ in outcomes[k::3]), sum(two for _, two in outcomes[k::3])) for k in range(3)]
        for kind in (outcomes, merged):
            likely = sum((one for one, two in kind if one > mp.exp(epsilon) * two), mpf(0))
            assert likely <= mpf(largest_excess(mu**2 / 2, epsilon)) + mpf("1e-25")


@given(st.fractions(min_value=Fraction(1, 10**12), max_value=10**6), st.integers(2, 9))
def test_losses_are_rounded_up_and_what_is_left_down(value, digits):
    above, below = Fraction(up(value, digits)), Fraction(down(value, digits))
    assert below <= value <= above
    assert above - below <= value * Fraction(10) ** (1 - digits)


@given(st.floats(1e-12, 1000.0))
def test_a_float_is_what_it_is_written_as(value):
    assert Fraction(up(value)) >= Fraction(repr(value)) >= Fraction(down(value))
    assert up(round(value, 3)) == f"{round(value, 3):.6g}" or value >= 100


@given(st.floats(0.01, 50.0), st.sampled_from([0.0, 1e-9, 0.123456789]))
def test_the_factor_is_above_e_to_the_epsilon(epsilon, delta):
    said = bound(epsilon, delta)
    with mp.workdps(PRECISE):
        assert mpf(re.search(r"than (\S+) times", said)[1]) >= mp.exp(mpf(repr(epsilon)))
    assert ("plus" in said) == bool(delta)
    assert not delta or float(said.rpartition(" ")[2]) >= delta
