"""`dp_plan(table, epsilon := …)`: what a release would measure, how noisily, and what it would cost."""

from __future__ import annotations

import math

from dpsql.release import plan

from .bridge import Call, Parameter, Relation, TableFunction
from .dp_synthesize import REQUEST_PARAMETERS, request_of
from .extension import Instance
from .relations import Computed

COLUMNS = {
    "marginal": "VARCHAR[]",
    "cells": "BIGINT",
    "stddev": "DOUBLE",
    "noise_l1": "DOUBLE",
    "rho": "DOUBLE",
    "predicted_l1": "DOUBLE",
    "note": "VARCHAR",
    "mechanism": "VARCHAR",
    "choice": "VARCHAR",
    "epsilon": "DOUBLE",
    "delta": "DOUBLE",
    "epsilon_left": "DOUBLE",
    "memory_mb": "DOUBLE",
}
ASSUMED_ROWS = 10_000


class DpPlan(TableFunction):
    """One row for each marginal that the release would measure, or leave out; spends nothing and reads no private row.

    `stddev` is in rows, `noise_l1` the expected Σ|noise| of the marginal as a fraction of the rows, `predicted_l1`
    about the L1 error of a marginal of the workload in the synthetic table (a rough guide), `note` what is done with
    it and why, `choice` why `auto` chose the mechanism (NULL where the request names it), `epsilon_left` what one more
    release could ask for afterwards, `memory_mb` about how much memory the work takes.
    """

    name = "dp_plan"
    parameters = (
        *REQUEST_PARAMETERS,
        Parameter("assume_rows", "BIGINT", default=ASSUMED_ROWS, help="about how many rows; the number is private"),
    )

    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    def bind(self, call: Call) -> Relation:
        """See `TableFunction.bind`."""
        with self._instance.cursor() as cursor:
            found = plan(cursor, request_of(call), float(max(1, call["assume_rows"])))
        resolved = found.resolved
        after = resolved.account if resolved.entry is not None else resolved.account.after(resolved.budget)
        memory = resolved.mechanism.footprint(resolved.domain, resolved.workload) / 1e6
        chosen = resolved.mechanism.name, resolved.choice or None
        cost = (*chosen, resolved.budget.epsilon, resolved.budget.delta, after.epsilon_left, memory)
        unit = math.sqrt(2 / math.pi) / found.rows
        rows = [
            (
                m.clique,
                m.cells,
                m.stddev,
                None if m.stddev is None else unit * m.stddev * m.cells,
                m.rho,
                m.predicted,
                m.note,
                *cost,
            )
            for m in found.measurements
        ]
        return Computed(COLUMNS, lambda: rows, len(rows))
