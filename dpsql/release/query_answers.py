"""`dp_query`: a query to its noisy answers, by the same path as every release.

    resolve   the query to its protected table, its expressions to weights on the declared domain, (ε, δ) to ρ: free
    charge    ρ; the same query at the same ε again finds its stored answers
    measure   one question to the curator: all weights in all groups at once
    publish   keys and answers with their errors, every group of the domain, as a table of the books

HAVING, ORDER BY, LIMIT and the names of columns are of the answers, so they change what is shown, not what is charged.
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.books.dimensions import load
from dpsql.books.lineage import Tables
from dpsql.books.store import Books, Entry
from dpsql.core.domain import Domain, decimal_scale
from dpsql.engines.duckdb.catalog import Source, find_parts
from dpsql.engines.duckdb.counting import DuckDBCounter
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.duckdb.frames import Columns, length
from dpsql.errors import DomainTooLarge, DpsqlError, InvalidArgument, InvalidQuery
from dpsql.evaluation.evaluate import Evaluated, columns_of, evaluate, weights_of
from dpsql.evaluation.lookups import Loaded
from dpsql.evaluation.result import Result, steps_of_ten
from dpsql.evaluation.sandbox import check_syntax, one_scratch
from dpsql.language.query import Aggregate, Query, columns_read, parse_query, refuse, sql_of
from dpsql.language.size_bounds import check_sizes
from dpsql.owner.protect import account_of, as_released, domain_of
from dpsql.privacy.account import Account
from dpsql.privacy.accounting import Budget
from dpsql.privacy.curator import linear_scales, linear_variances
from dpsql.privacy.noise import Entropy, check_scale, system_entropy
from dpsql.privacy.pricing import Part, Questions, price
from dpsql.release.intervals import Noisy, least_count, plain, ratio, reach_of
from dpsql.release.synthesis import (
    Cursors,
    alone,
    asked_delta,
    check_name,
    check_not_failed,
    check_unchanged,
    curator_of,
    guarded,
    promise,
    retrying,
)
from dpsql.runtime.process_settings import deep_recursion
from dpsql.runtime.progress import Progress, breaking

_MECHANISMS: Final = ("gaussian", "laplace")
MOST_SHOWN: Final = 100_000
"""Groups of which expressions of a user's are made, as constants."""
_KEPT: Final = 64
_KEPT_CELLS: Final = 200_000
_SILENT: Final = 3.0  # standard deviations of noise that hide a group of NULL


@dataclass(frozen=True)
class QueryRequest:
    """What an analyst asks. Equal measured parts at equal budgets are the same release.

    Attributes:
        sql: the query.
        epsilon: what the answers may cost; 0 for what earlier releases tell already.
        delta: None for the table's; not used with Laplace noise.
        mechanism: `gaussian` or `laplace`.
        non_negative: whether counts below 0 are shown as 0.
        release: a name that tells equal requests apart.
        search_path: the caller's, for bare names.
    """

    sql: str
    epsilon: float
    delta: float | None = None
    mechanism: str = "gaussian"
    non_negative: bool = False
    release: str = ""
    search_path: str = ""


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
    if request.mechanism not in _MECHANISMS:
        raise InvalidArgument(
            f"mechanism is {request.mechanism!r}: a query takes {' or '.join(map(repr, _MECHANISMS))} noise"
        )
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
    entry = books.release(key)
    resolved = ResolvedQuery(request, key, canonical, source, account, domain, query, evaluated, result, budget, entry)
    if not free:
        _check_noise(resolved)
    if entry is None and not free:
        account.check_kind(budget)
    if entry is None and to_charge and not free:
        account.require(budget, "gaussian" if request.mechanism == "gaussian" else None)
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
    if resolved.request.mechanism == "laplace":
        scales = [float(scale) for scale in linear_scales(linear, resolved.budget.rho, neighbours)]
    else:
        scales = [math.sqrt(variance) for variance in linear_variances(linear, resolved.budget.rho, neighbours)]
    check_scale(max(scales, default=0.0))


@dataclass(frozen=True)
class PlannedAnswer:
    """What one aggregate of a query would cost and be off.

    Attributes:
        aggregate: the query's own text.
        stddev: of the noise of each group, in the aggregate's unit; of an average its standard error, which depends
            on the groups' sizes.
        reach: half the 95 % interval. An average has none where the noise leaves it NULL.
        note: what the two are, for people.
    """

    aggregate: str
    stddev: float | None
    reach: float | None
    note: str


