"""The best of several settings of a mechanism, as papers show it: chosen on the real rows, so an evaluation only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

Run = Mapping[str, Any]
CRITERIA: Final = MappingProxyType({"largest": "workload_largest", "l1": "workload_l1", "rmse": "workload_rmse"})
"""What the best of several settings has the least of: its word, and the figure."""
BEST_OF: Final = ", best of "
"""Between the name of a mechanism and the number of its settings."""
WARNING: Final = (
    "The best of several settings is chosen by errors on the real rows, anew for each workload and ε. A release does "
    "not know them: choosing by private rows has a price, which is not part of these ε."
)


def best_runs(runs: Sequence[Run], by: str) -> list[tuple[Run, int]]:
    """The runs of the best setting of each mechanism, for each workload and ε.

    Args:
        runs: of all settings.
        by: one of `CRITERIA`; the setting of the least median is the best.

    Returns:
        Each with the number of settings that there were.
    """
    settings: dict[str, set[tuple[Any, ...]]] = {}
    for run in runs:
        settings.setdefault(name_of(run), set()).add(_setting(run))
    chosen: list[tuple[Run, int]] = []
    for place in dict.fromkeys(map(_place, runs)):
        here = [run for run in runs if _place(run) == place]
        medians = {}
        for setting in dict.fromkeys(map(_setting, here)):
            values = [run.get(CRITERIA[by]) for run in here if _setting(run) == setting]
            numbers = [value for value in values if value is not None]
            medians[setting] = float(np.median(numbers)) if numbers else np.inf
        best = min(medians, key=medians.__getitem__)
        chosen += [(run, len(settings[place[0]])) for run in here if _setting(run) == best]
    return chosen


def shown(run: Run, number: int) -> Run:
    """A run of the best of so many settings, by a name that says so; as it is where there was but one."""
    if number == 1:
        return run
    varied = f", {run['option']} {run['value']:g}" if run.get("option") else ""
    rest = {name: value for name, value in run.items() if name not in ("option", "value")}
    return {**rest, "mechanism": f"{name_of(run)}{BEST_OF}{number}", "setting": f"{run['mechanism']}{varied}"}


def name_of(run: Run) -> str:
    """The mechanism of a run without its options."""
    return str(run["mechanism"]).partition(":")[0]


def _place(run: Run) -> tuple[str, str, float]:
    return name_of(run), run["workload"], run["epsilon"]


def _setting(run: Run) -> tuple[str, float | None]:
    return run["mechanism"], run.get("value")
