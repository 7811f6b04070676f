r"""JAM: rounds that measure a marginal or take it from a public table, whichever is nearer, without a junction tree.

    total     with 1 % of ρ (free where n is public)
    rounds    of `dpsql.mechanisms.annealed_rounds` with g = 2, over the workload's closure: one selection among the
              marginals that may be measured, of an expected noise of at most 2n, and those that the public table has.
              What is taken costs the selection only, a tenth of a round, anneals nothing, and is a candidate no more
    model     of a round: each marginal by itself, from the pooled residuals (`dpsql.fitting.local_marginals`)
    fit       one relaxed table to all that was measured or taken (`dpsql.fitting.relaxed.fit_marginals`)

A marginal of C cells that is taken, with counts z of N rows, is believed with the variance of each cell

    min(σ_t², κ·(N² − Σz²)/mC)      κ = max(1, Σ_a(‖z_a − y_a‖² − C_a·σ_a²) / Σ_a(N² − Σz_a²)/m)

of its m public rows: as they would scatter if they were drawn, times what the noisy 1-way marginals y_a say that they
are farther off by. It was selected because it errs less than noise of σ_t. κ and this limit of σ_t² were chosen on
Adult; `tests/benchmarks/jam_rules.py` shows what each brings on other tables. Rows may be any of the domain.

Departs from JAM in the model, which is no graphical one; in the variances, which are all alike there; in the number of
rounds and their shares, which are AIM's; in measuring the 1-way marginals and, where it is private, the number of rows
first; and in Δ, which is 2·Δ_S where S may be taken (`dpsql.privacy.sources`).

Source: Fuentes, Mullins, McKenna, Miklau, Sheldon 2024, Joint Selection: Adaptively Incorporating Public Information
for Private Synthetic Data (arXiv:2403.07797); McKenna et al. 2022 (AIM); Mullins et al. 2024 (GReM).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np

from dpsql.core.domain import Clique, Domain
from dpsql.core.marginal import Measurement
from dpsql.core.prior import Prior
from dpsql.core.workload import Workload
from dpsql.errors import InvalidArgument
from dpsql.evidence.earlier_releases import combined, reused, usable
from dpsql.evidence.occupied import Occupied, occupied
from dpsql.evidence.prior_reach import reach_words
from dpsql.fitting.local_marginals import Floats, LocalMarginals
from dpsql.fitting.relaxed.denoising import denoised
from dpsql.fitting.relaxed.settings import Settings, best_total
from dpsql.fitting.target import Target, targets_of
from dpsql.mechanisms.annealed_rounds import AnnealedRounds, overlaps
from dpsql.mechanisms.base import Outcome, Remark, register
from dpsql.mechanisms.residual.residual import GROWTH, HELD_CELLS, MOST_ERROR, Residual
from dpsql.mechanisms.walk import Walk
from dpsql.models.fitness import Fitness
from dpsql.models.relaxed import RelaxedModel, fit_report
from dpsql.runtime.progress import Progress

_ANSWER_BYTES: Final = 4
_MORE: Final = 3  # seconds of rounds, and cells that are fitted, than `residual` has
_MEND: Final = "where it lacks rows, marginals are measured"


@register("jam", when="a public table that is right in some columns and wrong in others")
@dataclass(frozen=True)
class JAM(Residual):
    """Measure a marginal or take it from a public table, whichever is nearer, round by round (Fuentes et al. 2024).

    Privacy: ρ-zCDP for the table's neighbours, ρ the charge. `total` (ρ/100) first, where the number of rows is
    private; then, of the rest ρ′, one `measure` of the 1-way marginals (0.9·ρ′/16), and rounds of `select_source`
    (0.1·ρ_t) and, unless the public table was selected, `measure` (0.9·ρ_t) until ρ′ is spent. Sensitivity of a
    marginal, and of the score of measuring it without its weight: Δ₁ = c, Δ₂² = c² (add_remove; c rows of a privacy
    unit, else 1) or 2 (replace_one). Of the score of taking it: 2·Δ₁. The prior is public.

    Attributes:
        max_cells: larger marginals are neither measured nor taken.
        relaxed_rows: n′, rows of the relaxed table.
        steps: of the fit.

    Raises:
        InvalidArgument: an option is out of its range.
    """

    takes_prior = True
    needs_prior = True

    def footprint(self, domain: Domain, workload: Workload) -> int:
        """See `Mechanism.footprint`: public answers beside those of the model."""
        return super().footprint(domain, workload) + _ANSWER_BYTES * sum(
            map(domain.size, self.candidates(domain, workload))
        )

    def duration(self, domain: Domain, workload: Workload, rows: float, rho: Fraction) -> float:
        """See `Mechanism.duration`: more rounds than `residual` has, with two answers each, and larger marginals."""
        rounds = _MORE * self.round_seconds(domain, workload)
        return rounds + self.fit_seconds(domain, workload, rows, _MORE * rows)

    def remarks_on(self, prior: Prior, domain: Domain, workload: Workload) -> Sequence[Remark]:
        """See `Mechanism.remarks_on`: which values it lacks."""
        return [Remark("prior", words) for words in reach_words(prior, domain, workload.cliques, _MEND)]

    def fit(self, walk: Walk, seed: int, progress: Progress) -> Outcome:
        """See `Mechanism.fit`."""
        from dpsql.fitting.relaxed.fit_marginals import fit_marginals  # loads JAX

        curator, prior = walk.curator, walk.curator.prior
        if prior is None:
            raise InvalidArgument("mechanism 'jam' takes marginals from a public table: give prior := 'its name'")
        total = walk.total()
        measured, taken, selected = self._rounds(walk, prior, total, progress)
        held = occupied(walk.domain, measured)
        domain, measured = held.domain, held.measurements(measured)
        earlier = usable(
            held.measurements(curator.earlier), [total, *measured], domain, self.max_cells, room=HELD_CELLS
        )
        evidence = combined(measured, earlier)
        best = best_total([*targets_of([total]), *evidence])
        settings = Settings(rows=self.relaxed_rows, steps=self.steps)
        both = combined(evidence, [_inside(held, target) for target in taken])
        fit = fit_marginals(domain, denoised(domain, both, best), best, settings, seed, progress)
        targets = tuple(sorted({*(target.clique for target in both), *walk.workload.cliques}))
        report: dict[str, Any] = {
            "marginals": len(measured),
            "public_marginals": len(taken),
            "cells": sum(len(target.values) for target in both),
            "total": round(best),
            **reused(earlier),
            **fit_report(fit, Fitness.of(RelaxedModel(fit.model), measured)),
            "selected": selected,
        }
        return Outcome(held.model(RelaxedModel(fit.model, targets)), report)

    def _rounds(
        self, walk: Walk, prior: Prior, total: Measurement, progress: Progress
    ) -> tuple[list[Measurement], list[Target], list[str]]:
        """What is measured, the single columns first; what is taken; and what each round selects, in words."""
        domain, every = walk.domain, self.candidates(walk.domain, walk.workload)
        open_to_public = [clique for clique in every if prior.covers(clique)]
        rounds = AnnealedRounds(walk.curator, overlaps(walk.workload, every), GROWTH)
        measured, taken, selected = walk.marginals(), list[Target](), list[str]()
        model = LocalMarginals(domain, targets_of(measured), best_total(targets_of([total, *measured])))

        fractions = {clique: prior.project(domain, clique).astype(np.float32) for clique in open_to_public}

        def public(clique: Clique) -> Floats:
            return model.rows * fractions[clique].astype(np.float64)

        farther = farther_than_drawn(targets_of(measured), prior, domain, model.rows)
        while rounds.goes_on():
            progress.check()
            noise = zip(every, rounds.expected(every), strict=True)
            candidates = [clique for clique, expected in noise if expected <= MOST_ERROR * model.rows]
            answer, newest = rounds.measure_or_take(candidates or every, open_to_public, model.answer, public)
            if answer is None:
                open_to_public.remove(newest.clique)
                newest = as_sure(newest, prior.total, farther)
                taken.append(newest)
            else:
                measured.append(answer)
            selected.append(", ".join(newest.clique) + (" (public)" if answer is None else ""))
            before = model.answer(newest.clique)
            model.add(newest, best_total(targets_of([total, *measured])))
            if answer is not None:
                rounds.anneal(domain, newest, float(np.abs(model.answer(newest.clique) - before).sum()))
        return measured, taken, selected


def _scatter(values: Floats, public_rows: float) -> float:
    """Σ squared errors of a public marginal, if its rows were drawn from the table's distribution (rows²)."""
    total = max(1.0, float(values.sum()))
    return max(1.0, (total**2 - float(np.sum(values**2))) / public_rows)


def farther_than_drawn(one_way: Sequence[Target], prior: Prior, domain: Domain, rows: float) -> float:
    """How many times farther the public columns are from the noisy ones than draws would be, by squares; 1 at least."""
    apart = expected = 0.0
    for target in one_way:
        if prior.covers(target.clique):
            public = rows * prior.project(domain, target.clique)
            apart += float(np.sum((public - target.values) ** 2)) - target.variance * len(public)
            expected += _scatter(public, prior.total)
    return max(1.0, apart / expected) if expected else 1.0


def as_sure(taken: Target, public_rows: float, farther: float) -> Target:
    """A public marginal, believed as far as its rows tell it, and no less than a measurement of its round."""
    variance = min(taken.variance, max(1.0, farther * _scatter(taken.values, public_rows) / len(taken.values)))
    return replace(taken, variance=variance, rho=taken.rho * taken.variance / variance)


def _inside(held: Occupied, target: Target) -> Target:
    """A whole marginal without the cells that hold no rows."""
    values = target.values.reshape(target.shape)[held.places(target.clique)]
    return replace(target, shape=values.shape, values=values.ravel())
