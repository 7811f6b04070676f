"""The plan of a synthetic table: from what was looked up to what is charged. Pure: no database, nothing private.

facts     the table, its account, the domain and the workload, from the catalogue and the books (`lookup`)
plan      the mechanism, its questions, (ε, δ) to ρ, the canonical request and its key
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import dpsql.mechanisms  # noqa: F401 - registers them
from dpsql.core.domain import Domain
from dpsql.core.names import shorten
from dpsql.core.threshold import identity_of
from dpsql.core.workload import Workload
from dpsql.engines.costs import Rates
from dpsql.engines.source import Source
from dpsql.errors import DomainTooLarge, InvalidArgument
from dpsql.mechanisms.auto import Facts, choose
from dpsql.mechanisms.base import Mechanism, PlannedMeasurement, Remark, explicit_options, name_of
from dpsql.mechanisms.defaults import Meaning, has_defaults, is_faithful
from dpsql.mechanisms.promises import NamesAccuracy
from dpsql.privacy.account import Account
from dpsql.privacy.accounting import Budget
from dpsql.privacy.noise import check_scale
from dpsql.privacy.pricing import Questions, declared, price
from dpsql.release.least import Pricing, accuracy_remarks, enough
from dpsql.release.linked import Members
from dpsql.release.planned import Planned, canonical_request, digest
from dpsql.release.request import Request, asked_delta
from dpsql.runtime.memory import in_words, machine_memory

_DEFAULTS: Final = 2  # those of the version before were the first
_MOST_QUESTIONS: Final = 10**6  # that share a charge equally, with noise that can still be drawn


@dataclass(frozen=True)
class TableFacts:
    """What a request for a synthetic table names, looked up: public facts, and all that a plan depends on.

    Attributes:
        source: the table, its columns in the types in which they come out.
        account: of the table, at that time.
        domain: of the columns asked for.
        workload: parsed, in order.
        prior: the names that lead to the public table, without its database where that is the source's; None of none.
        alone: the user whose release it is alone; empty where it is the owner's, or users share releases.
        cannot: counts that the table's engine cannot make, each with what works instead.
        rates: how fast that engine counts; None of a table of the database itself.
        before: what the workload meant to an earlier version, to which sums stood for the marginals of what they read,
            and linked tables for all pairs of columns; None where that is the same.
        keys: the columns by which rows of a linked table lead to the table above.
        linked: the tables of a linked release, whose root is `source` and whose rows of units have `domain`.
    """

    source: Source
    account: Account
    domain: Domain
    workload: Workload
    prior: tuple[str, ...] | None = None
    alone: str = ""
    cannot: Mapping[str, str] = field(default_factory=dict, compare=False)
    rates: Rates | None = field(default=None, compare=False)
    before: Workload | None = field(default=None, compare=False)
    keys: tuple[str, ...] = field(default=(), compare=False)
    linked: Members | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Plan(Planned[Request, TableFacts]):
    """What a request for a synthetic table will be charged for.

    Attributes:
        mechanism: with its options.
        questions: that it declares.
        choice: why `auto` chose the mechanism; empty where the request names it.
    """

    mechanism: Mechanism
    questions: Questions
    choice: str

    @property
    def domain(self) -> Domain:
        """Of the columns asked for."""
        return self.facts.domain

    @property
    def linked(self) -> Members | None:
        """The tables of a linked release; None of a release of one table."""
        return self.facts.linked

    @property
    def workload(self) -> Workload:
        """What the synthetic table is to be good at."""
        return self.facts.workload

    @property
    def label(self) -> str:
        """What the ledger calls it."""
        return name_of(self.mechanism)

    @property
    def by(self) -> str:
        """The user who asks; empty for the owner."""
        return self.request.by

    def questions_of(self, rows: float) -> Sequence[PlannedMeasurement | Remark]:
        """The questions that the mechanism would ask of about so many rows, and what it says beside them."""
        neighbours, charged = self.account.neighbours, self.charged(rows).rho
        planned = self.mechanism.plan(self.domain, self.workload, neighbours, charged, rows)
        return [*planned, *accuracy_remarks(self.mechanism, self.domain, self.workload, neighbours, self.pricing, rows)]

    def charged(self, rows: float) -> Budget:
        """What is charged for so many rows: where their number is public, no more than an accuracy takes."""
        if not self.may_cost_less:
            return self.budget
        neighbours, pricing = self.account.neighbours, self.pricing
        return enough(self.mechanism, self.domain, self.workload, neighbours, pricing, rows) or self.budget

    @property
    def may_cost_less(self) -> bool:
        """Whether the number of rows decides what is charged: it is public, and the request names an accuracy."""
        named = isinstance(self.mechanism, NamesAccuracy) and self.mechanism.alpha is not None
        return named and self.account.neighbours.total_is_public

    @property
    def pricing(self) -> Pricing:
        """What an ε costs with these questions."""
        return Pricing(self.questions, self.budget)


def plan_table(request: Request, facts: TableFacts, *, meaning: Meaning = Meaning.NOW) -> Plan:
    """What a request is charged for.

    Args:
        request: the request.
        facts: what it names.
        meaning: as which version planned it, with its defaults; see `dpsql.mechanisms.defaults`.

    Raises:
        InvalidArgument: ε, δ, the mechanism or an option of it is out of its range.
    """
    account, domain, workload = facts.account, facts.domain, facts.workload
    delta = asked_delta(account, request.epsilon, request.delta)
    order = max((len(clique) for clique in workload.cliques), default=0)
    pure, prior = account.pure or delta == 0, request.prior is not None
    mechanism_facts = Facts(pure, request.epsilon, prior, bool(workload.thresholds), order, bool(workload.linear))
    mechanism, choice = choose(request.mechanism, request.options, mechanism_facts, meaning=meaning)
    if workload.linear and not mechanism.takes_linear:
        instead = "direct" if pure else "projection"
        raise InvalidArgument(
            f"{name_of(mechanism)} answers no linear queries, such as {shorten(workload.linear[0].text)}: say "
            f"mechanism := '{instead}', or count(*) in place of the sum, which asks for the marginal of its columns"
        )
    questions = declared(mechanism.questions(domain, workload, account.neighbours))
    budget = price(questions, request.epsilon, delta)
    canonical = _canonical(request, facts, budget, mechanism, meaning)
    return Plan(request, facts, canonical, budget, mechanism, questions, choice)


def with_domain(plan: Plan) -> Plan:
    """The plan of a request whose own key belongs to a release of other domains: its key holds its domains, too.

    A key does not hold them otherwise, so that the releases of earlier versions keep theirs.
    """
    fields = {**json.loads(plan.canonical), "domain": digest(plan.domain.to_json())}
    return replace(plan, canonical=json.dumps(fields, ensure_ascii=False, sort_keys=True))


def check_questions(plan: Plan) -> None:
    """Refuse a new release that the mechanism cannot make.

    Raises:
        DpsqlError: a child says what is wrong, and what mends it.
    """
    account, mechanism = plan.account, plan.mechanism
    mechanism.check(plan.domain, plan.workload, account.neighbours)
    for unit in (account.unit_column, *plan.facts.keys):
        mechanism.check_unit(unit)
    mechanism.check_prior(given=plan.request.prior is not None)
    if mechanism.draws_rows and "among" in plan.facts.cannot:
        raise InvalidArgument(
            f"mechanism {name_of(mechanism)!r} draws a sample of the rows, which engine {plan.source.engine!r} of "
            f"{plan.source.name!r} cannot count; {plan.facts.cannot['among']}"
        )
    needed, limit = mechanism.footprint(plan.domain, plan.workload), machine_memory()
    if needed > limit:
        raise DomainTooLarge(
            f"{plan.label} needs about {in_words(needed)} of memory for this request, {in_words(limit)} may be taken: "
            "ask for fewer or smaller marginals, declare coarser domains with dp_domain, or lower the options that "
            "make it larger, such as relaxed_rows, rounds, points or max_cells"
        )


def check_drawable(plan: Plan) -> None:
    """Refuse noise that is too wide to be drawn.

    Raises:
        InvalidArgument: it may be.
    """
    check_scale(plan.account.neighbours.cell * math.sqrt(_MOST_QUESTIONS / (2 * plan.budget.rho)))


def check_not_drowned(plan: Plan, rows: int) -> None:
    """Refuse a release of which every count would be noise, where the number of rows is public.

    Raises:
        InvalidArgument: the least noise of a count is larger than the table.
    """
    stddevs = (m.stddev for m in plan.questions_of(max(1, rows)) if isinstance(m, PlannedMeasurement))
    least = min((stddev for stddev in stddevs if stddev), default=0.0)
    if least > rows > 0:
        raise InvalidArgument(
            f"epsilon is {plan.request.epsilon:g}, too small for the {rows} rows of {plan.source.name!r}: the "
            f"noise of every count would have a standard deviation of {least:.3g} rows or more; dp_plan shows it, and "
            "max_error there finds the epsilon that is enough"
        )


def workload_digest(workload: Workload) -> str:
    """By which a canonical request tells workloads apart."""
    parts: list[Any] = sorted(workload.cliques)
    parts += sorted([threshold.least, *threshold.clique] for threshold in workload.thresholds)
    parts += [[identity_of(part), weight] for part, weight in workload.weights]
    parts += [["linear", family.digest] for family in workload.linear]
    return digest(json.dumps(parts, ensure_ascii=False))


def _linked(members: Members, domain: Domain) -> dict[str, Any]:
    """What a linked release depends on beside: the tree, and all domains, for no other release stands for it."""
    return {"linked": members.to_json(), "domain": digest(domain.to_json())}


def _canonical(request: Request, facts: TableFacts, budget: Budget, mechanism: Mechanism, meaning: Meaning) -> str:
    """The canonical request.

    Of a mechanism whose defaults are others than they were it says so, so that none is taken for an earlier version's.
    """
    return canonical_request(
        facts,
        {
            "epsilon": repr(budget.epsilon),
            "delta": repr(budget.delta),
            "workload": workload_digest(facts.workload),
            "marginals": len(facts.workload),
            "mechanism": name_of(mechanism),
            "options": explicit_options(mechanism),
            "rows": request.rows,
            "columns": None if request.columns is None else [a.name for a in (*facts.domain, *facts.domain.excluded)],
            "prior": facts.prior,
            "reuse": bool(
                request.reuse and facts.linked is None and mechanism.uses_earlier and not is_faithful(request.options)
            ),
            "release": request.release,
            **({} if meaning is Meaning.FIRST or not has_defaults(type(mechanism)) else {"defaults": _DEFAULTS}),
            **({} if facts.linked is None else _linked(facts.linked, facts.domain)),
        },
        facts.alone,
    )
