"""Weighted counts in groups: the answers of a query."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dpsql.core.counter import Counter
from dpsql.core.linear_query import Choice, LinearQuery, Moment, Product
from dpsql.core.marginal import Marginal, Measurement
from dpsql.core.neighbours import Neighbours
from dpsql.privacy.asking import Asking
from dpsql.privacy.distributions import GAUSSIAN, Distribution, find_noise
from dpsql.privacy.given import given_share
from dpsql.privacy.journal import Answer, measured
from dpsql.privacy.noise import Integers
from dpsql.privacy.questions import AggregateQuestion, Question


class LinearQueries(Asking):
    """Measures the groups of queries."""

    def measure_linear(
        self, query: LinearQuery, rho: Fraction, noise: Distribution | str = GAUSSIAN
    ) -> list[Measurement]:
        """Weighted counts in groups, every group of the domain with independent noise; one measurement for each weight.

        With Δ² the most that one row, or one unit, changes Σ (change_a/s_a)² over groups and aggregates, s_a the
        largest weight, the noise of aggregate a has σ_a² = s_a²·Δ²/2ρ + 1/8; Laplace noise b_a = s_a·Δ₁/ε with ε ≤
        √(2ρ), Δ₁ of Σ |change|.

        Privacy: ρ-zCDP, and Gaussian DP of g = ρ: a shift by w of discrete Gaussian noise is w shifts by 1, and so
        Gaussian DP of μ = w/√(σ² − 1/8). Laplace: ε-DP, and 11/7 of that g.

        Args:
            query: what to count; its clique's marginal is counted once.
            rho: of all answers together.
            noise: of each group, by its value or by its name.

        Returns:
            For each aggregate its noisy answers, of one grouping set after the other; `shape` holds their numbers of
            groups.
        """
        self._check_may_ask("a query")
        distribution = find_noise(noise)
        query.domain.check_countable(query.clique)
        rho = given_share(rho)
        share = rho / query.aggregates
        digest = hashlib.sha256(repr((distribution.name, query.fingerprint)).encode()).hexdigest()
        questions = [AggregateQuestion(query.clique, a, digest, share) for a in range(query.aggregates)]

        def fresh(count: int) -> list[Answer]:
            return [] if count else self._linear(query, rho, distribution, questions)

        return [measured(answer) for answer in self._answered(distribution, [rho], questions, fresh)]

    def _linear(
        self, query: LinearQuery, rho: Fraction, noise: Distribution, questions: Sequence[Question]
    ) -> list[Answer]:
        share = rho / query.aggregates
        exact = exact_answers(self._counter, query)
        scales = linear_scales(query, rho, self.neighbours, noise)
        answers = []
        for a, (question, scale) in enumerate(zip(questions, scales, strict=True)):
            flat = np.concatenate([part[a] for part in exact])
            values = flat + self._draw(noise, scale, len(flat))
            answer = Measurement(query.clique, query.groups, values, noise.variance(scale), noise.name, share)
            answers.append(Answer(question, share, answer))
        return answers


def exact_answers(counter: Counter, query: LinearQuery) -> list[Integers]:
    """The answers without noise, of each grouping set, shape (aggregates, groups): for the curator alone."""
    presence = counter.presence(query.clique) if query.units else None
    sums = {a: _summed(counter, query, moment) for a, moment in query.moments.items()}
    return query.answers(counter.marginal(query.clique), presence, sums)


def _summed(counter: Counter, query: LinearQuery, moment: Moment | Choice | Product) -> Marginal:
    if isinstance(moment, Choice):
        return query.chosen(moment, [counter.sums(query.clique, part) for part in moment.moments])
    return counter.sums(query.clique, moment)


def linear_scales(query: LinearQuery, rho: Fraction, neighbours: Neighbours, noise: Distribution) -> list[Fraction]:
    """The parameter of each aggregate's noise, of which all together cost ρ.

    With s_a the largest weight of aggregate a, and Δ the most that Σ |change_a/s_a|^norm can be, the noise of a is made
    for a sensitivity of s_a^norm·Δ. See `LinearQueries.measure_linear`.
    """
    change = Fraction(query.sensitivity(noise.norm, neighbours))
    return [noise.scale(rho, scale**noise.norm * change) for scale in query.scales]


def linear_stddevs(query: LinearQuery, rho: Fraction, neighbours: Neighbours, noise: Distribution) -> list[float]:
    """The standard deviation of each aggregate's noise; see `linear_scales`."""
    return [math.sqrt(noise.variance(scale)) for scale in linear_scales(query, rho, neighbours, noise)]
