"""DuckDB as an engine: protected tables of the instance's own databases, in files and in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from dpsql.core.constraint import Allowed
from dpsql.core.domain import Domain
from dpsql.core.unit_row import UnitRow
from dpsql.engines.duckdb.catalog import find_parts, find_source
from dpsql.engines.duckdb.counting import DuckDBCounter
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.duckdb.paths import OfUnits, path_bound
from dpsql.engines.duckdb.sampling import codes_of
from dpsql.engines.duckdb.stubs import check_stub
from dpsql.engines.duckdb.unit_rows import UnitCounter
from dpsql.engines.duckdb.units import Bound, bound_by_secret, secret_of
from dpsql.engines.protocol import UnitBound
from dpsql.engines.source import Source


class DuckDBEngine:
    """See `dpsql.engines.protocol.Engine`; it counts on a connection of the host, which it does not close."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor

    def find(self, text: str, search_path: str = "") -> Source:
        """See `Engine.find`."""
        return find_source(self._cursor, text, search_path)

    def find_parts(self, parts: Sequence[str], home: tuple[str, str], known_source: Source | None = None) -> Source:
        """See `Engine.find_parts`."""
        return find_parts(self._cursor, parts, *home, known_source=known_source)

    def check(self, source: Source) -> None:
        """See `Engine.check`: the table is what it is, and a sample of other rows has their columns."""
        check_stub(source)

    def counter(
        self,
        source: Source,
        domain: Domain,
        bound: UnitBound | None = None,
        *,
        once: bool = False,
        before: Callable[[], object] | None = None,
    ) -> DuckDBCounter:
        """See `Engine.counter`."""
        chosen = None if bound is None else _chosen(source, bound)
        if source.per_unit:
            chosen = OfUnits(source.per_unit[0].name, "", 1, secret_of(source.catalog, source.key), source.per_unit)
        return DuckDBCounter(self._cursor, _with_rows(source), domain, chosen, once=once, before=before)

    def unit_counter(
        self,
        sources: Mapping[str, Source],
        unit_row: UnitRow,
        account: tuple[str, str] | None,
        *,
        roles: Mapping[tuple[str, str], Allowed] | None = None,
        before: Callable[[], object] | None = None,
    ) -> UnitCounter:
        """See `Engine.unit_counter`."""
        return UnitCounter(self._cursor, sources, unit_row, _secret(account), roles=roles, before=before)

    def codes(self, source: Source, domain: Domain, most: int) -> tuple[npt.NDArray[np.int32], int]:
        """See `Engine.codes`."""
        return codes_of(self._cursor, _with_rows(source), domain, most)

    def interrupt(self) -> None:
        """See `Engine.interrupt`."""
        self._cursor.interrupt()

    def close(self) -> None:
        """See `Engine.close`: the connection is the host's."""


def _secret(account: tuple[str, str] | None) -> exp.Expr:
    """What the choice of rows is drawn from; of synthetic rows anything serves."""
    return exp.Literal.string("synthetic") if account is None else secret_of(*account)


def _chosen(source: Source, bound: UnitBound) -> Bound:
    """A bound whose secret the statement reads where it is."""
    if not bound.path:
        return bound_by_secret(bound)
    return path_bound(source, bound.rows, secret_of(bound.catalog, bound.account), bound.path)


def _with_rows(source: Source) -> Source:
    """The table that has the rows: of a source of which a sample was drawn, the sample."""
    if source.place is None:
        return source
    return replace(source, schema="dpsql", name=source.place.drawn["table"], place=None)
