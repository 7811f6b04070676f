"""Accounts: what a table may spend, has spent, and can still be asked for.

The promise of an account: all releases of the table together are (ε, δ)-DP with the account's ε and δ, for the
account's neighbours, because they are ρ-zCDP with ρ ≤ `rho_budget`, or because they are Gaussian DP with
g ≤ `gdp_budget` (see `dpsql.privacy.accounting`). Which of both is fixed by the first charge, before any answer is
seen; to choose later, by what the answers were, would prove only 2δ. Each sum alone holds for requests and charges that
depend on earlier answers (Feldman and Zrnic 2021 for Rényi DP; Smith and Thakurta 2022 for Gaussian DP). The books
enforce it by a conditional update (`sql/charge.sql`).

An account with δ = 0 promises pure ε: of releases with Laplace noise and selections alone, whose ε add up, Σε ≤ ε. No
other release is charged to it.

An account with δ takes such releases by the same sum, too, as long as it has had no other: a charge is allowed if its
sum above fits, or if all releases are pure and Σε ≤ ε. *Proof.* Let U be the outcomes that end with pure releases alone
and Σε ≤ ε. There p(u) ≤ e^Σε·p′(u) ≤ e^ε·p′(u), whatever each release was asked for. Any other outcome ends within its
sum, for sums only grow and the last charge was tested. So it has the same p in the course that stops before the sum is
exceeded, which is (ε, δ)-DP. For a set S of outcomes, p(S∖U) ≤ e^ε·p′(S∖U) + δ, and p(S) ≤ e^ε·p′(S) + δ. ∎

Discovering the values of a column adds δ′ to the δ of its noise. Half of δ is kept for those, from the first charge on
if that is a discovery, of values or of bins: the sums keep (ε, δ/2), Σδ′ ≤ δ/2, and together that is (ε, δ)-DP. It is
not kept later, for then answers would have been seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from dpsql.core.digits import down, up
from dpsql.core.neighbours import Neighbours
from dpsql.errors import InsufficientBudget, InvalidArgument
from dpsql.privacy.accounting import (
    ASK_LAPLACE,
    CONVERSIONS,
    RHO_UNIT,
    Budget,
    account_budget,
    exact,
    gaussian_epsilon,
    largest_epsilon,
    units,
    zcdp_epsilon,
)

_ROUNDING: Final = 1e-9
"""Of δ that is kept, beside it: more than the rounding of its sums."""
_TOO_SMALL: Final = 1e-9
"""An ε that is no use to ask for: what rounding leaves over."""


@dataclass(frozen=True)
class Account:
    """The budget of one protected table.

    Attributes:
        source: its key in the books: the table, after its schema unless that is main.
        epsilon, delta: the promise.
        neighbours: of which tables.
        unit_column: whose values are the privacy units; None where each row is one.
        unit_type: of it, when the account was opened.
        delta_reserved: of δ, for discoveries.
        delta_spent: of that, charged.
        rho_budget: zCDP that may be spent, exact.
        rho_spent: zCDP that was charged, exact.
        gdp_budget, gdp_spent: the same for g of Gaussian DP.
        currency: `zcdp` or `gdp`, which of both keeps the promise; None before the first charge; `pure` where δ = 0.
        pure_spent: Σε of releases that are all ε-DP, so that together they are pure; None once one is not.
        releases: how many were charged since the account was opened or reset.
        since: the number of the ledger's event that did.
        retired: whether nothing more may be charged.
        way: how rows of a member lead to the units, and how many of a unit count; empty of other tables.
    """

    source: str
    epsilon: float
    delta: float
    neighbours: Neighbours
    unit_column: str | None
    unit_type: str | None
    delta_reserved: float
    delta_spent: float
    rho_budget: Fraction
    rho_spent: Fraction
    gdp_budget: Fraction
    gdp_spent: Fraction
    currency: str | None
    pure_spent: Fraction | None
    releases: int
    since: int
    retired: bool
    way: str = ""

    @property
    def pure(self) -> bool:
        """Whether it promises ε-DP, with δ = 0."""
        return self.delta == 0

    @property
    def pure_left(self) -> Fraction:
        """The ε of pure releases that may still be charged by Σε; 0 after a release that was not pure."""
        spent = None if self.retired else self.pure_spent
        return Fraction(0) if spent is None else max(Fraction(0), exact(self.epsilon) - spent)

    @property
    def rho_left(self) -> Fraction:
        """What may still be charged by zCDP."""
        return max(Fraction(0), self.rho_budget - self.rho_spent)

    @property
    def gdp_left(self) -> Fraction:
        """What may still be charged by Gaussian DP."""
        return max(Fraction(0), self.gdp_budget - self.gdp_spent)

    @property
    def delta_of_sums(self) -> float:
        """The δ at which the sums keep the promise: all but what is kept for discoveries."""
        return sums_delta(self.delta, self.delta_reserved)

    @property
    def epsilon_spent(self) -> float:
        """The ε, at the account's δ, that all releases so far satisfy together: the least that is proven."""
        by_pure = self.epsilon if self.pure_spent is None else min(self.epsilon, float(self.pure_spent))
        if self.pure:
            return by_pure
        delta = self.delta_of_sums
        if self.currency == "gdp":
            return min(by_pure, gaussian_epsilon(self.gdp_spent, delta))
        return min(by_pure, zcdp_epsilon(self.rho_spent, delta))

    @property
    def is_by_pure(self) -> bool:
        """Whether `epsilon_spent` is Σε of releases that are all pure."""
        return self.pure_spent is not None and self.epsilon_spent == float(self.pure_spent)

    @property
    def spent_words(self) -> str:
        """The ε spent as people read it, rounded up; the computed one is above the exact one by more than the slack."""
        if self.pure_spent is not None and self.is_by_pure:
            return up(self.pure_spent)
        return up(self.epsilon_spent * (1 - 1e-12))

    @property
    def epsilon_left(self) -> float:
        """The largest ε that one more release may ask for: with Gaussian noise at the account's δ, or of a pure one."""
        return max(self.fitting("gdp", self.delta), self.fitting_by_pure)

    def fitting(self, conversion: str, delta: float) -> float:
        """The largest ε that one more release of a conversion may ask for at δ; 0 if none."""
        if self.retired:
            return 0.0
        if self.pure:
            return self.fitting_by_pure
        price = CONVERSIONS[conversion].price
        by_gdp = self.currency == "gdp" or (self.currency is None and price == 1)
        return largest_epsilon(self.gdp_left / price if by_gdp else self.rho_left, delta, conversion)

    @property
    def fitting_by_pure(self) -> float:
        """The largest ε that one more pure release may ask for by Σε; 0 if none."""
        left = float(self.pure_left)
        near = _five_digits(left * (1 + 1e-12))  # 0.3, where the float below is 0.29999
        epsilon = near if exact(near) <= self.pure_left else _five_digits(left)
        return epsilon if epsilon > _TOO_SMALL else 0.0

    def fitting_like(self, budget: Budget, conversion: str | None = None) -> float:
        """The largest ε that one more release may ask for whose noise is as that of `budget`; 0 if none.

        Args:
            budget: of a release.
            conversion: None for the one that its kind of noise allows.
        """
        if not budget.pure:
            return self.fitting(conversion or ("gdp" if budget.gdp == budget.rho else "tight"), budget.delta)
        if self.pure or self.retired:
            return self.fitting_by_pure
        left, cost = (self.gdp_left, budget.gdp) if self._is_by_gdp(budget) else (self.rho_left, budget.rho)
        by_sum = _five_digits(budget.epsilon * math.sqrt(left / cost) * (1 - 1e-9))  # ρ grows with ε²
        return max(by_sum, self.fitting_by_pure)

    def _is_by_gdp(self, budget: Budget) -> bool:
        return (self.currency or budget.currency) == "gdp"

    def reserve(self, failure: float) -> Account:
        """The account after one more discovery that adds that much to δ, 0 for one of bins.

        Raises:
            InsufficientBudget: no δ is kept for it, or less than that is left.
        """
        budget = self._with_part_kept()
        if not failure:
            return budget
        if not budget.delta_reserved:
            raise InsufficientBudget(
                f"{self.source} had a release before its first discovery, so no part of delta is kept for one: list "
                "the values, dp_domain(…, \"values\" := […]), or name a public table, reference := 'table.column'"
            )
        spent = budget.delta_spent + failure
        if spent > budget.delta_reserved * (1 + _ROUNDING):
            left = max(0.0, budget.delta_reserved - budget.delta_spent)
            raise InsufficientBudget(
                f"delta of the discovery, of which half goes to what is discovered, exceeds what {self.source} keeps "
                f"for that: {down(left)} of {up(budget.delta_reserved)} is left; give delta := {down(left * 2, 5)} at "
                "most"
            )
        return replace(budget, delta_spent=spent)

    def _with_part_kept(self) -> Account:
        """The account with half of δ kept for discoveries, if nothing else was released before."""
        if self.delta_reserved or self.releases:
            return self
        half = self.delta / 2
        reserved = replace(self, delta_reserved=half)
        budget = account_budget(self.epsilon, reserved.delta_of_sums)
        return replace(reserved, rho_budget=budget.rho, gdp_budget=budget.gdp)

    def after(self, budget: Budget) -> Account:
        """The account as it would be with one more release of that budget."""
        return replace(
            self,
            rho_spent=self.rho_spent + units(budget.rho) * RHO_UNIT,
            gdp_spent=self.gdp_spent + units(budget.gdp) * RHO_UNIT,
            currency=self.currency or budget.currency,
            pure_spent=None if self.pure_spent is None or not budget.pure else self.pure_spent + budget.exact_epsilon,
            releases=self.releases + 1,
        )

    def require(self, budget: Budget, conversion: str | None = None) -> None:
        """Refuse a request that does not fit, before anything is charged or read.

        Args:
            budget: what it costs.
            conversion: of the advice; None for the one that its kind of noise allows.

        Raises:
            InsufficientBudget: says what was asked for, what is left, and the largest ε that fits.
        """
        if self.retired:
            raise InsufficientBudget(f"{self.source} is retired: its owner decided that nothing more is released of it")
        self.check_kind(budget)
        if budget.pure and budget.exact_epsilon <= self.pure_left:
            return
        by_sum = budget.gdp <= self.gdp_left if self._is_by_gdp(budget) else budget.rho <= self.rho_left
        if by_sum and not self.pure:
            return
        at = "" if self.pure else f" at delta {up(self.delta)}"
        raise InsufficientBudget(
            f"{more_than_left(self.source, self.fitting_like(budget, conversion), budget)}. Of epsilon "
            f"{up(self.epsilon)}{at}, {self.spent_words} is spent{self.why(budget)}"
        )

    def why(self, budget: Budget) -> str:
        """Why what is spent and what is left are not the whole; empty where they are."""
        if self.pure:
            return ""
        if budget.pure and self.is_by_pure:
            return ""
        if budget.pure and self.pure_spent is None:
            return f", and {DEAR}"
        if not self.is_by_pure or not self.releases:
            return f", and {ADD_UP}"
        more = self.fitting_by_pure
        return f", and {PURE_SO_FAR}" + (f"; a pure one may ask for {down(more)}" if more else "")

    def check_kind(self, budget: Budget) -> None:
        """Refuse a request that could never be charged, whatever is left: one with a δ, of an account without.

        Raises:
            InvalidArgument: says what can be.
        """
        if self.pure and not budget.pure:
            raise InvalidArgument(
                f"delta is {up(budget.delta)}, but {self.source} promises pure epsilon (delta 0): leave delta out, and "
                f"{ASK_LAPLACE}"
            )


