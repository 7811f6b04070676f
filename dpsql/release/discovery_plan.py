"""The plan of a discovery: from what was looked up to what is charged. Pure: no database, nothing private.

facts     the table, its account, the column and the public bounds between which edges lie (`lookup`)
plan      (ε, δ) to ρ and δ′, the canonical request and its key
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Final

from dpsql.core.domain import Attribute, Domain
from dpsql.engines.source import Column, Source
from dpsql.errors import InvalidArgument
from dpsql.privacy.account import Account
from dpsql.privacy.accounting import Budget, check_delta
from dpsql.privacy.distributions import GAUSSIAN
from dpsql.privacy.pricing import Questions, price
from dpsql.release.planned import Planned, canonical_request
from dpsql.release.request import DiscoveryRequest

QUESTIONS: Final = Questions.of(GAUSSIAN)
_DEFAULT_PART: Final = 10  # of the table's δ, one discovery of values takes a tenth by default
_LEAST_HEAVY: Final = 0.01


@dataclass(frozen=True)
class DiscoveryFacts:
    """What a discovery names, looked up: public facts, and all that a plan depends on.

    Attributes:
        source: the protected table.
        account: of the table, at that time.
        column: to discover.
        whole: the range in one bin for each that is wanted, of equal width; None for values.
        nullable, other: of the domain.
        nulls_as: values that stand for NULL.
    """

    source: Source
    account: Account
    column: Column
    whole: Attribute | None
    nullable: bool
    other: str | None
    nulls_as: tuple[str, ...] = ()


@dataclass(frozen=True)
class DiscoveryPlan(Planned[DiscoveryRequest, DiscoveryFacts]):
    """What a discovery will be charged for.

    Attributes:
        failure: δ′, the part of δ that is for the values which are published.
    """

    failure: float
    domain: ClassVar[Domain] = Domain(())
    questions: ClassVar[Questions] = QUESTIONS

    @property
    def label(self) -> str:
        """What the ledger calls it."""
        if self.facts.whole is None:
            return "discover (values)"
        return "discover (bins)" if self.request.heavy is None else "discover (bins, points)"


def plan_discovery(request: DiscoveryRequest, facts: DiscoveryFacts) -> DiscoveryPlan:
    """What a discovery is charged for.

    Raises:
        InvalidArgument: ε or δ is out of its range, or the table promises pure ε.
    """
    if request.heavy is not None and not _LEAST_HEAVY <= request.heavy <= 1:
        raise InvalidArgument(
            f"heavy is {request.heavy:g}: give a part of the rows, from {_LEAST_HEAVY:g} on, such as 0.05"
        )
    of_values = facts.whole is None or request.heavy is not None
    budget, failure = _cost(request, facts.account, of_values=of_values)
    canonical = _canonical(request, facts, budget)
    return DiscoveryPlan(request, facts, canonical, budget, failure)


def _cost(request: DiscoveryRequest, account: Account, *, of_values: bool) -> tuple[Budget, float]:
    """ρ for (ε, δ), and δ′: half of δ where values are discovered, which are (ε, δ/2)-DP plus δ/2."""
    if account.pure:
        raise InvalidArgument(
            f"{account.source} promises pure epsilon (delta 0), which no discovery does: declare the domain, with "
            "\"values\" := […], lower := … and upper := …, or reference := 'table.column'"
        )
    if not of_values:
        return price(QUESTIONS, request.epsilon, account.delta if request.delta is None else request.delta), 0.0
    delta = check_delta(account.delta / _DEFAULT_PART if request.delta is None else request.delta)
    return replace(price(QUESTIONS, request.epsilon, delta / 2), delta=delta), delta / 2


def _canonical(request: DiscoveryRequest, facts: DiscoveryFacts, budget: Budget) -> str:
    whole = facts.whole
    later: dict[str, object] = {}  # left out where it is not said, because keys of earlier requests lack it
    if facts.nulls_as:
        later["nulls_as"] = list(facts.nulls_as)
    if whole is not None and whole.text:
        later["read_as"] = whole.type + whole.suffix
    if request.heavy is not None:
        later["heavy"] = repr(request.heavy)
    return canonical_request(
        facts,
        {
            "discover": [facts.column.name, facts.column.type],
            "range": None if whole is None else [repr(whole.ticks[0]), repr(whole.ticks[-1]), whole.regular],
            "nullable": facts.nullable,
            "other": facts.other,
            "epsilon": repr(request.epsilon),
            "delta": repr(budget.delta),
            **later,
        },
    )
