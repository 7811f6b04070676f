"""How many pairs a plan predicts to be reliable, and what would make it more: a remedy is planned before it is named.

    forecast   of a request: its pairs whose predicted L1 error is at most `RELIABLE`, of all pairs of columns that vary
    remedies   the same request with one thing changed: the workload of pairs alone, coarser bins, half of the columns,
               a larger ε that the budget has left. It is named where the plan makes a tenth more of the pairs reliable,
               and more of them. Of linked tables the workload and the columns are given

A plan depends on public facts and on about how many rows there are, so none of this reads a row. What a plan predicts
is in `dpsql.strategy.predicted_error`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from dpsql.core.domain import Attribute, Clique, Domain
from dpsql.core.names import fold
from dpsql.core.neighbours import Neighbours
from dpsql.core.unit_row import UnitRow
from dpsql.core.unit_words import column_of_table
from dpsql.core.workload import Workload
from dpsql.errors import DpsqlError, InvalidArgument
from dpsql.mechanisms.base import Mechanism, PlannedMeasurement
from dpsql.privacy.pricing import declared, price
from dpsql.release.plan import Plan
from dpsql.strategy.reliability import RELIABLE

ASSUMED_ROWS: Final = 10_000
"""Of a table of which nobody says how many it has."""
SIZES: Final = (1_000, 10_000, 100_000)
"""Of such tables, of which a forecast is made."""
_BETTER: Final = 0.1
_TIMES: Final = (1.5, 2.0, 3.0, 5.0, 10.0)
_COARSE: Final = 4
_NAMED: Final = 3
_FEWEST: Final = 4
"""Columns of which half are still a table."""


def assumed_rows(rows: int) -> int:
    """As many rows as a plan assumes, at least one.

    Raises:
        InvalidArgument: they are fewer than none.

    >>> assumed_rows(0)
    1
    """
    if rows < 0:
        raise InvalidArgument(
            f"assume_rows is {rows}: give about how many rows the table has, such as {ASSUMED_ROWS}, or leave it out"
        )
    return max(1, rows)


@dataclass(frozen=True)
class Scenario:
    """A request as a plan sees it.

    Attributes:
        mechanism: with its options.
        domain, workload: of the columns asked for.
        neighbours: of the guarantee.
        epsilon, delta: that it costs.
        rows: about how many there are.
        unit_row: of a linked release, whose workload and columns are those of all its tables.
        left: what one more release may ask for (ε).
    """

    mechanism: Mechanism
    domain: Domain
    workload: Workload
    neighbours: Neighbours
    epsilon: float
    delta: float
    rows: float
    unit_row: UnitRow | None = None
    left: float = math.inf

    @cached_property
    def varying(self) -> frozenset[str]:
        """The columns that may have more than one value."""
        return frozenset(
            attribute.name for attribute in self.domain if attribute.regular + (attribute.other is not None) > 1
        )

    @cached_property
    def pairs(self) -> int:
        """How many pairs of those there are; of linked tables those that are measured, for others follow from them."""
        return math.comb(len(self.varying), 2) if self.unit_row is None else len(self._measured)

    @cached_property
    def _measured(self) -> list[Clique]:
        return [clique for clique in self.workload.cliques if len(clique) == 2 and self.varying.issuperset(clique)]

    @cached_property
    def errors(self) -> dict[tuple[str, ...], float] | None:
        """The L1 errors that are predicted of pairs; none of those that noise drowns.

        None where the plan does not say, or single columns are asked for.
        """
        if max((len(clique) for clique in self.workload.needed), default=0) < 2:
            return None
        try:
            questions = declared(self.mechanism.questions(self.domain, self.workload, self.neighbours))
            rho = price(questions, self.epsilon, self.delta).rho
            planned = self.mechanism.plan(self.domain, self.workload, self.neighbours, rho, max(1.0, self.rows))
        except DpsqlError:
            return None
        planned_questions = [question for question in planned if isinstance(question, PlannedMeasurement)]
        if not any(question.predicted is not None for question in planned_questions):
            return None  # the mechanism predicts nothing
        return {
            question.clique: question.predicted
            for question in planned_questions
            if question.predicted is not None and self._is_pair(question)
        }

    @property
    def reliable(self) -> int | None:
        """How many of the pairs will be reliable; None where the plan does not say, or single columns are asked for."""
        return None if self.errors is None else sum(error <= RELIABLE for error in self.errors.values())

    def share_of(self, column: str) -> float:
        """The part of a column's pairs that will be reliable; 0 where it has none, or no plan says."""
        errors = [error for clique, error in (self.errors or {}).items() if column in clique]
        others = len(self.varying - {column})
        if self.unit_row is not None:
            others = sum(column in clique for clique in self._measured)
        return sum(error <= RELIABLE for error in errors) / others if column in self.varying and others else 0.0

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
    unit_row, left = None if plan.linked is None else plan.linked.unit_row, plan.account.epsilon_left
    return Scenario(plan.mechanism, plan.domain, plan.workload, neighbours, epsilon, delta, rows, unit_row, left)


