r"""Marginals of a table from pooled residuals, each by itself: consistent, then non-negative, without a joint model.

    measured    N·Π(M_S/N): the least-squares answer of S (`dpsql.fitting.least_squares`), where each of its residuals
                was measured; Π is the Euclidean projection onto probability vectors
    else        the table of largest entropy on the cells of S alone that has the answers of the largest measured
                subsets of S, by iterative proportional fitting from the even table

A residual that nothing measured is 0 in the least-squares answer, which is then far below 0 in many cells. The table of
largest entropy is never negative, and is the product of single columns where only those were measured. It takes memory
and time by the cells of one marginal, where a graphical model takes them by those of a junction tree.

An answer is made anew when a marginal was measured that shares a column with it. What others tell of the number of rows
does not move it.

Source: Mullins, Fuentes, Xiao, Kifer, Musco, Sheldon 2024 (GReM, arXiv 2410.01091), whose non-negative answers come
from a fit of all marginals together; Xiao, He, Zhang, Kifer 2023 (the residual basis).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique, Domain
from dpsql.fitting.least_squares import Pool, subsets
from dpsql.fitting.relaxed.table import simplex_projection
from dpsql.fitting.target import Target

Floats = npt.NDArray[np.float64]
_PASSES: Final = 10
_LEAST: Final = 1e-3  # of a row, over all cells of a subset: one that a subset empties another may still need


class LocalMarginals:
    """Answers to marginals from what was measured so far; see the module."""

    def __init__(self, domain: Domain, measured: Sequence[Target], rows: float) -> None:
        """Begin with some measurements.

        Args:
            domain: the attributes.
            measured: noisy whole marginals, those of all single columns among them.
            rows: N, public or noisy; at least 1.
        """
        self._domain, self._pool = domain, Pool(domain)
        self._answers: dict[Clique, Floats] = {}
        self.rows = rows
        for target in measured:
            self._pool.add(target)

    def add(self, measured: Target, rows: float) -> None:
        """Take in one more marginal, and what is now known of N."""
        self._pool.add(measured)
        self.rows, own = rows, set(measured.clique)
        self._answers = {clique: answer for clique, answer in self._answers.items() if own.isdisjoint(clique)}

    def answer(self, clique: Clique) -> Floats:
        """The counts of a marginal (rows), shape (cells,): none is negative, and they add up to about N."""
        if clique not in self._answers:
            estimate = self._pool.estimate
            measured = estimate.covers(clique)
            self._answers[clique] = (
                self.rows * simplex_projection(estimate.answer(clique) / self.rows)
                if measured
                else self._of_largest_entropy(clique)
            )
        return self._answers[clique]

    def _of_largest_entropy(self, clique: Clique) -> Floats:
        """The table with the answers of its largest measured subsets."""
        shape, subsets = self._domain.shape(clique), self._largest(clique)
        table = np.full(shape, self.rows / self._domain.size(clique))
        passes = 1 if sum(map(len, subsets)) == len(clique) else _PASSES  # parts without a common column need one
        for _ in range(passes):
            for part in subsets:
                others = tuple(axis for axis, name in enumerate(clique) if name not in part)
                own, wanted = table.sum(axis=others, keepdims=True), self.answer(part)
                wanted = (wanted + _LEAST / len(wanted)) * (self.rows / (self.rows + _LEAST))
                table *= wanted.reshape(own.shape) / own
        return table.ravel()

    def _largest(self, clique: Clique) -> list[Clique]:
        """The measured subsets that lie in no other."""
        largest: list[Clique] = []
        for part in reversed(subsets(clique)):
            if part and self._pool.estimate.covers(part) and not any(set(part) <= set(other) for other in largest):
                largest.append(part)
        return largest
