r"""`dp_domain(…, discover := true)`: a column's domain found in its private rows, with noise, and charged.

    values   those that so many units have that no single unit makes one known: `Curator.discover_values`
    bins     between public bounds, with about as many rows in each: edges at the quantiles i/B of noisy counts

Bins are found by measuring, splitting and measuring again, each time all bins of the column at once, so that a row is
in one bin of each measurement. The range is cut into 64 parts; a part of more than half a bin's share of the rows, and
of more than the noise, is cut into 16; and once more. Where the type has few enough steps in the range, each is a part,
and one measurement tells all. The edges are those of the last parts that are nearest to the quantiles of the noisy
counts, their sums made monotone by isotonic regression, and there are only so many bins that each holds more than the
noise: all of it post-processing.

The discovery is a release like any other: the same call again changes nothing and costs nothing.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
from scipy.optimize import isotonic_regression

from dpsql.books import facts, publication
from dpsql.books.releases import Entry, find_release
from dpsql.books.store import Books
from dpsql.core.column_types import column_type, kind_of, lists_members, public_type
from dpsql.core.domain import Attribute, Domain, attribute_from, equal_width
from dpsql.engines.duckdb.catalog import Column, Source, find_source
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.duckdb.declare import automatic, declare_bins, declare_values
from dpsql.engines.duckdb.ticks import canonical, edge_texts
from dpsql.errors import DpsqlError, InvalidArgument
from dpsql.owner.protect import account_of, check_stored
from dpsql.privacy.account import Account
from dpsql.privacy.accounting import Budget, check_delta
from dpsql.privacy.curator import Curator
from dpsql.privacy.distributions import GAUSSIAN
from dpsql.privacy.pricing import Questions, price
from dpsql.release.pipeline import Cursors, NothingFound, Run, guarded, produce
from dpsql.runtime.progress import Progress

Ticks = tuple[int | float, ...]
_QUESTIONS: Final = Questions.of(GAUSSIAN)
_FIRST: Final = 64
_SPLIT: Final = 16
_ROUNDS: Final = 3
_MOST_STEPS: Final = 1024  # in one measurement
_USUAL_BINS: Final = 20
_NOISE_IN_BIN: Final = 4  # standard deviations of one part's noise that a bin holds at least
_MOST_BINS: Final = 1000
_DEFAULT_PART: Final = 10  # of the table's δ, one discovery of values takes a tenth by default


@dataclass(frozen=True)
class DiscoveryRequest:
    """What an owner asks.

    Attributes:
        table, column: the column to discover.
        epsilon: what it may cost.
        delta: None for the table's for bins, a tenth of it for values.
        lower, upper: public bounds, for bins; both None for values.
        bins: how many, at most.
        nulls: whether NULL has a cell; None unless the column is NOT NULL.
        other: the value that stands for all others.
        search_path: the caller's, for bare names.
    """

    table: str
    column: str
    epsilon: float
    delta: float | None = None
    lower: Any = None
    upper: Any = None
    bins: int | None = None
    nulls: bool | None = None
    other: Any = None
    search_path: str = ""


@dataclass(frozen=True)
class Discovery:
    """A request whose names are found and whose cost is known; nothing is charged yet.

    Attributes:
        request: as asked.
        key: SHA-256 of the canonical request.
        canonical: as JSON.
        source: the protected table.
        account: of the table, at that time.
        column: to discover.
        whole: the range in one bin for each that is wanted, of equal width; None for values.
        nullable, other: of the domain.
        budget: what it will cost.
        failure: δ′, but for which it does.
        entry: the release, if it was charged before.
    """

    request: DiscoveryRequest
    key: str
    canonical: str
    source: Source
    account: Account
    column: Column
    whole: Attribute | None
    nullable: bool
    other: str | None
    budget: Budget
    failure: float
    entry: Entry | None
    domain: ClassVar[Domain] = Domain(())
    questions: ClassVar[Questions] = _QUESTIONS
    by_mechanism: ClassVar[bool] = False

    @property
    def label(self) -> str:
        """See `Work.label`."""
        return "discover (values)" if self.whole is None else "discover (bins)"

    def again(self, cursor: Cursor) -> Discovery:
        """See `Work.again`."""
        now = resolve_discovery(cursor, self.request)
        if (now.key, now.source) != (self.key, self.source):
            raise DpsqlError("the table changed since the statement was bound: run it again")
        return now

    def public_rows(self, cursor: Cursor) -> None:
        """See `Work.public_rows`: none."""

    def check_affordable(self, cursor: Cursor, books: Books) -> None:
        """See `Work.check_affordable`: any discovery can be."""

    def counted(self, entry: Entry) -> Domain:
        """See `Work.counted`: there is none yet."""
        return Domain(())

    def make(self, run: Run) -> Entry:
        """See `Work.make`."""
        if self.whole is None:
            found = _values(run.cursor, run.curator, self)
        else:
            found = _bins(run.cursor, run.curator, self, self.whole)
        return publication.publish_domain(run.books, run.entry, found, {"size": found.size})


def resolve_discovery(cursor: Cursor, request: DiscoveryRequest) -> Discovery:
    """Find and check everything that a request names; free.

    Raises:
        DpsqlError: a child says what is wrong, and what mends it.
    """
    source = find_source(cursor, request.table, request.search_path)
    books = Books(cursor, source.catalog)
    account = account_of(books, source)
    column = source.column(request.column)
    check_stored(source, column)
    if lists_members(column.type):  # whose members need not be public
        column = replace(column, type=public_type(column.type))
    nullable = column.nullable if request.nulls is None else request.nulls
    whole = _whole(cursor, request, column, nullable=nullable)
    if whole is None:
        _check_listed(account, column, request.bins)
    other = None if request.other is None else canonical(cursor, [request.other], column.type, "other")[0]
    budget, failure = _cost(request, account, of_values=whole is None)
    canonical_request = json.dumps(
        {
            "source": source.key,
            "since": account.since,
            "discover": [column.name, column.type],
            "range": None if whole is None else [repr(whole.ticks[0]), repr(whole.ticks[-1]), whole.regular],
            "nullable": nullable,
            "other": other,
            "epsilon": repr(request.epsilon),
            "delta": repr(budget.delta),
        },
        ensure_ascii=False,
        sort_keys=True,
    )
    key = hashlib.sha256(canonical_request.encode()).hexdigest()
    entry = find_release(books, key)
    if entry is None:
        books.check_writable()
        account.reserve(failure).require(budget, _QUESTIONS.conversion)
    return Discovery(
        request, key, canonical_request, source, account, column, whole, nullable, other, budget, failure, entry
    )


def _whole(cursor: Cursor, request: DiscoveryRequest, column: Column, *, nullable: bool) -> Attribute | None:
    """The range of a column in bins of equal width; None where values are asked for."""
    bounds = (request.lower, request.upper)
    if bounds == (None, None):
        return None
    if None in bounds:
        raise InvalidArgument(f"column {column.name!r}: lower and upper go together")
    if request.bins is not None and not 2 <= request.bins <= _MOST_BINS:
        raise InvalidArgument(f"bins is {request.bins}: give 2 to {_MOST_BINS} to discover, or leave it out for 20")
    one = declare_bins(cursor, column, None, *bounds, 1, nullable=nullable, other=request.other)
    steps = _MOST_BINS if one.is_float else int(one.ticks[1]) - int(one.ticks[0])
    bins = min(request.bins or _USUAL_BINS, steps)
    while True:
        try:
            return declare_bins(cursor, column, None, *bounds, bins, nullable=nullable, other=request.other)
        except InvalidArgument:
            if request.bins is not None or bins == 1:
                raise
            bins //= 2  # a FLOAT may not tell so many apart


def _check_listed(account: Account, column: Column, bins: int | None) -> None:
    """Refuse to discover the values of a column that has none to list, or shows whose row it is."""
    if bins is not None:
        raise InvalidArgument(f"bins is {bins}: give lower and upper too, the public bounds between which edges lie")
    if not column_type(column.type).listable:
        raise InvalidArgument(
            f"column {column.name!r} is of type {kind_of(column.type)}, which can have no domain: say "
            f"dp_domain(…, {column.name!r}, exclude := true)"
        )
    if column.name == account.unit_column:
        raise InvalidArgument(f"column {column.name!r} is the privacy unit, of which no value may be known")
    if automatic(column) is not None:
        raise InvalidArgument(f"column {column.name!r} is of type {column.type}, which tells its values by itself")


def _cost(request: DiscoveryRequest, account: Account, *, of_values: bool) -> tuple[Budget, float]:
    """ρ for (ε, δ), and δ′: half of δ where values are discovered, which are (ε, δ/2)-DP but for δ/2."""
    if account.pure:
        raise InvalidArgument(
            f"{account.source} promises pure epsilon (delta 0), which no discovery does: declare the domain, with "
            "\"values\" := […], lower := … and upper := …, or reference := 'table.column'"
        )
    if not of_values:
        return price(_QUESTIONS, request.epsilon, account.delta if request.delta is None else request.delta), 0.0
    delta = check_delta(account.delta / _DEFAULT_PART if request.delta is None else request.delta)
    return replace(price(_QUESTIONS, request.epsilon, delta / 2), delta=delta), delta / 2


def discover(cursors: Cursors, resolved: Discovery, progress: Progress) -> Attribute:
    """The domain of a request: known, resumed, or charged and discovered now; and recorded.

    Args:
        cursors: opens connections to the instance.
        resolved: by `resolve_discovery`.
        progress: notified of each step; may raise `Interrupted`.

    Raises:
        InsufficientBudget: less is left than the request costs; nothing was charged.
        DpsqlError: nothing was common enough to be told; the charge is kept.
        Interrupted: what was charged is kept.
    """
    was_published = resolved.entry is not None and resolved.entry.state == "published"
    found = attribute_from(produce(resolved, cursors, progress).report["domain"])
    if not was_published:
        return found
    with cursors() as cursor, guarded(progress, cursor):
        books = Books(cursor, resolved.source.catalog)
        if facts.declared(books, resolved.source.key).get(found.name) != found:  # it was declared anew since
            facts.declare(books, resolved.source.key, found)
    return found


def _values(cursor: Cursor, curator: Curator, now: Discovery) -> Attribute:
    told = curator.discover_values(now.column.name, curator.remaining, now.failure)
    values = [value for value in told if value != now.other]
    if not values:
        raise NothingFound(
            f"no value of column {now.column.name!r} is common enough to be told at this epsilon: list them, "
            'dp_domain(…, "values" := […]), or exclude the column'
        )
    return declare_values(
        cursor, now.column, values, nullable=now.nullable, other=now.request.other, origin="discovered"
    )


# --- bins -------------------------------------------------------------------------------------------------------------


def _bins(cursor: Cursor, curator: Curator, now: Discovery, whole: Attribute) -> Attribute:
    low, high = whole.ticks[0], whole.ticks[-1]
    few = not whole.is_float and int(high) - int(low) <= _MOST_STEPS
    rounds = 1 if few else _ROUNDS
    ticks = _parts(whole, low, high, _MOST_STEPS if few else _FIRST)
    share, known = curator.remaining / rounds, dict[tuple[Any, Any], tuple[float, int]]()
    for number in range(rounds):
        parts = replace(whole, ticks=ticks, edges=edge_texts(cursor, ticks, whole.type), other=None, nullable=False)
        measured = curator.measure_bins(parts, share)
        for part, value in zip(itertools.pairwise(ticks), measured.values.tolist(), strict=True):
            mean, times = known.get(part, (0.0, 0))  # a part that was not split was measured before
            known[part] = (mean * times + value) / (times + 1), times + 1
        counts = np.array([known[part][0] for part in itertools.pairwise(ticks)])
        if number + 1 < rounds:
            least = max(float(counts.sum()) / whole.regular / 2, 3 * measured.stddev)
            ticks = _split(whole, ticks, counts > least)
    bins = min(whole.regular, max(2, int(counts.sum() / (_NOISE_IN_BIN * measured.stddev))))
    chosen = _quantile_edges(ticks, counts, bins)
    return replace(whole, ticks=chosen, edges=edge_texts(cursor, chosen, whole.type), origin="discovered")


def _parts(whole: Attribute, low: int | float, high: int | float, most: int) -> Ticks:
    """Edges of at most so many parts of equal width of [low, high)."""
    if whole.is_float:
        edges = equal_width(low, high, most, is_float=True)
        return tuple(dict.fromkeys(map(whole.of_type.rounded, edges)))
    return equal_width(low, int(high) - 1, min(most, int(high) - int(low)), is_float=False)


def _split(whole: Attribute, ticks: Ticks, large: npt.NDArray[np.bool_]) -> Ticks:
    """The edges with those of the parts of large ones among them."""
    found: list[int | float] = [ticks[0]]
    for (low, high), is_large in zip(itertools.pairwise(ticks), large, strict=True):
        found += _parts(whole, low, high, _SPLIT)[1:] if is_large else [high]
    return tuple(found)


def _quantile_edges(ticks: Ticks, counts: npt.NDArray[np.float64], bins: int) -> Ticks:
    """The edges nearest to the quantiles i/bins of noisy counts; of parts of equal width, where nothing was counted.

    >>> _quantile_edges((0, 1, 2, 3, 4), np.array([6.0, 2.0, 2.0, 2.0]), 2)
    (0, 1, 4)
    """
    below = np.concatenate([[0.0], isotonic_regression(np.cumsum(counts)).x.clip(0)])
    if below[-1] == 0:
        below = np.arange(len(ticks), dtype=float)
    wanted = np.arange(1, bins) * below[-1] / bins
    after = np.clip(np.searchsorted(below, wanted), 1, len(below) - 1)
    nearer = np.where(wanted - below[after - 1] < below[after] - wanted, after - 1, after)
    inside = [place for place in dict.fromkeys(nearer.tolist()) if 0 < place < len(ticks) - 1]
    return (ticks[0], *(ticks[place] for place in inside), ticks[-1])
