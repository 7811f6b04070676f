"""`dp_synthesize`: a request to a synthetic table, by the path of every release (`dpsql.release.pipeline`).

resolve   the table, its account and domain, the workload, the mechanism, (ε, δ) to ρ: from the catalogue and the
          books only, so binding a statement is free
make      the mechanism asks the curator and fits a model; its rows are a table of the books
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

import dpsql.mechanisms  # noqa: F401 - registers them
from dpsql.books import accounts, journal, publication
from dpsql.books.facts import constraints
from dpsql.books.lineage import Tables
from dpsql.books.priors import find_prior, load_prior
from dpsql.books.releases import Entry, find_release, no_rows
from dpsql.books.store import Books
from dpsql.core.domain import Domain
from dpsql.core.prior import Prior
from dpsql.core.threshold import identity_of
from dpsql.core.workload import Workload
from dpsql.engines.duckdb.catalog import Source, current_schema, find_source
from dpsql.engines.duckdb.counting import DuckDBCounter
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.errors import DpsqlError, InvalidArgument, InvalidWorkload
from dpsql.evaluation.constraints import find_allowed, refuse_impossible, settle_bins
from dpsql.evaluation.decode import released_columns
from dpsql.evaluation.sandbox import check_syntax
from dpsql.evidence.earlier_releases import consistent
from dpsql.evidence.occupied import Occupied, occupied
from dpsql.language.workloads import EXPECTED, is_shorthand, parse_workload
from dpsql.mechanisms.auto import Facts, choose
from dpsql.mechanisms.base import Mechanism, PlannedMeasurement, explicit_options, name_of
from dpsql.models.model import Model
from dpsql.owner.protect import account_of, as_released, domain_of
from dpsql.privacy.account import Account
from dpsql.privacy.accounting import Budget
from dpsql.privacy.noise import check_scale
from dpsql.privacy.pricing import Questions, declared, price
from dpsql.release.drawing import check_rows_fit, coded, rows_to_draw
from dpsql.release.pipeline import Run
from dpsql.release.request import Request, asked_delta, check_name, check_rows

_MOST_QUESTIONS: Final = 10**6  # that share a charge equally, with noise that can still be drawn


@dataclass(frozen=True)
class Resolved:
    """A request whose names are found and whose numbers are checked; nothing is charged yet.

    Attributes:
        request: as asked.
        key: SHA-256 of the canonical request.
        canonical: the canonical request as JSON; holds nothing that depends on rows.
        source: the table.
        account: of the table, at that time.
        domain: of the columns asked for.
        workload: parsed.
        mechanism: with its options.
        questions: that it declares.
        budget: what they cost.
        entry: the release, if it was charged before.
        choice: why `auto` chose the mechanism; empty where the request names it.
    """

    request: Request
    key: str
    canonical: str
    source: Source
    account: Account
    domain: Domain
    workload: Workload
    mechanism: Mechanism
    questions: Questions
    budget: Budget
    entry: Entry | None
    choice: str = ""

    by_mechanism: ClassVar[bool] = True
    failure: ClassVar[None] = None

    @property
    def is_published(self) -> bool:
        """Whether the release was made before."""
        return self.entry is not None and self.entry.state == "published"

    @property
    def label(self) -> str:
        """See `Work.label`."""
        return name_of(self.mechanism)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the synthetic table, in the source's order: those that it was charged for."""
        excluded = (attribute.name for attribute in self.domain.excluded)
        known = {*self.domain.names, *excluded} if self.entry is None else {*self.entry.columns}
        return tuple(column.name for column in self.source.columns if column.name in known)

    def schema(self) -> str:
        """A SELECT with the columns of the synthetic table."""
        if self.entry is not None and self.entry.state == "published":
            return no_rows(self.source.catalog, self.entry)
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
        return (self.key, self.source, account.source, account.neighbours, self.questions, self.budget, self.columns)

    def public_rows(self, cursor: Cursor) -> Prior | None:
        """See `Work.public_rows`: in the codes of the domain that the release is or will be charged for."""
        request = self.request
        if request.prior is None:
            return None
        domain = self.domain if self.entry is None else self.entry.domain
        return load_prior(cursor, request.prior, request.search_path, self.source, domain)

    def check_affordable(self, cursor: Cursor, books: Books) -> None:
        """See `Work.check_affordable`: where the number of rows is public, which is the only thing read."""
        neighbours, source = self.account.neighbours, self.source
        if neighbours.total_is_public:
            counter = DuckDBCounter(cursor, source, self.domain, accounts.bound(books, source.key), once=True)
            rows = int(counter.marginal(()).counts[0])
            counter.close()
            self.mechanism.check_public_rows(self.domain, self.workload, neighbours, self.budget.rho, rows)
            _check_not_drowned(self, rows)

    def counted(self, entry: Entry) -> Domain:
        """See `Work.counted`: as it was when it was charged."""
        return entry.domain

    def make(self, run: Run) -> Entry:
        """See `Work.make`: the mechanism asks and fits; rows are drawn and stored."""
        entry, curator = run.entry, run.curator
        seed = int(entry.key[:15], 16)
        outcome = self.mechanism.run(curator, self.workload, entry.rho, seed, run.progress)
        answers = journal.answers(run.books, entry.key)
        told = [answer.measurement for answer in answers if answer.measurement is not None]
        agreeing = curator.earlier if consistent(told, curator.earlier) else ()  # else the table has changed since
        report = dict(outcome.report)
        if curator.earlier:
            report = {"reused": 0, **report, **({} if agreeing else _CHANGED)}
        if self.choice:
            report["choice"] = self.choice
        held = occupied(entry.domain, [*told, *agreeing])
        if held.outside:
            report["outside"] = {name: round(share, 4) for name, share in held.outside.items()}
        run.close()
        if not np.isfinite(outcome.model.total):
            raise DpsqlError(
                "the fit gave no finite total; the same call tries again from the stored measurements, free"
            )
        rows = self.request.rows
        if rows is None:
            rows, words = rows_to_draw(entry, told, outcome.model)
            report |= {"rows": words} if words else {}
        report = {name: value for name, value in report.items() if value is not None}
        return self._publish(run, held, outcome.model, rows, report)

    def _publish(self, run: Run, held: Occupied, model: Model, rows: int, report: Mapping[str, Any]) -> Entry:
        """Draw the rows and store them."""
        entry = run.entry
        allowed = find_allowed(self.source, entry.domain, constraints(run.books, entry.source))
        generator = np.random.default_rng()
        codes = model.sample(rows, generator, run.progress, held.restricted(allowed))
        run.progress.stage("storing")
        codes = codes[generator.permutation(len(codes))]  # a LIMIT then shows all kinds of rows
        columns = [column.name for column in self.source.columns if column.name in entry.columns]
        frame = coded(entry.domain, codes, generator)
        settle_bins(self.source, entry.domain, allowed, codes, frame, generator)
        return publication.publish(run.books, entry, self.source, columns, frame, report)


