r"""The least ε of a release that is to have an accuracy, and what is charged then; from public facts.

    ε*   the smallest ε, rounded up to three digits, whose ρ is at least what the accuracy takes with n rows

Where n is public, ε* is charged in place of a larger ε of the request, because more would buy nothing that was asked
for. Where it is private it cannot be: the charge would tell n. Then a plan says ε* for about so many rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dpsql.core.domain import Domain
from dpsql.core.neighbours import Neighbours
from dpsql.core.workload import Workload
from dpsql.mechanisms.base import Mechanism, Remark
from dpsql.mechanisms.promises import NamesAccuracy
from dpsql.privacy.accounting import Budget
from dpsql.privacy.pricing import Questions, price


@dataclass(frozen=True)
class Pricing:
    """What an ε costs.

    Attributes:
        questions: that share it.
        offered: what the request offers at most.
    """

    questions: Questions
    offered: Budget

    def at(self, epsilon: float) -> Budget:
        """The cost of an ε at the request's δ."""
        return price(self.questions, epsilon, self.offered.delta)

    def least(self, rho: Fraction) -> Budget | None:
        """The budget of the smallest ε that pays for ρ; None where the request's does not."""
        if self.offered.rho < rho:
            return None
        low, high = self.offered.epsilon * 1e-9, self.offered.epsilon
        while high / low > 1 + 1e-7:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if self.at(middle).rho >= rho else (middle, high)
        digits = 2 - math.floor(math.log10(high))
        budget = self.at(math.ceil(round(high * 10.0**digits, 4)) / 10.0**digits)
        return budget if rho <= budget.rho < self.offered.rho else self.offered


def enough(
    mechanism: Mechanism, domain: Domain, workload: Workload, neighbours: Neighbours, pricing: Pricing, rows: float
) -> Budget | None:
    """The least budget by which a mechanism has the accuracy that its options name; None where they name none."""
    if not isinstance(mechanism, NamesAccuracy):
        return None
    rho = mechanism.enough(domain, workload, neighbours, max(1.0, rows))
    return None if rho is None else pricing.least(rho)


def accuracy_remarks(
    mechanism: Mechanism, domain: Domain, workload: Workload, neighbours: Neighbours, pricing: Pricing, rows: float
) -> list[Remark]:
    """What a plan says of the least ε for an accuracy."""
    budget = enough(mechanism, domain, workload, neighbours, pricing, rows)
    if budget is None or not isinstance(mechanism, NamesAccuracy):
        return []
    begun = (
        f"alpha {mechanism.alpha:g} with probability {1 - mechanism.failure:g} takes epsilon := {budget.epsilon:g} for "
    )
    if neighbours.total_is_public:
        return [Remark("accuracy", f"{begun}{rows:g} rows; the number of rows is public, and no more is charged")]
    return [Remark("accuracy", f"{begun}about {rows:g} rows; their number is private, so all of epsilon is charged")]
