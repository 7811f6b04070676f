"""How many cells columns get: as many as let a plan predict that most pairs of columns will be reliable.

    r(m) = pairs whose predicted L1 error is at most `RELIABLE`, with about m cells for each column of numbers or dates
    m    = the largest of `MOST_CELLS` with r(m) ≥ half of the pairs; without one, the smallest

Where a plan predicts less than half, 4 cells gave rank correlations that were nearer than those of 24 cells, and means
of groups that were as near (`docs/how-to/own-table.md`).

The number of pairs and a plan depend on the declarations and on how many rows there are, and on nothing else of the
rows. What a plan predicts: `dpsql.strategy.foretold`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import comb
from typing import Final, Protocol

from dpsql.api.database import Database
from dpsql.api.proposing.context import Context
from dpsql.api.proposing.proposal import MOST_CELLS, Proposal
from dpsql.errors import DpsqlError
from dpsql.strategy.reliability import RELIABLE

MOST_EPSILON: Final = 1.0
"""Of the release that is predicted, where the budget has as much."""


@dataclass(frozen=True)
class Forecast:
    """What a plan predicts of a release.

    Attributes:
        epsilon: of the release.
        pairs: of columns that vary.
        reliable: how many of those would be, by about how many cells a column of numbers has: those that were tried.
        cells: that were chosen.
        rows: about how many there are.
    """

    epsilon: float
    pairs: int
    reliable: dict[int, int]
    cells: int
    rows: int

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
    planner = Planner(db, context, tuple(proposals), rows or 0)
    first = planner.reliable(0) if rows and planner.pairs else None
    if first is None:
        return planner.proposals, None
    counts = {0: first}
    if any(proposal.coarser for proposal in proposals):
        search(planner, counts)
    level = next((at for at in sorted(counts) if 2 * counts[at] >= planner.pairs), max(counts))
    planner.declare(level)
    preferred = _with_seasons(planner, level)
    if preferred:
        counts[level] = planner.reliable_of() or 0
    cells = {MOST_CELLS[at]: counts[at] for at in sorted(counts)}
    forecast = Forecast(planner.epsilon, planner.pairs, cells, MOST_CELLS[level], planner.rows)
    found = (
        _with_finer(context, preferred.get(proposal.column, proposal), level, forecast)
        for proposal in planner.proposals
    )
    return tuple(found), forecast


class Leveled(Protocol):
    """What tries levels of cells."""

    pairs: int

    def reliable(self, level: int) -> int | None:
        """How many pairs would be reliable with the cells of a level; None if no plan says."""


def search(planner: Leveled, counts: dict[int, int]) -> None:
    """Find how many pairs would be reliable at the finest level where half of them are, if any, by bisection."""
    fine, coarse = 0, len(MOST_CELLS) - 1
    if 2 * counts[fine] >= planner.pairs:
        return
    counts[coarse] = planner.reliable(coarse) or 0
    while 2 * counts[coarse] >= planner.pairs and coarse - fine > 1:
        middle = (fine + coarse) // 2
        counts[middle] = planner.reliable(middle) or 0
        fine, coarse = (fine, middle) if 2 * counts[middle] >= planner.pairs else (middle, coarse)


def _with_seasons(planner: Planner, level: int) -> dict[str, Proposal]:
    """Dates by month or quarter, where half of their pairs would be reliable: seasons are what people ask of dates."""
    found: dict[str, Proposal] = {}
    for proposal in planner.proposals:
        chosen = proposal.at(level)
        for finer in proposal.finer:
            if finer.how == chosen.how or not planner.takes(finer):
                break
            counts = planner.reliable_of(proposal.column)
            if counts is not None and 2 * counts >= len(planner.varying) - 1:
                found[proposal.column] = finer
                break
        if proposal.column not in found:
            planner.takes(chosen)
    return found


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
        self.epsilon = min(MOST_EPSILON, context.epsilon)
        kept = [p for p in proposals if not p.is_excluded and not p.price and p.column != context.unit]
        self._kept = [proposal.column for proposal in kept]
        self.varying = {p.column for p in kept if len((p.how or {}).get("values", ("", ""))) > 1}
        self.pairs = comb(len(self.varying), 2)

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

    def reliable(self, level: int) -> int | None:
        """How many pairs would be reliable with the cells of a level; None if no plan says."""
        if level:
            self.declare(level)
        return self.reliable_of()

    def takes(self, proposal: Proposal) -> bool:
        """Whether a proposal is declared, or refused."""
        try:
            self.db.sql(self.context.call(proposal.column, proposal.how or {}))
        except DpsqlError:
            return False
        return True

    def reliable_of(self, column: str | None = None) -> int | None:
        """How many pairs would be reliable as columns are declared now, or of a column only; None if no plan says."""
        try:
            plan = self.db.plan(self.context.table, self.epsilon, assume_rows=self.rows, columns=self._kept)
        except DpsqlError:
            return None
        pairs = plan[[len(clique) == 2 and self.varying.issuperset(clique) for clique in plan["marginal"]]]
        if (pairs["predicted_l1"].isna() & pairs["stddev"].notna()).any():
            return None  # the mechanism predicts nothing of what it measures
        of = pairs if column is None else pairs[[column in clique for clique in pairs["marginal"]]]
        return int((of["predicted_l1"] <= RELIABLE).sum())


class TreePlanner:
    """Plans of a linked release with more and fewer cells; its pairs are those of a unit's row.

    Attributes:
        planners: of the tables, the root first.
        pairs: how many a plan has; 0 where none can be made.
    """

    def __init__(self, planners: Sequence[Planner], rows: int, *, linked: bool) -> None:
        self.planners, self.rows, self._linked = planners, rows, linked
        self.pairs = 0
        self.first = self.reliable(0)

    def reliable(self, level: int) -> int | None:
        """How many pairs would be reliable with the cells of a level; None if no plan says."""
        for planner in self.planners:
            planner.declare(level)
        top = self.planners[0]
        try:
            plan = top.db.plan(top.context.table, top.epsilon, assume_rows=self.rows, linked=self._linked)
        except DpsqlError:
            return None
        pairs = plan[(plan["marginal"].map(len) == 2) & plan["predicted_l1"].notna()]
        self.pairs = len(pairs)
        return int((pairs["predicted_l1"] <= RELIABLE).sum())


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
    planners = [Planner(db, context, proposals, rows or 0) for context, proposals in tables]
    tree = TreePlanner(planners, rows, linked=linked) if rows else None
    if tree is None or tree.first is None or not tree.pairs:
        return [planner.proposals for planner in planners], None
    counts = {0: tree.first}
    if any(proposal.coarser for planner in planners for proposal in planner.proposals):
        search(tree, counts)
    level = next((at for at in sorted(counts) if 2 * counts[at] >= tree.pairs), max(counts))
    counts[level] = tree.reliable(level) or 0
    cells = {MOST_CELLS[at]: counts[at] for at in sorted(counts)}
    forecast = Forecast(planners[0].epsilon, tree.pairs, cells, MOST_CELLS[level], tree.rows)
    return [tuple(p.at(level) for p in planner.proposals) for planner in planners], forecast
