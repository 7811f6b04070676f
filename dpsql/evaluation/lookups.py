"""The rows of a public table that a query joins, beside the domain."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
from sqlglot import exp

from dpsql.engines.duckdb.frames import Columns, shown_as
from dpsql.engines.duckdb.types import data_type
from dpsql.language.scope import Dimension


@dataclass(frozen=True)
class Loaded:
    """A dimension with its rows.

    Attributes:
        dimension: what it is.
        rows: each column's values as text, None for NULL.
        digest: tells contents apart.
    """

    dimension: Dimension
    rows: Columns
    digest: str

    def create(self, empty: duckdb.DuckDBPyConnection) -> None:
        """Make it a temporary table, of the dimension's name, with columns dpsql_d0, dpsql_d1, … of its types."""
        columns = [
            exp.alias_(exp.cast(exp.column(f"dpsql_d{number}"), data_type(kind)), f"dpsql_d{number}")
            for number, (_, kind) in enumerate(self.dimension.columns)
        ]
        query = exp.select(*columns).from_("dpsql_rows").sql(dialect="duckdb")
        with shown_as(empty, "dpsql_rows", self.rows):
            empty.execute(f"CREATE TEMP TABLE {self.dimension.name} AS {query}")
