"""What mechanisms share that fit a graphical model: checks, costs, what of earlier releases it can hold, the report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final

from dpsql.core.domain import Clique, Domain
from dpsql.core.marginal import Measurement
from dpsql.core.neighbours import Neighbours
from dpsql.errors import DomainTooLarge, InvalidArgument
from dpsql.evidence.earlier_releases import usable
from dpsql.evidence.occupied import Occupied
from dpsql.fitting.graph.fit_graph import Fit
from dpsql.fitting.graph.mbi_package import load_mbi, maximal, model_megabytes
from dpsql.mechanisms.costs import BASE_BYTES, JAX_BYTES, JAX_SECONDS, base_seconds
from dpsql.models.fitness import Fitness
from dpsql.strategy.allocation import one_way_error

_USUAL_ERROR: Final = 0.02
"""A of the fits that seconds were fitted to."""
_MOST_MEGABYTES: Final = 1_000.0  # beyond these nobody would wait


def check_installed(feature: str) -> None:
    """Refuse a graphical model where the package is missing.

    Args:
        feature: what needs it.

    Raises:
        InvalidArgument: it is.
    """
    try:
        load_mbi()
    except ImportError as error:
        raise InvalidArgument(f"{feature} needs the package mbi: pip install 'dpsql[pgm]'") from error


def check_graph(domain: Domain, cliques: Sequence[Clique], model_mb: int) -> None:
    """Refuse marginals whose junction tree is too large.

    Raises:
        InvalidArgument: the package is missing.
        DomainTooLarge: it is.
    """
    check_installed("reconstruct := 'pgm'")
    size = model_megabytes(domain, cliques)
    if size > model_mb:
        larger = f"give model_mb := {math.ceil(1.1 * size)} or more, " if size < _MOST_MEGABYTES else ""
        raise DomainTooLarge(
            f"the junction tree of the {len(cliques)} marginals that hdmm measures has {size:.3g} megabytes, model_mb "
            f"is {model_mb}: {larger}ask for fewer or smaller marginals, or leave reconstruct out"
        )


def graph_bytes(model_mb: int) -> int:
    """About how many bytes a fit of the largest tree takes: its messages, many times over."""
    return BASE_BYTES + JAX_BYTES + min(model_mb * 2**20 * 45, 900_000_000 * model_mb // 20)


def graph_seconds(domain: Domain, model_mb: int, steps: int, rows: float) -> float:
    """About how many seconds a fit of the largest tree that may be takes."""
    size = max(1.0, model_mb / 20)
    tree = min(1.0, domain.size(domain.names) * 8 / 2**20 / model_mb)
    return base_seconds(rows) + JAX_SECONDS + 3.0 * len(domain) * size * tree * steps / 1000


def growth(selection: str, domain: Domain, rho: Fraction, rows: float) -> float:
    """By how much longer fits of `pgm` take than usual: noise leaves fewer and smaller marginals to be measured."""
    error = one_way_error(domain, Neighbours.ADD_REMOVE, float(rho), max(1.0, rows))
    if selection == "aim":
        return min(3.3, float((_USUAL_ERROR / error) ** 0.6))
    return min(0.9, 0.8 * float((_USUAL_ERROR / error) ** 0.4)) if selection == "workload" else 1.0


def within_tree(
    held: Occupied, measured: Sequence[Measurement], earlier: Sequence[Measurement], max_cells: int
) -> list[Measurement]:
    """Earlier measurements that the tree of this release's marginals can hold."""
    largest = maximal(held.domain, [m.clique for m in measured if m.clique])
    return [
        m
        for m in usable(held.measurements(earlier), measured, held.domain, max_cells)
        if m.cells is None and any(set(m.clique) <= set(clique) for clique in largest)
    ]


def graph_report(fit: Fit, cells: int) -> dict[str, Any]:
    """What a release says of the fit to so many noisy counts."""
    near = Fitness(fit.residual**2 * cells / 2, cells)
    converged = fit.converged or near.is_explained  # it may take every step, and have long been near enough
    report: dict[str, Any] = {
        "fit": "graphical model",
        "model_mb": round(sum(node.belief.nbytes for node in fit.tree.nodes) / 2**20, 2),
        "residual": round(fit.residual**2, 4),
        "converged": converged,
        "steps": fit.steps,
    }
    if not converged:
        report["warning"] = f"the fit did not converge: its residual is {fit.residual**2:.2f}; ask for more steps"
    return report
