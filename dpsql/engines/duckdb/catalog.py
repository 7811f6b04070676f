"""Sources: find a table from the name that a user wrote, and its columns, in DuckDB's catalogue. Reads no row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import duckdb
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dpsql.core.names import as_text, fold, quote
from dpsql.engines.duckdb.names import DUCKDB, KINDS, LONGEST, current_schema, split_name
from dpsql.engines.duckdb.stubs import is_stub, place_of
from dpsql.engines.source import Column, FoundView, Source
from dpsql.errors import DpsqlError, InvalidArgument, UnknownName


def find_source(cursor: duckdb.DuckDBPyConnection, text: str, search_path: str = "") -> Source:
    """The table that `text` names for a caller with that search path.

    Args:
        cursor: a connection to the instance; its own search path is set.
        text: `adult`, `main.adult`, `bank.main."my clients"`; a table whose whole name is `text` is found too.
        search_path: the caller's setting, for USE changes where a bare name is looked up.

    Raises:
        UnknownName: no such committed table.
        InvalidArgument: it is a view.
    """
    if not text.strip() or len(text) > LONGEST:
        raise InvalidArgument("the table's name is empty or longer than 4096 characters")
    catalog, schema = current_schema(cursor, search_path)
    source = _lookup(cursor, catalog, schema, text)
    return find_parts(cursor, split_name(text) or (), catalog, schema, text) if source is None else source


def find_parts(
    cursor: duckdb.DuckDBPyConnection,
    parts: Sequence[str],
    catalog: str,
    schema: str,
    shown: str = "",
    known_source: Source | None = None,
) -> Source:
    """The table that the parts of a name mean to a caller in that database and schema; see `find_source`.

    Where it is `known_source`, which was found by the same call, it is not looked up again.
    """
    candidates: list[tuple[str, str, str]] = []
    if len(parts) == 1 and parts[0] != shown:
        candidates.append((catalog, schema, parts[0]))
    elif len(parts) == 2:
        candidates += [(catalog, parts[0], parts[1]), (parts[0], "main", parts[1])]
    elif len(parts) == 3:
        candidates.append((parts[0], parts[1], parts[2]))
    for candidate in candidates:
        source = (
            known_source
            if known_source is not None and candidate == known_source.parts
            else _lookup(cursor, *candidate)
        )
        if source is not None:
            return source
    raise UnknownName(
        f"there is no table {shown or '.'.join(parts)!r} (a TEMP table, a data frame of Python, or a table created in "
        "a transaction that is still open, is not seen: create it as a table and COMMIT first)"
    )


_TABLES: Final = """
    SELECT database_name, schema_name, table_name, sql, database_oid, table_oid, coalesce(comment, '')
    FROM duckdb_tables() WHERE NOT internal AND NOT temporary AND schema_name <> 'dpsql' AND
"""
_SPELLED: Final = _TABLES + "database_name = ? AND schema_name = ? AND table_name = ?"
_FOLDED: Final = (
    _TABLES + "lower(database_name) = lower(?) AND lower(schema_name) = lower(?) AND lower(table_name) = lower(?)"
)
_VIEW: Final = """
    SELECT database_name, schema_name, view_name, sql FROM duckdb_views()
    WHERE NOT internal AND lower(database_name) = lower(?) AND lower(schema_name) = lower(?)
      AND lower(view_name) = lower(?)
"""


def spelled(cursor: duckdb.DuckDBPyConnection, wanted: tuple[str, str, str]) -> list[tuple[Any, ...]]:
    """Database, schema, name and definition of the table that is called just so, whatever the collation."""
    return [row for row in cursor.execute(_SPELLED, wanted).fetchall() if row[:3] == wanted]


def _lookup(cursor: duckdb.DuckDBPyConnection, catalog: str, schema: str, name: str) -> Source | None:
    wanted = (catalog, schema, name)
    _refuse_foreign(cursor, wanted)
    try:
        spelled_so = spelled(cursor, wanted)  # most are, and it is found sooner
        rows = [] if spelled_so else cursor.execute(_FOLDED, wanted).fetchall()
        views = [] if spelled_so else cursor.execute(_VIEW, wanted).fetchall()
    except duckdb.InterruptException:
        raise
    except duckdb.Error:  # its text may quote the connection string of a database that does not answer
        raise DpsqlError("an attached database does not list its tables: DETACH it, or mend the connection") from None
    spelled_so += [row for row in rows if all(fold(a) == fold(b) for a, b in zip(row, wanted, strict=False))]
    if not spelled_so:
        for *view, definition in views:
            raise FoundView((view[0], view[1], view[2]), definition)
        return None
    database, owner, table, definition, home, oid, comment = spelled_so[0]
    shown = exp.Describe(this=exp.table_(table, db=owner, catalog=database, quoted=True))
    try:  # quicker than duckdb_columns(), which lists those of every table and of every release
        columns = cursor.execute(shown.sql(dialect="duckdb")).fetchall()
    except duckdb.CatalogException:  # dropped meanwhile
        return None
    names = [column[0] for column in columns]
    generated, collated = _generated(definition, names), _collated(definition, names)
    listed = (
        Column(name, kind, null == "YES", name in generated, name in collated) for name, kind, null, *_ in columns
    )
    place = place_of(cursor, database, owner, table) if is_stub(definition) else None
    return Source(database, owner, table, tuple(listed), (home, oid), comment, place)


def _refuse_foreign(cursor: duckdb.DuckDBPyConnection, parts: tuple[str, str, str]) -> None:
    """Refuse a table of a database that is no DuckDB database: one of Postgres, SQLite, MySQL, DuckLake, Iceberg, ….

    Its books would be written there, without DuckDB's transactions; its path is a connection string with a password.

    Raises:
        InvalidArgument: it is one; says what will work.
    """
    for catalog, kind, *_ in cursor.execute(KINDS).fetchall():
        if fold(catalog) == fold(parts[0]) and kind != DUCKDB:
            shown = ".".join(part if part.isidentifier() else quote(part) for part in (catalog, *parts[1:]))
            raise InvalidArgument(
                f"{shown} is in {catalog!r}, a database of type {kind}, and dpsql works on tables of DuckDB databases: "
                f"copy it into one, CREATE TABLE … AS FROM {shown}, and name the copy; or leave the rows there, CALL "
                f"dp_source({as_text(parts[2])}, engine := …)"
            )


def _generated(definition: str, names: Sequence[str]) -> set[str]:
    """The generated columns of a table, from its definition; all, if it has some and cannot be parsed."""
    kind = exp.GeneratedAsIdentityColumnConstraint | exp.ComputedColumnConstraint
    return _constrained(definition, names, "GENERATED ALWAYS", kind)


def _collated(definition: str, names: Sequence[str]) -> set[str]:
    """The columns of a table that have a collation; all, if it has some and cannot be parsed."""
    return _constrained(definition, names, "COLLATE", exp.CollateColumnConstraint)


def _constrained(definition: str, names: Sequence[str], words: str, kind: Any) -> set[str]:
    """The columns whose definition has a constraint of that kind, which is written with those words."""
    if words not in definition.upper():
        return set()
    try:
        tree = sqlglot.parse_one(definition, read="duckdb")
    except SqlglotError:
        return set(names)
    return {
        column.name
        for column in tree.find_all(exp.ColumnDef)
        if any(isinstance(constraint.kind, kind) for constraint in column.args.get("constraints") or [])
    }
