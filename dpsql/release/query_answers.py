"""`dp_query`: a query to its noisy answers, by the path of every release (`dpsql.release.pipeline`).

    resolve   the query to its protected table, its expressions to weights on the declared domain, (ε, δ) to ρ: free
    charge    ρ; the same query at the same ε again finds its stored answers
    measure   one question to the curator: all weights in all groups at once
    publish   keys and answers with their errors, every group of the domain, as a table of the books

HAVING, ORDER BY, LIMIT and the names of columns are of the answers, so they change what is shown, not what is charged.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Final

import numpy as np

from dpsql.books import publication
from dpsql.books.dimensions import load
from dpsql.books.lineage import Tables
from dpsql.books.releases import Entry, find_release
from dpsql.books.store import Books
from dpsql.core.domain import Domain
from dpsql.engines.duckdb.catalog import Source, find_parts
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.duckdb.frames import length
from dpsql.errors import DomainTooLarge, DpsqlError, InvalidArgument, InvalidQuery
from dpsql.evaluation.components import columns_of
from dpsql.evaluation.evaluate import Evaluated, evaluate
from dpsql.evaluation.lookups import Loaded
from dpsql.evaluation.result import Result
from dpsql.evaluation.sandbox import check_syntax, one_scratch
from dpsql.language.analysis import parse_query
from dpsql.language.expressions import columns_read, sql_of
from dpsql.language.query import Query
from dpsql.language.refusal import refuse
from dpsql.language.size_bounds import check_sizes
from dpsql.owner.protect import account_of, as_released, domain_of
from dpsql.privacy.account import Account
from dpsql.privacy.accounting import Budget
from dpsql.privacy.distributions import GAUSSIAN, Distribution, find_noise, noise_names
from dpsql.privacy.linear import linear_stddevs
from dpsql.privacy.noise import check_scale
from dpsql.privacy.pricing import Part, Questions, price
from dpsql.release.answers_frame import all_groups, answers_frame, as_text
from dpsql.release.intervals import Noisy
from dpsql.release.pipeline import Run
from dpsql.release.request import asked_delta, check_name
from dpsql.runtime.process_settings import deep_recursion

MOST_SHOWN: Final = 100_000
"""Groups of which expressions of a user's are made, as constants."""
_KEPT: Final = 64
_KEPT_CELLS: Final = 200_000


@dataclass(frozen=True)
class QueryRequest:
    """What an analyst asks. Equal measured parts at equal budgets are the same release.

    Attributes:
        sql: the query.
        epsilon: what the answers may cost; 0 for what earlier releases tell already.
        delta: None for the table's; not used with Laplace noise.
        mechanism: the name of the noise.
        non_negative: whether counts below 0 are shown as 0.
        release: a name that tells equal requests apart.
        search_path: the caller's, for bare names.
    """

    sql: str
    epsilon: float
    delta: float | None = None
    mechanism: str = GAUSSIAN.name
    non_negative: bool = False
    release: str = ""
    search_path: str = ""

    @property
    def noise(self) -> Distribution:
        """The noise, of a request whose mechanism is one."""
        return find_noise(self.mechanism)


