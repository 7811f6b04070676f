r"""Fourier coefficients of a table whose columns are written in bits, as Barak et al. measure them.

With k bits in all, ⟨β, x⟩ the number of bits of x that the set β holds, and D(x) how many rows are x:

    f^β(x) = 2^{−k/2}·(−1)^{⟨β, x⟩},        φ_β = ⟨f^β, D⟩ + noise  for all β ∈ B
    C^S(D) = Σ_{β ⊆ S} ⟨f^β, D⟩·C^S(f^β),   so B is every β inside the bits of a marginal S of the workload

Measured is 2^{k/2}·⟨f^β, D⟩ = Σ_x D(x)·(−1)^{⟨β, x⟩}, a whole number: the rows with an even number of the bits β minus
those with an odd one. φ_∅ is the number of rows. A column of t values has ⌈log₂ t⌉ bits.

A row that is added changes each coefficient by 1, |B| in all; c rows of a unit by c·|B|. A row that is replaced changes
each but φ_∅ by 0 or 2. So every coefficient has Laplace noise of scale c·|B|/ε, or 2(|B| − 1)/ε at most where n is
public; the paper's is 2|B|/ε. The curator computes Δ by itself (`dpsql.core.linear_family`).

The program is the paper's, but for φ_∅, which the weights add up to, where they may miss it there as any other:

    minimise b,   x ≥ 0,   |φ_β − Σ_γ f^β(γ)·x_γ| ≤ b  for all β ∈ B

Let no noise be larger than e. Where n is public D misses no φ_β by more than e, so no coefficient of x is off by more
than 2e. Where it is private the weights add up to φ_∅, so D stretched to φ_∅ rows stands for D, which misses by 2e: no
coefficient is off by more than 3e. A cell of S is the mean of coefficients with signs, one for each set of the bits of
S, so no cell is off by more either. Rounding each weight to the nearest whole number moves a cell by at most half of
the number of weights in it.

Source: Barak, Chaudhuri, Dwork, Kale, McSherry, Talwar 2007, sections 3 and 4.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique, Domain
from dpsql.core.linear_family import LinearFamily
from dpsql.core.marginal import Measurement
from dpsql.core.workload import Workload
from dpsql.errors import DomainTooLarge, InvalidArgument
from dpsql.mechanisms.asks import Linear, Total
from dpsql.mechanisms.course import Course
from dpsql.mechanisms.facts import Facts, PlannedMeasurement, Pricing
from dpsql.privacy.distributions import Distribution
from dpsql.privacy.linear_families import family_stddevs

Floats = npt.NDArray[np.float64]
_MOST_ENTRIES: Final = 500_000
"""Coefficients times records: the program's matrix is dense."""


@dataclass(frozen=True)
class Coefficients(Linear):
    """Fourier coefficients but φ_∅, in one question; a plan shows those of the same columns together."""

    def planned(self, course: Pricing) -> Iterable[PlannedMeasurement]:
        """See `Ask.planned`."""
        cost = course.cost(self.share)
        stddev = coefficient_stddev(course.facts, self.families, cost, course.noise)
        for clique, count in Counter(family.clique for family in self.families).items():
            share = float(cost) * count / len(self.families)
            yield PlannedMeasurement(clique, count, stddev, share, self.note, open="Fourier coefficients")


def bits_of(domain: Domain, name: str) -> int:
    """How many bits a column's code has."""
    return (domain.size((name,)) - 1).bit_length()


def count_of(domain: Domain, workload: Workload) -> int:
    """|B|, φ_∅ too."""
    sizes = {name: (1 << bits_of(domain, name)) - 1 for name in domain.names}
    return 1 + sum(math.prod(sizes[name] for name in clique) for clique in workload.closure())


