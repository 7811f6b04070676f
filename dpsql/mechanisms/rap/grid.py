r"""How many rounds T, and how many cells K in each, RAP takes where the request leaves it open: `'auto'`.

    σ(T, K) = Δ·√(T·K/ρ)        the noise (rows) of a selected cell, Δ its sensitivity, ρ what selection and noise share
    T·K     as large as σ ≤ n/375 and T·K ≤ 500 allow, of T ∈ {2, 5, 10, 25, 50} and K ∈ {5, 10, 25, 50, 100}, the
            paper's grid; where σ is larger everywhere, as small as can be

The paper reports the best point of that grid for each table, which takes 25 runs on private rows. Here the point
follows from ρ, the domain, and the number of rows: public, or measured with noise that was paid for, and nothing else.
Where several points have the same T·K the one of fewest rounds is taken, because each round is a projection. The two
numbers are from Adult: at ε = 1 more noise than n/375 makes the table worse, at ε = 10 more than 500 cells gain
nothing.

Source: Aydore et al. 2021, section 5 (the grid).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

ROUNDS: Final = (2, 5, 10, 25, 50)
PER_ROUND: Final = (5, 10, 25, 50, 100)
AUTO: Final = "auto"
_NOISE: Final = 1 / 375  # of the rows
_ENOUGH: Final = 500


def grid_point(
    rounds: int | str, per_round: int | str, rho: Fraction | float, rows: float, cell: int, most: int
) -> tuple[int, int]:
    """T and K: as given, or from the grid where they are 'auto'.

    Args:
        rounds: T, or 'auto'.
        per_round: K, or 'auto'.
        rho: what all selections and measurements of cells cost.
        rows: n, public or noisy.
        cell: Δ.
        most: T·K may be no more.

    >>> grid_point("auto", "auto", Fraction(1, 100), 48_842, 1, 20_000)
    (5, 25)
    >>> grid_point("auto", "auto", Fraction(1, 10_000), 48_842, 1, 20_000)
    (2, 5)
    >>> grid_point("auto", 100, Fraction(1, 100), 48_842, 1, 20_000)
    (2, 100)
    """
    points = [
        (t, k)
        for t in (ROUNDS if isinstance(rounds, str) else (rounds,))
        for k in (PER_ROUND if isinstance(per_round, str) else (per_round,))
    ]
    fitting = [(t, k) for t, k in points if t * k <= min(most, _ENOUGH)]
    least = min(points, key=lambda point: (point[0] * point[1], point[0]))
    quiet = [(t, k) for t, k in fitting if cell * math.sqrt(t * k / rho) <= _NOISE * rows]
    return max(quiet, key=lambda point: (point[0] * point[1], -point[0]), default=least)
