"""A course on its way: asks the curator what the course says, at the price that the course says.

It is no part of the kernel and not trusted: the curator takes each question off the charge, and stops a mechanism that
asks another kind than it declared, or more than was charged (`dpsql.privacy.purse`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from dpsql.core.domain import Clique, Domain
from dpsql.core.marginal import Measurement
from dpsql.core.workload import Workload
from dpsql.mechanisms.asks import Cells, Chosen, Draws, Linear, Marginals, Total
from dpsql.mechanisms.course import Course, Courses
from dpsql.mechanisms.facts import Facts
from dpsql.privacy.curator import Curator
from dpsql.privacy.distributions import SELECTION


@dataclass(frozen=True)
class Walk:
    """One run.

    Attributes:
        curator: answers within the charge.
        facts: of the request, with its charge.
        courses: what is asked, by facts.
    """

    curator: Curator
    facts: Facts
    courses: Courses

    @cached_property
    def course(self) -> Course:
        """What is asked."""
        return self.courses(self.facts)

    @property
    def domain(self) -> Domain:
        """Of the columns."""
        return self.facts.domain

    @property
    def workload(self) -> Workload:
        """What the table should answer well."""
        return self.facts.workload

    def knowing(self, rows: float) -> Walk:
        """The same, when the number of rows is known that the rest of the course depends on."""
        return replace(self, facts=replace(self.facts, rows=rows))

    def total(self) -> Measurement:
        """The number of rows; exact where it is public."""
        return self.curator.total(self.course.cost(self.course.share(Total)), self.course.noise)

    def requests(self, name: str | None = None) -> list[tuple[Clique, Fraction]]:
        """The whole marginals of the course with their ρ; those of one ask, where it is named."""
        requests = [request for ask in self.course.of(Marginals, name) for request in ask.requests]
        costs = {part: self.course.cost(part) for part in {part for _, part in requests}}  # most are equal
        return [(clique, costs[part]) for clique, part in requests]

    def marginals(self, name: str | None = None, *, begun: bool = False) -> list[Measurement]:
        """Whole marginals of the course, at once.

        Args:
            name: of the ask; all of them without.
            begun: ask in their place what a run that was killed had asked, by the rules of an earlier version.
        """
        before = self.curator.begun() if begun else []
        requests = before or self.requests(name)
        return self.curator.measure(requests, self.course.noise) if requests else []

    def chosen(self, cliques: Sequence[Clique], name: str) -> list[Measurement]:
        """Whole marginals that were chosen meanwhile, as one ask of the course says."""
        (ask,) = self.course.of(Chosen, name)
        return self.curator.measure([(clique, self.course.cost(ask.part)) for clique in cliques], self.course.noise)

    def linear(self) -> list[Measurement]:
        """All linear queries of the course at once."""
        return [
            measured
            for ask in self.course.of(Linear)
            if ask.families
            for measured in self.curator.measure_linear_families(
                ask.families, self.course.cost(ask.share), self.course.noise
            )
        ]

    @property
    def cell(self) -> Fraction:
        """ρ of a cell that is measured by itself."""
        (cells,) = self.course.of(Cells)
        return self.course.cost(cells.part)

    @property
    def draw(self) -> Fraction:
        """ρ of one draw."""
        (draws,) = self.course.of(Draws)
        return self.course.cost(draws.part, SELECTION)
