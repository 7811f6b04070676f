r"""What a loss promises, in words: they are made here only, and every number in them is rounded up.

    (ε, δ)-DP       P[S] ≤ e^ε·P′[S] + δ for every set S of outcomes. δ is added: it is not the probability that the
                    factor e^ε is exceeded, which may be many times δ
    Gaussian DP     the loss of a normal number that is shifted by μ is N(μ²/2, μ²), so it exceeds ε with probability
                    Φ(μ/2 − ε/μ), exactly
    of anything     outcomes that are told apart less may exceed ε together: with probability Φ(μ − t) at most, where t
                    is the point at which Φ(μ − t) = e^ε·Φ(−t)

The last line: let p and q be the probabilities of the outcomes whose factor is above e^ε. By the trade-off function
p ≤ Φ(μ + Φ⁻¹(q)), and q < e^(−ε)·p. Φ(μ + Φ⁻¹(q))/q falls with q, so p is at most where both are equal (Dong, Roth, Su
2022). For a normal number itself the outcomes above t are a set of that probability, so no smaller bound holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Final

from dpsql.core import special
from dpsql.core.digits import PRECISE, Number, decimal, up
from dpsql.core.names import shorten
from dpsql.core.neighbours import Neighbours
from dpsql.core.period import split_key
from dpsql.privacy.accounting import Budget

BESIDE: Final = ", beside what earlier releases told, whose measurements it may use"
"""What the promise of a release ends with that may use earlier ones."""
_SLACK: Final = 1e-9  # far above the rounding error of a logarithm of Φ


def mu_of(gdp: Fraction) -> Decimal:
    """μ = √(2g) of Gaussian DP, rounded up."""
    return PRECISE.next_plus(PRECISE.sqrt(decimal(2 * gdp)))


def bound(epsilon: float, delta: float) -> str:
    """The promise of (ε, δ)-DP for somebody who knows no differential privacy.

    >>> bound(1.0, 1e-9)
    'no set of outcomes becomes more likely than 2.72 times, plus 1e-09'
    >>> bound(0.2, 0.0)
    'no outcome becomes more likely than 1.23 times'
    """
    factor = up(PRECISE.exp(decimal(epsilon)), 3)
    if not delta:
        return f"no outcome becomes more likely than {factor} times"
    return f"no set of outcomes becomes more likely than {factor} times, plus {up(delta)}"


def normal_excess(gdp: Number, epsilon: float) -> float:
    """How likely the loss of a normal number that is shifted by μ = √(2g) exceeds ε: Φ(μ/2 − ε/μ), rounded up.

    >>> up(normal_excess(0.0280145, 1.0), 2)
    '2.1e-05'
    """
    mu = math.sqrt(2 * float(gdp))
    return min(1.0, math.exp(float(special.log_ndtr(mu / 2 - epsilon / mu))) * (1 + _SLACK * (1 + (epsilon / mu) ** 2)))


def largest_excess(gdp: Number, epsilon: float) -> float:
    """How likely a loss above ε can be at most, of anything that is Gaussian DP with μ = √(2g), rounded up.

    >>> up(largest_excess(0.0280145, 1.0), 2)
    '5.3e-05'
    """
    mu = math.sqrt(2 * float(gdp))

    def too_low(t: float) -> bool:  # the ratio of both tails grows with t
        return float(special.log_ndtr(mu - t) - special.log_ndtr(-t)) < epsilon

    low, high = mu / 2 - 40.0, mu / 2 + epsilon / mu + 1.0  # at the upper end the ratio of the densities is above e^ε
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if too_low(middle) else (low, middle)
    return min(1.0, math.exp(float(special.log_ndtr(mu - low))) * (1 + _SLACK * (1 + low**2)))


def excess_words(budget: Budget) -> str:
    """How likely the factor e^ε alone is exceeded by a release with Gaussian noise, in a sentence."""
    likely = up(largest_excess(budget.gdp, budget.epsilon), 2)
    normal = up(normal_excess(budget.gdp, budget.epsilon), 2)
    return (
        f"The factor alone is exceeded with a probability of at most {likely}, whatever is computed from the noisy "
        f"answers; of a normal number that is shifted by μ = {up(mu_of(budget.gdp))} it is {normal}."
    )


def promise(budget: Budget, neighbours: Neighbours, failure: float = 0.0) -> str:
    """The promise of a release in the words of the field: the loss, how it is proven, and the neighbours.

    Args:
        budget: what the release costs.
        neighbours: which two tables the promise compares.
        failure: the part of δ that is added for values which a discovery publishes.
    """
    epsilon, delta = up(budget.epsilon), up(budget.delta)
    loss = epsilon if budget.pure else f"({epsilon}, {delta})"
    beside = f", plus {up(failure)} of delta for values that are discovered" if failure else ""
    return f"{loss}-DP, by {_proof(budget)}{beside}, for neighbours that differ by {neighbours.words}"


def with_rows_of(root: str, tables: Sequence[str]) -> str:
    """What a promise ends with of which a unit is a row of one table with all rows of others that lead to it.

    Nothing where there are none: units of a privacy unit are what neighbours differ by already.

    >>> with_rows_of("patients", ["visits", "labs"])
    ' of patients, together with all its rows in visits, labs'
    """
    return f" of {root}, together with all its rows in {', '.join(tables)}" if tables else ""


def in_period(source: str) -> str:
    """What a promise ends with of which only the rows of a period are read, by what the books call these.

    >>> in_period('visits."2026-03"'), in_period("visits")
    (' in period 2026-03', '')
    """
    label = split_key(source)[1]
    return "" if label is None else f" in period {label}"


def _proof(budget: Budget) -> str:
    if budget.pure:
        return f"Laplace noise and selections ({up(budget.rho)}-zCDP)"
    if budget.gdp == budget.rho:
        return f"{up(mu_of(budget.gdp))}-Gaussian DP"
    return f"{up(budget.rho)}-zCDP"


def disclosed(columns: Sequence[str], predicates: Sequence[str]) -> str:
    """What the owner read off the rows and discloses, as the end of a promise that does not cover it; empty of nothing.

    >>> disclosed(["age"], []), disclosed([], [])
    ('; not covered, because the owner read it off the rows: the domain of age', '')
    """
    of = [f"the domain{'s' * (len(columns) > 1)} of {', '.join(columns)}"] if columns else []
    of += [f"that every row has {'; '.join(map(shorten, predicates))}"] if predicates else []
    return f"; not covered, because the owner read it off the rows: {'; '.join(of)}" if of else ""


def recorded_promise(budget: Budget, neighbours: Neighbours, failure: float = 0.0, source: str = "") -> str:
    """The promise as the books record it: a text that the ledger has a digest of, so it stays as it always was.

    People are shown `promise`, which is made of the exact numbers that stand beside it.
    """
    loss = f"{budget.epsilon:g}" if budget.pure else f"({budget.epsilon:g}, {budget.delta:g})"
    if budget.pure:
        proof = f"Laplace noise and selections ({float(budget.rho):.6g}-zCDP)"
    elif budget.gdp == budget.rho:
        proof = f"{math.sqrt(2 * budget.gdp):.6g}-Gaussian DP"
    else:
        proof = f"{float(budget.rho):.6g}-zCDP"
    but = f" but for probability {failure:g}" if failure else ""
    return f"{loss}-DP, by {proof}{but}, for neighbours that differ by {neighbours.words}{in_period(source)}"
