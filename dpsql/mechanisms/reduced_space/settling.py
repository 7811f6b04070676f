"""What linear queries leave open in a reduced space, settled by the 1-way marginals that its points are drawn from.

A program of a few sums is solved by a density on as few points, which may be far off from every column. So among the
densities that are as near to the sums the one is taken whose 1-way marginals are nearest to the measured ones.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from dpsql.core.domain import Domain
from dpsql.core.workload import Workload
from dpsql.fitting.rows.linear_program import Density, Statistics, nearest_of_nearest
from dpsql.fitting.target import Target
from dpsql.runtime.progress import Progress


def left_alone(workload: Workload, measured: Sequence[Target]) -> list[Target]:
    """The 1-way marginals of columns that no marginal of the workload holds, beside linear queries.

    Thresholds are measured by marginals, and their rows are too many to be kept.
    """
    if not workload.linear or workload.thresholds:
        return []
    held = _held(workload)
    return [target for target in measured if len(target.clique) == 1 and target.clique[0] not in held]


def _held(workload: Workload) -> set[str]:
    """The columns of the workload's marginals."""
    return {name for clique in workload.needed for name in clique}


def settling_seconds(domain: Domain, workload: Workload) -> float:
    """About how long the program of sums and `settle` take."""
    if not workload.linear:
        return 0.0
    names = {name for family in workload.linear for name in family.clique} - _held(workload)
    queries = sum(family.count for family in workload.linear)
    return 0.3 + 1e-6 * math.sqrt(queries) * sum(domain.by_name[name].size for name in names) ** 2


def settle(
    facts: Statistics, solution: Density, objective: str, left_open: Statistics, deadline: float, progress: Progress
) -> Density:
    """The density that is taken: the one found, where nothing is left open or the time is up.

    Args:
        facts: the program's rows.
        solution: its solution.
        objective: of the program.
        left_open: the rows of `left_alone`.
        deadline: of `time.monotonic`.
        progress: may raise `Interrupted`.
    """
    if not left_open.cells:
        return solution
    progress.stage("settling what the queries leave open")
    return nearest_of_nearest(facts, solution, objective, left_open, deadline - time.monotonic(), progress)
