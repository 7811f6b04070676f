"""Answers of families of thresholds from noisy marginals, and how far off they may be."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpsql.core.domain import Domain
from dpsql.core.threshold import Threshold, threshold_counts
from dpsql.fitting.least_squares import MOST_ADDED, additions, least_squares
from dpsql.fitting.target import Target
from dpsql.privacy.distributions import LAPLACE, Distribution  # noqa: F401 - LAPLACE in an example


def threshold_answers(domain: Domain, families: Sequence[Threshold], evidence: Sequence[Target]) -> list[Target]:
    """The answers of whole families from noisy marginals, as targets of a fit.

    By least squares; where that adds up too many numbers, by the marginal of a family's own columns.
    """
    if not families:
        return []
    marginals = {target.clique: target.values for target in evidence}
    if additions(domain, marginals) <= MOST_ADDED:
        estimate = least_squares(domain, evidence)
        marginals = {family.clique: estimate.answer(family.clique) for family in families}
    targets = []
    for family in families:
        shape = domain.shape(family.clique)
        answers = threshold_counts(marginals[family.clique], shape, family.least)
        targets.append(Target(family.clique, shape, answers, 0.0, least=family.least))
    return targets


def reach_of_sums(noise: Distribution, failure: float) -> float:
    """So many standard deviations around 0 hold a weighted sum of independent noise, but for that probability.

    Of Laplace noise by Chernoff's bound: Π 1/(1 − w_i²λ²/2) ≤ 1/(1 − λ²/2) where Σ w_i² = 1.

    >>> round(reach_of_sums(LAPLACE, 0.01), 2) > round(LAPLACE.reach(0.01), 2)
    True
    """
    if noise.is_normal:
        return noise.reach(failure)
    rates = np.linspace(0.01, 0.999, 500) * math.sqrt(2)
    return float(np.min((math.log(2 / failure) - np.log1p(-(rates**2) / 2)) / rates))
