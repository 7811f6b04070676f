"""What `Database.sql` returns: a relation of DuckDB, with the errors of dpsql."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from dpsql.api.caller import Named
from dpsql.api.errors import needs, own_errors

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from duckdb import Expression
    from duckdb.sqltypes import DuckDBPyType


class Relation(Named):
    """A query: it prints itself as a table, and its rows come as a data frame, an Arrow table or tuples.

    A query of tables runs when its rows are asked for, each time anew, as DuckDB's relations do. One that calls a
    function of dpsql has run already, once: what is printed, fetched and built on is what that run returned.

    Attributes:
        relation: the relation of DuckDB, for everything else.

    >>> import dpsql
    >>> with dpsql.connect() as db:
    ...     db.sql("SELECT 42 AS answer")
    ┌────────┐
    │ answer │
    │ int32  │
    ├────────┤
    │     42 │
    └────────┘
    <BLANKLINE>
    """

    def __init__(self, relation: duckdb.DuckDBPyRelation) -> None:
        self.relation = relation
        self._left: Iterator[tuple[Any, ...]] | None = None

    def in_sql(self) -> duckdb.DuckDBPyRelation:
        """See `Named`: `db.sql("FROM relation")` reads the variable `relation`."""
        return self.relation

    @own_errors()
    def __repr__(self) -> str:
        return repr(self.relation)

    @own_errors()
    def __str__(self) -> str:
        return str(self.relation)

    @own_errors()
    def show(
        self,
        *,
        max_width: int | None = None,
        max_rows: int | None = None,
        max_col_width: int | None = None,
        null_value: str | None = None,
    ) -> None:
        """Print the first rows.

        Args:
            max_width: of the table, in characters.
            max_rows: how many rows at most.
            max_col_width: of a column, in characters.
            null_value: what stands for NULL.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("SELECT NULL::INTEGER AS nothing").show(null_value="-")
        ┌─────────┐
        │ nothing │
        │  int32  │
        ├─────────┤
        │       - │
        └─────────┘
        <BLANKLINE>
        """
        given = {"max_width": max_width, "max_rows": max_rows, "max_col_width": max_col_width, "null_value": null_value}
        self.relation.show(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]

    @property
    @own_errors()
    def columns(self) -> list[str]:
        """The names of the columns.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("SELECT 1 AS a, 'x' AS b").columns
        ['a', 'b']
        """
        return self.relation.columns

    @property
    @own_errors()
    def types(self) -> list[DuckDBPyType]:
        """The types of the columns.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("SELECT 1 AS a, 'x' AS b").types
        [INTEGER, VARCHAR]
        """
        return self.relation.types

    @property
    @own_errors()
    def description(self) -> list[tuple[str, DuckDBPyType, None, None, None, None, None]]:
        """The columns as Python's database API has them."""
        return self.relation.description

    @property
    @own_errors()
    def shape(self) -> tuple[int, int]:
        """How many rows and columns there are.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("FROM range(3)").shape
        (3, 1)
        """
        rows, columns = self.relation.shape
        return rows, columns

    @own_errors()
    def df(self) -> pd.DataFrame:
        """The rows as a pandas data frame.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("SELECT 1 AS a").df().a.tolist()
        [1]
        """
        rows: pd.DataFrame = self.relation.df()
        return rows

    @own_errors()
    def pl(self) -> pl.DataFrame:
        """The rows as a polars data frame.

        Raises:
            DpsqlError: polars is not installed.
        """
        for package in ("polars", "pyarrow"):
            needs(package, "pl")
        rows: pl.DataFrame = self.relation.pl()
        return rows

    @own_errors()
    def arrow(self) -> pa.Table:
        """All rows as an Arrow table; `to_arrow_reader` reads them in batches.

        Raises:
            DpsqlError: pyarrow is not installed.
        """
        needs("pyarrow", "arrow")
        return self.relation.to_arrow_table()

    def to_arrow_table(self) -> pa.Table:
        """As `arrow`, by DuckDB's name."""
        return self.arrow()

    def fetch_arrow_table(self) -> pa.Table:
        """As `arrow`, by DuckDB's older name."""
        return self.arrow()

    @own_errors()
    def to_arrow_reader(self, batch_size: int = 100_000) -> pa.RecordBatchReader:
        """The rows in batches of Arrow; an error that comes while they are read is Arrow's."""
        needs("pyarrow", "to_arrow_reader")
        return self.relation.to_arrow_reader(batch_size)

    @own_errors()
    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows as tuples; after `fetchone` or `fetchmany` those that are left.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("FROM range(2)").fetchall()
        [(0,), (1,)]
        """
        return self.relation.fetchall() if self._left is None else list(self._left)

    @own_errors()
    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, or None at the end.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     rows = db.sql("FROM range(1)")
        ...     rows.fetchone(), rows.fetchone()
        ((0,), None)
        """
        return next(self._rest(), None)

    @own_errors()
    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        """The next rows, as many as `size` or as there are.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("FROM range(9)").fetchmany(2)
        [(0,), (1,)]
        """
        return [row for _, row in zip(range(size), self._rest(), strict=False)]

    def _rest(self) -> Iterator[tuple[Any, ...]]:
        if self._left is None:
            self._left = iter(self.relation.fetchall())
        return self._left

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """All rows, one after the other."""
        with own_errors():
            rows = self.relation.fetchall()
        return iter(rows)

    @own_errors()
    def filter(self, condition: str | Expression) -> Relation:
        """Only the rows for which a condition holds.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("FROM range(3) r(i)").filter("i > 1").fetchall()
        [(2,)]
        """
        return Relation(self.relation.filter(condition))

    @own_errors()
    def select(self, *columns: str | Expression) -> Relation:
        """Some columns: their names, or one text with a list of expressions.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("FROM range(2) r(i)").select("i + 1 AS next").fetchall()
        [(1,), (2,)]
        """
        return Relation(self.relation.select(*columns))

    @own_errors()
    def aggregate(self, expressions: str | Sequence[str | Expression], groups: str = "") -> Relation:
        """Sums, counts, … of groups; without `groups` by the columns that are in no aggregate.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("FROM range(4) r(i)").aggregate("sum(i) AS total").fetchall()
        [(6,)]
        """
        return Relation(self.relation.aggregate(expressions, groups))

    @own_errors()
    def order(self, expressions: str) -> Relation:
        """The rows in an order.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("FROM range(2) r(i)").order("i DESC").fetchall()
        [(1,), (0,)]
        """
        return Relation(self.relation.order(expressions))

    @own_errors()
    def limit(self, rows: int, offset: int = 0) -> Relation:
        """The first rows, after as many as `offset`.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("FROM range(9)").limit(2, offset=3).fetchall()
        [(3,), (4,)]
        """
        return Relation(self.relation.limit(rows, offset))

    @own_errors()
    def distinct(self) -> Relation:
        """Each row once.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("SELECT 1 AS one FROM range(9)").distinct().fetchall()
        [(1,)]
        """
        return Relation(self.relation.distinct())

    @own_errors()
    def to_table(self, name: str) -> None:
        """Copy the rows into a new table.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("SELECT 42 AS answer").to_table("answers")
        ...     db.table("answers").fetchall()
        [(42,)]
        """
        self.relation.to_table(name)

    @own_errors()
    def write_csv(self, path: str | Path) -> None:
        """Write the rows to a CSV file."""
        self.relation.write_csv(str(path))

    @own_errors()
    def write_parquet(self, path: str | Path) -> None:
        """Write the rows to a Parquet file."""
        self.relation.write_parquet(str(path))

    @own_errors()
    def explain(self) -> str:
        """The plan by which DuckDB reads the rows."""
        return str(self.relation.explain())
