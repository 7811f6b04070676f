"""What was asked and answered: kept durably before it is used, and returned again to a run that is interrupted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from dpsql.core.marginal import Measurement
from dpsql.core.threshold import Family, Threshold, clique_of

Query = tuple[Family, int]
"""One cell of a clique's marginal, or of a family of thresholds, by its row-major index."""


@dataclass(frozen=True)
class Answer:
    """One entry of the journal.

    Attributes:
        question: what was asked, as JSON; tells whether a later run asks the same.
        measurement: the noisy counts, if it was a measurement.
        selection: the chosen (clique, cell) pairs, if it was a selection.
        values: of a column, if they were discovered.
        rho: what it cost, exact.
    """

    question: str
    rho: Fraction
    measurement: Measurement | None = None
    selection: tuple[Query, ...] | None = None
    values: tuple[str, ...] | None = None

    @property
    def of_cells(self) -> bool:
        """Whether the measurement is of a clique's cells; else of a query's groups, or of other bins of a column."""
        return json.loads(self.question)["ask"] not in ("query", "bins")


class Journal(Protocol):
    """Where answers are kept, durably, before they are used."""

    def recorded(self) -> Sequence[Answer]:
        """The answers of earlier runs, in order."""

    def append(self, answers: Sequence[Answer]) -> None:
        """Write answers; returns when they are durable."""


def question_text(kind: str, family: Family, rho: Fraction, detail: str) -> str:
    """A question as the journal tells questions apart."""
    asked: dict[str, object] = {"ask": kind, "clique": clique_of(family), "rho": str(rho), "detail": detail}
    if isinstance(family, Threshold):
        asked["least"] = family.least
    return json.dumps(asked, ensure_ascii=False)


def measured(answer: Answer) -> Measurement:
    """The noisy counts of an answer to a measurement."""
    assert answer.measurement is not None
    return answer.measurement
