from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, stats

from dpsql.errors import InvalidArgument
from dpsql.privacy.accounting import (
    Neighbours,
    gaussian_variance,
    largest_epsilon,
    make_budget,
    selection_rate,
    simple_rho,
    units,
    zcdp_epsilon,
    zcdp_rho,
)

RHOS = [1e-6, 1e-4, 0.01, 0.1, 1.0, 5.0, 50.0]
DELTAS = [1e-12, 4.19e-10, 1e-6, 1e-3]


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("delta", DELTAS)
def test_conversion_against_dp_accounting(rho, delta):
    """At most 1e-4 above what dp-accounting's Rényi accountant finds for the same ρ, never below the exact Gaussian."""
    rdp = pytest.importorskip("dp_accounting.rdp")
    orders = [1 + 10**x for x in np.linspace(-4, 5, 3000)]
    theirs = rdp.compute_epsilon(orders, [rho * order for order in orders], delta)[0]
    ours = zcdp_epsilon(rho, delta)
    assert ours <= theirs + 1e-4
    assert ours >= exact_gaussian_epsilon(rho, delta) - 1e-9


def exact_gaussian_epsilon(rho: float, delta: float) -> float:
    """The ε of a Gaussian mechanism of that ρ, by its exact privacy profile (Balle and Wang 2018): a lower bound."""
    mu = math.sqrt(2 * rho)

    def profile(epsilon: float) -> float:
        near = stats.norm.logsf(epsilon / mu - mu / 2)
        far = epsilon + stats.norm.logsf(epsilon / mu + mu / 2)
        return math.exp(near) - math.exp(far)

    low, high = 0.0, rho + 10 * math.sqrt(rho * math.log(1 / delta)) + 1
    if profile(0) <= delta:
        return 0.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if profile(middle) > delta else (low, middle)
    return low


def test_exact_profile_against_integration():
    """The lower bound of the test above is itself checked by integrating the two densities."""
    mu, epsilon = 0.7, 1.1
    gap, _ = integrate.quad(
        lambda x: max(0.0, stats.norm.pdf(x - mu) - math.exp(epsilon) * stats.norm.pdf(x)), -20, 20, limit=500
    )
    assert exact_gaussian_epsilon(mu**2 / 2, gap) == pytest.approx(epsilon, abs=1e-4)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 3.0, 10.0, 100.0])
@pytest.mark.parametrize("delta", DELTAS)
def test_rho_is_the_inverse_and_rounded_down(epsilon, delta):
    rho = zcdp_rho(epsilon, delta)
    assert zcdp_epsilon(rho, delta) <= epsilon
    assert zcdp_epsilon(float(rho) * (1 + 1e-6), delta) > epsilon * (1 - 1e-9)
    assert simple_rho(epsilon, delta) < rho
    spent = float(simple_rho(epsilon, delta))
    assert spent + 2 * math.sqrt(spent * math.log(1 / delta)) <= epsilon


def test_reference_values():
    assert float(zcdp_rho(0.1, 4.19e-10)) == pytest.approx(0.0001675, rel=1e-3)
    assert float(zcdp_rho(1.0, 4.19e-10)) == pytest.approx(0.01427, rel=1e-3)
    assert float(zcdp_rho(10.0, 4.19e-10)) == pytest.approx(1.052, rel=1e-3)


@pytest.mark.parametrize("spent", [0.0, 0.5, 1.0, 2.9, 2.999999])
def test_largest_epsilon_can_be_asked_for(spent):
    left = zcdp_rho(3.0, 1e-9) - (zcdp_rho(spent, 1e-9) if spent else 0)
    epsilon = largest_epsilon(left, 1e-9)
    assert epsilon == 0 or zcdp_rho(epsilon, 1e-9) <= left
    assert zcdp_rho(epsilon * 1.0001 + 1e-9, 1e-9) > left


def test_rounding_directions():
    third = Fraction(1, 3)
    assert units(third) == math.ceil(third * 2**96)
    assert selection_rate(Fraction(1, 2), 2) ** 2 * 4 <= 1
    assert gaussian_variance(Fraction(1, 8), 2) == 8


def test_sensitivities():
    add, replace = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
    assert (add.cell, add.marginal_l1, add.marginal_l2_squared) == (1, 1, 1)
    assert (replace.cell, replace.marginal_l1, replace.marginal_l2_squared) == (1, 2, 2)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, -math.inf, 1e9])
def test_bad_epsilon(epsilon):
    with pytest.raises(InvalidArgument, match="epsilon is"):
        make_budget(epsilon, 1e-9)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 2.0, math.nan])
def test_bad_delta(delta):
    with pytest.raises(InvalidArgument, match="delta is"):
        make_budget(1.0, delta)


def test_bad_conversion():
    with pytest.raises(InvalidArgument, match="'tight', 'simple'"):
        make_budget(1.0, 1e-9, "loose")
