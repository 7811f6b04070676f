"""Request to release: the one path that every release takes.

    resolve   the table, its account and domain, the workload, the mechanism, (ε, δ) to ρ: from the catalogue and the
              books only, so binding a statement is free
    charge    ρ, in one durable transaction, before any private row is read; the same request again finds the release
    measure   the mechanism asks the curator, whose noisy answers are stored before they are used
    publish   the synthetic rows, as a table of the books

A run that was killed or interrupted is resumed by the same request from what is stored, at no cost.
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

import numpy as np

import dpsql.mechanisms  # noqa: F401 - registers them
from dpsql.books.lineage import Tables
from dpsql.books.priors import find_prior, load_prior
from dpsql.books.store import MOST_RETRIES, Books, Entry, no_rows
from dpsql.core.domain import Domain, public_type
from dpsql.core.marginal import Measurement
from dpsql.core.neighbours import Neighbours
from dpsql.core.prior import Prior
from dpsql.core.threshold import identity_of
from dpsql.core.workload import Workload
from dpsql.engines.duckdb.catalog import Source, current_schema, find_source
from dpsql.engines.duckdb.counting import DuckDBCounter
from dpsql.engines.duckdb.cursors import Cursor, EngineError, EngineInterrupted
from dpsql.engines.duckdb.encoding import released_columns
from dpsql.errors import DpsqlError, Interrupted, InvalidArgument, InvalidWorkload
from dpsql.evaluation.constraints import find_allowed, refuse_impossible, settle_bins
from dpsql.evaluation.sandbox import check_syntax, stopped_by
from dpsql.evidence.earlier_releases import consistent
from dpsql.evidence.occupied import occupied
from dpsql.language.workloads import EXPECTED, parse_workload
from dpsql.mechanisms.auto import AUTO, Facts, choose
from dpsql.mechanisms.base import Mechanism, PlannedMeasurement, explicit_options, name_of
from dpsql.models.model import Model
from dpsql.owner.protect import account_of, as_released, domain_of
from dpsql.privacy.account import Account
from dpsql.privacy.accounting import Budget, check_delta, check_epsilon
from dpsql.privacy.curator import Answer, Curator
from dpsql.privacy.noise import Entropy, check_scale, system_entropy
from dpsql.privacy.pricing import Questions, declared, price
from dpsql.runtime.memory import machine_memory
from dpsql.runtime.progress import Progress, breaking, polling, should_stop

Cursors = Callable[[], AbstractContextManager[Cursor]]
"""Opens a connection of its own to the instance, for the time of a `with`."""
DEFAULT_MECHANISM: Final = AUTO
LONGEST_NAME: Final = 1000
"""Characters of a release's name."""
_MOST_QUESTIONS: Final = 10**6  # that share a charge equally, with noise that can still be drawn
_MOST_ROWS: Final = 200_000_000
_MOST_DROWNED: Final = 100_000  # rows of a release whose number of rows is lost in noise
_COPIES: Final = 8  # of a row's codes that are there at once while a table is drawn and stored
_STOPPED: Final = (
    "the work was stopped by the database, perhaps for lack of memory or disk; what was charged is kept. The same call "
    f"goes on from it, and may read rows {MOST_RETRIES} times more before a new answer is stored: give it more memory "
    "or disk first, or ask for fewer or smaller marginals in another release"
)


@dataclass(frozen=True)
class Request:
    """What an analyst asks for. Two equal requests are the same release.

    Attributes:
        table: the source's name, as written.
        epsilon: what the release may cost.
        delta: None for the table's.
        workload: SQL or shorthand; None for the default.
        mechanism: its name.
        rows: of the synthetic table; None for the measured total.
        columns: only these; None for all.
        prior: a public table, view or earlier release that the fit starts from or leans on.
        reuse: whether the fit uses measurements that earlier releases of the table paid for.
        release: a name that tells equal requests apart.
        options: of the mechanism.
        search_path: the caller's, for a bare table name.
    """

    table: str
    epsilon: float
    delta: float | None = None
    workload: str | None = None
    mechanism: str = DEFAULT_MECHANISM
    rows: int | None = None
    columns: tuple[str, ...] | None = None
    prior: str | None = None
    reuse: bool = True
    release: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    search_path: str = ""


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

    @property
    def is_published(self) -> bool:
        """Whether the release was made before."""
        return self.entry is not None and self.entry.state == "published"

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

    def check_same(self, now: Resolved) -> None:
        """Refuse to go on with a request whose names mean something else by now.

        A prepared statement may run long after it was bound: the database may be another one, the table altered.

        Raises:
            DpsqlError: nothing was charged or read for it.
        """
        if self._settled != now._settled:
            raise DpsqlError("the table or its protection changed since the statement was bound: run it again")

    @property
    def _settled(self) -> tuple[object, ...]:
        """What must not change between bind and charge."""
        account = self.account
        return (self.key, self.source, account.source, account.neighbours, self.questions, self.budget, self.columns)

    def guarantee(self) -> str:
        """The promise in words."""
        return promise(self.budget, self.account.neighbours)


