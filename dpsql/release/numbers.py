r"""What analysts ask of a column of numbers: mean, spread and median, as measured and in the synthetic rows.

    n = Σ y_c      mean = Σ y_c·m_c/n      spread² = Σ y_c·q_c/n − mean²
    mean     ± z·√(Σ (m_c − mean)²·σ_c²)/n
    spread²  ± z·√(Σ ((q_c − 2·mean·m_c) + mean² − spread²)²·σ_c²)/n
    median   from the lowest to the highest cell in which half of the rows may be reached within z·σ

y_c is the estimate of a cell, σ_c its noise; m_c and q_c are the mean of x and of x² of the synthetic rows in the cell,
or of its middle where it has none. The intervals of mean and spread are for the noise alone, to its first order:
where inside of a cell values lie was not measured. `Figure.least` and `Figure.most` bound a mean wherever they lie.
The interval of a median holds that, too. All is computed from released values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Attribute
from dpsql.release.association import REACH
from dpsql.release.estimates import Floats
from dpsql.release.group_means import GroupMean

Indices = npt.NDArray[np.int64]
_SURE: Final = 3.0


@dataclass(frozen=True)
class Figure:
    """A figure of a column.

    Attributes:
        measured: by the noisy counts of its cells.
        low, high: the ends of its 95 % interval.
        synthetic: of the synthetic rows; no number where none has a value.
        least, most: between which it lies if values are anywhere inside their cells; of a mean.
    """

    measured: float
    low: float
    high: float
    synthetic: float
    least: float = -math.inf
    most: float = math.inf

    @property
    def holds(self) -> bool:
        """Whether the synthetic figure is inside of the interval."""
        return self.low <= self.synthetic <= self.high


@dataclass(frozen=True)
class NumberFigures:
    """The figures of a column of numbers.

    Attributes:
        name: of the column.
        mean, spread, median: of its values; the spread is the standard deviation.
        inside: whether a cell holds several values, so that the mean inside of it was not measured.
        groups: the means in groups of other columns (`dpsql.release.group_means`).
    """

    name: str
    mean: Figure
    spread: Figure
    median: Figure
    inside: bool
    groups: tuple[GroupMean, ...] = ()


def is_of_numbers(attribute: Attribute) -> bool:
    """Whether the values of a column have a mean: numbers, but no codes of the owner's that are texts."""
    if not attribute.of_type.is_number or attribute.other is not None:
        return False
    return attribute.kind == "bins" or all(map(_is_finite, attribute.values))


def figures_of(attribute: Attribute, measured: Floats, stddev: Floats, values: Floats) -> NumberFigures | None:
    """The figures of a column; None where noise hides how many rows have a value.

    >>> age = Attribute("age", "INTEGER", "bins", ticks=(0, 10, 20), edges=("0", "10", "19"))
    >>> figures = figures_of(age, np.array([50.0, 50.0]), np.zeros(2), np.array([4.0, 14.0]))
    >>> figures.mean.measured, figures.mean.least, figures.mean.most, figures.median.synthetic
    (9.0, 5.0, 14.0, 9.0)

    Args:
        attribute: the column's domain; `is_of_numbers`.
        measured: rows in each of its cells, with noise; those without a value come last and are left out.
        stddev: of the noise of each.
        values: of the synthetic rows, without those that have none.
    """
    cells, order = _cells(attribute)
    y, noise = measured[order], stddev[order]
    n, of_n = float(y.sum()), float(np.sqrt((noise**2).sum()))
    if n <= _SURE * of_n:
        return None
    m, q = _inside(values, cells)
    mean = float(y @ m) / n
    variance = max(0.0, float(y @ q) / n - mean**2)
    of_mean = REACH * float(np.sqrt(((m - mean) ** 2) @ noise**2)) / n
    pull = q - 2 * mean * m + mean**2 - variance
    of_variance = REACH * float(np.sqrt(pull**2 @ noise**2)) / n
    made = (float(values.mean()), float(values.std()), float(np.median(values))) if values.size else (math.nan,) * 3
    low, high = (math.sqrt(max(0.0, variance + sign * of_variance)) for sign in (-1, 1))
    return NumberFigures(
        attribute.name,
        Figure(mean, mean - of_mean, mean + of_mean, made[0], float(y @ cells.low) / n, float(y @ cells.high) / n),
        Figure(math.sqrt(variance), low, high, made[1]),
        _median(y, REACH * of_n / 2, cells, made[2]),
        bool((cells.high > cells.low).any()),
    )