def coefficients(domain: Domain, workload: Workload) -> list[LinearFamily]:
    """2^{k/2}·⟨f^β, ·⟩ for all β ∈ B but ∅, each a linear query with the weights 1 and −1.

    >>> from dpsql.core.domain import Attribute
    >>> domain = Domain(tuple(Attribute(name, "INTEGER", "values", ("0", "1")) for name in "ab"))
    >>> [(one.clique, one.weights.tolist()) for one in coefficients(domain, Workload((("a", "b"),)))]
    [(('a',), [1, -1]), (('b',), [1, -1]), (('a', 'b'), [1, -1, -1, 1])]
    """
    families = []
    for clique in workload.closure():
        for bits in itertools.product(*(range(1, 2 ** bits_of(domain, name)) for name in clique)):
            signs = [_signs(domain.size((name,)), chosen) for name, chosen in zip(clique, bits, strict=True)]
            weights = reduce(np.multiply.outer, signs).ravel()
            text = ", ".join(f"{name} {chosen:b}" for name, chosen in zip(clique, bits, strict=True))
            groups = np.zeros(len(weights), np.int64)
            families.append(LinearFamily(clique, weights, groups, 1, Fraction(1), f"Fourier coefficient of {text}"))
    return families


def _signs(size: int, bits: int) -> npt.NDArray[np.int64]:
    """(−1)^{⟨β, code⟩} of all codes of a column."""
    return np.array([1 - 2 * ((code & bits).bit_count() % 2) for code in range(size)], np.int64)


def course_of(facts: Facts, noise: Distribution) -> Course:
    """The number of rows and all other coefficients, at one price each."""
    count = count_of(facts.domain, facts.workload)
    total = Total.of(facts, Fraction(1, count), note="the number of rows, the first Fourier coefficient")
    ask = Coefficients(1 - total.share, coefficients(facts.domain, facts.workload))
    return Course(facts, noise, (total, ask))


def coefficient_stddev(facts: Facts, families: Sequence[LinearFamily], rho: Fraction, noise: Distribution) -> float:
    """Of each coefficient's noise (rows); all have the same, because all have the weights 1 and −1."""
    return max(family_stddevs(facts.domain, families, rho, facts.neighbours, noise), default=0.0)


def check_coefficients(domain: Domain, workload: Workload, records: int) -> None:
    """Refuse a program that is too large, or has nothing to meet.

    Raises:
        DomainTooLarge: it has too many coefficients.
        InvalidArgument: no column has two values.
    """
    count = count_of(domain, workload)
    if count * records > _MOST_ENTRIES:
        raise DomainTooLarge(
            f"{count} Fourier coefficients of {records} records make a dense program of {count * records:.3g} entries, "
            f"of at most {_MOST_ENTRIES:.3g}: ask for fewer or smaller marginals, or say queries := 'marginals'"
        )
    if count < 2:
        raise InvalidArgument(
            "queries is 'fourier', but each column has one value only: ask for a column with two, or say queries := "
            "'marginals'"
        )


def one_way(domain: Domain, total: Measurement, measured: Sequence[Measurement]) -> list[Measurement]:
    """The 1-way marginals that noisy coefficients tell: 2^{−b}·Σ_β (−1)^{⟨β, code⟩}·φ_β of a column of b bits."""
    sums = dict[Clique, Floats]()
    for term in measured:
        if term.linear is not None and len(term.clique) == 1:
            sums[term.clique] = sums.get(term.clique, np.zeros(1)) + term.linear.weights * float(term.values[0])
    marginals = []
    for clique, summed in sums.items():
        scale = 2 ** bits_of(domain, *clique)
        values = np.rint((summed + float(total.values[0])) / scale).astype(np.int64)
        variance = max(marginal.variance for marginal in measured) / scale
        marginals.append(Measurement(clique, values.shape, values, variance, measured[0].noise, Fraction(0)))
    return marginals


def nearest_whole(weights: Floats, rows: float) -> Floats:
    """How many rows each record has, to the nearest whole number; as they were where none would have one.

    >>> nearest_whole(np.array([0.3, 0.7]), 9.0).tolist()
    [3.0, 6.0]
    """
    rounded = np.rint(weights * rows)
    return rounded if rounded.any() else weights * rows
