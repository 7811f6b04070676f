"""What `Database.execute` ran: its rows are fetched from the connection, as from every DuckDB connection."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import duckdb

from dpsql.api.errors import needs, own_errors

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from duckdb.sqltypes import DuckDBPyType


class Executed:
    """The rows of the statement that a connection executed last, each of which is fetched once.

    Attributes:
        connection: the DuckDB connection.
    """

    connection: duckdb.DuckDBPyConnection

    @own_errors
    def fetchall(self) -> list[tuple[Any, ...]]:
        """The rows that are left of what `execute` ran.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.execute("FROM range(2)").fetchall()
        [(0,), (1,)]
        """
        return self.connection.fetchall()

    @own_errors
    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row of what `execute` ran, or None at the end.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.execute("FROM range(2)").fetchone()
        (0,)
        """
        return self.connection.fetchone()

    @own_errors
    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        """The next rows of what `execute` ran, as many as `size` or as there are.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.execute("FROM range(2)").fetchmany(5)
        [(0,), (1,)]
        """
        return self.connection.fetchmany(size)

    @own_errors
    def df(self) -> pd.DataFrame:
        """The rows of what `execute` ran as a pandas data frame.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.execute("FROM range(2)").df().shape
        (2, 1)
        """
        return self.connection.df()

    def pl(self) -> pl.DataFrame:
        """The rows of what `execute` ran as a polars data frame.

        Raises:
            DpsqlError: polars is not installed.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.execute("FROM range(2)").pl().shape
        (2, 1)
        """
        needs("polars", "pl")
        import polars

        return polars.DataFrame(self.arrow())

    @own_errors
    def arrow(self) -> pa.Table:
        """The rows of what `execute` ran as an Arrow table.

        Raises:
            DpsqlError: pyarrow is not installed.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.execute("FROM range(2)").arrow().num_rows
        2
        """
        needs("pyarrow", "arrow")
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # that DuckDB 2.0 copies rows for it
            return self.connection.to_arrow_table()

    @property
    @own_errors
    def description(self) -> list[tuple[str, DuckDBPyType, None, None, None, None, None]]:
        """The columns of what `execute` ran, as Python's database API has them.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.execute("FROM range(2)").description[0][0]
        'range'
        """
        return self.connection.description

    @property
    @own_errors
    def rowcount(self) -> int:
        """How many rows `execute` changed, as DuckDB says; -1 where it does not.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.execute("FROM range(2)").rowcount
        -1
        """
        return self.connection.rowcount
