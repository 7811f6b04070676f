"""Two tables of codes over the same public domains, and their marginals side by side.

    p_S(x) = #{real rows of x on S} / n,   q_S(x) = #{synthetic rows of x on S} / m        for a set S of columns

Only cells that are not zero on either side are kept, so marginals of any size take memory by the rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.errors import InvalidArgument

Codes = npt.NDArray[np.integer]
Fractions = npt.NDArray[np.float64]

_MOST_DENSE: Final = 2**22  # cells that are counted in an array; of more only those that occur
_LARGEST_KEY: Final = 2**62
_ALL: Final = 2_000_000  # sets of columns that may be listed before some are drawn


@dataclass(frozen=True)
class Marginals:
    """A marginal of both tables.

    Attributes:
        places: the code of each column in each cell, one array a column.
        real, synthetic: the cells' fractions of the rows.
        of_rows: the cell of each row, the real ones first.
    """

    places: tuple[npt.NDArray[np.int64], ...]
    real: Fractions
    synthetic: Fractions
    of_rows: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Coded:
    """Real and synthetic rows in the same codes.

    Attributes:
        real: shape (rows, columns), each code from 0 to its column's size.
        synthetic: shape (rows, columns).
        sizes: the number of codes of each column.
        ordered: of each column with an order the number of codes that have it, from 0 on; 0 of the others. Codes from
            there on stand for NULL and the like.
    """

    real: Codes
    synthetic: Codes
    sizes: tuple[int, ...]
    ordered: tuple[int, ...]

    def __post_init__(self) -> None:
        """Check the shapes and the codes.

        Raises:
            InvalidArgument: names the table that does not fit.
        """
        if len(self.ordered) != len(self.sizes):
            raise InvalidArgument(
                f"ordered has {len(self.ordered)} numbers: give one for each of {len(self.sizes)} columns"
            )
        for name, codes in (("real", self.real), ("synthetic", self.synthetic)):
            if codes.ndim != 2 or codes.shape[1] != len(self.sizes) or not len(codes):
                raise InvalidArgument(
                    f"{name} has shape {codes.shape}: give rows × {len(self.sizes)} columns, one row at least"
                )
            if (codes.min(axis=0) < 0).any() or (codes.max(axis=0) >= np.array(self.sizes)).any():
                raise InvalidArgument(
                    f"{name} has a code that is negative or not below its column's size: code it again"
                )

    @cached_property
    def _columns(self) -> list[Codes]:
        """Each column of both tables, the real rows first."""
        return [np.concatenate([real, made]) for real, made in zip(self.real.T, self.synthetic.T, strict=True)]

    @cached_property
    def _shuffled(self) -> list[Codes]:
        """Each column with the rows of each table in another order, the same for all columns."""
        draw = np.random.default_rng(len(self.sizes))
        order = [draw.permutation(len(self.real)), len(self.real) + draw.permutation(len(self.synthetic))]
        return [column[np.concatenate(order)] for column in self._columns]

    def marginals(self, columns: Sequence[int], *, by_chance: bool = False) -> Marginals:
        """The marginal of some columns of both tables.

        Args:
            columns: of it.
            by_chance: the last column's values are those of other rows, so that nothing but chance ties it to the rest.
        """
        shape = tuple(self.sizes[column] for column in columns)
        if math.prod(shape) > _LARGEST_KEY:
            raise InvalidArgument(
                f"the marginal of columns {tuple(columns)} has {math.prod(shape):.3g} cells: give coarser codes"
            )
        key = np.zeros(len(self.real) + len(self.synthetic), np.int64)
        for column, size in zip(columns, shape, strict=True):
            key *= size
            key += (self._shuffled if by_chance and column == columns[-1] else self._columns)[column]
        if math.prod(shape) <= _MOST_DENSE:
            occupied = np.bincount(key, minlength=math.prod(shape)) > 0
            cells, of_rows = np.flatnonzero(occupied), (np.cumsum(occupied) - 1)[key]
        else:
            cells, of_rows = np.unique(key, return_inverse=True)
        n = len(self.real)
        real, synthetic = (np.bincount(part, minlength=len(cells)) / len(part) for part in (of_rows[:n], of_rows[n:]))
        return Marginals(tuple(np.unravel_index(cells, shape)), real, synthetic, of_rows)

    def sets(self, order: int, most: int) -> list[tuple[int, ...]]:
        """All sets of so many columns; of more than `most` a sample, the same each time."""
        width = len(self.sizes)
        number = math.comb(width, order)
        draw = np.random.default_rng([order, width])
        if number <= _ALL:
            listed = itertools.combinations(range(width), order)
            if number <= most:
                return list(listed)
            chosen = set(draw.choice(number, most, replace=False).tolist())
            return [columns for place, columns in enumerate(listed) if place in chosen]
        drawn_sets: set[tuple[int, ...]] = set()
        while len(drawn_sets) < most:
            drawn_sets.add(tuple(sorted(draw.choice(width, order, replace=False).tolist())))
        return sorted(drawn_sets)
