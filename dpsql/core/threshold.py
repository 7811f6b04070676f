r"""Thresholds: how many rows have at least t of k columns equal to given values, for all values at once.

    q_y(D) = #{ rows x : Σ_{i ∈ S} 1[x_i = y_i] ≥ t },      y over the cells of the clique S, |S| = k

t = 1 is the disjunction, t = k the marginal itself. By inclusion and exclusion over the marginals n_U of the subsets U,

    q_y = Σ_{U ⊆ S, |U| ≥ t}  (−1)^{|U| − t} · C(|U| − 1, t − 1) · n_U(y_U)

so the answers follow from marginals of order t to k. They are never measured themselves: a row changes as many of the
q_y as each q_y has cells of the marginal of S, say m, so that marginal alone, with the same ρ, gives each q_y the same
variance m/2ρ as measuring all of them would, and its subsets give less where m is large.

A row x is counted by the cells y that match it in t columns or more. Their number m is what one row changes the sum
Σ_y |q_y(D) − a_y| by at most, whatever the a_y; a row that is replaced by x′ changes it by those cells at most that
count exactly one of x and x′. Both follow from how many cells match in how many columns.

The matrix of the queries is symmetric: x counts for y where y counts for x. So `threshold_counts` also tells, for
weights w_y, the sum of the weights of the queries that count each x.

On a relaxed table with probabilities x_i the answer is the chance that at least t of k independent events happen, the
Poisson-binomial tail, by a recursion over the columns (see `dpsql.fitting.relaxed.fit_cells`).

Source: Aydore et al. 2021, section 3 (t-out-of-k thresholds).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique, Domain
from dpsql.core.neighbours import Neighbours

_MOST_COMPARED: Final = 8
"""Columns, of all whose subsets two rows are compared."""


@dataclass(frozen=True)
class Threshold:
    """One family of threshold queries.

    Attributes:
        clique: S, the columns.
        least: t, how many of them must match.
    """

    clique: Clique
    least: int

    @property
    def identity(self) -> str:
        """Tells families apart: a format of its own, because keys of requests hash it. It must never change.

        >>> Threshold(("a", "b"), 2).identity
        "Threshold(clique=('a', 'b'), least=2)"
        """
        return f"Threshold(clique={self.clique!r}, least={self.least!r})"


Family = Clique | Threshold
"""What single cells belong to: the marginal of a clique, or a family of thresholds."""


def clique_of(family: Family) -> Clique:
    """The columns of a family."""
    return family.clique if isinstance(family, Threshold) else family


def identity_of(family: Family) -> str:
    """Tells a marginal or a family of thresholds apart, as keys of requests have it.

    >>> identity_of(("a", "b"))
    "('a', 'b')"
    """
    return family.identity if isinstance(family, Threshold) else repr(family)


def threshold_counts(values: npt.NDArray[np.float64], shape: tuple[int, ...], least: int) -> npt.NDArray[np.float64]:
    """The answers of a family from the marginal of its clique, column by column.

    After a column the table holds in its places y, not x, how many rows match in 0, 1, … t columns so far.

    Args:
        values: the marginal, flat and row-major, shape (cells,); counts or probabilities, exact or noisy.
        shape: sizes of the clique's attributes.
        least: t.

    Returns:
        q_y for every cell y, in the units of `values`, shape (cells,).

    >>> threshold_counts(np.array([5.0, 2.0, 1.0, 0.0]), (2, 2), 1).tolist()  # of 8 rows 5 + 2 + 1 match y = (0, 0)
    [8.0, 7.0, 6.0, 3.0]
    """
    matching: list[npt.NDArray[np.float64]] = [np.asarray(values, np.float64).reshape(shape)]  # in 0 … t columns
    for axis in range(len(shape)):
        sums = [table.sum(axis=axis, keepdims=True) for table in matching]
        missed = [total - table for total, table in zip(sums[:least], matching, strict=False)] + sums[least:]
        hit = matching[:least]
        matching = [missed[0], *(miss + same for miss, same in zip(missed[1:], hit, strict=False))]
        if len(hit) == len(missed):
            matching.append(hit[-1])
    return matching[least].ravel() if len(matching) > least else np.zeros(math.prod(shape))


def family_counts(values: npt.NDArray[np.float64], shape: tuple[int, ...], family: Family) -> npt.NDArray[np.float64]:
    """The answers of a family from the marginal of its clique: that itself, or thresholds; see `threshold_counts`."""
    return threshold_counts(values, shape, family.least) if isinstance(family, Threshold) else values


def match_counts(shape: tuple[int, ...]) -> tuple[int, ...]:
    """How many cells match a given one in exactly j columns, for j = 0 … k.

    >>> match_counts((2, 3))
    (2, 3, 1)
    """
    counts = [1]
    for size in shape:
        counts = [(size - 1) * other + same for other, same in zip([*counts, 0], [0, *counts], strict=True)]
    return tuple(counts)


def most_counted(shape: tuple[int, ...], least: int) -> int:
    """m: how many queries of a family count a row; all rows are alike.

    >>> most_counted((10, 10, 10), 1), most_counted((10, 10, 10), 3)
    (271, 1)
    """
    return sum(match_counts(shape)[least:])


def most_replaced(shape: tuple[int, ...], least: int) -> int:
    """The most queries of a family that count one of two rows and not the other.

    For rows that differ in some columns, cells are told apart by how many columns they share with either. Beyond
    eight columns, whose subsets are many, it is a bound.

    >>> most_replaced((10, 10, 10), 1), most_replaced((2, 2, 2), 1), most_replaced((10, 10, 10), 3)
    (434, 2, 2)
    """
    bound = min(2 * most_counted(shape, least), math.prod(shape))
    if len(shape) > _MOST_COMPARED:
        return bound
    return max(_counting_one(shape, apart, least) for apart in itertools.product((False, True), repeat=len(shape)))


def _counting_one(shape: tuple[int, ...], apart: Sequence[bool], least: int) -> int:
    """How many cells count one of two rows that differ in the columns given; 0 where no two such rows are."""
    shared = {(0, 0): 1}
    for size, differ in zip(shape, apart, strict=True):
        steps = ((1, 0, 1), (0, 1, 1), (0, 0, size - 2)) if differ else ((1, 1, 1), (0, 0, size - 1))
        if differ and size < 2:
            return 0
        further: dict[tuple[int, int], int] = {}
        for (matching, other), count in shared.items():
            for first, second, ways in steps:
                place = matching + first, other + second
                further[place] = further.get(place, 0) + count * ways
        shared = further
    return sum(count for (matching, other), count in shared.items() if (matching >= least) != (other >= least))


def has_every_row(domain: Domain, clique: Clique) -> bool:
    """Whether each row has a cell in a clique's marginal, whatever its values are: each column has OTHER or OUTSIDE."""
    attributes = (domain.by_name[name] for name in clique)
    return all(a.other_code is not None or a.outside_code is not None for a in attributes)