@dataclass(frozen=True)
class ResolvedQuery:
    """A query whose names are found and whose expressions are evaluated on the domain; nothing is charged yet.

    Attributes:
        request: as asked.
        key: SHA-256 of the canonical request.
        canonical: as JSON: what is measured, and at which budget.
        source: the protected table.
        account: of the table, at that time.
        domain: of the columns that the query reads.
        query: taken apart.
        evaluated: on the domain.
        result: what it shows.
        budget: what it will cost.
        entry: the release, if it was charged before.
    """

    request: QueryRequest
    key: str
    canonical: str
    source: Source
    account: Account
    domain: Domain
    query: Query
    evaluated: Evaluated
    result: Result
    budget: Budget
    entry: Entry | None
    by_mechanism: ClassVar[bool] = False
    failure: ClassVar[None] = None

    @property
    def label(self) -> str:
        """See `Work.label`."""
        return f"query ({self.request.mechanism})"

    @property
    def questions(self) -> Questions:
        """See `Work.questions`."""
        return _questions(self.request)

    def again(self, cursor: Cursor) -> ResolvedQuery:
        """See `Work.again`; what is published is told as it is, whatever became of the table."""
        books = Books(cursor, self.source.catalog)
        entry = find_release(books, self.key)
        if entry is None or entry.state != "published":
            self._check_same(cursor, books)
        return replace(self, entry=entry)

    def _check_same(self, cursor: Cursor, books: Books) -> None:
        """Refuse a query whose table, account, domains or joined tables changed since it was bound."""
        source = find_parts(cursor, self.source.parts, *self.source.parts[:2])
        account = account_of(books, source)
        joined = [load(cursor, dimension) for dimension in self.query.scope.dimensions]
        domain = _domain_of(books, source, self.query)
        source = as_released(source, domain)
        now = _canonical(self.request, source, account, domain, self.query, self.budget, joined)
        if (source, account.neighbours, now) != (self.source, self.account.neighbours, self.canonical):
            raise DpsqlError("the table or its protection changed since the statement was bound: run it again")

    def public_rows(self, cursor: Cursor) -> None:
        """See `Work.public_rows`: none."""

    def check_affordable(self, cursor: Cursor, books: Books) -> None:
        """See `Work.check_affordable`: any query can be."""

    def counted(self, entry: Entry) -> Domain:
        """See `Work.counted`: of the columns that the query reads."""
        if entry.domain != self.domain:
            raise DpsqlError(
                "a domain was declared anew since this query was charged: give release := 'another name', which is "
                "charged anew"
            )
        linear = self.evaluated.linear
        return replace(linear.domain, attributes=tuple(a for a in linear.domain if a.name in linear.clique))

    def make(self, run: Run) -> Entry:
        """See `Work.make`: one question to the curator, all weights in all groups at once."""
        curator = run.curator
        pure = curator.remaining_pure
        rho = curator.remaining if pure is None else min(curator.remaining, self.request.noise.rho(pure))
        measured = curator.measure_linear(self.evaluated.linear, rho, self.request.noise)
        run.close()
        frame = answers_frame(self, [Noisy.of(m) for m in measured])
        report = {"groups": length(frame), "stddev": [m.stddev for m in measured]}
        return publication.publish_answers(run.books, run.entry, frame, self.result.stored, report)


@deep_recursion()
def resolve_query(cursor: Cursor, request: QueryRequest, *, to_charge: bool = True) -> ResolvedQuery:
    """Find and check everything that a query names; free.

    Args:
        cursor: a connection of its own.
        request: the request.
        to_charge: refuse what could not be charged now.

    Raises:
        DpsqlError: a child says what is wrong, and what mends it.
    """
    if request.mechanism not in noise_names():
        known = " or ".join(map(repr, noise_names()))
        raise InvalidArgument(f"mechanism is {request.mechanism!r}: a query takes {known} noise")
    check_name(request.release)
    query = _parsed(cursor, request)
    check_sizes(query.trees)  # at once: the rest of what is checked of expressions takes longer
    source: Source = query.scope.origin
    books = Books(cursor, source.catalog)
    account = account_of(books, source)
    free = request.epsilon == 0
    delta = asked_delta(account, 1.0 if free else request.epsilon, request.delta)
    _check_units(account, query)
    domain = _domain_of(books, source, query)
    source = as_released(source, domain)
    budget = (
        Budget(0.0, delta, Fraction(0), Fraction(0)) if free else price(_questions(request), request.epsilon, delta)
    )
    dimensions = [load(cursor, dimension) for dimension in query.scope.dimensions]
    evaluated, result = _understood(source, domain, query, dimensions)
    canonical = _canonical(request, source, account, domain, query, budget, dimensions)
    key = hashlib.sha256(canonical.encode()).hexdigest()
    entry = find_release(books, key)
    resolved = ResolvedQuery(request, key, canonical, source, account, domain, query, evaluated, result, budget, entry)
    if not free:
        _check_noise(resolved)
    if entry is None and not free:
        account.check_kind(budget)
    if entry is None and to_charge and not free:
        account.require(budget, _questions(request).conversion)
    return resolved


def _parsed(cursor: Cursor, request: QueryRequest) -> Query:
    """The query taken apart; what DuckDB cannot parse either is refused in DuckDB's words.

    Raises:
        InvalidQuery: see `parse_query`.
        UnknownName: likewise.
    """
    try:
        return parse_query(request.sql, Tables(cursor, request.search_path))
    except InvalidQuery:
        check_syntax(request.sql)
        raise


def _check_noise(resolved: ResolvedQuery) -> None:
    """Refuse noise that is too wide to be drawn, or to be added to sums in 64 bits."""
    linear, neighbours = resolved.evaluated.linear, resolved.account.neighbours
    check_scale(max(linear_stddevs(linear, resolved.budget.rho, neighbours, resolved.request.noise), default=0.0))