_CHANGED: Final = {"earlier": "what earlier releases measured contradicts this one, so the table changed: left out"}


def _check_not_drowned(resolved: Resolved, rows: int) -> None:
    """Refuse a release of which every count would be noise, where the number of rows is public.

    Raises:
        InvalidArgument: the least noise of a count is larger than the table.
    """
    rho, neighbours = resolved.budget.rho, resolved.account.neighbours
    planned = resolved.mechanism.plan(resolved.domain, resolved.workload, neighbours, rho, max(1, rows))
    stddevs = (m.stddev for m in planned if isinstance(m, PlannedMeasurement))
    least = min((stddev for stddev in stddevs if stddev), default=0.0)
    if least > rows > 0:
        raise InvalidArgument(
            f"epsilon is {resolved.request.epsilon:g}, too small for the {rows} rows of {resolved.source.name!r}: the "
            f"noise of every count would have a standard deviation of {least:.3g} rows or more; dp_plan shows it, and "
            "max_error there finds the epsilon that is enough"
        )


def resolve(cursor: Cursor, request: Request, *, to_charge: bool = True) -> Resolved:
    """Find and check everything that a request names; free.

    Args:
        cursor: a connection of its own.
        request: the request.
        to_charge: refuse what could not be charged now; a plan need not be.

    Raises:
        DpsqlError: a child says what is wrong, and what mends it.
    """
    check_rows(request.rows)
    check_name(request.release)
    source = find_source(cursor, request.table, request.search_path)
    books = Books(cursor, source.catalog)
    account = account_of(books, source)
    delta = asked_delta(account, request.epsilon, request.delta)
    domain = domain_of(books, source, request.columns)
    check_rows_fit(request.rows, domain)
    source = as_released(source, domain)
    tables = Tables(cursor, request.search_path, source)
    workload = _workload_of(request, source, domain, tables).ordered()
    order = max((len(clique) for clique in workload.cliques), default=0)
    facts = Facts(account.pure, request.epsilon, request.prior is not None, bool(workload.thresholds), order)
    mechanism, choice = choose(request.mechanism, request.options, facts)
    questions = declared(mechanism.questions(domain, workload, account.neighbours))
    budget = price(questions, request.epsilon, delta)
    catalog, schema = current_schema(cursor, request.search_path)
    prior = None if request.prior is None else (catalog, schema, request.prior)[catalog == source.catalog :]
    canonical = _canonical(request, source, account, budget, domain, workload, mechanism, prior)
    key = hashlib.sha256(canonical.encode()).hexdigest()
    entry = find_release(books, key)
    if entry is None:
        mechanism.check(domain, workload, account.neighbours)
        mechanism.check_unit(account.unit_column)
        mechanism.check_prior(given=request.prior is not None)
        if request.prior is not None:
            find_prior(cursor, request.prior, request.search_path, source, domain)
        refuse_impossible(source, domain, constraints(books, source.key))
    check_scale(account.neighbours.cell * math.sqrt(_MOST_QUESTIONS / (2 * budget.rho)))
    if entry is None:
        account.check_kind(budget)
    if entry is None and to_charge:
        books.check_writable()
        account.require(budget, questions.conversion)
    return Resolved(
        request, key, canonical, source, account, domain, workload, mechanism, questions, budget, entry, choice
    )


