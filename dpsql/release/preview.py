"""`dp_plan`: what a plan would measure, how far off it would be, and the least ε that is enough. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from dpsql.core.linear_query import LinearQuery
from dpsql.core.prior import Prior
from dpsql.engines.costs import Cost, predict_cost
from dpsql.errors import DpsqlError, InvalidArgument
from dpsql.evaluation.evaluated import Evaluated, Measured
from dpsql.evaluation.histograms import spread_evenly
from dpsql.language.arithmetic import scaled_answer
from dpsql.language.query import Aggregate, Query
from dpsql.language.refusal import words_of
from dpsql.language.windows import answers_in
from dpsql.mechanisms.base import PlannedMeasurement, Remark
from dpsql.privacy.linear import linear_stddevs
from dpsql.release.intervals import Noisy, least_count, ratio, reach_of
from dpsql.release.plan import Plan, check_drawable, plan_table
from dpsql.release.query_plan import QueryPlan, check_noise, plan_query
from dpsql.release.statistics import assumed_sums, statistic
from dpsql.runtime.process_settings import deep_recursion

ROW_BYTES: Final = 16
"""Of a value of a synthetic row while it is drawn, rounded and stored: fitted to 15 and 100 columns of 10^6 rows in a
file."""
LARGEST_EPSILON: Final = 1000.0
"""That is tried to find one that is enough."""


@dataclass(frozen=True)
class Preview:
    """What a plan of a synthetic table would do.

    Attributes:
        plan: of the table.
        measurements: the questions that the mechanism would ask.
        remarks: what it says beside them.
        rows: the number of rows assumed for it.
    """

    plan: Plan
    measurements: Sequence[PlannedMeasurement]
    remarks: Sequence[Remark]
    rows: float

    @property
    def memory(self) -> float:
        """About how many bytes the work takes, with the rows that are drawn, rounded and stored."""
        rows = self.plan.request.rows or self.rows
        return self.plan.mechanism.footprint(self.plan.domain, self.plan.workload) + (
            ROW_BYTES * rows * len(self.plan.domain)
        )

    @property
    def overall(self) -> float | None:
        """The mean of the predicted L1 errors of the workload's marginals; None where none is predicted."""
        wanted = set(self.plan.workload.needed)
        whole = [m for m in self.measurements if m.open is None and m.clique in wanted]
        predictions = {m.clique: m.predicted for m in whole if m.predicted is not None}
        return sum(predictions.values()) / len(predictions) if predictions else None


def preview(plan: Plan, rows: float, prior: Prior | None = None) -> Preview:
    """What a plan would measure of about so many rows, with which noise.

    Args:
        plan: of the table.
        rows: about how many it has.
        prior: its public table, where the plan is to say something of it.

    Raises:
        DpsqlError: it is not what would be charged, because the mechanism's ρ are no numbers or more than the charge.
    """
    planned = plan.questions_of(rows)
    remarks = [part for part in planned if isinstance(part, Remark)]
    remarks += [Remark("counting", str(cost)) for cost in _counting(plan, planned, rows)]
    remarks += () if prior is None else plan.mechanism.remarks_on(prior, plan.domain, plan.workload)
    measurements = [part for part in planned if not isinstance(part, Remark)]
    costs = [measurement.rho for measurement in measurements]
    plain = all(type(cost) in (int, float) and 0 <= cost < math.inf for cost in costs)
    if not plain or sum(costs) > float(plan.budget.rho) * (1 + 1e-6):
        raise DpsqlError(
            f"mechanism {plan.label!r} plans questions that are not within its charge of rho = "
            f"{float(plan.budget.rho):.6g}: its plan(…) must say what its run(…) asks"
        )
    return Preview(plan, measurements, remarks, rows)


def _counting(plan: Plan, planned: Sequence[PlannedMeasurement | Remark], rows: float) -> Iterator[Cost]:
    """What counting would take where another engine has the rows: of a mechanism that chooses, of all it may choose."""
    if plan.facts.rates is None:
        return
    questions = [
        question for question in planned if isinstance(question, PlannedMeasurement) and question.stddev is not None
    ]
    cliques = {question.clique: None for question in questions if question.clique and question.open is None}
    if any(question.open is not None for question in questions):
        cliques |= dict.fromkeys(plan.workload.needed)
    yield predict_cost(
        plan.facts.rates, plan.domain, list(cliques), rows, has_units=plan.account.unit_column is not None
    )


