"""What an attack proves: thresholds, Clopper–Pearson bounds, and the least loss that the rates of an attack leave possible.

And what makes thousands of runs bearable.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pytest
from scipy import stats

from dpsql.core.domain import Domain
from dpsql.mechanisms.matrix import hdmm

FALSE_ALARM = 1e-6


def bounds(hits: int, trials: int) -> tuple[float, float]:
    """Clopper–Pearson lower and upper bound of a probability."""
    low = stats.beta.ppf(FALSE_ALARM, hits, trials - hits + 1) if hits else 0.0
    high = stats.beta.ppf(1 - FALSE_ALARM, hits + 1, trials - hits) if hits < trials else 1.0
    return float(low), float(high)


def divergence(p: float, q: float) -> float:
    """max over α of D_α(Bern(p) ‖ Bern(q))/α, which ρ-zCDP bounds by ρ; 0 if p ≤ q."""
    if p <= q:
        return 0.0
    best = 0.0
    for alpha in np.linspace(1.01, 30, 300):
        inside = p**alpha * q ** (1 - alpha) + (1 - p) ** alpha * (1 - q) ** (1 - alpha)
        best = max(best, math.log(inside) / (alpha - 1) / alpha)
    return best


@dataclass(frozen=True)
class Hits:
    """How often an attack took a release for one of the second table, and what that proves.

    Attributes:
        first, second: of so many releases of either table.
        runs: of each.
        claimed_rho, claimed_gdp, claimed_epsilon: what a release is said to cost; no ε where δ > 0.
    """

    first: int
    second: int
    runs: int
    claimed_rho: float = math.inf
    claimed_gdp: float = math.inf
    claimed_epsilon: float = math.inf

    @property
    def _rates(self) -> list[tuple[float, float]]:
        """A lower bound of the true and an upper one of the false positives; the same of negatives."""
        positive = bounds(self.second, self.runs)[0], bounds(self.first, self.runs)[1]
        return [positive, (bounds(self.runs - self.first, self.runs)[0], bounds(self.runs - self.second, self.runs)[1])]

    @property
    def rho(self) -> float:
        """A lower bound of ρ of zCDP."""
        return max(divergence(*rates) for rates in self._rates)

    @property
    def gdp(self) -> float:
        """A lower bound of g = μ²/2 of Gaussian DP: true ≤ Φ(Φ⁻¹(false) + μ)."""
        shift = max(stats.norm.ppf(true) - stats.norm.ppf(false) for true, false in self._rates)
        return max(0.0, float(shift)) ** 2 / 2

    @property
    def epsilon(self) -> float:
        """A lower bound of ε of pure DP: true ≤ e^ε·false."""
        return max([0.0, *(math.log(true / false) for true, false in self._rates if true > 0)])

    def __str__(self) -> str:
        return (
            f"{self.first} and {self.second} of {self.runs}: rho at least {self.rho:.3f} of {self.claimed_rho:.3f}, "
            f"g {self.gdp:.3f} of {self.claimed_gdp:.3f}, epsilon {self.epsilon:.3f} of {self.claimed_epsilon:.3f}"
        )


def threshold(first: np.ndarray, second: np.ndarray) -> float:
    """The place that best tells scores of the second table, which are higher, from those of the first.

    In the middle of the widest gap between scores that differ where several do as well: at the edge of a gap, scores of
    runs to come would fall on either side.
    """
    scores = np.unique([*first, *second])
    places, gaps = (scores[1:] + scores[:-1]) / 2, np.diff(scores)
    apart = [int((second > place).sum()) * len(first) - int((first > place).sum()) * len(second) for place in places]
    return float(max(zip(apart, gaps, places, strict=True))[2]) if len(places) else float(scores[0])


def replace_slow_fits(patch: pytest.MonkeyPatch, domain: Domain) -> None:
    """RAP's fits are replaced by where they begin: they are post-processing, and thousands of them would take hours.

    Plans of public facts are made once.
    """
    start = np.full((sum(domain.shape(domain.names)), 4), 0.5, np.float32)
    patch.setattr("dpsql.fitting.relaxed.fit_cells.fit_cells", lambda *a, **k: (start, 1))
    patch.setattr("dpsql.fitting.relaxed.fit_cells.random_start", lambda *a, **k: start)
    patch.setattr(hdmm, "optimised_shares", lru_cache(hdmm.optimised_shares))