@deep_recursion()
def plan_answers(resolved: ResolvedQuery, assume_rows: int) -> list[PlannedAnswer]:
    """How noisy the answers of a query would be; reads no private row.

    Args:
        resolved: the query.
        assume_rows: about how many rows the table has, spread evenly over the groups: averages depend on that.
    """
    linear, query, evaluated = resolved.evaluated.linear, resolved.query, resolved.evaluated
    neighbours, laplace = resolved.account.neighbours, resolved.request.mechanism == "laplace"
    if laplace:
        spread = [math.sqrt(2) * float(b) for b in linear_scales(linear, resolved.budget.rho, neighbours)]
    else:
        spread = [math.sqrt(v) for v in linear_variances(linear, resolved.budget.rho, neighbours)]
    _, made_of = weights_of(query.aggregates)
    groups = max(int(alive.sum()) for alive in evaluated.present)  # of the finest grouping set
    planned = []
    for aggregate, parts in zip(query.aggregates, made_of, strict=True):
        known = [Noisy(np.zeros(1, np.int64), spread[part], resolved.request.mechanism) for part in parts]
        unit, text = float(evaluated.units[parts[0]]), _text_of(aggregate)
        if aggregate.kind == "avg":
            rows = max(1, round(assume_rows / max(1, groups)))
            planned.append(_planned_average(text, known, unit, _range(evaluated, parts), rows))
        else:
            reach = float(reach_of(known[0], unit))
            planned.append(PlannedAnswer(text, spread[parts[0]] * unit, reach, f"95 % interval ± {reach:.4g}"))
    return planned


def _planned_average(
    text: str, known: Sequence[Noisy], unit: float, bounds: tuple[float, float], rows: int
) -> PlannedAnswer:
    """An average of groups of so many rows whose values are the farthest from 0, where its error is the largest."""
    farthest = max(bounds, key=abs)
    over = replace(known[0], values=np.full(1, rows * farthest / unit))
    under = replace(known[1], values=np.full(1, rows))
    found = ratio(over, under, unit, (-math.inf, math.inf))
    reach = float((found.high - found.low)[0] / 2)
    null = (
        f"NULL where it is as wide as {bounds[0]:.4g} to {bounds[1]:.4g} or the count is below {least_count(under):.4g}"
    )
    if not reach < (bounds[1] - bounds[0]) / 2 and bounds[0] < bounds[1]:
        return PlannedAnswer(
            text,
            None,
            None,
            f"nothing is known at {rows} rows a group; {null}: give more epsilon, or ask for fewer groups",
        )
    return PlannedAnswer(
        text, float(found.stderr[0]), reach, f"95 % interval ± {reach:.4g} at {rows} rows a group; {null}"
    )


def _text_of(aggregate: Aggregate) -> str:
    argument = "*" if aggregate.argument is None else aggregate.argument.sql(dialect="duckdb")
    kind, argument = ("count", f"DISTINCT {argument}") if aggregate.kind == "units" else (aggregate.kind, argument)
    where = " AND ".join(tree.sql(dialect="duckdb") for tree in aggregate.filters)
    return f"{kind}({argument})" + (f" WHERE {where}" if where else "")


def least_epsilon(cursor: Cursor, request: QueryRequest, max_error: float, assume_rows: int) -> float:
    """The smallest ε, rounded up to three digits, at which no 95 % interval exceeds ± max_error.

    Args:
        cursor: a connection of its own.
        request: the query; its epsilon is not used.
        max_error: in the unit of each aggregate.
        assume_rows: see `plan_answers`.

    Raises:
        InvalidArgument: it is not positive, or no ε is enough.
    """
    if not 0 < max_error < math.inf:
        raise InvalidArgument(f"max_error is {max_error:g}: give half the width of the intervals wanted")

    def off(epsilon: float) -> float:
        resolved = resolve_query(cursor, replace(request, epsilon=epsilon), to_charge=False)
        planned = plan_answers(resolved, assume_rows)
        return max(math.inf if answer.reach is None else answer.reach for answer in planned)

    return smallest(off, max_error)


def smallest(error: Callable[[float], float], most: float) -> float:
    """The smallest ε, rounded up to three digits, whose error is at most `most`; the error falls with ε.

    Raises:
        InvalidArgument: none up to 1,000 is enough.

    >>> smallest(lambda epsilon: 3 / epsilon, 2.0)
    1.5
    """
    low, high = 1e-4, 1000.0
    if error(high) > most:
        raise InvalidArgument(f"max_error is {most:g}, which no epsilon up to {high:g} reaches: ask for less")
    while high / low > 1 + 1e-7:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if error(middle) <= most else (middle, high)
    digits = 2 - math.floor(math.log10(high))
    return math.ceil(round(high * 10.0**digits, 4)) / 10.0**digits


