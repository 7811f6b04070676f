"""`dp_synthesize`: a request to a synthetic table, by the path of every release (`dpsql.release.pipeline`).

look up   the table, its account, domain and workload: from the catalogue and the books only (`lookup`)
plan      the mechanism, (ε, δ) to ρ, the key (`plan`); so binding a statement is free
make      the mechanism asks the curator and fits a model; its rows are a table of the books
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import numpy as np

from dpsql.books.ledger.store import Books
from dpsql.books.reading.priors import find_prior, load_prior
from dpsql.books.releases import publication
from dpsql.books.releases.releases import Entry, find_release, no_rows, under_way
from dpsql.books.tables.facts import constraints
from dpsql.books.tables.links import bound_of
from dpsql.core.domain import Domain
from dpsql.core.prior import Prior
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.protocol import Engine
from dpsql.errors import DomainTooLarge, DpsqlError, InvalidArgument
from dpsql.evaluation.computed import check_bound, computed_values
from dpsql.evaluation.constraints import find_allowed, refuse_impossible, settle_bins
from dpsql.evaluation.decode import released_columns
from dpsql.evidence.earlier_releases import consistent
from dpsql.evidence.occupied import Occupied, occupied
from dpsql.mechanisms.defaults import meanings
from dpsql.models.fitness import Fitness
from dpsql.models.model import Model
from dpsql.owner.periods import check_declared
from dpsql.owner.stand_ins import check_installed, stand_ins
from dpsql.privacy.accounting import Budget
from dpsql.release.allowed import require_affordable
from dpsql.release.drawing import coded, rows_to_draw, shuffled
from dpsql.release.linear import linear_report, measured_linear
from dpsql.release.linked_rows import publish_linked
from dpsql.release.lookup import look_up_table
from dpsql.release.members import check_members
from dpsql.release.pipeline import Run
from dpsql.release.plan import Plan, check_drawable, check_not_drowned, check_questions, plan_table, with_domain
from dpsql.release.request import Request, check_name, check_rows


@dataclass(frozen=True)
class Resolved(Plan):
    """A planned synthetic table, and whether it was charged before.

    Attributes:
        entry: the release, if it was charged before.
    """

    entry: Entry | None

    by_mechanism: ClassVar[bool] = True
    failure: ClassVar[None] = None

    def charged(self, rows: float) -> Budget:
        """See `Plan.charged`; of a release that was charged before it is what that was."""
        if self.entry is None or not self.may_cost_less:
            return super().charged(rows)
        return self.pricing.least(self.entry.rho) or self.budget

    @property
    def is_published(self) -> bool:
        """Whether the release was made before."""
        return self.entry is not None and self.entry.state == "published"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the synthetic table, in the source's order: those that it was charged for."""
        excluded = (attribute.name for attribute in self.domain.excluded)
        if self.linked is not None:
            return self.linked.of[self.linked.requested].columns
        names = {*self.domain.names, *excluded} if self.entry is None else {*self.entry.columns}
        return tuple(column.name for column in self.source.columns if column.name in names)

    @property
    def place(self) -> int:
        """Which of the tables of its release is asked for; the root's is the first."""
        return 0 if self.linked is None else self.linked.place

    def schema(self) -> str:
        """A SELECT with the columns of the synthetic table."""
        if self.entry is not None and self.entry.state == "published":
            return no_rows(self.source.catalog, self.entry, self.place)
        if self.linked is not None:
            member = self.linked.of[self.linked.requested]
            return released_columns(member.source, member.columns, (*member.domain, *member.domain.excluded)).sql(
                dialect="duckdb"
            )
        domain = self.domain if self.entry is None else self.entry.domain
        return released_columns(self.source, self.columns, (*domain, *domain.excluded)).sql(dialect="duckdb")

    def again(self, cursor: Cursor) -> Resolved:
        """See `Work.again`: the database may be another one, the table altered."""
        now = resolve(cursor, self.request)
        if not now.is_published and self.settled != now.settled:
            raise DpsqlError("the table or its protection changed since the statement was bound: run it again")
        return now

    @property
    def settled(self) -> tuple[object, ...]:
        """What must not change between bind and charge."""
        account = self.account
        linked = None if self.linked is None else self.linked.settled
        facts = (self.key, self.source, account.source, account.neighbours, self.questions, self.budget, self.columns)
        return (*facts, account.way, linked)

    def public_rows(self, cursor: Cursor) -> Prior | None:
        """See `Work.public_rows`: in the codes of the domain that the release is or will be charged for."""
        request = self.request
        if request.prior is None:
            return None
        domain = self.domain if self.entry is None else self.entry.domain
        return load_prior(cursor, request.prior, request.search_path, self.source, domain, request.by)

    def affordable(self, engine: Engine, books: Books) -> Budget:
        """See `Work.affordable`: where the number of rows is public, which is the only thing read."""
        neighbours, source = self.account.neighbours, self.source
        if neighbours.total_is_public:
            counter = engine.counter(source, self.domain, bound_of(books, source.key), once=True)
            rows = int(counter.marginal(()).counts[0])
            counter.close()
            self.mechanism.check_public_rows(self.domain, self.workload, neighbours, self.budget.rho, rows)
            check_not_drowned(self, rows)
            return self.charged(rows)
        return self.budget

    def counted(self, entry: Entry) -> Domain:
        """See `Work.counted`: as it was when it was charged."""
        return entry.domain

    def make(self, run: Run) -> Entry:
        """See `Work.make`: the mechanism asks and fits; rows are drawn and stored."""
        entry, curator = run.entry, run.curator
        seed = int(entry.key[:15], 16)
        outcome = self.mechanism.run(curator, self.workload, entry.rho, seed, run.progress)
        answers = run.journal.whole()
        measured = [a.measurement for a in answers if a.measurement is not None and a.question.of_cells]
        linear = measured_linear(self.workload, answers)
        agreeing = curator.earlier if consistent(measured, curator.earlier) else ()  # else the table has changed since
        report = dict(outcome.report)
        if curator.earlier:
            report = {"reused": 0, **report, **({} if agreeing else _CHANGED)}
        if self.choice:
            report["choice"] = self.choice
        held = occupied(entry.domain, [*measured, *agreeing])
        if held.outside:
            report["outside"] = {name: round(share, 4) for name, share in held.outside.items()}
        run.close()
        thresholds = () if self.workload.cliques else self.workload.thresholds
        fit = Fitness.of(outcome.model, [*measured, *linear], thresholds)
        if "residual" in report:  # of a fit that knows more than this release measured
            report["loss"] = round(fit.cells * float(report["residual"]) / 2, 2)
        else:
            report |= fit.report
            report.setdefault("warning", fit.warning)  # None is no part of a report
        report |= linear_report(outcome.model, linear)
        if not np.isfinite(outcome.model.total):
            raise DpsqlError(
                "the fit gave no finite total; the same call tries again from the stored measurements, free"
            )
        rows = self.request.rows
        linked = self.linked
        if rows is None:
            rows, words = rows_to_draw(entry, measured, outcome.model)
            report |= {"rows": words} if words else {}
        report = {name: value for name, value in report.items() if value is not None}
        if linked is not None:
            return publish_linked(run, linked, measured, held, outcome.model, rows, report)
        return self._publish(run, held, outcome.model, rows, report)

    def _publish(self, run: Run, held: Occupied, model: Model, rows: int, report: Mapping[str, Any]) -> Entry:
        """Draw the rows and store them."""
        entry = run.entry
        allowed = find_allowed(self.source, entry.domain, constraints(run.books, entry.source))
        generator = np.random.default_rng()
        codes = model.sample(rows, generator, run.progress, held.restricted(allowed))
        run.progress.stage("storing")
        codes = shuffled(entry.domain, codes, generator)  # a LIMIT then shows all kinds of rows
        columns = [column.name for column in self.source.columns if column.name in entry.columns]
        frame = coded(entry.domain, codes, generator)
        settle_bins(self.source, entry.domain, allowed, codes, frame, generator)
        frame |= stand_ins(entry.domain, len(codes), generator) | computed_values(self.source, entry.domain, frame)
        del codes  # the frame has them
        return publication.publish(run.books, entry, self.source, columns, frame, report)


