"""Exact counts by DuckDB inside the tasks of Spark: one pass over the rows, and only cells with their counts leave it.

    counts   =  SELECT m, cell, sum(n) FROM mapInArrow(rows, DuckDB counts all marginals m of a block) GROUP BY m, cell

With privacy units the rows that count are chosen first. A task makes codes, the unit and a digest of each row's content
under a key. Spark numbers the rows of each unit by their digests. The codes of the first c are kept until the counter
is closed. The key goes to the tasks with their code, so that no statement, plan or log holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from dpsql.core.domain import Clique, Domain
from dpsql.core.marginal import Presence
from dpsql.engines.checked import WrongCounts, listed_once, presence_of
from dpsql.engines.duckdb.codes import Codes
from dpsql.engines.duckdb.units import Bound
from dpsql.engines.source import Source
from dpsql.engines.spark.checked import decoded, numbers_of
from dpsql.engines.spark.client import arrow_of
from dpsql.engines.spark.counting import SparkCounter
from dpsql.engines.spark.session import Session
from dpsql.engines.spark.statements import (
    BLOCK,
    COUNTED,
    DIGEST,
    LISTED,
    UNIT,
    VALUE,
    choosing,
    counting,
    listing,
    stored,
    summing,
    values,
    with_steps,
)
from dpsql.engines.spark.tasks import Statements, in_task
from dpsql.engines.sql.counts import STEPS, Kind

_PLACE: Final = "dpsql_place"


class TaskCounter(SparkCounter):
    """Counts in tasks; see `SparkCounter`.

    Args:
        session: see there.
        source: the table; its columns are those that a choice of rows goes by.
        rows: a DataFrame.
        domain: see there.
        bound: which rows count; None if all do.
        key: what the choice is drawn from.
        still: see there.
        before: see there.
    """

    def __init__(
        self,
        session: Session,
        source: Source,
        rows: Any,
        domain: Domain,
        bound: Bound | None,
        key: str,
        still: Callable[[], object],
        before: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(session, domain, still, before)
        self._source, self._rows, self._bound, self._key = source, rows, bound, key
        self._chosen: Any = None

    def values(self, column: str) -> tuple[list[str], npt.NDArray[np.int64]]:
        """See `Counter.values`: of privacy units it is the number of those that have the value."""
        kind = self._source.column(column).type

        def fetched() -> Any:
            if self._bound is None:
                counted = self._mapped([column], listing(column, kind), LISTED).groupBy(VALUE).sum("n")
                counted = counted.withColumnRenamed("sum(n)", "n")
            else:
                bounded = self._bounded(values(column, kind), f"{VALUE} binary").where(f"{VALUE} IS NOT NULL")
                counted = bounded.select(VALUE, UNIT).distinct().groupBy(VALUE).count().withColumnRenamed("count", "n")
            return arrow_of(counted.where("n >= 2"))

        table = self._fetch(fetched)
        (counts,) = numbers_of(table, ("n",))
        try:
            found_values = table.column(VALUE).to_pylist()
        except (KeyError, TypeError, ValueError):
            raise WrongCounts from None
        pairs = zip(map(decoded, found_values), counts.tolist(), strict=True)
        return listed_once(pairs, kind)

    def presence(self, clique: Clique) -> Presence:
        """See `Counter.presence`: no unit leaves Spark, but how many have rows in the same cells."""
        assert self._bound is not None
        codes, most = Codes(self._source, self._domain), self._bound.rows

        def fetched() -> Any:
            cell = f"{codes.cell_text(clique)} AS cell"
            cells = self._bounded(_shown(codes), _schema(codes)).selectExpr(UNIT, cell)
            held = cells.where("cell >= 0").groupBy(UNIT).agg({"cell": "collect_set"})
            listed = held.selectExpr("sort_array(`collect_set(cell)`) AS cells")
            return arrow_of(listed.groupBy("cells").count().withColumnRenamed("count", "n"))

        rows, table = self._every_row(), self._fetch(fetched)
        columns = dict(zip(table.column_names, table.columns, strict=True))
        return presence_of(columns, clique, self._domain.size(clique), rows, most)

    def close(self) -> None:
        """See `TableCounter.close`."""
        if self._chosen is not None:
            chosen, self._chosen = self._chosen, None
            self._session.release(chosen)
        super().close()

    def _number(self) -> int:
        return int((self._rows if self._bound is None else self._codes_of_chosen()).count())

    def _marginals(self, domain: Domain, cliques: Sequence[Clique]) -> Any:
        codes = Codes(self._source, domain)
        if self._bound is None:
            return _summed(self._mapped(domain.names, counting(codes, cliques, codes.of(BLOCK)), COUNTED))
        if {*domain} <= {*self._domain}:
            whole = Codes(self._source, self._domain)
            return _counted(self._codes_of_chosen(), counting(whole, cliques, _coded(whole)))
        bounded = self._bounded(stored(codes), _schema(codes))
        return _counted(bounded, counting(codes, cliques, _coded(codes)))

    def _adding(self, domain: Domain, clique: Clique, kind: Kind) -> Any:
        codes = Codes(self._source, domain)
        if self._bound is None:
            rows = with_steps(codes, codes.of(BLOCK), kind)
            return _summed(self._mapped(domain.names, summing(codes, clique, rows), COUNTED))
        written = with_steps(codes, stored(codes), kind)
        bounded = self._bounded(written, f"{_schema(codes)}, {STEPS} bigint")
        return _counted(bounded, summing(codes, clique, _coded(codes, STEPS)))

    def _mapped(self, columns: Sequence[str], statements: Statements, schema: str, key: str = "") -> Any:
        """What tasks make of those columns of the rows."""
        rows = self._rows.select(*(f"`{name.replace('`', '``')}`" for name in columns))
        renamed = rows.toDF(*(f"x{place}" for place in range(len(columns))))
        return renamed.mapInArrow(in_task(statements, key, columns), schema)

    def _codes_of_chosen(self) -> Any:
        """The codes of the rows that count, kept until the counter is closed, and in the same numbers all along."""
        if self._chosen is None:
            codes = Codes(self._source, self._domain)
            self._chosen = self._bounded(_shown(codes), _schema(codes)).drop(UNIT).persist()
        return self._chosen

    def _bounded(self, shown: exp.Select, schema: str) -> Any:
        """What is shown of the rows that count, with their unit."""
        assert self._bound is not None
        names = [column.name for column in self._source.columns]
        columns = ", ".join([*([schema] if schema else []), f"{UNIT} binary", f"{DIGEST} string"])
        marked = self._mapped(names, choosing(self._source, self._bound, shown), columns, self._key)
        place = f"row_number() OVER (PARTITION BY {UNIT} ORDER BY {DIGEST}) AS {_PLACE}"
        return marked.selectExpr("*", place).where(f"{_PLACE} <= {self._bound.rows}").drop(DIGEST, _PLACE)


def _counted(rows: Any, statements: Statements) -> Any:
    """What tasks count of rows that are codes already, added up."""
    return _summed(rows.mapInArrow(in_task(statements), COUNTED))


def _summed(counts: Any) -> Any:
    """What the tasks counted, added up."""
    return arrow_of(counts.groupBy("m", "cell").sum("n").withColumnRenamed("sum(n)", "n"))


def _shown(codes: Codes) -> exp.Select:
    """The codes of a block, of no column none."""
    return stored(codes) if codes.names else exp.select().from_(BLOCK)


def _schema(codes: Codes) -> str:
    """The columns of codes, as Spark writes them."""
    return ", ".join(f"{name} int" for name in codes.names)


def _coded(codes: Codes, *more: str) -> exp.Select:
    """Rows that are codes already."""
    return exp.select(*codes.names, *more).from_(BLOCK)
