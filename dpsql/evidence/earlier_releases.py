"""What a fit knows beside its own measurements: those that earlier releases of the table paid for, and the total."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from dpsql.core import special
from dpsql.core.domain import Clique, Domain
from dpsql.core.marginal import Measurement
from dpsql.fitting.least_squares import MOST_ADDED, additions, least_squares
from dpsql.fitting.target import Target, targets_of
from dpsql.privacy.curator import Curator
from dpsql.privacy.distributions import find_noise

_FALSE_ALARM: Final = 1e-9
_PRECISE: Final = 0.1


def public_total(curator: Curator) -> list[Target]:
    """The number of rows where it is public: exact and free; else nothing, for then it would cost."""
    return [Target.of(curator.total(Fraction(0)))] if curator.neighbours.total_is_public else []


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
    names = set(domain.names)
    measured_before = [m for m in earlier if m.clique and set(m.clique) <= names and len(m.values) <= max_cells]
    return measured_before if room is None else _within(measured_before, measured, room)


def reused(earlier: Sequence[Measurement]) -> dict[str, int]:
    """What a report says of the earlier measurements that a fit used; nothing where it used none."""
    return {"reused": len(earlier)} if earlier else {}


def _within(earlier: Sequence[Measurement], measured: Sequence[Measurement], room: int) -> list[Measurement]:
    held = {m.clique for m in measured}
    cells, measurements = sum(len(m.values) for m in measured), []
    for other in sorted(earlier, key=lambda m: m.variance):
        more = 0 if other.clique in held else len(other.values)
        if cells + more <= room or not more:
            cells += more
            held.add(other.clique)
            measurements.append(other)
    return measurements


def light(domain: Domain, measured: Sequence[Measurement], earlier: Sequence[Measurement]) -> list[Measurement]:
    """Those earlier measurements that one least-squares estimate holds beside this release's, the least noisy first."""
    room, lighter = MOST_ADDED - additions(domain, (m.clique for m in measured)), []
    for other in sorted(earlier, key=lambda m: m.variance):
        more = additions(domain, [other.clique])
        if more <= room:
            room -= more
            lighter.append(other)
    return lighter


def precise(earlier: Sequence[Measurement], total: float) -> list[Measurement]:
    """Those earlier marginals whose noise is at most a tenth of the rows, by the expected sum over their cells.

    A method that is drawn to each marginal as it is, whatever its variance, is led astray by the others.
    """
    unit = math.sqrt(2 / math.pi) / total
    return [m for m in earlier if len(m.values) * m.stddev * unit <= _PRECISE]


def consistent(measured: Sequence[Measurement], earlier: Sequence[Measurement]) -> bool:
    """Whether the same marginals or cells, measured now and then, differ by noise only: false alarm 1e-9 a call.

    By χ² of each pair where all noise is normal; else by the largest gap, of which one noise makes half at least.
    It looks at noisy counts only, so it costs nothing. Thresholds and linear queries are compared with nothing.
    """
    then: dict[Clique, list[Measurement]] = {}
    for other in earlier:
        then.setdefault(other.clique, []).append(other)
    now = [m for m in measured if m.least is None and m.linear is None and m.variance > 0]
    pairs = [(m, o) for m in now for o in then.get(m.clique, ())]
    return all(_chance(*pair) >= _FALSE_ALARM / len(pairs) for pair in pairs)


def agreeing(measured: Sequence[Measurement], earlier: Sequence[Measurement]) -> Sequence[Measurement]:
    """What earlier releases measured, as long as it differs from what was measured now by noise only; else nothing."""
    return earlier if consistent(measured, earlier) else ()


def _chance(now: Measurement, other: Measurement) -> float:
    """At most this is the chance of gaps as wide as those between a measurement and an earlier whole marginal."""
    gaps = now.values - (other.values if now.cells is None else other.values[list(now.cells)])
    noisy = [m for m in (now, other) if m.variance > 0]
    if all(find_noise(m.noise).is_normal for m in noisy):
        return float(special.chdtrc(len(gaps), float(np.sum(gaps**2)) / float(now.variance + other.variance)))  # of χ²
    half = float(np.abs(gaps).max(initial=0)) / len(noisy)
    return len(gaps) * sum(find_noise(m.noise).tail(m.stddev, half) for m in noisy)


def combined(measured: Sequence[Measurement | Target], earlier: Iterable[Measurement | Target]) -> list[Target]:
    """One target for each marginal: the mean of all measurements of it, weighted by their precisions.

        y = Σ (y_i/σ_i²)/Σ 1/σ_i²,   1/σ² = Σ 1/σ_i²

    Args:
        measured: this release's marginals.
        earlier: those of others, or public ones: the same or further ones.

    >>> one = Measurement(("a",), (2,), np.array([10, 20]), Fraction(4), "gaussian", Fraction(1, 8))
    >>> two = Measurement(("a",), (2,), np.array([14, 16]), Fraction(4), "gaussian", Fraction(1, 8))
    >>> combined([one], [two])[0].values.tolist()
    [12.0, 18.0]
    """
    by_clique: dict[Clique, list[Measurement | Target]] = {m.clique: [m] for m in measured}
    for other in sorted(earlier, key=lambda m: m.variance):
        by_clique.setdefault(other.clique, []).append(other)
    return [_target(parts[0]) if len(parts) == 1 else _mean(parts) for parts in by_clique.values()]


def _target(measured: Measurement | Target) -> Target:
    return measured if isinstance(measured, Target) else Target.of(measured)


def _mean(parts: Sequence[Measurement | Target]) -> Target:
    precision = sum(1 / float(part.variance) for part in parts)
    values = sum((part.values / float(part.variance) for part in parts), np.zeros(len(parts[0].values)))
    rho = sum(float(part.rho) for part in parts)
    return Target(parts[0].clique, parts[0].shape, values / precision, 1 / precision, rho)


def sharpened(domain: Domain, measured: Sequence[Measurement], earlier: Sequence[Measurement]) -> list[Target]:
    """This release's marginals by least squares from all measurements, earlier ones too: with less noise each.

    Args:
        domain: of the table.
        measured: this release's whole marginals, in an order that is kept.
        earlier: those of others; where there are none it is as it was measured.
    """
    if not earlier:
        return targets_of(measured)
    estimate = least_squares(domain, combined(measured, earlier))
    return [
        Target(own.clique, own.shape, estimate.answer(own.clique), estimate.variance(own.clique), float(own.rho))
        for own in measured
    ]
