"""A mechanism's course: what it asks and with which shares, as one value that is made of public facts.

price      the kernel derives ε, δ, ρ and g from `Course.questions`, of which it keeps a copy of its own
preview    the rows of a plan
run        a `Walk` asks the curator for what the course says, at the price that the course says

by ρ       an ask gets its share of ρ
by ε       where the noise proves a pure ε: its part p of ε costs p²/2 of zCDP as noise and p²/8 as a selection, and
a charge ρ is shared by these costs
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TypeVar

from dpsql.errors import InvalidArgument
from dpsql.mechanisms.asks import Ask, Rounds
from dpsql.mechanisms.facts import Facts, PlannedMeasurement
from dpsql.privacy.distributions import SELECTION, Distribution, Kind
from dpsql.privacy.pricing import Conversion, Part, Questions

Wanted = TypeVar("Wanted", bound=Ask)


@dataclass(frozen=True)
class Course:
    """What a mechanism asks, in the order in which a plan shows it.

    Attributes:
        facts: that it is made of.
        noise: of what is measured.
        asks: the questions.
        conversion: of ε and δ to ρ; None for the one that gives the most ρ.
    """

    facts: Facts
    noise: Distribution
    asks: tuple[Ask, ...]
    conversion: Conversion | None = None

    @classmethod
    def in_turn(cls, facts: Facts, noise: Distribution, *asks: Ask, conversion: Conversion | None = None) -> Course:
        """The asks with their shares of what those before them leave, not of the whole; free ones take nothing."""
        made, left = list[Ask](), Fraction(1)
        for ask in asks:
            if not ask.is_free:
                made.append(replace(ask, share=left * ask.share))
                left -= made[-1].share
        return cls(facts, noise, tuple(made), conversion)

    @cached_property
    def questions(self) -> Questions:
        """What the kernel prices: parts of ε where the noise proves one, else kinds that share ρ."""
        if self.noise.pure:
            return Questions.pure(*self.parts)
        kinds = {part.kind for part in self.parts}
        return Questions.of(*(kind for kind in (self.noise, SELECTION) if kind in kinds), conversion=self.conversion)

    @property
    def parts(self) -> list[Part]:
        """Its questions, with what each takes of the whole."""
        return [part for ask in self.asks for part in ask.parts(self.noise) if part.count]

    @cached_property
    def whole(self) -> Fraction:
        """ρ of all parts of ε = 1."""
        return sum((part.count * _kind(part).rho(part.share) for part in self.parts), Fraction(0))

    def cost(self, part: Fraction, kind: Kind | None = None) -> Fraction:
        """ρ of a part of the whole: of a measurement, or of another kind of question."""
        kind = kind or self.noise
        return self.facts.charge * (kind.rho(part) / self.whole if self.noise.pure else part)

    @property
    def epsilon(self) -> float:
        """The ε that the charge pays for, of a course that shares ε."""
        return math.sqrt(self.facts.charge / self.whole)

    @property
    def left(self) -> Fraction:
        """The share that nothing is asked with."""
        return 1 - sum((ask.share for ask in self.asks), Fraction(0))

    @property
    def step(self) -> tuple[Fraction, Fraction]:
        """ρ of one selection of a round, and of one measurement."""
        (rounds,) = self.of(Rounds)
        return self.cost(rounds.part, SELECTION), self.cost(rounds.part)

    def share(self, kind: type[Ask]) -> Fraction:
        """Of all asks of a kind."""
        return sum((ask.share for ask in self.of(kind)), Fraction(0))

    def stddev(self, part: Fraction, *, whole: bool = True) -> float:
        """Of the noise of each cell (rows), of a whole marginal or of a cell that is measured by itself."""
        norm, neighbours = self.noise.norm, self.facts.neighbours
        return self.noise.stddev(self.cost(part), neighbours.marginal(norm) if whole else neighbours.cell**norm)

    def check(self, mechanism: str) -> None:
        """Refuse a course that no charge pays for: it would be charged, and stopped on its way.

        Args:
            mechanism: the name of whose course it is.

        Raises:
            InvalidArgument: its shares are no exact numbers, below 0, or more than 1 in all.
        """
        given = [*(ask.share for ask in self.asks), *(part.share for part in self.parts)]
        if inexact := [share for share in given if not isinstance(share, Fraction | int)]:
            raise InvalidArgument(
                f"mechanism {mechanism!r}: a share of its course is {inexact[0]!r}: give a Fraction, as Fraction(1, 2)"
            )
        shares = ", ".join(f"{type(ask).__name__} {ask.share}" for ask in self.asks)
        if min(given, default=0) < 0:
            raise InvalidArgument(f"mechanism {mechanism!r}: a share of its course is below 0: {shares}")
        total = sum((part.count * part.share for part in self.parts), Fraction(0))
        if self.left < 0 or total > 1:
            raise InvalidArgument(
                f"mechanism {mechanism!r}: the shares of its course add up to {max(total, 1 - self.left)}, more than "
                f"1: {shares}; give smaller ones, or make it by Course.in_turn, which shares what is left"
            )

    def preview(self) -> list[PlannedMeasurement]:
        """The rows of a plan."""
        return [row for ask in self.asks for row in ask.planned(self)]

    def of(self, kind: type[Wanted], name: str | None = None) -> list[Wanted]:
        """The asks of a kind, or those of that name among them."""
        return [ask for ask in self.asks if isinstance(ask, kind) and name in (None, ask.name)]


Courses = Callable[[Facts], Course]
"""What is asked, by facts."""


def _kind(part: Part) -> Kind:
    assert isinstance(part.kind, Kind)
    return part.kind
