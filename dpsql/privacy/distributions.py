r"""What the curator is asked for, and what it costs: noisy counts, one value for each noise, and choices.

Every question takes a share ρ of zCDP. Its `Kind` says what that costs by the other two accounts:

    g   of Gaussian DP      gdp·ρ
    ε   of pure DP          span·√(2ρ), so that ρ = ε²/(2·span²); no bound for noise whose tails fall too fast

A `Distribution` is a kind of noise and all that is to be known of it: how wide it must be, how it is drawn, and how far
it reaches. A new one is one class here and its place in `_register`. The proofs are in `dpsql.privacy.accounting`, the
samplers in `dpsql.privacy.noise`.

The register is the kernel's own. Mechanisms name what is in it. A value of their own making is refused, because what it
says of its cost and its noise would be believed.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import ClassVar, Final

from dpsql.core import special
from dpsql.errors import InvalidArgument
from dpsql.privacy.accounting import OTHER_PRICE, gaussian_variance, selection_rate
from dpsql.privacy.noise import Entropy, Integers, discrete_gaussian, discrete_laplace


class Kind:
    """A kind of question.

    Attributes:
        name: as requests, journals and reports write it.
        gdp: g of a question, in multiples of its ρ.
        span: ε of a question, in multiples of √(2ρ); None where no ε is proven.
    """

    __slots__ = ()
    name: ClassVar[str]
    gdp: ClassVar[Fraction]
    span: ClassVar[int | None]

    def __repr__(self) -> str:
        """The name, as messages quote it."""
        return repr(self.name)

    @property
    def pure(self) -> bool:
        """Whether a question proves ε-DP, with δ = 0."""
        return self.span is not None

    def rho(self, epsilon: Fraction) -> Fraction:
        """ρ of a question of so much ε.

        Raises:
            InvalidArgument: no ε is proven.

        >>> LAPLACE.rho(Fraction(1)), SELECTION.rho(Fraction(1))
        (Fraction(1, 2), Fraction(1, 8))
        """
        return epsilon**2 / (2 * self._span() ** 2)

    def epsilon(self, rho: Fraction) -> Fraction:
        """ε of a question of a share ρ, as its noise or its rate is rounded; see `selection_rate`.

        Raises:
            InvalidArgument: no ε is proven.
        """
        return self._span() * selection_rate(rho, 1)

    def _span(self) -> int:
        if self.span is None:
            raise InvalidArgument(f"{self.name.capitalize()} noise proves no pure epsilon: ask for Laplace noise")
        return self.span


class Distribution(Kind, ABC):
    """A distribution of integer noise, symmetric around 0.

    Attributes:
        norm: 1 or 2: by Σ |change|^norm of the counts its width goes.
        is_normal: whether sums of such noise are as good as normal, so that what holds of normal errors holds of it.
    """

    __slots__ = ()
    norm: ClassVar[int]
    is_normal: ClassVar[bool]

    @abstractmethod
    def scale(self, rho: Fraction, sensitivity: int | Fraction) -> Fraction:
        """The parameter that a share ρ pays for.

        Args:
            rho: the share.
            sensitivity: the most that Σ |change|^norm of the counts can be between neighbours.
        """

    @abstractmethod
    def variance(self, scale: Fraction) -> Fraction:
        """Of one draw; at most that."""

    @abstractmethod
    def draw(self, scale: Fraction, count: int, entropy: Entropy) -> Integers:
        """So many independent draws, exact."""

    @abstractmethod
    def reach(self, failure: float) -> float:
        """So many standard deviations around 0 hold a draw but for that probability."""

    @abstractmethod
    def tail(self, stddev: float, distance: float) -> float:
        """At most this is the probability of a draw that is `distance` or more from 0."""

    def width(self, scale: Fraction) -> float:
        """By which it is told whether a draw fits into 64 bits, see `check_scale`: σ, unless a child says otherwise."""
        return math.sqrt(self.variance(scale))

    def stddev(self, rho: Fraction, sensitivity: int | Fraction) -> float:
        """The standard deviation of a draw that a share ρ pays for; see `scale`."""
        return math.sqrt(self.variance(self.scale(rho, sensitivity)))


class _Gaussian(Distribution):
    """The discrete Gaussian of parameter σ² = Δ²/2ρ + 1/8: ρ-zCDP, and Gaussian DP of g = ρ."""

    __slots__ = ()
    name = "gaussian"
    gdp = Fraction(1)
    span = None
    norm = 2
    is_normal = True

    def scale(self, rho: Fraction, sensitivity: int | Fraction) -> Fraction:
        return gaussian_variance(rho, sensitivity)

    def variance(self, scale: Fraction) -> Fraction:
        return scale

    def draw(self, scale: Fraction, count: int, entropy: Entropy) -> Integers:
        return discrete_gaussian(scale, count, entropy)

    def reach(self, failure: float) -> float:
        return -float(special.ndtri(failure / 2))

    def tail(self, stddev: float, distance: float) -> float:
        return 2 * float(special.ndtr(-(distance - 0.5) / stddev))  # of whole numbers


class _Laplace(Distribution):
    """The discrete Laplace distribution of parameter b = Δ/ε, ε ≤ √(2ρ): ε-DP, ρ-zCDP, and 11/7 of that g."""

    __slots__ = ()
    name = "laplace"
    gdp = OTHER_PRICE
    span = 1
    norm = 1
    is_normal = False

    def scale(self, rho: Fraction, sensitivity: int | Fraction) -> Fraction:
        return sensitivity / selection_rate(rho, 1)

    def variance(self, scale: Fraction) -> Fraction:
        return 2 * scale**2

    def width(self, scale: Fraction) -> float:
        return float(scale)

    def draw(self, scale: Fraction, count: int, entropy: Entropy) -> Integers:
        return discrete_laplace(scale, count, entropy)

    def reach(self, failure: float) -> float:
        return -math.log(failure) / math.sqrt(2)

    def tail(self, stddev: float, distance: float) -> float:
        return 2 * math.exp(-distance * math.sqrt(2) / stddev)


class _Selection(Kind):
    """A choice by an exponential mechanism of range 2λΔ, λ ≤ √(2ρ)/Δ: ρ-zCDP, 2√(2ρ)-DP, and 11/7 of that g."""

    __slots__ = ()
    name = "selection"
    gdp = OTHER_PRICE
    span = 2


GAUSSIAN: Final[Distribution] = _Gaussian()
LAPLACE: Final[Distribution] = _Laplace()
SELECTION: Final[Kind] = _Selection()
_register: tuple[Distribution, ...] = (GAUSSIAN, LAPLACE)


def distributions() -> tuple[Distribution, ...]:
    """Every noise that there is."""
    return _register


def noise_names() -> tuple[str, ...]:
    """Their names, as an option `noise` or a query's `mechanism` takes them."""
    return tuple(noise.name for noise in _register)


def kinds() -> tuple[Kind, ...]:
    """Every kind of question that there is."""
    return (*_register, SELECTION)


def find_noise(given: object) -> Distribution:
    """The noise of that name, or that value itself.

    Raises:
        InvalidArgument: it is none of the register.

    >>> find_noise("laplace") is find_noise(LAPLACE) is LAPLACE
    True
    """
    for noise in _register:
        if _is(noise, given):
            return noise
    raise _unknown(given, "noise of a measurement", noise_names())


def find_kind(given: object, what: str) -> Kind:
    """The kind of question of that name, or that value itself.

    Raises:
        InvalidArgument: it is none; `what` says of what.
    """
    for kind in kinds():
        if _is(kind, given):
            return kind
    raise _unknown(given, what, tuple(kind.name for kind in kinds()))


def _is(kind: Kind, given: object) -> bool:
    """By identity, or by a plain text: what equals it in its own opinion is not it."""
    return given is kind or (type(given) is str and given == kind.name)


def _unknown(given: object, what: str, names: tuple[str, ...]) -> InvalidArgument:
    shown = repr(given) if type(given) is str else f"a {type(given).__name__}"
    return InvalidArgument(f"{what} is {shown}: say one of {', '.join(map(repr, names))}")
