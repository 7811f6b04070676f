"""Weighted counts in groups: the answers of a query."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dpsql.core.counter import Counter
from dpsql.core.linear_query import Choice, LinearQuery, Moment
from dpsql.core.marginal import Marginal, Measurement, NoiseName
from dpsql.core.neighbours import Neighbours
from dpsql.privacy.accounting import selection_rate
from dpsql.privacy.asking import Asking
from dpsql.privacy.given import check_noise, given_share
from dpsql.privacy.journal import Answer, measured, question_text
from dpsql.privacy.noise import Integers


class LinearQueries(Asking):
    """Measures the groups of queries."""

    def measure_linear(self, query: LinearQuery, rho: Fraction, noise: NoiseName = "gaussian") -> list[Measurement]:
        """Weighted counts in groups, every group of the domain with independent noise; one measurement for each weight.

        With Δ² the most that one row, or one unit, changes Σ (change_a/s_a)² over groups and aggregates, s_a the
        largest weight, the noise of aggregate a has σ_a² = s_a²·Δ²/2ρ + 1/8; Laplace noise b_a = s_a·Δ₁/ε with ε ≤
        √(2ρ), Δ₁ of Σ |change|.

        Privacy: ρ-zCDP, and Gaussian DP of g = ρ: a shift by w of discrete Gaussian noise is w shifts by 1, and so
        Gaussian DP of μ = w/√(σ² − 1/8). Laplace: ε-DP, and 11/7 of that g.

        Args:
            query: what to count; its clique's marginal is counted once.
            rho: of all answers together.
            noise: `gaussian` or `laplace`.

        Returns:
            For each aggregate its noisy answers, of one grouping set after the other; `shape` holds their numbers of
            groups.
        """
        self._check_may_ask("a query")
        check_noise(noise)
        query.domain.check_countable(query.clique)
        rho = given_share(rho)
        share = rho / query.aggregates
        told = hashlib.sha256(repr((noise, query.fingerprint)).encode()).hexdigest()
        questions = [question_text("query", query.clique, share, f"{a}: {told}") for a in range(query.aggregates)]

        def fresh(known: int) -> list[Answer]:
            return [] if known else self._linear(query, rho, noise, questions)

        return [measured(answer) for answer in self._answered(noise, [rho], questions, fresh)]

    def _linear(self, query: LinearQuery, rho: Fraction, noise: NoiseName, questions: Sequence[str]) -> list[Answer]:
        share = rho / query.aggregates
        exact = exact_answers(self._counter, query)
        laplace = linear_scales(query, rho, self.neighbours) if noise == "laplace" else []
        variances = [2 * b**2 for b in laplace] or linear_variances(query, rho, self.neighbours)
        answers = []
        for a, (question, variance) in enumerate(zip(questions, variances, strict=True)):
            flat = np.concatenate([part[a] for part in exact])
            drawn = self._laplace(laplace[a], len(flat)) if noise == "laplace" else self._gaussian(variance, len(flat))
            answer = Measurement(query.clique, query.groups, flat + drawn, variance, noise, share)
            answers.append(Answer(question, share, answer))
        return answers


def exact_answers(counter: Counter, query: LinearQuery) -> list[Integers]:
    """The answers without noise, of each grouping set, shape (aggregates, groups): for the curator alone."""
    presence = counter.presence(query.clique) if query.units else None
    sums = {a: _summed(counter, query, moment) for a, moment in query.moments.items()}
    return query.answers(counter.marginal(query.clique), presence, sums)


def _summed(counter: Counter, query: LinearQuery, moment: Moment | Choice) -> Marginal:
    if isinstance(moment, Moment):
        return counter.sums(query.clique, moment)
    return query.chosen(moment, [counter.sums(query.clique, one) for one in moment.moments])


def linear_variances(query: LinearQuery, rho: Fraction, neighbours: Neighbours) -> list[Fraction]:
    """σ_a² = s_a²·Δ²/2ρ + 1/8 of each aggregate's discrete Gaussian noise; see `LinearQueries.measure_linear`."""
    change = Fraction(query.sensitivity(2, neighbours))
    return [scale**2 * change / (2 * rho) + Fraction(1, 8) for scale in query.scales]


def linear_scales(query: LinearQuery, rho: Fraction, neighbours: Neighbours) -> list[Fraction]:
    """b_a = s_a·Δ₁/ε, ε ≤ √(2ρ), of each aggregate's discrete Laplace noise; see `LinearQueries.measure_linear`."""
    change = Fraction(query.sensitivity(1, neighbours))
    return [scale * change / selection_rate(rho, 1) for scale in query.scales]