ADD_UP: Final = "several releases together lose less than the sum of their ε"
"""Why what is spent and what is left are more than the whole; not so of pure ε, which add up."""
DEAR: Final = (
    "after a release with a delta, pure ones count by their rho: one of ε costs up to ε²/2, more than one of the same "
    "ε with Gaussian noise; a table with pure releases alone counts them by the sum of their ε"
)
"""Why a pure release is refused that is smaller than what is left at the account's δ."""
PURE_SO_FAR: Final = "its releases so far are pure, which count by the sum of their ε only as long as there is no other"
"""Why little or nothing is left for a release with a δ."""


def more_than_left(who: str, fitting: float, budget: Budget, of: str = "") -> str:
    """What is said of a request that does not fit.

    Args:
        who: has too little.
        fitting: the largest ε that fits.
        budget: of the request.
        of: what they have it of, in words.
    """
    has = f"ε = {down(fitting)}" if fitting else "nothing"
    at = f" at delta {up(budget.delta)}" if budget.delta else ""
    return f"{who} has {has} left{of}; this asks for {up(budget.epsilon)}{at}"


def sums_delta(delta: float, reserved: float) -> float:
    """What is left of δ for the sums where some is kept for discoveries."""
    return delta - reserved * (1 + _ROUNDING)


def _five_digits(value: float) -> float:
    """Rounded down to five digits.

    >>> _five_digits(0.1234567), _five_digits(0.0)
    (0.12345, 0.0)
    """
    if value <= 0:
        return 0.0
    scale = 10.0 ** (4 - math.floor(math.log10(value)))
    return math.floor(value * scale) / scale
