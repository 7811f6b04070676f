"""The questions of the curator, as values: what was asked, as far as a journal tells questions apart.

Each has one `text`, which the books keep for good. A release that was interrupted goes on only if it asks the same
texts in the same order, so the text of a question must never change. `dpsql.books.releases.questions` reads texts back.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from dpsql.core.domain import Clique
from dpsql.core.threshold import Family, Threshold, clique_of
from dpsql.privacy.distributions import GAUSSIAN


@dataclass(frozen=True)
class Question(ABC):
    """What was asked.

    Attributes:
        of_cells: whether a measurement that answers it is of a clique's cells: not of a query's groups, nor of bins
            of a column that are not its domain's.
    """

    of_cells: ClassVar[bool] = True

    @property
    @abstractmethod
    def text(self) -> str:
        """As journals keep it; two questions are the same if their texts are."""


@dataclass(frozen=True)
class MarginalQuestion(Question):
    """Every cell of a clique, with noise of that name; with none the number of rows, where it is public."""

    clique: Clique
    rho: Fraction
    noise: str

    @property
    def text(self) -> str:
        """See `Question.text`."""
        return _text("measure", self.clique, self.rho, self.noise)


@dataclass(frozen=True)
class CellsQuestion(Question):
    """Some cells of one family, each with noise of that name and with a share ρ of its own."""

    family: Family
    cells: tuple[int, ...]
    rho: Fraction
    noise: str

    @property
    def text(self) -> str:
        """See `Question.text`; Gaussian noise is not named, because there was no other once."""
        ask = "cells" if self.noise == GAUSSIAN.name else f"cells {self.noise}"
        return _text(ask, self.family, self.rho, ",".join(map(str, self.cells)))


@dataclass(frozen=True)
class CellSelection(Question):
    """So many cells of so many families, those that a model answers worst, with a share ρ each."""

    count: int
    families: int
    rho: Fraction

    @property
    def text(self) -> str:
        """See `Question.text`."""
        return _text("select", (), self.rho, f"{self.count} of {self.families}")


@dataclass(frozen=True)
class MarginalSelection(Question):
    """So many of so many marginals, those that a model answers worst, with a share ρ each."""

    count: int
    cliques: int
    rho: Fraction

    @property
    def text(self) -> str:
        """See `Question.text`."""
        return _text("select marginals", (), self.rho, f"{self.count} of {self.cliques}")


@dataclass(frozen=True)
class SourceSelection(Question):
    """One of so many marginals to measure, or of so many to take from a public table, with a share ρ."""

    cliques: int
    public: int
    rho: Fraction

    @property
    def text(self) -> str:
        """See `Question.text`."""
        return _text("select source", (), self.rho, f"1 of {self.cliques} or {self.public} public")


@dataclass(frozen=True)
class SignedSelection(Question):
    """So many draws of cells with their signs, with a share ρ each.

    Attributes:
        count: draws.
        cliques: how many marginals the cells are of.
        factor: of the counts.
        rho: the share.
        sample: of how many rows; None for all.
    """

    count: int
    cliques: int
    factor: int
    rho: Fraction
    sample: int | None = None

    @property
    def text(self) -> str:
        """See `Question.text`."""
        among = "" if self.sample is None else f" among {self.sample} rows"
        return _text("sample", (), self.rho, f"{self.count} of {self.cliques} with factor {self.factor}{among}")


@dataclass(frozen=True)
class AggregateQuestion(Question):
    """One aggregate of a query in all of its groups.

    Attributes:
        clique: the query's columns.
        number: of the aggregate.
        digest: of the noise and the query.
        rho: its share.
    """

    of_cells = False
    clique: Clique
    number: int
    digest: str
    rho: Fraction

    @property
    def text(self) -> str:
        """See `Question.text`."""
        return _text("query", self.clique, self.rho, f"{self.number}: {self.digest}")


@dataclass(frozen=True)
class LinearQuestion(Question):
    """The answers of one family of linear queries, or of some of its groups.

    Attributes:
        clique: the family's columns.
        family: its digest.
        detail: whose noise it has, in how many groups, and with how many other families at once.
        rho: its share.
    """

    of_cells = False
    clique: Clique
    family: str
    detail: str
    rho: Fraction

    @property
    def text(self) -> str:
        """See `Question.text`."""
        return _text("linear", self.clique, self.rho, f"{self.family}: {self.detail}")

    @property
    def groups(self) -> tuple[int, ...] | None:
        """The groups that were asked for; None for all."""
        _, separator, groups = self.detail.partition(" in groups ")
        return tuple(map(int, groups.split(","))) if separator else None


@dataclass(frozen=True)
class BinsQuestion(Question):
    """The rows of a column in bins that need not be its domain; `digest` is of the bins."""

    of_cells = False
    column: str
    digest: str
    rho: Fraction

    @property
    def text(self) -> str:
        """See `Question.text`."""
        return _text("bins", (self.column,), self.rho, self.digest)


@dataclass(frozen=True)
class ValuesQuestion(Question):
    """The common values of a column, for which δ′ is added to δ; with `least` those of about so many units or more."""

    column: str
    failure: float
    rho: Fraction
    least: int | None = None

    @property
    def text(self) -> str:
        """See `Question.text`."""
        of_units = "" if self.least is None else f" of {self.least} units"
        return _text("values", (self.column,), self.rho, f"but for {self.failure!r}{of_units}")


@dataclass(frozen=True)
class ForeignQuestion(Question):
    """A question that this version does not ask: of another version's release, whose answers stay what they are.

    Attributes:
        written: its text.
        least: of the thresholds that it is about; None for cells.
        counts_cells: see `Question.of_cells`.
    """

    written: str
    least: int | None
    counts_cells: bool

    @property
    def text(self) -> str:
        """See `Question.text`."""
        return self.written

    @property
    def of_cells(self) -> bool:  # type: ignore[override]
        """See `Question`."""
        return self.counts_cells


def _text(ask: str, family: Family, rho: Fraction, detail: str) -> str:
    fields: dict[str, object] = {"ask": ask, "clique": clique_of(family), "rho": str(rho), "detail": detail}
    if isinstance(family, Threshold):
        fields["least"] = family.least
    return json.dumps(fields, ensure_ascii=False)
