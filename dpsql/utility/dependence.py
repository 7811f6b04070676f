r"""How strongly two columns of the real rows depend on each other; `dpsql.release.association` has it of noisy counts.

D is how far the pair is from independence, p are shares of the rows:

R²(a, b) = Σ_ij D_ij² / √(H_a·H_b),   D = p_ab − p_a⊗p_b,   H_c = Σ p_c² − 2Σ p_c³ + (Σ p_c²)²
"""

from __future__ import annotations

import math

import numpy as np

from dpsql.utility.coded import Fractions, Marginals


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
