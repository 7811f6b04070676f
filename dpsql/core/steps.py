"""Multiples of a step: in synthetic rows whole numbers of a DOUBLE stay whole, amounts in cents, times in minutes.

    tick  =  k · step · ticks of 1      1 of a number is 10^scale ticks, of a moment a second

Moments are multiples since 1970 in UTC, times since midnight: 60 is a whole minute, and 86,400 of a timestamp a day.

A step says how synthetic values are written, and nothing about rows: 4.7 in a column of whole numbers is counted in the
bin that holds it, and queries read it as it is. A synthetic row in a bin that holds no multiple of the step, as between
the points 4 and 5, gets the next one below or above.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Attribute

_EXACT: Final = 2**53  # up to which floats hold each whole number


def released_ticks(attribute: Attribute, codes: npt.NDArray[np.int64], uniform: npt.NDArray[np.float64]) -> Any:
    """A tick inside each code's bin for a synthetic row; a multiple of the attribute's step, if it has one.

    Args:
        attribute: with bins.
        codes: shape (rows,).
        uniform: a place in each bin, shape (rows,), in [0, 1).

    >>> price = Attribute("price", "DOUBLE", "bins", ticks=(0.0, 0.25, 9.0), step="0.1")
    >>> released_ticks(price, np.array([0, 0, 1, 1]), np.array([0.0, 0.99, 0.0, 0.99])).tolist()
    [0.0, 0.2, 0.3, 9.0]
    """
    drawn = attribute.draw_ticks(codes, uniform)
    if not attribute.step:
        return drawn
    first, count = _multiples(attribute)
    least, most = int(first[0]), int(first[-1] + count[-1]) - 1
    if least > most:
        return drawn
    bins = np.minimum(codes, attribute.regular - 1)
    inside = first[bins] + np.minimum((uniform * count[bins]).astype(np.int64), count[bins] - 1)
    beside = np.clip(first[bins] - (uniform < 0.5), least, most)
    return _ticks(attribute, np.where(count[bins] > 0, inside, beside))


def in_ticks(attribute: Attribute) -> Fraction:
    """The step of an attribute in its ticks."""
    of_type = attribute.of_type
    return Fraction(attribute.step) * (of_type.ticks_per_second or Fraction(10) ** (of_type.scale or 0))


def is_exact(attribute: Attribute) -> bool:
    """Whether each multiple of the step between the bounds is told exactly, as the number that its text writes."""
    step = in_ticks(attribute)
    if not attribute.is_float:
        return step.denominator == 1
    largest = max(abs(Fraction(tick)) for tick in (attribute.ticks[0], attribute.ticks[-1]))
    return largest * step.denominator + step.numerator < _EXACT and step.denominator < _EXACT


def multiples_within(attribute: Attribute) -> int:
    """How many multiples of the step are between the bounds."""
    step = in_ticks(attribute)
    first, last = Fraction(attribute.ticks[0]) / step, Fraction(attribute.ticks[-1]) / step
    return math.floor(last) - math.ceil(first) + 1


def _ticks(attribute: Attribute, multiple: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Multiples of the step as ticks: a quotient of two whole numbers that floats hold is the nearest float to it."""
    step = in_ticks(attribute)
    if not attribute.is_float:
        return np.asarray(multiple * step.numerator)
    whole = multiple.astype(np.float64) * step.numerator / step.denominator
    return np.asarray(whole.astype(attribute.of_type.float_type), np.float64)


@lru_cache(maxsize=64)
def _multiples(attribute: Attribute) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Of each bin the first multiple of the step, and how many of them it holds."""
    step = in_ticks(attribute)
    ends = [math.ceil(Fraction(tick) / step) for tick in attribute.ticks]
    first = np.array(ends, np.int64)
    if attribute.is_float:  # an edge, such as 0.1, may be a float above or below the number that was written
        edges = np.array(attribute.ticks, np.float64)
        first -= _ticks(attribute, first - 1) >= edges
        last = first[-1] + (_ticks(attribute, first[-1:])[0] == edges[-1])  # the last bin holds its upper edge
        first, after = first[:-1], np.append(first[1:-1], last)
    else:
        first, after = first[:-1], first[1:]
    return first, after - first