def _questions(request: QueryRequest) -> Questions:
    """All of ρ goes to one question with Gaussian noise, or all of ε to one with Laplace noise."""
    if request.mechanism == "gaussian":
        return Questions.of("gaussian")
    return Questions.pure(Part("laplace", 1, Fraction(1)))


def _domain_of(books: Books, source: Source, query: Query) -> Domain:
    """The domain of the columns that a query reads; without any, the empty one."""
    names = {name for tree in query.trees for name in columns_read(tree)}
    if not names:
        return Domain(())
    domain = domain_of(books, source, sorted(names)).inner
    for attribute in domain:
        if attribute.type == "TIMESTAMP WITH TIME ZONE":
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
    silent = [Noisy(zeros, 1.0, "gaussian") for _ in range(evaluated.linear.aggregates)]
    result.rows(
        as_text(result, _frame(query, evaluated, silent, {}, np.concatenate(evaluated.present))), non_negative=False
    )


def as_text(result: Result, frame: Columns) -> Columns:
    """Answers as text, None for NULL; whole steps of a DECIMAL as its values."""
    columns = {}
    for name, kind in result.stored.items():
        scale = decimal_scale(kind) if name.startswith("a") else None
        columns[name] = np.array([_text(value, scale) for value in frame[name].tolist()], object)
    return columns


def _text(value: Any, scale: int | None) -> str | None:
    if value is None or value != value:
        return None
    return _decimal(round(value), scale) if scale else str(value)


def _decimal(steps: int, scale: int) -> str:
    digits = str(abs(steps)).rjust(scale + 1, "0")
    return f"{'-' if steps < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


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


# --- answers ----------------------------------------------------------------------------------------------------------


def produce_answers(
    cursors: Cursors, resolved: ResolvedQuery, progress: Progress, entropy: Entropy = system_entropy
) -> Entry:
    """The answers of a resolved query: stored, resumed, or charged and measured now.

    Args:
        cursors: opens connections to the instance.
        resolved: by `resolve_query`.
        progress: told of each step; may raise `Interrupted`.
        entropy: of the noise; tests inject one.

    Raises:
        InsufficientBudget: less is left than the request costs; nothing was charged.
        Interrupted: what was charged is kept.
    """
    with alone(resolved.key, progress), cursors() as brief, cursors() as cursor, guarded(progress, brief, cursor):
        books = Books(brief, resolved.source.catalog)
        entry = books.release(resolved.key)
        if entry is not None and entry.state == "published":
            return entry
        with breaking(progress):
            _check_same(cursor, books, resolved)
        if entry is not None:
            check_not_failed(entry)
            books.resume(entry)
        before = retrying(books, entry)
        if entry is None:
            books.mark(resolved.source)
        entry = entry or books.charge(
            resolved.key,
            resolved.source.key,
            resolved.canonical,
            resolved.domain,
            f"query ({resolved.request.mechanism})",
            promise(resolved.budget, resolved.account.neighbours),
            resolved.budget,
        )
        return _measure(cursor, books, entry, resolved, progress, entropy, before)


def _check_same(cursor: Cursor, books: Books, then: ResolvedQuery) -> None:
    """Refuse a query whose table, account, domains or joined tables changed: a prepared statement may run much later.

    Raises:
        DpsqlError: they did; nothing was charged or read for it.
    """
    source = find_parts(cursor, then.source.parts, *then.source.parts[:2])
    account = account_of(books, source)
    joined = [load(cursor, dimension) for dimension in then.query.scope.dimensions]
    domain = _domain_of(books, source, then.query)
    source = as_released(source, domain)
    now = _canonical(then.request, source, account, domain, then.query, then.budget, joined)
    if (source, account.neighbours, now) != (then.source, then.account.neighbours, then.canonical):
        raise DpsqlError("the table or its protection changed since the statement was bound: run it again")


