"""What a comparison found: a data frame, a table to read, a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dpsql.api.comparing.axes import scale_errors, scale_places
from dpsql.api.comparing.best import BEST_OF, WARNING, Run, best_runs, shown
from dpsql.errors import DpsqlError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_SHOWN: Final = (
    ("workload_largest", "largest", "{:.4f}"),
    ("workload_l1", "mean L1", "{:.4f}"),
    ("before_l1", "L1 before", "{:.4f}"),
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
    ("cpu_seconds", "CPU seconds of a release"),
)
_COSTS: Final = ("cpu_seconds",)
"""Drawn only against an option, because that is chosen with an eye on what it costs."""
_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c564b")
_MARKS: Final = ("o", "s", "^", "D", "v", "P", "X")
_STROKES: Final = ("-", "--", ":")
"""Of the first lines, of those that have the same colours again, and so on."""
_PRIVATE: Final = "private: errors against the real rows"
"""What a picture says of itself, however it is passed on."""
_INCHES: Final = 0.068
"""What a letter of the legend takes, on average."""
_MARK_INCHES: Final = 0.6
"""What the line in front of it takes, with what is left free."""


@dataclass(frozen=True)
class Comparison:
    """Mechanisms beside each other on one table. Private: computed from real rows. It prints as a table of medians.

    Attributes:
        source: the table.
        runs: what each run told, by name: mechanism, workload, epsilon, run, marginals, and the figures, or `error`.
        labels: what mechanisms are called, by the names that the runs have.
        best_of: by which figure the best setting of each mechanism is shown, see `dpsql.api.comparing.best`; None for
            all settings.
    """

    source: str
    runs: tuple[Run, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    best_of: str | None = None

    @cached_property
    def best(self) -> tuple[Run, ...]:
        """The runs of the best settings; all runs where no best is asked for."""
        return self.runs if self.best_of is None else tuple(shown(*each) for each in best_runs(self.runs, self.best_of))

    def label(self, mechanism: str) -> str:
        """What a mechanism is called; of the best of several settings the number stays beside the label."""
        name, comma, number = mechanism.partition(BEST_OF)
        return f"{self.labels.get(name, name)}{comma}{number}"

    @property
    def warning(self) -> str:
        """What whoever sees the figures must know."""
        return (
            f"Private: computed from the real rows of {self.source!r}, not differentially private. "
            "Do not publish these figures."
        )

    @property
    def df(self) -> pd.DataFrame:
        """The runs as a data frame, a row each; with `label` and `best`, where such are given."""
        import pandas as pd

        frame = pd.DataFrame(list(self.runs))
        if self.labels:
            frame["label"] = [self.label(run["mechanism"]) for run in self.runs]
        if self.best_of is not None:
            chosen = {id(run) for run, _ in best_runs(self.runs, self.best_of)}
            frame["best"] = [id(run) in chosen for run in self.runs]
        return frame

    def __str__(self) -> str:
        lines = [self.warning]
        for workload in dict.fromkeys(run["workload"] for run in self.runs):
            runs = [run for run in self.runs if run["workload"] == workload]
            zeros = [run["workload_zeros"] for run in runs if "workload_zeros" in run]
            against = f"; answering 0 everywhere, the largest is {np.median(zeros):.4f}" if zeros else ""
            compared = workload or "the default workload, compared on all 2-way"
            lines += ["", f"{compared} ({runs[0]['marginals']:,} asked for){against}", *self._table(runs)]
            if self.best_of is not None:
                best = [run for run in self.best if run["workload"] == workload]
                lines += ["", f"the best settings, by {self.best_of}:", *self._table(best)]
        return "\n".join(lines if self.best_of is None else [*lines, "", WARNING])

    __repr__ = __str__

    def plot(self) -> Figure:
        """A picture: errors against ε; bars are all runs.

        Where an option was varied it stands on the axis instead, with the CPU seconds beside the errors; the number of
        marginals does where the workloads differ in it, and there are as many of them as ε at least.

        Raises:
            DpsqlError: matplotlib is not installed.
        """
        try:
            from dpsql.report.charts import figure
        except ImportError:
            raise DpsqlError("plot() needs matplotlib, which is not installed: pip install matplotlib") from None
        by, words = self._against()
        shown_errors = [each for each in _DRAWN if any(run.get(each[0]) is not None for run in self.best)]
        panels = [each for each in shown_errors if by == "value" or each[0] not in _COSTS]
        longest = _MARK_INCHES + _INCHES * max(map(len, self._lines(by)))
        width = max(0.6 + 4.2 * max(1, len(panels)), longest)
        drawn = figure(width, 3.9)
        for axes, (name, title) in zip(np.atleast_1d(drawn.subplots(1, max(1, len(panels)))), panels, strict=False):
            self._draw(axes, name, by)
            axes.set_title(title, fontsize=10)
            axes.set_xlabel(words)
        drawn.suptitle(self._title(int(width / _INCHES)), fontsize=9, parse_math=False)
        if panels:
            handles, labels = drawn.axes[0].get_legend_handles_labels()
            beside = min(4, int(width / longest))
            drawn.legend(handles, labels, loc="outside lower center", ncols=beside, frameon=False, fontsize=8)
        return drawn

    def _title(self, longest: int) -> str:
        """What is shown, in a line for the workload if there is but one, and one for what points and bars are."""
        runs = max((run["run"] for run in self.runs), default=1)
        chosen = "" if self.best_of is None else "; the best of several settings is chosen on the real rows"
        points = f"medians of {runs} runs, bars from the least to the largest" if runs > 1 else "one run each"
        workloads = list(dict.fromkeys(run["workload"] for run in self.runs))
        compared = (workloads[0] or "all 2-way") if len(workloads) == 1 else f"{len(workloads)} workloads"
        line = " ".join(f"{self.source}: {compared}".split())
        return f"{line if len(line) <= longest else f'{line[: longest - 1]}…'}\n{points}{chosen}\n{_PRIVATE}"

    def _against(self) -> tuple[str, str]:
        """What the horizontal axis has, and its name."""
        varied = next((run["option"] for run in self.best if "option" in run), None)
        if varied is not None:
            return "value", varied
        names = ("epsilon", "workload", "marginals")
        epsilons, workloads, sizes = (len({run[name] for run in self.runs}) for name in names)
        by_size = sizes == workloads > 1 and sizes >= epsilons
        return ("marginals", "marginals asked for") if by_size else ("epsilon", "ε")

    def _draw(self, axes: Any, name: str, by: str) -> None:
        for number, (label, runs) in enumerate(self._lines(by).items()):
            places, middle, reach = _points(runs, name, by)
            if places:
                style = {"color": _COLOURS[number % len(_COLOURS)], "marker": _MARKS[number % len(_MARKS)]}
                style["linestyle"] = _STROKES[number // len(_COLOURS) % len(_STROKES)]
                axes.errorbar(places, middle, reach, label=label, markersize=4, linewidth=1.2, capsize=2, **style)
        if name == "workload_largest":
            places, middle, _ = _points(self.best, "workload_zeros", by)
            dashed: dict[str, Any] = {"linestyle": "--", "color": "#777777", "linewidth": 1, "label": "every answer 0"}
            if len(places) == 1:  # a line of one point is not seen
                axes.axhline(middle[0], **dashed)
            else:
                axes.plot(places, middle, **dashed)
        if name == "groups_error":
            axes.set_ylim(0, 2.05)  # 2 is the worst
        else:
            scale_errors(axes)
        scale_places(axes, (run[by] for run in self.best))
        axes.grid(color="#d5dae0", linewidth=0.6)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)

    def _lines(self, by: str) -> dict[str, list[Run]]:
        """The runs of each line, by its label: what the axis does not have tells them apart, if there are several."""
        apart = [name for name in ("workload", "epsilon") if by != name and (by, name) != ("marginals", "workload")]
        apart = [name for name in apart if len({run[name] for run in self.best}) > 1]
        lines: dict[str, list[Run]] = {}
        for run in self.best:
            words = [f"ε = {run[name]:g}" if name == "epsilon" else run[name] for name in apart]
            lines.setdefault(", ".join(filter(None, [self.label(run["mechanism"]), *words])), []).append(run)
        return lines

    def _table(self, runs: Sequence[Run]) -> list[str]:
        """Medians, a line for each mechanism and ε; why there are none where no run ended well."""
        columns = [each for each in _SHOWN if any(run.get(each[0]) is not None for run in runs)]
        option = next((run["option"] for run in runs if "option" in run), None)
        chosen = ["setting"] if any("setting" in run for run in runs) else []
        rows = [["mechanism", "epsilon", *filter(None, [option]), *(head for _, head, _ in columns), *chosen]]
        for same in dict.fromkeys(map(_same, runs)):
            done = [run for run in runs if _same(run) == same and "error" not in run]
            epsilon, value, mechanism = same
            row = [self.label(mechanism), f"{epsilon:g}"]
            row += [] if option is None else ["-" if value is None else f"{value:g}"]
            for name, _, form in columns:
                values = [run[name] for run in done if run.get(name) is not None]
                row.append(form.format(np.median(values)) if values else "-")
            rows.append([*row, *(str(run.get("setting", "-")) for run in done[:1] if chosen)])
        rows = [row + ["-"] * (len(rows[0]) - len(row)) for row in rows]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return [_line(row, widths) for row in rows] + _failures(runs)


def _points(
    runs: Sequence[Mapping[str, Any]], name: str, by: str
) -> tuple[list[float], list[float], list[list[float]]]:
    """Where a line goes: places, medians, and how far the runs reach below and above."""
    places = sorted({run[by] for run in runs if run.get(name) is not None})
    values = [[run[name] for run in runs if run[by] == place and run.get(name) is not None] for place in places]
    middle = [float(np.median(errors)) for errors in values]
    below = [centre - min(errors) for centre, errors in zip(middle, values, strict=True)]
    above = [max(errors) - centre for centre, errors in zip(middle, values, strict=True)]
    return places, middle, [below, above]


def _same(run: Mapping[str, Any]) -> tuple[float, float | None, str]:
    """What the runs of one line of the table have in common."""
    return run["epsilon"], run.get("value"), run["mechanism"]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    """Names to the left, figures to the right."""
    figures = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
    return "  ".join([row[0].ljust(widths[0]), *figures])


def _failures(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why runs have no figures, each reason once."""
    failures: dict[tuple[str, str], int] = {}
    for run in runs:
        if "error" in run:
            reason = run["mechanism"], run["error"]
            failures[reason] = failures.get(reason, 0) + 1
    return [f"{mechanism}: {count} without figures: {error}" for (mechanism, error), count in failures.items()]
