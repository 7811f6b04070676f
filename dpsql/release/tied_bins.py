r"""Two columns that nearly decide each other, inside their bins: the place in one bin is often that in the other.

    β = Cov(A, B)/Var(A),   s² = the median over a's bins of Var(B | bin) + mean(w_b²)/12 − (β·w_a)²/12, at least 0
    q = min(|β|·w_a, w_b),   κ = q/√(q² + 12·s²)

A and B are the middles of the bins of the synthetic rows, w_a and w_b their widths. With probability κ a row has in b's
bin the place that it has in a's, from the other end where β < 0; else a place of its own. κ is the correlation inside
a cell of a line of slope β with a scatter of s around it. So wide bins are tied, and bins narrower than the scatter are
not. Each column by itself is distributed in its bins as before.

A column is tied to the column before it with the largest correlation of A and B, if that is at least 0.7.

Privacy: synthetic rows alone are read, which are made of noisy answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Domain
from dpsql.release.inside_bins import Bins

Floats = npt.NDArray[np.float64]
_LEAST: Final = 0.7
_ROWS: Final = 50_000
"""About how many rows correlations are computed from; of each of many pairs of columns."""


def tied(
    domain: Domain,
    codes: npt.NDArray[Any],
    places: Sequence[int],
    uniform: Callable[[int], Floats],
    generator: np.random.Generator,
) -> Iterator[tuple[int, Floats]]:
    """Places in bins, in [0, 1), of which those of dependent columns go together: a column at a time.

    Memory holds the places of those columns only to which a later one is tied: of all, they would be as large as the
    rows themselves.

    Args:
        domain: of the rows.
        codes: shape (rows, columns).
        places: the numbers of the columns with bins, in order.
        uniform: draws independent places in the bins of such a column, shape (rows,); called once for each, in order.
        generator: of which rows are tied.

    Yields:
        The number of a column, and where its rows lie in their bins, shape (rows,).
    """
    columns = {place: Bins.of(domain.attributes[place]) for place in places}
    columns = {place: bins for place, bins in columns.items() if len(bins.middle) > 1}
    some = codes[:: max(1, len(codes) // _ROWS)]
    with np.errstate(over="ignore", invalid="ignore"):  # numbers of any size; what is not finite is not tied
        ties = {
            place: (other, tie)
            for place, other in _leaders(columns, some).items()
            if (tie := _tie(columns[other], some[:, other], columns[place], some[:, place])) is not None
        }
    last = {other: place for place, (other, _) in ties.items()}  # in order, so the last that is tied to it
    led: dict[int, Floats] = {}
    for place in places:
        inside = uniform(place)
        if place in ties:
            other, tie = ties[place]
            with np.errstate(over="ignore", invalid="ignore"):
                chosen = generator.random(len(codes)) < tie.strength(codes[:, other], codes[:, place])
            along = led[other] if tie.slope > 0 else np.nextafter(1.0, 0.0) - led[other]
            inside = np.where(chosen, along, inside)
            if last[other] == place:
                del led[other]
        if place in last:
            led[place] = inside
        yield place, inside


def _leaders(columns: Mapping[int, Bins], codes: npt.NDArray[Any]) -> dict[int, int]:
    """For each column but the first the one before it with the largest correlation, by rows in which both have bins.

    Rows without a bin count as the mean, so that one product of matrices tells all correlations about.
    """
    order, scaled = sorted(columns), []
    for place in order:
        inside = codes[:, place] < len(columns[place].middle)
        values = columns[place].middle[np.where(inside, codes[:, place], 0)]
        values = np.where(inside, values - values[inside].mean() if inside.any() else 0.0, 0.0)
        length = float(np.sqrt((values**2).sum()))
        scaled.append(values / length if 0 < length < np.inf else np.zeros(len(values)))
    about = np.abs(np.array(scaled) @ np.array(scaled).T) if order else np.zeros((0, 0))
    return {order[k]: order[int(about[k, :k].argmax())] for k in range(1, len(order))}


@dataclass(frozen=True, eq=False)
class _Tie:
    """β and s of two columns."""

    first: Bins
    second: Bins
    slope: float
    scatter: float

    def strength(self, first: npt.NDArray[Any], second: npt.NDArray[Any]) -> Floats:
        """κ of each row; 0 where one of its codes is no bin."""
        inside = (first < len(self.first.width)) & (second < len(self.second.width))
        a, b = np.where(inside, first, 0), np.where(inside, second, 0)
        both = np.minimum(abs(self.slope) * self.first.width[a], self.second.width[b])
        scale = np.sqrt(both**2 + 12 * self.scatter**2)
        is_there = inside & (scale > 0) & np.isfinite(scale)
        return np.asarray(np.where(is_there, both / np.where(is_there, scale, 1.0), 0.0))


def _tie(first: Bins, a: npt.NDArray[Any], second: Bins, b: npt.NDArray[Any]) -> _Tie | None:
    """The tie of two columns by their codes; None where they depend too little on each other."""
    inside = (a < len(first.middle)) & (b < len(second.middle))
    if inside.sum() < 2:
        return None
    a, b = a[inside], b[inside]
    x, y = first.middle[a], second.middle[b]
    spread = float(x.std()) * float(y.std())
    if not spread > 0 or not np.isfinite(spread):
        return None
    correlation = float(((x - x.mean()) * (y - y.mean())).mean()) / spread
    if not abs(correlation) >= _LEAST:
        return None
    slope = correlation * float(y.std()) / float(x.std())
    scatter = _scatter(first, a, second, b, slope)
    return _Tie(first, second, slope, scatter) if np.isfinite([slope, scatter]).all() else None


def _scatter(first: Bins, a: npt.NDArray[Any], second: Bins, b: npt.NDArray[Any], slope: float) -> float:
    """s: the median over the rows' bins of a."""
    y, rows = second.middle[b], np.maximum(np.bincount(a, minlength=len(first.width)), 1)

    def mean(values: Floats) -> Floats:
        return np.asarray(np.bincount(a, values, len(first.width)) / rows)

    inside = mean(y**2) - mean(y) ** 2 + mean(second.width[b] ** 2) / 12 - (slope * first.width) ** 2 / 12
    return float(np.sqrt(np.maximum(np.median(inside[a]), 0.0)))
