"""The errors that a plan expects, marginal by marginal: as lines of text and as a picture.

error of a marginal = the predicted L1 error of the synthetic table where one is predicted,
                      else the expected noise of its counts, Σ|noise| as a fraction of the rows
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dpsql.errors import DpsqlError
from dpsql.report import charts
from dpsql.report.plan_chart import bar, digits

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTH: Final = 30
_LABEL: Final = 30
_LINES: Final = 5
"""Marginals of a size that a text shows, those with the largest errors: DuckDB's shell shows 40 lines."""
_BARS: Final = 8
"""Likewise of a picture."""
_SIZES: Final = {1: "single columns", 2: "pairs of columns"}
_INKS: Final = {"ink": "#1b1f24", "grid": "#d5dae0", "predicted": "#0072b2", "noise": "#e69f00"}


@dataclass(frozen=True)
class ExpectedError:
    """What a plan says of one marginal of a table, or of one aggregate of a query.

    Attributes:
        marginal: its columns.
        error: as above; None where nothing is expected.
        is_predicted: whether it is of the synthetic table, and not of the counts alone.
        note: what the plan says of it.
    """

    marginal: tuple[str, ...]
    error: float | None
    is_predicted: bool
    note: str

    @property
    def label(self) -> str:
        """Its columns, in as many letters as fit."""
        whole = ", ".join(self.marginal)
        return whole if len(whole) <= _LABEL else whole[: _LABEL - 1] + "…"


def expected_errors(rows: Iterable[dict[str, Any]]) -> list[ExpectedError]:
    """The errors in the rows of `dp_plan`, by the names of its columns; of marginals that are measured or predicted."""
    by_marginal: dict[tuple[str, ...], ExpectedError] = {}
    for row in rows:
        marginal, predicted, noise = tuple(map(str, row["marginal"])), row["predicted_l1"], row["noise_l1"]
        if not marginal or marginal[0].startswith("("):  # the number of rows, and remarks
            continue
        errors = [error for error in (predicted, noise) if error is not None and error == error]
        expected = ExpectedError(
            marginal, float(errors[0]) if errors else None, bool(errors) and errors[0] is predicted, row["note"]
        )
        before = by_marginal.get(marginal)
        if before is None or (expected.error is not None and not before.is_predicted):
            by_marginal[marginal] = expected
    return list(by_marginal.values())


def of_size(errors: Sequence[ExpectedError]) -> dict[str, list[ExpectedError]]:
    """Those that have an error, by how many columns they have, the largest first."""
    groups: dict[str, list[ExpectedError]] = {}
    with_error = [error for error in errors if error.error is not None]
    for error in sorted(with_error, key=lambda error: (len(error.marginal), -(error.error or 0.0))):
        groups.setdefault(_SIZES.get(len(error.marginal), f"{len(error.marginal)} columns"), []).append(error)
    return groups


def error_lines(errors: Sequence[ExpectedError], epsilon: float) -> list[str]:
    """A text chart of a table's errors, the largest of each size."""
    lines = [f"Expected error at epsilon {epsilon:g}, as a fraction of the rows (L1)"]
    for size, group in of_size(errors).items():
        shown = group[:_LINES]
        largest = max(error.error or 0.0 for error in shown)
        what = "predicted" if all(error.is_predicted for error in shown) else "noise of the counts"
        wide = max(len(error.label) for error in shown)
        lines += ["", f"{size} ({what})"]
        lines += [f"  {error.label:<{wide}}  {_barred(error.error or 0.0, largest)}" for error in shown]
        if len(group) > _LINES:
            rest = digits(group[_LINES].error or 0.0)
            lines.append(f"  and {len(group) - _LINES:,} more, at most {rest} each")
    if len(lines) == 1:
        lines += ["", "No error of a whole marginal is predicted for this mechanism."]
    return lines


def answer_lines(rows: Iterable[dict[str, Any]], epsilon: float) -> list[str]:
    """The errors of a query's answers, a line for each aggregate."""
    notes = [str(row["note"]).split("; ")[0] for row in rows]
    return [f"Expected error of the answers at epsilon {epsilon:g}", "", *(f"  {note}" for note in notes)]


def _barred(error: float, largest: float) -> str:
    return f"{digits(error):<8} {bar(error / largest if largest else 0.0, _WIDTH)}"


def draw_errors(errors: Sequence[ExpectedError], epsilon: float) -> Figure:
    """The picture, as a figure of matplotlib: a bar for each marginal, the largest of each size.

    Raises:
        DpsqlError: matplotlib is not installed, or the plan expects no error of a marginal.
    """
    groups = {size: group[:_BARS] for size, group in of_size(errors).items()}
    if not groups:
        raise DpsqlError(
            "plot(): this plan predicts no error of a marginal: plot the plan of a synthetic table, or "
            "db.plan_chart(…) for errors against epsilon"
        )
    try:
        return _drawn(groups, epsilon)
    except ImportError:
        raise DpsqlError(
            "plot() needs matplotlib, which is not installed: pip install matplotlib, or FROM dp_plan(…, chart := true)"
        ) from None


def _drawn(groups: dict[str, list[ExpectedError]], epsilon: float) -> Figure:
    heights = [len(group) + 1.3 for group in groups.values()]
    figure = charts.figure(6.4, 0.6 + 0.24 * sum(heights))
    rows: Any = figure.subplots(len(groups), 1, height_ratios=heights, squeeze=False)
    for axes, (size, group) in zip(rows[:, 0], groups.items(), strict=True):
        predicted = all(error.is_predicted for error in group)
        color = _INKS["predicted" if predicted else "noise"]
        values = [error.error or 0.0 for error in group]
        axes.barh(range(len(group)), values, color=color, height=0.7)
        axes.set_yticks(range(len(group)), [error.label for error in group])
        axes.invert_yaxis()
        axes.set_xlim(0, 1.15 * max(values) or 1)
        for place, value in enumerate(values):
            axes.text(value, place, f" {digits(value)}", va="center", color=_INKS["ink"], fontsize=8)
        what = "predicted error" if predicted else "noise of the counts"
        axes.set_title(f"{size}: {what}", loc="left", fontsize=9.5, color=_INKS["ink"])
        axes.tick_params(colors=_INKS["ink"], length=0)
        axes.set_xticks([])
        for spine in axes.spines.values():
            spine.set_visible(False)
    figure.suptitle(f"Expected error at ε = {epsilon:g}, as a fraction of the rows (L1)", fontsize=10.5)
    return figure
