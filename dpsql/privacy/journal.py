"""What was asked and answered: kept durably before it is used, and returned again to a run that is interrupted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, Protocol

from dpsql.core.domain import Clique
from dpsql.core.linear_family import QueryFamily
from dpsql.core.marginal import Measurement
from dpsql.privacy.questions import Question

Query = tuple[QueryFamily, int]
"""One cell of a clique's marginal, or of a family of thresholds, by its row-major index; or a linear query's group."""


class SignedQuery(NamedTuple):
    """A cell of a marginal, a threshold, a linear query, or its negation.

    Attributes:
        query: the cell, threshold or group.
        sign: 1, or −1 for the negation.
    """

    query: Query
    sign: int


@dataclass(frozen=True)
class WholeMarginal:
    """A marginal that was chosen as a whole."""

    clique: Clique


@dataclass(frozen=True)
class PublicMarginal:
    """A marginal that is taken from a public table."""

    clique: Clique


@dataclass(frozen=True)
class ChosenLinear:
    """A family of linear queries that was chosen, or one of its groups.

    Attributes:
        clique: the family's columns.
        digest: of the family.
        group: None for all of them.
    """

    clique: Clique
    digest: str
    group: int | None = None


@dataclass(frozen=True)
class SignedLinear:
    """A linear query that was drawn, or its negation, as journals have it.

    Attributes:
        chosen: the group.
        sign: 1, or −1 for the negation.
    """

    chosen: ChosenLinear
    sign: int


Choice = Query | SignedQuery | SignedLinear | WholeMarginal | PublicMarginal | ChosenLinear


@dataclass(frozen=True)
class Answer:
    """One entry of the journal.

    Attributes:
        question: what was asked; tells whether a later run asks the same.
        measurement: the noisy counts, if it was a measurement.
        selection: what was chosen, if it was a selection.
        values: of a column, if they were discovered.
        rho: what it cost, exact.
    """

    question: Question
    rho: Fraction
    measurement: Measurement | None = None
    selection: tuple[Choice, ...] | None = None
    values: tuple[str, ...] | None = None


class Journal(Protocol):
    """Where answers are kept, durably, before they are used."""

    def recorded(self) -> Sequence[Answer]:
        """The answers of earlier runs, in order."""

    def append(self, answers: Sequence[Answer]) -> None:
        """Write answers; returns when they are durable."""


def measured(answer: Answer) -> Measurement:
    """The noisy counts of an answer to a measurement."""
    assert answer.measurement is not None
    return answer.measurement
