"""A DuckDB connection with dpsql in it: what it shares with every DuckDB connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import duckdb

from dpsql.engines.duckdb.catalog import Source, find_source
from dpsql.udfs.extension import Instance

# A table function's parameters are either positional or named; a macro's are both, so dp_ledger('adult') works too.
_LEDGER_OF_ONE = (
    "CREATE OR REPLACE TEMP MACRO dp_ledger(source := '') AS TABLE FROM system.main.dp_ledger(source := source)"
)


class Connection:
    """Runs SQL. A context manager: leaving it closes the connection.

    Attributes:
        connection: the DuckDB connection, for everything else.
        instance: the database's part of dpsql.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, instance: Instance) -> None:
        self.connection, self.instance = connection, instance
        connection.execute(_LEDGER_OF_ONE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def interrupt(self) -> None:
        """Stop what runs now on this database, from another thread; what was charged is kept."""
        self.instance.interrupt()
        self.connection.interrupt()

    def sql(self, query: str, parameters: Sequence[Any] | None = None) -> duckdb.DuckDBPyConnection:
        """Run SQL on the connection.

        Args:
            query: one or more statements.
            parameters: for its question marks.

        Returns:
            The connection, to fetch from: `.fetchall()`, `.df()`, …
        """
        return self.connection.execute(query, parameters)

    def execute(self, query: str, parameters: Sequence[Any] | None = None) -> duckdb.DuckDBPyConnection:
        """As `sql`, by the name that DuckDB and other clients have for it."""
        return self.sql(query, parameters)

    def table(self, name: str) -> duckdb.DuckDBPyRelation:
        """A table or view as a relation of DuckDB, which prints itself."""
        return self.connection.table(name)

    def register(self, name: str, frame: object) -> Self:
        """Show a data frame or an Arrow table under a name."""
        self.connection.register(name, frame)
        return self

    def unregister(self, name: str) -> Self:
        """Show it no longer."""
        self.connection.unregister(name)
        return self

    @property
    def _search_path(self) -> str:
        row = self.connection.execute("SELECT system.main.current_setting('search_path')").fetchall()[0]
        return str(row[0] or self.instance.home)

    def _source(self, cursor: duckdb.DuckDBPyConnection, table: str) -> Source:
        return find_source(cursor, table, self._search_path)
