"""`dp_plan(…, chart := true)`: a plan as lines of text, its errors one by one and against ε."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from dpsql.errors import DpsqlError
from dpsql.release.plan import check_drawable, plan_table
from dpsql.release.preview import plan_answers, preview
from dpsql.release.query_answers import ResolvedQuery
from dpsql.release.query_plan import check_noise, plan_query
from dpsql.release.synthesis import Resolved
from dpsql.report.plan_chart import EPSILONS, PlanChart, Point
from dpsql.report.plan_errors import answer_lines, error_lines, expected_errors

Rows = Sequence[dict[str, Any]]


def table_chart(resolved: Resolved, rows: Rows, assumed: float, left: float) -> list[str]:
    """The lines of a table's plan.

    Args:
        resolved: the plan.
        rows: of `dp_plan`, by the names of its columns.
        assumed: about how many rows the table has.
        left: the largest ε that who asks may still ask for.
    """

    def error(epsilon: float) -> float | None:
        planned = plan_table(replace(resolved.request, epsilon=epsilon), resolved.facts)
        check_drawable(planned)
        return preview(planned, assumed).overall

    epsilon = resolved.budget.epsilon
    points = _points(error, epsilon, is_table=True)
    against = PlanChart(resolved.source.name, points, round(assumed), left)
    lines = error_lines(expected_errors(rows), epsilon)
    return lines if all(point.error is None for point in points) else [*lines, "", *str(against).splitlines()]


def query_chart(resolved: ResolvedQuery, rows: Rows, assumed: int, left: float) -> list[str]:
    """The lines of a query's plan; see `table_chart`."""

    def error(epsilon: float) -> float | None:
        planned = plan_query(replace(resolved.request, epsilon=epsilon), resolved.facts)
        check_noise(planned, resolved.evaluated.linear)
        answers = plan_answers(planned, resolved.evaluated, assumed)
        errors = [answer.stddev for answer in answers if answer.stddev is not None]
        return max(errors) if errors else None

    epsilon = resolved.budget.epsilon
    points = _points(error, epsilon, is_table=False)
    against = PlanChart("the query", points, assumed, left)
    return [*answer_lines(rows, epsilon), "", *str(against).splitlines()]


def _points(error: Callable[[float], float | None], own_epsilon: float, *, is_table: bool) -> tuple[Point, ...]:
    points = []
    for epsilon in sorted({*EPSILONS, own_epsilon}):
        try:
            points.append(Point(epsilon, error(epsilon), "", is_table))
        except DpsqlError as reason:  # such as noise that hides everything at so little
            points.append(Point(epsilon, None, str(reason), is_table))
    return tuple(points)
