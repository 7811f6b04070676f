r"""AIM without a junction tree: rounds that measure the marginal answered worst, with residuals pooled between them.

    total     with 1 % of ρ (free where n is public)
    rounds    of `dpsql.mechanisms.annealed_rounds` with g = 2, over the workload's closure, of marginals whose expected
              noise is at most 2n: no error is larger than that
    model     of a round: each marginal by itself, from the pooled residuals (`dpsql.fitting.local_marginals`)
    denoised  1-way marginals (`dpsql.fitting.relaxed.denoising`)
    fit       one relaxed table to all that was measured (`dpsql.fitting.relaxed.fit_marginals`)

The noise is of whole marginals and of integers. Residuals with correlated noise, as ResidualPlanner measures, would
have real noise. What they would gain is in `tests/mechanisms/test_residual_bound.py`: about a hundredth.

Departs from GReM in the model of a round: a residual that nothing measured is that of the table of largest entropy and
not 0, and each marginal is made non-negative by itself. Departs from AIM in g, because 2 errs less than 4 at ε = 0.1,
and in measuring the number of rows where it is private.

Source: Mullins, Fuentes, Xiao, Kifer, Musco, Sheldon 2024 (GReM, arXiv 2410.01091); McKenna et al. 2022 (AIM); Xiao et
al. 2023 (ResidualPlanner, arXiv 2305.08175).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np

from dpsql.core.arguments import check_range
from dpsql.core.domain import Clique, Domain
from dpsql.core.marginal import Measurement
from dpsql.core.neighbours import Neighbours
from dpsql.core.workload import Workload
from dpsql.errors import DomainTooLarge
from dpsql.evidence.earlier_releases import combined, reused, usable
from dpsql.evidence.occupied import occupied
from dpsql.fitting.local_marginals import LocalMarginals
from dpsql.fitting.relaxed.denoising import denoised
from dpsql.fitting.relaxed.settings import RELAXED_ROWS, Settings, best_total, fitting_bytes, fitting_seconds
from dpsql.fitting.target import Target, targets_of
from dpsql.mechanisms.annealed_rounds import AnnealedRounds, overlaps, round_asks
from dpsql.mechanisms.asks import Total
from dpsql.mechanisms.base import Mechanism, Outcome, register
from dpsql.mechanisms.costs import QUESTION_SECONDS, SCORED_SECONDS
from dpsql.mechanisms.course import Course
from dpsql.mechanisms.facts import Facts
from dpsql.mechanisms.threshold_queries import refuse_thresholds
from dpsql.mechanisms.walk import Walk
from dpsql.models.relaxed import RelaxedModel, fit_report
from dpsql.privacy.distributions import GAUSSIAN
from dpsql.runtime.progress import Progress

_TOTAL_SHARE: Final = Fraction(1, 100)
GROWTH: Final = 2
MOST_ERROR: Final = 2.0  # of the rows: the largest L1 distance of two tables
_MOST_SCORED: Final = 20_000_000
_USUAL_ROUNDS: Final = 5  # for each column
_CANDIDATE_SECONDS: Final = 5e-5  # of a marginal in each round, whatever its cells
HELD_CELLS: Final = 5_000_000  # of earlier measurements in the fit


@register("residual", when="adaptive rounds over many columns, where `pgm` would need a large junction tree")
@dataclass(frozen=True)
class Residual(Mechanism):
    """Measure what pooled residuals answer worst (AIM + GReM, Mullins et al. 2024), fit a relaxed table to all of it.

    Privacy: ρ-zCDP for the table's neighbours, ρ the charge. `total` (ρ/100) first, where the number of rows is
    private; then, of the rest ρ′, one `measure` of the 1-way marginals (0.9·ρ′/16), and rounds of `select_marginals`
    (0.1·ρ_t) and `measure` (0.9·ρ_t) until ρ′ is spent. Sensitivity of a marginal, and of a score without its weight:
    Δ₁ = c, Δ₂² = c² (add_remove; c rows of a privacy unit, else 1) or 2 (replace_one).

    Attributes:
        max_cells: larger marginals are not measured.
        relaxed_rows: n′, rows of the relaxed table.
        steps: of the fit.

    Raises:
        InvalidArgument: an option is out of its range.
    """

    uses_earlier = True
    max_cells: int = 60_000
    relaxed_rows: int = RELAXED_ROWS
    steps: int = 500

    def __post_init__(self) -> None:
        """Check the options."""
        check_range("max_cells", self.max_cells, 2, 10_000_000)
        check_range("relaxed_rows", self.relaxed_rows, 1, 100_000)
        check_range("steps", self.steps, 1, 100_000)

    def course(self, facts: Facts) -> Course:
        """See `Mechanism.course`: which marginals are measured is found out by selection."""
        total = Total.of(facts, _TOTAL_SHARE)
        cells = self._cells(facts.domain, facts.workload)
        return Course(facts, GAUSSIAN, (total, *round_asks(facts, 1 - total.share, cells)))

    def candidates(self, domain: Domain, workload: Workload) -> list[Clique]:
        """The marginals that may be measured: single columns, however large, and what max_cells allows."""
        closure = workload.closure()
        return [clique for clique in closure if len(clique) == 1 or domain.size(clique) <= self.max_cells]

    def _cells(self, domain: Domain, workload: Workload) -> int:
        return sum(map(domain.size, self.candidates(domain, workload)))

    def check(self, domain: Domain, workload: Workload, neighbours: Neighbours) -> None:
        """See `Mechanism.check`."""
        refuse_thresholds(self.name, workload)
        cells = self._cells(domain, workload)
        if cells > _MOST_SCORED:
            raise DomainTooLarge(
                f"{self.name} scores {cells:.3g} cells in each round, more than {_MOST_SCORED:.3g}: give a smaller "
                f"max_cells than {self.max_cells}, or ask for fewer marginals"
            )

    def footprint(self, domain: Domain, workload: Workload) -> int:
        """See `Mechanism.footprint`: answers to all candidates, and what is fitted of them."""
        return fitting_bytes(domain, self.relaxed_rows, self._cells(domain, workload))

    def duration(self, domain: Domain, workload: Workload, rows: float, rho: Fraction) -> float:
        """See `Mechanism.duration`: rounds, and a fit of marginals that have no more cells than there are rows."""
        return self.round_seconds(domain, workload) + self.fit_seconds(domain, workload, rows, rows)

    def round_seconds(self, domain: Domain, workload: Workload) -> float:
        """About how long the usual number of rounds takes."""
        cells = self._cells(domain, workload)
        scored = _CANDIDATE_SECONDS * len(self.candidates(domain, workload)) + SCORED_SECONDS * cells
        return _USUAL_ROUNDS * len(domain) * (2 * QUESTION_SECONDS + scored)

    def fit_seconds(self, domain: Domain, workload: Workload, rows: float, most: float) -> float:
        """About how long the rest takes, with a fit of at most so many cells."""
        cells = min(self._cells(domain, workload), most)
        return fitting_seconds(domain, float(self.relaxed_rows * self.steps), rows, cells)

    def fit(self, walk: Walk, seed: int, progress: Progress) -> Outcome:
        """See `Mechanism.fit`."""
        from dpsql.fitting.relaxed.fit_marginals import fit_marginals  # loads JAX

        curator, total = walk.curator, walk.total()
        measured = self._measured(walk, total, progress)
        held = occupied(walk.domain, measured)
        selected = [m.clique for m in measured[len(walk.domain) :]]
        domain, measured = held.domain, held.measurements(measured)
        earlier = usable(
            held.measurements(curator.earlier), [total, *measured], domain, self.max_cells, room=HELD_CELLS
        )
        evidence = combined(measured, earlier)
        best = best_total([*targets_of([total]), *evidence])
        settings = Settings(rows=self.relaxed_rows, steps=self.steps)
        fit = fit_marginals(domain, denoised(domain, evidence, best), best, settings, seed, progress)
        targets = tuple(sorted({*(m.clique for m in measured), *walk.workload.cliques}))
        report: dict[str, Any] = {
            "marginals": len(measured),
            "cells": sum(len(target.values) for target in evidence),
            "total": round(best),
            **reused(earlier),
            **fit_report(fit),
            "selected": [", ".join(clique) for clique in selected],
        }
        return Outcome(held.model(RelaxedModel(fit.model, targets)), report)

    def _measured(self, walk: Walk, total: Measurement, progress: Progress) -> list[Measurement]:
        """All that is measured: the single columns first, then one marginal each round."""
        every = self.candidates(walk.domain, walk.workload)
        rounds = AnnealedRounds(walk.curator, overlaps(walk.workload, every), GROWTH)
        measured = walk.marginals()
        model = LocalMarginals(walk.domain, targets_of(measured), best_total(targets_of([total, *measured])))
        while rounds.goes_on():
            progress.check()
            noise = zip(every, rounds.expected(every), strict=True)
            candidates = [clique for clique, expected in noise if expected <= MOST_ERROR * model.rows]
            newest = rounds.measure(candidates or every, model.answer)
            measured.append(newest)
            before = model.answer(newest.clique)
            model.add(Target.of(newest), best_total(targets_of([total, *measured])))
            rounds.anneal(walk.domain, newest, float(np.abs(model.answer(newest.clique) - before).sum()))
        return measured
