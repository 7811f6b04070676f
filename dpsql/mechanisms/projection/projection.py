r"""Relaxed projection: measure whole marginals, project them with a relaxed table.

    total      with 1 % of ρ (free where n is public)
    marginals  of the workload's closure, each with its share of the rest (`dpsql.strategy.allocation`)
    again      with 3/10 of that all of them, and with up to half of those 3/10 the pairs that stand out of the first
               noise, pooled, where one tells much (`dpsql.strategy.second_stage`)
    linear     queries, all at once, before the marginals (`dpsql.mechanisms.linear_queries`)
    denoised   1-way marginals (`dpsql.fitting.relaxed.denoising`)
    joined     columns of strong pairs, of ordered ones alone where A ≤ 0.001, and of constraints
               (`dpsql.fitting.relaxed.joints`)
    fit        one relaxed table to all of them (`dpsql.fitting.relaxed.fit_marginals`)
    rounding   stratified draws, and swaps towards what was measured as far as it is believed
               (`dpsql.fitting.relaxed.rounding`, `dpsql.fitting.relaxed.shrinkage`)

What is done depends on A, the L1 error of a 1-way marginal if all of ρ went to those, from public facts and the noisy
number of rows. Rows and steps by A are in `dpsql.strategy.effort`.

    A ≤ 0.01        one stage
    0.01 < A ≤ 0.1  two stages; where a strong pair tells much, rows are pulled towards a table of the pairs as far as
                    those are believed
    0.1 < A         one stage; rows are always pulled likewise, and swaps go towards the fit alone
    0.32 < A        and no ordered column: all of ρ goes to the 1-way marginals, the table is their product

Beside a public prior 1-way marginals are not denoised, no columns are joined, and the fit is not smoothed. Constraints
then are kept by rounding alone.

Source: Aydore et al. 2021 (RAP with T = 1), measuring whole marginals of the workload's closure instead of its cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any, Final

from dpsql.core.arguments import check_range, check_word
from dpsql.core.domain import Clique, Domain
from dpsql.core.marginal import Measurement
from dpsql.core.neighbours import Neighbours
from dpsql.core.workload import Workload
from dpsql.errors import InvalidArgument
from dpsql.evidence.earlier_releases import combined, consistent, reused, usable
from dpsql.evidence.occupied import SideFacts, occupied
from dpsql.evidence.public_prior import fit_marginals_with_prior
from dpsql.fitting.relaxed.believed_pairs import believed_pairs
from dpsql.fitting.relaxed.denoising import denoised
from dpsql.fitting.relaxed.joints import joints_of
from dpsql.fitting.relaxed.settings import (
    RELAXATIONS,
    RELAXED_ROWS,
    Settings,
    best_total,
    fitting_bytes,
    joint_tuples,
    one_way_prior,
    product_table,
)
from dpsql.fitting.relaxed.shrinkage import shrunken
from dpsql.fitting.relaxed.smoothness import smooth_columns
from dpsql.fitting.relaxed.strong_pairs import strong_pairs, tell
from dpsql.fitting.target import Target, targets_of
from dpsql.mechanisms.asks import Allocated, Ask, LeftOut, Linear, Open, Total
from dpsql.mechanisms.base import LATER, Mechanism, Outcome, register
from dpsql.mechanisms.course import Course
from dpsql.mechanisms.facts import Facts
from dpsql.mechanisms.linear_queries import allocated_seconds, beside_linear, linear_of_all
from dpsql.mechanisms.matrix.hdmm import optimised_shares
from dpsql.mechanisms.projection.memory import check_fits
from dpsql.mechanisms.walk import Walk
from dpsql.models.relaxed import RelaxedModel, fit_report
from dpsql.privacy.distributions import GAUSSIAN
from dpsql.runtime.memory import machine_memory, parse_size
from dpsql.runtime.progress import Progress
from dpsql.strategy.allocation import Allocation, allocate
from dpsql.strategy.effort import EXACT, HIDDEN, NOISY, by_noise, foreseen_work
from dpsql.strategy.predicted_error import predicted_errors
from dpsql.strategy.reliability import pair_words, planned_words, strong_words
from dpsql.strategy.second_stage import second_shares

TOTAL_SHARE: Final = Fraction(1, 100)
_FEWEST_CELLS: Final = 1000
REFINEMENTS: Final = (
    *("smoothing", "denoising", "rounding", "allocation", "steps"),
    *("selection", "reference", "joints", "pooling", "trends"),
)
_SECOND: Final = Fraction(3, 10)
_SPENT: Final = Fraction(1, 1000)
_AGAIN: Final = "measured again: all of it, with up to half of this for pairs that stand out of the first noise"


@register("projection", when="the default, for synthetic data")
@dataclass(frozen=True)
class Projection(Mechanism):
    """Measure whole marginals of the workload and its subsets, strong pairs twice, fit a relaxed table to all of them.

    Privacy: ρ-zCDP and Gaussian DP of g = ρ for the table's neighbours, ρ the charge: `total(ρ/100)` and one `measure`,
    or two, whose shares add up to the rest; the second depends on noisy answers to the first only. Linear queries are
    one `measure_linear_families` before them (`dpsql.core.linear_family` says Δ). Gaussian noise of
    σ² = Δ₂²/2ρ_r + 1/8 for each marginal, Δ₂² = c² (add_remove; c rows of a privacy unit, else 1) or 2 (replace_one).

    Attributes:
        relaxed_rows: n′, rows of the relaxed table; more fit better at large ε, and take longer.
        max_cells: larger marginals are not measured; their smaller subsets are.
        all_cells: the most cells measured in all; bounds time and memory.
        steps: of the fit.
        relaxation: 'softmax', or 'sparsemax' as in the paper.
        weights: which marginals, with what shares: by the 'rule' of `dpsql.strategy.allocation`, or those of 'hdmm',
            which go with max_cells only.
        queries: 'marginals'; cells of the workload by themselves are measured by `rap` with rounds := 1.
        memory: how much the work may take, such as '4GB': fewer cells are measured where need be; None for what the
            machine has.
        without: refinements to leave out, for research: 'smoothing' of ordered columns, 'denoising' of 1-way marginals,
            'rounding' towards shrunken marginals, 'allocation' for ordered columns, 'steps' and rows by the noise,
            'selection' of pairs for a second stage, a 'reference' that rows are pulled towards, 'joints' of strong
            pairs, 'pooling' of what pairs and triples tell of strong pairs, 'trends' along ordered columns, by which
            pairs are found and believed.

    Raises:
        InvalidArgument: an option is out of its range.
    """

    uses_earlier = True
    takes_prior = True
    takes_linear = True
    relaxed_rows: int = RELAXED_ROWS
    max_cells: int = 60_000
    all_cells: int = 1_500_000
    steps: int = 500
    relaxation: str = "softmax"
    weights: str = "rule"
    queries: str = "marginals"
    memory: str | None = None
    without: tuple[str, ...] | None = field(default=None, metadata=LATER)

    def __post_init__(self) -> None:
        """Check the options."""
        check_range("relaxed_rows", self.relaxed_rows, 1, 100_000)
        check_range("max_cells", self.max_cells, 2, 10_000_000)
        check_range("all_cells", self.all_cells, 2, 100_000_000)
        check_word("weights", self.weights, ("rule", "hdmm"))
        if self.queries != "marginals":
            raise InvalidArgument(
                f"queries is {self.queries!r}, but projection measures whole marginals: leave queries out, or say "
                "mechanism := 'rap', rounds := 1, which measures each cell by itself"
            )
        check_range("steps", self.steps, 1, 100_000)
        check_word("relaxation", self.relaxation, RELAXATIONS)
        if self.memory is not None:
            parse_size(self.memory)
        for word in self.without or ():
            check_word("without", word, REFINEMENTS)
        if self.without is not None:  # one order, so that equal requests are equal
            object.__setattr__(self, "without", tuple(sorted({*self.without})))
        if self.weights == "hdmm":
            self._refuse_given(("all_cells", "memory"), "weights is 'hdmm'")

    def _refuse_given(self, names: Sequence[str], where: str) -> None:
        """Refuse options that would be ignored."""
        usual = {field.name: field.default for field in fields(self)}
        for name in names:
            if getattr(self, name) != usual[name]:
                raise InvalidArgument(f"{where}, which takes no {name}: leave {name} out")

    def course(self, facts: Facts) -> Course:
        """See `Mechanism.course`: which marginals are measured is chosen when the charge and the rows are known."""
        total = Total.of(facts, TOTAL_SHARE)
        left = 1 - total.share
        if facts.rho is None or facts.rows is None:
            return Course(facts, GAUSSIAN, (total, Open(left)))
        linear = left * linear_of_all(facts.domain, facts.workload, facts.neighbours, GAUSSIAN)
        asks = self._marginals(facts, left - linear)
        return Course(facts, GAUSSIAN, (total, *asks, Linear(linear, facts.workload.linear)))

    def _marginals(self, facts: Facts, share: Fraction) -> list[Ask]:
        """The marginals that get this share of the charge, in one stage or two, and those that are left out."""
        domain, neighbours, workload = facts.domain, facts.neighbours, beside_linear(facts.workload)
        rho = facts.charge * share
        chosen = self.allocation(domain, workload, neighbours, rho, facts.about)

        def predicted() -> Mapping[Clique, float]:
            return predicted_errors(domain.inner, chosen, neighbours, workload, facts.about)

        second = share * self._second(chosen)
        first = Allocated.of(share - second, chosen, rho, words=planned_words, predicted=predicted)
        cells = sum(map(domain.size, first.cliques))
        again = Open(second, cells=cells, open="strong pairs", note=_AGAIN)
        return [first, *([again] if second else []), LeftOut(Fraction(0), chosen.left_out, predicted)]

    def check(self, domain: Domain, workload: Workload, neighbours: Neighbours) -> None:
        """Refuse what does not fit in memory; says what would."""
        workload.check_subsets()
        limit = machine_memory() if self.memory is None else parse_size(self.memory)
        fewest = min(self.all_cells, _FEWEST_CELLS) if self.memory else self._most_cells(domain, workload)
        cells = fewest, workload.linear_cells
        check_fits(domain, self.relaxed_rows, *cells, self._most_tuples(domain), limit, given=self.memory is not None)

    def footprint(self, domain: Domain, workload: Workload) -> int:
        """See `Mechanism.footprint`."""
        cells = self._most_cells(domain, workload)
        if self.memory is not None:
            cells = min(cells, self._cells_limit(domain))
        return fitting_bytes(domain, self.relaxed_rows, cells + workload.linear_cells, self._most_tuples(domain))

    def duration(self, domain: Domain, workload: Workload, rows: float, rho: Fraction) -> float | None:
        """See `Mechanism.duration`."""
        left = rho * (1 - linear_of_all(domain, workload, Neighbours.ADD_REMOVE, GAUSSIAN))
        allocation = self.allocation(domain, beside_linear(workload), Neighbours.ADD_REMOVE, left, rows)
        settings = Settings(rows=self.relaxed_rows, steps=self.steps)
        work = foreseen_work(settings, allocation.one_way_error, by_rule=self._has("steps"))
        return allocated_seconds(domain, workload, allocation, work, rows)

    def _most_cells(self, domain: Domain, workload: Workload) -> int:
        """The most cells that may be measured for a workload."""
        if self.weights == "hdmm":
            shares = optimised_shares(domain.inner, beside_linear(workload), Fraction(1), self.max_cells)
            return sum(domain.size(clique) for clique, _ in shares)
        cliques = [clique for clique in workload.closure() if domain.inner.size(clique) <= self.max_cells]
        whole, inner = (sum(of.size(clique) for clique in cliques) for of in (domain, domain.inner))
        return domain.width + min(whole, self.all_cells * whole // max(1, inner))  # chosen by declared values alone

    def _most_tuples(self, domain: Domain) -> int:
        """The most tuples that joints may have in all."""
        return joint_tuples(domain) if self._has("joints") else 0

    def _cells_limit(self, domain: Domain) -> int:
        """`all_cells`, or fewer where `memory` was given: it is part of the request, the machine is not."""
        if self.memory is None:
            return self.all_cells
        fixed = fitting_bytes(domain, self.relaxed_rows, 0, self._most_tuples(domain))
        each = fitting_bytes(domain, self.relaxed_rows, 10**6, self._most_tuples(domain)) - fixed
        return min(self.all_cells, max(0, (parse_size(self.memory) - fixed) * 10**6 // each))

    def allocation(
        self, domain: Domain, workload: Workload, neighbours: Neighbours, rho: Fraction, rows: float
    ) -> Allocation:
        """What would be measured for a table of about `rows` rows, with ρ in all.

        It weighs marginals by cells of declared values, because those outside are mostly empty and left out of fits.
        """
        domain = domain.inner
        limit = self._cells_limit(domain)
        if self.weights == "hdmm":
            return Allocation(tuple(optimised_shares(domain, workload, rho, self.max_cells)), (), 0.0)
        smooth = self._has("smoothing") and self._has("allocation") and any(smooth_columns(domain))
        return allocate(domain, workload, neighbours, rho, rows, self.max_cells, limit, smooth=smooth)

    def _has(self, refinement: str) -> bool:
        return refinement not in (self.without or ())

    def fit(self, walk: Walk, seed: int, progress: Progress) -> Outcome:
        """See `Mechanism.fit`."""
        curator, workload, total = walk.curator, beside_linear(walk.workload), walk.total()
        walk = walk.knowing(max(1.0, float(total.values[0])))
        linear = walk.linear()
        measured, again = self._measured(walk)
        (allocation,) = (ask.allocation for ask in walk.course.of(Allocated))
        agreeing = curator.earlier if consistent(measured, curator.earlier) else ()
        held = occupied(curator.domain, [*measured, *again, *agreeing])
        domain, measured, facts = (
            held.domain,
            held.measurements(measured),
            held.side_facts(curator.prior, curator.allowed),
        )
        linear = held.measurements(linear)
        room = self._cells_limit(domain)
        earlier = usable(held.measurements(curator.earlier), [total, *measured], domain, self.max_cells, room)
        evidence = combined(measured, [*held.measurements(again), *earlier])
        best = best_total([Target.of(total), *evidence])
        report: dict[str, Any] = {
            "marginals": len(measured),
            "cells": sum(len(m.values) for m in measured),
            "total": round(best),
            **reused(earlier),
            "fit": "relaxed table",
        }
        targets = tuple(sorted({*(m.clique for m in (*measured, *linear)), *workload.needed}))
        if allocation.drowned and not linear:
            report["fit"] = "product of the 1-way marginals: noise would drown every dependence"
            if not earlier and facts.prior is None:
                product = product_table(domain, self._denoised(facts, targets_of(measured), best), best)
                return Outcome(held.model(RelaxedModel(product, targets)), report)
            report["fit"] = "relaxed table, from the prior and earlier measurements where noise drowns this one"
        evidence = list(self._denoised(facts, evidence, best))
        strong = self._strong(domain, evidence, best)
        settings = self._settings(facts, allocation, strong, evidence, best)
        fit, prior_report = fit_marginals_with_prior(
            facts, workload, evidence, best, settings, self.max_cells, seed, progress, targets_of(linear)
        )
        report |= {**prior_report, **fit_report(fit), **strong_words(settings, strong, again)}
        report |= pair_words(fit.model, evidence)
        nearer = facts.prior is None and self._has("rounding") and allocation.one_way_error < HIDDEN
        model = RelaxedModel(fit.model, targets, shrunken(fit.model, evidence) if nearer else {})
        return Outcome(held.model(model), report)

    def _measured(self, walk: Walk) -> tuple[list[Measurement], list[Measurement]]:
        """The marginals of the first stage, and those of the second: strong pairs, and all of them again."""
        curator, first = walk.curator, dict[Clique, Measurement]()
        again = [m for m in walk.marginals(begun=True) if first.setdefault(m.clique, m) is not m]
        if curator.remaining > _SPENT * walk.facts.charge:
            total = best_total(targets := targets_of(first.values()))
            singles = denoised(curator.domain, targets, total)
            strong = self._strong(curator.domain, singles, total)
            pairs = [p.clique for p in strong] if tell(self._believed(curator.domain, strong, singles, total)) else []
            first_shares = [(m.clique, m.rho) for m in first.values()]
            again += curator.measure(second_shares(curator.domain, first_shares, pairs, curator.remaining))
        return list(first.values()), again

    def _strong(self, domain: Domain, targets: Sequence[Target], total: float) -> list[Target]:
        return strong_pairs(domain, targets, total, pooled=self._has("pooling"), trends=self._has("trends"))

    def _believed(
        self, domain: Domain, strong: Sequence[Target], targets: Sequence[Target], total: float
    ) -> Iterator[Target]:
        """Strong pairs as far as they are believed, one after the other."""
        return believed_pairs(domain, one_way_prior(domain, targets, total), strong, total, trends=self._has("trends"))

    def _second(self, allocation: Allocation) -> Fraction:
        """The second stage's part of what marginals cost."""
        pairs = any(len(clique) == 2 for clique, _ in allocation.shares)
        tells = NOISY < allocation.one_way_error <= HIDDEN and self.weights == "rule"
        return _SECOND if pairs and tells and self._has("selection") else Fraction(0)

    def _denoised(self, facts: SideFacts, targets: Sequence[Target], total: float) -> Sequence[Target]:
        """Denoised 1-way marginals; as measured beside a prior, whose weight their noise tells."""
        return denoised(facts.domain, targets, total) if facts.prior is None and self._has("denoising") else targets

    def _settings(
        self,
        facts: SideFacts,
        allocation: Allocation,
        strong: Sequence[Target],
        targets: Sequence[Target],
        total: float,
    ) -> Settings:
        """Of the fit."""
        alone, error = facts.prior is None, allocation.one_way_error
        smooth = smooth_columns(facts.domain) if alone and self._has("smoothing") else ()
        softmax = self.relaxation == "softmax"
        pulls = alone and softmax and self._has("reference") and error > NOISY
        joined = strong if error > EXACT else [pair for pair in strong if facts.domain.all_ordered(pair.clique)]
        believed = [*self._believed(facts.domain, joined, targets, total)] if alone else []
        seen = believed if self._has("joints") else ()
        settings = Settings(
            rows=self.relaxed_rows,
            steps=self.steps,
            strength=allocation.pull_strength,
            relaxation=self.relaxation,
            smooth=smooth if softmax else (),
            reference=pulls and (error > HIDDEN or tell(believed)),
            trends=self._has("trends") and error <= HIDDEN,
            joints=joints_of(facts.domain, seen, targets, total, facts.allowed, strong) if alone else (),
        )
        return by_noise(settings, error, believed) if alone and self._has("steps") else settings
