"""Exact counts of marginals, made inside DuckDB.

    cuboid  =  SELECT code_1, …, code_k, count(*) AS weight FROM source GROUP BY ALL       (once)
    M_S     =  SELECT Σ code_i·stride_i AS cell, sum(weight) FROM cuboid GROUP BY cell      (for each clique S)

The base cuboid holds the distinct tuples of codes; each marginal groups it by one packed integer key. Only the cells
that are not zero leave the engine. A row outside the domain of a column counts in no marginal of that column.
"""

from __future__ import annotations

import itertools
from typing import Final

import duckdb
import numpy as np
from sqlglot import exp

from dpsql.database.catalog import Source
from dpsql.database.encoding import encode
from dpsql.domain import Clique, Domain
from dpsql.marginal import Marginal

_numbers = itertools.count(1)
_WEIGHT: Final = "weight"


class DuckDBCounter:
    """A curator's `Counter` of a DuckDB table, on a connection of its own, where the cuboid is a temporary table."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection, source: Source, domain: Domain) -> None:
        self._cursor, self._source, self._domain = cursor, source, domain
        self._table: str | None = None

    def marginal(self, clique: Clique) -> Marginal:
        """The exact marginal of a clique; the empty clique counts all rows."""
        if not clique:
            rows = self._cursor.execute(self._rows().sql(dialect="duckdb")).fetchall()[0][0]
            return Marginal((), 1, np.zeros(1, np.int64), np.array([rows], np.int64))
        self._domain.check_countable(clique)
        found = self._cursor.execute(self._packed(clique).sql(dialect="duckdb")).fetchnumpy()
        cells, counts = (np.asarray(found[name], dtype=np.int64) for name in ("cell", "rows"))
        return Marginal(clique, self._domain.size(clique), cells, counts)

    def close(self) -> None:
        """Drop the cuboid."""
        if self._table is not None:
            self._cursor.execute(f"DROP TABLE temp.main.{self._table}")
            self._table = None

    def _rows(self) -> exp.Select:
        return exp.select(exp.alias_(exp.Count(this=exp.Star()), "rows")).from_(self._source.table())

    def _cuboid(self) -> exp.Table:
        """The cuboid's name; it is made at the first use."""
        if self._table is None:
            self._table = f"dpsql_cuboid_{next(_numbers)}"
            codes = exp.select(*(exp.alias_(encode(a), f"c{i}") for i, a in enumerate(self._domain)))
            names = [f"c{i}" for i in range(len(self._domain))]
            grouped = exp.select(*names, exp.alias_(exp.Count(this=exp.Star()), _WEIGHT))
            grouped = grouped.from_(codes.from_(self._source.table()).subquery("codes")).group_by(*names)
            create = exp.Create(
                this=exp.to_table(f"temp.main.{self._table}"),
                kind="TABLE",
                expression=grouped,
                properties=exp.Properties(expressions=[exp.TemporaryProperty()]),
            )
            self._cursor.execute(create.sql(dialect="duckdb"))
        return exp.to_table(f"temp.main.{self._table}")

    def _packed(self, clique: Clique) -> exp.Select:
        places = [self._domain.names.index(name) for name in clique]
        codes = [exp.cast(exp.column(f"c{place}"), "BIGINT", dialect="duckdb") for place in places]
        key: exp.Expr = codes[0]
        for code, size in zip(codes[1:], self._domain.shape(clique)[1:], strict=True):
            key = exp.Add(this=exp.Mul(this=exp.paren(key), expression=exp.Literal.number(size)), expression=code)
        total = exp.cast(exp.Sum(this=exp.column(_WEIGHT)), "BIGINT", dialect="duckdb")
        inside = [exp.Not(this=exp.Is(this=exp.column(f"c{place}"), expression=exp.null())) for place in places]
        selected = exp.select(exp.alias_(key, "cell"), exp.alias_(total, "rows")).from_(self._cuboid())
        return selected.where(*inside).group_by("cell")
