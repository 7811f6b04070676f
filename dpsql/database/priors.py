"""Public priors from SQL: find the table, view or earlier release that a request names, check it, and encode it.

A prior is read without noise, so it must be public: a protected table is refused, and so is a view unless all that it
reads is known. What a view reads must be tables and views by plain names, no functions in FROM; a name stands for all
tables of that name, wherever they are: better refuse a harmless namesake than read a private row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import duckdb
import numpy as np
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dpsql.database.catalog import FoundView, Source, find_source, split_name
from dpsql.database.encoding import encode
from dpsql.database.public import is_protected, protected_tables
from dpsql.database.store import Books, rows_table
from dpsql.domain import Attribute, Domain
from dpsql.errors import InvalidArgument, UnknownName
from dpsql.names import fold, pick
from dpsql.prior import Prior

_MOST_ROWS: Final = 5_000_000
_DEEPEST: Final = 20


@dataclass(frozen=True)
class PriorTable:
    """Where a prior's rows are, and which of its columns stand for which attribute.

    Attributes:
        name: as the request says it.
        table: the table, view or rows of a release.
        columns: for each attribute that it has, its own spelling of the column.
    """

    name: str
    table: exp.Table
    columns: tuple[tuple[Attribute, str], ...]


def find_prior(
    cursor: duckdb.DuckDBPyConnection, text: str, search_path: str, source: Source, domain: Domain
) -> PriorTable:
    """The public table that a request names as its prior; reads nothing but the catalogue.

    Raises:
        InvalidArgument: protected, possibly reads what is, or has other columns than the source.
        UnknownName: no table, view or published release of that name.
    """
    table = _find(cursor, text, search_path, source)
    try:
        described = cursor.execute(f"DESCRIBE {exp.select('*').from_(table).sql(dialect='duckdb')}").fetchall()
    except duckdb.Error:
        raise InvalidArgument(f"prior {text!r} cannot be read: give a public table, or a view that works") from None
    names = [name for name, *_ in described]
    known = {fold(column.name) for column in source.columns}
    other = [name for name in names if fold(name) not in known]
    if other:
        raise InvalidArgument(
            f"prior {text!r} has a column {other[0]!r} that {source.name!r} has not: give a view of the columns that "
            "both have"
        )
    found = [(attribute, pick(attribute.name, names)) for attribute in domain]
    columns = tuple((attribute, name) for attribute, name in found if name is not None)
    if not columns:
        raise InvalidArgument(f"prior {text!r} has none of the columns {', '.join(domain.names)}")
    return PriorTable(text, table, columns)


def _find(cursor: duckdb.DuckDBPyConnection, text: str, search_path: str, source: Source) -> exp.Table:
    protected = protected_tables(cursor)
    try:
        found = find_source(cursor, text, search_path)
    except FoundView as view:
        _check_view(cursor, text, view, protected)
        catalog, schema, name = view.parts
        return exp.table_(name, db=schema, catalog=catalog, quoted=True)
    except UnknownName:
        releases = [entry for entry in Books(cursor, source.catalog).find_releases(text) if entry.state == "published"]
        if len(releases) != 1:
            raise UnknownName(
                f"prior {text!r} is no public table or view, and no number or name of one published release"
            ) from None
        return rows_table(source.catalog, releases[0])
    if is_protected(cursor, found):
        raise InvalidArgument(
            f"prior {text!r} is a protected table: a prior is read without noise, so it must be public"
        )
    return found.table()


def _check_view(cursor: duckdb.DuckDBPyConnection, text: str, view: FoundView, protected: set[tuple[str, str]]) -> None:
    """Refuse a view unless all that it reads is known: public tables, and views of them, each by a plain name.

    A plain name may mean a table of that name in any schema, so none of them may be protected.
    """
    private = {(split_name(key) or (key,))[-1] for _, key in protected}
    tables = {fold(name) for (name,) in cursor.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    views: dict[str, list[str]] = {}
    for name, definition in cursor.execute("SELECT view_name, sql FROM duckdb_views() WHERE NOT internal").fetchall():
        views.setdefault(fold(name), []).append(definition)
    sql = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE NOT internal"
    macros = {fold(name) for (name,) in cursor.execute(sql).fetchall()}
    waiting, seen = [view.definition], set[str]()
    while waiting:
        definition = waiting.pop()
        seen.add(definition)
        if len(seen) > _DEEPEST:
            raise InvalidArgument(f"prior {text!r} is a view of too many views: give a public table")
        for name in _read_by(definition, text, private, macros):
            if name in private or (name not in tables and name not in views):
                raise _unclear(text, name)
            waiting += [other for other in views.get(name, ()) if other not in seen]


def _unclear(text: str, what: str) -> InvalidArgument:
    return InvalidArgument(
        f"prior {text!r} is a view that names {what!r}, which is protected, no plain table, or runs code of its own: "
        "give a public table"
    )


def _read_by(definition: str, text: str, private: set[str], macros: set[str]) -> set[str]:
    """The names, in lower case, of the tables and views that a view's definition reads.

    Raises:
        InvalidArgument: it names a protected table or a macro, calls a function in FROM, or cannot be parsed.
    """
    try:
        tree = sqlglot.parse_one(definition, read="duckdb")
        words = {fold(token.text) for token in sqlglot.tokenize(definition, read="duckdb")}
    except (SqlglotError, RecursionError):
        raise InvalidArgument(f"prior {text!r} is a view that cannot be checked: give a public table") from None
    words |= {fold(part) for word in words for part in word.replace('"', " ").replace(".", " ").split()}
    for word in sorted(words):
        if word in private or word in macros or word.startswith("dp_"):
            raise _unclear(text, word)
    if not (isinstance(tree, exp.Create) and tree.kind == "VIEW" and isinstance(tree.expression, exp.Query)):
        raise InvalidArgument(f"prior {text!r} is a view that cannot be checked: give a public table")
    query = tree.expression
    named = {fold(part.alias) for part in query.find_all(exp.CTE)}
    found = set()
    for table in query.find_all(exp.Table):
        plain = isinstance(table.this, exp.Identifier) and not any(table.args.get(k) for k in ("version", "pivots"))
        name = fold(table.name)
        if not plain or _looks_around(table):
            raise _unclear(text, table.sql(dialect="duckdb"))
        if name not in named or table.args.get("db"):
            found.add(name)
    return found


def _looks_around(table: exp.Table) -> bool:
    """Whether it is in DuckDB's own schemas, which tell of all tables."""
    parts = {fold(part.name) for part in table.parts}
    return bool(parts & {"information_schema", "pg_catalog", "system", "temp"}) or fold(table.name).startswith(
        ("duckdb_", "pragma_", "sqlite_", "pg_")
    )


