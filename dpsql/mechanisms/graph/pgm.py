r"""Private-PGM: measured marginals, fitted by a graphical model of largest entropy (`dpsql.fitting.graph.fit_graph`).

    workload   the marginals and shares of `dpsql.strategy.allocation`, of those that keep the junction tree small
    mst        a third of ρ: all 1-way marginals; a third: K − 1 edges of a spanning tree, one after the other, by
               score ‖M_e(D) − M_e(independent model)‖₁ among the pairs that join two components (Kruskal);
               a third: the pairs chosen. The fit may merge rare values (`dpsql.evidence.rare_values`)
    aim        the rounds of `dpsql.mechanisms.annealed_rounds`, over the workload's closure; the model is fitted again
               after each. Junction trees of up to `model_mb`·(spent/ρ) only

K is the number of columns. Unlike the relaxed table the model is exact and convex: what it says of columns that were
not measured together is what the measured ones imply, by conditional independence. The price is the junction tree: its
size grows with the product of domains, so only few marginals of large columns fit.

Source: McKenna, Sheldon, Miklau 2019 (arXiv:1901.09136); McKenna, Miklau, Sheldon 2021 (arXiv:2108.04978), MST;
McKenna, Mullins, Sheldon, Miklau 2022 (arXiv:2201.12677), AIM, Algorithms 2 to 4. Departs from them in measuring the
number of rows with 1 % of ρ (where it is private).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.arguments import check_range, check_word
from dpsql.core.domain import Clique, Domain
from dpsql.core.marginal import Measurement
from dpsql.core.neighbours import Neighbours
from dpsql.core.workload import Workload
from dpsql.errors import DomainTooLarge, InvalidArgument
from dpsql.evidence.earlier_releases import reused
from dpsql.evidence.occupied import Occupied, occupied
from dpsql.evidence.rare_values import Merging
from dpsql.fitting.graph.fit_graph import Fit, fit_graph
from dpsql.fitting.graph.junction_tree import Tree
from dpsql.fitting.graph.mbi_package import maximal, model_megabytes
from dpsql.fitting.relaxed.settings import best_total, one_way_prior
from dpsql.fitting.relaxed.table import Blocks
from dpsql.fitting.target import targets_of
from dpsql.mechanisms.annealed_rounds import CHOSEN, AnnealedRounds, overlaps, round_asks
from dpsql.mechanisms.asks import Allocated, Ask, LeftOut, Marginals, Open, Rounds, Total
from dpsql.mechanisms.base import LATER, Mechanism, Outcome, register
from dpsql.mechanisms.costs import BASE_BYTES, JAX_BYTES, JAX_SECONDS, base_seconds
from dpsql.mechanisms.course import Course
from dpsql.mechanisms.facts import Facts
from dpsql.mechanisms.graph.fits import check_installed, graph_report, growth, within_tree
from dpsql.mechanisms.one_way_start import singles
from dpsql.mechanisms.walk import Walk
from dpsql.models.graph import GraphModel
from dpsql.models.model import Model
from dpsql.privacy.distributions import GAUSSIAN
from dpsql.runtime.progress import Progress
from dpsql.strategy.allocation import Allocation, allocate

_SELECTIONS: Final = ("workload", "mst", "aim")
_TOTAL_SHARE: Final = Fraction(1, 100)
_THIRD: Final = Fraction(1, 3)
_ROUND_STEPS: Final = 100  # of the fit after each round; the last one takes all
_MOST_TRIALS: Final = 1000  # trees built to see what fits
_MOST_COLUMNS: Final = 100
_ALL_CELLS: Final = 10_000_000


@register("pgm", when="few or small columns; needs `pip install 'dpsql[pgm]'`", package="mbi")
@dataclass(frozen=True)
class PGM(Mechanism):
    """Fit the graphical model of largest entropy to noisy marginals, exactly (McKenna et al. 2019, 2021, 2022).

    Privacy: ρ-zCDP for the table's neighbours, ρ the charge; with selection 'workload' also Gaussian DP of g = ρ.
    `total` (ρ/100) first, where the number of rows is private; then, of the rest ρ′:
    'workload': one `measure` (ρ′). 'mst': `measure` of the 1-way marginals (ρ′/3), K − 1 times `select_marginals` (ρ′/3
    in all), `measure` of the chosen pairs (ρ′/3); of a single column the 1-way marginal takes ρ′. 'aim': `measure` of
    the 1-way marginals, then rounds of `select_marginals` (0.1·ρ_t) and `measure` (0.9·ρ_t) until ρ′ is spent.
    Sensitivity of a marginal, and of a score without its weight: Δ₁ = c, Δ₂² = c² (add_remove; c rows of a privacy
    unit, else 1) or 2 (replace_one).

    Attributes:
        selection: 'workload' (fixed from public facts, a minute), 'mst' (a spanning tree of pairs, seconds) or 'aim'
            (adaptive rounds, minutes).
        model_mb: the largest junction tree, in megabytes at 8 bytes a cell; time grows with it.
        max_cells: larger marginals are not measured.
        steps: the most steps of the fit.
        merge_rare: of selection 'mst', as in its paper: values of noisy counts below 3σ are one value of their column,
            which is spread evenly over them.

    Raises:
        InvalidArgument: an option is out of its range.
    """

    uses_earlier = True
    selection: str = "workload"
    model_mb: int = 20
    max_cells: int = 60_000
    steps: int = 1000
    merge_rare: bool = field(default=False, metadata=LATER)

    def __post_init__(self) -> None:
        """Check the options."""
        check_word("selection", self.selection, _SELECTIONS)
        check_range("model_mb", self.model_mb, 1, 100_000)
        check_range("max_cells", self.max_cells, 2, 10_000_000)
        check_range("steps", self.steps, 1, 100_000)
        if self.merge_rare and self.selection != "mst":
            raise InvalidArgument(f"merge_rare is true, but selection is {self.selection!r}: it goes with 'mst' only")

    def course(self, facts: Facts) -> Course:
        """See `Mechanism.course`: which pairs or marginals are measured is found out by selection, or by the rows."""
        total = Total.of(facts, _TOTAL_SHARE)
        ways = {"workload": self._allocated, "mst": self._tree_asks, "aim": self._round_asks}
        return Course(facts, GAUSSIAN, (total, *ways[self.selection](facts, 1 - total.share)))

    def _allocated(self, facts: Facts, left: Fraction) -> list[Ask]:
        """What the allocation says of the marginals that keep the tree small; open before the rows are known."""
        if facts.rho is None or facts.rows is None:
            return [Open(left)]
        rho = facts.charge * left
        allocation, left_out = self._fixed(facts.domain, facts.workload, facts.neighbours, rho, facts.about)
        return [Allocated.of(left, allocation, rho), LeftOut(Fraction(0), left_out)]

    def _tree_asks(self, facts: Facts, left: Fraction) -> list[Ask]:
        """The 1-way marginals, and the edges of a spanning tree; of columns without pairs the marginals get all."""
        domain = facts.domain
        one_way, pairs = singles(domain, "marginals"), self._pairs(domain)
        if not pairs:
            return [Marginals(left, one_way)]
        edges, sizes = _forest_edges(domain, pairs), sorted((domain.size(pair) for pair in pairs), reverse=True)
        tree = Rounds(
            *(left * (1 - _THIRD), edges), cells=sum(sizes[:edges]), whole=True, open="selected pairs", note=CHOSEN
        )
        return [Marginals(left * _THIRD, one_way), tree]

    def _round_asks(self, facts: Facts, left: Fraction) -> list[Ask]:
        """The 1-way marginals, and rounds whose number follows from what they answer."""
        return round_asks(facts, left, sum(map(facts.domain.size, self._candidates(facts.domain, facts.workload))))

    def check(self, domain: Domain, workload: Workload, neighbours: Neighbours) -> None:
        """Refuse what cannot be fitted; see `Mechanism.check`."""
        workload.check_subsets()
        check_installed("mechanism 'pgm'")
        if len(domain) > _MOST_COLUMNS:
            raise DomainTooLarge(
                f"the table has {len(domain)} columns, pgm takes at most {_MOST_COLUMNS}: say "
                "mechanism := 'projection', or take fewer columns"
            )
        size = domain.width * 8 / 2**20
        if size > self.model_mb:
            raise DomainTooLarge(
                f"the columns alone make a model of {size:.1f} megabytes, model_mb is {self.model_mb}: give "
                f"model_mb := {math.ceil(2 * size)} or more"
            )

    def footprint(self, domain: Domain, workload: Workload) -> int:
        """See `Mechanism.footprint`: messages of the junction tree, many times over; of pairs the tree is small."""
        model = self.model_mb * 2**20 * {"mst": 15, "workload": 45, "aim": 30}[self.selection]
        scored = 24 * sum(map(domain.size, self._candidates(domain, workload))) if self.selection == "aim" else 0
        return BASE_BYTES + JAX_BYTES + min(model, 900_000_000 * self.model_mb // 20) + scored

    def duration(self, domain: Domain, workload: Workload, rows: float, rho: Fraction) -> float:
        """See `Mechanism.duration`: of the largest tree that may be; rounds of 'aim' fit again and again."""
        each = growth(self.selection, domain, rho, rows) * {"mst": 0.4, "workload": 3.0, "aim": 6.0}[self.selection]
        size = 1.0 if self.selection == "mst" else max(1.0, self.model_mb / 20)
        tree = min(1.0, domain.size(domain.names) * 8 / 2**20 / self.model_mb) if self.selection != "mst" else 1.0
        return base_seconds(rows) + JAX_SECONDS + each * len(domain) * size * tree * self.steps / 1000

    def fit(self, walk: Walk, seed: int, progress: Progress) -> Outcome:
        """See `Mechanism.fit`; no random number but the curator's is used, so `seed` is not."""
        curator, total = walk.curator, walk.total()
        adapt = {"workload": self._measure_workload, "mst": self._measure_tree, "aim": self._measure_rounds}
        measured, start = adapt[self.selection](walk, total, progress)
        domain, cliques, cells = curator.domain, [m.clique for m in measured], sum(len(m.values) for m in measured)
        held = occupied(domain, measured) if start is None else Occupied.all_of(domain)  # a fit that goes on has all
        domain, measured = held.domain, held.measurements(measured)
        free = within_tree(held, [total, *measured], curator.earlier, self.max_cells)
        best = best_total(targets_of([total, *measured, *free]))
        targets, merging = targets_of([*measured, *free]), None
        if self.merge_rare:
            merging = Merging.of(domain, targets[: len(domain)])
            targets = [merging.target(target) for target in targets]
            fit = fit_graph(merging.domain, targets, best, self.steps, progress, None, merging.precisions(targets))
        else:
            fit = fit_graph(domain, targets, best, self.steps, progress, start)
        model: Model = GraphModel(fit.tree, best)
        report: dict[str, Any] = {
            "selection": self.selection,
            "marginals": len(measured),
            "cells": cells,
            "total": round(best),
            **reused(free),
            **graph_report(fit, cells if merging is None else sum(len(target.values) for target in targets)),
        }
        if merging is not None:
            report["merged"], model = merging.merged, merging.model(model)
        if self.selection != "workload":
            report["selected"] = [", ".join(clique) for clique in cliques[len(domain) :]]
        return Outcome(held.model(model), report)

    # selection := 'workload'

    def _fixed(
        self, domain: Domain, workload: Workload, neighbours: Neighbours, rho: Fraction, rows: float
    ) -> tuple[Allocation, list[tuple[Clique, str]]]:
        """The allocation's marginals, of those that keep the tree small, and why the workload's others are left out."""
        wide = Workload(tuple(dict.fromkeys((*((name,) for name in domain.names), *workload.needed))))
        first = allocate(domain, wide, neighbours, rho, rows, self.max_cells, _ALL_CELLS)
        worth = [clique for clique, _ in first.shares]
        cliques = self._small(domain, worth, set(workload.needed))
        second = allocate(domain, Workload(tuple(cliques)), neighbours, rho, rows, self.max_cells, _ALL_CELLS)
        measured = {clique for clique, _ in second.shares}
        reasons = dict(first.left_out)
        too_large = f"the junction tree would be larger than model_mb = {self.model_mb}"
        return second, [(c, reasons.get(c, too_large)) for c in dict.fromkeys(workload.needed) if c not in measured]

    def _small(self, domain: Domain, cliques: Sequence[Clique], needed: set[Clique]) -> list[Clique]:
        """The cliques whose tree stays within `model_mb`: the workload's own first, smaller ones before larger ones."""
        tree_cliques: list[Clique] = [(name,) for name in domain.names]
        trials = 0
        for clique in sorted(cliques, key=lambda c: (c not in needed, domain.size(c), c)):
            if any(set(clique) <= set(other) for other in tree_cliques):
                if clique not in tree_cliques:
                    tree_cliques.append(clique)
            elif trials < _MOST_TRIALS:
                trials += 1
                if model_megabytes(domain, [*tree_cliques, clique]) <= self.model_mb:
                    tree_cliques.append(clique)
        return tree_cliques

    def _measure_workload(
        self, walk: Walk, total: Measurement, progress: Progress
    ) -> tuple[list[Measurement], Tree | None]:
        return walk.knowing(max(1.0, float(total.values[0]))).marginals(), None

    # selection := 'mst'

    def _pairs(self, domain: Domain) -> list[Clique]:
        """The pairs that may become edges."""
        limit = min(self.max_cells, self.model_mb * 2**20 // 8)
        return [pair for pair in itertools.combinations(domain.names, 2) if domain.size(pair) <= limit]

    def _measure_tree(
        self, walk: Walk, total: Measurement, progress: Progress
    ) -> tuple[list[Measurement], Tree | None]:
        domain, curator = walk.domain, walk.curator
        pairs, one_way = self._pairs(domain), walk.marginals()
        if not pairs:
            return one_way, None
        rows = best_total(targets_of([total, *one_way]))
        edges, (selection, measurement) = _forest_edges(domain, pairs), walk.course.step
        chosen: list[Clique] = []
        answers = _independent(domain, one_way, rows)
        for _ in range(edges):
            apart = _components(domain, chosen)
            joining = [(a, b) for a, b in pairs if apart[a] != apart[b]]
            chosen += curator.select_marginals(joining, answers, 1, selection)
        return [*one_way, *curator.measure([(pair, measurement) for pair in chosen])], None

    # selection := 'aim'

    def _candidates(self, domain: Domain, workload: Workload) -> list[Clique]:
        return [clique for clique in workload.closure() if domain.size(clique) <= self.max_cells]

    def _measure_rounds(
        self, walk: Walk, total: Measurement, progress: Progress
    ) -> tuple[list[Measurement], Tree | None]:
        domain, workload, curator = walk.domain, walk.workload, walk.curator
        every = self._candidates(domain, workload)
        rounds, measured = AnnealedRounds(curator, overlaps(workload, every)), walk.marginals()
        rows = best_total(targets_of([total, *measured]))
        fit = fit_graph(domain, targets_of(measured), rows, self.steps, progress)
        sizes = _Sizes(domain)
        while rounds.goes_on():
            fitting = sizes.fitting(every, [m.clique for m in measured], self.model_mb * rounds.spent)
            measurement = rounds.measure(fitting, _answers(fit.tree, rows))
            measured.append(measurement)
            rows = best_total(targets_of([total, *measured]))
            before, fit = fit, self._again(domain, measured, rows, progress, fit)
            moved = np.abs(fit.tree.project(measurement.clique) - before.tree.project(measurement.clique)).sum()
            rounds.anneal(domain, measurement, rows * float(moved))
        return measured, fit.tree

    def _again(self, domain: Domain, measured: Sequence[Measurement], rows: float, progress: Progress, fit: Fit) -> Fit:
        return fit_graph(domain, targets_of(measured), rows, min(self.steps, _ROUND_STEPS), progress, fit.tree)


def _answers(tree: Tree, rows: float) -> Callable[[Clique], npt.NDArray[np.float64]]:
    """A model's answers (rows)."""
    return lambda clique: rows * tree.project(clique)


def _independent(
    domain: Domain, one_way: Sequence[Measurement], rows: float
) -> Callable[[Clique], npt.NDArray[np.float64]]:
    """The answers (rows) of independent columns to a pair."""
    blocks, whole = Blocks.of(domain), one_way_prior(domain, targets_of(one_way), rows).astype(np.float64)
    return lambda pair: rows * np.outer(whole[blocks.block(pair[0])], whole[blocks.block(pair[1])]).ravel()


def _components(domain: Domain, edges: Sequence[Clique]) -> dict[str, str]:
    """For each column one that stands for all that edges join it to."""
    home = {name: name for name in domain.names}
    for column, other in edges:
        old, new = home[column], home[other]
        home = {name: new if where == old else where for name, where in home.items()}
    return home


def _forest_edges(domain: Domain, pairs: Sequence[Clique]) -> int:
    """How many edges a spanning forest of these pairs has."""
    return len(domain) - len(set(_components(domain, pairs).values()))


class _Sizes:
    """Which cliques a model may take in; trees are built only where the answer is not known."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._least_megabytes: dict[Clique, float] = {}  # lower bounds: a tree only grows
        self._held: list[Clique] = []

    def fitting(self, cliques: Sequence[Clique], measured: Sequence[Clique], limit: float) -> list[Clique]:
        """Of these cliques those within a measured one, or with which the tree has at most `limit` megabytes."""
        held = maximal(self._domain, measured)
        exact = held == self._held
        self._held = held
        candidates = []
        for clique in cliques:
            inside = any(set(clique) <= set(other) for other in held)
            if (
                not inside
                and self._least_megabytes.get(clique, 0.0) <= limit
                and not (exact and clique in self._least_megabytes)
            ):
                self._least_megabytes[clique] = model_megabytes(self._domain, [*held, clique])
            if inside or self._least_megabytes[clique] <= limit:
                candidates.append(clique)
        return candidates