def _questions(request: QueryRequest) -> Questions:
    """All of ρ goes to one question, or all of ε where the noise proves a pure ε."""
    noise = request.noise
    return Questions.pure(Part(noise, 1, Fraction(1))) if noise.pure else Questions.of(noise)


def _domain_of(books: Books, source: Source, query: Query) -> Domain:
    """The domain of the columns that a query reads; without any, the empty one."""
    names = {name for tree in query.trees for name in columns_read(tree)}
    if not names:
        return Domain(())
    domain = domain_of(books, source, sorted(names)).inner
    for attribute in domain:
        if attribute.of_type.depends_on_session:
            raise InvalidQuery(
                f"query: {attribute.name!r} is of type {attribute.type}, whose text and parts depend on the time zone "
                "of the session: ask about columns of other types"
            )
    for tree in query.trees:
        columns_of(domain, tree)  # refuses excluded columns
    return domain


def _check_units(account: Account, query: Query) -> None:
    """Refuse count(DISTINCT …) of anything but the table's privacy unit."""
    for aggregate in query.aggregates:
        column = aggregate.argument
        if aggregate.kind != "units" or column is None or column.name == account.unit_column:
            continue
        if account.unit_column is None:
            reason = f"rows of {account.source!r} are units of their own, so DISTINCT values cannot be counted"
            refuse(column, reason, "count groups instead: GROUP BY the column")
        instead = f"say count(DISTINCT {account.unit_column}), or count groups: GROUP BY the column"
        refuse(column, "DISTINCT values are counted of the privacy unit only", instead)


def _canonical(
    request: QueryRequest,
    source: Source,
    account: Account,
    domain: Domain,
    query: Query,
    budget: Budget,
    dimensions: Sequence[Loaded],
) -> str:
    asked = {
        "keys": [sql_of(tree) for tree in query.keys],
        "sets": query.sets,
        "filters": sorted(map(sql_of, query.filters)),
        "aggregates": [
            [a.kind, None if a.argument is None else sql_of(a.argument), sorted(map(sql_of, a.filters))]
            for a in query.aggregates
        ],
        "domain": hashlib.sha256(domain.to_json().encode()).hexdigest(),
        "types": [[column.name, column.type] for column in source.columns if column.name in domain.by_name],
        "joined": [[loaded.dimension.name, loaded.digest] for loaded in dimensions],
    }
    return json.dumps(
        {
            "source": source.key,
            "since": account.since,
            "query": asked,
            "epsilon": repr(budget.epsilon),
            "delta": repr(budget.delta),
            "mechanism": request.mechanism,
            "release": request.release,
        },
        ensure_ascii=False,
        sort_keys=True,
    )


def _try_out(query: Query, evaluated: Evaluated, result: Result) -> None:
    """Make the result from the public keys and answers of 0, so that what fails on a key fails before the charge."""
    groups = sum(int(alive.sum()) for alive in evaluated.present)
    if result.is_plain:
        return
    if groups > MOST_SHOWN:
        raise DomainTooLarge(
            f"query: HAVING, ORDER BY and expressions of keys are for at most {MOST_SHOWN} groups, this has {groups}: "
            "leave them out, and say them around dp_query(…)"
        )
    zeros = np.zeros(sum(evaluated.linear.groups), np.int64)
    silent = [Noisy(zeros, 1.0, GAUSSIAN) for _ in range(evaluated.linear.aggregates)]
    result.rows(
        as_text(result, all_groups(query, evaluated, silent, {}, np.concatenate(evaluated.present))), non_negative=False
    )


_known: OrderedDict[tuple[Source, Domain, str], tuple[Evaluated, Result]] = OrderedDict()
_knowing = threading.Lock()


def _understood(source: Source, domain: Domain, query: Query, dimensions: Sequence[Loaded]) -> tuple[Evaluated, Result]:
    """A query on its domain and what it shows; those of the last queries are kept, for they depend on nothing else."""
    key = (source, domain, repr((query.fingerprint, [loaded.digest for loaded in dimensions])))
    with _knowing:
        if key in _known:
            _known.move_to_end(key)
            return _known[key]
    with one_scratch():
        evaluated = evaluate(source, domain, query, dimensions)
        result = Result.of(source, query, evaluated)
        _try_out(query, evaluated, result)
    cells = sum(part.groups.size + part.factors.size for part in evaluated.linear.parts)
    if cells + sum(evaluated.linear.groups) <= _KEPT_CELLS:
        with _knowing:
            _known[key] = evaluated, result
            while len(_known) > _KEPT:
                _known.popitem(last=False)
    return evaluated, result