def promise(budget: Budget, neighbours: Neighbours, failure: float = 0.0) -> str:
    """The promise of a release of that budget, which holds but for probability `failure`, in words."""
    loss = f"{budget.epsilon:g}" if budget.pure else f"({budget.epsilon:g}, {budget.delta:g})"
    but = f" but for probability {failure:g}" if failure else ""
    return f"{loss}-DP, by {_proof(budget)}{but}, for neighbours that differ by {neighbours.words}"


def _proof(budget: Budget) -> str:
    if budget.pure:
        return f"Laplace noise and selections ({float(budget.rho):.6g}-zCDP)"
    if budget.gdp == budget.rho:
        return f"{math.sqrt(2 * budget.gdp):.6g}-Gaussian DP"
    return f"{float(budget.rho):.6g}-zCDP"


def resolve(cursor: Cursor, request: Request, *, to_charge: bool = True) -> Resolved:
    """Find and check everything that a request names; free.

    Args:
        cursor: a connection of its own.
        request: the request.
        to_charge: refuse what could not be charged now; a plan need not be.

    Raises:
        DpsqlError: a child says what is wrong, and what mends it.
    """
    _check_rows(request.rows)
    check_name(request.release)
    source = find_source(cursor, request.table, request.search_path)
    books = Books(cursor, source.catalog)
    account = account_of(books, source)
    delta = asked_delta(account, request.epsilon, request.delta)
    domain = domain_of(books, source, request.columns)
    _check_rows_fit(request.rows, domain)
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
    entry = books.release(key)
    if entry is None:
        mechanism.check(domain, workload, account.neighbours)
        mechanism.check_unit(account.unit_column)
        mechanism.check_prior(given=request.prior is not None)
        if request.prior is not None:
            find_prior(cursor, request.prior, request.search_path, source, domain)
        refuse_impossible(source, domain, books.constraints(source.key))
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
        if request.workload:
            check_syntax(request.workload, "workload", InvalidWorkload, EXPECTED)
        raise


def check_name(release: str) -> None:
    """Refuse a name of a release that is as long as a text.

    Raises:
        InvalidArgument: it is.
    """
    if len(release) > LONGEST_NAME:
        raise InvalidArgument(f"release has {len(release)} characters, more than {LONGEST_NAME}: give a shorter name")


def asked_delta(account: Account, epsilon: float, delta: float | None) -> float:
    """The δ of a request, by default its account's; 0 where it promises pure ε, or is asked to.

    Raises:
        InvalidArgument: ε or δ is out of its range.
    """
    check_epsilon(epsilon)
    asked = account.delta if delta is None else delta
    return asked if asked == 0 else check_delta(asked)


def _check_rows(rows: int | None) -> None:
    if rows is not None and not 0 <= rows <= _MOST_ROWS:
        raise InvalidArgument(f"rows is {rows}: give 0 to {_MOST_ROWS}, or leave it out for the measured total")


def _check_rows_fit(rows: int | None, domain: Domain) -> None:
    """Refuse more rows than the machine's memory holds, before the charge."""
    most = _rows_that_fit(domain)
    if rows is not None and rows > most:
        raise InvalidArgument(f"rows is {rows}, but the memory of this machine holds about {most} of them: give fewer")


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


@dataclass(frozen=True)
class BooksJournal:
    """The curator's journal, kept in the books: see `dpsql.privacy.curator.Journal`."""

    books: Books
    entry: Entry

    def recorded(self) -> Sequence[Answer]:
        """The answers of earlier runs, in order."""
        return () if self.entry.state == "reserved" else self.books.answers(self.entry.key)

    def append(self, answers: Sequence[Answer]) -> None:
        """Write answers, durably."""
        self.books.append_answers(self.entry.key, answers)


_working: set[str] = set()
_working_changed = threading.Condition()


@contextmanager
def alone(key: str, progress: Progress) -> Iterator[None]:
    """One thread of this process at a time works on a release; the others wait, and can be interrupted."""
    with _working_changed:
        while key in _working:
            _working_changed.wait(timeout=0.1)
            progress.check()
        _working.add(key)
    try:
        yield
    finally:
        with _working_changed:
            _working.discard(key)
            _working_changed.notify_all()


