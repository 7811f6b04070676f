"""Public priors from SQL: find the table, view or earlier release that a request names, check it, and encode it.

A prior is read without noise, so it must be public: all that DuckDB reads for it must be tables that no account
protects. That is asked in the snapshot in which its rows are read. While a statement is bound, no row is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import duckdb
import numpy as np
from sqlglot import exp

from dpsql.books.ledger.store import Books
from dpsql.books.people.visible_names import find_seen
from dpsql.books.reading.reads import Unclear, is_public, protected_among, snapshot, tables_read
from dpsql.books.releases.releases import find_releases, rows_table
from dpsql.core.domain import Attribute, Domain
from dpsql.core.names import fold, pick
from dpsql.core.prior import Prior
from dpsql.engines.duckdb.read_public import distinct_codes
from dpsql.engines.registry import find_source
from dpsql.engines.source import FoundView, Source
from dpsql.errors import InvalidArgument, UnknownName

_MOST_ROWS: Final = 5_000_000


@dataclass(frozen=True)
class PriorTable:
    """Where a prior's rows are, and which of its columns stand for which attribute.

    Attributes:
        name: as the request says it.
        table: the table, view or rows of a release.
        columns: for each attribute that it has, its own spelling of the column.
    """

    name: str
    table: exp.Expr
    columns: tuple[tuple[Attribute, str], ...]


def find_prior(
    cursor: duckdb.DuckDBPyConnection, text: str, search_path: str, source: Source, domain: Domain, by: str = ""
) -> PriorTable:
    """The public table that a request names as its prior; reads nothing but the catalogue.

    A user, `by`, names a release that they may see; the owner also tables and views.

    Raises:
        InvalidArgument: protected, possibly reads what is, or has other columns than the source.
        UnknownName: no table, view or published release of that name.
    """
    released = _released(cursor, text, source, by)
    with snapshot(cursor):
        return _find(cursor, text, search_path, source, domain, released, by)


def _find(
    cursor: duckdb.DuckDBPyConnection,
    text: str,
    search_path: str,
    source: Source,
    domain: Domain,
    released: Sequence[exp.Table],
    by: str,
) -> PriorTable:
    table = _release(cursor, text, released) if by else _public_table(cursor, text, search_path, released)
    names = [name for name, *_ in cursor.execute(f"DESCRIBE {_everything(table)}").fetchall()]
    own = {fold(column.name) for column in source.columns}
    other = [name for name in names if fold(name) not in own]
    if other:
        raise InvalidArgument(
            f"prior {text!r} has a column {other[0]!r} that {source.name!r} has not: give a view of the columns that "
            "both have"
        )
    matches = [(attribute, pick(attribute.name, names)) for attribute in domain]
    columns = tuple((attribute, name) for attribute, name in matches if name is not None)
    if not columns:
        raise InvalidArgument(f"prior {text!r} has none of the columns {', '.join(domain.names)}")
    return PriorTable(text, table, columns)


def _everything(table: exp.Expr) -> str:
    return exp.select("*").from_(table).sql(dialect="duckdb")


def _public_table(
    cursor: duckdb.DuckDBPyConnection, text: str, search_path: str, released: Sequence[exp.Table]
) -> exp.Expr:
    """The table, view, or rows of a release, checked to be public."""
    try:
        source = find_source(cursor, text, search_path)
        if is_public(cursor, source):
            return source.table()
        raise _private(text, source.name)
    except FoundView as view:
        catalog, schema, name = view.parts
        table = exp.table_(name, db=schema, catalog=catalog, quoted=True)
    except UnknownName:
        return _release(cursor, text, released)
    try:
        private = protected_among(cursor, _everything(table))
    except Unclear as unclear:
        raise _unclear(text, str(unclear)) from None
    if private is not None:
        raise _private(text, private)
    return table


def _released(cursor: duckdb.DuckDBPyConnection, text: str, source: Source, by: str) -> list[exp.Table]:
    """The rows of the published releases of that number or name; before the snapshot, for the books may begin one."""
    books = Books(cursor, source.catalog)
    entries = find_seen(books, text, by, shown_too=True) if by else find_releases(books, text)
    return [rows_table(books.catalog, entry) for entry in entries if entry.state == "published"]


def _release(cursor: duckdb.DuckDBPyConnection, text: str, released: Sequence[exp.Table]) -> exp.Table:
    """The rows of the one release of that number or name, which must be what is read."""
    if len(released) != 1:
        raise UnknownName(
            f"prior {text!r} is no public table or view, and no number or name of one published release"
        ) from None
    table = released[0]
    try:
        reads = tables_read(cursor, _everything(table))
    except Unclear as unclear:
        raise _unclear(text, str(unclear)) from None
    if reads != {(table.catalog, table.db, table.name)}:
        raise _unclear(text, "another table")
    return table


def _private(text: str, name: str) -> InvalidArgument:
    return InvalidArgument(
        f"prior {text!r} reads {name!r}, which is protected: a prior is read without noise, so it must be public"
    )


def _unclear(text: str, what: str) -> InvalidArgument:
    return InvalidArgument(
        f"prior {text!r} reads {what}, so dpsql cannot tell whether it is public: give a public table, or a view that "
        "asks public tables by plain expressions"
    )


def load_prior(
    cursor: duckdb.DuckDBPyConnection, text: str, search_path: str, source: Source, domain: Domain, by: str = ""
) -> Prior:
    """The distinct rows of the prior that a request names, in the codes of its attributes; see `find_prior`.

    Raises:
        InvalidArgument: it is not public, has no row, too many, or a value outside the declared domain.
        UnknownName: no table, view or published release of that name.
    """
    released = _released(cursor, text, source, by)
    with snapshot(cursor):
        return _load(cursor, _find(cursor, text, search_path, source, domain, released, by))


def _load(cursor: duckdb.DuckDBPyConnection, prior: PriorTable) -> Prior:
    attributes = [attribute for attribute, _ in prior.columns]
    try:
        codes, outside, weights = distinct_codes(cursor, prior.table, prior.columns, most=_MOST_ROWS + 1)
    except duckdb.InterruptException:
        raise
    except duckdb.Error:
        raise InvalidArgument(
            f"prior {prior.name!r} cannot be read: an expression fails on its rows, or there is not enough memory"
        ) from None
    if not len(weights):
        raise InvalidArgument(f"prior {prior.name!r} has no rows: give a public table with some")
    if len(weights) > _MOST_ROWS:
        raise InvalidArgument(f"prior {prior.name!r} has more than {_MOST_ROWS} different rows: give a sample of it")
    for attribute, is_outside in zip(attributes, outside, strict=True):
        if is_outside:
            raise InvalidArgument(
                f"prior {prior.name!r} has rows with a value of {attribute.name!r} outside its declared domain: give a "
                "view without them, or with other values for them"
            )
    order = np.lexsort(codes.T[::-1])  # the same on every run
    return Prior(tuple(a.name for a in attributes), codes[order], weights[order])
