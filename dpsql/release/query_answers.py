"""`dp_query`: a query to its noisy answers, by the path of every release (`dpsql.release.pipeline`).

    look up   the query to its protected table and public ones (`lookup`)
    plan      (ε, δ) to ρ, the key (`query_plan`); expressions to weights on the declared domain: free
    charge    ρ; the same query at the same ε again finds its stored answers
    measure   one question to the curator: all weights in all groups at once
    publish   keys and answers with their errors, every group of the domain, as a table of the books

HAVING, ORDER BY, LIMIT and the names of columns are of the answers, so they change what is shown, not what is charged.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np

from dpsql.books.ledger.store import Books
from dpsql.books.releases import publication
from dpsql.books.releases.releases import Entry, find_release
from dpsql.core.domain import Domain
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.duckdb.frames import Columns, length
from dpsql.engines.protocol import Engine
from dpsql.engines.registry import check_sums
from dpsql.engines.source import Source
from dpsql.errors import DomainTooLarge, DpsqlError
from dpsql.evaluation.constancy import VariesInBin
from dpsql.evaluation.evaluate import evaluate
from dpsql.evaluation.evaluated import Evaluated
from dpsql.evaluation.lookups import Loaded
from dpsql.evaluation.result import Result
from dpsql.evaluation.sandbox import one_empty_database
from dpsql.language.query import Query
from dpsql.language.split_sums import split_sums
from dpsql.privacy.accounting import Budget
from dpsql.privacy.distributions import GAUSSIAN
from dpsql.release.allowed import require_affordable
from dpsql.release.answers_frame import all_groups, answers_frame, as_text
from dpsql.release.intervals import Noisy
from dpsql.release.lookup import look_up_again, look_up_query
from dpsql.release.pipeline import Run
from dpsql.release.query_plan import (
    QueryPlan,
    canonical_query,
    check_mechanism,
    check_noise,
    plan_query,
)
from dpsql.release.request import QueryRequest, check_name
from dpsql.runtime.process_settings import deep_recursion

MOST_SHOWN: Final = 100_000
"""Groups of which expressions of a user's are made, as constants."""
_NUMBERS: Final = np.array(["0", "1", "-1", "2", "17", "1234567"], object)
_MOST_NUMBERED: Final = 1000
_KEPT: Final = 64
_KEPT_CELLS: Final = 200_000


@dataclass(frozen=True)
class ResolvedQuery(QueryPlan):
    """A planned query whose expressions are evaluated on the domain, and whether it was charged before.

    Attributes:
        evaluated: on the domain.
        result: what it shows.
        entry: the release, if it was charged before.
    """

    evaluated: Evaluated
    result: Result
    entry: Entry | None
    by_mechanism: ClassVar[bool] = False
    failure: ClassVar[None] = None

    @property
    def is_light(self) -> bool:
        """Whether what was evaluated takes so little memory that many may be kept."""
        return _cells_of(self.evaluated) <= _KEPT_CELLS

    def again(self, cursor: Cursor) -> ResolvedQuery:
        """See `Work.again`; what is published is told as it is, whatever became of the table."""
        books = Books(cursor, self.source.catalog)
        entry = find_release(books, self.key)
        if entry is None or entry.state != "published":
            self._check_same(cursor)
        return replace(self, entry=entry)

    def _check_same(self, cursor: Cursor) -> None:
        """Refuse a query whose table, account, domains or joined tables changed since it was bound."""
        now = look_up_again(cursor, self.request, self.facts)
        same = now.source == self.source and now.account.neighbours == self.account.neighbours
        same = same and now.account.way == self.account.way
        if not same or canonical_query(self.request, now, self.budget) != self.canonical:
            raise DpsqlError("the table or its protection changed since the statement was bound: run it again")

    def public_rows(self, cursor: Cursor) -> None:
        """See `Work.public_rows`: none."""

    def affordable(self, engine: Engine, books: Books) -> Budget:
        """See `Work.affordable`: any query is."""
        return self.budget

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
    """Look up, plan and evaluate a query, and check what could not be charged; free.

    Args:
        cursor: a connection of its own.
        request: the request.
        to_charge: refuse what could not be charged now.

    Raises:
        DpsqlError: a child says what is wrong, and what mends it.
    """
    check_mechanism(request)
    check_name(request.release)
    facts, joined = look_up_query(cursor, request)
    planned = plan_query(request, facts)
    try:
        evaluated, result = _understood(facts.source, facts.domain, facts.query, joined)
    except (VariesInBin, DomainTooLarge):  # its words are compared
        split = split_sums(facts.query)  # only now, because what was answered before keeps its key
        if split is None:
            raise
        facts = replace(facts, query=split)
        planned = plan_query(request, facts)
        evaluated, result = _understood(facts.source, facts.domain, facts.query, joined)
    check_sums(cursor, facts.source, evaluated.linear)
    books = Books(cursor, facts.source.catalog)
    entry = find_release(books, planned.key)
    if not planned.is_free:
        check_noise(planned, evaluated.linear)
    if entry is None and not planned.is_free:
        planned.account.check_kind(planned.budget)
        if to_charge:
            require_affordable(books, planned)
    return ResolvedQuery(**vars(planned), evaluated=evaluated, result=result, entry=entry)


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
    answers = as_text(result, all_groups(query, evaluated, silent, {}, np.concatenate(evaluated.present)))
    result.rows(answers, non_negative=False)
    numbered = _with_numbers(answers)
    result.check_words(numbered)
    if query.around is not None:
        result.rows(numbered, non_negative=False)


def _with_numbers(answers: Columns) -> Columns:
    """The same keys, each with several numbers in place of answers."""
    times = 1 if length(answers) > _MOST_NUMBERED else len(_NUMBERS)
    repeated = {name: np.repeat(values, times) for name, values in answers.items()}
    count = length(repeated)
    return {n: values if n.startswith("k") else np.resize(_NUMBERS, count) for n, values in repeated.items()}


_evaluated: OrderedDict[tuple[Source, Domain, str], tuple[Evaluated, Result]] = OrderedDict()
_knowing = threading.Lock()


def _understood(source: Source, domain: Domain, query: Query, dimensions: Sequence[Loaded]) -> tuple[Evaluated, Result]:
    """A query on its domain and what it shows; those of the last queries are kept, for they depend on nothing else."""
    key = (source, domain, repr((query.fingerprint, [loaded.digest for loaded in dimensions])))
    with _knowing:
        if key in _evaluated:
            _evaluated.move_to_end(key)
            return _evaluated[key]
    with one_empty_database():
        evaluated = evaluate(source, domain, query, dimensions)
        result = Result.of(source, query, evaluated)
        _try_out(query, evaluated, result)
    if _cells_of(evaluated) <= _KEPT_CELLS:
        with _knowing:
            _evaluated[key] = evaluated, result
            while len(_evaluated) > _KEPT:
                _evaluated.popitem(last=False)
    return evaluated, result


def _cells_of(evaluated: Evaluated) -> int:
    cells = sum(part.groups.size + part.factors.size for part in evaluated.linear.parts)
    return cells + sum(evaluated.linear.groups)