def produce(cursors: Cursors, resolved: Resolved, progress: Progress, entropy: Entropy = system_entropy) -> Entry:
    """The release of a resolved request: stored, resumed, or charged and made now.

    Args:
        cursors: opens connections to the instance.
        resolved: by `resolve`.
        progress: told of each step; may raise `Interrupted`.
        entropy: of the noise; tests inject one.

    Raises:
        InsufficientBudget: less is left than the request costs; nothing was charged.
        Interrupted: what was charged is kept.
    """
    with alone(resolved.key, progress), cursors() as cursor, guarded(progress, cursor):
        with stopped_by(progress), breaking(progress):
            now = resolve(cursor, resolved.request)
        if not now.is_published:
            resolved.check_same(now)
        books = Books(cursor, now.source.catalog)
        known, prior = now.entry, None
        hollow = known is not None and books.is_hollow(known) and books.is_writable
        if known is None or known.state != "published" or hollow:  # before a change: what does not fit costs nothing
            prior = _prior(cursor, now, known)
        if known is not None and hollow:
            known = books.withdraw(known, "it was published without its rows, by a defect of DuckDB 2.0.0")
        if known is not None and known.state != "published":
            check_not_failed(known)
            books.resume(known)
        if known is None:
            books.mark(now.source)
            _check_public_rows(cursor, books, now)
        entry = known or books.charge(
            now.key, now.source.key, now.canonical, now.domain, name_of(now.mechanism), now.guarantee(), now.budget
        )
        return entry if entry.state == "published" else _make(cursor, books, entry, now, prior, progress, entropy)


def _check_public_rows(cursor: Cursor, books: Books, resolved: Resolved) -> None:
    """Refuse what a table of so many rows cannot pay for, where their number is public: the only thing read."""
    neighbours, source = resolved.account.neighbours, resolved.source
    if neighbours.total_is_public:
        counter = DuckDBCounter(cursor, source, resolved.domain, books.bound(source.key), once=True)
        rows = int(counter.marginal(()).counts[0])
        counter.close()
        resolved.mechanism.check_public_rows(resolved.domain, resolved.workload, neighbours, resolved.budget.rho, rows)
        _check_resolved_rows(resolved, rows)


def _check_resolved_rows(resolved: Resolved, rows: int) -> None:
    """Refuse a release of which every count would be noise, where the number of rows is public.

    Raises:
        InvalidArgument: the least noise of a count is larger than the table.
    """
    rho, neighbours = resolved.budget.rho, resolved.account.neighbours
    planned = resolved.mechanism.plan(resolved.domain, resolved.workload, neighbours, rho, max(1, rows))
    least = min((m.stddev for m in planned if m.stddev), default=0.0)
    if least > rows > 0:
        raise InvalidArgument(
            f"epsilon is {resolved.request.epsilon:g}, too small for the {rows} rows of {resolved.source.name!r}: the "
            f"noise of every count would have a standard deviation of {least:.3g} rows or more; dp_plan shows it, and "
            "max_error there finds the epsilon that is enough"
        )


def check_not_failed(entry: Entry) -> None:
    """Refuse to go on with a release that failed for good; its charge is kept.

    Raises:
        DpsqlError: it did, and why.
    """
    if entry.state == "failed":
        raise DpsqlError(
            f"release {entry.number} failed: {entry.report.get('failed')}; ask otherwise, or give another name with "
            "release := '…', which is charged anew"
        )


def retrying(books: Books, entry: Entry | None) -> Callable[[], None] | None:
    """What is done before rows are read for a release that was charged earlier; nothing for one that is new."""
    return None if entry is None else lambda: books.retry(entry)


def curator_of(
    books: Books,
    entry: Entry,
    budget: Budget,
    counter: DuckDBCounter,
    domain: Domain,
    progress: Progress,
    entropy: Entropy,
    questions: Questions,
    prior: Prior | None = None,
    earlier: Sequence[Measurement] = (),
    failure: float = 0.0,
    *,
    for_mechanism: bool = False,
) -> Curator:
    """A curator of what a release was charged, whose answers go to the books; see `Curator`."""
    return Curator(
        counter,
        domain,
        entry.neighbours,
        entry.rho,
        BooksJournal(books, entry),
        progress,
        entropy,
        gdp=entry.gdp,
        pure=budget.exact_epsilon if budget.pure else None,
        prior=prior,
        earlier=earlier,
        kinds=questions.kinds,
        failure=failure,
        for_mechanism=for_mechanism,
    )


