"""The rows of a relation: printed as a table, as a data frame, an Arrow table or tuples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import duckdb

from dpsql.api.caller import Named
from dpsql.api.errors import needs, own_errors
from dpsql.api.html import table

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from duckdb.sqltypes import DuckDBPyType


class Rows(Named):
    """The rows of a query.

    Attributes:
        relation: the relation of DuckDB.
    """

    def __init__(self, relation: duckdb.DuckDBPyRelation) -> None:
        self.relation = relation
        self._left: Iterator[tuple[Any, ...]] | None = None

    def in_sql(self) -> duckdb.DuckDBPyRelation:
        """See `Named`: `db.sql("FROM relation")` reads the variable `relation`.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     few = db.sql("FROM range(3)")
        ...     db.sql("SELECT sum(range) FROM few").fetchall()
        [(3,)]
        """
        return self.relation

    @own_errors
    def __repr__(self) -> str:
        return repr(self.relation)

    @own_errors
    def __str__(self) -> str:
        return str(self.relation)

    @own_errors
    def _repr_html_(self) -> str:
        """What a notebook shows: the first rows as a table."""
        return table(self.relation)

    @own_errors
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
    @own_errors
    def columns(self) -> list[str]:
        """The names of the columns.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("SELECT 1 AS a, 'x' AS b").columns
        ['a', 'b']
        """
        return self.relation.columns

    @property
    @own_errors
    def types(self) -> list[DuckDBPyType]:
        """The types of the columns.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("SELECT 1 AS a, 'x' AS b").types
        [INTEGER, VARCHAR]
        """
        return self.relation.types

    @property
    @own_errors
    def description(self) -> list[tuple[str, DuckDBPyType, None, None, None, None, None]]:
        """The columns as Python's database API has them.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("FROM range(2)").description[0][0]
        'range'
        """
        return self.relation.description

    @property
    @own_errors
    def shape(self) -> tuple[int, int]:
        """How many rows and columns there are.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("FROM range(3)").shape
        (3, 1)
        """
        rows, columns = self.relation.shape
        return rows, columns

    @own_errors
    def df(self) -> pd.DataFrame:
        """The rows as a pandas data frame.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("SELECT 1 AS a").df().a.tolist()
        [1]
        """
        rows: pd.DataFrame = self.relation.df()
        return rows

    def fetchdf(self) -> pd.DataFrame:
        """As `df`, by DuckDB's older name.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("SELECT 1 AS a").fetchdf().a.tolist()
        [1]
        """
        return self.df()

    @own_errors
    def fetchnumpy(self) -> dict[str, Any]:
        """The rows as one array a column, masked where it holds NULL.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("SELECT 1 AS a").fetchnumpy()["a"].tolist()
        [1]
        """
        columns: dict[str, Any] = self.relation.fetchnumpy()
        return columns

    @own_errors
    def pl(self) -> pl.DataFrame:
        """The rows as a polars data frame.

        Raises:
            DpsqlError: polars is not installed.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("FROM range(2)").pl().shape
        (2, 1)
        """
        for package in ("polars", "pyarrow"):
            needs(package, "pl")
        rows: pl.DataFrame = self.relation.pl()
        return rows

    @own_errors
    def arrow(self) -> pa.Table:
        """All rows as an Arrow table; `to_arrow_reader` reads them in batches.

        Raises:
            DpsqlError: pyarrow is not installed.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("FROM range(2)").arrow().num_rows
        2
        """
        needs("pyarrow", "arrow")
        return self.relation.to_arrow_table()

    def to_arrow_table(self) -> pa.Table:
        """As `arrow`, by DuckDB's name.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("FROM range(2)").to_arrow_table().num_rows
        2
        """
        return self.arrow()

    def fetch_arrow_table(self) -> pa.Table:
        """As `arrow`, by DuckDB's older name.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("FROM range(2)").fetch_arrow_table().num_rows
        2
        """
        return self.arrow()

    @own_errors
    def to_arrow_reader(self, batch_size: int = 100_000) -> pa.RecordBatchReader:
        """The rows in batches of Arrow; an error that comes while they are read is Arrow's.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("FROM range(2)").to_arrow_reader(batch_size=1000).read_all().num_rows
        2
        """
        needs("pyarrow", "to_arrow_reader")
        return self.relation.to_arrow_reader(batch_size)

    @own_errors
    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows as tuples; after `fetchone` or `fetchmany` those that are left.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("FROM range(2)").fetchall()
        [(0,), (1,)]
        """
        return self.relation.fetchall() if self._left is None else list(self._left)

    @own_errors
    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, or None at the end.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     rows = db.sql("FROM range(1)")
        ...     rows.fetchone(), rows.fetchone()
        ((0,), None)
        """
        return next(self._rest(), None)

    @own_errors
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
        with own_errors:
            rows = self.relation.fetchall()
        return iter(rows)
