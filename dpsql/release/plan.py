"""`dp_plan` of a synthetic table: what a request would measure, and with which noise; it spends nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpsql.engines.duckdb.cursors import Cursor
from dpsql.errors import DpsqlError
from dpsql.mechanisms.base import PlannedMeasurement, Remark, name_of
from dpsql.release.request import Request
from dpsql.release.synthesis import Resolved, resolve


@dataclass(frozen=True)
class Plan:
    """What a request would do and cost.

    Attributes:
        resolved: the request.
        measurements: the questions that the mechanism would ask.
        remarks: what it says beside them.
        rows: the number of rows assumed for it.
    """

    resolved: Resolved
    measurements: Sequence[PlannedMeasurement]
    remarks: Sequence[Remark]
    rows: float

    @property
    def overall(self) -> float | None:
        """The mean of the predicted L1 errors of the workload's marginals; None where none is predicted."""
        wanted = set(self.resolved.workload.needed)
        whole = [m for m in self.measurements if m.open is None and m.clique in wanted]
        known = {m.clique: m.predicted for m in whole if m.predicted is not None}
        return sum(known.values()) / len(known) if known else None


def plan(cursor: Cursor, request: Request, rows: float) -> Plan:
    """What a request would measure, with which noise; spends nothing and reads no private row.

    Args:
        cursor: a connection of its own.
        request: the request.
        rows: about how many rows the table has, for the rules that depend on it.
    """
    resolved = resolve(cursor, request, to_charge=False)
    rho: Fraction = resolved.budget.rho
    planned = resolved.mechanism.plan(resolved.domain, resolved.workload, resolved.account.neighbours, rho, rows)
    remarks = [one for one in planned if isinstance(one, Remark)]
    measurements = [one for one in planned if not isinstance(one, Remark)]
    _check_planned(measurements, resolved)
    return Plan(resolved, measurements, remarks, rows)


def _check_planned(planned: Sequence[PlannedMeasurement], resolved: Resolved) -> None:
    """Refuse to show a plan that is not what would be charged: its ρ come from the mechanism.

    Raises:
        DpsqlError: they are no numbers, or more than the charge.
    """
    costs = [measurement.rho for measurement in planned]
    plain = all(type(cost) in (int, float) and 0 <= cost < math.inf for cost in costs)
    if not plain or sum(costs) > float(resolved.budget.rho) * (1 + 1e-6):
        raise DpsqlError(
            f"mechanism {name_of(resolved.mechanism)!r} plans questions that are not within its charge of rho = "
            f"{float(resolved.budget.rho):.6g}: its plan(…) must say what its run(…) asks"
        )