def _workload_of(request: Request, source: Source, domain: Domain, tables: Tables) -> Workload:
    """What a request's workload asks for; what DuckDB cannot parse either is refused in DuckDB's words, as a query is.

    Raises:
        InvalidWorkload: see `parse_workload`.
    """
    try:
        return parse_workload(request.workload, source.parts, domain, tables)
    except InvalidWorkload:
        if request.workload and not is_shorthand(request.workload):
            check_syntax(request.workload, "workload", InvalidWorkload, EXPECTED)
        raise


def _canonical(
    request: Request,
    source: Source,
    account: Account,
    budget: Budget,
    domain: Domain,
    workload: Workload,
    mechanism: Mechanism,
    prior: tuple[str, ...] | None,
) -> str:
    asked: list[Any] = sorted(workload.cliques)
    asked += sorted([threshold.least, *threshold.clique] for threshold in workload.thresholds)
    asked += [[identity_of(part), weight] for part, weight in workload.weights]
    cliques = json.dumps(asked, ensure_ascii=False).encode()
    return json.dumps(
        {
            "source": source.key,
            "since": account.since,
            "epsilon": repr(budget.epsilon),
            "delta": repr(budget.delta),
            "workload": hashlib.sha256(cliques).hexdigest(),
            "marginals": len(workload),
            "mechanism": name_of(mechanism),
            "options": explicit_options(mechanism),
            "rows": request.rows,
            "columns": None if request.columns is None else [a.name for a in (*domain, *domain.excluded)],
            "prior": prior,
            "reuse": bool(request.reuse and mechanism.uses_earlier),
            "release": request.release,
        },
        ensure_ascii=False,
        sort_keys=True,
    )
