"""Public priors: a public table in the codes of a protected table's domain, as a distribution over rows.

A prior costs nothing and is not trusted: it is where a fit starts from, and what it stays near where noise is large.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Clique, Domain

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Prior:
    """Distinct public rows with their weights.

    Attributes:
        names: the columns that it has, in the domain's order.
        codes: shape (rows, columns).
        weights: how many public rows each one stands for, shape (rows,).
    """

    names: tuple[str, ...]
    codes: Codes
    weights: npt.NDArray[np.float64]

    @property
    def total(self) -> float:
        """The number of public rows."""
        return float(self.weights.sum())

    def covers(self, clique: Clique) -> bool:
        """Whether it has all columns of a clique."""
        return set(clique) <= set(self.names)

    def project(self, domain: Domain, clique: Clique) -> npt.NDArray[np.float64]:
        """The marginal of a clique that it covers, in probabilities, flat, shape (cells,).

        >>> from dpsql.core.domain import Attribute
        >>> domain = Domain((Attribute("a", "BOOLEAN", "values", ("false", "true")),))
        >>> Prior(("a",), np.array([[0], [1]]), np.array([3.0, 1.0])).project(domain, ("a",)).tolist()
        [0.75, 0.25]
        """
        return project_rows(self.codes, self.weights / self.total, self.names, domain, clique)

    def completed(self, domain: Domain, generator: np.random.Generator, copies: int = 1) -> tuple[Codes, Codes]:
        """Rows over all columns of a domain: those that it lacks are drawn uniformly, `copies` times for each
        row, of the values that are inside the domain.

        Returns:
            Codes, shape (rows · copies, attributes), and for each of them the row that it comes from.
        """
        lacking = [name for name in domain.names if name not in self.names]
        parents = np.repeat(np.arange(len(self.codes)), copies if lacking else 1)
        columns = []
        for name, size in zip(domain.names, domain.inner.shape(domain.names), strict=True):
            if name in lacking:
                columns.append(generator.integers(0, size, len(parents)))
            else:
                columns.append(self.codes[parents, self.names.index(name)])
        return np.stack(columns, axis=1), parents


def project_rows(
    codes: Codes, weights: npt.NDArray[np.float64], names: Sequence[str], domain: Domain, clique: Clique
) -> npt.NDArray[np.float64]:
    """The marginal of weighted rows, flat, shape (cells,)."""
    return np.bincount(packed(codes, names, domain, clique), weights, domain.size(clique)).astype(np.float64)


def packed(codes: Codes, names: Sequence[str], domain: Domain, clique: Clique) -> Codes:
    """The cell of a clique in which each row lies, shape (rows,)."""
    cells = np.zeros(len(codes), np.int64)
    for name, size in zip(clique, domain.shape(clique), strict=True):
        cells = cells * size + codes[:, names.index(name)]
    return cells
