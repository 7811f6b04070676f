r"""How strongly two columns depend on each other: as measured, with an interval for the noise, and in given counts.

    R²(a, b) = Σ_ij D_ij² / √(H_a·H_b),   D = p_ab − p_a⊗p_b,   H_c = Σ p_c² − 2Σ p_c³ + (Σ p_c²)²

R is from 0 (independent) to 1 (each value of one column goes with one of the other). For two yes/no columns R is the
absolute correlation. H_c is Σ D² of the column with itself.

Of noisy counts y with deviation σ, D = y − y_a⊗y_b/N and S = ΣD² − E, where E is what noise adds on average:

    E  = cells·σ² + |p_b|²·c_a·σ_a² + |p_a|²·c_b·σ_b² − 2·(c_a·Cov_a + c_b·Cov_b − Cov_ab)
    s² = κ·(cells·σ⁴ + c_a·(|p_b|²σ_a²)² + c_b·(|p_a|²σ_b²)²) + 4·(σ²·S + σ_a²·|D·p_b|² + σ_b²·|p_a·D|²)

to the first order of the noise; y_a and y_b are the columns' estimates of c_a and c_b cells, Cov how far their noise is
that of the pair's counts, and κ = 2 for normal noise, 5 for Laplace noise. The interval of R² is max(S, 0) ± 1.96·s,
divided by N²·√(H_a·H_b) and cut to 0 … 1. All of it is computed from released values.

Source: Escoufier 1973 (the RV coefficient, here of the indicators of two columns); Robert and Escoufier 1976.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from dpsql.release.estimates import Estimate, Estimates, Floats

REACH: Final = 1.96
_KURTOSIS: Final = {True: 2.0, False: 5.0}
"""E[e⁴]/σ⁴ − 1 of normal noise, and of Laplace noise."""
_CONSTANT: Final = 1e-12


@dataclass(frozen=True)
class Association:
    """R of two columns as measured.

    Attributes:
        value: the estimate.
        low, high: about a 95 % interval for the noise.
    """

    value: float
    low: float
    high: float

    @property
    def width(self) -> float:
        """Of the interval."""
        return self.high - self.low

    @property
    def is_vacuous(self) -> bool:
        """Whether it is every correlation that there is: of noise alone, or of no rows with values in both columns."""
        return self.low <= -1.0 and self.high >= 1.0


def association(estimates: Estimates, pair: Estimate) -> Association | None:
    """R of two columns by the noisy counts; None where one has a single value.

    Args:
        estimates: of the release.
        pair: that of the two columns.
    """
    a, b = (estimates.of((name,)) for name in pair.clique)
    assert a is not None  # what holds the pair holds both
    assert b is not None
    total = estimates.total or 1.0
    p, q = a.values / total, b.values / total
    scale = total**2 * math.sqrt(_own(p) * _own(q))
    if scale <= _CONSTANT or min(len(p), len(q)) < 2:
        return None
    gaps = pair.values - np.multiply.outer(a.values, b.values) / total
    excess = max(0.0, float((gaps**2).sum()) - _noise(estimates, pair, a, b, p, q))
    reach = REACH * _deviation(pair, a, b, p, q, gaps, excess)
    value, low, high = (math.sqrt(min(1.0, max(0.0, x) / scale)) for x in (excess, excess - reach, excess + reach))
    return Association(value, low, high)


def association_of_counts(counts: Floats) -> float:
    """R of a table of counts; 0 where a column has one value only.

    >>> import numpy as np
    >>> association_of_counts(np.array([[5.0, 0.0], [0.0, 5.0]])), association_of_counts(np.ones((2, 3)))
    (1.0, 0.0)
    """
    rows = counts.sum()
    if rows <= 0:
        return 0.0
    joint = counts / rows
    p, q = joint.sum(axis=1), joint.sum(axis=0)
    scale = math.sqrt(_own(p) * _own(q))
    if scale <= _CONSTANT:
        return 0.0
    return math.sqrt(min(1.0, float(((joint - np.multiply.outer(p, q)) ** 2).sum()) / scale))


def _own(shares: Floats) -> float:
    """H of a column; negative shares, which are noise, count as 0."""
    p = np.maximum(shares, 0.0)
    whole = p.sum()
    if whole <= 0:
        return 0.0
    p = p / whole
    square = float((p**2).sum())
    return max(0.0, square - 2 * float((p**3).sum()) + square**2)


def _noise(estimates: Estimates, pair: Estimate, a: Estimate, b: Estimate, p: Floats, q: Floats) -> float:
    """What noise adds to ΣD² on average."""
    alone = pair.values.size * pair.variance
    alone += float(q @ q) * len(p) * a.variance + float(p @ p) * len(q) * b.variance
    in_a, in_b = (pair.variance * sum(single.weights.get(place, 0.0) for place in pair.weights) for single in (a, b))
    return alone - 2 * (len(p) * in_a + len(q) * in_b - estimates.shared(a, b, pair.clique))


def _deviation(pair: Estimate, a: Estimate, b: Estimate, p: Floats, q: Floats, gaps: Floats, excess: float) -> float:
    """The deviation s of S."""
    of_a, of_b = float(q @ q) * a.variance, float(p @ p) * b.variance
    square = pair.values.size * pair.variance**2 + len(p) * of_a**2 + len(q) * of_b**2
    linear = pair.variance * excess
    linear += a.variance * float(((gaps @ q) ** 2).sum()) + b.variance * float(((p @ gaps) ** 2).sum())
    return math.sqrt(_KURTOSIS[pair.is_normal] * square + 4 * linear)