def _make(
    cursor: Cursor,
    books: Books,
    entry: Entry,
    resolved: Resolved,
    prior: Prior | None,
    progress: Progress,
    entropy: Entropy,
) -> Entry:
    """Measure, fit, draw and publish a charged release: within what the books say was charged, for that domain."""
    check_unchanged(entry, resolved.source)
    progress.stage(f"counting {resolved.source.name}")
    before = retrying(books, resolved.entry)
    counter = DuckDBCounter(cursor, resolved.source, entry.domain, books.bound(entry.source), before=before)
    curator = curator_of(
        books,
        entry,
        resolved.budget,
        counter,
        entry.domain,
        progress,
        entropy,
        resolved.questions,
        prior=prior,
        earlier=books.measurements_for(entry) if json.loads(entry.request).get("reuse") else (),
        for_mechanism=True,
    )
    seed = int(entry.key[:15], 16)
    outcome = resolved.mechanism.run(curator, resolved.workload, entry.rho, seed, progress)
    report = dict(outcome.report)
    told = [answer.measurement for answer in books.answers(entry.key) if answer.measurement is not None]
    agreeing = _agreeing(told, curator.earlier)
    if curator.earlier:
        report = {"reused": 0, **report, **_contradicted(agreeing)}
    if resolved.choice:
        report["choice"] = resolved.choice
    held = occupied(entry.domain, [*told, *agreeing])
    if held.outside:
        report["outside"] = {name: round(share, 4) for name, share in held.outside.items()}
    counter.close()
    allowed = find_allowed(resolved.source, entry.domain, books.constraints(entry.source))
    if not np.isfinite(outcome.model.total):
        raise DpsqlError("the fit gave no finite total; the same call tries again from the stored measurements, free")
    rows = resolved.request.rows
    if rows is None:
        rows, report["rows"] = _rows_to_draw(entry, told, outcome.model)
        report = {name: value for name, value in report.items() if value is not None}
    generator = np.random.default_rng()
    codes = outcome.model.sample(rows, generator, progress, held.restricted(allowed))
    progress.stage("storing")
    codes = codes[generator.permutation(len(codes))]  # a LIMIT then shows all kinds of rows
    columns = [column.name for column in resolved.source.columns if column.name in entry.columns]
    frame = _frame(entry.domain, codes, generator)
    settle_bins(resolved.source, entry.domain, allowed, codes, frame, generator)
    return books.publish(entry, resolved.source, columns, frame, report)


def _rows_to_draw(entry: Entry, told: Sequence[Measurement], model: Model) -> tuple[int, str | None]:
    """How many rows a release gets whose request does not say it; and what is to be said of that, None if nothing is.

    Noise may be larger than the table. Then the number of rows is noise too, and of any size.
    """
    measured = _total(entry, told, model)
    stddev = _total_noise(told)
    most, reason = _rows_that_fit(entry.domain), "the memory of this machine holds no more"
    if measured < 2 * stddev:
        most, reason = min(most, _MOST_DROWNED), "more would be noise"
    rows = min(max(0, measured), most)
    words = []
    if rows < measured:
        words.append(f"{rows} rows were drawn of {measured}: {reason}")
    if measured < 2 * stddev:
        words.append(
            f"the number of rows is lost in noise: {measured} were measured, with a standard deviation of "
            f"{stddev:.3g}; ask with a larger epsilon, or give rows := … for a table of that size"
        )
    return rows, "; ".join(words) or None


def _total_noise(told: Sequence[Measurement]) -> float:
    """The standard deviation (rows) of the number of rows that whole marginals tell together; 0 where it is public."""
    known = [float(m.variance) * len(m.values) for m in told if m.cells is None and m.least is None]
    return 0.0 if not known or 0.0 in known else 1 / math.sqrt(sum(1 / variance for variance in known))


