"""The predicted error of a release against ε, as text and as a picture: to choose an ε by, before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dpsql.core.digits import down
from dpsql.errors import DpsqlError, InvalidArgument
from dpsql.report import charts

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

EPSILONS: Final = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_WIDTH: Final = 32
_MOST: Final = 100
_FREE: Final = {"ink": "#010101", "grid": "#030303", "line": "#2b8cc4", "left": "#d55e00"}
"""Colours of which the first two are those of the page around the picture: see `dpsql.report.charts`."""
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True)
class Point:
    """What a plan predicts at one ε.

    Attributes:
        epsilon: of the plan.
        error: of a table the mean L1 error of the workload's marginals; of a query the largest standard error of an
            answer. None where none is predicted.
        reason: why there is none.
        is_table: which of both it is.
    """

    epsilon: float
    error: float | None
    reason: str = ""
    is_table: bool = True


@dataclass(frozen=True)
class PlanChart:
    """Predicted errors against ε. It prints as a text chart; a notebook shows a picture.

    Attributes:
        table: or the query.
        points: by ε.
        rows: how many are assumed.
        left: about the largest ε that may still be asked for; None where that is not known.
    """

    table: str
    points: tuple[Point, ...]
    rows: int
    left: float | None

    @property
    def df(self) -> pd.DataFrame:
        """The points as a data frame: epsilon, error."""
        import pandas as pd

        return pd.DataFrame([(point.epsilon, point.error) for point in self.points], columns=["epsilon", "error"])

    @property
    def _is_table(self) -> bool:
        return all(point.is_table for point in self.points)

    def __str__(self) -> str:
        what = "mean L1 of the workload" if self._is_table else "largest standard error of an answer"
        named = self.table if len(self.table) <= 40 else "the query"
        lines = [f"Predicted error of {named} against epsilon ({what})", ""]
        errors = [point.error for point in self.points if point.error is not None]
        largest = max(errors, default=0.0)
        wide = max([7, *(len(f"{point.epsilon:g}") for point in self.points)])
        lines.append(f"{'epsilon':>{wide}}   error")
        for point in self.points:
            error = "?" if point.error is None else digits(point.error)
            drawn = "" if point.error is None else bar(point.error / largest if largest else 0.0, _WIDTH)
            note = self._note(point)
            lines.append(f"{point.epsilon:>{wide}g}   {error:<8}  {drawn:<{_WIDTH}}  {note}".rstrip())
        lines += ["", f"About {self.rows:,} rows are assumed (assume_rows). A rough guide, free."]
        return "\n".join(lines)

    __repr__ = __str__

    def _note(self, point: Point) -> str:
        if self.left is not None and point.epsilon > self.left:
            return f"more than the {down(self.left, 4)} left"
        return "no error is predicted" if point.error is None else ""

    def plot(self) -> Figure:
        """The picture, as a figure of matplotlib.

        Raises:
            DpsqlError: matplotlib is not installed.
        """
        try:
            return self._drawn({"ink": "#1b1f24", "grid": "#d5dae0", "line": "#0072b2", "left": "#d55e00"})
        except ImportError:
            raise DpsqlError(
                "plot() needs matplotlib, which is not installed: pip install matplotlib, or print the chart"
            ) from None

    def _repr_html_(self) -> str:
        """What a notebook shows, in its own colours; text where matplotlib is not installed."""
        from html import escape

        inks = {"ink": "currentColor", "grid": "rgba(128,128,128,.35)", "line": "#0072b2", "left": "#d55e00"}
        try:
            svg = charts.as_svg(lambda: self._drawn(_FREE), str(self))
        except (ImportError, DpsqlError):
            return f"<pre>{escape(str(self))}</pre>"
        return svg.replace("var(--ink)", inks["ink"]).replace("var(--grid)", inks["grid"])

    def _drawn(self, inks: dict[str, str]) -> Figure:
        figure = charts.figure(5.6, 3.2)
        axes: Any = figure.subplots()
        points = [point for point in self.points if point.error is not None]
        axes.plot([point.epsilon for point in points], [point.error for point in points], "o-", color=inks["line"])
        axes.set_xscale("log")
        axes.set_xticks([point.epsilon for point in self.points], [f"{point.epsilon:g}" for point in self.points])
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        what = "mean L1 error" if self._is_table else "largest standard error"
        axes.set_xlabel("ε", color=inks["ink"])
        axes.set_ylabel(f"predicted {what}", color=inks["ink"])
        axes.grid(color=inks["grid"], linewidth=0.6)
        axes.tick_params(colors=inks["ink"], length=0)
        for name, spine in axes.spines.items():
            spine.set_visible(name in ("left", "bottom"))
            spine.set_color(inks["grid"])
        low, high = (self.points[place].epsilon for place in (0, -1))
        if self.left is not None and low < self.left < high:
            axes.axvline(self.left, color=inks["left"], linestyle="--", linewidth=1.2)
            axes.text(
                self.left,
                0.97,
                f" {down(self.left, 3)} is left",
                color=inks["left"],
                va="top",
                transform=axes.get_xaxis_transform(),
            )
        return figure


def check_epsilons(epsilons: Sequence[float]) -> list[float]:
    """The ε of a chart in order, each once.

    Raises:
        InvalidArgument: there are none, too many, or one is no positive number.
    """
    try:
        distinct = sorted({float(epsilon) for epsilon in epsilons})
    except (TypeError, ValueError):
        raise InvalidArgument(f"epsilons is {epsilons!r}: give numbers, such as [0.1, 1.0, 3.0]") from None
    if not 0 < len(distinct) <= _MOST or not all(0 < epsilon < math.inf for epsilon in distinct):
        raise InvalidArgument(f"epsilons is {epsilons!r}: give 1 to {_MOST} positive numbers, such as [0.1, 1.0, 3.0]")
    return distinct


def digits(error: float) -> str:
    """An error in three digits.

    >>> digits(0.01234), digits(1234567.0)
    ('0.0123', '1.2e+06')
    """
    return f"{error:.3g}" if error < 1e5 else f"{error:.1e}"


def bar(part: float, width: int) -> str:
    """A bar of so much of a width, in eighths of a character; the smallest still shows.

    >>> bar(0.5, 8), bar(0.0, 8)
    ('████', '▏')
    """
    eighths = max(1, round(8 * width * min(1.0, part)))
    return "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
