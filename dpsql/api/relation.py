"""What `Database.sql` returns: a relation of DuckDB, with the errors of dpsql."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dpsql.api.errors import own_errors
from dpsql.api.rows import Rows

if TYPE_CHECKING:
    from duckdb import Expression


class Relation(Rows):
    """A query: it prints itself as a table, and its rows come as a data frame, an Arrow table or tuples.

    A query of tables runs when its rows are asked for, each time anew, as DuckDB's relations do. One that calls a
    function of dpsql has run already, once: what is printed, fetched and built on is what that run returned. (But a
    subquery within `filter`, `select` or `aggregate`, and a PIVOT on DuckDB 1.5, run when rows are asked for.)

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

    @own_errors
    def filter(self, condition: str | Expression) -> Relation:
        """Only the rows for which a condition holds.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("FROM range(3) r(i)").filter("i > 1").fetchall()
        [(2,)]
        """
        return Relation(self.relation.filter(condition))

    @own_errors
    def select(self, *columns: str | Expression) -> Relation:
        """Some columns: their names, or one text with a list of expressions.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("FROM range(2) r(i)").select("i + 1 AS next").fetchall()
        [(1,), (2,)]
        """
        return Relation(self.relation.select(*columns))

    @own_errors
    def aggregate(self, expressions: str | Sequence[str | Expression], groups: str = "") -> Relation:
        """Sums, counts, … of groups; without `groups` by the columns that are in no aggregate.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("FROM range(4) r(i)").aggregate("sum(i) AS total").fetchall()
        [(6,)]
        """
        return Relation(self.relation.aggregate(expressions, groups))

    @own_errors
    def order(self, expressions: str) -> Relation:
        """The rows in an order.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("FROM range(2) r(i)").order("i DESC").fetchall()
        [(1,), (0,)]
        """
        return Relation(self.relation.order(expressions))

    @own_errors
    def limit(self, rows: int, offset: int = 0) -> Relation:
        """The first rows, after as many as `offset`.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("FROM range(9)").limit(2, offset=3).fetchall()
        [(3,), (4,)]
        """
        return Relation(self.relation.limit(rows, offset))

    @own_errors
    def distinct(self) -> Relation:
        """Each row once.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("SELECT 1 AS one FROM range(9)").distinct().fetchall()
        [(1,)]
        """
        return Relation(self.relation.distinct())

    @own_errors
    def to_table(self, name: str) -> None:
        """Copy the rows into a new table.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.sql("SELECT 42 AS answer").to_table("answers")
        ...     db.table("answers").fetchall()
        [(42,)]
        """
        self.relation.to_table(name)

    @own_errors
    def write_csv(self, path: str | Path) -> None:
        """Write the rows to a CSV file.

        >>> import tempfile, dpsql
        >>> with dpsql.connect() as db, tempfile.TemporaryDirectory() as folder:
        ...     db.sql("FROM range(2)").write_csv(f"{folder}/rows.csv")
        ...     db.sql(f"SELECT count(*) FROM '{folder}/rows.csv'").fetchall()
        [(2,)]
        """
        self.relation.write_csv(str(path))

    @own_errors
    def write_parquet(self, path: str | Path) -> None:
        """Write the rows to a Parquet file.

        >>> import tempfile, dpsql
        >>> with dpsql.connect() as db, tempfile.TemporaryDirectory() as folder:
        ...     db.sql("FROM range(2)").write_parquet(f"{folder}/rows.parquet")
        ...     db.sql(f"SELECT count(*) FROM '{folder}/rows.parquet'").fetchall()
        [(2,)]
        """
        self.relation.write_parquet(str(path))

    @own_errors
    def explain(self) -> str:
        """The plan by which DuckDB reads the rows.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     "RANGE" in db.sql("FROM range(2)").explain().upper()
        True
        """
        return str(self.relation.explain())
