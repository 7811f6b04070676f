"""The rows of public tables that a query joins, and the empty database in which its expressions meet them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import duckdb
from sqlglot import exp

from dpsql.engines.duckdb.frames import Columns, shown_as
from dpsql.engines.duckdb.types import data_type
from dpsql.evaluation.own_parts import own_parts, parts_of
from dpsql.evaluation.refused import refused
from dpsql.evaluation.sandbox import check_expressions, empty_database
from dpsql.evaluation.wording import check_written, different_words
from dpsql.evaluation.workers import Empty
from dpsql.language.members import asked_of
from dpsql.language.query import Query
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

    def create(self, empty: Empty) -> None:
        """Make it a temporary table, of the dimension's name, with columns dpsql_d0, dpsql_d1, … of its types."""
        columns = [
            exp.alias_(exp.cast(exp.column(f"dpsql_d{number}"), data_type(kind)), f"dpsql_d{number}")
            for number, (_, kind) in enumerate(self.dimension.columns)
        ]
        query = exp.select(*columns).from_("dpsql_rows").sql(dialect="duckdb")
        with shown_as(empty, "dpsql_rows", self.rows):
            empty.execute(f"CREATE TEMP TABLE {self.dimension.name} AS {query}")


@contextmanager
def database_for(query: Query, dimensions: Sequence[Loaded]) -> Iterator[Empty]:
    """An empty database with the public tables that a query joins, once its expressions were looked at.

    Raises:
        InvalidQuery: an expression calls what is not plain.
    """
    with empty_database() as empty:
        check_expressions([part for tree in query.trees for part in own_parts(tree)])
        for loaded in dimensions:
            loaded.create(empty)
        _check_asked(empty, query)
        yield empty


def _check_asked(empty: Empty, query: Query) -> None:
    """Refuse queries of public tables that are something else than in the words that people wrote."""
    for inner_query in (inner_query for tree in query.trees for inner_query in asked_of(tree)):
        written = different_words(parts_of(inner_query))
        try:
            check_written(empty, written, inner_query.args["from_"].this)
        except duckdb.Error as error:  # of public values only, so its text may be shown
            raise refused(error) from None
