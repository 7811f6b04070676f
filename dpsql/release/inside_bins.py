r"""Where in its bin a synthetic value lies: by a density that is linear in the bin, and leans as its neighbours do.

    f(t) = 1 + b·(2t − 1)   on [0, 1],     b = s·w/(2d) within [−1, 1]

of a bin of width w with d rows for each step of it; s is the slope between the middles of the bins on either side. A
bin beside a point has no slope: values are uniform in it. The first and the last bin of the domain thin out by a power
of the distance y from the median, where rows are denser before them,

    f(y) ∝ y^(-α-1),   α = log(N(o)/N(e)) / log((e - m)/(o - m))

of the bin's inner edge e, the median m, and N(x) rows beyond x. o is the edge before e, or where N(o) = 3·N(e) if that
is nearer to the median. The last bin of a skewed number is wide, and nearly all of its rows lie at its beginning. Rows
beyond an edge are those of many bins, so noise in one bin hardly moves α. Every value stays in its bin, so no count of
bins changes.

No mean of a bin is measured beside that. A share r of ρ, for all bins of a column together, would tell the mean of the
column with an error of √Σw²/(n·√(2ρr)). That is more than what is off without it (`tests/benchmarks/bin_means.py`):
most of what is off in a mean is noise in the number of rows of the last bins.

Privacy: the rows are counted in the synthetic table itself, which is made of noisy answers; nothing else is read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Attribute

Floats = npt.NDArray[np.float64]
_FLAT: Final = 1e-6
_TIMES: Final = 3
_STEEPEST: Final = 500.0
_NEAREST: Final = 1e-9


@dataclass(frozen=True, eq=False)
class Bins:
    """The bins of a column.

    Attributes:
        middle: of each, shape (bins,); of whole numbers above the first edge.
        width: likewise; points of floats have none.
    """

    middle: Floats
    width: Floats

    @staticmethod
    def of(attribute: Attribute) -> Bins:
        """Those of an attribute.

        >>> Bins.of(Attribute("id", "BIGINT", "bins", ticks=(2**61, 2**61 + 1, 2**61 + 3))).width.tolist()
        [1.0, 2.0]
        """
        if not attribute.is_float:  # in whole numbers, because floats do not tell large ones apart
            above = np.array([int(tick) - int(attribute.ticks[0]) for tick in attribute.ticks], np.int64)
            width = np.diff(above).astype(np.float64)
            return Bins(above[:-1] + width / 2, width)
        ticks: npt.NDArray[Any] = np.array(attribute.ticks, np.float64)
        with np.errstate(over="ignore", invalid="ignore"):  # bounds near the largest float
            return Bins((ticks[1:] + ticks[:-1]) / 2, np.diff(ticks))

    @property
    def apart(self) -> Floats:
        """From the middle of the bin before to that of the bin after, of each but the first and the last."""
        return self.width[:-2] / 2 + self.width[1:-1] + self.width[2:] / 2


def places(attribute: Attribute, codes: npt.NDArray[np.int64], uniform: Floats) -> Floats:
    """A place in each code's bin, in [0, 1), for `Attribute.draw_ticks`.

    Args:
        attribute: with bins.
        codes: of the synthetic rows, shape (rows,).
        uniform: shape (rows,), in [0, 1).

    >>> age = Attribute("age", "INTEGER", "bins", ticks=(0, 10, 20, 30))
    >>> placed = places(age, np.repeat([0, 1, 2], [900, 500, 100]), np.full(1500, 0.5))
    >>> float(placed[0]), float(placed[900].round(3)), float(placed[-1].round(3))
    (0.5, 0.404, 0.288)
    """
    rows = np.bincount(codes, minlength=attribute.size)[: attribute.regular].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # bounds near the largest float
        leaning, thinning = np.nan_to_num(lean(attribute, rows), posinf=0.0, neginf=0.0), thin_out(attribute, rows)
    if not leaning.any() and not thinning:
        return uniform
    inside = np.minimum(codes, attribute.regular - 1)
    b = leaning[inside]
    flat = np.abs(b) < _FLAT
    safe = np.where(flat, 1.0, b)
    leant = (np.sqrt((1 - safe) ** 2 + 4 * safe * uniform) - (1 - safe)) / (2 * safe)
    placed = np.where(flat, uniform, leant)
    for code, tail in thinning.items():
        placed[inside == code] = tail.places(uniform[inside == code])
    placed = np.where(np.isfinite(placed), placed, uniform)  # whatever overflowed, a value stays in its bin
    return np.asarray(placed.clip(0.0, np.nextafter(1.0, 0.0)))


def thin_out(attribute: Attribute, rows: Floats) -> dict[int, Tail]:
    """How the first and the last bin thin out, by their codes, from the rows in all bins; without those that do not."""
    tails: dict[int, Tail] = {}
    if attribute.has_single_values:
        return tails
    width = Bins.of(attribute).width
    for run in attribute.runs:
        for end, step in ((run.start, 1), (run.stop - 1, -1)):
            if end in (0, attribute.regular - 1) and len(run) > 1:  # not beside a point; the median is that of all rows
                tail = Tail.of(width[::step], rows[::step], is_first=step > 0)
                if tail is not None:
                    tails[end] = tail
    return tails


@dataclass(frozen=True)
class Tail:
    """How an end bin thins out.

    Attributes:
        start: from the middle of the rows to the bin, in widths of the bin.
        power: α.
        is_first: whether it is the first bin, which thins out downwards.
    """

    start: float
    power: float
    is_first: bool

    @staticmethod
    def of(width: Floats, rows: Floats, *, is_first: bool) -> Tail | None:
        """That of a bin, from the widths and rows of it and of those beside it, from the end inwards; None if not."""
        edges, beyond = np.append(0.0, np.cumsum(width[1:])), np.cumsum(rows)  # of each bin from its inner edge on
        half = beyond[-1] / 2
        if not (0 < rows[0] < half and width.min() > 0 and np.isfinite(edges).all()):
            return None
        middle = float(np.interp(half, beyond, edges))
        start = middle / float(width[0])
        if start < _NEAREST:
            return None
        other = min(max(float(edges[1]), float(np.interp(_TIMES * rows[0], beyond, edges))), middle / 2)
        more, nearer = float(np.interp(other, edges, beyond)), -math.log1p(-other / middle)
        if nearer == 0 or (more - rows[0]) / other <= rows[0] / width[0]:
            return None
        return Tail(start, min(math.log(more / rows[0]) / nearer, _STEEPEST), is_first)

    def places(self, uniform: Floats) -> Floats:
        """Places in the bin."""
        least = math.exp(-self.power * math.log1p(1 / self.start))
        outwards = 1 - uniform if self.is_first else uniform
        place = self.start * np.expm1(-np.log1p(outwards * (least - 1)) / self.power)
        return 1 - place if self.is_first else place


def lean(attribute: Attribute, rows: Floats) -> Floats:
    """B of each bin, from the rows in all bins."""
    leans = np.zeros(attribute.regular)
    if attribute.has_single_values:
        return leans
    bins = Bins.of(attribute)
    width = bins.width
    with np.errstate(over="ignore"):  # of points of floats, which have no width and are in no run
        density = rows / np.maximum(width, np.finfo(np.float64).tiny)
    for run in attribute.runs:
        inner = np.arange(run.start + 1, run.stop - 1)
        inner = inner[rows[inner] > 0]
        slope = (density[inner + 1] - density[inner - 1]) / bins.apart[inner - 1]
        leans[inner] = (slope * width[inner] / (2 * density[inner])).clip(-1.0, 1.0)
    return leans
