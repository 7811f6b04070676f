"""Accounts: what a table may spend, has spent, and can still be asked for.

The promise of an account: all releases of the table together are ρ-zCDP with ρ = `rho_budget`, hence (ε, δ)-DP with the
account's ε and δ, for the account's neighbours. The books enforce it by a conditional update (`sql/charge.sql`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from dpsql.errors import InsufficientBudget
from dpsql.privacy.accounting import RHO_UNIT, Budget, Neighbours, largest_epsilon, units, zcdp_epsilon


@dataclass(frozen=True)
class Account:
    """The budget of one protected table.

    Attributes:
        source: its key in the books: the table, after its schema unless that is main.
        epsilon, delta: the promise.
        neighbours: of which tables.
        rho_budget: zCDP that may be spent, exact.
        rho_spent: zCDP that was charged, exact.
        releases: how many were charged.
    """

    source: str
    epsilon: float
    delta: float
    neighbours: Neighbours
    rho_budget: Fraction
    rho_spent: Fraction
    releases: int

    @property
    def rho_left(self) -> Fraction:
        """What may still be charged."""
        return max(Fraction(0), self.rho_budget - self.rho_spent)

    @property
    def epsilon_spent(self) -> float:
        """The ε, at the account's δ, that all releases so far satisfy together."""
        return min(self.epsilon, zcdp_epsilon(self.rho_spent, self.delta))

    @property
    def epsilon_left(self) -> float:
        """The largest ε that one more release may ask for, at the account's δ."""
        return largest_epsilon(self.rho_left, self.delta)

    def after(self, budget: Budget) -> Account:
        """The account as it would be with one more release of that budget."""
        return replace(self, rho_spent=self.rho_spent + units(budget.rho) * RHO_UNIT, releases=self.releases + 1)

    def require(self, budget: Budget) -> None:
        """Refuse a request that does not fit, before anything is charged or read.

        Raises:
            InsufficientBudget: says what was asked for, what is left, and the largest ε that fits.
        """
        if units(budget.rho) <= units(self.rho_left):
            return
        fitting = largest_epsilon(self.rho_left, budget.delta)
        advice = f"the largest epsilon that fits is {fitting:g}" if fitting else "nothing more can be released"
        raise InsufficientBudget(
            f"epsilon {budget.epsilon:g} at delta {budget.delta:g} is more than the budget of {self.source} has left: "
            f"of epsilon {self.epsilon:g} at delta {self.delta:g}, {self.epsilon_spent:.4g} is spent; {advice}"
        )
