"""A sample of rows as the tuples of their codes, with how many have each: its marginals take no further statement."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Attribute, Clique, Domain
from dpsql.core.linear_query import Moment, Product
from dpsql.core.marginal import Marginal
from dpsql.engines.sql.failures import NotCounted


class SampleCounter:
    """Marginals of a sample; see `Counter`.

    Args:
        label: of the database, as errors say it.
        domain: of the columns.
        codes: shape (tuples, columns), −1 for none.
        counts: rows of each, shape (tuples,).
    """

    def __init__(self, label: str, domain: Domain, codes: npt.NDArray[np.int32], counts: npt.NDArray[np.int64]) -> None:
        self._label, self._domain, self._codes, self._counts = label, domain, codes, counts

    def marginal(self, clique: Clique) -> Marginal:
        """See `Counter.marginal`."""
        shape, size = self._domain.shape(clique), self._domain.size(clique)
        codes = self._codes[:, [self._domain.names.index(name) for name in clique]]
        inside = (codes >= 0).all(axis=1)
        keys = np.zeros(len(codes), np.int64)
        for column, width in zip(codes.T, shape, strict=True):
            keys = keys * width + column
        cells, places = np.unique(keys[inside], return_inverse=True)
        counts = np.zeros(len(cells), np.int64)
        np.add.at(counts, places, self._counts[inside])
        if not clique:
            cells, counts = np.zeros(1, np.int64), np.array([self._counts.sum()], np.int64)
        return Marginal(clique, size, cells, counts)

    def presence(self, clique: Clique) -> NoReturn:
        """Not of a sample of rows."""
        raise self._refusal()

    def sums(self, clique: Clique, moment: Moment | Product) -> NoReturn:
        """No mechanism asks a sample for them."""
        raise self._refusal()

    def bins(self, attribute: Attribute) -> NoReturn:
        """No mechanism asks a sample for them."""
        raise self._refusal()

    def values(self, column: str) -> NoReturn:
        """No mechanism asks a sample for them."""
        raise self._refusal()

    def among(self, places: npt.NDArray[np.int64]) -> NoReturn:
        """Not of a sample."""
        raise self._refusal()

    def _refusal(self) -> NotCounted:
        return NotCounted(f"of a sample of rows in {self._label} marginals are counted, and nothing else")
