r"""How strongly two columns of the real rows depend on each other.

Of two ordered columns it is the rank correlation of `dpsql.core.ranks`. Of others it is R, which
`dpsql.release.association` has of noisy counts. D is how far the pair is from independence, p are shares of the rows:

R²(a, b) = Σ_ij D_ij² / √(H_a·H_b),   D = p_ab − p_a⊗p_b,   H_c = Σ p_c² − 2Σ p_c³ + (Σ p_c²)²
"""

from __future__ import annotations

import math

import numpy as np

from dpsql.core.ranks import rank_correlation, standard_ranks
from dpsql.utility.coded import Fractions, Marginals


def strength(pair: Marginals, ordered: tuple[int, int]) -> float:
    """The strength of two columns; 0 where one has one value only.

    Args:
        pair: the marginal of two columns; cells that are empty are left out of it.
        ordered: how many codes of each have an order, from 0 on; 0 of a column without one.
    """
    if min(ordered) < 2:
        return dependence(pair)
    ends = zip(pair.places, ordered, strict=True)
    ranks = [standard_ranks(np.asarray(np.bincount(place, pair.real, size)[:size], np.float64)) for place, size in ends]
    if ranks[0] is None or ranks[1] is None:
        return 0.0
    inside = np.logical_and.reduce([place < size for place, size in zip(pair.places, ordered, strict=True)])
    first, second = (place[inside] for place in pair.places)
    return rank_correlation(pair.real[inside], ranks[0][first], ranks[1][second])


def dependence(pair: Marginals) -> float:
    """R of the real rows, from 0 to 1; 0 where a column has one value only.

    Args:
        pair: the marginal of two columns; cells that are empty are left out of it.
    """
    p, q = (np.asarray(np.bincount(place, weights=pair.real), np.float64) for place in pair.places)
    scale = math.sqrt(_own(p) * _own(q))
    if scale <= 0:
        return 0.0
    product = p[pair.places[0]] * q[pair.places[1]]
    inside = float(((pair.real - product) ** 2).sum())
    empty = float((p**2).sum() * (q**2).sum()) - float((product**2).sum())  # where D is −p·q
    return math.sqrt(min(1.0, max(0.0, inside + empty) / scale))


def _own(p: Fractions) -> float:
    square = float((p**2).sum())
    return max(0.0, square - 2 * float((p**3).sum()) + square**2)
