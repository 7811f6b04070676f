"""Whole marginals: every cell of a clique, counted with independent noise."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpsql.core.domain import Clique
from dpsql.core.marginal import Measurement, NoiseName
from dpsql.privacy.asking import Asking
from dpsql.privacy.given import check_noise, given_share
from dpsql.privacy.journal import Answer, measured, question_text


class Marginals(Asking):
    """Measures marginals."""

    def total(self, rho: Fraction, noise: NoiseName = "gaussian") -> Measurement:
        """The number of rows, with noise N_Z(0, c²/2ρ + 1/8); exact and free where it is public (replace_one).

        Privacy: ρ-zCDP, and Gaussian DP of g = ρ; sensitivity c, 1 without privacy units. Laplace noise as in
        `measure`.
        """
        if self.neighbours.total_is_public:
            question = question_text("measure", (), Fraction(0), "none")
            answers = self._replay([question])
            if not answers:  # kept like any other, for the table may have grown when a killed run goes on
                answers = [Answer(question, Fraction(0), self._measurement((), Fraction(0), "none"))]
                self._record(answers)
            return measured(answers[0])
        return self.measure([((), rho)], noise)[0]

    def measure(self, requests: Sequence[tuple[Clique, Fraction]], noise: NoiseName = "gaussian") -> list[Measurement]:
        """Whole marginals, every cell of the domain with independent noise.

        Privacy: Σρ-zCDP, and Gaussian DP of g = Σρ (Laplace: 11/7 of it). Gaussian noise has σ² = Δ₂²/2ρ + 1/8 with
        Δ₂² = c² (add_remove; c = 1 without privacy units) or 2 (replace_one); Laplace noise has b = Δ₁/ε with
        ε ≤ √(2ρ) and Δ₁ = c or 2, and is ε-DP too.

        Args:
            requests: cliques, each with its ρ (positive).
            noise: `gaussian` or `laplace`.

        Raises:
            InsufficientBudget: the shares exceed what remains; nothing was counted.
            DomainTooLarge: a marginal has too many cells.
        """
        check_noise(noise)
        requests = [(clique, given_share(rho)) for clique, rho in requests]
        for clique, _ in requests:
            self.domain.check_countable(clique)
        questions = [question_text("measure", clique, rho, noise) for clique, rho in requests]

        def fresh(known: int) -> list[Answer]:
            made = []
            self._progress.stage("measuring", len(requests))
            for question, (clique, rho) in list(zip(questions, requests, strict=True))[known:]:
                made.append(Answer(question, rho, self._measurement(clique, rho, noise)))
                self._progress.advance(1)
            return made

        return [measured(answer) for answer in self._answered(noise, [rho for _, rho in requests], questions, fresh)]

    def _measurement(self, clique: Clique, rho: Fraction, noise: NoiseName) -> Measurement:
        exact = self._counter.marginal(clique)
        shape = self.domain.shape(clique)
        if noise == "none":
            return Measurement(clique, shape, exact.dense(), Fraction(0), noise, Fraction(0))
        both = self.neighbours.marginal_l1, self.neighbours.marginal_l2_squared
        values, variance = self._noise(exact.size, rho, noise, *both)
        values[exact.cells] += exact.counts
        return Measurement(clique, shape, values, variance, noise, rho)
