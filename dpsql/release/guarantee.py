"""The promise of a release in words: the loss, how it is proven, and the neighbours."""

from __future__ import annotations

import math

from dpsql.core.neighbours import Neighbours
from dpsql.privacy.accounting import Budget


def promise(budget: Budget, neighbours: Neighbours, failure: float = 0.0) -> str:
    """The promise of a release of that budget, which holds but for probability `failure`, in words."""
    loss = f"{budget.epsilon:g}" if budget.pure else f"({budget.epsilon:g}, {budget.delta:g})"
    but = f" but for probability {failure:g}" if failure else ""
    return f"{loss}-DP, by {_proof(budget)}{but}, for neighbours that differ by {neighbours.words}"


def _proof(budget: Budget) -> str:
    if budget.pure:
        return f"Laplace noise and selections ({float(budget.rho):.6g}-zCDP)"
    if budget.gdp == budget.rho:
        return f"{math.sqrt(2 * budget.gdp):.6g}-Gaussian DP"
    return f"{float(budget.rho):.6g}-zCDP"
