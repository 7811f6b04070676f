r"""RAP as in the paper: adaptive selection of single cells, projected after each round.

    ρ from ε = ρ + 2√(ρ ln(1/δ))
    T = 1:  all m cells of the workload measured with ρ/m each, one projection
    T > 1:  each of T rounds selects K new cells by noisy maximum of |q(D) − q(D′)| with ρ/2TK each, measures each with
            ρ/2TK, and projects from the previous D′ on all cells measured so far

The first D′ is random, as in the paper; where earlier releases measured marginals, it is a relaxed table fitted to
those (`dpsql.fitting.relaxed.fit_marginals`), so that the first cells that are selected are those that it does not
answer yet.

The subject of US patents 11,487,765 and 11,841,863.

With `start := 'marginals'` all 1-way marginals are measured first. The first D′ is fitted to them, and every projection
meets their cells, too.

T = 1 lists its cells one by one, up to 20,000 of them. More, or whole marginals, are `dpsql.mechanisms.rap.one_round`.
Where T or K is 'auto' it is chosen by `dpsql.mechanisms.rap.grid`.

Source: Aydore et al. 2021, Algorithm 2 (arXiv:2103.06641). The fields' defaults are the paper's, and `faithful := true`
asks for them with T and K by the rule of the grid. The paper reports the best pair of its grid, chosen on private rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Final, cast

import numpy as np

from dpsql.core.arguments import check_range, check_rounds, check_word
from dpsql.core.domain import Domain
from dpsql.core.linear_family import number_of
from dpsql.core.marginal import Measurement
from dpsql.core.neighbours import Neighbours
from dpsql.core.threshold import clique_of
from dpsql.core.workload import Workload
from dpsql.errors import InvalidArgument
from dpsql.evidence.earlier_releases import combined, consistent, reused, usable
from dpsql.fitting.relaxed.settings import RELAXED_ROWS, Settings, best_total
from dpsql.fitting.relaxed.table import Blocks, RelaxedTable
from dpsql.fitting.target import Target, targets_of
from dpsql.mechanisms.asks import Ask, Cells, Rounds
from dpsql.mechanisms.base import LATER, Mechanism, Outcome, Remark, register
from dpsql.mechanisms.costs import BASE_BYTES, JAX_BYTES, JAX_SECONDS, SCORED_BYTES, SCORED_SECONDS, base_seconds
from dpsql.mechanisms.course import Course
from dpsql.mechanisms.facts import Facts
from dpsql.mechanisms.linear_queries import sensitivity_remarks
from dpsql.mechanisms.one_way_start import STARTS, after_singles, left_after, told_singles
from dpsql.mechanisms.promises import log_records, rap_bound
from dpsql.mechanisms.rap import one_round
from dpsql.mechanisms.rap.grid import AUTO, grid_point
from dpsql.mechanisms.walk import Walk
from dpsql.models.relaxed import RelaxedModel
from dpsql.privacy.distributions import GAUSSIAN
from dpsql.privacy.journal import Query
from dpsql.privacy.pricing import Conversion
from dpsql.runtime.progress import Progress

_MOST_QUERIES: Final = 20_000
_SOFTMAX_RATE: Final = 100
_MOST_REUSED: Final = 1_000_000  # cells
_USUAL_RHO: Final = 0.015  # of ε = 1
_USUAL_ROWS: Final = 50_000
_SHARP: Final = Fraction(9, 10)  # of ε = 10, at which about all steps are taken
_GROWTH: Final = 0.1  # of the steps with ρ, by Adult and Loans at ε = 0.1, 1 and 10
_CONVERSIONS: Final = ("tight", "simple")


@register("rap", when="comparison with the paper, on a table with `neighbours := 'replace_one'`")
@dataclass(frozen=True)
class RAP(Mechanism):
    """Relaxed adaptive projection of single cells and thresholds, as in the paper (Aydore et al. 2021).

    After earlier releases it is the paper's with `reuse := false`; else the first D′ is what they tell.

    Privacy: ρ-zCDP for the table's neighbours (the paper's are replace_one), ρ the charge. For T > 1: T rounds of
    `select_cells` (K·ρ/2TK) and `measure_cells` (K·ρ/2TK); for T = 1: `measure_cells` (m·ρ/m), or `measure` of the
    marginals (at most ρ) for more than 20,000 cells and with queries := 'marginals'. Cells of marginals and thresholds
    alike. Under add_remove the
    number of rows is private: `total` takes ρ/100 first. With start := 'marginals' one `measure` of the 1-way marginals
    takes a third of the rest. Sensitivity of a cell and of its score: 1; of a linear query what
    `dpsql.core.linear_family` says, c times the largest weight where rows are added or removed.

    Attributes:
        rounds: T, or 'auto', from the paper's grid by ρ and the number of rows.
        queries_per_round: K, cells selected in each round (T = 1 measures all); or 'auto', likewise.
        relaxed_rows: n′.
        conversion: from (ε, δ) to ρ: 'simple' is the paper's, 'tight' gives more ρ for the same ε.
        neighbours: none to take the table's; else it must be the table's, for the paper's guarantee is 'replace_one'.
        relaxation: 'sparsemax' as in the paper, or 'softmax', which comes nearer to sums of many cells: linear queries
            have it in any case after 1-way marginals.
        learning_rate: of Adam; a hundred times that for the logarithms of softmax. Whole marginals: ten times that at
            first, four hundred times for softmax, falling to 0.
        steps: the most Adam steps of one projection.
        start: 'uniform', a random D′ as in the paper, or 'marginals': all 1-way marginals are measured first.
        queries: 'cells', each at a price of its own as in the paper; or, with rounds := 1, 'marginals', where all cells
            of a marginal share one price, so that there is much less noise.

    Raises:
        InvalidArgument: an option is out of its range, or neighbours are not the table's.
    """

    uses_earlier = True
    takes_linear = True
    rounds: int | str = 10
    queries_per_round: int | str = 10
    relaxed_rows: int = 1000
    conversion: str = "simple"
    neighbours: str | None = None
    relaxation: str = "sparsemax"
    learning_rate: float = 0.001
    steps: int = 5000
    start: str = field(default="uniform", metadata=LATER)
    queries: str = field(default="cells", metadata=LATER)

    @classmethod
    def recommended(cls, *, pure: bool) -> Mapping[str, Any]:
        """See `Mechanism.recommended`."""
        fewer = {"rounds": 5, "queries_per_round": 100, "relaxed_rows": RELAXED_ROWS, "steps": 1000}
        return {**fewer, "start": "marginals", "conversion": "tight"}

    @classmethod
    def published(cls) -> Mapping[str, Any]:
        """See `Mechanism.published`: the fields' defaults are the paper's, on the grid point of a public rule."""
        return {"rounds": AUTO, "queries_per_round": AUTO}

    @classmethod
    def published_before(cls) -> Mapping[str, Any]:
        """See `Mechanism.published_before`: the grid point of ten rounds of ten cells."""
        return {}

    def __post_init__(self) -> None:
        """Check the options."""
        check_word("start", self.start, STARTS)
        check_word("queries", self.queries, one_round.QUERIES)
        check_rounds(self.rounds)
        if isinstance(self.queries_per_round, str):
            check_word("queries_per_round", self.queries_per_round, (AUTO, "a number"))
        else:
            check_range("queries_per_round", self.queries_per_round, 1, 100_000)
        if self.queries == "marginals" and self.rounds != 1:
            raise InvalidArgument(f"queries is 'marginals', but rounds is {self.rounds}: give rounds := 1")
        check_range("relaxed_rows", self.relaxed_rows, 1, 100_000)
        check_range("learning_rate", self.learning_rate, 1e-6, 1.0)
        check_range("steps", self.steps, 1, 1_000_000)
        check_word("relaxation", self.relaxation, ("sparsemax", "softmax"))
        check_word("conversion", self.conversion, _CONVERSIONS)  # 'gdp' has no room for selections

    def course(self, facts: Facts) -> Course:
        """See `Mechanism.course`: all cells at once, or those that rounds select; after the number of rows and more."""
        domain, workload = facts.domain, facts.workload
        conversion: Conversion = "simple" if self.conversion == "simple" else "tight"
        ask: Ask
        if self._is_whole(domain, workload):
            ask = one_round.all_marginals(facts, self.queries)
        elif self.rounds == 1:
            ask = Cells(Fraction(1), _cells(domain, workload))
        else:
            rho = left_after(facts, self.start)
            rounds, each = self._grid(domain, workload, facts.neighbours, rho, facts.about)
            note = f"{rounds} rounds, each selects {each} and measures them"
            ask = Rounds(Fraction(1), rounds, each, rounds * each, note=note)
        return after_singles(facts, self.start, ask, conversion=conversion, note="measured")

    def check(self, domain: Domain, workload: Workload, neighbours: Neighbours) -> None:
        """See `Mechanism.check`."""
        if self.neighbours is not None and self.neighbours != neighbours.kind:
            raise InvalidArgument(
                f"neighbours is {self.neighbours!r}, but the table is protected for {str(neighbours)!r}, which is set "
                "once by dp_protect(…, neighbours := …): leave it out"
            )
        if workload.linear and self.queries == "marginals":
            raise InvalidArgument("queries is 'marginals', and the workload has linear queries: leave queries out")
        if workload.linear_cells > _MOST_QUERIES:
            raise InvalidArgument(
                f"the linear queries have {workload.linear_cells} cells, of which rap fits each one: at most "
                f"{_MOST_QUERIES}. Use fewer columns in one sum, or say mechanism := 'projection'"
            )
        cells = _cells(domain, workload)
        if cells > 100_000_000:
            raise InvalidArgument(f"the workload has {cells:.3g} cells, too many for rap to score: ask for fewer")
        if self._is_whole(domain, workload):
            one_round.check_size(domain, workload)
            return
        if self.rounds == 1:
            instead = "give rounds and queries_per_round, which select some, or say mechanism := 'projection'"
            check_single_cells(workload, domain, "rounds is 1", instead)
            return
        rounds, per_round = self._grid(domain, workload, neighbours, _USUAL_RHO, _USUAL_ROWS)
        queries, most = rounds * per_round, min(cells, _MOST_QUERIES)
        if queries > most:
            raise InvalidArgument(
                f"rap would measure {queries} cells, of {cells} at most {most} can be: give fewer rounds or "
                "queries_per_round, or say mechanism := 'projection'"
            )

    def footprint(self, domain: Domain, workload: Workload) -> int:
        """See `Mechanism.footprint`: products and their slopes for each query and relaxed row; scores of all cells."""
        if self._is_whole(domain, workload):
            return one_round.memory_of(domain, workload, self.relaxed_rows)
        order = max((len(clique_of(family)) for family in workload.families), default=1)
        queries = 8 * (order + 3) * self._queries(domain, workload, _USUAL_ROWS) * self.relaxed_rows
        table = 40 * domain.width * self.relaxed_rows
        return BASE_BYTES + JAX_BYTES + table + queries + SCORED_BYTES * _cells(domain, workload)

    def duration(self, domain: Domain, workload: Workload, rows: float, rho: Fraction) -> float:
        """See `Mechanism.duration`: scores, and Adam steps, of which a projection takes more where noise is small."""
        if self._is_whole(domain, workload):
            return one_round.seconds_of(domain, workload, self.relaxed_rows, self.steps, rows)
        each = 2.2e-9 * domain.width + 7.5e-9 * self._queries(domain, workload, rows)
        scored = (5e-10 * self.relaxed_rows + SCORED_SECONDS) * _cells(domain, workload)
        rounds, _ = self._grid(domain, workload, Neighbours.REPLACE_ONE, _USUAL_RHO, rows)
        part = math.pow(min(1.0, float(rho / _SHARP)), _GROWTH)
        return base_seconds(rows) + JAX_SECONDS + rounds * (part * self.steps * self.relaxed_rows * each + scored)

    def _is_whole(self, domain: Domain, workload: Workload) -> bool:
        """Whether all cells are measured as whole marginals: T = 1, and asked for or too many for a list."""
        if self.rounds != 1 or workload.thresholds or workload.linear:
            return False
        return self.queries == "marginals" or _cells(domain, workload) > _MOST_QUERIES

    def _grid(
        self, domain: Domain, workload: Workload, neighbours: Neighbours, rho: Fraction | float, rows: float
    ) -> tuple[int, int]:
        """T and K; after 1-way marginals K is no more than there are cells, for nobody chose it for this workload."""
        cells = _cells(domain, workload)
        most = min(cells, _MOST_QUERIES)
        rounds, per_round = grid_point(self.rounds, self.queries_per_round, rho, rows, neighbours.cell, most)
        if self.start != "uniform" or self.queries_per_round == AUTO:
            per_round = min(per_round, max(1, cells // rounds))
        return rounds, per_round

    def _queries(self, domain: Domain, workload: Workload, rows: float) -> int:
        """How many single answers a projection meets, in the end."""
        singles = (domain.width if self.start == "marginals" else 0) + workload.linear_cells
        if self.rounds == 1:
            return singles + _cells(domain, workload)
        rounds, per_round = self._grid(domain, workload, Neighbours.REPLACE_ONE, _USUAL_RHO, rows)
        return singles + rounds * per_round

    def remarks(self, course: Course) -> Sequence[Remark]:
        """See `Mechanism.remarks`: how much less noise whole marginals have, and the theorem, of T = 1."""
        facts, all_remarks = course.facts, list[Remark]()
        domain, workload = facts.domain, facts.workload
        if self._is_whole(domain, workload):
            all_remarks += one_round.remarks(facts, left_after(facts, self.start), self.queries)
        if workload.linear:
            _, rho = course.step if self.rounds != 1 else (0, course.cost(course.of(Cells)[0].part))
            all_remarks += sensitivity_remarks(domain, workload.linear, facts.neighbours, GAUSSIAN, rho, whole=False)
        if self.rounds == 1 and not workload.thresholds and not workload.linear:
            noise, cells = cast(float, course.preview()[-1].stddev) / max(1.0, facts.about), _cells(domain, workload)
            proven = rap_bound(log_records(domain), cells, len(workload.cliques), noise, self.relaxed_rows)
            what = "the root mean square error of all cells (if the projection is exact)"
            all_remarks.append(Remark("promise", proven.words(what, "Theorem 4.1")))
        return all_remarks

    def fit(self, walk: Walk, seed: int, progress: Progress) -> Outcome:
        """See `Mechanism.fit`."""
        counted, singles = walk.total(), walk.marginals("")
        if self._is_whole(walk.domain, walk.workload):
            how = (self.relaxed_rows, self.steps, self.learning_rate, self.relaxation)
            return one_round.measure_and_fit(walk, counted, singles, how, seed, progress)
        if self.rounds == 1:
            families, domain = walk.workload.query_families, walk.domain
            queries = [(family, cell) for family in families for cell in range(number_of(domain, family))]
            measured = walk.curator.measure_cells(queries, walk.cell)
            model, earlier = self._start(walk, singles, [counted, *singles, *measured], seed, progress)
            targets = told_singles(domain, singles, earlier)
            model, steps = self._project(walk.workload, model, targets, measured, len(queries), progress)
        else:
            sized_walk = walk.knowing(max(1.0, float(counted.values[0])))
            model, steps, measured, earlier = self._adapt(sized_walk, counted, singles, seed, progress)
        report: dict[str, Any] = {
            "cells": sum(len(m.values) for m in measured),
            "total": round(model.total),
            "steps": steps,
            **reused(earlier),
        }
        return Outcome(RelaxedModel(model), report)

    def _start(
        self,
        walk: Walk,
        singles: Sequence[Measurement],
        measured: Sequence[Measurement],
        seed: int,
        progress: Progress,
    ) -> tuple[RelaxedTable, list[Measurement]]:
        """The first D′, random or fitted to whole marginals, and what earlier releases measured of these.

        Args:
            walk: of the release.
            singles: the 1-way marginals that were measured first.
            measured: by this release: first n, then what else there is, which they must not contradict.
            seed: of the random one.
            progress: may raise `Interrupted`.
        """
        from dpsql.fitting.relaxed.fit_cells import random_start  # loads JAX
        from dpsql.fitting.relaxed.fit_marginals import fit_marginals

        earlier = usable(walk.curator.earlier, measured, walk.domain, _MOST_REUSED, room=_MOST_REUSED)
        total = max(1.0, best_total(targets_of([measured[0], *singles, *earlier])))
        if not earlier and not singles:
            blocks = Blocks.of(walk.domain)
            return RelaxedTable(blocks, random_start(blocks, self.relaxed_rows, seed), total), []
        settings = Settings(rows=self.relaxed_rows, relaxation=self._relaxation(walk.workload))
        return fit_marginals(walk.domain, combined(singles, earlier), total, settings, seed, progress).model, earlier

    def _adapt(
        self, walk: Walk, counted: Measurement, singles: Sequence[Measurement], seed: int, progress: Progress
    ) -> tuple[RelaxedTable, int, list[Measurement], list[Measurement]]:
        curator, domain = walk.curator, walk.domain
        (asks,) = walk.course.of(Rounds)
        rounds, taken, counts = asks.times, 0, [counted, *singles]
        measured: list[Measurement] = []
        queries: list[Query] = []
        model, earlier = self._start(walk, singles, counts, seed, progress)
        progress.rounds("rounds", rounds)
        for _ in range(rounds):
            chosen, fresh = curator.measure_selected_cells(
                walk.workload.query_families, model.counts, asks.each, walk.course.step, exclude=queries
            )
            queries += chosen
            measured += fresh
            if not consistent(measured, earlier):  # the table changed since
                model, earlier = self._start(walk, singles, [*counts, *measured], seed, progress)
            targets = told_singles(domain, singles, earlier)
            model, steps = self._project(walk.workload, model, targets, measured, rounds * asks.each, progress)
            taken += steps
            progress.round_done()
        return model, taken, measured, earlier

    def _relaxation(self, workload: Workload) -> str:
        """Of the fits: where rows are nearly alike the steps of sparsemax find no nearer answers to sums of cells."""
        return "softmax" if workload.linear and self.start == "marginals" else self.relaxation

    def _project(
        self,
        workload: Workload,
        start: RelaxedTable,
        singles: Sequence[Target],
        measured: Sequence[Measurement],
        count: int,
        progress: Progress,
    ) -> tuple[RelaxedTable, int]:
        """The relaxed table near another one that answers what was measured, and the steps to it.

        Args:
            workload: of the release.
            start: the other one.
            singles: 1-way marginals.
            measured: single cells.
            count: the most single answers of any call.
            progress: may raise `Interrupted`.
        """
        from dpsql.fitting.relaxed.fit_cells import fit_cells  # loads JAX

        queries: list[Query] = [(t.clique, cell) for t in singles for cell in range(len(t.values))]
        capacity, relaxation = count + workload.linear_cells + len(queries), self._relaxation(workload)
        queries += [(m.linear or m.family, cell) for m in measured for cell in m.cells or ()]
        answers = [*(t.values for t in singles), *(m.values / (m.linear.largest if m.linear else 1) for m in measured)]
        targets = np.concatenate(answers) / start.total
        rate = self.learning_rate * (1 if relaxation == "sparsemax" else _SOFTMAX_RATE)
        how = (capacity, rate, self.steps, 1e-7, progress, relaxation)
        table, steps = fit_cells(start.blocks, start.probabilities, queries, targets, *how)
        return replace(start, probabilities=table), steps


def check_single_cells(workload: Workload, domain: Domain, where: str, instead: str) -> None:
    """Refuse a workload of more cells than can be measured one by one.

    Args:
        workload: whose cells.
        domain: of the table.
        where: which option asks for it.
        instead: what to do.
    """
    cells = _cells(domain, workload)
    if cells > _MOST_QUERIES:
        raise InvalidArgument(
            f"{where}, and the workload has {cells} cells, of which at most {_MOST_QUERIES} can be measured one by "
            f"one: {instead}"
        )


def _cells(domain: Domain, workload: Workload) -> int:
    return sum(number_of(domain, family) for family in workload.query_families)
