"""Where exact counts come from: the only way from the kernel to private rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Attribute, Clique
from dpsql.core.linear_query import Moment, Product
from dpsql.core.marginal import Marginal, Presence


class CountsMarginals(Protocol):
    """What tells exact marginals of rows."""

    def marginal(self, clique: Clique) -> Marginal:
        """The exact marginal of a clique; the empty clique counts all rows."""


class Counter(CountsMarginals, Protocol):
    """Exact counts of the rows of one table that count, in the codes of one domain; an engine makes it."""

    def presence(self, clique: Clique) -> Presence:
        """Which privacy units have a row in which cells of a clique."""

    def sums(self, clique: Clique, moment: Moment | Product) -> Marginal:
        """The sum of a column's steps, or a product's, over the rows of each cell, in place of their number."""

    def bins(self, attribute: Attribute) -> Marginal:
        """The exact counts of the bins of one column, whatever its domain."""

    def values(self, column: str) -> tuple[Sequence[str], npt.NDArray[np.int64]]:
        """The values of a column that 2 units have or more, as text in order, and how many units; NULL is none."""

    def among(self, places: npt.NDArray[np.int64]) -> Counter:
        """A counter of some of the rows only: those at these places, from 0 on, in an order that does not change."""


@runtime_checkable
class CountsTogether(Protocol):
    """A counter that is quicker where it knows which marginals will be asked for next."""

    def expect(self, cliques: Sequence[Clique]) -> None:
        """Count these marginals together when one of them is asked for. Reads no row by itself."""
