"""How many cells columns get: as many as let a plan predict that most pairs of columns will be reliable.

    r(m) = pairs whose predicted L1 error is at most `RELIABLE`, with about m cells for each column of numbers or dates
    m    = the largest of `MOST_CELLS` with r(m) ≥ half of the pairs; without one, the smallest

Where a plan predicts less than half, 4 cells gave rank correlations that were nearer than those of 24 cells, and means
of groups that were as near (`docs/how-to/own-table.md`).

What is counted is what the plan of the release counts (`dpsql.release.remedies.Scenario`): columns that vary and are
measured, so none that is computed from others. It depends on the declarations and on about how many rows there are, and
on nothing else of the rows. What a plan predicts: `dpsql.strategy.predicted_error`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from dpsql.api.database import Database
from dpsql.api.proposing.context import Context
from dpsql.api.proposing.proposal import MOST_CELLS, Proposal
from dpsql.errors import DpsqlError
from dpsql.release.remedies import Scenario

_HALF: Final = 0.5


@dataclass(frozen=True)
class Forecast:
    """What a plan predicts of a release.

    Attributes:
        epsilon: of the release.
        pairs: of columns that vary.
        reliable: how many of those would be, by about how many cells a column of numbers has: those that were tried.
        cells: that were chosen.
        rows: about how many there are, by which `dpsql synthesize` predicts the same; units of a linked release.
        linked: whether the release keeps several rows of a unit together.
    """

    epsilon: float
    pairs: int
    reliable: dict[int, int]
    cells: int
    rows: int
    linked: bool = False

    def __str__(self) -> str:
        """It in a sentence."""
        are = f"{self.reliable[self.cells]} of {self.pairs} pairs of columns"
        return f"At ε = {self.epsilon:g} about {are} will be reliable"

    @property
    def others(self) -> str:
        """What other numbers of cells would lead to, in a sentence; empty where none was tried."""
        tried = [
            f"{cells} cells would make it {count}" for cells, count in self.reliable.items() if cells != self.cells
        ]
        return f"{', '.join(tried)}." if tried else ""


def with_forecast(
    db: Database, context: Context, proposals: Sequence[Proposal], rows: int | None
) -> tuple[tuple[Proposal, ...], Forecast | None]:
    """The proposals with as many cells as suit, and what is predicted then; None where nothing can be.

    Args:
        db: with an empty table that is protected and in which the proposals are declared.
        context: of the proposals.
        proposals: for the table's columns, each with coarser ones.
        rows: about how many the table will have; None if nobody says.
    """
    planner = Planner(db, context, tuple(proposals), _about(rows))
    first = planner.scenario() if rows else None
    if first is None or first.reliable is None or not first.pairs:
        return planner.proposals, None
    scenarios = _search(planner, first, has_coarser=any(proposal.coarser for proposal in proposals))
    level = _finest(scenarios)
    planner.declare(level)
    preferred = _with_seasons(planner, level)
    if preferred:
        scenarios[level] = planner.scenario() or scenarios[level]
    cells = {MOST_CELLS[at]: scenarios[at].reliable or 0 for at in sorted(scenarios)}
    forecast = Forecast(
        planner.epsilon, scenarios[level].pairs, cells, MOST_CELLS[level], planner.rows, linked=planner.linked
    )
    made = (
        _with_finer(context, preferred.get(proposal.column, proposal), level, forecast)
        for proposal in planner.proposals
    )
    return tuple(made), forecast


def _about(rows: int | None) -> int:
    """As many as the command names that makes the release."""
    return int(float(f"{rows or 0:.2g}"))


class Leveled(Protocol):
    """What can be planned with more and fewer cells."""

    def declare(self, level: int) -> None:
        """Declare all columns with about `MOST_CELLS[level]` cells."""

    def scenario(self) -> Scenario | None:
        """The release as its plan sees it, as columns are declared now; None if it is refused."""


def _search(planner: Leveled, first: Scenario, *, has_coarser: bool) -> dict[int, Scenario]:
    """What is predicted by level: of the finest, and of those that a bisection tries for half of reliable pairs."""
    scenarios = {0: first}
    fine, coarse = 0, len(MOST_CELLS) - 1
    level = coarse if has_coarser else fine
    while scenarios[fine].share < _HALF and level != fine:
        planner.declare(level)
        scenario = planner.scenario()
        if scenario is None:
            break
        scenarios[level] = scenario
        fine, coarse = (fine, level) if scenario.share >= _HALF else (level, coarse)
        level = (fine + coarse) // 2
    return scenarios


def _finest(scenarios: Mapping[int, Scenario]) -> int:
    """The finest level where half of the pairs would be reliable; without one, the coarsest."""
    return next((at for at in sorted(scenarios) if scenarios[at].share >= _HALF), max(scenarios))


def _with_seasons(planner: Planner, level: int) -> dict[str, Proposal]:
    """Dates by month or quarter, where half of their pairs would be reliable: seasons are what people ask of dates."""
    by_season: dict[str, Proposal] = {}
    for proposal in planner.proposals:
        chosen = proposal.at(level)
        for finer in proposal.finer:
            if finer.how == chosen.how or not planner.takes(finer):
                break
            scenario = planner.scenario()
            if scenario is not None and scenario.share_of(proposal.column) >= _HALF:
                by_season[proposal.column] = finer
                break
        if proposal.column not in by_season:
            planner.takes(chosen)
    return by_season


def _with_finer(context: Context, proposal: Proposal, level: int, forecast: Forecast) -> Proposal:
    """The proposal of a level, with finer cells as an option, and what they would cost if all columns had them."""
    chosen = proposal.at(level)
    finer = [(at, proposal.at(at)) for at in range(level) if MOST_CELLS[at] in forecast.reliable]
    others = [(at, other) for at, other in finer if other.how is not None and other.how != chosen.how]
    if not others:
        return chosen
    at, other = others[-1]
    count = forecast.reliable[MOST_CELLS[at]]
    cost = f"  -- with cells as fine in all columns about {count} of {forecast.pairs} pairs will be reliable"
    return replace(chosen, options=(*chosen.options, context.call(proposal.column, other.how or {}) + cost))


class Planner:
    """Plans of one table with more and fewer cells."""

    def __init__(self, db: Database, context: Context, proposals: tuple[Proposal, ...], rows: int) -> None:
        self.db, self.context, self.proposals, self.rows = db, context, proposals, rows
        self.epsilon = context.release_epsilon
        priced = any(proposal.price for proposal in proposals)
        columns = [p.column for p in proposals if not p.is_excluded and not p.price and p.column != context.unit]
        self._columns = columns if priced else None  # what is discovered when the script runs is not declared yet
        self.linked = bool(context.unit) and not priced

    def declare(self, level: int) -> None:
        """Declare all proposals with about `MOST_CELLS[level]` cells."""
        self.proposals = tuple(self._declared(proposal, level) for proposal in self.proposals)

    def _declared(self, proposal: Proposal, level: int) -> Proposal:
        """The proposal, declared so; without coarser ones where they are refused."""
        how = proposal.at(level).how
        if proposal.coarser and how is not None:
            try:
                self.db.sql(self.context.call(proposal.column, how))
            except DpsqlError:
                return replace(proposal, coarser=())
        return proposal

    def takes(self, proposal: Proposal) -> bool:
        """Whether a proposal is declared, or refused."""
        try:
            self.db.sql(self.context.call(proposal.column, proposal.how or {}))
        except DpsqlError:
            return False
        return True

    def scenario(self) -> Scenario | None:
        """The release as its plan sees it, as columns are declared now; None if it is refused."""
        table, epsilon, rows = self.context.table, self.epsilon, self.rows
        try:
            planned = self.db.forecast(table, epsilon, assume_rows=rows, columns=self._columns, linked=self.linked)
            return planned.scenario
        except DpsqlError:
            return None


class TreePlanner:
    """Plans of a linked release with more and fewer cells; its pairs are those of a unit's row.

    Attributes:
        planners: of the tables, the root first.
    """

    def __init__(self, planners: Sequence[Planner], *, linked: bool) -> None:
        self.planners, self._linked = planners, linked

    def declare(self, level: int) -> None:
        """Declare the columns of all tables with about `MOST_CELLS[level]` cells."""
        for planner in self.planners:
            planner.declare(level)

    def scenario(self) -> Scenario | None:
        """The release as its plan sees it, as columns are declared now; None if it is refused."""
        top, linked = self.planners[0], self._linked
        try:
            return top.db.forecast(top.context.table, top.epsilon, assume_rows=top.rows, linked=linked).scenario
        except DpsqlError:
            return None


def with_tree_forecast(
    tables: Sequence[tuple[Context, tuple[Proposal, ...]]], db: Database, rows: int | None, *, linked: bool
) -> tuple[list[tuple[Proposal, ...]], Forecast | None]:
    """The proposals of all tables with as many cells as suit one linked release, and what is predicted of it.

    Args:
        tables: their contexts and proposals, the root first; they are declared in `db`.
        db: with empty tables that are protected and linked.
        rows: about how many units there are; None if nobody says.
        linked: whether there are tables below the root.
    """
    planners = [Planner(db, context, proposals, _about(rows)) for context, proposals in tables]
    tree = TreePlanner(planners, linked=linked)
    tree.declare(0)
    first = tree.scenario() if rows else None
    if first is None or first.reliable is None or not first.pairs:
        return [planner.proposals for planner in planners], None
    has_coarser = any(proposal.coarser for planner in planners for proposal in planner.proposals)
    forecasts = _search(tree, first, has_coarser=has_coarser)
    level = _finest(forecasts)
    tree.declare(level)
    cells = {MOST_CELLS[at]: forecasts[at].reliable or 0 for at in sorted(forecasts)}
    top = planners[0]
    forecast = Forecast(top.epsilon, forecasts[level].pairs, cells, MOST_CELLS[level], top.rows, linked=linked)
    return [tuple(p.at(level) for p in planner.proposals) for planner in planners], forecast
