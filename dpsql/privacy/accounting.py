r"""What releases cost: two accounts that both add up.

Every answer of the curator costs ρ of zero-concentrated DP and g = μ²/2 of Gaussian DP. Either sum alone can prove the
promise; which of both does is fixed before the first answer (see `dpsql.privacy.account`). All conversions are tight:

    zCDP      ε(ρ, δ) = inf over α > 1 of  ρα + [ln(1/δ) + (α − 1)·ln(1 − 1/α) − ln α] / (α − 1)
    Gaussian  δ(ε) = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ),   μ = √(2g), the exact privacy profile

(Canonne, Kamath, Steinke 2020, Proposition 12; Balle and Wang 2018; μ adds as √(Σμ²): Dong, Roth, Su 2022). Every α
gives a valid bound, so the numerical minimum can only be too large.

    discrete Gaussian noise of σ² = 1/2ρ + 1/8 on a count of sensitivity 1     ρ of zCDP    g = ρ
    exponential mechanism of range η = √(8ρ), Laplace noise of ε = √(2ρ)       ρ of zCDP    g ≤ (π/2)·ρ

The second line: such an answer's loss lies in an interval of length η, and the worst two-point distribution there has
μ = 2Φ⁻¹(½ + ½tanh(η/4)) ≤ √(2π)·η/4. The first line, for every σ² > 1/8:

Let p be the probabilities of N_Z(0, σ²), F their sums, z(t) = Φ⁻¹(F(t)) and d(t) = z(t) − z(t − 1). The trade-off
function of N_Z(0, σ²) against N_Z(1, σ²) is piecewise linear between the points (F(t − 1), 1 − F(t)). G_μ is convex, so
it lies below as soon as it does in those points, that is if d(t) ≤ μ = 1/√(σ² − 1/8) for every integer t.

1. Let D = sup d(t). By Mills' ratio z(t) = (t + 1)/σ + O(ln t / t), so d(t) → 1/σ < μ: D is harmless or D = d(m).
2. The intervals (z(t − 1), z(t)] touch and hold the mass p(t) of the normal distribution. Let A be that of m, whose
   length is D. Those beside it are no longer, so they lie in A + D and in A − D, and by p(t) ∝ e^(−t²/2σ²)
       e^(1/σ²) = p(m)² / (p(m − 1)·p(m + 1)) ≥ Φ(A)² / (Φ(A − D)·Φ(A + D)) = e^(D²) / (E e^(Dx) · E e^(−Dx)),
   where x is normal, given that it is in A.
3. Among the densities ∝ e^(κx) on A one, r, has the same mean of e^(−Dx). The logarithm of the normal density is
   concave, so it is above r between two points of A and below outside. As a function of e^(−Dx), e^(Dx) is convex: it
   is below the chord through the two points between them, above outside. So its mean is at most that of r.
4. With q = D²/2, y = κD/2 and S(y) = sinh(y)/y, the product of both means of r is S(y + q)·S(y − q)/S(y)². It is at
   most S(q)²: by sinh(y + q)·sinh(y − q) = sinh²y − sinh²q that says that 1/y² − 1/sinh²y falls for y > 0, which is
   cosh y ≤ (sinh y / y)³, Lazarević's inequality. So 1/σ² ≥ D² − 2 ln S(q).
5. ln S(q) ≤ q²/(4 + q): for q ≤ 2 by ln S(q) ≤ q²/6; for q ≥ 3/2 by ln S(q) < q − ln 2q, because ln 2q − 4q/(4 + q)
   has the derivative (q − 4)²/(q(4 + q)²) ≥ 0, and is positive at 3/2: ln 3 > 12/11.
6. So 1/σ² ≥ D² − 2q²/(4 + q) = D²/(1 + D²/8), which is D ≤ 1/√(σ² − 1/8).

ρ and g are kept as exact rationals, multiples of 2⁻⁹⁶: budgets are rounded down to it, charges up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import Final

from dpsql.core import special
from dpsql.core.minimum import minimum
from dpsql.errors import InvalidArgument

RHO_BITS: Final = 96
RHO_UNIT: Final = Fraction(1, 1 << RHO_BITS)
_LARGEST_EPSILON: Final = 1000.0
_PROFILE_SLACK: Final = 1e-7  # far above the rounding error of the profile
ASK_LAPLACE: Final = (
    "ask for Laplace noise alone, with dp_query(…, mechanism := 'laplace') or dp_synthesize(…, noise := 'laplace') of "
    "direct, hdmm, mwem, lp, barak or ide"
)
"""What can be asked for where δ is 0."""
OTHER_PRICE: Final = Fraction(11, 7)
"""g of a selection or of Laplace noise, in multiples of its ρ: π/2, rounded up."""


@dataclass(frozen=True)
class Budget:
    """An (ε, δ) promise and what implies it.

    Attributes:
        epsilon: positive and finite.
        delta: in (0, 1); 0 where the promise is pure, (ε, 0)-DP.
        rho: of zCDP, exact.
        gdp: g = μ²/2 of Gaussian DP, exact.
    """

    epsilon: float
    delta: float
    rho: Fraction
    gdp: Fraction

    @property
    def currency(self) -> str:
        """By which sum an account is held whose first charge this is: `gdp` where all noise is Gaussian."""
        return "gdp" if self.gdp == self.rho else "zcdp"

    @property
    def pure(self) -> bool:
        """Whether the promise is ε-DP, with δ = 0."""
        return self.delta == 0

    @property
    def exact_epsilon(self) -> Fraction:
        """ε as it adds up; see `exact`."""
        return exact(self.epsilon)


def check_epsilon(epsilon: float) -> float:
    """Refuse an ε that is not a positive finite number."""
    if not (math.isfinite(epsilon) and 0 < epsilon <= _LARGEST_EPSILON):
        raise InvalidArgument(
            f"epsilon is {epsilon:g}: give a positive number (0.1 is strict, 1 usual, at most {_LARGEST_EPSILON:g})"
        )
    return float(epsilon)


def check_delta(delta: float) -> float:
    """Refuse a δ outside (0, 1)."""
    if delta == 0:
        raise InvalidArgument(
            f"delta is 0, which Gaussian noise cannot promise: {ASK_LAPLACE}; or, of a table that is protected with a "
            "delta, give a probability such as 1e-9"
        )
    if not 0 < delta < 1:
        raise InvalidArgument(f"delta is {delta:g}: give a probability between 0 and 1, such as 1e-9")
    return float(delta)


def exact(epsilon: float) -> Fraction:
    """ε of a pure promise as it is written in decimals, rounded down to a multiple of 2⁻⁹⁶: so that ten times 0.1 is 1.

    >>> 10 * exact(0.1) <= exact(1.0) < 10 * Fraction(0.1)
    True
    """
    return round_down(Fraction(repr(float(epsilon))))


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
    return max(0.0, minimum(bound, centre - 8, centre + 3, 1e-9)) * (1 + 1e-12)


@lru_cache(maxsize=1024)  # five milliseconds
def zcdp_rho(epsilon: float, delta: float) -> Fraction:
    """The largest ρ (rounded down) whose tight conversion at δ is at most ε."""
    return _largest(lambda rho: zcdp_epsilon(rho, delta) <= epsilon, epsilon + 1.0)


def _bisect(fits: Callable[[float], bool], high: float) -> tuple[float, float]:
    """The two neighbouring numbers in 0 … high between which `fits` turns from true to false."""
    low = 0.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low, high


def _largest(fits: Callable[[float], bool], high: float) -> Fraction:
    return round_down(Fraction(_bisect(fits, high)[0]))


def gaussian_delta(gdp: float, epsilon: float) -> float:
    """δ(ε) of Gaussian DP with μ = √(2g), its exact privacy profile (rounded up).

    >>> round(gaussian_delta(0.5, 1.0), 4)
    0.1269
    """
    mu = math.sqrt(2 * gdp)
    near = float(special.log_ndtr(mu / 2 - epsilon / mu))
    far = epsilon + float(special.log_ndtr(-mu / 2 - epsilon / mu))
    gap = max(near - far, 0.0)
    rounding = 8e-16 * (1 + abs(near)) / gap if gap > 0 else 1.0  # of the difference of two near logarithms
    return math.exp(near) * (-math.expm1(-gap) + rounding * min(1.0, gap)) * (1 + _PROFILE_SLACK)


def gaussian_epsilon(gdp: float | Fraction, delta: float) -> float:
    """The smallest ε (rounded up) of Gaussian DP with μ = √(2g) at δ; 0 for g = 0.

    >>> round(gaussian_epsilon(0.01573, 4.19e-10), 2)
    1.0
    """
    gdp = float(gdp)
    if gdp <= 0:
        return 0.0
    enough = zcdp_epsilon(gdp, delta)  # a Gaussian is g-zCDP too
    return _bisect(lambda epsilon: gaussian_delta(gdp, epsilon) > delta, enough)[1]


def gaussian_gdp(epsilon: float, delta: float) -> Fraction:
    """The largest g (rounded down) of Gaussian DP that implies (ε, δ)-DP.

    >>> gaussian_gdp(1.0, 1e-9) > zcdp_rho(1.0, 1e-9)
    True
    """
    return _largest(lambda gdp: gdp == 0 or gaussian_delta(gdp, epsilon) <= delta, 2 * epsilon + 100)


def simple_rho(epsilon: float, delta: float) -> Fraction:
    """The ρ with ε = ρ + 2√(ρ ln(1/δ)), the looser conversion of the RAP paper (rounded down).

    >>> float(simple_rho(1.0, 4.19e-10)) < float(zcdp_rho(1.0, 4.19e-10))
    True
    """
    log_delta = -math.log(delta)
    root = epsilon / (math.sqrt(log_delta + epsilon) + math.sqrt(log_delta))  # √(L + ε) − √L without cancellation
    return round_down(Fraction(root**2 * (1 - 1e-12)))


def simple_epsilon(rho: float | Fraction, delta: float) -> float:
    """ε = ρ + 2√(ρ ln(1/δ)), the looser conversion of the RAP paper."""
    return float(rho) + 2 * math.sqrt(-float(rho) * math.log(delta))


@dataclass(frozen=True)
class Conversion:
    """How (ε, δ) becomes what a release may cost, and back.

    Attributes:
        rho: the largest ρ for ε at δ, rounded down.
        epsilon: the ε of ρ at δ, rounded up.
        price: the most g that each ρ may cost; 1 where only Gaussian noise fits.
    """

    rho: Callable[[float, float], Fraction]
    epsilon: Callable[[float | Fraction, float], float]
    price: Fraction


CONVERSIONS: Final[Mapping[str, Conversion]] = {
    "gdp": Conversion(gaussian_gdp, gaussian_epsilon, Fraction(1)),
    "tight": Conversion(zcdp_rho, zcdp_epsilon, OTHER_PRICE),
    "simple": Conversion(simple_rho, simple_epsilon, OTHER_PRICE),
}
"""By name. gaussian: by Gaussian DP; tight: by zCDP; simple: by zCDP as loosely as in the RAP paper."""


def make_budget(epsilon: float, delta: float, conversion: str = "tight") -> Budget:
    """Check ε and δ and convert them.

    Raises:
        InvalidArgument: ε not positive and finite, δ outside (0, 1), or an unknown conversion.
    """
    if conversion not in CONVERSIONS:
        raise InvalidArgument(f"conversion is {conversion!r}: say one of {', '.join(map(repr, CONVERSIONS))}")
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    rule = CONVERSIONS[conversion]
    rho = rule.rho(epsilon, delta)
    if rho <= 0:
        raise InvalidArgument(f"epsilon {epsilon:g} at delta {delta:g} is too small to be useful: ask for more")
    return Budget(epsilon, delta, rho, units(rho * rule.price) * RHO_UNIT)


def pure_budget(epsilon: float, rho: Fraction) -> Budget:
    """What a mechanism of pure ε costs whose questions together cost ρ; it has Laplace noise and selections only.

    Args:
        epsilon: of ε-DP, the sum over all questions.
        rho: the sum of their zCDP: (Δ₁/b)²/2 for Laplace noise of scale b, ε₀²/8 for a selection of range ε₀.
    """
    epsilon, rho = check_epsilon(epsilon), round_down(rho)
    if rho <= 0:
        raise InvalidArgument(f"epsilon {epsilon:g} is too small to be useful: ask for more")
    return Budget(epsilon, 0.0, rho, units(rho * OTHER_PRICE) * RHO_UNIT)


def account_budget(epsilon: float, delta: float) -> Budget:
    """What all releases of a table may cost together for an (ε, δ) promise: Σρ ≤ `rho`, or Σg ≤ `gdp`.

    For δ = 0 only Σε ≤ ε counts, and neither sum proves anything: both are 0.
    """
    if delta == 0:
        return Budget(check_epsilon(epsilon), 0.0, Fraction(0), Fraction(0))
    budget = make_budget(epsilon, delta, "tight")
    return replace(budget, gdp=gaussian_gdp(budget.epsilon, budget.delta))


def largest_epsilon(left: Fraction, delta: float, conversion: str = "gdp") -> float:
    """The largest ε (to 6 digits, rounded down) whose ρ at δ is at most `left`; 0 if none.

    >>> epsilon = largest_epsilon(gaussian_gdp(2.0, 1e-9), 1e-9)
    >>> gaussian_gdp(epsilon, 1e-9) <= gaussian_gdp(2.0, 1e-9)
    True
    """
    rule = CONVERSIONS[conversion]
    epsilon = rule.epsilon(left, delta)
    while epsilon > 1e-12:
        digits = 5 - math.floor(math.log10(epsilon))
        epsilon = math.floor(epsilon * 10.0**digits + 1e-6) / 10.0**digits
        if epsilon > 0 and rule.rho(epsilon, delta) <= left:
            return epsilon
        epsilon -= 10.0**-digits
    return 0.0


def gaussian_variance(rho: Fraction, l2_squared: int | Fraction) -> Fraction:
    """The σ² = Δ²/2ρ + 1/8 of the discrete Gaussian that costs ρ of zCDP and g = ρ, Δ² cells changing by 1 each."""
    return Fraction(l2_squared) / (2 * rho) + Fraction(1, 8)


def discovery_threshold(variance: Fraction, failure: float, values: int) -> int:
    """The least noisy count (units) at which a value is published, of values that 2 units or more have.

    With discrete Gaussian noise of that variance, `values` values that only 2 units have, so that one of them can make
    them appear, all stay below it with probability 1 − `failure`: P[N_Z ≥ m] ≤ P[N ≥ m − 1] (Canonne, Kamath, Steinke
    2020, Proposition 25).

    >>> discovery_threshold(Fraction(100), 1e-9, 1)
    63
    """
    tail = float(-special.ndtri_exp(math.log(failure) - math.log(values)))
    return 3 + math.ceil(math.sqrt(variance) * tail * (1 + 1e-9))


def selection_rate(rho: Fraction, sensitivity: int) -> Fraction:
    """The λ ≤ √(2ρ)/Δ of the exponential mechanism that is ρ-zCDP (range ε₀ = 2λΔ, ρ = ε₀²/8), rounded down."""
    scaled = 2 * rho * (1 << 2 * RHO_BITS)
    return Fraction(isqrt(scaled.numerator // scaled.denominator), 1 << RHO_BITS) / sensitivity


def plain_fraction(name: str, value: object) -> Fraction:
    """A copy of a positive fraction that comes from a mechanism; refuses anything else, a subclass too.

    Raises:
        InvalidArgument: it is none.
    """
    if type(value) is Fraction:
        above, below = value.numerator, value.denominator
        if type(above) is int and type(below) is int and above > 0 and below > 0:
            return Fraction(above, below)
    raise InvalidArgument(f"{name} is {value!r}: give a positive Fraction")


def round_down(rho: Fraction) -> Fraction:
    """To a multiple of 2⁻⁹⁶, for what may be spent."""
    return Fraction(rho.numerator * (1 << RHO_BITS) // rho.denominator, 1 << RHO_BITS)


def units(rho: Fraction) -> int:
    """In multiples of 2⁻⁹⁶, rounded up, for what is spent.

    >>> units(Fraction(1, 3)) * RHO_UNIT >= Fraction(1, 3)
    True
    """
    return -(-rho.numerator * (1 << RHO_BITS) // rho.denominator)
