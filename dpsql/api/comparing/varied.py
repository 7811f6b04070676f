"""An option that a comparison varies: its name, and the values that every mechanism gets in turn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from dpsql.core.names import shorten
from dpsql.errors import InvalidArgument

PRIOR_ROWS: Final = "prior_rows"
"""No option of a mechanism: how many rows of the public table there are."""


@dataclass(frozen=True)
class Varied:
    """What is varied.

    Attributes:
        name: of an option of mechanisms, `rows`, or `prior_rows`; empty for nothing.
        values: each of them; one None for nothing.
    """

    name: str = ""
    values: tuple[float | None, ...] = (None,)


def varied_of(text: str | None) -> Varied:
    """What `option=value,value` states; None stands for nothing.

    Raises:
        InvalidArgument: it states no option, or a value that cannot stand on an axis.

    >>> varied_of("rounds=5,10,25")
    Varied(name='rounds', values=(5.0, 10.0, 25.0))
    """
    if text is None:
        return Varied()
    name, equals, given = text.partition("=")
    if not equals or not name.strip() or not given.strip():
        raise InvalidArgument(f"vary is {shorten(text)!r}: write an option and its values as rounds=5,10,25")
    return Varied(name.strip(), tuple(_number(number, text) for number in given.split(",")))


def _number(text: str, whole: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise InvalidArgument(
            f"vary is {shorten(whole)!r}: its values are positive numbers, words are mechanisms of their own, "
            "such as mwem:noise=laplace mwem:noise=gaussian"
        )
    return value
