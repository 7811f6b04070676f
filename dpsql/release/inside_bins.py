r"""Where in its bin a synthetic value lies: by a density that is linear in the bin, and leans as its neighbours do.

    f(t) = 1 + b·(2t − 1)   on [0, 1],     b = s·w/(2d) within [−1, 1]

of a bin of width w with d rows for each step of it; s is the slope between the middles of the bins on either side. A
bin beside a point has no slope: values are uniform in it. The first and the last bin of the domain, if the next one d₁
is denser, thin out from there,

    f(t) = λ·e^(-λt)/(1 − e^(-λ)),   f(0) = √(d₁/d)       t from the side of the next bin

because the last bin of a skewed number is wide, and nearly all of its rows lie at its beginning. f(0)·d is the mean of
both densities, as of a curve through the two. Every value stays in its bin, so no count of bins changes.

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
_STEPS: Final = 60
_STEEPEST: Final = 500.0


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
    (0.5, 0.404, 0.291)
    """
    rows = np.bincount(codes, minlength=attribute.size)[: attribute.regular].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # bounds near the largest float
        leaning, thinning = np.nan_to_num(lean(attribute, rows), posinf=0.0, neginf=0.0), thin_out(attribute, rows)
    if not leaning.any() and not thinning.any():
        return uniform
    inside = np.minimum(codes, attribute.regular - 1)
    b, rate = leaning[inside], thinning[inside]
    flat = np.abs(b) < _FLAT
    safe = np.where(flat, 1.0, b)
    leant = (np.sqrt((1 - safe) ** 2 + 4 * safe * uniform) - (1 - safe)) / (2 * safe)
    ends = np.flatnonzero(rate)
    placed = np.where(flat, uniform, leant)
    placed[ends] = -np.log1p(uniform[ends] * np.expm1(-rate[ends])) / rate[ends]
    placed = np.where(np.isfinite(placed), placed, uniform)  # whatever overflowed, a value stays in its bin
    return np.asarray(placed.clip(0.0, np.nextafter(1.0, 0.0)))


def thin_out(attribute: Attribute, rows: Floats) -> Floats:
    """Λ of the last bin, -λ of the first one, 0 of the others, from the rows in all bins."""
    found = np.zeros(attribute.regular)
    if attribute.has_single_values:
        return found
    width = Bins.of(attribute).width
    for run in attribute.runs:
        for end, inner, sign in ((run.start, run.start + 1, -1), (run.stop - 1, run.stop - 2, 1)):
            outermost = end in (0, attribute.regular - 1) and len(run) > 1
            if (
                outermost
                and rows[end] > 0
                and min(width[end], width[inner]) > 0
                and np.isfinite(width[[end, inner]]).all()
            ):
                edge = math.sqrt((rows[inner] / rows[end]) * (width[end] / width[inner]))
                found[end] = sign * _rate(edge)
    return found


def _rate(edge: float) -> float:
    """Λ of which λ/(1 − e^(-λ)) is f(0); 0 where f(0) is at most 1.

    >>> round(_rate(2.0), 3), _rate(0.5)
    (1.594, 0.0)
    """
    if edge <= 1:
        return 0.0
    rate = edge = min(edge, _STEEPEST)
    for _ in range(_STEPS):
        rate = edge * -math.expm1(-rate)
    return rate


def lean(attribute: Attribute, rows: Floats) -> Floats:
    """B of each bin, from the rows in all bins."""
    found = np.zeros(attribute.regular)
    if attribute.has_single_values:
        return found
    bins = Bins.of(attribute)
    width = bins.width
    with np.errstate(over="ignore"):  # of points of floats, which have no width and are in no run
        density = rows / np.maximum(width, np.finfo(np.float64).tiny)
    for run in attribute.runs:
        inner = np.arange(run.start + 1, run.stop - 1)
        inner = inner[rows[inner] > 0]
        slope = (density[inner + 1] - density[inner - 1]) / bins.apart[inner - 1]
        found[inner] = (slope * width[inner] / (2 * density[inner])).clip(-1.0, 1.0)
    return found
