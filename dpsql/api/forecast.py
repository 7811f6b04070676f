"""What a plan predicts of a synthetic table before it is charged: a sentence, and what would help."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from dpsql.books.ledger.store import Books
from dpsql.books.releases.releases import published
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.release.remedies import ASSUMED_ROWS, SIZES, Scenario, assumed_rows, forecast_words, remedies, scenario_of
from dpsql.release.synthesis import Resolved
from dpsql.runtime.notebook_bar import ipython_shell


@dataclass(frozen=True)
class Forecast:
    """What a plan predicts of a release; it reads no private row.

    Attributes:
        scenario: the request as the plan sees it.
        is_assumed: nobody says how many rows there are, and no release tells it.
        is_paid: the release was charged before: making it again is free.
    """

    scenario: Scenario
    is_assumed: bool
    is_paid: bool

    def __str__(self) -> str:
        """The prediction in a sentence; empty where nothing is predicted."""
        words = forecast_words(self.scenario, SIZES if self.is_assumed else ())
        return f"{words} assume_rows says how many there are." if words and self.is_assumed else words

    @property
    def pairs(self) -> int:
        """How many pairs of columns there are that vary."""
        return self.scenario.pairs

    @property
    def reliable(self) -> int | None:
        """How many of the pairs will be reliable; None where the mechanism predicts nothing."""
        return self.scenario.reliable

    @property
    def is_hopeless(self) -> bool:
        """Whether a release is to be charged of which no pair of columns will be reliable."""
        return not self.is_paid and self.pairs > 0 and self.reliable == 0

    @property
    def advice(self) -> list[str]:
        """What would make more pairs reliable, a sentence each; each was planned."""
        return remedies(self.scenario)


def forecast_of(cursor: Cursor, resolved: Resolved, assume_rows: int | None) -> Forecast:
    """The forecast of a request.

    Args:
        cursor: a connection of its own.
        resolved: the request, planned.
        assume_rows: about how many rows there are; by default as the newest release tells it.

    Raises:
        InvalidArgument: assume_rows is below 0.
    """
    rows = assumed_rows(assume_rows) if assume_rows else _released_rows(cursor, resolved)
    return Forecast(scenario_of(resolved, float(rows or ASSUMED_ROWS)), rows is None, resolved.entry is not None)


def _released_rows(cursor: Cursor, resolved: Resolved) -> int | None:
    """About how many rows, or units, a release would count, by the noisy total of the newest one that counted these."""
    for entry in reversed(published(Books(cursor, resolved.source.catalog), resolved.source.key)):
        total = entry.report.get("total")
        if total and entry.neighbours == resolved.account.neighbours:
            return max(1, round(float(total)))
    return None


def is_conversation() -> bool:
    """Whether a person types to Python, so that a sentence that nobody asked for is read and spoils no output."""
    return hasattr(sys, "ps1") or ipython_shell() is not None
