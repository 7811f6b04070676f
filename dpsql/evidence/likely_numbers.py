r"""The largest numbers of children that are drawn: those that noisy counts show, and as many more as have the rows.

    N_c = rows with number c of children,   of variance v = 1/Σ_S w_S (`rows_by_code`)
          moved by (T − Σ N_c)·v/(K·v + v_T),   T all rows, of variance v_T, by marginals without the column; K codes

Likely are 0 and the numbers up to the last likely bin (`dpsql.fitting.relaxed.tails`, with K + v_T/v in place of K). T
tells how many rows have children at all, even where noise hides each number of them. A few units that noise puts into
the bin of 50 to 100 children would have more children than all others together. Noise makes a number likely in about
one of a thousand cases.

Where noise is large it hides numbers that many rows have, and most children are theirs. How many there are is taken
from a tail that falls evenly, fitted to the likely bins c from f on and to all above (least squares; one variance)

    N_c ≈ A·Σ_{n in bin c} e^{−bn},   b ≥ 1/max(1 + the largest likely n, mean of n − f above f)
    n̂ = mean of n over likely N_c and the tail

f is the fullest bin above 0 for its width, or the third likely one from above if that is later. The bound on b keeps
noise in wide bins from being a tail. Of the numbers above the likely ones so many are let in that the mean of n, as it
is drawn, is nearest to n̂.

It looks at noisy counts and at the model of them only, so it costs no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core.constraint import Allowed
from dpsql.core.domain import Attribute, Clique, Domain
from dpsql.core.marginal import Measurement
from dpsql.fitting.relaxed.tails import NoisyBins
from dpsql.fitting.rows_by_code import RowsByCode

Floats = npt.NDArray[np.float64]
_LIKELY_OF_TAIL: Final = 3
_STEEPEST: Final = 5.0
_FALLS: Final = 100
"""How many b are tried."""


def likely_numbers(
    domain: Domain,
    names: Iterable[str],
    measured: Sequence[Measurement],
    always: int = 0,
    drawn: Callable[[Clique], npt.NDArray[np.floating]] | None = None,
) -> list[Allowed]:
    """What rows may have in columns of numbers of children.

    Args:
        domain: that was measured.
        names: of the columns.
        measured: noisy answers to marginals.
        always: numbers up to this one are likely, whatever was measured.
        drawn: the marginals of the model that rows are drawn from; None lets in the likely numbers alone.
    """
    whole = [m for m in measured if m.least is None and m.linear is None and m.variance > 0]
    parts = []
    for name in names:
        attribute = domain.by_name[name]
        numbers = _numbers(attribute, whole)
        seen = attribute.regular - 1 if numbers is None else max(0, numbers.last())
        last = max(seen, sum(int(tick) <= always for tick in attribute.ticks[:-1]) - 1)
        if numbers is not None and drawn is not None:
            rows = _with_tail(attribute, numbers.counts, seen)
            last = _nearest(attribute, rows, np.asarray(drawn((name,)), float), last)
        special = [attribute.absent_code] if attribute.absent_code is not None else []
        codes = np.array([*range(last + 1), *special], np.int64)
        if last + 1 < attribute.regular:
            parts.append(Allowed((name,), (name,), (), codes[:, None], np.zeros((len(codes), 1))))
    return parts


def _numbers(attribute: Attribute, whole: Sequence[Measurement]) -> NoisyBins | None:
    """N_c of a column's numbers; None where no whole marginal holds it."""
    name, edges = attribute.name, np.array([float(tick) for tick in attribute.ticks])
    by_code = RowsByCode.of(name, whole)
    if by_code is None:
        return None
    variance, beside = 1 / by_code.weight, [m for m in whole if m.cells is None and name not in m.clique]
    shares = [1 / (float(m.variance) * len(m.values)) for m in beside]
    rows, stddev = by_code.rows, math.sqrt(variance)
    if not shares:
        return NoisyBins(rows[: attribute.regular], edges, stddev)
    total = sum(share * float(m.values.sum()) for share, m in zip(shares, beside, strict=True)) / sum(shares)
    of_all = len(rows) * variance + 1 / sum(shares)
    rows = rows + (total - rows.sum()) * variance / of_all
    return NoisyBins(rows[: attribute.regular], edges, stddev, of_all / variance)


def _with_tail(attribute: Attribute, rows: Floats, seen: int) -> Floats:
    """The rows in each bin: as measured up to the last likely code, above it those of the fitted tail."""
    starts = np.array([float(tick) for tick in attribute.ticks])
    density = rows / np.diff(starts)
    first = max(1, seen + 1 - _LIKELY_OF_TAIL)
    tailed = np.maximum(rows, 0)
    tailed[seen + 1 :] = 0
    if seen < first:  # nothing but the number 0 is likely
        return tailed
    first += int(np.argmax(density[first : seen + 1]))
    middle = (starts[first:-1] + starts[first + 1 :] - 1) / 2 - starts[first]
    longest = max(starts[seen + 1] - starts[0] + 1, middle @ rows[first:] / max(1.0, rows[first:].sum()))
    falls = np.geomspace(1 / min(longest, starts[-1]), _STEEPEST, _FALLS)[:, None]
    bins = np.exp(-falls * (starts[first:-1] - starts[first])) - np.exp(-falls * (starts[first + 1 :] - starts[first]))
    heights = np.maximum(0, bins @ rows[first:]) / (bins**2).sum(axis=1)
    tails = heights[:, None] * bins
    best = int(np.argmin(((tails - rows[first:]) ** 2).sum(axis=1)))
    tailed[seen + 1 :] = tails[best, seen + 1 - first :]
    return tailed


def _nearest(attribute: Attribute, rows: Floats, shares: Floats, last: int) -> int:
    """The last code to let in, from `last` on: that by which the mean of n is nearest to n̂.

    Args:
        attribute: the column.
        rows: with each code, the tail included.
        shares: of rows that are drawn with each code.
        last: the least that is let in.
    """
    starts = np.array([float(tick) for tick in attribute.ticks])
    middle = (starts[:-1] + starts[1:] - 1) / 2  # the last bin is open: its least number
    shares = np.maximum(shares[: attribute.regular], 0)
    means = np.cumsum(middle * shares) / np.maximum(np.cumsum(shares), np.finfo(float).tiny)
    return last + int(np.argmin(np.abs(means[last:] - middle @ rows / max(1.0, rows.sum()))))
