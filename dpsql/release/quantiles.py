r"""Quantiles from noisy histograms, with 95 % intervals.

F_k is the noisy number of rows below edge k, and N that of all rows. T_k = F_k − q·N has the variance of (1 − q) times
the bins below the edge and q times those above it. The quantile lies in bin k only if T_k is not above 0 and T_{k+1}
not below it, so the interval goes

    from the first bin with T_{k+1} ≥ −z·σ_{k+1} − 1   to the last bin with T_k ≤ z·σ_k + 1

Whole bins belong to it, because nothing is known of where in its bin a value is. It holds the true quantile with at
least 95 %. The value itself is read off the counts made monotone, between the ends of its bin as if rows lay evenly
there. Where every bin is in the interval, the value and its error are NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.evaluation.evaluated import Measured
from dpsql.evaluation.histograms import Histogram
from dpsql.release.intervals import OUTSIDE, Answers, Noisy

Floats = npt.NDArray[np.float64]
_SLACK: Final = 1.0  # rows by which definitions of a quantile differ


def quantile(measured: Measured, noisy: Sequence[Noisy]) -> Answers:
    """A quantile of each group.

    Args:
        measured: what it is computed from.
        noisy: for each weight its answers.
    """
    assert measured.histogram is not None
    assert measured.share is not None
    histogram, share = measured.histogram, measured.share
    bins = [noisy[number] for number in measured.weights]
    counts = np.stack([np.asarray(count.values, np.float64) for count in bins])
    variance = np.stack(
        [np.broadcast_to(np.asarray(count.stddev, np.float64) ** 2, counts.shape[1:]) for count in bins]
    )
    reach = bins[0].reach(OUTSIDE)
    below, noise = _cumulative(counts), _cumulative(variance)
    above = below - share * below[-1]
    wide = reach * np.sqrt((1 - share) ** 2 * noise + share**2 * (noise[-1] - noise)) + _SLACK
    may_start, may_end = above[1:] >= -wide[1:], above[:-1] <= wide[:-1]
    most = len(bins) - 1
    ends = np.argmax(may_start, axis=0), most - np.argmax(may_end[::-1], axis=0)
    clear = may_start.any(axis=0) & may_end.any(axis=0)
    first, last = np.where(clear, np.minimum(*ends), 0), np.where(clear, np.maximum(*ends), most)
    low, high = histogram.low[first], histogram.high[last]
    value = _read(below, histogram, share, continuous=measured.kind == "quantile_cont")
    unknown = ((first == 0) & (last == most) & (most > 0)) | (below[-1] <= 0)
    return Answers(
        np.where(unknown, np.nan, np.clip(value, low, high)),
        np.where(unknown, np.nan, (high - low) / (2 * reach)),
        low,
        high,
    )


def _cumulative(counts: Floats) -> Floats:
    """The sums below each edge, shape (bins + 1, groups)."""
    return np.concatenate([np.zeros((1, *counts.shape[1:])), np.cumsum(counts, axis=0)])


def _read(below: Floats, histogram: Histogram, share: float, *, continuous: bool) -> Floats:
    """The value of a share of the rows."""
    rising = np.maximum.accumulate(below, axis=0)
    falling = np.minimum.accumulate(below[::-1], axis=0)[::-1]
    cumulated = (rising + falling) / 2
    cumulated -= cumulated[0]
    rows = cumulated[-1]
    if not continuous:
        return _at(cumulated, histogram, np.maximum(np.ceil(share * rows - 1e-9) - 1, 0))
    place = np.maximum(rows - 1, 0) * share
    lower, upper = _at(cumulated, histogram, np.floor(place)), _at(cumulated, histogram, np.ceil(place))
    return np.asarray(lower + (place - np.floor(place)) * (upper - lower), np.float64)


def _at(cumulated: Floats, histogram: Histogram, place: Any) -> Floats:
    """The value of the row at a place from 0 on."""
    bins = np.minimum((cumulated[1:] < place + 1 - 1e-9).sum(axis=0), histogram.bins - 1)
    groups = np.arange(cumulated.shape[1])
    passed, held = cumulated[bins, groups], cumulated[bins + 1, groups] - cumulated[bins, groups]
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(held > 0, np.clip((place + 0.5 - passed) / held, 0, 1), 0.5)
    return np.asarray(histogram.low[bins] + (histogram.high[bins] - histogram.low[bins]) * part, np.float64)
