"""The one path that every release takes, whatever it is of: a synthetic table, a query, a domain to be discovered.

    again     names are looked up again, and must mean what they meant when the request was bound
    charge    ρ, in one durable transaction, before any private row is read; or the release is found, and goes on
    measure   the curator counts inside the engine, adds noise, and stores every answer before it is used
    publish   what is made of the answers

A run that was killed or interrupted is resumed by the same request from what is stored, at no cost. What a kind of
release does in its own way is a `Work`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from dpsql.books.accounts import charging
from dpsql.books.accounts.charging import Charge, pure_charged
from dpsql.books.ledger.store import Books
from dpsql.books.people.limits import payer_of
from dpsql.books.releases import stopped
from dpsql.books.releases.empty_releases import is_hollow, withdraw
from dpsql.books.releases.journal import BooksJournal
from dpsql.books.releases.releases import Entry, find_release
from dpsql.books.releases.reuse import measurements_for
from dpsql.books.releases.stopped import MOST_RETRIES
from dpsql.books.tables import write_table_ids
from dpsql.books.tables.facts import constraints
from dpsql.books.tables.links import bound_of
from dpsql.core.column_types import public_type
from dpsql.core.constraint import Allowed
from dpsql.core.domain import Domain
from dpsql.core.prior import Prior
from dpsql.engines.duckdb.cursors import Cursor, EngineError, EngineInterrupted
from dpsql.engines.protocol import CountingFailed, CountingRefused, Engine, TableCounter
from dpsql.engines.registry import engine_of
from dpsql.engines.source import Source
from dpsql.errors import DpsqlError, Interrupted
from dpsql.evaluation.constraints import find_allowed
from dpsql.evaluation.sandbox import stopped_by
from dpsql.privacy.account import Account
from dpsql.privacy.accounting import Budget
from dpsql.privacy.curator import Curator
from dpsql.privacy.noise import Entropy, system_entropy
from dpsql.privacy.pricing import Questions
from dpsql.privacy.promised import recorded_promise, with_rows_of
from dpsql.release.linked import Members
from dpsql.release.members import allowed_units, unit_counter
from dpsql.runtime.progress import Progress, breaking, polling, should_stop

Cursors = Callable[[], AbstractContextManager[Cursor]]
"""Opens a connection of its own to the instance, for the time of a `with`."""
_STOPPED: Final = (
    "the work was stopped by the database, perhaps for lack of memory or disk; what was charged is kept. The same call "
    f"goes on from it, and may read rows {MOST_RETRIES} times more before a new answer is stored: give it more memory "
    "or disk first, or ask for fewer or smaller marginals in another release"
)


class Work(Protocol):
    """A request whose names are found and whose cost is known; nothing is charged yet."""

    @property
    def key(self) -> str:
        """SHA-256 of the canonical request: equal requests are the same release."""

    @property
    def canonical(self) -> str:
        """The canonical request as JSON; holds nothing that depends on rows."""

    @property
    def source(self) -> Source:
        """The protected table."""

    @property
    def account(self) -> Account:
        """Of the table, at that time."""

    @property
    def domain(self) -> Domain:
        """What the release is charged for."""

    @property
    def linked(self) -> Members | None:
        """The tables of a linked release; None of a release of one table."""

    @property
    def budget(self) -> Budget:
        """What it costs."""

    @property
    def questions(self) -> Questions:
        """Which questions cost that."""

    @property
    def failure(self) -> float | None:
        """δ′, what a discovery adds to the δ of its noise; None of what is none."""

    @property
    def label(self) -> str:
        """What the ledger calls it: a mechanism, or a kind of release."""

    @property
    def by(self) -> str:
        """The user who asks; empty for the owner."""

    @property
    def entry(self) -> Entry | None:
        """The release, if it was charged before."""

    @property
    def by_mechanism(self) -> bool:
        """Whether a mechanism asks: it may count again, and use what earlier releases measured."""

    def again(self, cursor: Cursor) -> Work:
        """The same request, looked up again. A prepared statement may run long after it was bound.

        Raises:
            DpsqlError: it means something else by now; nothing was charged or read for it.
        """

    def public_rows(self, cursor: Cursor) -> Prior | None:
        """The public rows that it starts from, read before anything changes: what does not fit costs nothing."""

    def affordable(self, engine: Engine, books: Books) -> Budget:
        """What is charged: the budget, or less where that is enough; right before a charge.

        Raises:
            DpsqlError: the table cannot pay for it, as far as public facts tell.
        """

    def counted(self, entry: Entry) -> Domain:
        """The domain in which rows are counted for a charged release.

        Raises:
            DpsqlError: the request no longer fits what was charged.
        """

    def make(self, run: Run) -> Entry:
        """Measure and publish, within what the books say was charged.

        Raises:
            NothingFound: there is nothing to publish, for good.
        """


@dataclass(frozen=True)
class Run:
    """What a work is made with.

    Attributes:
        cursor: a connection of its own.
        books: of the table's database, on another connection.
        entry: the release, charged.
        curator: which answers within the charge.
        journal: what it answered.
        close: to be called when all is counted: gives back what counting holds.
        progress: notified of each step; may raise `Interrupted`.
    """

    cursor: Cursor
    books: Books
    entry: Entry
    curator: Curator
    journal: BooksJournal
    close: Callable[[], None]
    progress: Progress


class NothingFound(Exception):
    """A release has nothing to tell; its text says why, from noisy answers."""


def produce(work: Work, cursors: Cursors, progress: Progress, entropy: Entropy = system_entropy) -> Entry:
    """The release of a request: stored, resumed, or charged and made now.

    Args:
        work: the request.
        cursors: opens connections to the instance.
        progress: notified of each step; may raise `Interrupted`.
        entropy: of the noise; tests inject one.

    Raises:
        InsufficientBudget: less is left than the request costs; nothing was charged.
        Interrupted: what was charged is kept.
        DpsqlError: the release failed for good, or its table changed; what was charged is kept.
    """
    with (
        alone(work.key, progress),
        cursors() as brief,
        cursors() as cursor,
        closing(engine_of(cursor, work.source)) as engine,
        guarded(progress, brief, cursor, engine),
    ):
        with stopped_by(progress), breaking(progress):
            now = work.again(cursor)
        books = Books(brief, now.source.catalog)
        earlier = now.entry
        hollow = earlier is not None and is_hollow(books, earlier) and books.is_writable
        if earlier is not None and earlier.state == "published" and not hollow:
            return earlier
        prior = now.public_rows(cursor)
        if earlier is not None and hollow:
            earlier = withdraw(books, earlier, "it was published without its rows, by a defect of DuckDB 2.0.0")
        entry = _charge(engine, books, now) if earlier is None else _resume(books, earlier, now.by)
        if entry.state == "published":  # by another process, meanwhile
            return entry
        return _make(cursor, engine, books, entry, now, earlier, prior, progress, entropy)


def published(work: Work, cursor: Cursor) -> Entry | None:
    """The release of a request that is there already, for which `produce` would charge and read nothing."""
    books = Books(cursor, work.source.catalog)
    entry = find_release(books, work.key)
    return entry if entry is not None and entry.state == "published" and not is_hollow(books, entry) else None


def _charge(engine: Engine, books: Books, work: Work) -> Entry:
    """Charge a new release; nothing private was read for it so far."""
    write_table_ids.mark(books, work.source)
    engine.check(work.source)
    budget = work.affordable(engine, books)
    words = recorded_promise(budget, work.account.neighbours, work.failure or 0.0, work.source.key)
    if work.linked is not None:
        words += with_rows_of(work.linked.tree.root, work.linked.tree.tables[1:])
    due = Charge(
        key=work.key,
        source=work.source.key,
        since=work.account.since,
        request=work.canonical,
        domain=work.domain,
        mechanism=work.label,
        guarantee=words,
        budget=budget,
        failure=work.failure,
        under_way=_under_way(),
        by=work.by,
        links=(work.source.ways(work.account.way), None if work.linked is None else work.linked.stated_tree),
    )
    return charging.charge(books, due)


def _resume(books: Books, entry: Entry, by: str) -> Entry:
    """Go on with a release that was charged before.

    Raises:
        DpsqlError: it failed for good, and why; its charge is kept. Or it is another user's, who alone goes on with it,
            because what is stopped too often fails.
    """
    if by and entry.state != "published" and payer_of(books, entry.number) not in (None, by):
        raise DpsqlError("another user's request for this release is under way: run it again later")
    if entry.state == "failed":
        has_name = "release" in json.loads(entry.request)
        instead = "ask otherwise" + (", or give another name with release := '…'" if has_name else "")
        failed = entry.report.get("failed")
        raise DpsqlError(f"{entry.called} failed: {failed}; what was charged is kept. {instead}: that is charged anew")
    stopped.resume(books, entry)
    return entry


def _make(
    cursor: Cursor,
    engine: Engine,
    books: Books,
    entry: Entry,
    work: Work,
    earlier: Entry | None,
    prior: Prior | None,
    progress: Progress,
    entropy: Entropy,
) -> Entry:
    """Count, measure and publish a charged release."""
    if work.linked is None:  # the key of a linked release has all domains
        check_unchanged(entry, work.source)
    domain = work.counted(entry)
    progress.stage(f"counting {work.source.name}")
    before = None if earlier is None else lambda: stopped.retry(books, earlier)  # done before rows are read once more
    bound = bound_of(books, entry.source)
    counter = (
        engine.counter(work.source, domain, bound, once=not work.by_mechanism, before=before)
        if work.linked is None
        else unit_counter(work.linked, engine, books, before)
    )
    journal = BooksJournal(books, entry)
    curator = _curator(books, entry, work, journal, counter, domain, prior, progress, entropy)
    try:
        return work.make(Run(cursor, books, entry, curator, journal, counter.close, progress))
    except NothingFound as nothing:
        stopped.fail(books, entry, str(nothing), was_stopped=False)
        raise DpsqlError(f"{nothing}; what was charged is kept") from None


def _curator(
    books: Books,
    entry: Entry,
    work: Work,
    journal: BooksJournal,
    counter: TableCounter,
    domain: Domain,
    prior: Prior | None,
    progress: Progress,
    entropy: Entropy,
) -> Curator:
    """A curator of what a release was charged, whose answers go to the books; see `Curator`."""
    return Curator(
        counter,
        domain,
        entry.neighbours,
        entry.rho,
        journal,
        progress,
        entropy,
        gdp=entry.gdp,
        pure=pure_charged(books, entry) or work.budget.exact_epsilon if work.budget.pure else None,
        prior=prior,
        allowed=_allowed(books, entry, work, domain) if work.by_mechanism else (),
        earlier=measurements_for(books, entry) if work.by_mechanism and json.loads(entry.request).get("reuse") else (),
        kinds=work.questions.kinds,
        failure=work.failure or 0.0,
        for_mechanism=work.by_mechanism,
    )


def _allowed(books: Books, entry: Entry, work: Work, domain: Domain) -> list[Allowed]:
    """What constraints allow of the rows that are counted."""
    if work.linked is not None:
        return allowed_units(work.linked, books)
    return find_allowed(work.source, domain, constraints(books, entry.source))


_working: set[str] = set()
_working_changed = threading.Condition()


def _under_way() -> frozenset[str]:
    """The keys of the releases that this process works on now."""
    with _working_changed:
        return frozenset(_working)


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


def check_unchanged(entry: Entry, source: Source) -> None:
    """Refuse to count a table whose columns are not those that the release was charged for; tells no value."""
    types = {column.name: public_type(column.type) for column in source.columns if not column.generated}
    names = {column.name for column in source.columns}
    changed = [a.name for a in entry.domain if types.get(a.name) != public_type(a.stored_type)]
    changed += [a.name for a in entry.domain.excluded if a.name not in names]
    if changed:
        raise DpsqlError(
            f"column {changed[0]!r} of {source.name!r} is not what it was when this release was charged: change it "
            "back to complete the release, or give the release another name, which is charged anew"
        )


class Stoppable(Protocol):
    """A connection, or an engine."""

    def interrupt(self) -> None:
        """End what it is doing."""


@contextmanager
def guarded(progress: Progress, *working: Stoppable) -> Iterator[None]:
    """While inside, what is `working` is interrupted when `progress` says so, and no error of an engine leaves.

    The text of DuckDB's error could hold a private value, and its class tell how much was read: one text for all.
    """

    def interrupt() -> None:
        for stoppable in working:
            stoppable.interrupt()

    try:
        with polling(lambda: should_stop(progress), interrupt):
            yield
    except EngineInterrupted:
        raise Interrupted from None
    except CountingRefused:
        raise
    except (EngineError, CountingFailed, MemoryError):
        raise DpsqlError(_STOPPED) from None
