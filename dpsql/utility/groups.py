"""How alike two tables are within the groups of some columns, such as area and year.

    L1_g  = (1/K) Σ_{k ≤ K} Σ_{a, b} |p(a, b | g) − q(a, b | g)|      of group g, for K random pairs of other columns
    error = the mean of L1_g over the groups of the real table, where L1_g is 2, the worst, if the group's number of
            synthetic rows is more than 250 off, or if it has none

The pairs are the same in all groups, and the same each time. A table of another size than the real one is therefore
punished, as its source has it.

Source: the measure of the 2020 NIST challenge as the document on iterative distribution estimation states it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dpsql.errors import InvalidArgument
from dpsql.utility.coded import Coded, Fractions

PAIRS: Final = 50
FAR: Final = 250
_WORST: Final = 2.0


@dataclass(frozen=True)
class Groups:
    """The measure at the top of this file. Computed from real rows: private.

    Attributes:
        each: L1_g of every group, sorted.
        punished: how many groups have the worst because of their number of rows.
    """

    each: tuple[float, ...]
    punished: int

    @property
    def error(self) -> float:
        """The mean over the groups."""
        return float(np.mean(self.each))


def groups(tables: Coded, columns: Sequence[int]) -> Groups:
    """Compare the groups of some columns.

    Args:
        tables: the real and the synthetic one.
        columns: that make the groups.

    Raises:
        InvalidArgument: no column is left beside them.

    >>> rows = np.array([[0, 1], [1, 0], [1, 1], [0, 0]])
    >>> groups(Coded(rows, rows, (2, 2), (0, 0)), [0]).error
    0.0
    """
    others = [column for column in range(len(tables.sizes)) if column not in columns]
    if not others:
        raise InvalidArgument("groups are of all columns: leave at least one column out, to compare within the groups")
    marginals = tables.marginals(tuple(columns))
    shape = tuple(tables.sizes[column] for column in columns)
    held = np.ravel_multi_index(marginals.places, shape)
    real, synthetic = marginals.real, marginals.synthetic
    far = np.abs(real * len(tables.real) - synthetic * len(tables.synthetic)) > FAR
    l1 = np.zeros(len(held))
    pairs = _pairs(others)
    for pair in pairs:
        cells = tables.marginals((*columns, *pair))
        group = np.searchsorted(held, np.ravel_multi_index(cells.places[: len(columns)], shape))
        gap = np.abs(_within(cells.real, real[group]) - _within(cells.synthetic, synthetic[group]))
        l1 += np.bincount(group, weights=gap, minlength=len(held))
    l1 = np.where(far | (synthetic == 0), _WORST, l1 / len(pairs))[real > 0]
    return Groups(tuple(np.sort(l1).tolist()), int((far & (real > 0)).sum()))


def _within(cells: Fractions, whole: Fractions) -> Fractions:
    """The shares of a group's cells in the group; 0 where it has no rows."""
    return np.divide(cells, whole, out=np.zeros_like(cells), where=whole > 0)


def _pairs(columns: list[int]) -> list[tuple[int, ...]]:
    """The pairs to look at; the one column where there is only one."""
    listed = list(itertools.combinations(columns, min(2, len(columns))))
    if len(listed) <= PAIRS:
        return listed
    chosen = np.random.default_rng(len(columns)).choice(len(listed), PAIRS, replace=False)
    return [listed[place] for place in sorted(chosen.tolist())]
