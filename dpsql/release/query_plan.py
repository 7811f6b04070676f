"""The plan of a query: from what was looked up to what is charged. Pure: no database, nothing private.

facts     the query taken apart, its table, account and domain, and which public tables it joins (`lookup`)
plan      (ε, δ) to ρ, the canonical request and its key
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpsql.core.domain import Domain
from dpsql.core.linear_query import LinearQuery
from dpsql.engines.source import Source
from dpsql.errors import InvalidArgument
from dpsql.language.expressions import sql_of
from dpsql.language.query import Aggregate, Query
from dpsql.privacy.account import Account
from dpsql.privacy.accounting import Budget
from dpsql.privacy.distributions import noise_names
from dpsql.privacy.linear import linear_scales
from dpsql.privacy.noise import check_scale
from dpsql.privacy.pricing import Part, Questions, price
from dpsql.release.planned import Planned, canonical_request, digest
from dpsql.release.request import QueryRequest, asked_delta


@dataclass(frozen=True)
class QueryFacts:
    """What a query names, looked up: public facts, and all that a plan depends on.

    Attributes:
        source: the protected table, its columns in the types in which they come out.
        account: of the table, at that time.
        domain: of the columns that the query reads.
        query: taken apart.
        joined: names and digests of the contents of the public tables that it joins.
        alone: the user whose release it is alone; empty where it is the owner's, or users share releases.
    """

    source: Source
    account: Account
    domain: Domain
    query: Query
    joined: tuple[tuple[str, str], ...] = ()
    alone: str = ""


@dataclass(frozen=True)
class QueryPlan(Planned[QueryRequest, QueryFacts]):
    """What a query will be charged for: ρ is 0 where it is answered from what earlier releases measured."""

    @property
    def domain(self) -> Domain:
        """Of the columns that the query reads."""
        return self.facts.domain

    @property
    def query(self) -> Query:
        """Taken apart."""
        return self.facts.query

    @property
    def label(self) -> str:
        """What the ledger calls it."""
        return f"query ({self.request.mechanism})"

    @property
    def questions(self) -> Questions:
        """What it asks the curator."""
        return questions_of(self.request)

    @property
    def by(self) -> str:
        """The user who asks; empty for the owner."""
        return self.request.by

    @property
    def is_free(self) -> bool:
        """Whether it is answered from what earlier releases measured."""
        return self.request.epsilon == 0


def check_mechanism(request: QueryRequest) -> None:
    """Refuse noise that no query has.

    Raises:
        InvalidArgument: it is another word.
    """
    if request.mechanism not in noise_names():
        words = " or ".join(map(repr, noise_names()))
        raise InvalidArgument(f"mechanism is {request.mechanism!r}: a query takes {words} noise")


def delta_of(request: QueryRequest, account: Account) -> float:
    """The δ of a request.

    Raises:
        InvalidArgument: ε or δ is out of its range.
    """
    return asked_delta(account, request.epsilon or 1.0, request.delta)


def plan_query(request: QueryRequest, facts: QueryFacts) -> QueryPlan:
    """What a query is charged for.

    Raises:
        InvalidArgument: ε or δ is out of its range.
    """
    delta = delta_of(request, facts.account)
    free = Budget(0.0, delta, Fraction(0), Fraction(0))
    budget = free if request.epsilon == 0 else price(questions_of(request), request.epsilon, delta)
    canonical = canonical_query(request, facts, budget)
    return QueryPlan(request, facts, canonical, budget)


def questions_of(request: QueryRequest) -> Questions:
    """All of ρ goes to one question, or all of ε where the noise proves a pure ε."""
    noise = request.noise
    return Questions.pure(Part(noise, 1, Fraction(1))) if noise.pure else Questions.of(noise)


def check_noise(plan: QueryPlan, linear: LinearQuery) -> None:
    """Refuse noise that is too wide to be drawn, or to be added to sums in 64 bits."""
    noise = plan.request.noise
    scales = linear_scales(linear, plan.budget.rho, plan.account.neighbours, noise)
    check_scale(max(map(noise.width, scales), default=0.0))


def _identity(aggregate: Aggregate) -> list[Any]:
    """An aggregate as the key has it, where the order of filters means nothing."""
    kind, argument, filters, *more = aggregate.identity(sql_of)
    if more:
        more[-1] = [_identity(side) for side in aggregate.sides]
    return [kind, argument, sorted(filters), *more]


def canonical_query(request: QueryRequest, facts: QueryFacts, budget: Budget) -> str:
    """What is measured and at which budget, as JSON; equal texts are the same release."""
    query = facts.query
    questions = {
        "keys": [sql_of(tree) for tree in query.keys],
        "sets": query.sets,
        "filters": sorted(map(sql_of, query.filters)),
        "aggregates": [_identity(a) for a in query.aggregates],
        "domain": digest(facts.domain.to_json()),
        "types": [[column.name, column.type] for column in facts.source.columns if column.name in facts.domain.by_name],
        "joined": [list(named) for named in facts.joined],
    }
    if query.scope.preserved is not None:  # left out otherwise, because keys of earlier requests lack it
        questions["preserved"] = [query.scope.preserved.dimension.name, sorted(map(sql_of, query.matches))]
    return canonical_request(
        facts,
        {
            "query": questions,
            "epsilon": repr(budget.epsilon),
            "delta": repr(budget.delta),
            "mechanism": request.mechanism,
            "release": request.release,
        },
        facts.alone,
    )
