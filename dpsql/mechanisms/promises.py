r"""What is proven of the error of MWEM, DualQuery and RAP, with constants, as a fraction of n rows.

MWEM (lecture, Claim 3), T rounds of ε in all, single queries, Laplace noise, the average of the iterates:

    max_q |q(A) − q(D)| ≤ 2 √(ln|X|/T) + 10·T·ln|Q|/(ε·n)            with probability 1 − 2T/|Q|

DualQuery (Gaboardi et al. 2014), T rounds of s draws at rate η, if every record that is searched is the best one:

    max_q |q(x) − q(D)| ≤ η + ln|Q|/(η·T) + 2 √(3·ln(2|X|T/β)/s)     with probability 1 − β

which is α for T = 16 ln|Q|/α², η = α/4, s = 48 ln(2|X|T/β)/α².

RAP (Aydore et al. 2021, Theorem 4.1, which has no constants), T = 1: m cells of K marginals measured with Gaussian
noise of standard deviation σ, if the projection onto n′ rows is exact:

    √(mean_q (q(D′) − q(D))²) ≤ √((4σ √(2K·ln(2|X|/β)) + K/n′)/m)    with probability 1 − β

Proof. Answers of a relaxed row are those of a product distribution over records, so they lie in the convex hull of the
answers of the |X| records, on each of which exactly K cells are 1. Let w be the noise. ⟨w, q(x)⟩ is Gaussian with
variance σ²K for a record x, hence |⟨w, q(·)⟩| ≤ M = σ√(2K·ln(2|X|/β)) on the whole hull with probability 1 − β. Some n′
rows D″ of D have ‖q(D″) − q(D)‖² ≤ K/n′, the expected value of a sample. D′ is no farther from q(D) + w than D″, so
‖q(D′) − q(D)‖² ≤ 2⟨w, q(D′) − q(D″)⟩ + ‖q(D″) − q(D)‖² ≤ 4M + K/n′.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, runtime_checkable

from dpsql.core.domain import Domain
from dpsql.core.neighbours import Neighbours
from dpsql.core.workload import Workload
from dpsql.errors import InvalidArgument


def log_records(domain: Domain) -> float:
    """ln|X| of a domain."""
    return sum(math.log(attribute.size) for attribute in domain)


@dataclass(frozen=True)
class Bound:
    """A proven bound of an error.

    Attributes:
        error: as a fraction of the rows.
        probability: with which it holds, at least; nothing is proven where it is not positive.
    """

    error: float
    probability: float

    @property
    def is_useful(self) -> bool:
        """Whether it says more than that an error is at most 1."""
        return self.error < 1 and self.probability > 0

    def words(self, what: str, named: str) -> str:
        """What it says.

        Args:
            what: of which error, such as "all cells".
            named: whose theorem it is.

        >>> Bound(0.25, 0.95).words("all cells", "Claim 3")
        'Claim 3: all cells within 0.25 of the rows with probability 0.95'
        >>> Bound(3.5, 0.95).words("all cells", "Claim 3")
        'Claim 3 promises nothing here: its bound is 3.5 of the rows with probability 0.95'
        """
        if self.is_useful:
            return f"{named}: {what} within {self.error:.3g} of the rows with probability {self.probability:.3g}"
        return (
            f"{named} promises nothing here: its bound is {self.error:.3g} of the rows with probability "
            f"{max(0.0, self.probability):.3g}"
        )


@runtime_checkable
class NamesAccuracy(Protocol):
    """A mechanism that may be asked for an accuracy α in place of a number of rounds."""

    alpha: float | None

    @property
    def failure(self) -> float:
        """How likely a larger error than α may be."""

    def enough(self, domain: Domain, workload: Workload, neighbours: Neighbours, rows: float) -> Fraction | None:
        """The ρ that α takes with a table of so many rows; None where no α is given."""


def check_affords(alpha: float, cost: Callable[[float], float], unit: str, paid: float) -> None:
    """Refuse an accuracy that costs more than is paid; says which one fits.

    Args:
        alpha: the accuracy.
        cost: of an α, which falls with it.
        unit: of costs, a word.
        paid: what there is.

    Raises:
        InvalidArgument: it costs more.
    """
    if cost(alpha) <= paid:
        return
    low, high = alpha, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if cost(middle) <= paid else (middle, high)
    advice = math.ceil(high * 1000) / 1000
    dear = f"alpha {alpha:g} costs {unit} = {cost(alpha):.4g}, of which there is {paid:.4g}"
    if advice < 1 and cost(advice) <= paid:
        raise InvalidArgument(f"{dear}: alpha := {advice:g} fits, or leave alpha out")
    raise InvalidArgument(f"{dear}, and no alpha below 1 fits: leave alpha out, or ask for a larger epsilon")


def check_part(name: str, value: float | None, usual: float) -> None:
    """Refuse an α or β that is not between 0 and 1."""
    if value is not None and not 0 < value < 1:
        raise InvalidArgument(f"{name} is {value:g}: give a number between 0 and 1, such as {usual:g}")


def mwem_rounds(log_records: float, alpha: float) -> int:
    """T for an error of α by Claim 3, at which ε is least: d/dT of T/(α − 2√(ln|X|/T)) is 0 for T = 9 ln|X|/α².

    >>> mwem_rounds(math.log(1000), 0.5)
    249
    """
    return math.ceil(9 * log_records / alpha**2)


def mwem_best_rounds(log_records: float, queries: int, epsilon: float, rows: float) -> int:
    """T*, by which the bound of Claim 3 is least: d/dT of 2√(ln|X|/T) + 10·T·ln|Q|/(εn) is 0.

    >>> mwem_best_rounds(math.log(1000), 10_000, 1.0, 48_842)
    125
    """
    best = math.pow(epsilon * rows * math.sqrt(log_records) / (10 * math.log(max(2, queries))), 2 / 3)
    return max(1, round(best))


def mwem_epsilon(log_records: float, queries: int, rounds: int, alpha: float, rows: float) -> float:
    """ε by which `mwem_bound` is α; infinite where T is too small for any.

    >>> epsilon = mwem_epsilon(math.log(1000), 10_000, 249, 0.5, 1_000_000)
    >>> round(mwem_bound(math.log(1000), 10_000, 249, epsilon, 1_000_000).error, 6)
    0.5
    """
    left = alpha - 2 * math.sqrt(log_records / rounds)
    return 10 * rounds * math.log(max(2, queries)) / (rows * left) if left > 0 else math.inf


def check_mwem_failure(alpha: float, beta: float, rounds: int, queries: int) -> None:
    """Refuse an accuracy that Claim 3 proves too seldom: it fails with probability 2T/|Q|.

    Raises:
        InvalidArgument: that is more than β.
    """
    failure = 2 * rounds / queries
    if failure >= 1:
        raise InvalidArgument(
            f"with {queries} queries Claim 3 proves nothing of the {rounds} rounds that alpha {alpha:g} asks for: give "
            "a larger alpha, or ask for more or larger marginals"
        )
    if failure > beta:
        raise InvalidArgument(
            f"beta is {beta:g}, but with {queries} queries Claim 3 proves alpha {alpha:g} in {rounds} rounds but for a "
            f"probability of {failure:.3g}: give a larger alpha or beta, or ask for more or larger marginals"
        )


def mwem_bound(log_records: float, queries: int, rounds: int, epsilon: float, rows: float) -> Bound:
    """Claim 3 of the MWEM lecture; see the file.

    Args:
        log_records: ln|X|, X the set of all records.
        queries: |Q|.
        rounds: T.
        epsilon: ε, pure, of all rounds together.
        rows: n.

    >>> round(mwem_bound(math.log(1000), 10_000, 10, 1.0, 1_000_000).error, 4)
    1.6632
    """
    error = 2 * math.sqrt(log_records / rounds) + 10 * rounds * math.log(max(2, queries)) / (epsilon * rows)
    return Bound(error, 1 - 2 * rounds / queries)


def dualquery_bound(
    log_records: float, queries: int, rounds: int, samples: int, eta: float, beta: float = 0.05
) -> Bound:
    """The accuracy of DualQuery; see the file.

    Args:
        log_records: ln|X|.
        queries: |Q|, negations counted.
        rounds: T.
        samples: s.
        eta: η.
        beta: the probability that it does not hold.

    >>> alpha, queries, records = 0.2, 2000, math.log(1e6)
    >>> rounds = math.ceil(16 * math.log(queries) / alpha**2)
    >>> samples = math.ceil(48 * (records + math.log(2 * rounds / 0.05)) / alpha**2)
    >>> round(dualquery_bound(records, queries, rounds, samples, alpha / 4).error, 3)
    0.2
    """
    chance = math.sqrt(3 * (log_records + math.log(2 * rounds / beta)) / samples)
    return Bound(eta + math.log(queries) / (eta * rounds) + 2 * chance, 1 - beta)


def rap_bound(
    log_records: float, cells: int, marginals: int, noise: float, relaxed_rows: int, beta: float = 0.05
) -> Bound:
    """The root mean square error of RAP with T = 1; see the file.

    Args:
        log_records: ln|X|.
        cells: m.
        marginals: K.
        noise: σ, of a cell, as a fraction of the rows.
        relaxed_rows: n′.
        beta: the probability that it does not hold.

    >>> round(rap_bound(math.log(1000), 1000, 10, 0.001, 1000).error, 5)
    0.00826
    """
    reach = noise * math.sqrt(2 * marginals * (log_records + math.log(2 / beta)))
    return Bound(math.sqrt((4 * reach + marginals / relaxed_rows) / cells), 1 - beta)
