r"""RAP with T = 1 on whole marginals: every cell of a large workload, without a list of its cells.

    cells       each of the m cells costs ρ/m, as in the paper:  σ² = Δ²/(2ρ/m), Δ the sensitivity of a cell
    marginals   each of the K marginals costs ρ/K:               σ² = Δ₂²/(2ρ/K), Δ₂ that of a marginal

The first is what the paper's theorem is about. All cells of a marginal together cost Δ₂²/Δ² times as much as one of
them, so the noise of `cells` could be had for a small part of ρ: the curator asks for that part, and the rest of the
charge stays unspent. The second spends the whole charge and has √(m/K) times less noise, up to Δ₂/Δ.

The projection is that of `dpsql.fitting.relaxed.fit_marginals`: tiles of answers, of which one is in memory at a time.
Without 1-way marginals nothing pulls at it, as in the paper; with them its rows are pulled towards their product.

Source: Aydore et al. 2021, Algorithm 2 with T = 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final

from dpsql.core.domain import Domain
from dpsql.core.marginal import Measurement
from dpsql.core.workload import Workload
from dpsql.errors import DomainTooLarge
from dpsql.evidence.earlier_releases import combined, reused, usable
from dpsql.fitting.relaxed.settings import Settings, best_total, fitting_bytes
from dpsql.fitting.target import targets_of
from dpsql.mechanisms.asks import Marginals
from dpsql.mechanisms.base import Outcome
from dpsql.mechanisms.costs import JAX_SECONDS, base_seconds
from dpsql.mechanisms.facts import Facts, Remark
from dpsql.mechanisms.walk import Walk
from dpsql.models.relaxed import RelaxedModel, fit_report
from dpsql.privacy.distributions import GAUSSIAN
from dpsql.runtime.progress import Progress

QUERIES: Final = ("cells", "marginals")
_MOST_CELLS: Final = 10_000_000
_CELL_SECONDS: Final = 0.7e-10  # of a step, for each relaxed row
_CELL_BYTES: Final = 120  # beside what a fit of them takes: noise, the journal, sums of the relaxed table
_VALUE_SECONDS: Final = 1.0e-9  # of a step, for each relaxed row and value of a column
_SPARSEMAX_RATE: Final = 200  # of which `fit_marginals` takes a twentieth: ten times the rate, falling to 0
_SOFTMAX_RATE: Final = 400
_SPREAD: Final = 1.0  # of random rows, as wide as the paper's


def all_marginals(facts: Facts, queries: str) -> Marginals:
    """All marginals with all that is left of a charge, or with as much of it as their noise takes."""
    return Marginals(Fraction(1), facts.workload.cliques, spent=part_of(facts, queries), name="cells")


def part_of(facts: Facts, queries: str) -> Fraction:
    """The part of a charge that is spent: all, or as much as buys the noise of ρ/m for each cell.

    >>> from dpsql.core.domain import Attribute, Domain
    >>> from dpsql.core.neighbours import Neighbours
    >>> domain = Domain((Attribute("a", "BOOLEAN", "values", ("false", "true")),))
    >>> facts = Facts(domain, Workload((("a",),)), Neighbours.REPLACE_ONE)
    >>> [str(part_of(facts, queries)) for queries in QUERIES]
    ['1', '1']
    """
    cliques, neighbours = facts.workload.cliques, facts.neighbours
    cells = sum(map(facts.domain.size, cliques))
    whole = Fraction(len(cliques) * neighbours.marginal_l2_squared, cells * neighbours.cell**2)
    return Fraction(1) if queries == "marginals" else min(Fraction(1), whole)


def remarks(facts: Facts, rho: Fraction, queries: str) -> list[Remark]:
    """What a request for single cells with ρ should know: how much less noise whole marginals have."""
    if queries == "marginals":
        return []
    each = [part_of(facts, way) * rho / len(facts.workload.cliques) for way in QUERIES]
    stddevs = (GAUSSIAN.stddev(share, facts.neighbours.marginal_l2_squared) for share in each)
    cells, whole = (stddev / max(1.0, facts.about) for stddev in stddevs)
    words = (
        f"each cell pays for itself, as in the paper, so its noise is {cells:.3g} of the rows; with queries := "
        f"'marginals' it is {whole:.3g} at the same price"
    )
    return [Remark("noise", words)]


def check_size(domain: Domain, workload: Workload) -> None:
    """Refuse more cells than can be held.

    Raises:
        DomainTooLarge: there are.
    """
    cells = sum(map(domain.size, workload.cliques))
    if cells > _MOST_CELLS:
        raise DomainTooLarge(
            f"rounds is 1, and the workload has {cells:.3g} cells, more than {_MOST_CELLS:.3g}: ask for fewer or "
            "smaller marginals, give rounds and queries_per_round, which select some, or say mechanism := 'projection'"
        )


def memory_of(domain: Domain, workload: Workload, relaxed_rows: int) -> int:
    """About how many bytes it takes."""
    cells = sum(map(domain.size, workload.cliques))
    return fitting_bytes(domain, relaxed_rows, cells) + _CELL_BYTES * cells


def seconds_of(domain: Domain, workload: Workload, relaxed_rows: int, steps: int, rows: float) -> float:
    """About how many seconds it takes on two cores: all steps that the projection may take."""
    cells = sum(map(domain.size, workload.cliques))
    each = _CELL_SECONDS * cells + _VALUE_SECONDS * domain.width
    return base_seconds(rows) + JAX_SECONDS + steps * relaxed_rows * each


def measure_and_fit(
    walk: Walk,
    counted: Measurement,
    singles: Sequence[Measurement],
    settings: tuple[int, int, float, str],
    seed: int,
    progress: Progress,
) -> Outcome:
    """Measure every cell of the workload, and project once.

    Args:
        walk: of the release.
        counted: the number of rows.
        singles: 1-way marginals that were measured first; none to start from random rows.
        settings: n′, steps, rate, relaxation.
        seed: of the random start.
        progress: may raise `Interrupted`.
    """
    from dpsql.fitting.relaxed.fit_marginals import fit_marginals  # loads JAX

    domain, (rows, steps, rate, relaxation) = walk.domain, settings
    measured = walk.marginals("cells")
    earlier = usable(walk.curator.earlier, [counted, *singles, *measured], domain, _MOST_CELLS, room=_MOST_CELLS)
    earlier = [measurement for measurement in earlier if measurement.cells is None]
    targets = combined([*singles, *measured], earlier)
    total = best_total([*targets_of([counted]), *targets])
    how = Settings(
        rows=rows,
        steps=steps,
        rate=rate * (_SPARSEMAX_RATE if relaxation == "sparsemax" else _SOFTMAX_RATE),
        spread=Settings.spread if singles else _SPREAD,
        pull=None if singles else 0.0,
        relaxation=relaxation,
    )
    fit = fit_marginals(domain, targets, total, how, seed, progress)
    report: dict[str, Any] = {
        "cells": sum(len(m.values) for m in measured),
        "total": round(total),
        **reused(earlier),
        **fit_report(fit),
    }
    return Outcome(RelaxedModel(fit.model), report)
