r"""Which cells of a measured pair may hold rows: the others are empty as far as noisy counts tell, as are those around.

    v is in use    y_v > 4·σ_v
    (u, v) may     ȳ_uv > 2.5·σ/√k   or   y_uv > 4·σ
    all may        unless the m other cells surely hold few rows:   Σ_others y + 2·σ·√m ≤ 0.03·N

y are noisy counts of a pair of ordered columns and of each of them alone, with deviations σ and σ_v. ȳ_uv is the mean
of the cell and of those next to it along both columns, k ≤ 9 together; values that are not in use are skipped. NULL and
what lies outside of the bounds have no neighbours, so all their cells may hold rows. So may the largest of every value.

Where two columns nearly decide each other most cells are empty, and their noise blurs the pair. It has no mean, but the
part of it that the simplex keeps has, and cells far from the ridge have the largest leverage on a correlation. Where
there is no ridge many cells hold few rows each, which noise hides one by one and not together: the last rule is for
them.

It looks at noisy counts only, so it costs no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Attribute
from dpsql.fitting.target import Target

_OF_A_MEAN: Final = 2.5
_OF_A_CELL: Final = 4.0
_OF_A_SUM: Final = 2.0
_MOST_LOST: Final = 0.03  # of the rows


def may_hold_rows(
    pair: Target, columns: Sequence[Attribute], alone: Mapping[str, Target], total: float
) -> npt.NDArray[np.bool_]:
    """The cells that may hold rows by the rule at the top of this file, of the pair's shape.

    Args:
        pair: noisy counts of two ordered columns.
        columns: the two.
        alone: noisy counts of columns by themselves; all values of one that is not there are in use.
        total: N, rows.
    """
    counts, sigma = pair.values.reshape(pair.shape).astype(np.float64), math.sqrt(pair.variance)
    inner = np.ix_(*(_in_use(column, alone.get(column.name)) for column in columns))
    sums, cells = counts[inner], np.ones(counts[inner].shape)
    for axis in (0, 1):
        sums, cells = (_with_neighbours(part, axis) for part in (sums, cells))
    possible = np.zeros(pair.shape, bool)
    possible[inner] = (sums > _OF_A_MEAN * sigma * np.sqrt(cells)) | (counts[inner] > _OF_A_CELL * sigma)
    possible[columns[0].regular :] = possible[:, columns[1].regular :] = True
    possible[np.arange(len(counts)), counts.argmax(axis=1)] = True
    possible[counts.argmax(axis=0), np.arange(counts.shape[1])] = True
    others = counts[~possible]
    surely_few = others.sum() + _OF_A_SUM * sigma * math.sqrt(others.size) <= _MOST_LOST * total
    return possible if surely_few else np.ones_like(possible)


def _in_use(column: Attribute, alone: Target | None) -> npt.NDArray[np.int64]:
    """The codes of regular values that hold rows beyond noise."""
    codes = np.arange(column.regular)
    return codes if alone is None else codes[alone.values[codes] > _OF_A_CELL * math.sqrt(alone.variance)]


def _with_neighbours(table: npt.NDArray[np.float64], axis: int) -> npt.NDArray[np.float64]:
    """Each cell and those before and after it along an axis, added up."""
    along = np.moveaxis(table, axis, 0)
    sums = along.copy()
    sums[1:] += along[:-1]
    sums[:-1] += along[1:]
    return np.moveaxis(sums, 0, axis)