def _rows_that_fit(domain: Domain) -> int:
    """How many synthetic rows the memory holds while they are drawn, decoded and stored."""
    return min(_MOST_ROWS, machine_memory() // (_COPIES * 8 * (len(domain) + 1)))


def _total(entry: Entry, told: Sequence[Measurement], model: Model) -> int:
    """The number of rows: exact where it is public, also 0, which no model stands for; else what the fit found."""
    public = told if entry.neighbours.total_is_public else ()
    exact = next((measured for measured in public if not measured.clique and measured.variance == 0), None)
    return round(model.total) if exact is None else int(exact.values[0])


def _agreeing(told: Sequence[Measurement], earlier: Sequence[Measurement]) -> Sequence[Measurement]:
    """Earlier measurements, unless they contradict this release's: the table has changed since."""
    return earlier if consistent(told, earlier) else ()


def _contradicted(agreeing: Sequence[Measurement]) -> dict[str, Any]:
    """What a release says where no earlier measurement agrees with it; how many it used its mechanism says."""
    if agreeing:
        return {}
    return {"earlier": "what earlier releases measured contradicts this one, so the table changed: left out"}


def _prior(cursor: Cursor, resolved: Resolved, entry: Entry | None) -> Prior | None:
    """The public rows that a request names, checked, in the codes of the domain that it is or will be charged for."""
    request = resolved.request
    if request.prior is None:
        return None
    domain = resolved.domain if entry is None else entry.domain
    return load_prior(cursor, request.prior, request.search_path, resolved.source, domain)


def check_unchanged(entry: Entry, source: Source) -> None:
    """Refuse to count a table whose columns are not those that the release was charged for; tells no value."""
    types = {column.name: public_type(column.type) for column in source.columns if not column.generated}
    names = {column.name for column in source.columns}
    changed = [a.name for a in entry.domain if types.get(a.name) != public_type(a.type)]
    changed += [a.name for a in entry.domain.excluded if a.name not in names]
    if changed:
        raise DpsqlError(
            f"column {changed[0]!r} of {source.name!r} is not what it was when this release was charged: change it "
            "back to complete the release, or give the release another name, which is charged anew"
        )


def _frame(
    domain: Domain, codes: np.ndarray[Any, Any], generator: np.random.Generator
) -> dict[str, np.ndarray[Any, Any]]:
    """Codes, and for bins ticks drawn uniformly inside them, as `Books.publish` wants them."""
    columns: dict[str, np.ndarray[Any, Any]] = {}
    for place, attribute in enumerate(domain):
        columns[f"c{place}"] = codes[:, place]
        if attribute.kind == "bins":
            columns[f"t{place}"] = attribute.draw_ticks(codes[:, place], generator.random(len(codes)))
    return columns


@contextmanager
def guarded(progress: Progress, *cursors: Cursor) -> Iterator[None]:
    """While inside, statements on `cursors` are interrupted when `progress` says so, and no error of DuckDB leaves.

    The text of DuckDB's error could hold a private value, and its class tell how much was read: one text for all.
    """

    def interrupt() -> None:
        for cursor in cursors:
            cursor.interrupt()

    try:
        with polling(lambda: should_stop(progress), interrupt):
            yield
    except EngineInterrupted:
        raise Interrupted from None
    except (EngineError, MemoryError):
        raise DpsqlError(_STOPPED) from None


@dataclass(frozen=True)
class Plan:
    """What a request would do and cost.

    Attributes:
        resolved: the request.
        measurements: the questions that the mechanism would ask.
        rows: the number of rows assumed for it.
    """

    resolved: Resolved
    measurements: Sequence[PlannedMeasurement]
    rows: float

    @property
    def overall(self) -> float | None:
        """The mean of the predicted L1 errors of the workload's marginals; None where none is predicted."""
        wanted = set(self.resolved.workload.needed)
        known = {m.clique: m.predicted for m in self.measurements if m.predicted is not None and m.clique in wanted}
        return sum(known.values()) / len(known) if known else None


def plan(cursor: Cursor, request: Request, rows: float) -> Plan:
    """What a request would measure, with which noise; spends nothing and reads no private row.

    Args:
        cursor: a connection of its own.
        request: the request.
        rows: about how many rows the table has, for the rules that depend on it.
    """
    resolved = resolve(cursor, request, to_charge=False)
    rho: Fraction = resolved.budget.rho
    planned = resolved.mechanism.plan(resolved.domain, resolved.workload, resolved.account.neighbours, rho, rows)
    _check_planned(planned, resolved)
    return Plan(resolved, planned, rows)


def _check_planned(planned: Sequence[PlannedMeasurement], resolved: Resolved) -> None:
    """Refuse to show a plan that is not what would be charged: its ρ come from the mechanism.

    Raises:
        DpsqlError: they are no numbers, or more than the charge.
    """
    costs = [measurement.rho for measurement in planned]
    plain = all(type(cost) in (int, float) and 0 <= cost < math.inf for cost in costs)
    if not plain or sum(costs) > float(resolved.budget.rho) * (1 + 1e-6):
        raise DpsqlError(
            f"mechanism {name_of(resolved.mechanism)!r} plans questions that are not within its charge of rho = "
            f"{float(resolved.budget.rho):.6g}: its plan(…) must say what its run(…) asks"
        )
