r"""The ends of an ordered column, where single bins are noise: a tail that falls evenly in place of many small counts.

    y_c           noisy counts of K codes, moved by (N − Σ y)/K, so that they add up to all rows
    N_kl          Σ_{k ≤ c < l} y_c,   of standard deviation σ·√(m − m²/K),   m = l − k
    likely bins   up to the last k with some N_kl of four standard deviations, l − k a power of two or l the last bin
    above them    y_c ≈ A·∫_{bin c} e^{−bx} dx,   b ≥ 1/max(the width of the likely bins, the mean of x − f above f)

by least squares over the bins from f on: the last likely one from which on all bins hold eight standard deviations, or
the fullest after it. Below the likely bins it is the same downwards.

Bounds are often far beyond what most rows have: of 100 bins 80 may be empty. Noise there, cut at 0, adds up to a few
percent of the rows. They are far from all others, so they moved a column's mean by a quarter. Where noise hides each
number of children, N still tells how many rows have any.

It looks at noisy counts only, so it costs no privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
FEWEST: Final = 8
"""Bins of a run that has tails: among fewer an end is a value like the others."""
_DEVIATIONS: Final = 4.0
_OF_A_FIT: Final = 8.0
_STEEPEST: Final = 50.0
_FALLS: Final = 100
"""How many b are tried."""


@dataclass(frozen=True, eq=False)
class NoisyBins:
    """A run of bins.

    Attributes:
        counts: y, shape (bins,).
        edges: of the bins, shape (bins + 1,).
        stddev: σ.
        codes: K, all of the column; none where N is not known beside them.
    """

    counts: Floats
    edges: Floats
    stddev: float
    codes: float = math.inf

    def noise(self, width: Any) -> Any:
        """The standard deviation of N_kl of so many bins."""
        return self.stddev * np.sqrt(np.maximum(width - np.square(width) / self.codes, 0))

    def last(self) -> int:
        """The last likely bin, upwards; -1 where noise hides all.

        >>> NoisyBins(np.array([0.0, 9.0, 5.0, 1.0, -1.0, 0.0, 1.0, 8.5, 0.0]), np.arange(10.0), 2.0).last()
        7
        """
        whole, last = np.concatenate([[0.0], np.cumsum(self.counts)]), -1
        for width in (2**power for power in range(len(self.counts).bit_length())):
            windows = whole[width:] - whole[:-width]
            last = max([last, *np.flatnonzero(windows >= _DEVIATIONS * self.noise(width)).tolist()])
        return max([last, *np.flatnonzero(self._beyond() >= _DEVIATIONS * self.noise(self._bins())).tolist()])

    def tail(self, first: int, last: int) -> Floats:
        """The counts above the last likely bin.

        Args:
            first: likely bin.
            last: likewise.
        """
        counts, edges = self.counts, self.edges
        with np.errstate(over="ignore", invalid="ignore"):  # bounds near the largest float
            wide, whole = np.diff(edges), edges[-1] - edges[0]
        if last + 1 == len(counts) or not (wide > 0).all() or not np.isfinite(whole):
            return np.zeros(len(counts) - last - 1)
        enough = np.flatnonzero(self._beyond()[: last + 1] >= _OF_A_FIT * self.noise(self._bins()[: last + 1]))
        start = max(first, int(enough[-1]) if len(enough) else 0)
        start += int(np.argmax(counts[start : last + 1] / wide[start : last + 1]))
        rows, middle = counts[start:], (edges[start:-1] + edges[start + 1 :]) / 2 - edges[start]
        longest = max(edges[last + 1] - edges[first], middle @ rows / max(1.0, rows.sum()))
        least = 1 / min(longest, edges[-1] - edges[start])
        falls = np.geomspace(least, max(least, _STEEPEST / float(wide[start : last + 1].min())), _FALLS)[:, None]
        parts = np.exp(-falls * (edges[start:-1] - edges[start])) - np.exp(-falls * (edges[start + 1 :] - edges[start]))
        heights = np.maximum(0.0, parts @ rows) / np.maximum((parts**2).sum(axis=1), 1e-300)
        fitted = heights[:, None] * parts
        best = int(np.argmin(((fitted - rows) ** 2).sum(axis=1)))
        return np.asarray(fitted[best, last + 1 - start :])

    def mirrored(self) -> NoisyBins:
        """The same downwards."""
        return NoisyBins(self.counts[::-1], -self.edges[::-1], self.stddev, self.codes)

    def _beyond(self) -> Floats:
        """The counts of each bin and all above."""
        return np.cumsum(self.counts[::-1])[::-1]

    def _bins(self) -> npt.NDArray[np.int64]:
        """How many bins that are."""
        return np.arange(len(self.counts), 0, -1)


def tails(bins: NoisyBins) -> tuple[range, Floats]:
    """The likely bins, and the counts of all with tails in place of the others."""
    counts, last, downwards = bins.counts.copy(), bins.last(), bins.mirrored()
    first = len(counts) - 1 - downwards.last()
    if not 0 <= first <= last:
        return range(0), counts
    counts[last + 1 :] = bins.tail(first, last)
    counts[:first] = downwards.tail(len(counts) - 1 - last, len(counts) - 1 - first)[::-1]
    return range(first, last + 1), counts