def _measure(
    cursor: Cursor,
    books: Books,
    entry: Entry,
    resolved: ResolvedQuery,
    progress: Progress,
    entropy: Entropy,
    before: Callable[[], None] | None,
) -> Entry:
    """Measure and publish a charged query, within what the books say was charged."""
    check_unchanged(entry, resolved.source)
    if entry.domain != resolved.domain:
        raise DpsqlError(
            "a domain was declared anew since this query was charged: give release := 'another name', which is "
            "charged anew"
        )
    linear = resolved.evaluated.linear
    progress.stage(f"counting {resolved.source.name}")
    needed = replace(linear.domain, attributes=tuple(a for a in linear.domain if a.name in linear.clique))
    bound = books.bound(entry.source) if resolved.account.unit_column else None
    counter = DuckDBCounter(cursor, resolved.source, needed, bound, once=True, before=before)
    curator = curator_of(
        books, entry, resolved.budget, counter, needed, progress, entropy, _questions(resolved.request)
    )
    noise: Any = resolved.request.mechanism
    pure = curator.remaining_pure
    rho = curator.remaining if pure is None else min(curator.remaining, pure**2 / 2)
    measured = curator.measure_linear(linear, rho, noise)
    counter.close()
    frame = answers_frame(resolved, [Noisy.of(m) for m in measured])
    report = {"groups": length(frame), "stddev": [m.stddev for m in measured]}
    return books.publish_answers(entry, frame, resolved.result.stored, report)


def answers_frame(
    resolved: ResolvedQuery, noisy: Sequence[Noisy], covariances: Mapping[tuple[int, int], Any] | None = None
) -> Columns:
    """All groups of all grouping sets: keys as text, values as whole steps or floats, errors.

    Groups of NULL are left out whose answers are all within three standard deviations of 0: most columns that may hold
    NULL hold none, and the noise of such a group says nothing.

    Args:
        resolved: the query.
        noisy: for each weight its answers, of one grouping set after the other.
        covariances: of pairs of weights, where they are not 0.
    """
    shown = np.concatenate(resolved.evaluated.present) & ~_silent(resolved.query, resolved.evaluated, noisy)
    return _frame(resolved.query, resolved.evaluated, noisy, covariances or {}, shown)


def _silent(query: Query, evaluated: Evaluated, noisy: Sequence[Noisy]) -> npt.NDArray[np.bool_]:
    """The groups in which a key is NULL, of columns that may hold NULL, and noise is all that the answers show."""
    nullable = {attribute.name for attribute in evaluated.linear.domain if attribute.nullable}
    may_be_null = [not nullable.isdisjoint(columns_read(tree)) for tree in query.keys]
    parts = []
    for keys, alive in zip(evaluated.keys, evaluated.present, strict=True):
        null = np.zeros(len(alive), bool)
        for known, may_be in zip(keys, may_be_null, strict=True):
            if known is not None and may_be:
                null |= np.array([key is None for key in known], bool)
        parts.append(null)
    quiet = [np.abs(answers.values) < _SILENT * np.asarray(answers.stddev) for answers in noisy]
    return np.asarray(np.concatenate(parts) & np.logical_and.reduce(quiet), bool)


def _range(evaluated: Evaluated, made_of: Sequence[int]) -> tuple[float, float]:
    """The bounds of an average, in its unit."""
    over, under = made_of
    low, high = evaluated.linear.average_bounds(over, under)
    return low * float(evaluated.units[over]), high * float(evaluated.units[over])


def _frame(
    query: Query,
    evaluated: Evaluated,
    noisy: Sequence[Noisy],
    covariances: Mapping[tuple[int, int], Any],
    kept: npt.NDArray[np.bool_],
) -> Columns:
    columns: dict[str, Any] = {}
    for number in range(len(query.keys)):
        parts: list[npt.NDArray[Any]] = []
        for keys, alive in zip(evaluated.keys, evaluated.present, strict=True):
            known = keys[number]
            parts.append(np.full(len(alive), None, object) if known is None else known)
        columns[f"k{number}"] = np.concatenate(parts)[kept]
    _, made_of = weights_of(query.aggregates)
    for number, (aggregate, parts_of) in enumerate(zip(query.aggregates, made_of, strict=True)):
        unit = evaluated.units[parts_of[0]]
        if aggregate.kind == "avg":
            over, under = parts_of
            together = covariances.get((over, under), 0.0)
            answers = ratio(noisy[over], noisy[under], float(unit), _range(evaluated, parts_of), together)
        else:
            answers = plain(noisy[parts_of[0]], float(unit), whole=steps_of_ten(unit) is not None)
        columns[f"a{number}"] = answers.values[kept]
        columns[f"a{number}_stderr"] = answers.stderr[kept]
        columns[f"a{number}_low"], columns[f"a{number}_high"] = answers.low[kept], answers.high[kept]
    return columns
