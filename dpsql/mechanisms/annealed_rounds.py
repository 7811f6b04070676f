r"""Rounds of AIM: measure the marginal that a model answers worst, and spend more where noise hid what was measured.

    T = 16·K rounds of ρ_t = ρ/T at first; all 1-way marginals with 0.9·ρ_t each. Each round selects with 0.1·ρ_t the
    candidate of largest
        w_r·(‖M_r(D) − M_r(model)‖₁ − √(2/π)·σ_t·cells_r),      w_r = Σ_s |r ∩ s| over the workload,
    and measures it with 0.9·ρ_t. ρ_t ← g·ρ_t where the model moved no more than noise would:
        ‖M_r(new) − M_r(old)‖₁ ≤ √(2/π)·σ_t·cells_r

Beside a public table each round may take a marginal from there in place of measuring it, where that is nearer (JAM):
its score has ‖M_r(D) − public‖₁ in place of the noise. What is taken costs the selection only.

K is the number of columns, g = 4 in AIM. What the model is, and which candidates there are, is for a mechanism to say.

Source: McKenna, Mullins, Sheldon, Miklau 2022 (arXiv:2201.12677), AIM, Algorithms 2 to 4;
Fuentes, Mullins, McKenna, Miklau, Sheldon 2024 (arXiv:2403.07797), JAM.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique, Domain
from dpsql.core.marginal import Measurement
from dpsql.core.workload import Workload
from dpsql.fitting.target import Target
from dpsql.mechanisms.asks import Ask, Marginals, Open
from dpsql.mechanisms.facts import Facts
from dpsql.mechanisms.one_way_start import singles
from dpsql.privacy.curator import Curator
from dpsql.strategy.allocation import noise

Floats = npt.NDArray[np.float64]
Answers = Callable[[Clique], Floats]
CHOSEN: Final = "selected by noise, then measured"
ROUNDS_PER_COLUMN: Final = 16
_MEASURED_PART: Final = Fraction(9, 10)
GROWTH: Final = 4


def round_asks(facts: Facts, left: Fraction, cells: int) -> list[Ask]:
    """The 1-way marginals, and rounds whose number follows from what they answer.

    Args:
        facts: of the request.
        left: the share of ρ for all of it.
        cells: of all candidates.
    """
    first = left * _MEASURED_PART / ROUNDS_PER_COLUMN
    rounds = Open(left - first, selects=True, cells=cells, open="selected marginals", note=CHOSEN)
    return [Marginals(first, singles(facts.domain, "marginals")), rounds]


def overlaps(workload: Workload, cliques: Sequence[Clique]) -> dict[Clique, int]:
    """w_r of each candidate: for each of its columns the marginals of the workload that have it."""
    held = Counter(name for marginal in workload.needed for name in marginal)
    return {clique: sum(held[name] for name in clique) for clique in cliques}


class AnnealedRounds:
    """The rounds of one run.

    Attributes:
        share: ρ_t.
    """

    def __init__(self, curator: Curator, weights: dict[Clique, int], growth: int = GROWTH) -> None:
        """Begin, before anything but the number of rows is measured.

        Args:
            curator: answers within the charge.
            weights: w_r of each candidate.
            growth: g.
        """
        self._curator, self._weights, self._growth = curator, weights, growth
        self._rho = curator.remaining
        self.share = self._rho / (ROUNDS_PER_COLUMN * len(curator.domain))

    def goes_on(self) -> bool:
        """Whether anything is left; the last round takes all that is."""
        if 0 < self._curator.remaining <= 2 * self.share:
            self.share = self._curator.remaining
        return self._curator.remaining > 0

    @property
    def spent(self) -> float:
        """The part of ρ that is spent when this round is over."""
        return float(1 - (self._curator.remaining - self.share) / self._rho)

    def expected(self, cliques: Sequence[Clique]) -> list[float]:
        """Σ|noise| of each of some marginals, if this round measured it, on average (rows)."""
        stddev, domain = noise(self._curator.neighbours, self.share * _MEASURED_PART), self._curator.domain
        return [_total_noise(stddev, domain.size(clique)) for clique in cliques]

    def measure(self, candidates: Sequence[Clique], answers: Answers) -> Measurement:
        """Select one of the candidates by a model's answers (rows), and measure it."""
        (clique,) = self._curator.select_marginals(
            candidates,
            answers,
            1,
            self.share * (1 - _MEASURED_PART),
            self.expected(candidates),
            [self._weights[clique] for clique in candidates],
        )
        (measured,) = self._curator.measure([(clique, self.share * _MEASURED_PART)])
        return measured

    def measure_or_take(
        self, candidates: Sequence[Clique], public_candidates: Sequence[Clique], answers: Answers, public: Answers
    ) -> tuple[Measurement | None, Target]:
        """Select a candidate and measure it, or select one to be taken from a public table.

        Args:
            candidates: what may be measured.
            public_candidates: what may be taken.
            answers: of the model (rows).
            public: of the public table (rows).

        Returns:
            The measurement, None where nothing was measured; and what a fit should come near. A public answer that was
            selected has the variance and the share of a measurement: it was nearer than noise would have left it.
        """
        rho = self.share * _MEASURED_PART
        penalties, every = self.expected(candidates), (*candidates, *public_candidates)
        weights = [self._weights[clique] for clique in every]
        clique, is_public = self._curator.select_source(
            candidates, public_candidates, answers, public, self.share - rho, penalties, weights
        )
        if not is_public:
            (measured,) = self._curator.measure([(clique, rho)])
            return measured, Target.of(measured)
        shape = self._curator.domain.shape(clique)
        variance = noise(self._curator.neighbours, rho) ** 2
        return None, Target(clique, shape, public(clique), variance, float(rho))

    def anneal(self, domain: Domain, measured: Measurement | Target, moved: float) -> None:
        """Give the next rounds more, where the model's answer moved by noise only (rows)."""
        if moved <= _total_noise(measured.stddev, domain.size(measured.clique)):
            self.share *= self._growth


def _total_noise(stddev: float, cells: int) -> float:
    return math.sqrt(2 / math.pi) * stddev * cells
