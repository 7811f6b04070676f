"""The smallest type of whole numbers that holds a range: rows of many columns take a quarter of the memory."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

WholeType = type[np.signedinteger[Any]]
_SMALLER: Final[tuple[WholeType, ...]] = (np.int16, np.int32)


def whole_type(least: int, most: int) -> WholeType:
    """The smallest of 16, 32 and 64 bits that holds both, and so all whole numbers between them.

    >>> whole_type(0, 12).__name__, whole_type(-40_000, 12).__name__, whole_type(0, 2**40).__name__
    ('int16', 'int32', 'int64')
    """
    fitting = (kind for kind in _SMALLER if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max)
    return next(fitting, np.int64)
