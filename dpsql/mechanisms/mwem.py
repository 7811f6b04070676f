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

What earlier releases measured, with noise of at most a tenth of the rows, updates A as soon as it joins no further
groups, several times: 1-way marginals make A_0, which is uniform without them, as in the lecture; what a round's own
question brings into one group comes before its answer.

A is a product of histograms over groups of attributes that some query joined, so the domain is not enumerated. Queries
that would join more than `max_cells` cells are no candidates: that depends on earlier selections only.

Source: Machanavajjhala, lecture 13; Hardt, Ligett, McSherry 2012 (arXiv:1012.4763).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np

from dpsql.core.domain import Clique, Domain
from dpsql.core.marginal import Measurement
from dpsql.core.neighbours import Neighbours
from dpsql.core.threshold import Family, clique_of
from dpsql.core.workload import Workload
from dpsql.errors import DomainTooLarge
from dpsql.evidence.earlier_releases import combined, consistent, precise, reused, usable
from dpsql.fitting.relaxed.settings import best_total
from dpsql.fitting.rows.multiplicative_weights import Factored, absorb
from dpsql.fitting.target import Target, targets_of
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
from dpsql.models.mixture import MixtureModel
from dpsql.privacy.curator import Curator
from dpsql.privacy.distributions import LAPLACE, SELECTION, Distribution, find_noise, noise_names
from dpsql.privacy.pricing import Part, Questions
from dpsql.runtime.progress import Progress

_MOST_SCORED: Final = 100_000_000
_MOST_REUSED: Final = 100  # marginals, each of which moves all of a group many times
_PASSES: Final = 20  # over what earlier releases measured: one moves A too little for all that it tells
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
        first = LAPLACE.rho(_TOTAL_PART) if private else Fraction(0)
        return Steps(unit * first, unit * SELECTION.rho(step), unit * LAPLACE.rho(step))


def _pure_cost(rounds: int, *, private: bool) -> tuple[Fraction, Fraction]:
    """ρ of all questions at ε = 1, and ε_i of each step."""
    first = _TOTAL_PART if private else Fraction(0)
    step = (1 - first) / (2 * rounds)
    return LAPLACE.rho(first) + rounds * (SELECTION.rho(step) + LAPLACE.rho(step)), step


@dataclass(frozen=True)
class _Past:
    """What earlier releases measured, as far as this one uses it: all of it tells n, some tilts the distribution.

    Attributes:
        earlier: marginals, none where this release's measurements contradict them.
    """

    earlier: Sequence[Measurement] = ()

    @staticmethod
    def of(curator: Curator, total: Measurement, max_cells: int) -> _Past:
        """What the number of rows does not contradict: the smallest marginals with the least noise."""
        found = usable(curator.earlier, [total], curator.domain, max_cells)
        found = precise(found, best_total(targets_of([total, *found])))
        return _Past(sorted(found, key=lambda m: (len(m.clique), m.variance))[:_MOST_REUSED])

    def inside(self, now: Factored) -> list[Measurement]:
        """Those inside one group, so that they join no groups and take no candidate away."""
        return [m for m in self.earlier if any(set(m.clique) <= set(names) for names, _ in now.factors)]

    def entering(self, before: Factored, now: Factored) -> list[Target]:
        """Those that are inside one group now, and were not before."""
        known = {m.clique for m in self.inside(before)}
        return targets_of(m for m in self.inside(now) if m.clique not in known)

    def beside(self, now: Factored, measured: Sequence[Measurement]) -> list[Target]:
        """All measurements, of single cells too."""
        return targets_of([*self.inside(now), *measured])

    def fitting(self, now: Factored, measured: Sequence[Measurement]) -> list[Target]:
        """All measurements of whole marginals; with earlier ones each marginal once, the mean of all of it."""
        older = self.inside(now)
        if not older:
            return targets_of(measured)
        means = {m.clique: m for m in combined([], [*older, *measured])}
        return [means[clique] for clique in dict.fromkeys(m.clique for m in [*older, *measured])]


