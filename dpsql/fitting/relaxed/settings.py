"""What the fits of a relaxed table take and give, and what is known of one before it begins: all without JAX.

Plans, checks and the mechanisms that fit nothing else read this module alone, because JAX takes half a second to load.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Domain
from dpsql.fitting.relaxed.table import Blocks, Joint, RelaxedTable, simplex_projection
from dpsql.fitting.target import Target

TILE_ROWS: Final = 64
"""Rows of a tile; see `dpsql.fitting.relaxed.tiles`."""
RELAXED_ROWS: Final = 512
"""n′ of every mechanism that fits a relaxed table, unless a call says otherwise."""
RELAXATIONS: Final = ("softmax", "sparsemax")
_BASE_BYTES: Final = 400_000_000  # Python, DuckDB and JAX themselves


@dataclass(frozen=True)
class Settings:
    """How to fit. The defaults are one rule for every table and ε.

    Attributes:
        rows: n′, relaxed rows.
        steps: Adam steps.
        rate: Adam's first learning rate, decaying to 0 by a cosine.
        spread: standard deviation of the noise on θ that the rows start from.
        pull: Λ; None for the rule.
        strength: of the rule's Λ, a factor.
        relaxation: `softmax`, of parameters θ; or `sparsemax`, steps on P itself projected after each, as in the paper.
        kind: `float32`, or `float64` to check it.
        smooth: κ of each one-hot value (see `dpsql.fitting.relaxed.smoothness`); empty for none.
        polish: further steps, warm-started, at half the rate.
        thinned: the part of the steps that see half of the cells each (`dpsql.fitting.relaxed.program`).
        telling: how many deviations what a line adds up to must have; 0 where all lines are fitted (`empty_lines`).
        reference: whether rows are pulled towards a table of the pairs, as far as those are believed (`shrinkage`).
        trends: whether those with ordered columns are believed as trends along them (`trends`).
        joints: attributes that have one probability vector together (`dpsql.fitting.relaxed.joints`).
    """

    rows: int = RELAXED_ROWS
    steps: int = 500
    rate: float = 0.4
    spread: float = 0.3
    pull: float | None = None
    strength: float = 1.0
    relaxation: str = "softmax"
    kind: str = "float32"
    smooth: tuple[float, ...] = ()
    polish: int = 0
    thinned: float = 0.0
    telling: float = 0.0
    reference: bool = False
    trends: bool = False
    joints: tuple[Joint, ...] = ()


@dataclass(frozen=True)
class Fit:
    """A fitted model and how well it meets the measurements.

    Attributes:
        model: the relaxed table.
        residual: mean over cells of (answer − measurement)²/σ²; about 1 when only noise is left.
        steps: steps taken.
        pull: Λ used.
        converged: whether the residual is at most what noise explains.
    """

    model: RelaxedTable
    residual: float
    steps: int
    pull: float
    converged: bool


def best_total(measurements: Iterable[Target]) -> float:
    """The number of rows: the sums of all whole marginals, weighted by the inverse of their variances; at least 1.

    A marginal of c cells sums to the total with variance c·σ².
    """
    weights = total = 0.0
    for measurement in measurements:
        if measurement.cells is not None:
            continue
        variance = measurement.variance * len(measurement.values)
        if variance == 0:
            return max(1.0, float(measurement.values.sum()))
        total += float(measurement.values.sum()) / variance
        weights += 1 / variance
    return max(1.0, total / weights) if weights else 1.0


def one_way_prior(domain: Domain, measurements: Sequence[Target], total: float) -> npt.NDArray[np.float64]:
    """p1: each attribute's measured 1-way marginal as a positive probability vector; uniform if not measured.

    Shape (T,).
    """
    by_clique = {m.clique: m for m in measurements if len(m.clique) == 1}
    parts = []
    for attribute in domain:
        measured = by_clique.get((attribute.name,))
        if measured is None:
            parts.append(np.full(attribute.size, 1 / attribute.size))
            continue
        share = simplex_projection(measured.values / total)
        floor = 0.1 / max(total, 10.0)
        parts.append((share + floor) / (1 + floor * attribute.size))
    return np.concatenate(parts)


def joint_tuples(domain: Domain) -> int:
    """The most tuples that the joints of strong pairs have in all (`dpsql.fitting.relaxed.joints`).

    Those of constraints come on top: at most 2,000 each, which the owner declared.
    """
    return max(2000, 2 * domain.width)


def fitting_bytes(domain: Domain, rows: int, cells: int, tuples: int = 0) -> int:
    """About how many bytes a fit takes: parameters and their averages, one tile at a time, the cells themselves.

    Args:
        domain: the columns.
        rows: n′.
        cells: measured in all.
        tuples: the most that joints may have.
    """
    parameters = 12 * (domain.width + tuples) * rows * 4
    tile = 12 * TILE_ROWS * rows * 4  # as on a CPU: a request means the same on every machine
    return _BASE_BYTES + parameters + tile + 80 * cells  # a cell: noise, counts, padded tiles, and rounding's distances


def fitting_seconds(domain: Domain, work: float, rows: float, cells: float) -> float:
    """About how many CPU seconds compiling, counting, fitting and drawing take; see "What plans foresee" in RESULTS.md.

    Args:
        domain: the columns.
        work: relaxed rows times whole steps.
        rows: that are counted, and drawn.
        cells: measured in all.
    """
    return 4.2 + 4e-6 * rows * len(domain) + 1.2e-6 * cells + 6e-11 * cells * work


def product_table(domain: Domain, measured: Sequence[Target], total: float) -> RelaxedTable:
    """The relaxed table of one row: independent columns with the measured 1-way marginals."""
    prior = one_way_prior(domain, measured, total).astype(np.float32)
    return RelaxedTable(Blocks.of(domain), prior[:, None], total)
