"""How many cases a generated test takes: a part of them in each run, all of them before a release.

A property that holds for a quarter of its cases and fails for another is caught by `pytest --deep`, which the checklist
of a release runs. Every kind of case and every boundary is in both: a test lists those itself (`@example`, parameters).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, TypeVar

_Value = TypeVar("_Value")
VARIABLE: Final = "DPSQL_TESTS_DEEP"
"""Set by `pytest --deep`, before tests are collected and for the processes that they start."""
_PART: Final = 4
_LEAST: Final = 5


def is_deep() -> bool:
    """Whether all cases are taken."""
    return os.environ.get(VARIABLE) == "1"


def depth(cases: int) -> int:
    """How many of so many generated cases are taken: a quarter, but at least 5, where there are as many.

    >>> depth(4)
    4
    """
    return cases if is_deep() else min(cases, max(_LEAST, cases // _PART))


def some(values: Sequence[_Value], part: int = _PART) -> list[_Value]:
    """Every so many-th of a generated list of parameters, the first and the last among them; all of them if deep.

    >>> some([1, 2, 3])[0], some([1, 2, 3])[-1]
    (1, 3)
    """
    return list(values) if is_deep() else [*values[:-1:part], *values[-1:]]
