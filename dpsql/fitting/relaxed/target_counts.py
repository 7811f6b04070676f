"""How many rows of codes lie in each cell of many marginals; the cell of a row is Σ_a stride_a · code_a."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

SmallCodes = npt.NDArray[np.int32]
_Scales = tuple[tuple[int, np.int32], ...]
_ROWS_IN_CACHE: Final = 16_384
"""That are counted at a time: three times faster than all rows of a large table at once."""


def target_counts(codes: npt.NDArray[Any], strides: SmallCodes, offsets: SmallCodes) -> npt.NDArray[np.int64]:
    """The counts of all marginals, one after the other.

    Args:
        codes: of the rows, shape (rows, attributes).
        strides: of each marginal, 0 for attributes that it has not, shape (marginals, attributes).
        offsets: the first cell of each marginal, and their number, shape (marginals + 1,).

    Returns:
        Shape (cells of all marginals,).

    >>> rows = np.array([[0, 1], [1, 2], [1, 2]])
    >>> target_counts(rows, np.array([[3, 1]], np.int32), np.array([0, 6], np.int32)).tolist()
    [0, 1, 0, 0, 0, 2]
    """
    counts, order = np.zeros(offsets[-1], np.int64), _shared(strides)
    for start in range(0, len(codes), _ROWS_IN_CACHE):
        columns = np.ascontiguousarray(codes[start : start + _ROWS_IN_CACHE].T, np.int32)
        for scales, marginals in order:
            together = np.zeros(columns.shape[1], np.int32)
            for place, scale in scales:
                together += columns[place] * scale
            for number, least, last in marginals:
                cells = together * least
                cells += columns[last] * strides[number, last]
                begin, end = offsets[number], offsets[number + 1]
                counts[begin:end] += np.bincount(cells, minlength=end - begin)
    return counts


def _shared(strides: SmallCodes) -> list[tuple[_Scales, list[tuple[int, np.int32, int]]]]:
    """Marginals by what all of their attributes but the last add up to, which they share but for a factor.

    Returns:
        The places of these attributes with their scales, and the number, factor and last place of each marginal.
    """
    shared: dict[_Scales, list[tuple[int, np.int32, int]]] = {}
    for number, row in enumerate(strides):
        *others, last = np.flatnonzero(row).tolist()
        least = min((row[place] for place in others), default=np.int32(1))
        shared.setdefault(tuple((place, row[place] // least) for place in others), []).append((number, least, last))
    return list(shared.items())
