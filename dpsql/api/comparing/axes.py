"""Logarithmic axes that a reader can take numbers from: at least three of them, and none on top of another."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

FEWEST: Final = 3
"""Numbers of an axis."""
_MOST: Final = 9
_STEPS: Final = (
    (1,),
    (1, 3),
    (1, 2, 5),
    (1, 1.5, 2, 3, 5, 7),
    tuple(range(1, 10)),
    tuple(tenth / 10 for tenth in range(10, 100)),
)
"""Within a power of ten, from few numbers to many."""
_REACH: Final = 1.5
"""By what factor an axis is longer at each end where it would be too short for numbers."""
_APART: Final = 0.07
"""Of the length of an axis: what a number takes."""


def round_numbers(low: float, high: float) -> list[float]:
    """Round numbers between two positive ones: three at least, if these are a factor of 1.5 apart.

    >>> round_numbers(0.019, 0.043)
    [0.02, 0.03, 0.04]
    >>> round_numbers(0.004, 0.4)
    [0.01, 0.03, 0.1, 0.3]
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    numbers: list[float] = []
    for steps in _STEPS:
        every = (float(f"{step}e{power}") for power in powers for step in steps)
        numbers = [number for number in every if low <= number <= high]
        if len(numbers) >= FEWEST:
            break
    return numbers if len(numbers) <= _MOST else numbers[:: math.ceil(len(numbers) / _MOST)]


def scale_errors(axes: Any) -> None:
    """Make the vertical axis logarithmic, with numbers."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    if high < low * _REACH**2:
        low, high = low / _REACH, high * _REACH
    _number(axes.yaxis, round_numbers(low, high))
    axes.set_ylim(low, high)


def scale_places(axes: Any, places: Iterable[float]) -> None:
    """Make the horizontal axis logarithmic, with a number at each place, and more where there are few.

    Args:
        axes: of a picture.
        places: where there are points, positive.
    """
    axes.set_xscale("log")
    numbers = sorted({*places})
    if not numbers:
        return
    low, high = numbers[0], numbers[-1]
    if len(numbers) < FEWEST:
        low, high = low / 2, high * 2
        beside = [number for number in round_numbers(low, high) if all(_far(number, other) for other in numbers)]
        numbers = sorted([*numbers, *beside])
        axes.set_xlim(low / 1.1, high * 1.1)
    length = math.log(high / low) or 1.0
    _number(axes.xaxis, _apart(numbers, length))


def _far(number: float, other: float) -> bool:
    return abs(math.log(number / other)) > math.log(1.3)


def _apart(numbers: Sequence[float], length: float) -> list[float]:
    """The numbers that do not touch the one before; the last one stays."""
    chosen: list[float] = []
    for number in reversed(numbers):
        if not chosen or math.log(chosen[-1] / number) >= _APART * length:
            chosen.append(number)
    return chosen[::-1]


def _number(axis: Any, numbers: Sequence[float]) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

    axis.set_major_locator(FixedLocator(list(numbers)))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_locator(NullLocator())
