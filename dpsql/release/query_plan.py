"""`dp_plan` of a query: how far off its answers would be, and the least ε that is enough; it spends nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpsql.engines.duckdb.cursors import Cursor
from dpsql.errors import InvalidArgument
from dpsql.evaluation.weights import weights_of
from dpsql.language.query import Aggregate
from dpsql.privacy.linear import linear_stddevs
from dpsql.release.answers_frame import range_of
from dpsql.release.intervals import Noisy, least_count, ratio, reach_of
from dpsql.release.query_answers import QueryRequest, ResolvedQuery, resolve_query
from dpsql.runtime.process_settings import deep_recursion


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
    noise = resolved.request.noise
    spread = linear_stddevs(linear, resolved.budget.rho, resolved.account.neighbours, noise)
    _, made_of = weights_of(query.aggregates)
    groups = max(int(alive.sum()) for alive in evaluated.present)  # of the finest grouping set
    planned = []
    for aggregate, parts in zip(query.aggregates, made_of, strict=True):
        known = [Noisy(np.zeros(1, np.int64), spread[part], noise) for part in parts]
        unit, text = float(evaluated.units[parts[0]]), _text_of(aggregate)
        if aggregate.kind == "avg":
            rows = max(1, round(assume_rows / max(1, groups)))
            planned.append(_planned_average(text, known, unit, range_of(evaluated, parts), rows))
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
