r"""What a run of MWEM pays for each step: see `dpsql.mechanisms.mwem`.

pure    ε₀ = ε/20 for the number of rows where it is private; of the rest ε′ a third for the 1-way marginals, where
        they are measured first, and (ε′ − ε₁)/2T for each selection and measurement
else    ρ/100, a quarter of the rest, and equal shares of what is left
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from dpsql.core.neighbours import Neighbours
from dpsql.privacy.distributions import LAPLACE, SELECTION

TOTAL_PART: Final = Fraction(1, 20)
"""Of ε, for the number of rows."""
_SINGLES_OF_EPSILON: Final = Fraction(1, 3)
_SINGLES_OF_RHO: Final = Fraction(1, 4)


@dataclass(frozen=True)
class Steps:
    """The shares of a charge ρ.

    Attributes:
        total: of the number of rows.
        single: of each 1-way marginal that is measured first.
        select: of one selection.
        measure: of one measurement.
    """

    total: Fraction
    single: Fraction
    select: Fraction
    measure: Fraction

    @staticmethod
    def of(rho: Fraction, rounds: int, neighbours: Neighbours, singles: int, *, pure: bool) -> Steps:
        """The split of a charge over T rounds, after so many 1-way marginals."""
        private = not neighbours.total_is_public
        if not pure:
            total = rho / 100 if private else Fraction(0)
            single = _SINGLES_OF_RHO * (rho - total) / singles if singles else Fraction(0)
            each = (rho - total - singles * single) / (2 * rounds)
            return Steps(total, single, each, each)
        parts = PureParts.of(rounds, singles, private=private)
        unit = rho / parts.cost
        costs = (
            LAPLACE.rho(parts.total),
            LAPLACE.rho(parts.single),
            SELECTION.rho(parts.step),
            LAPLACE.rho(parts.step),
        )
        return Steps(*(unit * cost for cost in costs))


@dataclass(frozen=True)
class PureParts:
    """The parts of ε of a pure promise.

    Attributes:
        total: of the number of rows.
        single: of each 1-way marginal.
        step: of each selection and of each measurement.
        cost: ρ of all questions at ε = 1.
    """

    total: Fraction
    single: Fraction
    step: Fraction
    cost: Fraction

    @staticmethod
    def of(rounds: int, singles: int, *, private: bool) -> PureParts:
        """Those of T rounds, after so many 1-way marginals."""
        total = TOTAL_PART if private else Fraction(0)
        single = _SINGLES_OF_EPSILON * (1 - total) / singles if singles else Fraction(0)
        step = (1 - total - singles * single) / (2 * rounds)
        cost = LAPLACE.rho(total) + singles * LAPLACE.rho(single)
        return PureParts(total, single, step, cost + rounds * (SELECTION.rho(step) + LAPLACE.rho(step)))