def least_epsilon_of_table(plan: Plan, max_error: float, rows: float) -> float:
    """The smallest ε, rounded up to three digits, at which the mean predicted L1 error is at most `max_error`.

    Args:
        plan: of the table at any ε, which is not used.
        max_error: a mean L1 error.
        rows: about how many rows the table has.

    Raises:
        InvalidArgument: no ε is enough, or none is predicted.
    """

    def overall(epsilon: float) -> float:
        planned = plan_table(replace(plan.request, epsilon=epsilon), plan.facts)
        check_drawable(planned)
        error = preview(planned, rows).overall
        return math.inf if error is None else error  # none where noise drowns all but the 1-way marginals

    if math.isinf(overall(LARGEST_EPSILON)):
        raise InvalidArgument("max_error: no error is predicted for this mechanism, give epsilon")
    return smallest(overall, max_error)


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
def plan_answers(plan: QueryPlan, evaluated: Evaluated, assume_rows: int) -> list[PlannedAnswer]:
    """How noisy the answers of a query would be; reads no private row.

    Args:
        plan: of the query.
        evaluated: the query on its domain.
        assume_rows: about how many rows the table has, spread evenly over the groups: averages depend on that.
    """
    linear, query = evaluated.linear, plan.query
    noise = plan.request.noise
    spread = linear_stddevs(linear, plan.budget.rho, plan.account.neighbours, noise)
    groups = max(int(alive.sum()) for alive in evaluated.present)  # of the finest grouping set
    planned = []
    rows = max(1, round(assume_rows / max(1, groups)))
    for aggregate, measured in zip(query.aggregates, evaluated.measured, strict=True):
        parts = measured.weights
        nothing_seen = [Noisy(np.zeros(1, np.int64), spread[part], noise) for part in parts]
        unit, text = float(evaluated.units[parts[0]]), text_of(aggregate)
        if aggregate.kind == "avg":
            planned.append(_planned_average(text, nothing_seen, unit, evaluated.average_range(parts), rows))
        elif not aggregate.is_plain:
            every = [Noisy(np.zeros(1), stddev, noise) for stddev in spread]
            planned.append(_planned_statistic(text, measured, evaluated, every, rows))
        else:
            reach = float(reach_of(nothing_seen[0], unit))
            planned.append(PlannedAnswer(text, spread[parts[0]] * unit, reach, f"95 % interval ± {reach:.4g}"))
    return _as_asked(query, planned)


def _as_asked(query: Query, planned: Sequence[PlannedAnswer]) -> list[PlannedAnswer]:
    """What is planned for the aggregates as the query shows them: scaled where it scales one, else as what they are."""
    shown_answers: dict[PlannedAnswer, None] = {}
    shown: set[int] = set()
    for item, tree in zip(query.select.expressions, query.outputs, strict=True):
        scaled = scaled_answer(tree)
        if scaled is not None:
            shown_answers[_scaled(planned[scaled[0]], scaled[1], words_of(item.unalias()))] = None
            shown.add(scaled[0])
            continue
        made_of = answers_in(tree, query.windows)
        for number in sorted(made_of - shown):
            answer, words = planned[number], words_of(item.unalias())
            note = f"{answer.note}; of {answer.aggregate} alone, of which {words} is made"
            shown_answers[replace(answer, note=note)] = None
        shown |= made_of
    return [*shown_answers, *(answer for number, answer in enumerate(planned) if number not in shown)]


def _scaled(answer: PlannedAnswer, factor: float, words: str) -> PlannedAnswer:
    """What is planned for an aggregate times a constant."""
    if factor == 1:
        return answer
    times = abs(factor)
    stddev, reach = (None if figure is None else figure * times for figure in (answer.stddev, answer.reach))
    note = answer.note if reach is None else f"95 % interval ± {reach:.4g}; {answer.aggregate}: {answer.note}"
    return PlannedAnswer(words, stddev, reach, note)


def _planned_average(
    text: str, ratio_parts: Sequence[Noisy], unit: float, bounds: tuple[float, float], rows: int
) -> PlannedAnswer:
    """An average of groups of so many rows whose values are the farthest from 0, where its error is the largest."""
    farthest = max(bounds, key=abs)
    over = replace(ratio_parts[0], values=np.full(1, rows * farthest / unit))
    under = replace(ratio_parts[1], values=np.full(1, rows))
    answers = ratio(over, under, unit, (-math.inf, math.inf))
    reach = float((answers.high - answers.low)[0] / 2)
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
        text, float(answers.stderr[0]), reach, f"95 % interval ± {reach:.4g} at {rows} rows a group; {null}"
    )


