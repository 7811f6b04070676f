"""What both ways to count in Spark have in common: which marginals one pass counts, and what is believed of it.

A curator says which marginals it will ask for (`expect`). One pass over the rows then counts all of them, because
reading takes longer than counting. What it found is kept until it is asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Attribute, Clique, Domain
from dpsql.core.linear_query import Moment, Product
from dpsql.core.marginal import Marginal, Presence
from dpsql.engines.spark.checked import Cells, marginals_of
from dpsql.engines.spark.session import Session
from dpsql.engines.sql.counts import Kind, Sums
from dpsql.engines.sql.dialect import AMONG, PRESENCE
from dpsql.engines.sql.failures import NotCounted

_MOST_CELLS: Final = 2 * 10**7
"""Of the marginals of one pass, which the driver holds."""
_MOST_MARGINALS: Final = 2_000
_MOST_KEPT: Final = 10**8
"""Cells that are kept for a second question."""


class SparkCounter(ABC):
    """See `dpsql.engines.protocol.TableCounter`.

    Args:
        session: of its own, which it closes.
        domain: of the table's columns.
        still: raises if the rows are not those of the snapshot any more.
        before: done once, when rows are about to be read for the first time.
    """

    def __init__(
        self,
        session: Session,
        domain: Domain,
        still: Callable[[], object],
        before: Callable[[], object] | None = None,
    ) -> None:
        self._session, self._domain, self._still, self._before = session, domain, still, before
        self._expected: dict[Clique, None] = {}
        self._counted: dict[Clique, Cells] = {}
        self._rows_seen: int | None = None

    def expect(self, cliques: Sequence[Clique]) -> None:
        """See `CountsTogether.expect`."""
        self._expected |= dict.fromkeys(clique for clique in cliques if clique and clique not in self._counted)

    def marginal(self, clique: Clique) -> Marginal:
        """See `Counter.marginal`."""
        if not clique:
            return Marginal((), 1, np.zeros(1, np.int64), np.array([self._every_row()], np.int64))
        self._domain.check_countable(clique)
        if clique not in self._counted:
            self._count(self._together(clique))
        return Marginal(clique, self._domain.size(clique), *self._counted[clique])

    def presence(self, clique: Clique) -> Presence:
        """See `Counter.presence`; not by a way to count that chooses no rows of units."""
        raise NotCounted(f"privacy units are not counted in Spark: {PRESENCE}")

    def sums(self, clique: Clique, moment: Moment | Product) -> Marginal:
        """See `Counter.sums`."""
        rows, kind = self._every_row(), Sums(moment)
        used = self._only([*clique, *kind.columns])
        table = self._fetch(lambda: self._adding(used, clique, kind))
        size = self._domain.size(clique)
        return Marginal(clique, size, *marginals_of(table, {0: size}, rows, are_counts=False)[0])

    def bins(self, attribute: Attribute) -> Marginal:
        """See `Counter.bins`."""
        rows, clique = self._every_row(), (attribute.name,)
        table = self._fetch(lambda: self._marginals(Domain((attribute,)), [clique]))
        return Marginal(clique, attribute.size, *marginals_of(table, {0: attribute.size}, rows)[0])

    @abstractmethod
    def values(self, column: str) -> tuple[Sequence[str], npt.NDArray[np.int64]]:
        """See `Counter.values`."""

    def among(self, places: npt.NDArray[np.int64]) -> NoReturn:
        """Not here: rows have no places."""
        raise NotCounted(f"rows have no places in Spark: {AMONG}")

    def interrupt(self) -> None:
        """End what runs, from any thread."""
        self._session.interrupt()

    def close(self) -> None:
        """See `TableCounter.close`."""
        self._counted.clear()
        self._session.close()

    # --- what a way to count does -------------------------------------------------------------------------------------

    @abstractmethod
    def _marginals(self, domain: Domain, cliques: Sequence[Clique]) -> Any:
        """The cells of marginals, numbered in order: an Arrow table of m, cell and n, and the rows as m = −1."""

    @abstractmethod
    def _adding(self, domain: Domain, clique: Clique, kind: Kind) -> Any:
        """What rows add to a marginal's cells, as `_marginals`; n of m = −1 are rows."""

    @abstractmethod
    def _number(self) -> int:
        """How many rows count."""

    # --- what runs ----------------------------------------------------------------------------------------------------

    def _fetch(self, work: Callable[[], Any]) -> Any:
        """What a pass over the rows returns, which are still those of the snapshot after it."""
        if self._before is not None:
            before, self._before = self._before, None
            before()
        answer = self._session.run(work)
        self._still()
        return answer

    def _every_row(self) -> int:
        if self._rows_seen is None:
            self._rows_seen = int(self._fetch(self._number))
        return self._rows_seen

    def _together(self, clique: Clique) -> list[Clique]:
        """The marginals to count with one that is asked for, as many as fit."""
        chosen, cells = [clique], self._domain.size(clique)
        self._expected.pop(clique, None)
        for other in list(self._expected):
            size = self._domain.size(other)
            if cells + size > _MOST_CELLS or len(chosen) == _MOST_MARGINALS:
                break
            del self._expected[other]
            chosen.append(other)
            cells += size
        return chosen

    def _count(self, cliques: list[Clique]) -> None:
        rows = self._every_row()
        used = self._only([name for clique in cliques for name in clique])
        table = self._fetch(lambda: self._marginals(used, cliques))
        marginals = marginals_of(table, {n: self._domain.size(clique) for n, clique in enumerate(cliques)}, rows)
        if sum(len(cells) for cells, _ in self._counted.values()) > _MOST_KEPT:
            self._counted.clear()
        self._counted |= {cliques[number]: cells for number, cells in marginals.items()}

    def _only(self, names: Sequence[str]) -> Domain:
        """The domain of those columns."""
        return Domain(tuple(attribute for attribute in self._domain if attribute.name in names))
