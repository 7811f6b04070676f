"""Exact counts of marginals, made inside Postgres: only groups and their counts leave it.

    codes    =  SELECT code_1, …, code_k FROM table
    cuboid   =  INSERT INTO pg_temp.dpsql_codes SELECT code_1, …, code_k, count(*) FROM codes GROUP BY 1, …, k
    M_S      =  SELECT Σ code_i·stride_i AS cell, count(*) or sum(n) FROM codes or cuboid GROUP BY 1

The cuboid is made where codes repeat (a sample tells), where a choice of rows is kept, and where the user may make a
temporary table, which is the one thing that a transaction that only reads may write to. Otherwise each marginal is
counted from the table, or from its distinct values where those are few.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from sqlglot import exp

from dpsql.core.domain import Clique, Domain
from dpsql.engines.checked import number_of
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.postgres.catalog import Relation
from dpsql.engines.postgres.dialect import POSTGRES
from dpsql.engines.postgres.session import PostgresSession
from dpsql.engines.postgres.units import Bound, unused
from dpsql.engines.sql.counter import SqlCounter
from dpsql.engines.sql.counts import cell_of, codes_of, every_row, grouped, named_n
from dpsql.engines.sql.types import column_of

_CUBOID: Final = "dpsql_codes"
_SAMPLE: Final = 50_000
_WORTH_GROUPING: Final = 0.5  # distinct tuples among the rows of the sample
_FIRST: Final = 2_048  # rows that tell whether it is worth grouping before encoding
_FEW: Final = 4  # of those, rows for each distinct one


class PostgresCounter(SqlCounter):
    """See `SqlCounter`.

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
        session: PostgresSession,
        relation: Relation,
        domain: Domain,
        bound: Bound | None,
        host: Cursor,
        *,
        once: bool = False,
        before: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(session, POSTGRES, relation.table(), relation.natives, domain, host, before)
        self._relation, self._bound, self._once = relation, bound, once
        self._cuboid: bool | None = None

    @property
    def _limit(self) -> tuple[str, int] | None:
        return None if self._bound is None else (self._bound.unit, self._bound.rows)

    def _rows(self, columns: Sequence[str]) -> exp.Expr:
        if self._bound is None:
            return self._table.copy()
        chosen = list(dict.fromkeys([*columns, self._bound.unit]))
        return self._bound.apply(self._table.copy(), chosen, list(self._natives)).subquery("bounded")

    def _number(self) -> exp.Select:
        return super()._number() if self._bound is None else self._bound.number(self._table.copy())

    def _parameters(self, query: exp.Expr) -> Sequence[Any]:
        if self._bound is None or query.find(exp.Parameter) is None:
            return super()._parameters(query)
        return [self._bound.key]

    def _counting(self, domain: Domain, clique: Clique) -> exp.Select:
        if domain == self._domain and self._has_cuboid():
            rows, n = exp.table_(_CUBOID, db="pg_temp"), exp.Sum(this=exp.column("n"))
            return grouped(cell_of(domain, clique, POSTGRES), n, rows)
        if not self._values_repeat(clique):
            return super()._counting(domain, clique)
        only, number = Domain(tuple(domain.by_name[name] for name in clique)), self._unused("dpsql_rows")
        weight = exp.alias_(exp.column(number), "n")
        codes = codes_of(only, self._natives, POSTGRES, self._distinct(clique, number), weight)
        return grouped(cell_of(only, clique, POSTGRES), exp.Sum(this=exp.column("n")), codes.subquery("codes"))

    def _unused(self, name: str) -> str:
        """A name that no column of the table has."""
        return unused(list(self._natives), name)

    def _distinct(self, columns: Sequence[str], number: str) -> exp.Expr:
        """The distinct values of some columns, with their rows: texts by their bytes."""
        keys = [exp.alias_(POSTGRES.column(name, self._natives[name]), name, quoted=True) for name in columns]
        counted = exp.alias_(exp.Count(this=exp.Star()), number)
        return exp.select(*keys, counted).from_(self._rows(columns)).group_by(*_places(columns)).subquery("values")

    def _values_repeat(self, columns: Sequence[str]) -> bool:
        """Whether the first rows have few distinct values; decides how to count, never what.

        Not of rows that are chosen, because the choice is made for each statement anew.
        """
        if self._bound is not None:
            return False
        first = exp.select(*map(column_of, columns)).from_(self._rows(columns)).limit(_FIRST)
        return _FEW * self._tuples(first, [column_of(name) for name in columns]) <= min(_FIRST, self._every_row())

    def _tuples(self, first: exp.Select, columns: Sequence[exp.Expr | str]) -> int:
        """How many distinct tuples the first rows have."""
        groups = every_row(first.subquery("first_rows")).group_by(*columns)
        return number_of(self._fetch(every_row(groups.subquery("tuples"))))

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
        tuples = self._tuples(self._codes().limit(_SAMPLE), _names(self._domain))
        return tuples < _WORTH_GROUPING * min(_SAMPLE, self._every_row())

    def _fill(self) -> bool:
        names = _names(self._domain)
        codes = exp.select(*names, named_n(exp.Count(this=exp.Star()))).from_(self._codes().subquery("codes"))
        query = codes.group_by(*_places(names))
        self._fetch(exp.insert(query, exp.table_(_CUBOID, db="pg_temp"), columns=[*names, "n"]))
        return True

    def _codes(self) -> exp.Select:
        """The codes of all columns of the rows that count."""
        return codes_of(self._domain, self._natives, POSTGRES, self._rows(self._domain.names))


def make_cuboid(session: PostgresSession, domain: Domain) -> None:
    """The temporary table, empty: made before the transaction, in which nothing can be made."""
    columns = ", ".join([*(f"{name} int4" for name in _names(domain)), "n int8"])
    session.control(f"CREATE TEMPORARY TABLE {_CUBOID} ({columns})")


def _names(domain: Domain) -> list[str]:
    return [f"c{place}" for place in range(len(domain))]


def _places(columns: Sequence[str]) -> list[exp.Expr]:
    return [exp.Literal.number(place) for place in range(1, len(columns) + 1)]
