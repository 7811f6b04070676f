r"""What a fit knows beside its own measurements: earlier ones, and a public prior as pseudo-measurements.

A prior's marginal N·p_S is taken for a measurement of M_S whose variance is how far the prior was found to be from what
was measured, beyond the noise (empirical Bayes, as in James and Stein's shrinkage):

    τ_S² = max(0, mean over cells of (y_S − N·p_S)² − σ_S²)            where S was measured
    τ_S² = φ·mean (N·p_S)²,   φ = Σ max(0, (y − N·p)² − σ²) / Σ (N·p)²  over the measured S of the largest order, else

So a prior that is near counts for much where noise is large and for little where it is small; one that is far counts
for little. Only measurements and public rows are looked at: it costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from dpsql.domain import Clique, Domain
from dpsql.marginal import Measurement
from dpsql.prior import Prior

_LARGEST_ORDER: Final = 3
_MOST_CELLS: Final = 3_000_000


def usable(earlier: Iterable[Measurement], domain: Domain, max_cells: int) -> list[Measurement]:
    """Earlier measurements that a fit can hold: marginals of its columns, of at most `max_cells` cells."""
    known = set(domain.names)
    return [m for m in earlier if m.clique and set(m.clique) <= known and len(m.values) <= max_cells]


def combined(
    measured: Sequence[Measurement], earlier: Iterable[Measurement], room: int | None = None
) -> list[Measurement]:
    """One measurement for each marginal: the mean of all of it, weighted by their precisions.

        y = Σ (y_i/σ_i²)/Σ 1/σ_i²,   1/σ² = Σ 1/σ_i²   (and 1/12 for rounding to whole rows)

    Args:
        measured: this release's marginals.
        earlier: those of others, the same or further ones.
        room: the most cells in all; further marginals of the least noise come first. None for no limit.

    >>> one = Measurement(("a",), (2,), np.array([10, 20]), Fraction(4), "gaussian", Fraction(1, 8))
    >>> two = Measurement(("a",), (2,), np.array([14, 16]), Fraction(4), "gaussian", Fraction(1, 8))
    >>> combined([one], [two])[0].values.tolist()
    [12, 18]
    """
    grouped: dict[Clique, list[Measurement]] = {m.clique: [m] for m in measured}
    cells = sum(len(m.values) for m in measured)
    for other in sorted(earlier, key=lambda m: m.variance):
        if other.clique in grouped:
            grouped[other.clique].append(other)
        elif room is None or cells + len(other.values) <= room:
            cells += len(other.values)
            grouped[other.clique] = [other]
    return [parts[0] if len(parts) == 1 else _mean(parts) for parts in grouped.values()]


def _mean(parts: Sequence[Measurement]) -> Measurement:
    precision = sum((1 / part.variance for part in parts), Fraction(0))
    values = sum((part.values / float(part.variance) for part in parts), np.zeros(len(parts[0].values)))
    variance = (1 / precision + Fraction(1, 12)).limit_denominator(10**6)
    whole = np.rint(values / float(precision)).astype(np.int64)
    rho = sum((part.rho for part in parts), Fraction(0))
    return Measurement(parts[0].clique, parts[0].shape, whole, variance, "gaussian", rho)


def shrinkage(
    prior: Prior,
    domain: Domain,
    measured: Sequence[Measurement],
    cliques: Sequence[Clique],
    total: float,
    max_cells: int,
) -> list[Measurement]:
    """The prior's marginals as measurements, with the variances at the top of this file.

    Args:
        prior: public rows.
        domain: of the table.
        measured: this release's marginals.
        cliques: to be answered; those of at most three columns are taken.
        total: N, rows.
        max_cells: of one marginal.
    """
    by_clique = {m.clique: m for m in measured if m.clique and m.cells is None}
    floor = total / 12  # as if the prior were a sample: never surer than the counts' own size
    excess: dict[int, list[float]] = {}
    for clique, known in by_clique.items():
        if prior.covers(clique):
            expected = total * prior.project(domain, clique)
            beyond = float(np.sum((known.values - expected) ** 2) - len(expected) * float(known.variance))
            sums = excess.setdefault(len(clique), [0.0, 0.0])
            sums[0] += beyond
            sums[1] += float(np.sum(expected**2))
    ratio = {order: max(0.0, a) / max(b, 1.0) for order, (a, b) in excess.items()}
    found, room = [], _MOST_CELLS
    for clique in cliques:
        cells = domain.size(clique)
        if len(clique) > _LARGEST_ORDER or cells > max_cells or not prior.covers(clique) or cells > room:
            continue
        room -= cells
        values = total * prior.project(domain, clique)
        measurement = by_clique.get(clique)
        if measurement is None:
            near = max((order for order in ratio if order <= len(clique)), default=None)
            variance = (1.0 if near is None else ratio[near]) * float(np.mean(values**2))
        else:
            variance = float(np.mean((measurement.values - values) ** 2)) - float(measurement.variance)
        variance = max(variance, floor / cells)
        spread = Fraction(variance).limit_denominator(10**6)
        whole = np.rint(values).astype(np.int64)
        found.append(Measurement(clique, domain.shape(clique), whole, spread, "none", 1 / (2 * spread)))
    return found