def forecast_words(scenario: Scenario, rows: Sequence[int] = ()) -> str:
    """What is predicted, in a sentence; empty where nothing is.

    Args:
        scenario: the request.
        rows: of tables of which it is said, where nobody knows how many rows there are.
    """
    if scenario.reliable is None or not scenario.pairs:
        return ""
    begin = f"At ε = {scenario.epsilon:g} the plan predicts that"
    of = f"{scenario.pairs:,} pairs of columns"
    if scenario.pairs == 1:
        will = "will" if scenario.reliable else "will not"
        return f"{begin} the only pair of columns {will} be reliable, with about {scenario.rows:,.0f} rows."
    if not rows:
        return f"{begin} {_counted(scenario)} of columns will be reliable, with about {scenario.rows:,.0f} rows."
    counts = [f"{_number(replace(scenario, rows=float(number)))} with {number:,} rows" for number in rows]
    return f"{begin} of {of} will be reliable: {', '.join(counts)}."


def _number(scenario: Scenario) -> str:
    reliable = scenario.reliable or 0
    return "none" if not reliable else "all" if reliable == scenario.pairs else f"about {reliable:,}"


def _counted(scenario: Scenario) -> str:
    """How many of the pairs will be reliable, in words."""
    number = _number(scenario)
    return f"{number} {'' if number == 'all' else 'of '}{scenario.pairs:,} pairs"


@dataclass(frozen=True)
class Remedy:
    """Something that would make more pairs reliable.

    Attributes:
        words: what to do.
        scenario: the request then.
    """

    words: str
    scenario: Scenario

    def __str__(self) -> str:
        return f"{self.words}: by the plan {_counted(self.scenario)} would then be reliable."

    def helps(self, share: float, most: int) -> bool:
        """Whether at least that part of the pairs would be reliable, and more than so many."""
        reliable = self.scenario.reliable
        return reliable is not None and reliable > most and self.scenario.share >= share

    def and_then(self, change: Change) -> Remedy | None:
        """With another change, too; None where there is nothing to change."""
        more = change(self.scenario)
        if more is None or not self.words:
            return more
        return Remedy(f"{self.words}, and {more.words[0].lower()}{more.words[1:]}", more.scenario)


Change = Callable[[Scenario], Remedy | None]


def remedies(scenario: Scenario) -> list[str]:
    """What would make more pairs reliable, a sentence each, the most helpful first; empty where nothing was found."""
    if scenario.reliable is None or scenario.share > 1 - _BETTER:
        return []
    better, most = scenario.share + _BETTER, scenario.reliable
    tried = [change(scenario) for change in (*_CHEAP, _more(better))]
    named = [remedy for remedy in tried if remedy is not None and remedy.helps(better, most)]
    named = named or _together(scenario, better, most)
    return [str(remedy) for remedy in sorted(named, key=lambda candidate: -candidate.scenario.share)]


