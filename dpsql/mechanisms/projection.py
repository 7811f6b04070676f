r"""Relaxed projection: measure whole marginals once, project them with a relaxed table.

    total      with 1 % of ρ (free where n is public)
    S_k        the cliques of size k in the workload's closure
    f_1        = clip(1.2·√A, 0.1, 0.8),  A = √(2/π)·(T/K)·√(K/2ρ)/n̂     share of the 1-way marginals
    f_2, f_3…  two thirds of the rest to pairs, the rest of that shared by the larger orders (all to one that is alone)
    inside     ρ ∝ cells^{2/3} among 1-way marginals, equal among those of a larger order
    dropped    in each order the largest marginals while σ·cells > 10·n̂, those over `max_cells`, and the largest ones
               while more than `all_cells` remain

Then one fit (`dpsql.fitting.projection`) and rounding by swaps (`dpsql.fitting.rounding`).

Source: Aydore et al. 2021 (RAP with T = 1), measuring whole marginals of the workload's closure instead of its cells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from dpsql.domain import Clique, Domain
from dpsql.fitting.projection import Settings, best_total, fit_marginals
from dpsql.mechanisms.base import Mechanism, Outcome, PlannedMeasurement, check_range, register
from dpsql.mechanisms.relaxed import RelaxedModel
from dpsql.privacy.accounting import Neighbours, gaussian_variance
from dpsql.privacy.curator import Curator
from dpsql.progress import Progress
from dpsql.workload import Workload

TOTAL_SHARE: Final = Fraction(1, 100)
_LARGEST_ORDER: Final = 3


@register("projection")
@dataclass(frozen=True)
class Projection(Mechanism):
    """Measure whole marginals of the workload and its subsets once, fit a relaxed table to all of them.

    Privacy: ρ-zCDP for the table's neighbours, ρ the charge: `total(ρ/100)` and one `measure` whose shares add up to
    the rest. Gaussian noise of σ² = Δ₂²/2ρ_r for each marginal, Δ₂² = 1 (add_remove) or 2 (replace_one).

    Attributes:
        relaxed_rows: n′, rows of the relaxed table; more fit better at large ε, and take longer.
        max_cells: larger marginals are not measured; their smaller subsets are.
        all_cells: the most cells measured in all; bounds time and memory.
        steps: of the fit.

    Raises:
        InvalidArgument: an option is out of its range.
    """

    conversion = "gaussian"  # it asks for Gaussian noise only
    relaxed_rows: int = 512
    max_cells: int = 60_000
    all_cells: int = 1_500_000
    steps: int = 500

    def __post_init__(self) -> None:
        """Check the options."""
        check_range("relaxed_rows", self.relaxed_rows, 1, 100_000)
        check_range("max_cells", self.max_cells, 2, 10_000_000)
        check_range("all_cells", self.all_cells, 2, 100_000_000)
        check_range("steps", self.steps, 1, 100_000)

    def plan(
        self, domain: Domain, workload: Workload, neighbours: Neighbours, rho: Fraction, rows: float
    ) -> Sequence[PlannedMeasurement]:
        """See `Mechanism.plan`."""
        planned = []
        if neighbours is Neighbours.ADD_REMOVE:
            share = rho * TOTAL_SHARE
            planned.append(PlannedMeasurement((), 1, math.sqrt(gaussian_variance(share, 1)), float(share)))
            rho -= share
        for clique, share in self.shares(domain, workload, neighbours, rho, rows):
            planned.append(PlannedMeasurement(clique, domain.size(clique), _stddev(neighbours, share), float(share)))
        return planned

    def run(self, curator: Curator, workload: Workload, rho: Fraction, seed: int, progress: Progress) -> Outcome:
        """See `Mechanism.run`."""
        domain = curator.domain
        total = curator.total(rho * TOTAL_SHARE)
        rough = max(1.0, float(total.values[0]))
        shares = self.shares(domain, workload, curator.neighbours, curator.remaining, rough)
        measured = curator.measure(shares)
        settings = Settings(rows=self.relaxed_rows, steps=self.steps)
        best = best_total([total, *measured])
        fit = fit_marginals(domain, measured, best, settings, seed, progress)
        targets = {*(m.clique for m in measured), *workload.closure()}
        report: dict[str, Any] = {
            "marginals": len(measured),
            "cells": sum(len(m.values) for m in measured),
            "total": round(best),
            "residual": round(fit.residual, 4),
            "pull": round(fit.pull, 3),
            "steps": fit.steps,
        }
        return Outcome(RelaxedModel(fit.model, tuple(sorted(targets))), report)

    def shares(
        self, domain: Domain, workload: Workload, neighbours: Neighbours, rho: Fraction, rows: float
    ) -> list[tuple[Clique, Fraction]]:
        """The marginals to measure, each with its share of ρ; by the rule at the top of this file."""
        rows = max(rows, 1.0)
        by_order: dict[int, list[Clique]] = {}
        for clique in workload.closure():
            if len(clique) == 1 or (len(clique) <= _LARGEST_ORDER and domain.size(clique) <= self.max_cells):
                by_order.setdefault(len(clique), []).append(clique)
        parts = _order_shares(sorted(by_order), _first_share(domain, float(rho), rows))
        room = self.all_cells
        chosen: list[tuple[Clique, Fraction]] = []
        for order, part in parts.items():
            kept = self._keep(domain, by_order[order], neighbours, rho * part, rows, room)
            weights = [Fraction(domain.size(c) ** (2 / 3) if order == 1 else 1) for c in kept]
            whole = sum(weights, Fraction(0))
            chosen += [(c, rho * part * w / whole) for c, w in zip(kept, weights, strict=True)]
            room -= sum(domain.size(clique) for clique in kept)
        spent = sum((share for _, share in chosen), Fraction(0))
        return [
            (clique, share * rho / spent) for clique, share in chosen
        ]  # what a dropped order leaves goes to the rest

    def _keep(
        self, domain: Domain, cliques: Sequence[Clique], neighbours: Neighbours, rho: Fraction, rows: float, room: int
    ) -> list[Clique]:
        """The cliques of one order worth measuring: the largest ones are dropped while noise would drown them."""
        if len(cliques[0]) == 1:
            return list(cliques)
        kept = sorted(cliques, key=lambda clique: (domain.size(clique), clique))
        cells = sum(domain.size(clique) for clique in kept)
        while kept:
            largest = domain.size(kept[-1])
            noise = _stddev(neighbours, rho / len(kept)) * largest
            if noise <= 10 * rows and cells <= room:
                break
            kept.pop()
            cells -= largest
        return kept


def _stddev(neighbours: Neighbours, rho: Fraction) -> float:
    return math.sqrt(gaussian_variance(rho, neighbours.marginal_l2_squared))


def _first_share(domain: Domain, rho: float, rows: float) -> Fraction:
    """f_1: the share of the 1-way marginals."""
    attributes = len(domain)
    noise = math.sqrt(2 / math.pi) * domain.width / attributes * math.sqrt(attributes / (2 * rho)) / rows
    return Fraction(min(0.8, max(0.1, 1.2 * math.sqrt(noise)))).limit_denominator(1000)


def _order_shares(orders: Sequence[int], first: Fraction) -> dict[int, Fraction]:
    """The share of each order present; they add up to 1.

    >>> {k: str(v) for k, v in _order_shares([1, 2, 3], Fraction(1, 10)).items()}
    {1: '1/10', 2: '3/5', 3: '3/10'}
    """
    if list(orders) == [1]:
        return {1: Fraction(1)}
    larger = [order for order in orders if order > 1]
    rest = 1 - first
    if len(larger) == 1:
        return {1: first, larger[0]: rest}
    others = {order: rest / 3 / (len(larger) - 1) for order in larger[1:]}
    return {1: first, larger[0]: rest * 2 / 3, **others}