def means_in_cells(attribute: Attribute, values: Floats) -> Floats:
    """The mean of the synthetic values in each cell, or its middle, by codes; no number where a cell has no value.

    >>> means_in_cells(Attribute("n", "INTEGER", "values", ("3", "1"), nullable=True), np.array([3.0])).tolist()
    [3.0, 1.0, nan]

    Args:
        attribute: the column's domain; `is_of_numbers`.
        values: of the synthetic rows, without those that have none.
    """
    cells, order = _cells(attribute)
    means = np.full(attribute.size, math.nan)
    means[order], _ = _inside(values, cells)
    return means


@dataclass(frozen=True)
class _Cells:
    """Where the values of each cell lie, in order.

    Attributes:
        low, high: the smallest and the largest value of each.
        begins: from where on values belong to each but the first.
    """

    low: Floats
    high: Floats
    begins: Floats


def _cells(attribute: Attribute) -> tuple[_Cells, Indices]:
    """The cells of a column's values, and their codes in order."""
    if attribute.kind == "values":
        values = np.array([float(value) for value in attribute.values])
        order = np.argsort(values, kind="stable")
        values = values[order]
        return _Cells(values, values, (values[1:] + values[:-1]) / 2), order
    ticks, codes = np.array(attribute.ticks, np.float64), np.arange(attribute.regular)
    if attribute.is_float:
        high = ticks[1:].copy()
        places = sorted(attribute.point_codes)
        high[places] = ticks[places]
        return _Cells(ticks[:-1], high, ticks[1:-1]), codes
    unit = 10.0 ** -(attribute.of_type.scale or 0)
    return _Cells(ticks[:-1] * unit, (ticks[1:] - 1) * unit, (ticks[1:-1] - 0.5) * unit), codes


def _inside(values: Floats, cells: _Cells) -> tuple[Floats, Floats]:
    """The mean of the synthetic values, and of their squares, inside each cell."""
    middle = (cells.low + cells.high) / 2
    if not values.size:
        return middle, middle**2
    places = np.searchsorted(cells.begins, values, side="right")
    rows = np.bincount(places, minlength=len(middle))
    sums = np.bincount(places, values, len(middle)), np.bincount(places, values**2, len(middle))
    first, second = (
        np.divide(whole, rows, out=middle**power, where=rows > 0) for power, whole in enumerate(sums, start=1)
    )
    return first, second


def _median(y: Floats, reach: float, cells: _Cells, made: float) -> Figure:
    """The median by the counts of ordered cells, even inside of its cell.

    Args:
        y: rows in each, with noise.
        reach: half of the 95 % interval of the rows below an edge, less half of all rows.
        cells: where their values lie.
        made: the synthetic median.
    """
    edges = np.concatenate([[0.0], np.cumsum(y)])
    half = edges[-1] / 2
    place = int(np.argmax(edges[1:] >= half))
    part = min(1.0, max(0.0, (half - edges[place]) / y[place])) if y[place] > 0 else 0.5
    first = int(np.argmax(edges[1:] + reach >= half))
    last = len(y) - 1 - int(np.argmax((edges[:-1] - reach <= half)[::-1]))
    measured = float(cells.low[place] + part * (cells.high[place] - cells.low[place]))
    return Figure(measured, float(cells.low[first]), float(cells.high[last]), made)


def _is_finite(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