_CHANGED: Final = {"earlier": "what earlier releases measured contradicts this one, so the table changed: left out"}


def resolve(cursor: Cursor, request: Request, *, to_charge: bool = True) -> Resolved:
    """Look up and plan a request, and check what could not be charged; free.

    Args:
        cursor: a connection of its own.
        request: the request.
        to_charge: refuse what could not be charged now; a plan need not be.

    Raises:
        DpsqlError: a child says what is wrong, and what mends it.
    """
    check_rows(request.rows)
    check_name(request.release)
    planned, books, entry = _plan_or_entry(cursor, request)
    linked = planned.linked
    if entry is not None and entry.state in ("reserved", "measured"):
        check_installed(entry.domain, is_paid=True)
        if linked is not None:
            check_members(linked, books, is_paid=True)
    if entry is None:
        check_installed(planned.domain)
        check_questions(planned)
        if linked is not None:
            check_members(linked, books)
        else:
            _check_public_facts(cursor, books, planned)
    check_drawable(planned)
    if entry is None:
        planned.account.check_kind(planned.budget)
    if entry is None and to_charge:
        books.check_writable()
        if linked is not None:
            _refuse_unfinished(books, planned)
        if not planned.may_cost_less:  # else the charge itself is compared with what is left
            require_affordable(books, planned)
    return Resolved(**vars(planned), entry=entry)


