"""How many pairs a plan predicts to be reliable, and what would make it more: a remedy is planned before it is named.

    forecast   of a request: its pairs whose predicted L1 error is at most `RELIABLE`, of all pairs of columns that vary
    remedies   the same request with one thing changed: the workload of pairs alone, coarser bins, half of the columns,
               a larger ε. One is named where its plan makes at least a tenth more of the pairs reliable

A plan depends on public facts and on about how many rows there are, so none of this reads a row. What a plan predicts
is in `dpsql.strategy.foretold`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from dpsql.core.domain import Attribute, Domain
from dpsql.core.neighbours import Neighbours
from dpsql.core.workload import Workload
from dpsql.errors import DpsqlError
from dpsql.mechanisms.base import Mechanism, PlannedMeasurement
from dpsql.privacy.pricing import declared, price
from dpsql.release.plan import Plan
from dpsql.strategy.reliability import RELIABLE

ASSUMED_ROWS: Final = 10_000
"""Of a table of which nobody says how many it has."""
_BETTER: Final = 0.1
_TIMES: Final = (1.5, 2.0, 3.0, 5.0, 10.0)
_COARSE: Final = 4
_NAMED: Final = 3
_FEWEST: Final = 4
"""Columns of which half are still a table."""


@dataclass(frozen=True)
class Scenario:
    """A request as a plan sees it.

    Attributes:
        mechanism: with its options.
        domain, workload: of the columns asked for.
        neighbours: of the guarantee.
        epsilon, delta: that it costs.
        rows: about how many there are.
    """

    mechanism: Mechanism
    domain: Domain
    workload: Workload
    neighbours: Neighbours
    epsilon: float
    delta: float
    rows: float

    @cached_property
    def varying(self) -> frozenset[str]:
        """The columns that may have more than one value."""
        return frozenset(one.name for one in self.domain if one.regular + (one.other is not None) > 1)

    @property
    def pairs(self) -> int:
        """How many pairs of those there are."""
        return math.comb(len(self.varying), 2)

    @cached_property
    def reliable(self) -> int | None:
        """How many of the pairs will be reliable; None where the plan does not say."""
        try:
            questions = declared(self.mechanism.questions(self.domain, self.workload, self.neighbours))
            rho = price(questions, self.epsilon, self.delta).rho
            planned = self.mechanism.plan(self.domain, self.workload, self.neighbours, rho, max(1.0, self.rows))
        except DpsqlError:
            return None
        pairs = [one for one in planned if isinstance(one, PlannedMeasurement) and self._is_pair(one)]
        if any(one.predicted is None and one.stddev is not None for one in pairs):
            return None  # the mechanism predicts nothing of what it measures
        errors = {one.clique: one.predicted for one in pairs if one.predicted is not None}
        return sum(error <= RELIABLE for error in errors.values()) if errors else None

    def _is_pair(self, measurement: PlannedMeasurement) -> bool:
        clique = measurement.clique
        return measurement.open is None and len(clique) == 2 and self.varying.issuperset(clique)

    @property
    def share(self) -> float:
        """The part of the pairs that will be reliable; 1 where there is none, or no plan says."""
        reliable = self.reliable
        return 1.0 if reliable is None or not self.pairs else reliable / self.pairs


def scenario_of(plan: Plan, rows: float) -> Scenario:
    """The scenario of a plan of a synthetic table."""
    epsilon, delta, neighbours = plan.request.epsilon, plan.budget.delta, plan.account.neighbours
    return Scenario(plan.mechanism, plan.domain, plan.workload, neighbours, epsilon, delta, rows)


def forecast_words(scenario: Scenario) -> str:
    """What is predicted, in a sentence; empty where nothing is."""
    if scenario.reliable is None or not scenario.pairs:
        return ""
    number = "none" if not scenario.reliable else f"about {scenario.reliable:,}"
    of = f"{number} of {scenario.pairs:,} pairs of columns" if scenario.pairs > 1 else f"{number} of 1 pair of columns"
    return f"At ε = {scenario.epsilon:g} {of} will be reliable, by the plan for about {scenario.rows:,.0f} rows."


def remedies(scenario: Scenario) -> list[str]:
    """What would make more pairs reliable, a sentence each, the most helpful first; empty where nothing was found."""
    if scenario.reliable is None or scenario.share > 1 - _BETTER:
        return []
    better = scenario.share + _BETTER
    found = [(other, words) for other, words in _cheap(scenario) if other.reliable is not None]
    named = [(other.share, f"{words}: {_counted(other)}.") for other, words in found if other.share >= better]
    enough = max(better, min(0.5, 2 * better))
    dearer = next((other for other in _dearer(scenario) if other.reliable is not None and other.share >= enough), None)
    if dearer is not None:
        named.append((dearer.share, f"Ask for epsilon := {dearer.epsilon:g}: {_counted(dearer)}."))
    return [words for _, words in sorted(named, key=lambda one: -one[0])]


def _counted(scenario: Scenario) -> str:
    number = f"about {scenario.reliable or 0:,} of {scenario.pairs:,}"
    if scenario.reliable == scenario.pairs:
        number = f"all {scenario.pairs:,}"
    return f"by the plan {number} pairs would then be reliable"


def _cheap(scenario: Scenario) -> Iterator[tuple[Scenario, str]]:
    """Scenarios at the same price, and what is changed."""
    if max((len(clique) for clique in scenario.workload.cliques), default=0) > 2:
        yield replace(scenario, workload=_pairs(scenario.domain.names)), "Say workload := 'all 2-way'"
    coarser = tuple(map(_coarser, scenario.domain))
    changed = [new.name for new, old in zip(coarser, scenario.domain, strict=True) if new is not old]
    if changed:
        domain = replace(scenario.domain, attributes=coarser)
        words = f"Declare about {_COARSE} bins a column of {_listed(changed)}"
        yield replace(scenario, domain=domain), words
    names = scenario.domain.names
    kept = sorted(names, key=lambda name: scenario.domain.by_name[name].size)[: len(names) // 2]
    if len(kept) >= _FEWEST:
        domain = replace(scenario.domain, attributes=tuple(one for one in scenario.domain if one.name in kept))
        order = max((len(clique) for clique in scenario.workload.cliques), default=2)
        workload = Workload(tuple(itertools.combinations(domain.names, min(order, len(kept)))))
        words = f"Ask for half of the columns, such as the {len(kept)} with the fewest values (columns := …)"
        yield replace(scenario, domain=domain, workload=workload), words


def _dearer(scenario: Scenario) -> Iterator[Scenario]:
    for times in _TIMES:
        yield replace(scenario, epsilon=float(f"{scenario.epsilon * times:.2g}"))


def _pairs(names: Sequence[str]) -> Workload:
    return Workload(tuple(itertools.combinations(names, 2)))


def _coarser(attribute: Attribute) -> Attribute:
    """A column of bins with few of them, cut where cells are now; points stay. The same where it is coarse already."""
    number = attribute.regular
    if attribute.kind != "bins" or number <= 2 * _COARSE:
        return attribute
    kept = {round(place) for place in np.linspace(0, number, _COARSE + 1)}
    for code in attribute.point_codes:
        kept |= {code, code + 1}
    places = sorted(kept)
    ticks = tuple(attribute.ticks[place] for place in places)
    return replace(attribute, ticks=ticks, edges=tuple(attribute.edges[place] for place in places))


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
