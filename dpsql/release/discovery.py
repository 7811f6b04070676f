r"""`dp_domain(…, discover := true)`: a column's domain found in its private rows, with noise, and charged.

    values   those that so many units have that no single unit makes one known: `Curator.discover_values`
    bins     between public bounds, with about as many rows in each: edges at the quantiles i/B of noisy counts

Bins are found by measuring, splitting and measuring again, each time all bins of the column at once, so that a row is
in one bin of each measurement. The range is cut into 64 parts; a part of more than half a bin's share of the rows, and
of more than the noise, is cut into 16; and once more. Where the type has few enough steps in the range, each is a part,
and one measurement tells all. The edges are those of the last parts that are nearest to the quantiles of the noisy
counts, their sums made monotone by isotonic regression, and there are only so many bins that each holds more than the
noise: all of it post-processing.

With `heavy := 0.05` bins get points too: a fifth of ρ and δ′ pay for the values that about that part of the rows have,
by the rule of values with a larger threshold. A value of so many rows and of five standard deviations of the noise more
is missed less than once in a million times. A value of a single unit is never published; that one unit makes a value
known which only one other unit has, has a probability of δ′ at most.

The discovery is a release like any other: the same call again changes nothing and costs nothing.
"""

from __future__ import annotations

import itertools
import math
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from dpsql.books.ledger.store import Books
from dpsql.books.releases import publication
from dpsql.books.releases.releases import Entry, find_release
from dpsql.books.tables import facts
from dpsql.core.column_types import column_type
from dpsql.core.domain import Attribute, Domain, attribute_from, equal_width
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.duckdb.declare import declare_values
from dpsql.engines.duckdb.declare_points import cut
from dpsql.engines.duckdb.ticks import edge_texts, tick
from dpsql.engines.protocol import Engine
from dpsql.errors import DpsqlError, InvalidArgument
from dpsql.privacy.accounting import Budget
from dpsql.privacy.curator import Curator
from dpsql.release.discovery_plan import QUESTIONS, DiscoveryPlan, plan_discovery
from dpsql.release.lookup import look_up_discovery
from dpsql.release.pipeline import Cursors, NothingFound, Run, guarded, produce
from dpsql.release.request import DiscoveryRequest
from dpsql.runtime.progress import Progress

Ticks = tuple[int | float, ...]
_FIRST: Final = 64
_SPLIT: Final = 16
_ROUNDS: Final = 3
_MOST_STEPS: Final = 1024  # in one measurement
_OF_BINS: Final = Fraction(4, 5)  # of ρ, where points are discovered too
_NOISE_IN_BIN: Final = 4  # standard deviations of one part's noise that a bin holds at least


@dataclass(frozen=True)
class Discovery(DiscoveryPlan):
    """A planned discovery, and whether it was charged before.

    Attributes:
        entry: the release, if it was charged before.
    """

    entry: Entry | None
    by_mechanism: ClassVar[bool] = False
    by: ClassVar[str] = ""

    def again(self, cursor: Cursor) -> Discovery:
        """See `Work.again`."""
        now = resolve_discovery(cursor, self.request)
        if (now.key, now.source) != (self.key, self.source):
            raise DpsqlError("the table changed since the statement was bound: run it again")
        return now

    def public_rows(self, cursor: Cursor) -> None:
        """See `Work.public_rows`: none."""

    def affordable(self, engine: Engine, books: Books) -> Budget:
        """See `Work.affordable`: any discovery is."""
        return self.budget

    def counted(self, entry: Entry) -> Domain:
        """See `Work.counted`: there is none yet."""
        return Domain(())

    def make(self, run: Run) -> Entry:
        """See `Work.make`."""
        cursor, curator, whole = run.cursor, run.curator, self.facts.whole
        attribute = _values(cursor, curator, self) if whole is None else _bins(cursor, curator, self, whole)
        return publication.publish_domain(run.books, run.entry, attribute, {"size": attribute.size})


def resolve_discovery(cursor: Cursor, request: DiscoveryRequest) -> Discovery:
    """Find and check everything that a request names; free.

    Raises:
        DpsqlError: a child says what is wrong, and what mends it.
    """
    planned = plan_discovery(request, look_up_discovery(cursor, request))
    books = Books(cursor, planned.source.catalog)
    entry = find_release(books, planned.key)
    if entry is None:
        books.check_writable()
        planned.account.reserve(planned.failure).require(planned.budget, QUESTIONS.conversion)
    return Discovery(**vars(planned), entry=entry)


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
    attribute = attribute_from(produce(resolved, cursors, progress).report["domain"])
    if not was_published:
        return attribute
    with cursors() as cursor, guarded(progress, cursor):
        books = Books(cursor, resolved.source.catalog)
        if facts.declared(books, resolved.source.key).get(attribute.name) != attribute:  # it was declared anew since
            facts.declare(books, resolved.source.key, attribute)
    return attribute