def _plan_or_entry(cursor: Cursor, request: Request) -> tuple[Plan, Books, Entry | None]:
    """The plan of a request, the books, and its release if there is one, be it made with an earlier version's defaults.

    Such a release is told again, or completed, as it was charged: the request meant it then.
    """
    facts = look_up_table(cursor, request)
    books = Books(cursor, facts.source.catalog)
    meant_facts = [facts] if facts.before is None else [facts, replace(facts, workload=facts.before, before=None)]
    readings = ((meant, meaning) for meant in meant_facts for meaning in meanings(request.options))
    plans: list[Plan | InvalidArgument | DomainTooLarge] = []
    for meant, meaning in readings:
        try:
            plan = plan_table(request, meant, meaning=meaning)
        except (InvalidArgument, DomainTooLarge) as refused:  # another reading may have been charged
            plans.append(refused)
            continue
        planned, entry = _with_release(books, plan)
        if entry is not None:
            return planned, books, entry
        plans.append(planned)
    if isinstance(plans[0], InvalidArgument | DomainTooLarge):
        raise plans[0]
    return plans[0], books, None


def _with_release(books: Books, planned: Plan) -> tuple[Plan, Entry | None]:
    """A plan with the release of its key; with a key of its own where that is of domains that were declared anew."""
    entry = find_release(books, planned.key)
    ended = entry is not None and entry.state in ("published", "failed")
    if entry is not None and ended and planned.linked is None and _declared_anew(entry.domain, planned.domain):
        planned = with_domain(planned)  # it answers another request; one that is under way is completed first
        entry = find_release(books, planned.key)
    return planned, entry


_SAID_OF_TABLES: Final = frozenset({"domain", "linked", "workload", "marginals", "earlier"})
"""Of the request of a linked release: what follows from its tables, their links and domains."""


def _refuse_unfinished(books: Books, planned: Plan) -> None:
    """Refuse to charge once more what was charged, and stopped, before its tables were declared otherwise.

    Its key holds all domains and links, so it is another request by now, and its rows could not be drawn by these.

    Raises:
        DpsqlError: there is such a release.
    """

    def own_words(request: str) -> dict[str, Any]:
        return {name: value for name, value in json.loads(request).items() if name not in _SAID_OF_TABLES}

    for entry in under_way(books, planned.source.key):
        if "linked" in json.loads(entry.request) and own_words(entry.request) == own_words(planned.canonical):
            raise DpsqlError(
                f"release {entry.number} of the same request was charged and stopped, and since then domains, links or "
                "columns of its tables changed. Make them what they were, and this call goes on with it, free; or say "
                "release := 'another name', which is charged anew"
            )


def _declared_anew(before: Domain, now: Domain) -> bool:
    """Whether the owner says something else of a column than when a release was charged; not of one added since."""
    domains = {attribute.name: attribute.inner for attribute in (*before, *before.excluded)}
    return any(domains.get(a.name, a.inner) != a.inner for a in (*now, *now.excluded))


def _check_public_facts(cursor: Cursor, books: Books, planned: Plan) -> None:
    """Refuse a prior that is not public, constraints that no row meets, and columns that cannot be computed."""
    request, source, domain = planned.request, planned.source, planned.domain
    if request.prior is not None:
        find_prior(cursor, request.prior, request.search_path, source, domain, request.by)
    check_declared(source, domain)
    refuse_impossible(source, domain, constraints(books, source.key))
    check_bound(source, domain)
