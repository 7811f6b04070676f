r"""What a fit knows beside its own measurements: earlier ones, and a public prior that it leans on.

The least-squares estimate of the table splits into orthogonal parts r_U of known precision p_U, one for each set of
columns (`dpsql.fitting.consistency`); so do the prior's marginals, into q_U. How far a prior is from the table, beyond
the noise, is seen in the parts that were measured, pooled over all sets of k columns (empirical Bayes, as in James and
Stein's shrinkage), and more of it in a single part where that stands out:

    φ_k = max(0, Σ_U (‖r_U − N·q_U‖² − d_U/p_U)) / Σ_U ‖N·q_U‖²,     d_U = Π (n_i − 1)
    τ_U² = max(φ_k·‖N·q_U‖², ‖r_U − N·q_U‖² − d_U/p_U)/d_U             the prior's variance
    r_U ← (p_U·r_U + N·q_U/τ_U²)/(p_U + 1/τ_U²)                        in place of r_U, of that precision

Each part of the prior counts once, in whatever marginals it shows. A prior that is near counts for much where noise is
large and for little where it is small; one that is far counts for little. Only measurements and public rows are looked
at: it costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import stats

from dpsql.domain import Clique, Domain
from dpsql.fitting.consistency import Estimate, centred, least_squares, subsets
from dpsql.marginal import Measurement
from dpsql.prior import Prior
from dpsql.privacy.curator import Curator

_LARGEST_ORDER: Final = 3
_FALSE_ALARM: Final = 1e-9
_MOST_CELLS: Final = 3_000_000


def public_total(curator: Curator) -> list[Measurement]:
    """The number of rows where it is public: exact and free; else nothing, for then it would cost."""
    return [curator.total(Fraction(0))] if curator.neighbours.total_is_public else []


def usable(
    earlier: Sequence[Measurement],
    measured: Sequence[Measurement],
    domain: Domain,
    max_cells: int,
    room: int | None = None,
) -> list[Measurement]:
    """Earlier measurements that a fit can hold: marginals of its columns, of at most `max_cells` cells.

    None, if they contradict this release's: the table has changed since.

    Args:
        earlier: all that there are.
        measured: by this release.
        domain: of the fit.
        max_cells: of each one.
        room: the most cells in all, measured ones included, each marginal once; those of the least noise come first.
            None for no limit.
    """
    if not consistent(measured, earlier):
        return []
    known = set(domain.names)
    found = [m for m in earlier if m.clique and set(m.clique) <= known and len(m.values) <= max_cells]
    return found if room is None else _within(found, measured, room)


def reused(earlier: Sequence[Measurement]) -> dict[str, int]:
    """What a report says of the earlier measurements that a fit used; nothing where it used none."""
    return {"reused": len(earlier)} if earlier else {}


def _within(earlier: Sequence[Measurement], measured: Sequence[Measurement], room: int) -> list[Measurement]:
    held = {m.clique for m in measured}
    cells, kept = sum(len(m.values) for m in measured), []
    for other in sorted(earlier, key=lambda m: m.variance):
        more = 0 if other.clique in held else len(other.values)
        if cells + more <= room or not more:
            cells += more
            held.add(other.clique)
            kept.append(other)
    return kept


def consistent(measured: Sequence[Measurement], earlier: Sequence[Measurement]) -> bool:
    """Whether the same marginals, measured now and then, differ by noise only: χ² of each, false alarm 1e-9 together.

    It looks at noisy counts only, so it costs nothing.
    """
    then: dict[Clique, list[Measurement]] = {}
    for other in earlier:
        then.setdefault(other.clique, []).append(other)
    pairs = [(m, o) for m in measured if m.cells is None and m.variance > 0 for o in then.get(m.clique, ())]
    for now, other in pairs:
        spread = float(now.variance + other.variance)
        statistic = float(np.sum((now.values - other.values) ** 2)) / spread
        if stats.chi2.sf(statistic, len(now.values)) < _FALSE_ALARM / len(pairs):
            return False
    return True


def combined(measured: Sequence[Measurement], earlier: Iterable[Measurement]) -> list[Measurement]:
    """One measurement for each marginal: the mean of all of it, weighted by their precisions.

        y = Σ (y_i/σ_i²)/Σ 1/σ_i²,   1/σ² = Σ 1/σ_i²   (and 1/12 for rounding to whole rows)

    Args:
        measured: this release's marginals.
        earlier: those of others, the same or further ones.

    >>> one = Measurement(("a",), (2,), np.array([10, 20]), Fraction(4), "gaussian", Fraction(1, 8))
    >>> two = Measurement(("a",), (2,), np.array([14, 16]), Fraction(4), "gaussian", Fraction(1, 8))
    >>> combined([one], [two])[0].values.tolist()
    [12, 18]
    """
    grouped: dict[Clique, list[Measurement]] = {m.clique: [m] for m in measured}
    for other in sorted(earlier, key=lambda m: m.variance):
        grouped.setdefault(other.clique, []).append(other)
    return [parts[0] if len(parts) == 1 else _mean(parts) for parts in grouped.values()]


def _mean(parts: Sequence[Measurement]) -> Measurement:
    precision = sum((1 / part.variance for part in parts), Fraction(0))
    values = sum((part.values / float(part.variance) for part in parts), np.zeros(len(parts[0].values)))
    variance = (1 / precision + Fraction(1, 12)).limit_denominator(10**6)
    whole = np.rint(values / float(precision)).astype(np.int64)
    rho = sum((part.rho for part in parts), Fraction(0))
    return Measurement(parts[0].clique, parts[0].shape, whole, variance, "gaussian", rho)


def leaning(
    prior: Prior,
    domain: Domain,
    measured: Sequence[Measurement],
    cliques: Sequence[Clique],
    total: float,
    max_cells: int,
) -> list[Measurement]:
    """Marginals to fit, from measurements and a prior together, with the variances at the top of this file.

    Args:
        prior: public rows.
        domain: of the table.
        measured: whole marginals.
        cliques: further ones to be answered; those of at most three columns are taken.
        total: N, rows.
        max_cells: of one marginal.
    """
    wanted = [m.clique for m in measured]
    cells = sum(domain.size(clique) for clique in wanted)
    for clique in cliques:
        size = domain.size(clique)
        small = len(clique) <= _LARGEST_ORDER and size <= max_cells and cells + size <= _MOST_CELLS
        if small and clique not in wanted and prior.covers(clique):
            wanted.append(clique)
            cells += size
    together = _together(prior, least_squares(domain, measured), wanted, total)
    own = {m.clique: m.rho for m in measured}
    found = []
    for clique in wanted:
        variance = Fraction(together.variance(clique)).limit_denominator(10**6) + Fraction(1, 12)
        whole = np.rint(together.answer(clique)).astype(np.int64)
        rho = own.get(clique, Fraction(0))
        found.append(Measurement(clique, domain.shape(clique), whole, variance, "none", rho))
    return found


def _together(prior: Prior, estimate: Estimate, cliques: Sequence[Clique], total: float) -> Estimate:
    """The parts of the measurements and of the prior, weighted by their precisions."""
    domain = estimate.domain
    sets = dict.fromkeys(part for clique in cliques for part in subsets(clique) if part and prior.covers(part))
    public = {part: total * centred(prior.project(domain, part).reshape(domain.shape(part))) for part in sets}
    distance = _distances(estimate, public)
    parts, precisions = dict(estimate.parts), dict(estimate.precisions)
    for part, expected in public.items():
        free = _dimension(domain, part)
        order = max((k for k in distance if k <= len(part)), default=None)
        ratio = 1.0 if order is None else distance[order]
        known = precisions.get(part, 0.0)
        square = ratio * float(np.sum(expected**2))
        if known:
            square = max(square, float(np.sum((parts[part] - expected) ** 2)) - free / known)
        variance = max(square / free, 1.0)  # never surer than one row
        both = known + 1 / variance
        parts[part] = (known * parts.get(part, 0.0) + expected / variance) / both
        precisions[part] = both
    return Estimate(domain, parts, precisions)


def _distances(estimate: Estimate, public: dict[Clique, npt.NDArray[np.float64]]) -> dict[int, float]:
    """φ_k for each number of columns k of which some set was measured."""
    sums: dict[int, tuple[float, float]] = {}
    for part, expected in public.items():
        if part in estimate.parts:
            noise = _dimension(estimate.domain, part) / estimate.precisions[part]
            beyond, size = sums.get(len(part), (0.0, 0.0))
            beyond += float(np.sum((estimate.parts[part] - expected) ** 2)) - noise
            sums[len(part)] = beyond, size + float(np.sum(expected**2))
    return {order: max(0.0, beyond) / max(size, 1.0) for order, (beyond, size) in sums.items()}


def _dimension(domain: Domain, part: Clique) -> int:
    """d_U; at least 1."""
    return max(1, math.prod(size - 1 for size in domain.shape(part)))
