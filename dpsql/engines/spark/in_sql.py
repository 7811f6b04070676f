"""Exact counts by Spark's own SQL, where no Python may run in its tasks: one statement for many marginals.

    codes    =  SELECT code_1, …, code_k FROM rows
    counts   =  SELECT m, cell, count(*) AS n FROM (SELECT inline(array((0, cell_0), (1, cell_1), …)) FROM codes)
                GROUP BY m, cell

Each row is in one cell of each marginal, so one pass counts all of them, though Spark groups each row as often as there
are marginals. DuckDB in the tasks is faster; see `dpsql.engines.spark.in_tasks`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from dpsql.core.domain import Clique, Domain
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.spark.checked import WHOLE
from dpsql.engines.spark.client import arrow_of
from dpsql.engines.spark.counting import SparkCounter
from dpsql.engines.spark.dialect import SPARK
from dpsql.engines.spark.relation import Relation
from dpsql.engines.spark.session import Session
from dpsql.engines.sql.counter import values_of
from dpsql.engines.sql.counts import STEPS, Kind, cell_of, codes_of, every_row, listed_values, named_n

_numbers: Final = itertools.count(1)


class SparkSqlCounter(SparkCounter):
    """Counts by statements; see `SparkCounter`.

    Args:
        session: see there.
        relation: the table.
        rows: a DataFrame.
        domain: see there.
        still: see there.
        before: see there.
        host: a connection to DuckDB, which writes values as it does.
    """

    def __init__(
        self,
        session: Session,
        relation: Relation,
        rows: Any,
        domain: Domain,
        still: Callable[[], object],
        before: Callable[[], object] | None,
        host: Cursor,
    ) -> None:
        super().__init__(session, domain, still, before)
        self._relation, self._host, self._view = relation, host, f"dpsql_rows_{next(_numbers)}"
        self._session.run(lambda: rows.createOrReplaceTempView(self._view))

    def values(self, column: str) -> tuple[list[str], npt.NDArray[np.int64]]:
        """See `Counter.values`: texts are those that Spark writes, and DuckDB writes them anew."""
        natives = self._relation.natives
        query = listed_values(column, natives, SPARK, exp.table_(self._view))
        table = self._fetch(lambda: self._answer(query))
        columns = dict(zip(table.column_names, table.columns, strict=True))
        return values_of(columns, natives[column], SPARK, self._host)

    def close(self) -> None:
        """See `TableCounter.close`."""
        if self._session.is_open:
            self._session.drop(self._view)
        super().close()

    def _number(self) -> int:
        return int(self._answer(every_row(exp.table_(self._view))).column("n")[0].as_py())

    def _marginals(self, domain: Domain, cliques: Sequence[Clique]) -> Any:
        cells = [_pair(number, cell_of(domain, clique, SPARK)) for number, clique in enumerate(cliques)]
        cells.append(_pair(WHOLE, SPARK.whole(-1)))
        return self._answer(_grouped(cells, self._codes(domain), exp.Count(this=exp.Star())))

    def _adding(self, domain: Domain, clique: Clique, kind: Kind) -> Any:
        adds = kind.adds(domain, self._relation.natives, SPARK)
        assert adds is not None
        added = exp.Add(this=SPARK.whole(0), expression=exp.column(STEPS))
        cells = [_pair(0, cell_of(domain, clique, SPARK), added), _pair(WHOLE, SPARK.whole(-1), SPARK.whole(1))]
        codes = self._codes(domain, exp.alias_(adds, STEPS))
        return self._answer(_grouped(cells, codes, exp.Sum(this=exp.column("steps"))))

    def _codes(self, domain: Domain, *more: exp.Expr) -> exp.Expr:
        return codes_of(domain, self._relation.natives, SPARK, exp.table_(self._view), *more).subquery("codes")

    def _answer(self, query: exp.Expr) -> Any:
        """What a statement returns."""
        text = query.sql(dialect="spark").replace("${", "\\u0024{")  # which Spark would replace by a setting
        return arrow_of(self._session.spark.sql(text))


def _pair(number: int, cell: exp.Expr, steps: exp.Expr | None = None) -> exp.Expr:
    """The number of a marginal and a cell of it, and what a row adds there to a sum."""
    parts = [exp.Literal.string("m"), exp.Literal.number(number), exp.Literal.string("cell"), cell]
    parts += [] if steps is None else [exp.Literal.string("steps"), steps]
    return exp.Anonymous(this="named_struct", expressions=parts)


def _grouped(pairs: Sequence[exp.Expr], codes: exp.Expr, n: exp.Expr) -> exp.Select:
    """Each cell of each marginal with what its rows add up to."""
    listed = exp.Anonymous(this="inline", expressions=[exp.Anonymous(this="array", expressions=list(pairs))])
    return (
        exp.select("m", "cell", named_n(n))
        .from_(exp.select(listed).from_(codes).subquery("pairs"))
        .group_by("m", "cell")
    )
