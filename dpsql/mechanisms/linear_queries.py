r"""What mechanisms say of linear queries: shares, plans, and how near a model is to what was measured of them.

All families of a workload are measured at once, because one row does not have the largest weight of all of them. With
Δ^p the most that a row changes Σ |change/W|^p over them (`dpsql.core.linear_family`), a mechanism that measures k
marginals beside them shares its budget into k + Δ^p parts, of which they get Δ^p: then an answer has as much noise,
relative to its largest weight W, as a cell has, whatever p is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

from dpsql.core.domain import Domain
from dpsql.core.linear_family import LinearFamily, joint_change, moved_of_linear
from dpsql.core.names import shorten
from dpsql.core.neighbours import Neighbours
from dpsql.core.workload import Workload
from dpsql.fitting.relaxed.settings import fitting_seconds
from dpsql.mechanisms.costs import FAMILY_SECONDS
from dpsql.mechanisms.facts import PlannedMeasurement, Remark
from dpsql.privacy.distributions import Distribution
from dpsql.privacy.linear_families import family_stddevs
from dpsql.strategy.allocation import Allocation

_MOST_LINEAR: Final = Fraction(9, 10)
_CELL_SECONDS: Final = 1.1e-10  # of a cell, a relaxed row and a step


def linear_part(
    domain: Domain, families: Sequence[LinearFamily], neighbours: Neighbours, noise: Distribution
) -> Fraction:
    """How many marginals' shares linear queries get; 0 where there are none."""
    if not families:
        return Fraction(0)
    return joint_change(domain, families, noise.norm, neighbours) / neighbours.marginal(noise.norm)


def linear_of_all(domain: Domain, workload: Workload, neighbours: Neighbours, noise: Distribution) -> Fraction:
    """The part of a budget that linear queries get beside marginals and their subsets, whose number is not theirs.

    At most nine tenths, so that the 1-way marginals are known, which say what the queries leave open.
    """
    share = linear_part(domain, workload.linear, neighbours, noise)
    return min(_MOST_LINEAR, share / (share + len(workload.families))) if share else share


def beside_linear(workload: Workload) -> Workload:
    """The marginals that are measured beside linear queries: those of the workload, and their columns' own."""
    singles = ((name,) for family in workload.linear for name in family.clique)
    cliques = workload.cliques if not workload.linear else tuple(dict.fromkeys((*workload.cliques, *singles)))
    return replace(workload, cliques=cliques, linear=())


def weighing_seconds(workload: Workload) -> float:
    """About how long it takes to evaluate linear queries on the domain, and to count what they read."""
    return FAMILY_SECONDS * len(workload.linear)


def linear_seconds(workload: Workload, work: float) -> float:
    """About how long a relaxed fit of so many rows times steps takes for linear queries, beside the rest."""
    return weighing_seconds(workload) + _CELL_SECONDS * workload.linear_cells * work


def allocated_seconds(
    domain: Domain, workload: Workload, allocation: Allocation, work: tuple[float, float], rows: float
) -> float:
    """About how long a relaxed fit takes to allocated marginals and linear queries, by the work of each."""
    cells = sum(domain.size(clique) for clique, _ in allocation.shares)
    return fitting_seconds(domain, work[0], rows, cells) + linear_seconds(workload, work[1])


def planned_linear(
    domain: Domain, families: Sequence[LinearFamily], rho: Fraction, neighbours: Neighbours, noise: Distribution
) -> list[PlannedMeasurement]:
    """The questions for all families at once, for a plan; deviations are in the sums' own unit."""
    if not families:
        return []
    spreads = family_stddevs(domain, families, rho, neighbours, noise)
    share = float(rho) / len(families)
    return [
        PlannedMeasurement(
            family.clique,
            family.count,
            spread * float(family.step),
            share,
            f"linear query, measured: {shorten(family.text)}, which {_moved_words(domain, family, neighbours)}",
            open="linear query",
        )
        for family, spread in zip(families, spreads, strict=True)
    ]


def sensitivity_remarks(
    domain: Domain,
    families: Sequence[LinearFamily],
    neighbours: Neighbours,
    noise: Distribution,
    rho: Fraction,
    *,
    whole: bool,
) -> list[Remark]:
    """What a plan says of linear queries that may be selected: what a row changes, and the noise of one with ρ."""
    remarks = []
    for family in families:
        if whole:
            (spread,) = family_stddevs(domain, [family], rho, neighbours, noise)
        else:
            spread = noise.stddev(rho, moved_of_linear(domain, family, neighbours, single=True) ** noise.norm)
        moved = _moved_words(domain, family, neighbours, single=not whole)
        note = f"{shorten(family.text)} {moved}; if it is selected, its noise has a standard deviation of "
        remarks.append(Remark("linear query", f"{note}{spread * float(family.step):.4g}"))
    return remarks


def _moved_words(domain: Domain, family: LinearFamily, neighbours: Neighbours, *, single: bool = False) -> str:
    """By how much neighbours may differ."""
    moved = moved_of_linear(domain, family, neighbours, single=single) * float(family.step)
    where = "" if family.count == 1 else " in one group" if single else " in all groups together"
    return f"changes by at most {moved:.4g}{where} where neighbours differ by {neighbours.words}"
