"""Bounds that numbers of a kind have for everybody, which rounded edges of bins never pass.

    named     a word of the column's name: a latitude is at most 90, an hour has 60 minutes, a compass 360 degrees
    of any    the least of [0, 1], [−1, 1] and [0, 100] that holds all rows: shares, correlations, percentages
    sign      whole numbers and cents that are above 0 stay above 0, so that 0 stays what no row has

The rows choose among the bounds, and every row is within those that are chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from dpsql.api.proposing import names

_DEGREES: Final = ((0, 360), (-180, 180), (-360, 360))
_LATITUDE: Final = ((-90, 90),)
_LONGITUDE: Final = ((-180, 180), (0, 360))
_WEEKDAY: Final = ((0, 6), (1, 7), (0, 7))
_NAMED: Final = {
    "hour": ((0, 23), (0, 24), (0, 168)),
    "hours": ((0, 24), (0, 168), (0, 8784)),
    "hr": ((0, 23), (0, 24)),
    "minute": ((0, 59), (0, 60)),
    "second": ((0, 59), (0, 60)),
    "month": ((1, 12), (0, 12)),
    "mon": ((1, 12),),
    "quarter": ((1, 4), (0, 4)),
    "week": ((1, 53), (0, 53)),
    "day": ((1, 31), (1, 365), (1, 366), (0, 366)),
    "days": ((0, 366),),
    "doy": ((1, 365), (1, 366), (0, 366)),
    "yday": ((1, 365), (1, 366), (0, 366)),
    "julian": ((1, 365), (1, 366)),
    "weekday": _WEEKDAY,
    "dow": _WEEKDAY,
    "lat": _LATITUDE,
    "latitude": _LATITUDE,
    "lon": _LONGITUDE,
    "lng": _LONGITUDE,
    "long": _LONGITUDE,
    "longitude": _LONGITUDE,
    "heading": _DEGREES,
    "bearing": _DEGREES,
    "azimuth": _DEGREES,
    "direction": _DEGREES,
    "angle": _DEGREES,
    "degrees": _DEGREES,
    "ph": ((0, 14),),
}
"""By a word of a name, bounds in both of which a value may lie; those that are tried first stand first."""
_OF_ANY: Final = ((0, 1), (-1, 1), (0, 100))


def bounds_of(name: str, low: Decimal, high: Decimal, *, whole: bool) -> tuple[Decimal, Decimal] | None:
    """The least and the largest number of the kind that a column is of; None where no kind is known.

    Args:
        name: of the column.
        low: the smallest value in it.
        high: the largest.
        whole: whether its type has whole numbers only.

    >>> [str(bound) for bound in bounds_of("start_lat", Decimal(41), Decimal(46), whole=False)]
    ['-90', '90']
    >>> [str(bound) for bound in bounds_of("humidity", Decimal("0.2"), Decimal("0.97"), whole=False)]
    ['0', '1']
    """
    words, meaning = names.words_of(name), names.number_of(name, whole=whole)
    of_name = [] if meaning is None or "lower" not in meaning.how else [(meaning.how["lower"], meaning.how["upper"])]
    of_words = [bounds for word in words for bounds in _NAMED.get(word, ())]
    for lower, upper in (*of_words, *of_name, *_OF_ANY):
        least, most = Decimal(str(lower)), Decimal(str(upper))
        if least <= low and high <= most:
            return least, most
    return None


@dataclass(frozen=True)
class Limits:
    """Where the edges of a column end.

    Attributes:
        bounds: the least and the largest number of its kind; None where no kind is known.
        tick: how far above the largest value the last edge is; 0 of floats, whose last bin holds its upper edge.
        low, high: the smallest and the largest value.
        step: of which all values are multiples; None without one.
        finest: a small difference of two values.
    """

    bounds: tuple[Decimal, Decimal] | None
    tick: Decimal
    low: Decimal
    high: Decimal
    step: Decimal | None
    finest: Decimal

    def held(self, edges: Sequence[Decimal], points: Sequence[Decimal]) -> tuple[list[Decimal], list[Decimal]]:
        """Edges and points, none beyond the limits, with all values between them.

        A float that is the bound itself, and has a cell of its own, gets the last bin for that: no edge is above it.
        """
        least, most = self._first(edges[0]), self._last(edges[-1])
        inner = [edge for edge in edges if least < edge < most]
        kept = list(points)
        if most < edges[-1] and not self.tick and most in (*edges, *points):
            inner.append(most - (self.step / 2 if self.step else self.finest))
            kept = [point for point in points if point < most]
        if least >= most:
            least = most - (self.step or self.finest)
        return sorted({least, *(edge for edge in inner if least < edge < most), most}), kept

    def _first(self, edge: Decimal) -> Decimal:
        if self.bounds is not None:
            edge = max(edge, self.bounds[0])
        return self.step if self.step and edge <= 0 < self.step <= self.low else edge

    def _last(self, edge: Decimal) -> Decimal:
        if self.bounds is not None:
            edge = min(edge, self.bounds[1] + self.tick)
        if self.step and self.high <= -self.step:
            edge = min(edge, self.tick - self.step)
        return edge
