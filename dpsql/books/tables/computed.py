"""Computed columns in queries: a table as the query that a user would write who knows what its columns are made of."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb
from sqlglot import exp

from dpsql.books.ledger.store import Books
from dpsql.books.tables import facts
from dpsql.core.computed import in_levels
from dpsql.core.domain import Attribute
from dpsql.core.names import quote
from dpsql.engines.duckdb.types import data_type
from dpsql.engines.source import Source
from dpsql.evaluation.computed import projections, type_of
from dpsql.language.written import parsed
from dpsql.runtime.process_settings import deep_recursion


def with_computed(cursor: duckdb.DuckDBPyConnection, source: Source) -> exp.Query | None:
    """A query of a table in which computed columns are what they are made of; None of a table without any.

    So nobody reads what is stored in them, and a query costs, and is as exact, as if it had been written so.
    """
    books = Books(cursor, source.catalog)
    types = {column.name: column.type for column in source.columns}
    computed = [
        attribute for attribute in facts.computed(books, source.key) if types.get(attribute.name) == attribute.type
    ]
    if not computed:
        return None
    declared = facts.declared(books, source.key)
    levels = [
        [(attribute, _value(source, declared, attribute)) for attribute in level] for level in in_levels(computed)
    ]
    text = projections(levels, ".".join(map(quote, source.parts)), source.name, "* REPLACE ({})")
    with deep_recursion():
        (tree,) = parsed(f"FROM {text}")
    assert isinstance(tree, exp.Query)
    return tree


def _value(source: Source, declared: Mapping[str, Attribute], attribute: Attribute) -> str:
    """The expression, cast to the column's type only if need be: so a sum of columns stays one."""
    if type_of(source, declared, attribute) == attribute.type:
        return f"(\n{attribute.computed_as}\n)"
    return f"CAST((\n{attribute.computed_as}\n) AS {data_type(attribute.type).sql(dialect='duckdb')})"
