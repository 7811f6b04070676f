"""Public tables that a query joins: read in full, checked to have one row for each key, and put beside the domain.

They are read without noise, so they must be public: that is asked in the snapshot in which they are read. They are read
while a statement is bound, because what is read takes part in the release's key: another content is another question.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

import duckdb
from sqlglot import exp

from dpsql.books.reading.reads import is_public, snapshot
from dpsql.engines.duckdb.frames import from_rows
from dpsql.engines.duckdb.ticks import first_equal
from dpsql.engines.source import written_alike
from dpsql.errors import InvalidQuery
from dpsql.evaluation.lookups import Loaded
from dpsql.language.scope import Dimension

_MOST_ROWS: Final = 200_000


def load(cursor: duckdb.DuckDBPyConnection, dimension: Dimension, trees: Iterable[exp.Expr]) -> Loaded:
    """Read a public table.

    Args:
        cursor: a connection of the caller's.
        dimension: the table, as a query joins it.
        trees: all expressions of the query.

    Raises:
        InvalidQuery: it is not public (any more), too large, two of its rows have the same key, or a column of it that
            is read has a collation.
    """
    _check_collations(dimension, trees)
    texts = [
        exp.alias_(
            exp.cast(exp.column(exp.to_identifier(name, quoted=True)), "VARCHAR", dialect="duckdb"), f"dpsql_d{number}"
        )
        for number, (name, _) in enumerate(dimension.columns)
    ]
    name = dimension.origin.name
    query = exp.select(*texts).from_(dimension.origin.table()).limit(_MOST_ROWS + 1)
    try:
        with snapshot(cursor):
            rows = (
                cursor.execute(query.sql(dialect="duckdb")).fetchall() if is_public(cursor, dimension.origin) else None
            )
    except duckdb.InterruptException:
        raise
    except duckdb.Error:
        raise InvalidQuery(f"query: {name!r} cannot be read: it was changed meanwhile, or memory is short") from None
    if rows is None:
        raise InvalidQuery(f"query: {name!r} is not a public table: it is protected, or no plain table any more")
    if len(rows) > _MOST_ROWS:
        raise InvalidQuery(f"query: {name!r} has more than {_MOST_ROWS} rows, too many to join: join a smaller table")
    complete = [row for row in rows if all(row[key] is not None for key in dimension.keys)]
    keys = [first_equal(cursor, [row[key] for row in complete], dimension.columns[key][1]) for key in dimension.keys]
    if keys and len({*zip(*keys, strict=True)}) < len(complete):
        columns = ", ".join(dimension.columns[key][0] for key in dimension.keys)
        raise InvalidQuery(
            f"query: two rows of {name!r} have the same {columns}, so a row of the protected table could be counted "
            "twice: join it on its key"
        )
    digest = hashlib.sha256(repr((dimension.columns, dimension.keys, sorted(map(repr, rows)))).encode()).hexdigest()
    names = [f"dpsql_d{number}" for number in range(len(dimension.columns))]
    return Loaded(dimension, from_rows(rows, names), digest)


def _check_collations(dimension: Dimension, trees: Iterable[exp.Expr]) -> None:
    """Refuse to read a column with a collation, because texts are compared by their bytes where queries are evaluated.

    Raises:
        InvalidQuery: says how the column gets rid of it.
    """
    read_columns = (column for tree in trees for column in tree.find_all(exp.Column))
    read = {column.name for column in read_columns if column.table == dimension.name}
    for number, (name, _) in enumerate(dimension.columns):
        if f"dpsql_d{number}" in read and dimension.origin.column(name).collated:
            raise InvalidQuery(
                f"query: column {name!r} of {dimension.origin.name!r} has a collation, but joins compare texts by "
                f"their bytes: write each text in one way first, as in {written_alike(dimension.origin, name)}"
            )
