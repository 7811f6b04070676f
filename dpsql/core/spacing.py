"""`Spacing`: bins of equal width, of which a value's is found by arithmetic in place of a search among the edges.

    code(x)  =  ⌊(x − start) · many / width⌋,    no less than 0 and no more than the last bin's

Two families of edges are of that form: those with equal steps between all edges but the first and the last one, and
those of `equal_width`, whose steps differ by one tick because the width of a bin is no whole number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from dpsql.core.domain import equal_width


@dataclass(frozen=True)
class Spacing:
    """How far apart edges are.

    Attributes:
        start: where bin 0 would begin, in ticks.
        many: so many bins …
        width: … have so many ticks together.
        last: the number of the last bin.
    """

    start: int
    many: int
    width: int
    last: int

    @property
    def end(self) -> int:
        """Where the last bin would end if it were as wide as the others; where `many` is 1."""
        return self.start + (self.last + 1) * self.width

    def code(self, tick: int) -> int:
        """The bin of a value that is in one of the bins.

        >>> spacing = spacing_of((17, 36, 54, 73, 91))
        >>> [spacing.code(tick) for tick in (17, 35, 36, 53, 54, 90)]
        [0, 0, 1, 1, 2, 3]
        """
        return min(max((tick - self.start) * self.many // self.width, 0), self.last)


def spacing_of(ticks: Sequence[int]) -> Spacing | None:
    """How far apart some edges are, in order, as whole numbers; None where that takes more than one number to say.

    >>> spacing_of((0, 10, 20, 30, 31))
    Spacing(start=0, many=1, width=10, last=3)
    >>> spacing_of((0, 1, 50, 60, 99)) is None
    True
    """
    first, last = ticks[0], len(ticks) - 2
    if last < 2:  # one inner edge, or none, and any width
        width = ticks[-1] - first
        return Spacing(ticks[1] - width, 1, width, last)
    width = ticks[2] - ticks[1]
    if all(edge == ticks[1] + place * width for place, edge in enumerate(ticks[1:-1])):
        return Spacing(ticks[1] - width, 1, width, last)
    bins, width = last + 1, ticks[-1] - first
    if width < bins or tuple(ticks) != equal_width(first, ticks[-1] - 1, bins, is_float=False):
        return None
    common = gcd(bins, width)
    return Spacing(first, bins // common, width // common, last)
