"""Sources: find a table from the name that a user wrote, and its columns, in DuckDB's catalogue. Reads no row."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import duckdb
from sqlglot import exp

from dpsql.errors import InvalidArgument, UnknownName

_PART = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^".]+?))\s*(\.|$)')
_LONGEST: Final = 4096


@dataclass(frozen=True)
class Column:
    """A column of a source: its name, its DuckDB type as text, and whether it may hold NULL."""

    name: str
    type: str
    nullable: bool


@dataclass(frozen=True)
class Source:
    """A table as the catalogue spells it."""

    catalog: str
    schema: str
    name: str
    columns: tuple[Column, ...]

    @property
    def key(self) -> str:
        """What the books of its database call it: its name, after its schema's unless that is main."""
        parts = [self.name] if self.schema == "main" else [self.schema, self.name]
        return ".".join(quote(part) if set(part) & {".", '"'} else part for part in parts)

    @property
    def parts(self) -> tuple[str, str, str]:
        """Database, schema and table."""
        return (self.catalog, self.schema, self.name)

    def table(self) -> exp.Table:
        """The source as an expression, fully qualified."""
        return exp.table_(self.name, db=self.schema, catalog=self.catalog, quoted=True)

    def column(self, name: str) -> Column:
        """The column of that name, whatever its case.

        Raises:
            UnknownName: there is none.
        """
        for column in self.columns:
            if column.name.casefold() == name.casefold():
                return column
        names = ", ".join(column.name for column in self.columns)
        raise UnknownName(f"table {self.name!r} has no column {name!r}; it has {names}")


def quote(name: str) -> str:
    """An identifier in double quotes."""
    return '"' + name.replace('"', '""') + '"'


def split_name(text: str) -> tuple[str, ...] | None:
    """The parts of a dotted name, quoted or not; None if it is not one.

    >>> split_name('bank."my schema".clients')
    ('bank', 'my schema', 'clients')
    """
    parts: list[str] = []
    place = 0
    while True:
        found = _PART.match(text, place)
        if not found or len(parts) == 3:
            return None
        parts.append(found[1].replace('""', '"') if found[1] else found[2])
        place = found.end()
        if found[3] != ".":
            return tuple(parts) if place == len(text) else None


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
    if not text.strip() or len(text) > _LONGEST:
        raise InvalidArgument("the table's name is empty or longer than 4096 characters")
    catalog, schema = _current(cursor, search_path)
    candidates = [(catalog, schema, text)]
    parts = split_name(text) or ()
    if len(parts) == 1:
        candidates.append((catalog, schema, parts[0]))
    elif len(parts) == 2:
        candidates += [(catalog, parts[0], parts[1]), (parts[0], "main", parts[1])]
    elif len(parts) == 3:
        candidates.append((parts[0], parts[1], parts[2]))
    for candidate in candidates:
        source = _lookup(cursor, *candidate)
        if source is not None:
            return source
    raise UnknownName(
        f"there is no table {text!r} (a TEMP table, or one created in a transaction that is still open, is not seen: "
        "create it as a table and COMMIT first)"
    )


def _current(cursor: duckdb.DuckDBPyConnection, search_path: str) -> tuple[str, str]:
    if search_path:
        try:
            cursor.execute("SET search_path = " + exp.Literal.string(search_path).sql(dialect="duckdb"))
        except duckdb.Error:
            raise UnknownName("the connection's search path is not seen by others: COMMIT its schema first") from None
    row = cursor.execute("SELECT current_database(), current_schema()").fetchall()[0]
    return row[0], row[1]


_TABLE: Final = """
    SELECT database_name, schema_name, table_name FROM duckdb_tables()
    WHERE NOT internal AND NOT temporary AND lower(database_name) = lower(?) AND lower(schema_name) = lower(?)
      AND lower(table_name) = lower(?) AND schema_name <> 'dpsql'
"""
_VIEW: Final = """
    SELECT 1 FROM duckdb_views()
    WHERE NOT internal AND lower(database_name) = lower(?) AND lower(schema_name) = lower(?)
      AND lower(view_name) = lower(?)
"""
_COLUMNS: Final = """
    SELECT column_name, data_type, is_nullable FROM duckdb_columns()
    WHERE database_name = ? AND schema_name = ? AND table_name = ? ORDER BY column_index
"""


def _lookup(cursor: duckdb.DuckDBPyConnection, catalog: str, schema: str, name: str) -> Source | None:
    found = cursor.execute(_TABLE, [catalog, schema, name]).fetchall()
    if not found:
        if cursor.execute(_VIEW, [catalog, schema, name]).fetchall():
            raise InvalidArgument(f"{name!r} is a view: name the table that it reads, for the budget is the table's")
        return None
    columns = cursor.execute(_COLUMNS, list(found[0])).fetchall()
    database, owner, table = found[0]
    return Source(database, owner, table, tuple(Column(*column) for column in columns))


def enum_values(type_name: str) -> tuple[str, ...] | None:
    """The members of an ENUM type, None for other types.

    >>> enum_values("ENUM('no', 'yes')")
    ('no', 'yes')
    """
    if not type_name.startswith("ENUM("):
        return None
    tree = exp.DataType.build(type_name, dialect="duckdb")
    return tuple(member.name for member in tree.expressions)


def is_read_only(cursor: duckdb.DuckDBPyConnection, catalog: str) -> bool:
    """Whether the database cannot be written."""
    rows = cursor.execute("SELECT readonly FROM duckdb_databases() WHERE database_name = ?", [catalog]).fetchall()
    return bool(rows and rows[0][0])
