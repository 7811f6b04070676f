"""What a comparison found: a data frame, a table to read, a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dpsql.errors import DpsqlError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_SHOWN: Final = (
    ("workload_largest", "largest", "{:.4f}"),
    ("workload_l1", "mean L1", "{:.4f}"),
    ("dependence_top", "dependence", "{:.3f}"),
    ("groups_error", "groups", "{:.3f}"),
    ("auc_boosting", "AUC", "{:.3f}"),
    ("seconds", "seconds", "{:.1f}"),
    ("cpu_seconds", "CPU s", "{:.1f}"),
    ("peak_mb", "MB", "{:.0f}"),
)
"""Figures of the table: their name, its head, how they are written."""
_DRAWN: Final = (
    ("workload_largest", "largest error of an answer"),
    ("workload_l1", "mean L1 of the marginals"),
    ("groups_error", "mean L1 within groups"),
)
_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c564b")
_MARKS: Final = ("o", "s", "^", "D", "v", "P", "X")


@dataclass(frozen=True)
class Comparison:
    """Mechanisms beside each other on one table. Private: computed from real rows. It prints as a table of medians.

    Attributes:
        source: the table.
        runs: what each run told, by name: mechanism, workload, epsilon, run, marginals, and the figures, or `error`.
    """

    source: str
    runs: tuple[Mapping[str, Any], ...]

    @property
    def warning(self) -> str:
        """What whoever sees the figures must know."""
        return (
            f"Private: computed from the real rows of {self.source!r}, not differentially private. "
            "Do not publish these figures."
        )

    @property
    def df(self) -> pd.DataFrame:
        """The runs as a data frame, a row each."""
        import pandas as pd

        return pd.DataFrame(list(self.runs))

    def __str__(self) -> str:
        lines = [self.warning]
        for workload in dict.fromkeys(run["workload"] for run in self.runs):
            runs = [run for run in self.runs if run["workload"] == workload]
            zeros = [run["workload_zeros"] for run in runs if "workload_zeros" in run]
            against = f"; answering 0 everywhere, the largest is {np.median(zeros):.4f}" if zeros else ""
            compared = workload or "the default workload, compared on all 2-way"
            lines += ["", f"{compared} ({runs[0]['marginals']:,} asked for){against}", *_table(runs)]
        return "\n".join(lines)

    __repr__ = __str__

    def plot(self) -> Figure:
        """A picture: errors against ε, or against the number of marginals where there is one ε; bars are all runs.

        Raises:
            DpsqlError: matplotlib is not installed.
        """
        try:
            from dpsql.report.charts import figure
        except ImportError:
            raise DpsqlError("plot() needs matplotlib, which is not installed: pip install matplotlib") from None
        shown = [(name, words) for name, words in _DRAWN if any(run.get(name) is not None for run in self.runs)]
        drawn = figure(0.6 + 4.2 * max(1, len(shown)), 3.6)
        by, words = self._against()
        for axes, (name, title) in zip(np.atleast_1d(drawn.subplots(1, max(1, len(shown)))), shown, strict=False):
            self._draw(axes, name, by)
            axes.set_title(title, fontsize=10)
            axes.set_xlabel(words)
        if shown:
            handles, labels = drawn.axes[0].get_legend_handles_labels()
            drawn.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
        return drawn

    def _against(self) -> tuple[str, str]:
        """What the horizontal axis has, and its name."""
        one = len({run["epsilon"] for run in self.runs}) == 1
        several = len({run["marginals"] for run in self.runs}) > 1
        return ("marginals", "marginals asked for") if one and several else ("epsilon", "ε")

    def _draw(self, axes: Any, name: str, by: str) -> None:
        lines = dict.fromkeys((run["mechanism"], "" if by == "marginals" else run["workload"]) for run in self.runs)
        several = len({workload for _, workload in lines}) > 1
        for number, (mechanism, workload) in enumerate(lines):
            of_line = [run for run in self.runs if run["mechanism"] == mechanism and workload in ("", run["workload"])]
            places, middle, reach = _points(of_line, name, by)
            if places:
                style = {"color": _COLOURS[number % len(_COLOURS)], "marker": _MARKS[number % len(_MARKS)]}
                label = f"{mechanism}, {workload}" if several and workload else mechanism
                axes.errorbar(places, middle, reach, label=label, markersize=4, linewidth=1.2, capsize=2, **style)
        if name == "workload_largest":
            places, middle, _ = _points(self.runs, "workload_zeros", by)
            axes.plot(places, middle, "--", color="#777777", linewidth=1, label="every answer 0")
        axes.set_xscale("log")
        if name == "groups_error":
            axes.set_ylim(0, 2.05)  # 2 is the worst
        else:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:g}")
        ticks = sorted({run[by] for run in self.runs})
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.grid(color="#d5dae0", linewidth=0.6)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)


def _points(
    runs: Sequence[Mapping[str, Any]], name: str, by: str
) -> tuple[list[float], list[float], list[list[float]]]:
    """Where a line goes: places, medians, and how far the runs reach below and above."""
    places = sorted({run[by] for run in runs if run.get(name) is not None})
    values = [[run[name] for run in runs if run[by] == place and run.get(name) is not None] for place in places]
    middle = [float(np.median(one)) for one in values]
    below = [centre - min(one) for centre, one in zip(middle, values, strict=True)]
    above = [max(one) - centre for centre, one in zip(middle, values, strict=True)]
    return places, middle, [below, above]


def _table(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Medians, a line for each mechanism and ε; why there are none where no run ended well."""
    shown = [one for one in _SHOWN if any(run.get(one[0]) is not None for run in runs)]
    rows = [["mechanism", "epsilon", *(head for _, head, _ in shown)]]
    for epsilon, mechanism in dict.fromkeys((run["epsilon"], run["mechanism"]) for run in runs):
        mine = [run for run in runs if run["epsilon"] == epsilon and run["mechanism"] == mechanism]
        done = [run for run in mine if "error" not in run]
        row = [mechanism, f"{epsilon:g}"]
        for name, _, form in shown:
            values = [run[name] for run in done if run.get(name) is not None]
            row.append(form.format(np.median(values)) if values else "-")
        rows.append(row)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [_line(row, widths) for row in rows] + _failures(runs)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    """Names to the left, figures to the right."""
    figures = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
    return "  ".join([row[0].ljust(widths[0]), *figures])


def _failures(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why runs have no figures, each reason once."""
    found: dict[tuple[str, str], int] = {}
    for run in runs:
        if "error" in run:
            reason = run["mechanism"], run["error"]
            found[reason] = found.get(reason, 0) + 1
    return [f"{mechanism}: {count} without figures: {error}" for (mechanism, error), count in found.items()]
