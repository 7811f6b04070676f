"""Exact counts of marginals, made inside a database: one statement a marginal, and only groups leave it.

A row whose value has no code is in cell −1, so that the rows of all cells add up to the rows of the table: what comes
back is checked against that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from dpsql.core.domain import Attribute, Clique, Domain
from dpsql.core.linear_query import Moment, Product
from dpsql.core.marginal import Marginal, Presence
from dpsql.engines.checked import WrongCounts, cells_of, codes_in, listed_once, number_of, presence_of
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.duckdb.ticks import canonical_each
from dpsql.engines.sql import types
from dpsql.engines.sql.counts import (
    ROWS,
    STEPS,
    UNIT,
    Kind,
    Sums,
    alike_rows,
    alike_units,
    cell_of,
    codes_of,
    every_row,
    grouped,
    listed_values,
)
from dpsql.engines.sql.dialect import Dialect
from dpsql.engines.sql.failures import NotCounted
from dpsql.engines.sql.sample import SampleCounter
from dpsql.engines.sql.types import Native


class CountingConnection(Protocol):
    """A connection to a database."""

    def count(self, query: exp.Expr, parameters: Sequence[Any] = ()) -> dict[str, Any]:
        """What a statement returns that reads rows: columns as Arrow's arrays."""

    def interrupt(self) -> None:
        """End the statement that runs, from any thread."""

    def close(self) -> None:
        """End the connection; again, nothing."""


