r"""Thresholds: how many rows have at least t of k columns equal to given values, for all values at once.

    q_y(D) = #{ rows x : Σ_{i ∈ S} 1[x_i = y_i] ≥ t },      y over the cells of the clique S, |S| = k

t = 1 is the disjunction, t = k the marginal itself. By inclusion and exclusion over the marginals n_U of the subsets U,

    q_y = Σ_{U ⊆ S, |U| ≥ t}  (−1)^{|U| − t} · C(|U| − 1, t − 1) · n_U(y_U)

so the answers follow from marginals of order t to k. They are never measured themselves: a row changes as many of the
q_y as each q_y has cells of the marginal of S, say m, so that marginal alone, with the same ρ, gives each q_y the same
variance m/2ρ as measuring all of them would, and its subsets give less where m is large.

On a relaxed table with probabilities x_i the answer is the chance that at least t of k independent events happen, the
Poisson-binomial tail, by a recursion over the columns (see `dpsql.fitting.relaxed.fit_cells`).

Source: Aydore et al. 2021, section 3 (t-out-of-k thresholds).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique


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
    """The answers of a family from the marginal of its clique.

    Args:
        values: the marginal, flat and row-major, shape (cells,); counts or probabilities, exact or noisy.
        shape: sizes of the clique's attributes.
        least: t.

    Returns:
        q_y for every cell y, in the units of `values`, shape (cells,).

    >>> threshold_counts(np.array([5.0, 2.0, 1.0, 0.0]), (2, 2), 1).tolist()  # of 8 rows 5 + 2 + 1 match y = (0, 0)
    [8.0, 7.0, 6.0, 3.0]
    """
    order = len(shape)
    table = np.asarray(values, np.float64).reshape(shape)
    answers = np.zeros(shape)
    for size in range(least, order + 1):
        factor = (-1) ** (size - least) * math.comb(size - 1, least - 1)
        for kept in itertools.combinations(range(order), size):
            others = tuple(axis for axis in range(order) if axis not in kept)
            answers += factor * table.sum(axis=others, keepdims=True)
    return answers.ravel()
