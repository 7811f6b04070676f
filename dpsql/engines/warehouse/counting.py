"""Exact counts of marginals, made inside a warehouse: one statement a marginal, of one snapshot of the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from dpsql.core.domain import Attribute, Clique, Domain
from dpsql.core.linear_query import Moment, Product
from dpsql.core.marginal import Marginal
from dpsql.engines.checked import WrongCounts, cells_of, counts_of, listed_once, number_of
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.duckdb.ticks import canonical_each
from dpsql.engines.warehouse.failures import NotInWarehouse
from dpsql.engines.warehouse.session import Session
from dpsql.engines.warehouse.statements import Relation, counted_cells, counted_rows, listed_values

PRESENCE = "count rows with count(*), or copy the table into this database"
AMONG = "leave out the option that draws a sample, or copy the table into this database"
SUMS = "count groups with count(*), or copy the table into this database"


class WarehouseCounter:
    """See `dpsql.engines.protocol.TableCounter`; on a session of its own, which it closes.

    Args:
        session: of the warehouse.
        relation: the table.
        snapshot: as of when it is counted.
        domain: of its columns.
        before: done once, when rows are about to be read for the first time.
        host: a connection to DuckDB, which writes values as it does.
    """

    def __init__(
        self,
        session: Session,
        relation: Relation,
        snapshot: str,
        domain: Domain,
        host: Cursor,
        before: Callable[[], object] | None = None,
    ) -> None:
        self._session, self._relation, self._snapshot = session, relation, snapshot
        self._domain, self._host, self._before = domain, host, before
        self._rows_seen: int | None = None

    def marginal(self, clique: Clique) -> Marginal:
        """See `Counter.marginal`."""
        return self._marginal(self._domain, clique)

    def bins(self, attribute: Attribute) -> Marginal:
        """See `Counter.bins`."""
        return self._marginal(Domain((attribute,)), (attribute.name,))

    def values(self, column: str) -> tuple[Sequence[str], npt.NDArray[np.int64]]:
        """See `Counter.values`."""
        found = self._fetch(listed_values(self._relation, self._snapshot, column))
        kind = self._relation.natives[column].in_duckdb
        try:
            values, numbers = found["value"], list(map(int, found["n"].to_pylist()))
        except (KeyError, TypeError, ValueError):
            raise WrongCounts from None
        texts = [_text_of(value) for value in values]
        known = texts if kind == "VARCHAR" else canonical_each(self._host, texts, kind)
        return listed_once(zip(known, numbers, strict=True), kind)

    def presence(self, clique: Clique) -> NoReturn:
        """Not here: it would move a number for each unit."""
        raise NotInWarehouse(f"privacy units are not counted in {self._relation.dialect.label}: {PRESENCE}")

    def sums(self, clique: Clique, moment: Moment | Product) -> NoReturn:
        """Not here: arithmetic of a warehouse may fail for some value."""
        raise NotInWarehouse(f"sums are not computed in {self._relation.dialect.label}: {SUMS}")

    def among(self, places: npt.NDArray[np.int64]) -> NoReturn:
        """Not here: rows have no places."""
        raise NotInWarehouse(f"rows have no places in {self._relation.dialect.label}: {AMONG}")

    def interrupt(self) -> None:
        """End what runs, from any thread."""
        self._session.interrupt()

    def close(self) -> None:
        """See `TableCounter.close`."""
        self._session.close()

    def _marginal(self, domain: Domain, clique: Clique) -> Marginal:
        rows = self._every_row()
        if not clique:
            return Marginal((), 1, np.zeros(1, np.int64), np.array([rows], np.int64))
        domain.check_countable(clique)
        size = domain.size(clique)
        found = self._fetch(counted_cells(self._relation, self._snapshot, domain, clique))
        return Marginal(clique, size, *counts_of(*cells_of(found, size), rows))

    def _every_row(self) -> int:
        if self._rows_seen is None:
            self._rows_seen = number_of(self._fetch(counted_rows(self._relation, self._snapshot)))
        return self._rows_seen

    def _fetch(self, query: exp.Expr) -> dict[str, Any]:
        if self._before is not None:
            before, self._before = self._before, None
            before()
        return self._session.count(query)


def _text_of(value: Any) -> str | None:
    """A value of Arrow as Python writes it; None of one that Python does not have, such as one after the year 9999."""
    try:
        return str(value.as_py())
    except (OverflowError, ValueError):
        return None
