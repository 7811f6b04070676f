"""Exact counts of marginals, made inside Postgres: only groups and their counts leave it.

    codes    =  SELECT code_1, …, code_k FROM table
    cuboid   =  INSERT INTO pg_temp.dpsql_codes SELECT code_1, …, code_k, count(*) FROM codes GROUP BY 1, …, k
    M_S      =  SELECT Σ code_i·stride_i AS cell, count(*) or sum(n) FROM codes or cuboid GROUP BY 1

The cuboid is made where codes repeat (a sample tells), where a choice of rows is kept, and where the user may make a
temporary table, which is the one thing that a transaction that only reads may write to. Otherwise each marginal is
counted from the table. A row whose value has no code is in cell −1, so that the rows of all cells add up to the rows of
the table: what comes back is checked against that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from dpsql.core.domain import Attribute, Clique, Domain
from dpsql.core.linear_query import Moment, Product
from dpsql.core.marginal import Marginal
from dpsql.engines.checked import cells_of, counts_of, number_of
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.postgres.catalog import Relation
from dpsql.engines.postgres.encode import encode
from dpsql.engines.postgres.failures import NotInPostgres
from dpsql.engines.postgres.formulas import sql_of_steps
from dpsql.engines.postgres.listed import listed_values
from dpsql.engines.postgres.session import Session
from dpsql.engines.postgres.types import column_of, value_of, whole
from dpsql.engines.postgres.units import Bound, unused

PRESENCE: Final = "count rows with count(*), or copy the table into this database"
AMONG: Final = "leave out the option that draws a sample, or copy the table into this database"
_CUBOID: Final = "dpsql_codes"
_SAMPLE: Final = 50_000
_WORTH_GROUPING: Final = 0.5  # distinct tuples among the rows of the sample
_FIRST: Final = 2_048  # rows that tell whether it is worth grouping before encoding
_FEW: Final = 4  # of those, rows for each distinct one


class PostgresCounter:
    """See `dpsql.engines.protocol.TableCounter`; on a session of its own, which it closes.

    Args:
        session: with its transaction begun.
        relation: the table.
        domain: of its columns.
        bound: which rows count; None if all do.
        once: a single marginal will be counted.
        before: done once, when rows are about to be read for the first time.
        host: a connection to DuckDB, which writes values as it does.
    """

    def __init__(
        self,
        session: Session,
        relation: Relation,
        domain: Domain,
        bound: Bound | None,
        host: Cursor,
        *,
        once: bool = False,
        before: Callable[[], object] | None = None,
    ) -> None:
        self._session, self._relation, self._domain, self._host = session, relation, domain, host
        self._bound, self._once, self._before = bound, once, before
        self._names = [f"c{place}" for place in range(len(domain))]
        self._rows_seen: int | None = None
        self._cuboid: bool | None = None

    def marginal(self, clique: Clique) -> Marginal:
        """See `Counter.marginal`."""
        if not clique:
            return Marginal((), 1, np.zeros(1, np.int64), np.array([self._every_row()], np.int64))
        self._domain.check_countable(clique)
        self._every_row()
        size = self._domain.size(clique)
        cells, counts = cells_of(self._fetch(self._grouped(clique)), size)
        return Marginal(clique, size, *counts_of(cells, counts, self._every_row()))

    def presence(self, clique: Clique) -> NoReturn:
        """Not here: it would move a number for each unit."""
        raise NotInPostgres(f"privacy units are not counted in Postgres: {PRESENCE}")

    def sums(self, clique: Clique, moment: Moment | Product) -> Marginal:
        """See `Counter.sums`."""
        domain = self._domain
        columns = {*clique, *_columns_of(moment)}
        steps = exp.alias_(sql_of_steps(domain, self._relation.natives, moment), "steps")
        codes = self._codes([name for name in domain.names if name in columns]).select(steps).subquery("codes")
        summed = exp.alias_(exp.Sum(this=exp.column("steps")), "n")
        query = exp.select(exp.alias_(self._cell(clique), "cell"), summed).from_(codes).group_by(_first(1))
        cells, sums = cells_of(self._fetch(query), domain.size(clique))
        return Marginal(clique, domain.size(clique), cells[cells >= 0], sums[cells >= 0])

    def bins(self, attribute: Attribute) -> Marginal:
        """See `Counter.bins`."""
        self._about_to_read()
        domain = Domain((attribute,))
        alone = PostgresCounter(self._session, self._relation, domain, self._bound, self._host, once=True)
        return alone.marginal((attribute.name,))

    def values(self, column: str) -> tuple[Sequence[str], npt.NDArray[np.int64]]:
        """See `Counter.values`."""
        unit = None if self._bound is None else self._bound.unit
        rows = self._rows([column] if unit is None else [column, unit])
        return listed_values(self._fetch, rows, column, self._relation.natives, unit, self._host)

    def among(self, places: npt.NDArray[np.int64]) -> NoReturn:
        """Not here: rows have no places."""
        raise NotInPostgres(f"rows have no places in Postgres: {AMONG}")

    def interrupt(self) -> None:
        """End what runs, from any thread."""
        self._session.interrupt()

    def close(self) -> None:
        """See `TableCounter.close`."""
        self._session.close()

    # --- what runs ----------------------------------------------------------------------------------------------------

    def _about_to_read(self) -> None:
        if self._before is not None:
            before, self._before = self._before, None
            before()

    def _fetch(self, query: exp.Expr) -> dict[str, Any]:
        self._about_to_read()
        keyed = self._bound is not None and query.find(exp.Parameter) is not None
        assert keyed or query.find(exp.Parameter) is None
        return self._session.count(query, [self._bound.key] if keyed and self._bound is not None else [])

    def _every_row(self) -> int:
        """The number of rows that count."""
        if self._rows_seen is None:
            table = self._relation.table()
            if self._bound is None:
                counted = exp.select(exp.alias_(exp.Count(this=exp.Star()), "n")).from_(table)
            else:
                counted = self._bound.number(table)
            self._rows_seen = number_of(self._fetch(counted))
        return self._rows_seen

    def _grouped(self, clique: Clique) -> exp.Select:
        """Each cell with its rows; −1 for those without a cell."""
        if self._has_cuboid():
            rows: exp.Expr = exp.table_(_CUBOID, db="pg_temp")
            weight: exp.Expr = exp.Sum(this=exp.column("n"))
        elif self._values_repeat(clique):
            number = exp.column(self._unused("dpsql_rows"))
            encoded = self._codes(clique, self._distinct(clique)).select(exp.alias_(number, "n"))
            rows, weight = encoded.subquery("codes"), exp.Sum(this=exp.column("n"))
        else:
            rows, weight = self._codes(clique).subquery("codes"), exp.Count(this=exp.Star())
        cell = exp.alias_(self._cell(clique), "cell")
        return exp.select(cell, exp.alias_(weight, "n")).from_(rows).group_by(_first(1))

    def _cell(self, clique: Clique) -> exp.Expr:
        """A cell's index, of codes; −1 where one is missing."""
        columns = [exp.column(self._names[self._domain.names.index(name)]) for name in clique]
        key: exp.Expr = whole(0)
        for code, size in zip(columns, self._domain.shape(clique), strict=True):
            key = exp.Add(this=exp.Mul(this=exp.paren(key), expression=whole(size)), expression=code)
        return exp.Coalesce(this=key, expressions=[exp.Literal.number(-1)])

    def _codes(self, columns: Sequence[str], rows: exp.Expr | None = None) -> exp.Select:
        """The codes of some columns of the rows that count; all their columns can be selected beside them."""
        natives, codes = self._relation.natives, []
        for name, attribute in zip(self._names, self._domain, strict=True):
            if attribute.name in columns:
                codes.append(exp.alias_(encode(attribute, natives[attribute.name]), name))
        return exp.select(*codes).from_(self._rows(columns) if rows is None else rows)

    def _rows(self, columns: Sequence[str]) -> exp.Expr:
        """The rows that count, with those columns."""
        table = self._relation.table()
        if self._bound is None:
            return table
        kept = list(dict.fromkeys([*columns, self._bound.unit]))
        return self._bound.apply(table, kept, list(self._relation.natives)).subquery("bounded")

    def _unused(self, name: str) -> str:
        """A name that no column of the table has."""
        return unused(list(self._relation.natives), name)

    def _distinct(self, columns: Sequence[str]) -> exp.Expr:
        """The distinct values of some columns, with their rows: texts by their bytes."""
        natives = self._relation.natives
        keys = [exp.alias_(value_of(name, natives[name]), name, quoted=True) for name in columns]
        places = [_first(place) for place in range(1, len(keys) + 1)]
        number = exp.alias_(exp.Count(this=exp.Star()), self._unused("dpsql_rows"))
        return exp.select(*keys, number).from_(self._rows(columns)).group_by(*places).subquery("values")

    def _values_repeat(self, columns: Sequence[str]) -> bool:
        """Whether the first rows have few distinct values; decides how to count, never what.

        Not of rows that are chosen, because the choice is made for each statement anew.
        """
        if self._bound is not None:
            return False
        first = exp.select(*map(column_of, columns)).from_(self._rows(columns)).limit(_FIRST).subquery("first_rows")
        groups = exp.select(exp.alias_(exp.Count(this=exp.Star()), "n")).from_(first).group_by(*map(column_of, columns))
        counted = exp.select(exp.alias_(exp.Count(this=exp.Star()), "n")).from_(groups.subquery("tuples"))
        return _FEW * number_of(self._fetch(counted)) <= min(_FIRST, self._every_row())

    # --- the cuboid ---------------------------------------------------------------------------------------------------

    def _has_cuboid(self) -> bool:
        """Whether marginals are counted from a temporary table, which is filled at the first."""
        if self._cuboid is None:
            self._cuboid = self._is_worth_it() and self._fill()
        return self._cuboid

    def _is_worth_it(self) -> bool:
        if self._once or not self._relation.has_temporary or not len(self._domain):
            return False
        return self._bound is not None or self._repeat()

    def _repeat(self) -> bool:
        """Whether the first rows have few distinct tuples; decides how to count, never what."""
        first = self._codes(self._domain.names).limit(_SAMPLE).subquery("first_rows")
        groups = exp.select(exp.alias_(exp.Count(this=exp.Star()), "n")).from_(first).group_by(*self._names)
        counted = exp.select(exp.alias_(exp.Count(this=exp.Star()), "n")).from_(groups.subquery("tuples"))
        return number_of(self._fetch(counted)) < _WORTH_GROUPING * min(_SAMPLE, self._every_row())

    def _fill(self) -> bool:
        codes = self._codes(self._domain.names).subquery("codes")
        number = exp.alias_(exp.Count(this=exp.Star()), "n")
        places = [_first(place) for place in range(1, len(self._names) + 1)]
        grouped = exp.select(*self._names, number).from_(codes).group_by(*places)
        self._fetch(exp.insert(grouped, exp.table_(_CUBOID, db="pg_temp"), columns=[*self._names, "n"]))
        return True


def make_cuboid(session: Session, domain: Domain) -> None:
    """The temporary table, empty: made before the transaction, in which nothing can be made."""
    columns = ", ".join([*(f"c{place} int4" for place in range(len(domain))), "n int8"])
    session.control(f"CREATE TEMPORARY TABLE {_CUBOID} ({columns})")


def _columns_of(moment: Moment | Product) -> set[str]:
    parts = (moment,) if isinstance(moment, Moment) else (moment.first, moment.second)
    return {part.column for part in parts}


def _first(place: int) -> exp.Expr:
    return exp.Literal.number(place)
