r"""How two ordered columns rise together: Spearman's rank correlation of bins.

    r = Σ_ij w_ij·a_i·b_j/n − (Σ_ij w_ij·a_i/n)·(Σ_ij w_ij·b_j/n),   n = Σ_ij w_ij

w are rows, or shares of them, in which both columns have a value. a and b are the mid-ranks of the values, shifted and
scaled to mean 0 and deviation 1 over all rows in which their column has a value.

Source: Spearman 1904, with mid-ranks for ties (Kendall 1945).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def standard_ranks(rows: Floats) -> Floats | None:
    """The mid-ranks of ordered values, with mean 0 and deviation 1; None where one value has all rows.

    >>> standard_ranks(np.array([1.0, 1.0])).tolist()
    [-1.0, 1.0]

    Args:
        rows: with each value, in order; those below 0, which are noise, count as 0.
    """
    shares = np.maximum(rows, 0.0)
    whole = shares.sum()
    if whole <= 0:
        return None
    shares = shares / whole
    ranks = np.cumsum(shares) - shares / 2
    ranks = ranks - shares @ ranks
    deviation = float(np.sqrt(shares @ ranks**2))
    return None if deviation < 1e-6 else ranks / deviation


def rank_correlation(rows: Floats, first: Floats, second: Floats) -> float:
    """r, from -1 to 1; 0 where there are no rows.

    >>> rank_correlation(np.eye(2), np.array([[-1.0], [1.0]]), np.array([[-1.0, 1.0]]))
    1.0

    Args:
        rows: w, some of which may be negative.
        first: a of each of them; shapes are broadcast.
        second: b.
    """
    whole = float(rows.sum())
    if whole <= 0:
        return 0.0
    mean = float((rows * first).sum()) * float((rows * second).sum()) / whole**2
    return min(1.0, max(-1.0, float((rows * first * second).sum()) / whole - mean))
