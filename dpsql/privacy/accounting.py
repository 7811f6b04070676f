r"""Zero-concentrated differential privacy: conversion and sensitivities.

ρ adds over releases. The tight conversion of ρ-zCDP to (ε, δ)-DP (Canonne, Kamath, Steinke 2020, Proposition 12;
Asoodeh et al. 2020) is

    ε(ρ, δ) = inf over α > 1 of  ρα + [ln(1/δ) + (α − 1)·ln(1 − 1/α) − ln α] / (α − 1)

Every α gives a valid bound, so the numerical minimum can only be too large. ρ itself is kept as an exact rational, a
multiple of 2⁻⁹⁶: budgets are rounded down to it, charges up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import isqrt
from typing import Final

from scipy.optimize import minimize_scalar

from dpsql.errors import InvalidArgument

RHO_BITS: Final = 96
RHO_UNIT: Final = Fraction(1, 1 << RHO_BITS)
_LARGEST_EPSILON: Final = 1000.0


class Neighbours(StrEnum):
    """Which two tables count as neighbours, and how far their counts can differ then.

    add_remove: one row more or less; the number of rows is private.
    replace_one: one row changed; the number of rows is public.
    """

    ADD_REMOVE = "add_remove"
    REPLACE_ONE = "replace_one"

    @property
    def cell(self) -> int:
        """Sensitivity of one count, and of abs(count − constant)."""
        return 1

    @property
    def marginal_l1(self) -> int:
        """L1 sensitivity of a marginal in counts; also of its L1 distance to constants, as a score."""
        return 1 if self is Neighbours.ADD_REMOVE else 2

    @property
    def marginal_l2_squared(self) -> int:
        """Square of the L2 sensitivity of a marginal in counts."""
        return 1 if self is Neighbours.ADD_REMOVE else 2


@dataclass(frozen=True)
class Budget:
    """An (ε, δ) promise and the ρ-zCDP that implies it.

    Attributes:
        epsilon: positive and finite.
        delta: in (0, 1).
        rho: zCDP, exact.
    """

    epsilon: float
    delta: float
    rho: Fraction


def check_epsilon(epsilon: float) -> float:
    """Refuse an ε that is not a positive finite number."""
    if not (math.isfinite(epsilon) and 0 < epsilon <= _LARGEST_EPSILON):
        raise InvalidArgument(
            f"epsilon is {epsilon:g}: give a positive number (0.1 is strict, 1 usual, at most {_LARGEST_EPSILON:g})"
        )
    return float(epsilon)


def check_delta(delta: float) -> float:
    """Refuse a δ outside (0, 1)."""
    if not 0 < delta < 1:
        raise InvalidArgument(f"delta is {delta:g}: give a probability between 0 and 1, such as 1e-9")
    return float(delta)


def zcdp_epsilon(rho: float | Fraction, delta: float) -> float:
    """The ε of the tight conversion, for ρ-zCDP at δ; 0 for ρ = 0.

    >>> round(zcdp_epsilon(0.01427, 4.19e-10), 4)
    1.0
    """
    rho = float(rho)
    if rho <= 0:
        return 0.0

    def bound(log_excess: float) -> float:
        excess = math.exp(log_excess)  # α − 1
        alpha = 1 + excess
        return rho * alpha + (-math.log(delta) - math.log(alpha)) / excess + math.log1p(-1 / alpha)

    # the minimum of the looser bound ρα + ln(1/δ)/(α − 1) is at α − 1 = √(ln(1/δ)/ρ): search around it
    centre = 0.5 * math.log(-math.log(delta) / rho)
    found = minimize_scalar(bound, bounds=(centre - 8, centre + 3), method="bounded", options={"xatol": 1e-9})
    return max(0.0, float(found.fun)) * (1 + 1e-12)


def zcdp_rho(epsilon: float, delta: float) -> Fraction:
    """The largest ρ (rounded down) whose tight conversion at δ is at most ε."""
    low, high = 0.0, epsilon + 1.0
    for _ in range(100):
        middle = (low + high) / 2
        if zcdp_epsilon(middle, delta) <= epsilon:
            low = middle
        else:
            high = middle
    return round_down(Fraction(low))


def simple_rho(epsilon: float, delta: float) -> Fraction:
    """The ρ with ε = ρ + 2√(ρ ln(1/δ)), the looser conversion of the RAP paper (rounded down).

    >>> float(simple_rho(1.0, 4.19e-10)) < float(zcdp_rho(1.0, 4.19e-10))
    True
    """
    log_delta = -math.log(delta)
    root = epsilon / (math.sqrt(log_delta + epsilon) + math.sqrt(log_delta))  # √(L + ε) − √L without cancellation
    return round_down(Fraction(root**2 * (1 - 1e-12)))


CONVERSIONS: Final = {"tight": zcdp_rho, "simple": simple_rho}
"""From (ε, δ) to ρ, by name."""


def make_budget(epsilon: float, delta: float, conversion: str = "tight") -> Budget:
    """Check ε and δ and convert them.

    Raises:
        InvalidArgument: ε not positive and finite, δ outside (0, 1), or an unknown conversion.
    """
    if conversion not in CONVERSIONS:
        raise InvalidArgument(f"conversion is {conversion!r}: say one of {', '.join(map(repr, CONVERSIONS))}")
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    rho = CONVERSIONS[conversion](epsilon, delta)
    if rho <= 0:
        raise InvalidArgument(f"epsilon {epsilon:g} at delta {delta:g} is too small to be useful: ask for more")
    return Budget(epsilon, delta, rho)


def largest_epsilon(rho: Fraction, delta: float) -> float:
    """The largest ε (to 6 digits, rounded down) whose cost at δ is at most `rho`; 0 if none.

    >>> epsilon = largest_epsilon(zcdp_rho(2.0, 1e-9), 1e-9)
    >>> zcdp_rho(epsilon, 1e-9) <= zcdp_rho(2.0, 1e-9)
    True
    """
    epsilon = zcdp_epsilon(rho, delta)
    while epsilon > 1e-12:
        digits = 5 - math.floor(math.log10(epsilon))
        epsilon = math.floor(epsilon * 10.0**digits + 1e-6) / 10.0**digits
        if epsilon > 0 and zcdp_rho(epsilon, delta) <= rho:
            return epsilon
        epsilon -= 10.0**-digits
    return 0.0


def gaussian_variance(rho: Fraction, l2_squared: int) -> Fraction:
    """The σ² = Δ²/2ρ of the discrete Gaussian that is ρ-zCDP at L2 sensitivity Δ."""
    return Fraction(l2_squared) / (2 * rho)


def selection_rate(rho: Fraction, sensitivity: int) -> Fraction:
    """The λ ≤ √(2ρ)/Δ of the exponential mechanism that is ρ-zCDP (range ε₀ = 2λΔ, ρ = ε₀²/8), rounded down."""
    scaled = 2 * rho * (1 << 2 * RHO_BITS)
    return Fraction(isqrt(scaled.numerator // scaled.denominator), 1 << RHO_BITS) / sensitivity


def round_down(rho: Fraction) -> Fraction:
    """To a multiple of 2⁻⁹⁶, for what may be spent."""
    return Fraction(rho.numerator * (1 << RHO_BITS) // rho.denominator, 1 << RHO_BITS)


def units(rho: Fraction) -> int:
    """In multiples of 2⁻⁹⁶, rounded up, for what is spent.

    >>> units(Fraction(1, 3)) * RHO_UNIT >= Fraction(1, 3)
    True
    """
    return -(-rho.numerator * (1 << RHO_BITS) // rho.denominator)
