"""What is registered into DuckDB: the native bridge, and one file for each SQL function."""

from __future__ import annotations

from .bridge.declare import TableFunction
from .dp_budget import DpBudget
from .dp_constraint import DpConstraint
from .dp_domain import DpDomain
from .dp_ledger import DpLedger
from .dp_measurements import DpMeasurements
from .dp_plan import DpPlan
from .dp_protect import DpProtect
from .dp_query import DpQuery
from .dp_releases import DpReleases
from .dp_synthesize import DpSynthesize
from .extension import Instance

FUNCTIONS = (
    DpProtect,
    DpDomain,
    DpConstraint,
    DpSynthesize,
    DpQuery,
    DpPlan,
    DpBudget,
    DpLedger,
    DpReleases,
    DpMeasurements,
)
"""Every SQL function, registered here and nowhere else."""


def functions(instance: Instance) -> list[TableFunction]:
    """One of each for an instance."""
    return [function(instance) for function in FUNCTIONS]