def load_prior(cursor: duckdb.DuckDBPyConnection, prior: PriorTable) -> Prior:
    """The distinct rows of a prior in the codes of its attributes.

    Raises:
        InvalidArgument: it has no row, too many, or a value outside the declared domain; names the column.
    """
    attributes = [attribute for attribute, _ in prior.columns]
    mark = "null"
    while any(fold(name).startswith(mark) for attribute, other in prior.columns for name in (attribute.name, other)):
        mark += "_"
    columns, failed = [], []
    for place, (attribute, name) in enumerate(prior.columns):
        kind = exp.DataType.build(attribute.type, dialect="duckdb")
        columns.append(exp.alias_(exp.TryCast(this=_column(name), to=kind), attribute.name, quoted=True))
        columns.append(exp.alias_(exp.Is(this=_column(name), expression=exp.null()), f"{mark}{place}"))
        lost = exp.Is(this=_column(attribute.name), expression=exp.null())  # a value that is not of the column's type
        failed.append(exp.alias_(exp.and_(exp.not_(exp.column(f"{mark}{place}")), lost), f"f{place}"))
    rows = exp.select(*columns).from_(prior.table).subquery("rows")
    codes = [exp.alias_(encode(attribute.inner), f"c{place}") for place, attribute in enumerate(attributes)]
    encoded = exp.select(*codes, *failed).from_(rows)
    grouped = exp.select("*", "count(*) AS n").from_(encoded.subquery("codes")).group_by("ALL").limit(_MOST_ROWS + 1)
    try:
        found = cursor.execute(grouped.sql(dialect="duckdb")).fetchnumpy()
    except duckdb.InterruptException:
        raise
    except duckdb.Error as error:  # public rows: its text may be shown
        raise InvalidArgument(f"prior {prior.name!r} cannot be read: {error}") from None
    weights = np.asarray(found["n"], np.float64)
    if not len(weights):
        raise InvalidArgument(f"prior {prior.name!r} has no rows: give a public table with some")
    if len(weights) > _MOST_ROWS:
        raise InvalidArgument(f"prior {prior.name!r} has more than {_MOST_ROWS} different rows: give a sample of it")
    for place, attribute in enumerate(attributes):
        outside = np.ma.getmaskarray(np.ma.asarray(found[f"c{place}"])) | np.asarray(found[f"f{place}"], bool)
        if outside.any():
            raise InvalidArgument(
                f"prior {prior.name!r} has {int(weights[outside].sum())} rows with a value of {attribute.name!r} "
                "outside its declared domain: give a view without them, or with other values for them"
            )
    codes_found = np.stack([np.asarray(found[f"c{place}"], np.int64) for place in range(len(attributes))], axis=1)
    order = np.lexsort(codes_found.T[::-1])  # the same on every run
    return Prior(tuple(a.name for a in attributes), codes_found[order], weights[order])


def _column(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))
