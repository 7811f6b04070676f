r"""MWEM: multiplicative weights and the exponential mechanism.

    A_0        uniform over the domain, of n rows (n̂ is measured where n is private)
    round i    q_i = a query with large |q(D) − q(A_{i−1})|, by the exponential mechanism of ε/2T
               m_i = q_i(D) + Laplace(2T/ε)
               A_i(x) ∝ A_{i−1}(x)·exp(q_i(x)·(m_i − q_i(A_{i−1}))/2n)
    output     the average of A_0 … A_{T−1}

Queries are cells, or thresholds (`dpsql.core.threshold`), which a row counts for or does not, as for a cell; or linear
queries (`dpsql.core.linear_family`), divided by their largest weight.

    without privacy  max error ≤ 2n·√(ln|D|/T);  with it  + 10·T·ln|Q|/ε  with probability 1 − 2T/|Q|

The fields' defaults are the lecture's algorithm. `faithful := true` asks for it with T* rounds, by which that bound is
least: (ε·n·√ln|D| / 10·ln|Q|)^⅔, from the charge and the number of rows, which is public or measured. They are
priced as the fewest that there may be, for a charge is made before n is known. A request gets what errs least
(`recommended`): `start := 'marginals'` measures all 1-way marginals first, whose product is A_0, and then selects
among the larger subsets of the workload's marginals, by a score from which the noise of measuring them is taken off;
`queries := 'marginals'` selects and measures whole marginals, which
cost no more than one of their cells, for thresholds by the error of these; `noise := 'gaussian'` composes in zCDP
(ρ/2T each step); `passes` uses all past measurements in each round; `output := 'last'` takes A_T, of which no other
iterate is kept.

What earlier releases measured, with noise of at most a tenth of the rows, updates A as soon as it joins no further
groups, several times: 1-way marginals make A_0, which is uniform without them, as in the lecture; what a round's own
question brings into one group comes before its answer.

A is a product of histograms over groups of attributes that some query joined, so the domain is not enumerated. Queries
that would join more than `max_cells` cells are no candidates: that depends on earlier selections only.

Source: Machanavajjhala, lecture 13; Hardt, Ligett, McSherry 2012 (arXiv:1012.4763).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any, Final

from dpsql.core.arguments import check_range, check_rounds, check_word
from dpsql.core.domain import Domain
from dpsql.core.linear_family import QueryFamily, columns_of
from dpsql.core.marginal import Measurement
from dpsql.core.neighbours import Neighbours
from dpsql.core.workload import Workload
from dpsql.errors import DomainTooLarge, InvalidArgument
from dpsql.evidence.earlier_releases import consistent, reused
from dpsql.fitting.relaxed.settings import best_total
from dpsql.fitting.target import targets_of
from dpsql.mechanisms.asks import Marginals, Rounds, Total
from dpsql.mechanisms.base import LATER, Mechanism, Outcome, Remark, register, usual_noise
from dpsql.mechanisms.cell_queries import cells_of, workload_words
from dpsql.mechanisms.costs import (
    BASE_BYTES,
    MOVED_SECONDS,
    QUESTION_SECONDS,
    SCORED_BYTES,
    SCORED_SECONDS,
    UPDATE_SECONDS,
    base_seconds,
)
from dpsql.mechanisms.course import Course
from dpsql.mechanisms.facts import Facts
from dpsql.mechanisms.linear_queries import sensitivity_remarks, weighing_seconds
from dpsql.mechanisms.mwem.asking import ask, asked_of, named
from dpsql.mechanisms.mwem.groups import Updates, foreseen_updates
from dpsql.mechanisms.mwem.iterates import Iterates, Past
from dpsql.mechanisms.one_way_start import STARTS, singles, told_singles
from dpsql.mechanisms.promises import (
    check_affords,
    check_mwem_failure,
    check_part,
    log_records,
    mwem_best_rounds,
    mwem_bound,
    mwem_epsilon,
    mwem_rounds,
)
from dpsql.mechanisms.walk import Walk
from dpsql.models.mixture import MixtureModel
from dpsql.privacy.distributions import LAPLACE, Distribution, find_noise, noise_names
from dpsql.runtime.progress import Progress

_MOST_SCORED: Final = 100_000_000
_TOTAL_OF_EPSILON: Final = Fraction(1, 20)
_TOTAL_OF_RHO: Final = Fraction(1, 100)
_SINGLES_OF_EPSILON: Final = Fraction(1, 3)  # of what the total leaves
_SINGLES_OF_RHO: Final = Fraction(1, 4)
THEOREM: Final = "theorem"
_FEWEST_ROUNDS: Final = 10  # of T*: fewer are promised nothing, for ln|D| is 2.5 and more
_MOST_ROUNDS: Final = 10_000
_USUAL_RHO: Final = Fraction(1, 100)
_USUAL_ROWS: Final = 50_000
_LARGEST: Final = 1e9  # an ε that no request can have
_GOING_THROUGH: Final = 4  # times, through all iterates: in the rounds, for the fitness, for the rows, and to mend them


@register("mwem", when="pure ε and few queries")
@dataclass(frozen=True)
class MWEM(Mechanism):
    """Multiplicative weights, with queries by the exponential mechanism (Hardt et al. 2012), and stronger variants.

    After earlier releases it is the lecture's with `reuse := false`; else A_0 is what they tell.

    Privacy: with Laplace noise ε-DP (pure), with Gaussian noise ρ-zCDP, for the table's neighbours, ε or ρ the charge:
    `total` with ε/20 or ρ/100 where the number of rows is private, then T times a selection and a measurement, each
    with 1/2T of the rest. With start := 'marginals' one `measure` of the 1-way marginals comes before them, with a
    third of the ε that the total leaves, or a quarter of the ρ. Sensitivity c of a cell and its score (1 without
    privacy units); of a whole marginal and its L1 score c (add_remove) or 2 (replace_one), L2 √2. A threshold and its
    score have c, as a cell has; the L1 score of a family of them what `dpsql.core.threshold` says. Linear queries have
    what `dpsql.core.linear_family` says, c times the largest weight where rows are added or removed.

    Attributes:
        rounds: T, or 'auto': one for each column (marginals; two after 1-way marginals), four for each (cells); or
            'theorem': T*, from 10 to 10,000, by which Claim 3's bound is least. There may be more of them than queries:
            one that was selected may be again, for its answer was noisy and later steps move it.
        queries: 'cells', as in the lecture, or 'marginals'.
        noise: 'laplace' for pure ε, as in the lecture, or 'gaussian'.
        passes: over all past measurements in each round; 1 uses the newest one only.
        output: 'average' of the iterates, as in the lecture, or the 'last' one.
        max_cells: of a group of attributes that queries join.
        start: 'uniform', as in the lecture, or 'marginals': all 1-way marginals are measured first.
        alpha: the largest error wanted (a fraction), by Claim 3, with faithful := true: T follows from it, and where
            the number of rows is public no more is charged than it takes. None for the error of ε.
        beta: how likely a larger error than alpha may be.

    Raises:
        InvalidArgument: an option is out of its range.
    """

    uses_earlier = True
    takes_linear = True
    rounds: int | str = "auto"
    queries: str = "cells"
    noise: str = LAPLACE.name
    passes: int = 1
    output: str = "average"
    max_cells: int = 2_000_000
    start: str = field(default="uniform", metadata=LATER)
    alpha: float | None = field(default=None, metadata=LATER)
    beta: float = field(default=0.05, metadata=LATER)

    @classmethod
    def recommended(cls, *, pure: bool) -> Mapping[str, Any]:
        """See `Mechanism.recommended`."""
        better = {"start": "marginals", "queries": "marginals", "passes": 20, "output": "last", "max_cells": 200_000}
        return {**better, "noise": usual_noise(pure=pure)}

    @classmethod
    def published(cls) -> Mapping[str, Any]:
        """See `Mechanism.published`: the fields' defaults are the lecture's, with rounds by its Claim 3."""
        return {"rounds": THEOREM}

    @classmethod
    def published_before(cls) -> Mapping[str, Any]:
        """See `Mechanism.published_before`: four rounds for each column."""
        return {}

    def __post_init__(self) -> None:
        """Check the options."""
        check_word("start", self.start, STARTS)
        if self.rounds != THEOREM:
            check_rounds(self.rounds)
        check_word("queries", self.queries, ("cells", "marginals"))
        check_word("noise", self.noise, noise_names())
        check_word("output", self.output, ("average", "last"))
        check_range("passes", self.passes, 1, 10_000)
        check_range("max_cells", self.max_cells, 2, 50_000_000)
        check_part("alpha", self.alpha, 0.5)
        check_part("beta", self.beta, 0.05)
        if self.alpha is not None and not self._is_lecture:
            raise InvalidArgument(
                f"alpha is {self.alpha:g}, which Claim 3 promises of the lecture's algorithm: say faithful := true, "
                "with no further option but rounds and max_cells, or leave alpha out"
            )

    @property
    def failure(self) -> float:
        """See `NamesAccuracy.failure`."""
        return self.beta

    @property
    def _is_lecture(self) -> bool:
        """Whether it is the lecture's own algorithm, of which Claim 3 is."""
        usual = {option.name: option.default for option in fields(self)}
        free = ("rounds", "max_cells", "alpha", "beta")
        return all(getattr(self, name) == value for name, value in usual.items() if name not in free)

    @property
    def _noise(self) -> Distribution:
        return find_noise(self.noise)

    def course(self, facts: Facts) -> Course:
        """See `Mechanism.course`: T rounds, after the number of rows and the 1-way marginals."""
        pure, whole, domain = self._noise.pure, self.queries == "marginals", facts.domain
        workload, rounds = facts.workload, self._rounds(facts)
        by = " by the error of its thresholds" if whole and workload.thresholds else ""
        return Course.in_turn(
            facts,
            self._noise,
            Total.of(facts, _TOTAL_OF_EPSILON if pure else _TOTAL_OF_RHO, note="measured"),
            Marginals(_SINGLES_OF_EPSILON if pure else _SINGLES_OF_RHO, singles(domain, self.start)),
            Rounds(
                Fraction(1),
                rounds,
                cells=max(self._sizes(domain, workload), default=0) if whole else 1,
                whole=whole,
                open="selected marginals, at most" if whole else f"selected {workload_words(workload)}",
                note=f"{rounds} rounds, each selects one{by} and measures it",
                priced=_FEWEST_ROUNDS if self._is_by_theorem else None,
            ),
        )

    def check(self, domain: Domain, workload: Workload, neighbours: Neighbours) -> None:
        """See `Mechanism.check`."""
        if self.start == "marginals":
            workload.check_subsets()
        self._check_alpha(domain, workload)
        every = [domain.size(columns_of(family)) for family in self._candidates(workload)]
        small = [size for size in every if size <= self.max_cells]
        if not small:
            smallest = min(every)
            raise DomainTooLarge(
                f"the smallest marginal has {smallest:.3g} cells, mwem holds max_cells := {self.max_cells}: ask for "
                "marginals of fewer columns"
            )
        cells = sum(small)
        if cells > _MOST_SCORED:
            raise DomainTooLarge(f"the workload has {cells:.3g} cells, too many for mwem to score: ask for fewer")

    def _check_alpha(self, domain: Domain, workload: Workload) -> None:
        """Refuse an accuracy that Claim 3 proves nothing of, or that takes days."""
        if self.alpha is None:
            return
        rounds, queries = self._rounds(Facts(domain, workload, Neighbours.ADD_REMOVE)), cells_of(domain, workload)
        if rounds > _MOST_ROUNDS:
            raise InvalidArgument(
                f"alpha {self.alpha:g} asks for {rounds} rounds, of at most {_MOST_ROUNDS}: give a larger alpha"
            )
        check_mwem_failure(self.alpha, self.beta, rounds, queries)

    def footprint(self, domain: Domain, workload: Workload) -> int:
        """See `Mechanism.footprint`: an update and its histogram, of every group; what is scored; what is measured."""
        sizes = self._sizes(domain, workload)
        scored = SCORED_BYTES * sum(sizes) if self.queries == "cells" else 30 * max(sizes, default=0)
        rounds = self._rounds(Facts(domain, workload, Neighbours.ADD_REMOVE, _USUAL_RHO, _USUAL_ROWS))
        measured_bytes = 16 * rounds * (max(sizes, default=0) if self.queries == "marginals" else 10)
        return BASE_BYTES + scored + measured_bytes + 60 * min(self.max_cells, domain.size(domain.names))

    def duration(self, domain: Domain, workload: Workload, rows: float, rho: Fraction) -> float:
        """See `Mechanism.duration`: scores, and updates of the groups that there may be."""
        rounds = self._rounds(Facts(domain, workload, Neighbours.ADD_REMOVE, rho, rows))
        sizes = self._sizes(domain, workload)
        fixed = base_seconds(rows) + QUESTION_SECONDS * rounds + weighing_seconds(workload)
        if self.start == "marginals" and self.passes > 1:
            scored = (0.25 if self.queries == "marginals" else 0.35) * SCORED_SECONDS * rounds * sum(sizes)
            return fixed + scored + self._moving(domain, workload, rows, rho)
        return fixed + SCORED_SECONDS * rounds * sum(sizes) + self._tilting(domain, workload, rows, rho)

    def _moving(self, domain: Domain, workload: Workload, rows: float, rho: Fraction) -> float:
        """About how long the updates take, each of a group; of whole marginals noise decides how large those grow."""
        updates = self._updates(domain, workload, rows, rho)
        return self._through * self.passes * (MOVED_SECONDS * updates.cells + UPDATE_SECONDS * updates.number)

    def _tilting(self, domain: Domain, workload: Workload, rows: float, rho: Fraction) -> float:
        """About how long updates by the newest answer take, or by all; answers to all candidates; and drawn rows."""
        rounds = self._rounds(Facts(domain, workload, Neighbours.ADD_REMOVE, rho, rows))
        updates, asked = self._updates(domain, workload, rows, rho), rounds * len(self._candidates(workload))
        return updates.tilting_seconds(self._through, self.passes, rounds, asked, averaged=self.output == "average")

    def _updates(self, domain: Domain, workload: Workload, rows: float, rho: Fraction) -> Updates:
        """What the rounds may update."""
        facts = Facts(domain, workload, Neighbours.ADD_REMOVE, rho, rows)
        spread = self._noise.stddev(self.course(facts).step[1], 1) / max(1.0, rows)
        whole, candidates = self.queries == "marginals", self._candidates(workload)
        return foreseen_updates(domain, candidates, spread, self._rounds(facts), self.max_cells, whole=whole)

    @property
    def _through(self) -> int:
        """How often the iterates are computed."""
        return _GOING_THROUGH if self.output == "average" else 1

    def remarks(self, course: Course) -> Sequence[Remark]:
        """See `Mechanism.remarks`: what linear queries have for noise, and Claim 3, of the lecture's algorithm only."""
        facts, whole = course.facts, self.queries == "marginals"
        domain, neighbours, measure = facts.domain, facts.neighbours, course.step[1]
        linear = sensitivity_remarks(domain, facts.workload.linear, neighbours, self._noise, measure, whole=whole)
        if not self._is_lecture:
            return linear
        epsilon = course.epsilon * float(1 - course.share(Total))
        units = max(1.0, facts.about / neighbours.cell)
        queries, rounds = cells_of(domain, facts.workload), self._rounds(facts)
        proven = mwem_bound(log_records(domain), queries, rounds, epsilon, units)
        beside = ")" if neighbours.total_is_public else ", for a public number of rows)"
        what = f"all {workload_words(facts.workload)} (if max_cells leaves out none{beside}"
        return [*linear, Remark("promise", proven.words(what, "Claim 3"))]

    def enough(self, domain: Domain, workload: Workload, neighbours: Neighbours, rows: float) -> Fraction | None:
        """See `NamesAccuracy.enough`: ρ of the ε by which Claim 3 promises α."""
        if self.alpha is None:
            return None
        course = self.course(Facts(domain, workload, neighbours))
        epsilon = self._least(domain, workload, rows / neighbours.cell, self.alpha) / (1 - course.share(Total))
        return epsilon**2 * course.whole

    def _least(self, domain: Domain, workload: Workload, units: float, alpha: float) -> Fraction:
        """ε by which Claim 3 promises an α."""
        rounds = self.rounds if isinstance(self.rounds, int) else mwem_rounds(log_records(domain), alpha)
        epsilon = mwem_epsilon(log_records(domain), cells_of(domain, workload), rounds, alpha, max(1.0, units))
        return Fraction(min(epsilon, _LARGEST))

    def _epsilon_of_rounds(self, facts: Facts) -> float:
        """ε of all rounds; of Gaussian noise the pure one whose Laplace noise would cost the same ρ."""
        if not self._noise.pure:
            return math.sqrt(2 * facts.charge)
        course = self.course(replace(facts, rows=None))
        return course.epsilon * float(course.share(Rounds))

    def check_public_rows(
        self, domain: Domain, workload: Workload, neighbours: Neighbours, rho: Fraction, rows: int
    ) -> None:
        """See `Mechanism.check_public_rows`: an alpha that takes more than the ε of ρ."""
        if self.alpha is not None:
            paid = self.course(Facts(domain, workload, neighbours, rho)).epsilon
            check_affords(self.alpha, lambda alpha: float(self._least(domain, workload, rows, alpha)), "epsilon", paid)

    def fit(self, walk: Walk, seed: int, progress: Progress) -> Outcome:
        """See `Mechanism.fit`."""
        domain, curator = walk.domain, walk.curator
        row_total, first = walk.total(), walk.marginals()
        walk = walk.knowing(max(1.0, float(row_total.values[0])))
        rounds = self._rounds(walk.facts)
        measured, past = list[Measurement](), Past.of(curator, row_total, self.max_cells)
        if not consistent(first, past.earlier):
            past = Past()
        iterates = self._iterates(domain, past, row_total, first)
        now = iterates.first(progress)
        progress.rounds("multiplicative weights", rounds)
        for _ in range(rounds):
            every = self._candidates(walk.workload)
            held = [family for family in every if domain.size(now.joined(columns_of(family))) <= self.max_cells]
            whole, penalised = self.queries == "marginals", self.start == "marginals"
            measured += ask(walk, now, held, iterates.total, whole=whole, penalised=penalised)
            if not iterates.past.earlier or consistent(
                [row_total, *first, *(m for m in measured if m.linear is None)], curator.earlier
            ):
                now = iterates.after(now, measured, progress)
            else:  # the table changed since: all again without what was measured before
                iterates = self._iterates(domain, Past(), row_total, first)
                now = iterates.last(measured, progress)
            progress.round_done()
        used = iterates.past.inside(now) if row_total.variance == 0 else iterates.past.earlier  # which n is from
        report: dict[str, Any] = {
            "rounds": rounds,
            "total": round(iterates.total),
            "asked": sorted({named(m) for m in measured}),
            "largest_group": max(table.size for _, table in now.factors),
            **reused(used),
        }
        parts = replace(iterates, measured=tuple(measured)) if self.output == "average" else (now,)
        return Outcome(MixtureModel(domain, parts, iterates.total), report)

    def _iterates(self, domain: Domain, past: Past, row_total: Measurement, first: Sequence[Measurement]) -> Iterates:
        """The iterates that follow from what is known before the first round."""
        total = best_total(targets_of([row_total, *first, *past.earlier]))
        start = tuple(told_singles(domain, first, past.earlier))
        return Iterates(domain, past, total, self.passes, self.queries == "marginals", start)

    def _candidates(self, workload: Workload) -> Sequence[QueryFamily]:
        """What rounds select from, or whose cells: after the 1-way marginals, all larger parts of the workload."""
        return asked_of(workload, larger=self.start == "marginals" and self.queries == "marginals")

    def _sizes(self, domain: Domain, workload: Workload) -> list[int]:
        """Cells of the candidates that a group holds."""
        sizes = (domain.size(columns_of(family)) for family in self._candidates(workload))
        return [size for size in sizes if size <= self.max_cells]

    @property
    def _is_by_theorem(self) -> bool:
        return self.rounds == THEOREM and self.alpha is None

    def _rounds(self, facts: Facts) -> int:
        """T. A rule over public facts; T* over the charge and n̂, too, before which there are as many as are priced."""
        domain = facts.domain
        if isinstance(self.rounds, int):
            return self.rounds
        if self.alpha is not None:
            return mwem_rounds(log_records(domain), self.alpha)
        if self._is_by_theorem:
            if facts.rho is None or facts.rows is None:
                return _FEWEST_ROUNDS
            epsilon = self._epsilon_of_rounds(facts)
            units, queries = facts.whole_rows / facts.neighbours.cell, cells_of(domain, facts.workload)
            best = mwem_best_rounds(log_records(domain), queries, epsilon, units)
            return min(max(best, _FEWEST_ROUNDS), _MOST_ROUNDS)
        if self.queries == "cells":
            return 4 * len(domain)
        return len(domain) * (2 if self.start == "marginals" else 1)