def most_moved(shape: tuple[int, ...], family: Family, neighbours: Neighbours, *, every_row: bool = True) -> int:
    """Δ_f: the most that Σ |q_y(D) − a_y| over the queries of a family differs between neighbours, whatever the a_y.

    A row without a cell is counted by no query, so a row that replaces it moves all the queries that count that row.

    Args:
        shape: of the clique.
        family: the clique, or thresholds of it.
        neighbours: which tables they are.
        every_row: whether every row has a cell; see `has_every_row`.

    >>> most_moved((2, 2), Threshold(("a", "b"), 1), Neighbours("add_remove", 5))
    15
    >>> most_moved((2, 2), Threshold(("a", "b"), 1), Neighbours.REPLACE_ONE)
    2
    """
    if not isinstance(family, Threshold):
        return neighbours.marginal_l1
    if neighbours.total_is_public:
        moved = most_replaced(shape, family.least)
        return moved if every_row else max(moved, most_counted(shape, family.least))
    return neighbours.cell * most_counted(shape, family.least)


def moved_of(domain: Domain, family: Family, neighbours: Neighbours) -> int:
    """`most_moved` of a family over a domain."""
    clique = clique_of(family)
    return most_moved(domain.shape(clique), family, neighbours, every_row=has_every_row(domain, clique))
