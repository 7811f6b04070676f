"""The public facts that a mechanism's course is made of, and the rows of a plan that it is shown by."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from dpsql.core.domain import Clique, Domain
from dpsql.core.neighbours import Neighbours
from dpsql.core.workload import Workload
from dpsql.privacy.distributions import Distribution, Kind


@dataclass(frozen=True)
class PlannedMeasurement:
    """One question that a mechanism would ask, or several that are alike.

    Attributes:
        clique: the marginal, or empty for the total; of what is found out in the run, the columns that are known.
        cells: how many noisy counts.
        stddev: of each one's noise (rows); None for a marginal that is not measured.
        rho: its cost (zCDP).
        note: what is done with it.
        predicted: about the L1 error of the synthetic table's marginal (fraction), where it can be predicted.
        open: what is found out in the run, such as 'selected cells'; None where the marginal is known.
    """

    clique: Clique
    cells: int
    stddev: float | None
    rho: float
    note: str = "measured"
    predicted: float | None = None
    open: str | None = None

    @property
    def shown(self) -> list[str]:
        """The columns, and what is still open in parentheses, as a plan shows them."""
        return [*self.clique, *(() if self.open is None else (f"({self.open})",))]


@dataclass(frozen=True)
class Remark:
    """What a plan says beside its questions, such as what is proven of the accuracy.

    Attributes:
        topic: what it is about.
        note: what it says.
    """

    topic: str
    note: str


@dataclass(frozen=True)
class Facts:
    """The public facts that a course is made of.

    Attributes:
        domain: of the columns.
        workload: what the table should answer well.
        neighbours: of the guarantee.
        rho: the charge; None before it is priced.
        rows: about how many, assumed by a plan or measured by the run; None before.
    """

    domain: Domain
    workload: Workload
    neighbours: Neighbours
    rho: Fraction | None = None
    rows: float | None = None

    @property
    def charge(self) -> Fraction:
        """ρ; 1 before it is priced."""
        return Fraction(1) if self.rho is None else self.rho

    @property
    def about(self) -> float:
        """n; 1 where nothing is known of it."""
        return 1.0 if self.rows is None else self.rows

    @property
    def whole_rows(self) -> float:
        """N as a whole number, at least 1."""
        return max(1.0, float(round(self.about)))


class Pricing(Protocol):
    """What a question's row in a plan is made of: a course, which is made of questions."""

    @property
    def facts(self) -> Facts:
        """See `dpsql.mechanisms.course.Course`."""
        ...

    @property
    def noise(self) -> Distribution:
        """See `dpsql.mechanisms.course.Course`."""
        ...

    def cost(self, part: Fraction, kind: Kind | None = None) -> Fraction:
        """See `dpsql.mechanisms.course.Course.cost`."""
        ...

    def stddev(self, part: Fraction, *, whole: bool = True) -> float:
        """See `dpsql.mechanisms.course.Course.stddev`."""
        ...
