"""Whole marginals: every cell of a clique, counted with independent noise."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpsql.core.domain import Clique
from dpsql.core.marginal import NO_NOISE, Measurement
from dpsql.privacy.asking import Asking
from dpsql.privacy.distributions import GAUSSIAN, Distribution, find_noise
from dpsql.privacy.given import given_clique, given_share
from dpsql.privacy.journal import Answer, measured
from dpsql.privacy.questions import MarginalQuestion


class Marginals(Asking):
    """Measures marginals."""

    def total(self, rho: Fraction, noise: Distribution | str = GAUSSIAN) -> Measurement:
        """The number of rows, with noise N_Z(0, c²/2ρ + 1/8); exact and free where it is public (replace_one).

        Privacy: ρ-zCDP, and Gaussian DP of g = ρ; sensitivity c, 1 without privacy units. Laplace noise as in
        `measure`.
        """
        if self.neighbours.total_is_public:
            question = MarginalQuestion((), Fraction(0), NO_NOISE)
            answers = self._replay([question])
            if not answers:  # kept like any other, for the table may have grown when a killed run goes on
                answers = [Answer(question, Fraction(0), self._public_total())]
                self._record(answers)
            return measured(answers[0])
        return self.measure([((), rho)], noise)[0]

    def measure(
        self, requests: Sequence[tuple[Clique, Fraction]], noise: Distribution | str = GAUSSIAN
    ) -> list[Measurement]:
        """Whole marginals, every cell of the domain with independent noise.

        Privacy: Σρ-zCDP, and Gaussian DP of g = Σρ (Laplace: 11/7 of it). Gaussian noise has σ² = Δ₂²/2ρ + 1/8 with
        Δ₂² = c² (add_remove; c = 1 without privacy units) or 2 (replace_one); Laplace noise has b = Δ₁/ε with
        ε ≤ √(2ρ) and Δ₁ = c or 2, and is ε-DP too.

        Args:
            requests: cliques, each with its ρ (positive).
            noise: of each cell, by its value or by its name.

        Raises:
            InsufficientBudget: the shares exceed what remains; nothing was counted.
            DomainTooLarge: a marginal has too many cells.
        """
        distribution = find_noise(noise)
        requests = [(given_clique(clique), given_share(rho)) for clique, rho in requests]
        for clique, _ in requests:
            self.domain.check_countable(clique)
        questions = [MarginalQuestion(clique, rho, distribution.name) for clique, rho in requests]

        def fresh(count: int) -> list[Answer]:
            made = []
            self._progress.stage("measuring", len(requests))
            self._expect([clique for clique, _ in requests[count:]])
            for question, (clique, rho) in list(zip(questions, requests, strict=True))[count:]:
                made.append(Answer(question, rho, self._measurement(clique, rho, distribution)))
                self._progress.advance(1)
            return made

        shares = [rho for _, rho in requests]
        return [measured(answer) for answer in self._answered(distribution, shares, questions, fresh)]

    def begun(self) -> list[tuple[Clique, Fraction]]:
        """The marginals that the journal answers next, with their shares: what a run that was killed had asked.

        A mechanism whose rule has changed since asks these again, free, in place of those of its rule. What was asked
        is recorded and no secret; the answers are not among what this returns. Empty in a run that has just begun.
        """
        marginals: list[tuple[Clique, Fraction]] = []
        for answer in self._recorded:
            if not isinstance(answer.question, MarginalQuestion):
                break
            marginals.append((answer.question.clique, answer.question.rho))
        return marginals

    def _public_total(self) -> Measurement:
        """The exact number of rows, which neighbours share."""
        exact = self._counter.marginal(())
        return Measurement((), (), exact.dense(), Fraction(0), NO_NOISE, Fraction(0))

    def _measurement(self, clique: Clique, rho: Fraction, noise: Distribution) -> Measurement:
        exact = self._counter.marginal(clique)
        scale = noise.scale(rho, self.neighbours.marginal(noise.norm))
        values = self._draw(noise, scale, exact.size)
        values[exact.cells] += exact.counts
        return Measurement(clique, self.domain.shape(clique), values, noise.variance(scale), noise.name, rho)
