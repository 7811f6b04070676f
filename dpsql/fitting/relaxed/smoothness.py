r"""Smoothness of ordered columns: neighbouring values deviate from the product of the 1-way marginals alike.

    Λ·mean over rows of Σ_a Σ_v κ_a·min(p1_v, p1_{v+1})·h(r_{v+1} − r_v),     r = log P − log p1

is added to the objective of `fit_marginals`, for every ordered column a of s values with κ_a = s/10. h is
Huber's function of slope at most 1: x²/2 up to |x| = 1, |x| − ½ beyond. What is the same for neighbours is not pulled
at, so a trend along a column survives noise that hides each of its cells.

A column is ordered where its declared domain says so: bins of numbers or of times. Public types alone decide. A point,
a value that the owner set apart from the bins, is nobody's neighbour, and s is the number of values between two points.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Domain

VALUES: Final = 10.0
FEWEST: Final = 3  # values that have an inner one


def smooth_columns(domain: Domain) -> tuple[float, ...]:
    """κ of every value and the next one; 0 at a column's end and in columns without an order. Shape (T,)."""
    weights: list[float] = []
    for attribute in domain:
        column = [0.0] * attribute.size
        for run in attribute.runs if attribute.is_ordered else ():
            if len(run) >= FEWEST:
                column[run.start : run.stop - 1] = [len(run) / VALUES] * (len(run) - 1)
        weights += column
    return tuple(weights)


def smoothness(
    prior: npt.NDArray[np.float64], kappa: Sequence[float] | npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """κ·min(p1_v, p1_{v+1}) of each value and the next one, shape (T,).

    Args:
        prior: p1 of all columns or units one after the other, shape (T,).
        kappa: by `smooth_columns`, along them; empty for none.
    """
    if not len(kappa):
        return np.zeros_like(prior)
    return np.asarray(np.array(kappa) * np.minimum(prior, np.append(prior[1:], 0.0)))
