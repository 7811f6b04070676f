"""Families of linear queries: sums of public weights of rows, each with noise of its own."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from dpsql.core.domain import Domain
from dpsql.core.linear_family import LinearFamily, joint_change
from dpsql.core.marginal import Measurement
from dpsql.core.neighbours import Neighbours
from dpsql.privacy.asking import Asking
from dpsql.privacy.distributions import GAUSSIAN, Distribution, find_noise
from dpsql.privacy.given import given_linear, given_share
from dpsql.privacy.journal import Answer, measured
from dpsql.privacy.questions import LinearQuestion


class LinearFamilies(Asking):
    """Measures families of linear queries."""

    def measure_linear_families(
        self, families: Sequence[LinearFamily], rho: Fraction, noise: Distribution | str = GAUSSIAN
    ) -> list[Measurement]:
        """All groups of some families, each with independent noise; one measurement for each family, in its steps.

        With W_f the largest weight of family f and Δ^p the most that one row, or one unit, changes Σ_f Σ_g
        |change/W_f|^p (`dpsql.core.linear_family`), Gaussian noise has σ_f² = W_f²·Δ²/2ρ + 1/8 for p = 2, Laplace noise
        b_f = W_f·Δ/ε with ε ≤ √(2ρ) for p = 1.

        Privacy: ρ-zCDP, and Gaussian DP of g = ρ: a shift by w of discrete Gaussian noise is w shifts by 1, and so
        Gaussian DP of μ = w/√(σ² − 1/8). Laplace: ε-DP, and 11/7 of that g. Weights are copied, and Δ is computed
        here, so nothing of it is believed.

        Args:
            families: what to measure, without repetition.
            rho: of all of them together.
            noise: of each answer, by its value or by its name.

        Raises:
            InsufficientBudget: ρ exceeds what remains; nothing was counted.
        """
        distribution, rho = find_noise(noise), given_share(rho)
        originals, families = families, [given_linear(self.domain, family) for family in families]
        together = hashlib.sha256("".join(family.digest for family in families).encode()).hexdigest()
        detail, share = f"{distribution.name} of {len(families)}, {together}", rho / len(families)
        questions = [LinearQuestion(family.clique, family.digest, detail, share) for family in families]

        def fresh(count: int) -> list[Answer]:
            if count:
                return []
            self._progress.stage("measuring", len(families))
            self._expect([family.clique for family in families])
            scales = family_scales(self.domain, families, rho, self.neighbours, distribution, anew=True)
            made = []
            for question, family, scale in zip(questions, families, scales, strict=True):
                exact = self._marginal(family.clique)
                values = family.exact(exact.cells, exact.counts) + self._draw(distribution, scale, family.count)
                variance = distribution.variance(scale)
                answer = Measurement(family.clique, (family.count,), values, variance, distribution.name, share)
                made.append(Answer(question, share, answer))
                self._progress.advance(1)
            return made

        answers = self._answered(distribution, [rho], questions, fresh)
        return [
            replace(measured(measured_answer), linear=family)
            for measured_answer, family in zip(answers, originals, strict=True)
        ]


def family_scales(
    domain: Domain,
    families: Sequence[LinearFamily],
    rho: Fraction,
    neighbours: Neighbours,
    noise: Distribution,
    *,
    anew: bool = False,
) -> list[Fraction]:
    """The parameter of each family's noise, of which all together cost ρ; see `measure_linear_families`."""
    change = joint_change(domain, families, noise.norm, neighbours, anew=anew)
    return [noise.scale(rho, family.largest**noise.norm * change) for family in families]


def family_stddevs(
    domain: Domain, families: Sequence[LinearFamily], rho: Fraction, neighbours: Neighbours, noise: Distribution
) -> list[float]:
    """The standard deviation of each family's noise, in its steps; see `family_scales`."""
    return [math.sqrt(noise.variance(scale)) for scale in family_scales(domain, families, rho, neighbours, noise)]