def _planned_statistic(
    text: str, measured: Measured, evaluated: Evaluated, noisy: Sequence[Noisy], rows: int
) -> PlannedAnswer:
    """A statistic of groups of so many rows whose values are spread evenly over the bounds."""
    if measured.histogram is not None:
        assumed = list(spread_evenly(measured.histogram, rows))
    else:
        assumed = assumed_sums(measured, evaluated, rows)
    assumed_noise = list(noisy)
    for number, value in zip(measured.weights, assumed, strict=True):
        unit = float(evaluated.units[number])
        assumed_noise[number] = replace(assumed_noise[number], values=np.full(1, value / unit))
    answers = statistic(measured, evaluated, assumed_noise, {})
    at = f"at {rows} rows a group that are spread evenly over the domain"
    null = "NULL where it says no more than the domain does"
    if not math.isfinite(float(answers.values[0])):
        note = f"nothing is known {at}; {null}: give more epsilon, or ask for fewer groups"
        return PlannedAnswer(text, None, None, note)
    reach = float((answers.high - answers.low)[0] / 2)
    return PlannedAnswer(text, float(answers.stderr[0]), reach, f"95 % interval ± {reach:.4g} {at}; {null}")


def seconds_of(rows: float) -> float:
    """About how long a query takes on so many rows."""
    return 0.05 + 2e-7 * rows


def megabytes_of(linear: LinearQuery) -> float:
    """About how much memory the answers of a query take."""
    return 8e-6 * (sum(linear.groups) * (1 + 4 * linear.aggregates) + sum(part.factors.size for part in linear.parts))


_NAMES: Final = {"stddev_samp": "stddev", "var_samp": "variance"}


def text_of(aggregate: Aggregate) -> str:
    """An aggregate as one would write it, for people."""
    if aggregate.kind == "ratio":
        return " / ".join(map(text_of, aggregate.sides))
    argument = "*" if aggregate.argument is None else aggregate.argument.sql(dialect="duckdb")
    if aggregate.second is not None:
        argument += f", {aggregate.second.sql(dialect='duckdb')}"
    kind = _NAMES.get(aggregate.kind, aggregate.kind)
    if kind == "quantile_cont" and aggregate.share == 0.5:
        kind = "median"
    elif aggregate.share is not None:
        argument += f", {aggregate.share:g}"
    kind, argument = ("count", f"DISTINCT {argument}") if aggregate.kind == "units" else (kind, argument)
    where = " AND ".join(tree.sql(dialect="duckdb") for tree in aggregate.filters)
    return f"{kind}({argument})" + (f" WHERE {where}" if where else "")


def least_epsilon(plan: QueryPlan, evaluated: Evaluated, max_error: float, assume_rows: int) -> float:
    """The smallest ε, rounded up to three digits, at which no 95 % interval exceeds ± max_error.

    Args:
        plan: of the query at any ε, which is not used.
        evaluated: the query on its domain.
        max_error: in the unit of each aggregate.
        assume_rows: see `plan_answers`.

    Raises:
        InvalidArgument: no ε is enough.
    """

    def off(epsilon: float) -> float:
        planned = plan_query(replace(plan.request, epsilon=epsilon), plan.facts)
        check_noise(planned, evaluated.linear)
        answers = plan_answers(planned, evaluated, assume_rows)
        return max(math.inf if answer.reach is None else answer.reach for answer in answers)

    return smallest(off, max_error)


def check_width(max_error: float) -> None:
    """Refuse a width that no interval has.

    Raises:
        InvalidArgument: it is not positive.
    """
    if not 0 < max_error < math.inf:
        raise InvalidArgument(f"max_error is {max_error:g}: give half the width of the intervals wanted")


def smallest(error: Callable[[float], float], most: float) -> float:
    """The smallest ε, rounded up to three digits, whose error is at most `most`; the error falls with ε.

    Raises:
        InvalidArgument: none up to 1,000 is enough.

    >>> smallest(lambda epsilon: 3 / epsilon, 2.0)
    1.5
    """
    low, high = 1e-4, LARGEST_EPSILON
    if error(high) > most:
        raise InvalidArgument(f"max_error is {most:g}, which no epsilon up to {high:g} reaches: give a larger one")
    while high / low > 1 + 1e-7:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if error(middle) <= most else (middle, high)
    digits = 2 - math.floor(math.log10(high))
    return math.ceil(round(high * 10.0**digits, 4)) / 10.0**digits
