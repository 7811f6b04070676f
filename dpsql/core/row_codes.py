"""Codes of rows in the smallest type of whole numbers that holds them: many columns take a quarter of the memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

WholeType = type[np.signedinteger[Any]]
RowCodes = npt.NDArray[np.signedinteger[Any]]
"""Of any such type; 64 bits before they are added or multiplied."""
_SMALLER: Final[tuple[WholeType, ...]] = (np.int16, np.int32)


def whole_type(least: int, most: int) -> WholeType:
    """The smallest of 16, 32 and 64 bits that holds both, and so all whole numbers between them.

    >>> whole_type(0, 12).__name__, whole_type(-40_000, 12).__name__, whole_type(0, 2**40).__name__
    ('int16', 'int32', 'int64')
    """
    fitting = (kind for kind in _SMALLER if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max)
    return next(fitting, np.int64)


def code_type(sizes: Iterable[int]) -> WholeType:
    """The smallest that holds the codes of attributes of these sizes, and differences of them.

    >>> code_type([2, 40_000]).__name__, code_type([]).__name__
    ('int32', 'int16')
    """
    return whole_type(0, max(sizes, default=0))
