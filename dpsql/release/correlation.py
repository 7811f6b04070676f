r"""How two ordered columns rise together: as measured, with an interval for the noise, and in given counts.

r is the rank correlation of `dpsql.core.ranks`. Of noisy counts y with deviation σ its interval is r ± 1.96·s with

    s = σ·√(Σ_ij (a_i·b_j − r)²)/n + |r|·(σ_a·√(Σ_i (a_i² − 1)²) + σ_b·√(Σ_j (b_j² − 1)²))/2n

to the first order of the noise: of Σ y·a·b/n, and of the deviations by which a and b are scaled. These may be of one
noise, so their deviations are added. Where n is not above three deviations of its noise the interval is from -1 to
1. All of it is computed from released values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from dpsql.core.domain import Attribute
from dpsql.core.ranks import rank_correlation, standard_ranks
from dpsql.release.association import REACH, Association
from dpsql.release.estimates import Estimate, Estimates, Floats

_SURE: Final = 3.0


def are_ordered(columns: Sequence[Attribute]) -> bool:
    """Whether two columns have a rank correlation: both are ordered, and have at least two values."""
    return all(column.is_ordered and column.regular > 1 for column in columns)


def correlation(estimates: Estimates, pair: Estimate, columns: Sequence[Attribute]) -> Association | None:
    """The rank correlation of two ordered columns by noisy counts; None where one has a single value.

    Args:
        estimates: of the release.
        pair: that of the two columns.
        columns: the two.
    """
    alone = [estimates.of((column.name,)) for column in columns]
    assert all(alone)  # what holds the pair holds both
    ends = [
        (marginal.values[: column.regular], marginal.stddev)
        for marginal, column in zip(alone, columns, strict=True)
        if marginal
    ]
    ranks = [standard_ranks(rows) for rows, _ in ends]
    if ranks[0] is None or ranks[1] is None:
        return None
    a, b = ranks[0][:, None], ranks[1][None, :]
    rows = pair.values[: columns[0].regular, : columns[1].regular]
    n, of_n = float(rows.sum()), pair.stddev * math.sqrt(rows.size)
    if n <= _SURE * of_n:
        return Association(0.0, -1.0, 1.0)
    value = rank_correlation(rows, a, b)
    of_ranks = sum(stddev * _length(rank**2 - 1) for (_, stddev), rank in zip(ends, (a, b), strict=True))
    reach = REACH * (pair.stddev * _length(a * b - value) + abs(value) * of_ranks / 2) / n
    return Association(value, max(-1.0, value - reach), min(1.0, value + reach))


def correlation_of_counts(counts: Floats, columns: Sequence[Attribute]) -> float:
    """The rank correlation of a table of counts; 0 where a column has one value only.

    Args:
        counts: of all cells of two ordered columns.
        columns: the two.
    """
    first, second = (column.regular for column in columns)
    a, b = standard_ranks(counts.sum(axis=1)[:first]), standard_ranks(counts.sum(axis=0)[:second])
    if a is None or b is None:
        return 0.0
    return rank_correlation(np.asarray(counts[:first, :second]), a[:, None], b[None, :])


def _length(values: Floats) -> float:
    return math.sqrt(float((values**2).sum()))