@register("mwem", when="pure ε and few queries")
@dataclass(frozen=True)
class MWEM(Mechanism):
    """Multiplicative weights, with queries by the exponential mechanism (Hardt et al. 2012), and stronger variants.

    After earlier releases it is the lecture's with `reuse := false`; else A_0 is what they tell.

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

    uses_earlier = True
    rounds: int | str = "auto"
    queries: str = "cells"
    noise: str = LAPLACE.name
    passes: int = 1
    output: str = "average"
    max_cells: int = 2_000_000

    def __post_init__(self) -> None:
        """Check the options."""
        check_rounds(self.rounds)
        check_word("queries", self.queries, ("cells", "marginals"))
        check_word("noise", self.noise, noise_names())
        check_word("output", self.output, ("average", "last"))
        check_range("passes", self.passes, 1, 10_000)
        check_range("max_cells", self.max_cells, 2, 50_000_000)

    @property
    def _noise(self) -> Distribution:
        return find_noise(self.noise)

    def questions(self, domain: Domain, workload: Workload, neighbours: Neighbours) -> Questions:
        """See `Mechanism.questions`: with noise that proves a pure ε they share ε, else ρ."""
        if not self._noise.pure:
            return Questions.of(self._noise, SELECTION)
        rounds, private = self._rounds(domain), not neighbours.total_is_public
        _, step = _pure_cost(rounds, private=private)
        total = Part(self._noise, int(private), _TOTAL_PART)
        return Questions.pure(total, Part(SELECTION, rounds, step), Part(self._noise, rounds, step))

    def check(self, domain: Domain, workload: Workload, neighbours: Neighbours) -> None:
        """See `Mechanism.check`."""
        refuse_thresholds(self.name, workload, "lp" if self._noise.pure else "projection")
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
        steps = Steps.of(rho, rounds, neighbours, pure=self._noise.pure)
        whole = self.queries == "marginals"
        noise = self._noise
        one, planned = neighbours.cell**noise.norm, []
        if steps.total:
            planned.append(PlannedMeasurement((), 1, noise.stddev(steps.total, one), float(steps.total)))
        stddev = noise.stddev(steps.measure, neighbours.marginal(noise.norm) if whole else one)
        cells = max(domain.size(clique) for clique in workload.cliques) if whole else 1
        what = "selected marginals, at most" if whole else "selected cells"
        note = f"{rounds} rounds, each selects one and measures it"
        spent = rounds * (steps.select + steps.measure)
        return [*planned, PlannedMeasurement((), cells, stddev, float(spent), note, open=what)]

    def run(self, curator: Curator, workload: Workload, rho: Fraction, seed: int, progress: Progress) -> Outcome:
        """See `Mechanism.run`."""
        domain, rounds = curator.domain, self._rounds(curator.domain)
        steps = Steps.of(rho, rounds, curator.neighbours, pure=self._noise.pure)
        known = curator.total(steps.total, self._noise)
        measured, past = list[Measurement](), _Past.of(curator, known, self.max_cells)
        total = best_total(targets_of([known, *past.earlier]))
        iterates = self._iterates(domain, measured, past, total, progress)
        progress.stage("multiplicative weights", rounds)
        for _ in range(rounds):
            now = iterates[-1]
            candidates = [c for c in workload.cliques if domain.size(now.joined(c)) <= self.max_cells]
            measured += self._ask(curator, now, candidates, total, steps)
            if not past.earlier or consistent([known, *measured], curator.earlier):
                iterates.append(self._update(now, measured, past, total, progress))
            else:  # the table changed since: all again without what was measured before
                past, total = _Past(), best_total(targets_of([known]))
                iterates = self._iterates(domain, measured, past, total, progress)
            progress.stage("multiplicative weights", rounds)
            progress.advance(len(iterates) - 1)
        parts = tuple(iterates[:-1]) if self.output == "average" else (iterates[-1],)
        used = past.inside(iterates[-1]) if known.variance == 0 else past.earlier  # which n is from
        report: dict[str, Any] = {
            "rounds": rounds,
            "total": round(total),
            "asked": sorted({"/".join(m.clique) for m in measured}),
            "largest_group": max(table.size for _, table in iterates[-1].factors),
            **reused(used),
        }
        return Outcome(MixtureModel(domain, parts, total), report)

    def _iterates(
        self, domain: Domain, measured: Sequence[Measurement], past: _Past, total: float, progress: Progress
    ) -> list[Factored]:
        """A_0 and, from what each round measured, all that follow."""
        first = Factored.uniform(domain)
        found = [absorb(first, past.fitting(first, []), total, max(self.passes, _PASSES), progress)]
        for count in range(1, len(measured) + 1):
            found.append(self._update(found[-1], measured[:count], past, total, progress))
        return found

    def _update(
        self, now: Factored, measured: Sequence[Measurement], past: _Past, total: float, progress: Progress
    ) -> Factored:
        """A_i from A_{i−1}: by what was measured before of the newest one's group, then by it, or by all."""
        newest = measured[-1].clique
        together = now.tilted(newest, np.zeros(now.domain.size(newest))) if past.earlier else now
        together = absorb(together, past.entering(now, together), total, max(self.passes, _PASSES), progress)
        if self.passes == 1:
            return absorb(together, targets_of(measured[-1:]), total, 1, progress)
        known = past.fitting if self.queries == "marginals" else past.beside
        return absorb(together, known(together, measured), total, self.passes, progress)

    def _ask(
        self, curator: Curator, now: Factored, candidates: Sequence[Clique], total: float, steps: Steps
    ) -> list[Measurement]:
        """Select the worst answered query, and measure it."""

        def answers(family: Family) -> Any:
            return total * now.project(clique_of(family))

        if self.queries == "marginals":
            chosen = curator.select_marginals(candidates, answers, 1, steps.select)
            return curator.measure([(chosen[0], steps.measure)], self._noise)
        cells = curator.select_cells(candidates, answers, 1, steps.select)
        return curator.measure_cells(cells, steps.measure, self._noise)

    def _rounds(self, domain: Domain) -> int:
        """T. A rule over public facts: n is not known when the charge is made."""
        if isinstance(self.rounds, int):
            return self.rounds
        return len(domain) * (1 if self.queries == "marginals" else 4)
