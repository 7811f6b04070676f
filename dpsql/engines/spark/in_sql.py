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
from dpsql.core.linear_query import Moment, Product
from dpsql.engines.checked import WrongCounts, listed_once
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.duckdb.ticks import canonical_each
from dpsql.engines.spark.checked import WHOLE, decoded, numbers_of
from dpsql.engines.spark.client import arrow_of
from dpsql.engines.spark.constants import constant, whole
from dpsql.engines.spark.counting import SparkCounter
from dpsql.engines.spark.encode import column_of, encode
from dpsql.engines.spark.relation import Relation
from dpsql.engines.spark.session import Session
from dpsql.engines.spark.steps import steps_of

_numbers: Final = itertools.count(1)


class SqlCounter(SparkCounter):
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
        native, value = self._relation.natives[column], column_of(column)
        if native.name == "timestamp":  # which Spark would write in the zone of the session, and not say it
            layout = exp.Literal.string("yyyy-MM-dd HH:mm:ss.SSSSSSXXX")
            text: exp.Expr = exp.Anonymous(this="date_format", expressions=[value, layout])
        else:
            text = exp.Anonymous(this="concat", expressions=[value])
        if native.is_float:  # 0 and −0 are one value
            text = exp.case().when(exp.EQ(this=value.copy(), expression=constant("0", native)), "'0.0'").else_(text)
        bytes_of = exp.Anonymous(this="encode", expressions=[text, exp.Literal.string("UTF-8")])
        counted, there = exp.Count(this=exp.Star()), exp.Not(this=exp.Is(this=value.copy(), expression=exp.null()))
        query = exp.select(exp.alias_(bytes_of, "value"), exp.alias_(counted, "n")).from_(self._view).where(there)
        many = exp.GTE(this=counted.copy(), expression=exp.Literal.number(2))
        table = self._fetch(lambda: self._asked(query.group_by(exp.Literal.number(1)).having(many)))
        (numbers,) = numbers_of(table, ("n",))
        try:
            values = table.column("value").to_pylist()
        except (KeyError, TypeError, ValueError):
            raise WrongCounts from None
        texts = [decoded(value) for value in values]
        known = texts if native.is_text else canonical_each(self._host, texts, native.in_duckdb)
        return listed_once(zip(known, numbers.tolist(), strict=True), native.in_duckdb)

    def close(self) -> None:
        """See `TableCounter.close`."""
        if self._session.is_open:
            self._session.drop(self._view)
        super().close()

    def _number(self) -> int:
        query = exp.select(exp.alias_(exp.Count(this=exp.Star()), "n")).from_(self._view)
        return int(self._asked(query).column("n")[0].as_py())

    def _marginals(self, domain: Domain, cliques: Sequence[Clique]) -> Any:
        codes = self._codes(domain).subquery("codes")
        cells = [_pair(number, _cell(domain, clique)) for number, clique in enumerate(cliques)]
        cells.append(_pair(WHOLE, whole(-1)))
        return self._asked(_grouped(cells, codes, exp.Count(this=exp.Star())))

    def _sums(self, domain: Domain, clique: Clique, moment: Moment | Product) -> Any:
        steps = exp.alias_(steps_of(domain, self._relation.natives, moment), "dpsql_steps")
        codes = self._codes(domain).select(steps).subquery("codes")
        added = exp.Add(this=whole(0), expression=exp.column("dpsql_steps"))
        cells = [_pair(0, _cell(domain, clique), added), _pair(WHOLE, whole(-1), whole(1))]
        return self._asked(_grouped(cells, codes, exp.Sum(this=exp.column("steps"))))

    def _codes(self, domain: Domain) -> exp.Select:
        natives = self._relation.natives
        codes = [exp.alias_(encode(a, natives[a.name]), f"c{place}") for place, a in enumerate(domain)]
        return exp.select(*codes).from_(self._view)

    def _asked(self, query: exp.Expr) -> Any:
        """What a statement returns."""
        text = query.sql(dialect="spark").replace("${", "\\u0024{")  # which Spark would replace by a setting
        return arrow_of(self._session.spark.sql(text))


def _cell(domain: Domain, clique: Clique) -> exp.Expr:
    """A cell's index, of codes; −1 where one is missing."""
    key: exp.Expr = whole(0)
    for name, size in zip(clique, domain.shape(clique), strict=True):
        code = exp.column(f"c{domain.names.index(name)}")
        key = exp.Add(this=exp.Mul(this=exp.Paren(this=key), expression=whole(size)), expression=code)
    return exp.Coalesce(this=key, expressions=[exp.Literal.number(-1)])


def _pair(number: int, cell: exp.Expr, steps: exp.Expr | None = None) -> exp.Expr:
    """The number of a marginal and a cell of it, and what a row adds there to a sum."""
    parts = [exp.Literal.string("m"), exp.Literal.number(number), exp.Literal.string("cell"), cell]
    parts += [] if steps is None else [exp.Literal.string("steps"), steps]
    return exp.Anonymous(this="named_struct", expressions=parts)


def _grouped(pairs: Sequence[exp.Expr], codes: exp.Expr, n: exp.Expr) -> exp.Select:
    """Each cell of each marginal with what its rows add up to."""
    listed = exp.Anonymous(this="inline", expressions=[exp.Anonymous(this="array", expressions=list(pairs))])
    return (
        exp.select("m", "cell", exp.alias_(n, "n"))
        .from_(exp.select(listed).from_(codes).subquery("pairs"))
        .group_by("m", "cell")
    )
