"""Exact counts of marginals, made inside DuckDB.

    codes   =  SELECT code_1, …, code_k FROM source                                              (once)
    cuboid  =  SELECT code_1, …, code_k, count(*) AS weight FROM codes GROUP BY ALL              (if codes repeat)
    M_S     =  SELECT Σ code_i·stride_i AS cell, sum(weight) FROM cuboid GROUP BY cell           (for each clique S)

Rows are encoded once, into the smallest integers that hold the codes. Where tuples of codes repeat (a sample tells)
they are grouped to the base cuboid, the distinct tuples with weights; where already the rows do, and no values of
different codes would fall together, rows are grouped first and only the distinct ones encoded. Elsewhere grouping would
only cost time, and marginals are counted from the codes. Each marginal groups by one packed integer key, and only the
cells that are not zero leave the engine. A row whose value has no code counts in no marginal of that column; it is seen
all the same, because the counter checks itself: the rows of all cells and those without one add up to the rows of the
table. Where they do not, DuckDB read the table wrongly (see `write_rows` in `dpsql.books.releases.publication`), and
nothing is released.

Of a sample of rows: the same, the source being the rows whose row_number() is among the places that were drawn. Of a
table with privacy units: the same, the source being the rows that count (see `dpsql.engines.duckdb.units`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Final

import duckdb
import numpy as np
from sqlglot import exp

from dpsql.core.column_types import column_type
from dpsql.core.domain import Attribute, Clique, Domain
from dpsql.core.linear_query import Moment, Product
from dpsql.core.marginal import Marginal, Presence
from dpsql.engines.duckdb.codes import Codes, sum_of
from dpsql.engines.duckdb.settings import check_owned
from dpsql.engines.duckdb.types import equal_text, filled
from dpsql.engines.duckdb.units import Bound, unused
from dpsql.engines.protocol import CountingFailed
from dpsql.engines.source import Source
from dpsql.engines.sql.counts import STEPS, Sums, grouped
from dpsql.errors import DpsqlError, Interrupted

_numbers = itertools.count(1)
_PATIENCE: Final = 1000  # interrupts of one ROLLBACK
_SAMPLE: Final = 100_000
_WORTH_GROUPING: Final = 0.9  # distinct tuples among the rows of the sample; among all rows they are fewer
_FIRST: Final = 2_048  # rows that tell whether it is worth grouping before encoding, for a single marginal
_FEW: Final = 4  # of those, rows for each distinct one


def _group_key(attribute: Attribute) -> exp.Expr | None:
    """What to group by so that values of one group have one code: of text its bytes, for it may have a collation.

    None where there is no such thing: two floats that compare as one need not be the same text.
    """
    template = column_type(attribute.stored_type).group_key
    return None if template is None else filled(template, x=exp.column(attribute.name, quoted=True))


def _lists_its_values(attribute: Attribute) -> bool:
    """Whether a column should hold no values but those that have codes of their own."""
    return attribute.other is None and (attribute.kind == "values" or attribute.has_single_values)


@contextmanager
def constant_errors() -> Iterator[None]:
    """No error of DuckDB leaves, because its text may quote a row, and its class tells how much was read."""
    try:
        yield
    except duckdb.InterruptException:
        raise Interrupted from None
    except duckdb.Error:
        raise CountingFailed from None


class DuckDBCounter:
    """A curator's `Counter` of a DuckDB table, on a connection of its own, where codes are a temporary table.

    With `once` each marginal is counted from the rows themselves: for a single one, that is quicker. What `before` does
    is done once, when rows are about to be read for the first time.
    """

    def __init__(
        self,
        cursor: duckdb.DuckDBPyConnection,
        source: Source,
        domain: Domain,
        bound: Bound | None = None,
        *,
        once: bool = False,
        before: Callable[[], object] | None = None,
    ) -> None:
        self._once, self._bound, self._before = once, bound, before
        self._cursor, self._source, self._domain = cursor, source, domain
        self._codes = Codes(source, domain)
        self._names = self._codes.names
        self._rows_seen: int | None = None
        self._table: exp.Table | None = None
        self._weight: exp.Expr = exp.Count(this=exp.Star())
        self._samples: list[DuckDBCounter] = []

    def among(self, places: np.ndarray[tuple[int], np.dtype[np.int64]]) -> DuckDBCounter:
        """A counter of the rows at these places only, from 0 on, of the order in which the table is read."""
        self._about_to_read()
        sample = DuckDBCounter(self._cursor, self._source, self._domain)
        number = self._unused("dpsql_place")
        every_row = exp.alias_(exp.Window(this=exp.RowNumber()), number)
        rows = exp.select("*", every_row).from_(self._source.table()).subquery("rows")
        drawn = exp.select("place").from_("dpsql_drawn")
        self._cursor.register("dpsql_drawn", {"place": places + 1})
        try:
            sample._table = self._create(self._encoded(rows).where(exp.column(number).isin(query=drawn)))
        finally:
            self._cursor.unregister("dpsql_drawn")
        sample._source = replace(self._source, catalog="temp", schema="main", name=sample._table.name, period=None)
        self._samples.append(sample)
        return sample

    def marginal(self, clique: Clique) -> Marginal:
        """The exact marginal of a clique; the empty clique counts all rows."""
        if not clique:
            rows = self._fetch(exp.select(exp.alias_(exp.Count(this=exp.Star()), "n")).from_(self._rows()))
            return Marginal((), 1, np.zeros(1, np.int64), rows["n"])
        self._domain.check_countable(clique)
        answer = self._fetch(self._counting(clique))
        if "seen" in answer:
            self._rows_seen = int(answer["seen"][0])
        self._check_seen(int(answer["n"].sum()))
        inside = answer["cell"] >= 0
        return Marginal(clique, self._domain.size(clique), answer["cell"][inside], answer["n"][inside])

    def _beside_all(self, query: exp.Select) -> exp.Select:
        """Cells with their rows, each beside the number of all rows of the table; at least one line."""
        every_row = exp.select(exp.alias_(exp.Count(this=exp.Star()), "seen")).from_(self._source.table())
        shown = [f"coalesce({name}, {empty}) AS {name}" for name, empty in (("cell", -1), ("n", 0))]
        beside_rows = exp.select(*shown, "seen").from_(every_row.subquery("every_row"))
        return beside_rows.join(query.subquery("counted", copy=False), on="TRUE", join_type="left", copy=False)

    def _check_seen(self, rows: int) -> None:
        """Refuse counts that are not of all rows."""
        if self._rows_seen is not None and rows != self._rows_seen:
            raise DpsqlError(
                f"DuckDB did not read every row of {self._source.name!r} once, so nothing is released of it; what was "
                "charged is kept: close the database, open it again, and the same call goes on"
            )

    def presence(self, clique: Clique) -> Presence:
        """Which privacy units have a row in which cells of a clique."""
        assert self._bound is not None
        named = self._unused("dpsql_unit")
        unit = exp.alias_(self._bound.key(), named)
        codes = self._encoded(columns=(self._bound.column,)).select(unit).subquery("codes")
        cell = self._codes.cell(clique)
        pairs = exp.select(exp.alias_(exp.column(named), "unit"), exp.alias_(cell, "cell")).from_(codes)
        pairs = pairs.where(exp.GTE(this=cell.copy(), expression=exp.Literal.number(0)))
        order = exp.Order(expressions=[exp.column("unit")])
        rank = exp.cast(exp.Window(this=exp.DenseRank(), order=order), "BIGINT", dialect="duckdb")
        ranked = exp.select(exp.alias_(rank, "unit"), "cell").from_(pairs.distinct().subquery("pairs"))
        answer = self._fetch(ranked)
        units = answer["unit"] - 1
        return Presence(clique, units, answer["cell"], np.ones(int(units.max(initial=-1)) + 1, np.int64))

    def sums(self, clique: Clique, moment: Moment | Product) -> Marginal:
        """The sum of a column's steps, or a product's, over the rows of each cell, in place of their number."""
        kind = Sums(moment)
        codes = self._encoded().select(exp.alias_(self._codes.adds(kind), STEPS)).subquery("codes")
        answer = self._fetch(grouped(self._codes.cell(clique), sum_of(STEPS), codes))
        cells, sums = kind.checked(answer["cell"], answer["n"], 0)
        return Marginal(clique, self._domain.size(clique), cells, sums)

    def bins(self, attribute: Attribute) -> Marginal:
        """The exact counts of the bins of one column, whatever its domain."""
        self._about_to_read()
        alone = DuckDBCounter(self._cursor, self._source, Domain((attribute,)), self._bound, once=True)
        return alone.marginal((attribute.name,))

    def values(self, column: str) -> tuple[list[str], np.ndarray[tuple[int], np.dtype[np.int64]]]:
        """The values of a column that 2 units have or more, as text in order, and how many units; NULL is none."""
        value, columns = exp.column(column, quoted=True), [column]
        of_type = equal_text(value, self._source.column(column).type)
        text = exp.func("encode", of_type, dialect="duckdb")  # bytes: no collation
        listed: list[exp.Expr] = [exp.alias_(text, "dpsql_text")]
        if self._bound is not None:
            columns.append(self._bound.column)
            listed.append(exp.alias_(self._bound.key(), "dpsql_unit"))
        there = exp.Not(this=exp.Is(this=value.copy(), expression=exp.null()))
        rows = exp.select(*listed).from_(self._rows(columns)).where(there)
        if self._bound is not None:
            rows = rows.group_by("dpsql_text", "dpsql_unit")
        counted = exp.Count(this=exp.Star())
        query = exp.select("dpsql_text", exp.alias_(counted, "dpsql_units")).from_(rows.subquery("held"))
        many = exp.GTE(this=counted.copy(), expression=exp.Literal.number(2))
        query = query.group_by("dpsql_text").having(many).order_by("dpsql_text")
        self._about_to_read()
        with constant_errors():
            fetched = self._cursor.execute(query.sql(dialect="duckdb")).fetchall()
        return [text.decode() for text, _ in fetched], np.array([count for _, count in fetched], np.int64)

    def close(self) -> None:
        """Drop the codes, and those of samples."""
        for sample in self._samples:
            sample.close()
        self._drop()

    def _drop(self) -> None:
        if self._table is not None:
            self._cursor.execute(f"DROP TABLE {self._table.sql(dialect='duckdb')}")
            self._table = None

    def _about_to_read(self) -> None:
        with constant_errors():
            check_owned(self._cursor)
        if self._before is not None:
            before, self._before = self._before, None
            before()

    def _fetch(self, query: exp.Select | str) -> dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]]:
        self._about_to_read()
        with constant_errors():
            text = query if isinstance(query, str) else query.sql(dialect="duckdb")
            columns = self._cursor.execute(text).fetchnumpy()
        return {name: np.asarray(values, dtype=np.int64) for name, values in columns.items()}

    def _rows(self, columns: Sequence[str] = ()) -> exp.Expr:
        """The rows that count, with the domain's columns and those."""
        if self._bound is None:
            return self._source.table()
        wanted = tuple(dict.fromkeys((*self._domain.names, *columns))) or (self._bound.column,)
        return self._bound.apply(self._source, wanted).subquery("bounded")

    def _raw(self) -> exp.Select:
        """The columns as they are."""
        columns = [exp.column(name, quoted=True) for name in self._domain.names]
        return exp.select(*columns).from_(self._rows())

    def _encoded(self, rows: exp.Expr | None = None, columns: Sequence[str] = ()) -> exp.Select:
        """The codes of every row, in the smallest type that holds them; `columns` can be selected beside them."""
        return self._codes.of(self._rows(columns) if rows is None else rows)

    def _tuples(self) -> exp.Table:
        """The table of codes, or of distinct codes with weights; made at the first use, of one state of the source."""
        if self._table is None:
            self._about_to_read()  # before the transaction, for it may record something in one of its own
            with constant_errors():
                try:
                    self._cursor.execute("BEGIN")  # if it is interrupted, it has begun one all the same
                    self._make_tuples()
                    self._cursor.execute("COMMIT")
                except BaseException:
                    self._roll_back()
                    raise
        assert self._table is not None
        return self._table

    def _roll_back(self) -> None:
        """End the transaction, though interrupts may still come: an open one would refuse the next count."""
        self._table = None
        for _ in range(_PATIENCE):
            try:
                self._cursor.execute("ROLLBACK")
                return
            except duckdb.InterruptException:
                continue
            except duckdb.Error:  # none is open
                return

    def _make_tuples(self) -> None:
        query = self._encoded()
        if self._bound is not None:  # chosen once
            self._table = self._create(query)
            query = exp.select(*self._names).from_(self._table.copy())
        counted = self._source.table() if self._table is None else self._table.copy()
        every_row = exp.select(exp.alias_(exp.Count(this=exp.Star()), "n")).from_(counted)
        self._rows_seen = int(self._fetch(every_row)["n"][0])
        if self._repeat(query.copy()):
            grouped = self._create(self._grouped(query))
            self._drop()
            self._table, self._weight = grouped, sum_of("weight")
        elif self._table is None:
            self._table = self._create(query)

    def _create(self, query: exp.Select) -> exp.Table:
        """A temporary table of a query's rows."""
        self._about_to_read()
        table = exp.table_(f"dpsql_codes_{next(_numbers)}", db="main", catalog="temp")
        temporary = exp.Properties(expressions=[exp.TemporaryProperty()])
        create = exp.Create(this=table, kind="TABLE", expression=query, properties=temporary)
        with constant_errors():
            self._cursor.execute(create.sql(dialect="duckdb"))
        return table

    def _unused(self, name: str) -> str:
        """A name that no column of the table has."""
        return unused(self._source, name)

    def _grouped(self, encoded: exp.Select) -> exp.Select:
        """The distinct codes with their weights; of the distinct rows only, where those are few already."""
        weight: exp.Expr = exp.Count(this=exp.Star())
        if self._keys is not None and self._repeat(self._raw()):
            encoded, weight = self._encoded_groups()
        named = exp.alias_(weight, "weight")
        return exp.select(*self._names, named).from_(encoded.subquery("codes")).group_by(*self._names)

    @cached_property
    def _keys(self) -> list[exp.Expr] | None:
        """What to group rows by before they are encoded; None where that cannot be done."""
        keys = [_group_key(attribute) for attribute in self._domain]
        present_keys = [key for key in keys if key is not None]
        return present_keys if self._bound is None and len(present_keys) == len(keys) else None

    def _encoded_groups(self) -> tuple[exp.Select, exp.Expr]:
        """The codes of the distinct rows, each encoded once, and what to sum for the number of rows."""
        assert self._keys is not None
        counted = self._unused("dpsql_weight")
        values = [
            exp.alias_(exp.AnyValue(this=exp.column(name, quoted=True)), name, quoted=True)
            for name in self._domain.names
        ]
        number = exp.alias_(exp.Count(this=exp.Star()), counted)
        rows = exp.select(*values, number).from_(self._rows()).group_by(*(key.copy() for key in self._keys))
        return self._encoded(rows.subquery("rows")).select(exp.column(counted)), sum_of(counted)

    def _repeat(self, query: exp.Select) -> bool:
        """Whether the first rows of a query have few distinct tuples; decides how to count, never what."""
        sample = query.limit(_SAMPLE).subquery("sample")
        distinct = exp.select("*").distinct().from_(sample).subquery("distinct_tuples")
        counts = [exp.select(exp.alias_(exp.Count(this=exp.Star()), "n")).from_(part) for part in (sample, distinct)]
        rows, tuples = (int(self._fetch(query)["n"][0]) for query in counts)
        return tuples < _WORTH_GROUPING * rows

    def _first_rows_repeat(self) -> bool:
        """Whether the first rows have few distinct values; decides how to count, never what.

        Not asked where each value that is declared has a cell of its own, and not many.
        """
        if all(map(_lists_its_values, self._domain)) and self._domain.size(self._domain.names) <= _FIRST:
            return True
        first = self._raw().limit(_FIRST).subquery("first_rows")
        number = exp.alias_(exp.Count(this=exp.Star()), "n")
        names = [exp.column(name, quoted=True) for name in self._domain.names]
        counts = self._fetch(exp.select(number).from_(first).group_by(*names))["n"]
        return _FEW * len(counts) <= int(counts.sum())

    def _counting(self, clique: Clique) -> exp.Select | str:
        """Each cell with its rows; −1 for those without a cell."""
        if not self._once:
            table, rows = self._tuples().sql(dialect="duckdb"), self._weight.sql(dialect="duckdb")
            return f"SELECT {self._codes.cell_text(clique)} AS cell, {rows} AS n FROM {table} GROUP BY cell"  # noqa: S608
        codes, weight = self._counted()
        selected = exp.select(exp.alias_(self._codes.cell(clique), "cell"), exp.alias_(weight, "n"))
        query = selected.from_(codes, copy=False).group_by("cell", copy=False)
        return self._beside_all(query) if self._bound is None else query

    def _counted(self) -> tuple[exp.Expr, exp.Expr]:
        """The codes of rows, or of distinct ones, for a single count, and what to sum for the number of rows."""
        encoded, weight = self._encoded(), self._weight.copy()
        if self._keys is not None and self._first_rows_repeat():
            encoded, weight = self._encoded_groups()
        return encoded.subquery("codes", copy=False), weight
