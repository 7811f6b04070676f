"""Absolute values of 64-bit integers. `np.abs` of the least of them, −2⁶³, is negative: it passes as a small weight."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def magnitudes(values: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """The absolute values, of the same shape.

    >>> magnitudes(np.array([-(2**63), -1, 2])).tolist()
    [9223372036854775808, 1, 2]
    """
    return np.abs(np.asarray(values, np.int64)).astype(np.uint64)  # −2⁶³ is 2⁶³ in 64 bits without a sign


def largest_magnitude(values: npt.NDArray[np.int64]) -> int:
    """The largest absolute value; 0 of no values."""
    return int(magnitudes(values).max(initial=0))