class SqlCounter:
    """See `dpsql.engines.protocol.TableCounter`; on a session of its own, which it closes.

    Args:
        session: of the database.
        dialect: of it.
        table: the rows.
        natives: the types of the columns.
        domain: of the columns.
        host: a connection to DuckDB, which writes values as it does.
        before: done once, when rows are about to be read for the first time.
    """

    def __init__(
        self,
        session: CountingConnection,
        dialect: Dialect,
        table: exp.Expr,
        natives: Mapping[str, Native],
        domain: Domain,
        host: Cursor,
        before: Callable[[], object] | None = None,
    ) -> None:
        self._session, self._dialect, self._table, self._natives = session, dialect, table, natives
        self._domain, self._host, self._before = domain, host, before
        self._rows_seen: int | None = None

    def marginal(self, clique: Clique) -> Marginal:
        """See `Counter.marginal`."""
        if not clique:
            return Marginal((), 1, np.zeros(1, np.int64), np.array([self._every_row()], np.int64))
        self._domain.check_countable(clique)
        return self._counted(self._domain, clique, ROWS)

    def presence(self, clique: Clique) -> Presence:
        """See `Counter.presence`: no unit leaves the database, but how many have rows in the same cells.

        Raises:
            NotCounted: the database cannot.
        """
        if "presence" in (cannot := self._dialect.cannot):
            raise NotCounted(f"privacy units are not counted in {self._dialect.label}: {cannot['presence']}")
        assert self._limit is not None
        unit, most = self._limit
        only, rows = _only(self._domain, clique), self._rows([*clique, unit])
        named = exp.alias_(self._dialect.column(unit, self._natives[unit]), UNIT)
        codes = codes_of(only, self._natives, self._dialect, rows, named).subquery("codes")
        every_row, answer = self._every_row(), self._fetch(alike_units(cell_of(only, clique, self._dialect), codes))
        return presence_of(answer, clique, self._domain.size(clique), every_row, most)

    def sums(self, clique: Clique, moment: Moment | Product) -> Marginal:
        """See `Counter.sums`."""
        return self._counted(self._domain, clique, Sums(moment))

    def bins(self, attribute: Attribute) -> Marginal:
        """See `Counter.bins`."""
        return self._counted(Domain((attribute,)), (attribute.name,), ROWS)

    def values(self, column: str) -> tuple[Sequence[str], npt.NDArray[np.int64]]:
        """See `Counter.values`: texts are those that the database writes, and DuckDB writes them anew."""
        rows, unit = self._rows([column]), None if self._limit is None else self._limit[0]
        answer = self._fetch(listed_values(column, self._natives, self._dialect, rows, unit))
        return values_of(answer, self._natives[column], self._dialect, self._host)

    def among(self, places: npt.NDArray[np.int64]) -> SampleCounter:
        """See `Counter.among`: a row's place is its number in the order of codes. No place leaves this process.

        A row more moves the places of others, so who reads a draw in the database's logs would read a sample that is
        no neighbour's. So all tuples of codes come, and the places are looked up here.

        Raises:
            NotCounted: the database cannot.
        """
        if "among" in (cannot := self._dialect.cannot):
            raise NotCounted(f"rows have no places in {self._dialect.label}: {cannot['among']}")
        assert self._limit is None  # a sample of rows is none of units
        codes, counts = self.alike()
        drawn = np.bincount(np.searchsorted(np.cumsum(counts), places, side="right"), minlength=len(counts))
        return SampleCounter(self._dialect.label, self._domain, codes[drawn > 0], drawn[drawn > 0])

    def alike(self, places: npt.NDArray[np.int64] | None = None) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """Tuples of codes of rows, −1 for none, with how many have each: of all rows, or of those at these places.

        Places are sent, so they are no secret ones.
        """
        names, sizes = [f"c{place}" for place in range(len(self._domain))], self._domain.shape(self._domain.names)
        codes = codes_of(self._domain, self._natives, self._dialect, self._rows(self._domain.names)).subquery("codes")
        if places is None:
            return codes_in(self._fetch(alike_rows(names, codes)), sizes, self._every_row())
        drawn = exp.Parameter(this=exp.Literal.number(1))
        return codes_in(self._fetch(alike_rows(names, codes, drawn), [(places + 1).tolist()]), sizes, len(places))

    def interrupt(self) -> None:
        """End what runs, from any thread."""
        self._session.interrupt()

    def close(self) -> None:
        """See `TableCounter.close`."""
        self._session.close()

    # --- what a database may do otherwise -----------------------------------------------------------------------------

    @property
    def _limit(self) -> tuple[str, int] | None:
        """The column of the privacy unit, and how many rows of one count at most; None if all rows count."""
        return None

    def _rows(self, columns: Sequence[str]) -> exp.Expr:
        """The rows that count, with those columns."""
        return self._table.copy()

    def _number(self) -> exp.Select:
        """How many rows count."""
        return every_row(self._rows([]))

    def _counting(self, domain: Domain, clique: Clique) -> exp.Select:
        """The statement that counts the rows of each cell."""
        only = _only(domain, clique)
        codes = codes_of(only, self._natives, self._dialect, self._rows(clique)).subquery("codes")
        return grouped(cell_of(only, clique, self._dialect), exp.Count(this=exp.Star()), codes)

    # --- what runs ----------------------------------------------------------------------------------------------------

    def _counted(self, domain: Domain, clique: Clique, kind: Kind) -> Marginal:
        """Counts of any kind."""
        adds, rows = kind.adds(domain, self._natives, self._dialect), self._every_row()
        query = self._counting(domain, clique) if adds is None else self._adding(domain, clique, kind, adds)
        cells, counts = cells_of(self._fetch(query), domain.size(clique))
        return Marginal(clique, domain.size(clique), *kind.checked(cells, counts, rows))

    def _adding(self, domain: Domain, clique: Clique, kind: Kind, adds: exp.Expr) -> exp.Select:
        """The statement that adds up what the rows of each cell add."""
        only, columns = _only(domain, clique), list(dict.fromkeys((*clique, *kind.columns)))
        named = exp.alias_(adds, STEPS)
        codes = codes_of(only, self._natives, self._dialect, self._rows(columns), named).subquery("codes")
        return grouped(cell_of(only, clique, self._dialect), exp.Sum(this=exp.column(STEPS)), codes)

    def _every_row(self) -> int:
        if self._rows_seen is None:
            self._rows_seen = number_of(self._fetch(self._number()))
        return self._rows_seen

    def _fetch(self, query: exp.Expr, parameters: Sequence[Any] | None = None) -> dict[str, Any]:
        if self._before is not None:
            before, self._before = self._before, None
            before()
        return self._session.count(query, self._parameters(query) if parameters is None else parameters)

    def _parameters(self, query: exp.Expr) -> Sequence[Any]:
        """What is bound to a statement, because no text of one may hold it."""
        assert query.find(exp.Parameter) is None
        return ()


def values_of(
    answer: Mapping[str, Any], native: Native, dialect: Dialect, host: Cursor
) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Listed values as DuckDB writes them, in the order of their bytes, and how many have each.

    A value that DuckDB does not have is left out.

    Raises:
        WrongCounts: it is no list of values and numbers.
    """
    try:
        values, numbers = [_text_of(value) for value in answer["value"]], list(map(int, answer["n"].to_pylist()))
    except (KeyError, TypeError, ValueError):
        raise WrongCounts from None
    texts = [None if text is None else dialect.read(text, native) for text in values]
    is_text = native.kind in (types.TEXT, types.MEMBER)
    canonical_texts = texts if is_text else canonical_each(host, texts, native.in_duckdb)
    return listed_once(zip(canonical_texts, numbers, strict=True), native.in_duckdb)


def _only(domain: Domain, clique: Clique) -> Domain:
    return Domain(tuple(domain.by_name[name] for name in clique))


def _text_of(value: Any) -> str | None:
    """A value of Arrow as Python writes it; None of one that Python does not have, such as one after the year 9999."""
    try:
        python_value = value.as_py()
        return python_value.decode() if isinstance(python_value, bytes) else str(python_value)
    except (OverflowError, ValueError):  # or of bytes that are no text
        return None
