"""The kinds of questions that a course is made of: what each costs, and how a plan shows it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import repeat
from typing import Any

from dpsql.core.domain import Clique
from dpsql.core.linear_family import LinearFamily
from dpsql.mechanisms.facts import Facts, PlannedMeasurement, Pricing
from dpsql.mechanisms.linear_queries import planned_linear
from dpsql.privacy.distributions import SELECTION, Distribution
from dpsql.privacy.pricing import Part
from dpsql.strategy.allocation import Allocation


@dataclass(frozen=True)
class Ask(ABC):
    """Questions of one kind.

    Attributes:
        share: of ρ, or of ε where the course is pure: of all of them together.
        note: what a plan says of them.
        name: by which the mechanism asks them, where the kind does not tell them apart.
    """

    share: Fraction
    note: str = field(default="measured", kw_only=True)
    name: str = field(default="", kw_only=True)

    @property
    def is_free(self) -> bool:
        """Whether nothing is asked that costs anything."""
        return False

    @property
    def part(self) -> Fraction:
        """Of one question, where all of them get the same."""
        return self.share

    @abstractmethod
    def parts(self, noise: Distribution) -> Iterable[Part]:
        """Its questions, with what each takes of the whole."""

    @abstractmethod
    def planned(self, course: Pricing) -> Iterable[PlannedMeasurement]:
        """Its rows of a plan."""


@dataclass(frozen=True)
class Total(Ask):
    """The number of rows."""

    note: str = field(default="the number of rows", kw_only=True)
    public: bool = field(default=False, kw_only=True)

    @staticmethod
    def of(facts: Facts, share: Fraction, note: str = "the number of rows") -> Total:
        """The number of rows of a table; free where it is public."""
        public = facts.neighbours.total_is_public
        return Total(Fraction(0) if public else share, note=note, public=public)

    @property
    def is_free(self) -> bool:
        """See `Ask.is_free`."""
        return self.public

    def parts(self, noise: Distribution) -> Iterable[Part]:
        """See `Ask.parts`."""
        return [Part(noise, int(not self.public), self.share)]

    def planned(self, course: Pricing) -> Iterable[PlannedMeasurement]:
        """See `Ask.planned`."""
        if not self.public:
            stddev = course.stddev(self.share, whole=False)
            yield PlannedMeasurement((), 1, stddev, float(course.cost(self.share)), self.note)


@dataclass(frozen=True)
class Marginals(Ask):
    """Whole marginals, in one question.

    Attributes:
        cliques: which.
        weights: their parts of the share; none for equal ones.
        spent: the part of the share that the noise takes; what is left of it stays unspent.
    """

    cliques: Sequence[Clique] = ()
    weights: Sequence[Fraction] | None = None
    spent: Fraction = field(default=Fraction(1), kw_only=True)

    @property
    def is_free(self) -> bool:
        """See `Ask.is_free`."""
        return not self.cliques

    @property
    def part(self) -> Fraction:
        """See `Ask.part`."""
        return self.share * self.spent / max(1, len(self.cliques))

    @property
    def requests(self) -> list[tuple[Clique, Fraction]]:
        """The cliques with their parts of the whole."""
        if self.weights is None:
            return list(zip(self.cliques, repeat(self.part)))
        return [
            (clique, self.share * self.spent * weight)
            for clique, weight in zip(self.cliques, self.weights, strict=True)
        ]

    def parts(self, noise: Distribution) -> Iterable[Part]:
        """See `Ask.parts`."""
        return [Part(noise, count, part) for part, count in Counter(part for _, part in self.requests).items()]

    def planned(self, course: Pricing) -> Iterable[PlannedMeasurement]:
        """See `Ask.planned`."""
        for clique, part in self.requests:
            cells, cost = course.facts.domain.size(clique), float(course.cost(part / self.spent))
            yield PlannedMeasurement(clique, cells, course.stddev(part), cost, self.note)


@dataclass(frozen=True)
class Allocated(Marginals):
    """Whole marginals that a rule chose, whose errors can be predicted.

    Attributes:
        allocation: what the rule says.
        predicted: makes about the L1 errors of the synthetic table's marginals (fraction), by clique.
        words: what a plan says of a clique and its predicted error.
    """

    allocation: Allocation = field(kw_only=True)
    predicted: Callable[[], Mapping[Clique, float]] = field(default=dict, kw_only=True)
    words: Callable[[Clique, float | None], str] = field(default=lambda clique, error: "measured", kw_only=True)

    @classmethod
    def of(cls, share: Fraction, allocation: Allocation, rho: Fraction, **more: Any) -> Allocated:
        """What was allocated of ρ, with a share of the charge; and more of the attributes."""
        cliques, costs = zip(*allocation.shares, strict=True)
        return cls(share, cliques, [cost / rho for cost in costs], allocation=allocation, **more)

    def planned(self, course: Pricing) -> Iterable[PlannedMeasurement]:
        """See `Ask.planned`."""
        predicted = self.predicted()
        for row in super().planned(course):
            error = predicted.get(row.clique)
            yield replace(row, note=self.words(row.clique, error), predicted=error)


@dataclass(frozen=True)
class LeftOut(Ask):
    """Marginals of the workload that are not measured: a plan says why.

    Attributes:
        reasons: of each.
        predicted: as of `Allocated`.
    """

    reasons: Sequence[tuple[Clique, str]] = ()
    predicted: Callable[[], Mapping[Clique, float]] = dict

    @property
    def is_free(self) -> bool:
        """See `Ask.is_free`."""
        return True

    def parts(self, noise: Distribution) -> Iterable[Part]:
        """See `Ask.parts`."""
        return ()

    def planned(self, course: Pricing) -> Iterable[PlannedMeasurement]:
        """See `Ask.planned`."""
        predicted = self.predicted()
        for clique, reason in self.reasons:
            cells = course.facts.domain.size(clique)
            yield PlannedMeasurement(clique, cells, None, 0.0, reason, predicted.get(clique))


@dataclass(frozen=True)
class Chosen(Ask):
    """Whole marginals that are chosen in the run, from what is public or was answered before.

    Attributes:
        times: how many.
        inside: columns that each of them has.
        cells: that a plan shows of each.
        open: what they are chosen from, in words.
    """

    times: int = 1
    inside: Clique = ()
    cells: int = 1
    open: str = "chosen from the prior"

    @property
    def part(self) -> Fraction:
        """See `Ask.part`."""
        return self.share / max(1, self.times)

    def parts(self, noise: Distribution) -> Iterable[Part]:
        """See `Ask.parts`."""
        return [Part(noise, self.times, self.part)]

    def planned(self, course: Pricing) -> Iterable[PlannedMeasurement]:
        """See `Ask.planned`."""
        stddev, cost = course.stddev(self.part), float(course.cost(self.part))
        measurement = PlannedMeasurement(self.inside, self.cells, stddev, cost, self.note, open=self.open)
        return [measurement] * self.times


@dataclass(frozen=True)
class Open(Ask):
    """Measurements that are found out when the charge is known, or the first answers are there.

    Attributes:
        selects: whether noise selects what is measured.
        cells: that a plan shows.
        open: what is found out, in words; a plan shows nothing without.
    """

    selects: bool = False
    cells: int = 1
    open: str = ""

    def parts(self, noise: Distribution) -> Iterable[Part]:
        """See `Ask.parts`."""
        kinds = (noise, SELECTION) if self.selects else (noise,)
        return [Part(kind, 1, self.share / len(kinds)) for kind in kinds]

    def planned(self, course: Pricing) -> Iterable[PlannedMeasurement]:
        """See `Ask.planned`."""
        if self.open:
            cost = float(course.cost(self.share))
            yield PlannedMeasurement((), self.cells, None, cost, self.note, open=self.open)


@dataclass(frozen=True)
class Linear(Ask):
    """All linear queries, in one question.

    Attributes:
        families: which.
    """

    families: Sequence[LinearFamily] = ()

    @property
    def is_free(self) -> bool:
        """See `Ask.is_free`."""
        return not self.families

    def parts(self, noise: Distribution) -> Iterable[Part]:
        """See `Ask.parts`."""
        return [Part(noise, int(not self.is_free), self.share)]

    def planned(self, course: Pricing) -> Iterable[PlannedMeasurement]:
        """See `Ask.planned`."""
        facts = course.facts
        cost = course.cost(self.share)
        return planned_linear(facts.domain, self.families, cost, facts.neighbours, course.noise)


@dataclass(frozen=True)
class Cells(Ask):
    """Cells, each measured by itself.

    Attributes:
        count: how many.
    """

    count: int = 1

    @property
    def part(self) -> Fraction:
        """See `Ask.part`."""
        return self.share / self.count

    def parts(self, noise: Distribution) -> Iterable[Part]:
        """See `Ask.parts`."""
        return [Part(noise, self.count, self.part)]

    def planned(self, course: Pricing) -> Iterable[PlannedMeasurement]:
        """See `Ask.planned`."""
        stddev, cost = course.stddev(self.part, whole=False), float(self.count * course.cost(self.part))
        yield PlannedMeasurement((), self.count, stddev, cost, self.note, open="selected cells")


@dataclass(frozen=True)
class Rounds(Ask):
    """Rounds, each of which selects what a model answers worst, and measures it; half of the share for each.

    Attributes:
        times: how many rounds.
        each: how many are selected in one.
        cells: that a plan shows: of all rounds, or of the largest marginal.
        whole: whether whole marginals are selected, or cells.
        open: what is selected, in words.
        priced: as how many rounds they are priced, where their number is known after the charge only: the fewest that
            there may be. More of them share the same ε, and cost less ρ.
    """

    times: int = 1
    each: int = 1
    cells: int = 1
    whole: bool = False
    open: str = "selected cells"
    priced: int | None = None

    @property
    def part(self) -> Fraction:
        """Of one selection, and of one measurement."""
        return self.share / (2 * self.times * self.each)

    def parts(self, noise: Distribution) -> Iterable[Part]:
        """See `Ask.parts`."""
        count = (self.priced or self.times) * self.each
        part = self.share / (2 * count)
        return [Part(SELECTION, count, part), Part(noise, count, part)]

    def planned(self, course: Pricing) -> Iterable[PlannedMeasurement]:
        """See `Ask.planned`."""
        both = course.cost(self.part, SELECTION) + course.cost(self.part)
        cost, stddev = float(self.times * self.each * both), course.stddev(self.part, whole=self.whole)
        yield PlannedMeasurement((), self.cells, stddev, cost, self.note, open=self.open)


@dataclass(frozen=True)
class Draws(Ask):
    """Cells with their signs, drawn by the exponential mechanism and not measured.

    Attributes:
        times: how many draws, where each gets the same.
        cells: that a plan shows.
        open: what is drawn, in words.
        spent: the part of the share that the draws take; what is left of it stays unspent.
    """

    times: int = 1
    cells: int = 1
    open: str = "drawn cells"
    spent: Fraction = field(default=Fraction(1), kw_only=True)

    @property
    def part(self) -> Fraction:
        """See `Ask.part`."""
        return self.share / self.times

    def parts(self, noise: Distribution) -> Iterable[Part]:
        """See `Ask.parts`."""
        return [Part(SELECTION, self.times, self.part)]

    def planned(self, course: Pricing) -> Iterable[PlannedMeasurement]:
        """See `Ask.planned`."""
        cost = float(self.times * course.cost(self.part * self.spent, SELECTION))
        yield PlannedMeasurement((), self.cells, None, cost, self.note, open=self.open)
