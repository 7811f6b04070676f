r"""MWEM: multiplicative weights and the exponential mechanism.

    A_0        uniform over the domain, of n rows (n̂ is measured where n is private)
    round i    q_i = a query with large |q(D) − q(A_{i−1})|, by the exponential mechanism of ε/2T
               m_i = q_i(D) + Laplace(2T/ε)
               A_i(x) ∝ A_{i−1}(x)·exp(q_i(x)·(m_i − q_i(A_{i−1}))/2n)
    output     the average of A_0 … A_{T−1}

    without privacy  max error ≤ 2n·√(ln|D|/T);  with it  + 10·T·ln|Q|/ε  with probability 1 − 2T/|Q|

The defaults are the lecture's algorithm. Stronger: `queries := 'marginals'` selects and measures whole marginals, which
cost no more than one of their cells; `noise := 'gaussian'` composes in zCDP (ρ/2T each step); `passes` uses all past
measurements in each round; `output := 'last'` takes A_T.

A is a product of histograms over groups of attributes that some query joined, so the domain is not enumerated. Queries
that would join more than `max_cells` cells are no candidates: that depends on earlier selections only.

Source: Machanavajjhala, lecture 13; Hardt, Ligett, McSherry 2012 (arXiv:1012.4763).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from dpsql.domain import Clique, Domain
from dpsql.errors import DomainTooLarge
from dpsql.fitting.multiplicative import Factored, absorb
from dpsql.marginal import Measurement
from dpsql.mechanisms.base import (
    Mechanism,
    Outcome,
    PlannedMeasurement,
    check_range,
    check_rounds,
    check_word,
    refuse_thresholds,
    register,
)
from dpsql.mechanisms.mixture import MixtureModel
from dpsql.neighbours import Neighbours
from dpsql.privacy.accounting import Budget, exact, gaussian_variance, make_budget, pure_budget
from dpsql.privacy.curator import Curator
from dpsql.progress import Progress
from dpsql.threshold import Family, clique_of
from dpsql.workload import Workload

_MOST_SCORED: Final = 100_000_000
_TOTAL_PART: Final = Fraction(1, 20)  # of ε, for the number of rows


@dataclass(frozen=True)
class Steps:
    """The shares of a charge ρ: of the total, of one selection, of one measurement."""

    total: Fraction
    select: Fraction
    measure: Fraction

    @staticmethod
    def of(rho: Fraction, rounds: int, neighbours: Neighbours, *, pure: bool) -> Steps:
        """The split of a charge over T rounds.

        Pure: ε₀ = ε/20 for the total where n is private, ε_i = (ε − ε₀)/2T for each step, and so ρ in the ratio
        ε₀²/2 : T·ε_i²/8 : T·ε_i²/2. Else ρ/100 for the total, and equal shares.
        """
        private = not neighbours.total_is_public
        if not pure:
            total = rho / 100 if private else Fraction(0)
            each = (rho - total) / (2 * rounds)
            return Steps(total, each, each)
        whole, step = _pure_cost(rounds, private=private)
        unit = rho / whole
        first = _TOTAL_PART**2 / 2 if private else Fraction(0)
        return Steps(unit * first, unit * step**2 / 8, unit * step**2 / 2)


def _pure_cost(rounds: int, *, private: bool) -> tuple[Fraction, Fraction]:
    """ρ of all questions at ε = 1, and ε_i of each step."""
    first = _TOTAL_PART if private else Fraction(0)
    step = (1 - first) / (2 * rounds)
    return first**2 / 2 + rounds * step**2 * Fraction(5, 8), step


@register("mwem")
@dataclass(frozen=True)
class MWEM(Mechanism):
    """Multiplicative weights: the lecture's algorithm, and its stronger variants.

    Privacy: with Laplace noise ε-DP (pure), with Gaussian noise ρ-zCDP, for the table's neighbours, ε or ρ the charge:
    `total` with ε/20 or ρ/100 where the number of rows is private, then T times a selection and a measurement, each
    with 1/2T of the rest. Sensitivity c of a cell and its score (1 without privacy units); of a whole marginal and its
    L1 score c (add_remove) or 2 (replace_one), L2 √2.

    Attributes:
        rounds: T, or 'auto': one for each column (marginals), four for each (cells). There may be more of them than
            queries: one that was selected may be again, for its answer was noisy and later steps move it.
        queries: 'cells', as in the lecture, or 'marginals'.
        noise: 'laplace' for pure ε, as in the lecture, or 'gaussian'.
        passes: over all past measurements in each round; 1 uses the newest one only.
        output: 'average' of the iterates, as in the lecture, or the 'last' one.
        max_cells: of a group of attributes that queries join.

    Raises:
        InvalidArgument: an option is out of its range.
    """

    rounds: int | str = "auto"
    queries: str = "cells"
    noise: str = "laplace"
    passes: int = 1
    output: str = "average"
    max_cells: int = 2_000_000

    def __post_init__(self) -> None:
        """Check the options."""
        check_rounds(self.rounds)
        check_word("queries", self.queries, ("cells", "marginals"))
        check_word("noise", self.noise, ("laplace", "gaussian"))
        check_word("output", self.output, ("average", "last"))
        check_range("passes", self.passes, 1, 10_000)
        check_range("max_cells", self.max_cells, 2, 50_000_000)

    def budget(
        self, epsilon: float, delta: float, domain: Domain, workload: Workload, neighbours: Neighbours
    ) -> Budget:
        """See `Mechanism.budget`: pure ε with Laplace noise, δ is not used then."""
        if self.noise == "gaussian":
            return make_budget(epsilon, delta, self.conversion)
        private = not neighbours.total_is_public
        cost, _ = _pure_cost(self._rounds(domain), private=private)
        return pure_budget(epsilon, exact(epsilon) ** 2 * cost)

    def check(self, domain: Domain, workload: Workload, neighbours: Neighbours) -> None:
        """See `Mechanism.check`."""
        refuse_thresholds(self.name, workload, "lp" if self.noise == "laplace" else "projection")
        small = [clique for clique in workload.cliques if domain.size(clique) <= self.max_cells]
        if not small:
            smallest = min(domain.size(clique) for clique in workload.cliques)
            raise DomainTooLarge(
                f"the smallest marginal has {smallest:.3g} cells, mwem holds max_cells := {self.max_cells}: ask for "
                "marginals of fewer columns"
            )
        cells = sum(domain.size(clique) for clique in small)
        if cells > _MOST_SCORED:
            raise DomainTooLarge(f"the workload has {cells:.3g} cells, too many for mwem to score: ask for fewer")

    def plan(
        self, domain: Domain, workload: Workload, neighbours: Neighbours, rho: Fraction, rows: float
    ) -> Sequence[PlannedMeasurement]:
        """See `Mechanism.plan`."""
        rounds = self._rounds(domain)
        steps = Steps.of(rho, rounds, neighbours, pure=self.noise == "laplace")
        whole = self.queries == "marginals"
        planned = []
        if steps.total:
            planned.append(
                PlannedMeasurement(
                    (), 1, self._stddev(steps.total, neighbours.cell, neighbours.cell**2), float(steps.total)
                )
            )
        l1, l2 = neighbours.cell, neighbours.cell**2
        if whole:
            l1, l2 = neighbours.marginal_l1, neighbours.marginal_l2_squared
        cells = max(domain.size(clique) for clique in workload.cliques) if whole else 1
        what = ("(selected marginals, at most)",) if whole else ("(selected cells)",)
        note = f"{rounds} rounds, each selects one and measures it"
        spent = rounds * (steps.select + steps.measure)
        return [*planned, PlannedMeasurement(what, cells, self._stddev(steps.measure, l1, l2), float(spent), note)]

    def run(self, curator: Curator, workload: Workload, rho: Fraction, seed: int, progress: Progress) -> Outcome:
        """See `Mechanism.run`."""
        domain, rounds = curator.domain, self._rounds(curator.domain)
        pure = self.noise == "laplace"
        steps = Steps.of(rho, rounds, curator.neighbours, pure=pure)
        known = curator.total(steps.total, "laplace" if pure else "gaussian")
        total = max(1.0, float(known.values[0]))
        iterates, measured = [Factored.uniform(domain)], list[Measurement]()
        progress.stage("multiplicative weights", rounds)
        for _ in range(rounds):
            now = iterates[-1]
            candidates = [c for c in workload.cliques if domain.size(now.joined(c)) <= self.max_cells]
            measured += self._ask(curator, now, candidates, total, steps)
            used = measured if self.passes > 1 else measured[-1:]
            iterates.append(absorb(now, used, total, self.passes, progress))
            progress.stage("multiplicative weights", rounds)
            progress.advance(len(iterates) - 1)
        parts = tuple(iterates[:-1]) if self.output == "average" else (iterates[-1],)
        report: dict[str, Any] = {
            "rounds": rounds,
            "total": round(total),
            "asked": sorted({"/".join(m.clique) for m in measured}),
            "largest_group": max(table.size for _, table in iterates[-1].factors),
        }
        return Outcome(MixtureModel(domain, parts, total), report)

    def _ask(
        self, curator: Curator, now: Factored, candidates: Sequence[Clique], total: float, steps: Steps
    ) -> list[Measurement]:
        """Select the worst answered query, and measure it."""

        def answers(family: Family) -> Any:
            return total * now.project(clique_of(family))

        noise: Any = self.noise
        if self.queries == "marginals":
            chosen = curator.select_marginals(candidates, answers, 1, steps.select)
            return curator.measure([(chosen[0], steps.measure)], noise)
        cells = curator.select_cells(candidates, answers, 1, steps.select)
        return curator.measure_cells(cells, steps.measure, noise)

    def _rounds(self, domain: Domain) -> int:
        """T. A rule over public facts: n is not known when the charge is made."""
        if isinstance(self.rounds, int):
            return self.rounds
        return len(domain) * (1 if self.queries == "marginals" else 4)

    def _stddev(self, rho: Fraction, l1: int, l2_squared: int) -> float:
        """Of the noise of one measurement (rows): √2·Δ₁/ε for Laplace noise."""
        if self.noise == "laplace":
            return math.sqrt(2) * l1 / math.sqrt(2 * rho)
        return math.sqrt(gaussian_variance(rho, l2_squared))