def _values(cursor: Cursor, curator: Curator, now: Discovery) -> Attribute:
    texts = curator.discover_values(now.facts.column.name, curator.remaining, now.failure)
    of_type = column_type(now.facts.column.type)
    taken = {of_type.folded(text) for text in (now.facts.other, *now.facts.nulls_as) if text is not None}
    values = [value for value in texts if of_type.folded(value) not in taken]
    if not values:
        raise NothingFound(
            f"no value of column {now.facts.column.name!r} is common enough to be told at this epsilon: list them, "
            'dp_domain(…, "values" := […]), or exclude the column'
        )
    listed = declare_values(
        cursor, now.facts.column, values, nullable=now.facts.nullable, other=now.request.other, origin="discovered"
    )
    return replace(listed, nulls_as=now.facts.nulls_as)


# --- bins -------------------------------------------------------------------------------------------------------------


def _bins(cursor: Cursor, curator: Curator, now: Discovery, whole: Attribute) -> Attribute:
    low, high = whole.ticks[0], whole.ticks[-1]
    few = not whole.is_float and int(high) - int(low) <= _MOST_STEPS
    rounds = 1 if few else _ROUNDS
    ticks = _parts(whole, low, high, _MOST_STEPS if few else _FIRST)
    of_bins = curator.remaining if now.request.heavy is None else curator.remaining * _OF_BINS
    share, means = of_bins / rounds, dict[tuple[Any, Any], tuple[float, int]]()
    for number in range(rounds):
        parts = replace(whole, ticks=ticks, edges=edge_texts(cursor, ticks, whole.type), other=None, nullable=False)
        measured = curator.measure_bins(parts, share)
        for part, value in zip(itertools.pairwise(ticks), measured.values.tolist(), strict=True):
            mean, times = means.get(part, (0.0, 0))  # a part that was not split was measured before
            means[part] = (mean * times + value) / (times + 1), times + 1
        counts = np.array([means[part][0] for part in itertools.pairwise(ticks)])
        if number + 1 < rounds:
            least = max(float(counts.sum()) / whole.regular / 2, 3 * measured.stddev)
            ticks = _split(whole, ticks, counts > least)
    points = [] if now.request.heavy is None else _points(cursor, curator, now, whole, float(counts.sum()))
    held = np.searchsorted(np.array(ticks[1:]), points, side="right").clip(0, len(counts) - 1)
    counts[held] = 0.0  # a point is no reason for an edge
    bins = min(whole.regular, max(2, int(counts.sum() / (_NOISE_IN_BIN * measured.stddev))))
    chosen = _quantile_edges(ticks, counts, bins)
    cut_domain = replace(whole, ticks=chosen, edges=edge_texts(cursor, chosen, whole.type), origin="discovered")
    return cut(cursor, cut_domain, points) if points else cut_domain


def _points(cursor: Cursor, curator: Curator, now: Discovery, whole: Attribute, rows: float) -> list[int | float]:
    """The ticks of the values that about a part `heavy` of the rows have, those between the bounds.

    A unit of c rows may hold all its rows of a value by itself, so a c-th of the units is enough.
    """
    assert now.request.heavy is not None
    of_one_unit = now.account.neighbours.unit_rows or 1
    least = max(1, math.ceil(now.request.heavy * rows / of_one_unit))
    point_ticks: set[int | float] = set()
    for text in curator.discover_values(now.facts.column.name, curator.remaining, now.failure, least):
        if text in whole.nulls_as:
            continue
        with suppress(InvalidArgument):  # a text that is no number, or none that is finite
            point_ticks.add(tick(cursor, text.rstrip(whole.suffix or None), whole.type, "points") + 0)
    return sorted(point for point in point_ticks if whole.ticks[0] <= point < whole.ticks[-1])


def _parts(whole: Attribute, low: int | float, high: int | float, most: int) -> Ticks:
    """Edges of at most so many parts of equal width of [low, high)."""
    if whole.is_float:
        edges = equal_width(low, high, most, is_float=True)
        return tuple(dict.fromkeys(map(whole.of_type.rounded, edges)))
    return equal_width(low, int(high) - 1, min(most, int(high) - int(low)), is_float=False)


def _split(whole: Attribute, ticks: Ticks, large: npt.NDArray[np.bool_]) -> Ticks:
    """The edges with those of the parts of large ones among them."""
    edges: list[int | float] = [ticks[0]]
    for (low, high), is_large in zip(itertools.pairwise(ticks), large, strict=True):
        edges += _parts(whole, low, high, _SPLIT)[1:] if is_large else [high]
    return tuple(edges)


def _quantile_edges(ticks: Ticks, counts: npt.NDArray[np.float64], bins: int) -> Ticks:
    """The edges nearest to the quantiles i/bins of noisy counts; of parts of equal width, where nothing was counted.

    >>> _quantile_edges((0, 1, 2, 3, 4), np.array([6.0, 2.0, 2.0, 2.0]), 2)
    (0, 1, 4)
    """
    from scipy.optimize import isotonic_regression  # takes half a second to import

    below = np.concatenate([[0.0], isotonic_regression(np.cumsum(counts)).x.clip(0)])
    if below[-1] == 0:
        below = np.arange(len(ticks), dtype=float)
    wanted = np.arange(1, bins) * below[-1] / bins
    after = np.clip(np.searchsorted(below, wanted), 1, len(below) - 1)
    nearer = np.where(wanted - below[after - 1] < below[after] - wanted, after - 1, after)
    inside = [place for place in dict.fromkeys(nearer.tolist()) if 0 < place < len(ticks) - 1]
    return (ticks[0], *(ticks[place] for place in inside), ticks[-1])