def _together(scenario: Scenario, better: float, most: int) -> list[Remedy]:
    """As few of the changes together as help, where none does alone; with a larger ε where that is not enough."""
    whole = Remedy("", scenario)
    for change in _CHEAP:
        whole = whole.and_then(change) or whole
        for remedy in (whole, whole.and_then(_more(better))):
            if remedy is not None and remedy.helps(better, most):
                return [remedy]
    return []


def _pairs_alone(scenario: Scenario) -> Remedy | None:
    if max((len(clique) for clique in scenario.workload.cliques), default=0) < 3:
        return None
    workload = Workload(tuple(itertools.combinations(scenario.domain.names, 2)))
    return Remedy("Say workload := 'all 2-way'", replace(scenario, workload=workload))


def _coarse_bins(scenario: Scenario) -> Remedy | None:
    declared = _declared_bins(scenario)
    coarser = tuple(_coarser(attribute) if attribute.name in declared else attribute for attribute in scenario.domain)
    changed = [declared[new.name] for new, old in zip(coarser, scenario.domain, strict=True) if new is not old]
    if not changed:
        return None
    words = f"Declare about {_COARSE} bins a column of {_listed(list(dict.fromkeys(changed)))}"
    return Remedy(words, replace(scenario, domain=replace(scenario.domain, attributes=coarser)))


def _declared_bins(scenario: Scenario) -> dict[str, str]:
    """The columns of bins that their owner can declare anew, and what they are called.

    Of linked tables not the numbers of rows, which a link declares, nor what a role's predicate reads, whose bins must
    end where it changes.
    """
    row = scenario.unit_row
    if row is None:
        return {name: name for name in scenario.domain.names}
    read = {link.child: fold(" ".join(role.where for role in link.roles)) for link in row.tree.links}
    return {
        name: column_of_table(column, table)
        for name, (table, column) in row.column_of.items()
        if fold(column) not in read.get(table, "")
    }


def _half_of_columns(scenario: Scenario) -> Remedy | None:
    if scenario.unit_row is not None:
        return None  # a linked release has all columns of its tables
    names = scenario.domain.names
    fewest = sorted(names, key=lambda name: scenario.domain.by_name[name].size)[: len(names) // 2]
    if len(fewest) < _FEWEST:
        return None
    domain = replace(
        scenario.domain, attributes=tuple(attribute for attribute in scenario.domain if attribute.name in fewest)
    )
    order = max((len(clique) for clique in scenario.workload.cliques), default=2)
    workload = Workload(tuple(itertools.combinations(domain.names, min(order, len(fewest)))))
    words = f"Ask for half of the columns, such as the {len(fewest)} with the fewest values (columns := …)"
    return Remedy(words, replace(scenario, domain=domain, workload=workload))


_CHEAP: Final[tuple[Change, ...]] = (_pairs_alone, _coarse_bins, _half_of_columns)


def _more(better: float) -> Change:
    """The least ε that was tried of which so many pairs are reliable, or half of them if that is more."""

    def change(scenario: Scenario) -> Remedy | None:
        for times in _TIMES:
            epsilon = float(f"{scenario.epsilon * times:.2g}")
            if epsilon > scenario.left:
                break
            remedy = Remedy(f"Ask for epsilon := {epsilon:g}", replace(scenario, epsilon=epsilon))
            if remedy.helps(max(better, 0.5), 0):
                return remedy
        return None

    return change


def _coarser(attribute: Attribute) -> Attribute:
    """A column of bins with few of them, cut where cells are now; points stay. The same where it is coarse already."""
    number = attribute.regular
    if attribute.kind != "bins" or number <= 2 * _COARSE:
        return attribute
    cuts = {round(place) for place in np.linspace(0, number, _COARSE + 1)}
    for code in attribute.point_codes:
        cuts |= {code, code + 1}
    places = sorted(cuts)
    ticks = tuple(attribute.ticks[place] for place in places)
    return replace(attribute, ticks=ticks, edges=tuple(attribute.edges[place] for place in places))


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
