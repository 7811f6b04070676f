"""The tables of a linked release as tables of a schema, with PRIMARY and FOREIGN KEYs, all or none.

A FOREIGN KEY needs columns that no two rows share, so where a link's are not so it has none.
"""

from __future__ import annotations

import duckdb
from sqlglot import exp

from dpsql.books.ledger.store import Books
from dpsql.books.releases.releases import Entry, ReleasedTable, rows_table
from dpsql.core.names import fold, quote, shorten
from dpsql.engines.duckdb.names import split_name
from dpsql.errors import BooksError, DpsqlError, InvalidArgument


def write_schema(books: Books, entry: Entry, schema: str) -> list[tuple[str, int]]:
    """Make the tables of a linked release in a schema of its database, which is made where it is not there.

    Args:
        books: of the database.
        entry: the release, published.
        schema: its name, as it is.

    Returns:
        The name of each table and its rows.

    Raises:
        InvalidArgument: the release is of one table, or a table is there already.
        DpsqlError: DuckDB cannot make them; says why.
    """
    if not entry.tables:
        raise InvalidArgument(f"{entry.called} is of one table: a schema is made of a release with linked := true")
    if not schema or fold(schema) in ("dpsql", "main", "information_schema", "pg_catalog"):
        raise InvalidArgument(f"schema is {shorten(schema)!r}: give the name of a new schema, such as 'synthetic'")
    cursor, home = books.cursor, f"{quote(books.catalog)}.{quote(schema)}"
    names = {released.table: (split_name(released.table) or (released.table,))[-1] for released in entry.tables}
    if len({name.lower() for name in names.values()}) < len(names):
        raise InvalidArgument(f"two tables of {entry.called} have one name in different schemas: copy them one by one")
    try:
        cursor.execute("BEGIN")
        cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {home}")
        cursor.execute(f"USE {home}")  # where DuckDB 1.5 looks for the table that a FOREIGN KEY names
        for place, released in enumerate(entry.tables):
            table, rows = f"{home}.{quote(names[released.table])}", _rows(books, entry, place)
            cursor.execute(f"CREATE TABLE {table} ({', '.join(_parts(books, entry, place, released, names))})")
            cursor.execute(f"INSERT INTO {table} FROM {rows}")
        cursor.execute("COMMIT")
    except duckdb.Error as error:  # what is in these tables was released, so its text may be shown
        _roll_back(cursor)
        raise DpsqlError(f"the schema {shorten(schema)!r} was not made: {error}") from None
    finally:
        cursor.execute("RESET SESSION search_path")
    for place, released in enumerate(entry.tables):
        made = exp.table_(names[released.table], db=schema, catalog=books.catalog, quoted=True)
        if _count(books, made) != _count(books, rows_table(books.catalog, entry, place)):
            raise BooksError(f"DuckDB did not write every row of {released.table!r}: drop the schema and call it again")
    return [(names[released.table], released.rows) for released in entry.tables]


def _count(books: Books, table: exp.Table) -> int:
    count = exp.select(exp.Count(this=exp.Star())).from_(table).sql(dialect="duckdb")
    return int(books.cursor.execute(count).fetchall()[0][0])


def _rows(books: Books, entry: Entry, place: int) -> str:
    return rows_table(books.catalog, entry, place).sql(dialect="duckdb")


def _parts(books: Books, entry: Entry, place: int, released: ReleasedTable, names: dict[str, str]) -> list[str]:
    """The columns and constraints of a table."""
    described = exp.Describe(this=rows_table(books.catalog, entry, place)).sql(dialect="duckdb")
    columns = books.cursor.execute(described).fetchall()
    parts = [f"{quote(name)} {kind}" for name, kind, *_ in columns]
    if released.primary:
        parts.append(f"PRIMARY KEY ({_listed(released.primary)})")
    for other in released.unique:
        if {*other} != {*released.primary}:
            parts.append(f"UNIQUE ({_listed(other)})")
    above = next((one for one in entry.tables if one.table == released.parent), None)
    if above is not None and any({*released.references} == {*one} for one in (above.primary, *above.unique)):
        named = f"{quote(names[above.table])} ({_listed(released.references)})"
        parts.append(f"FOREIGN KEY ({_listed(released.key)}) REFERENCES {named}")
    return parts


def _listed(columns: tuple[str, ...]) -> str:
    return ", ".join(map(quote, columns))


def _roll_back(cursor: duckdb.DuckDBPyConnection) -> None:
    try:
        cursor.execute("ROLLBACK")
    except duckdb.Error:  # none is open
        return
