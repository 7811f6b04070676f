"""The tables of a linked release as tables of a schema, with PRIMARY and FOREIGN KEYs, all or none.

A column that is NOT NULL in the table that was released is so in its copy, unless its synthetic values are missing, as
those of an excluded column are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

import duckdb
from sqlglot import exp

from dpsql.books.ledger.store import Books
from dpsql.books.releases.keys import keys_of, own_names
from dpsql.books.releases.releases import Entry, digest_of_table, rows_table
from dpsql.core.names import fold, quote, shorten
from dpsql.errors import BooksError, DpsqlError, InvalidArgument

_WORDS: Final = {"primary": "PRIMARY KEY", "unique": "UNIQUE", "foreign": "FOREIGN KEY"}
_ADVICE: Final = "drop or rename it, or give another name"


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
    _check(entry, schema)
    return books.transaction(lambda: _write(books, entry, schema))


def replace_schema(books: Books, before: Entry | None, entry: Entry, schema: str) -> None:
    """Inside a transaction: the same, in place of the tables of an earlier release, which nobody has changed.

    Args:
        books: of the database.
        before: whose tables may be there.
        entry: the release, published.
        schema: its name.

    Raises:
        InvalidArgument: see `write_schema`; or a table is there that holds something else.
        DpsqlError: DuckDB cannot make them; says why.
    """
    _check(entry, schema)
    there = _tables(books, schema)
    places = {name.lower(): place for place, name in enumerate(own_names(before))} if before is not None else {}
    copies = [name for name in there if before is not None and name.lower() in places]
    for name in there:
        place = places.get(name.lower())
        if place is None or before is None:
            if name.lower() in {own.lower() for own in own_names(entry)}:
                raise InvalidArgument(f"{_there(schema, name)} is there already: {_ADVICE}")
        elif digest_of_table(books, _made(books, schema, name)) != digest_of_table(
            books, rows_table(books.catalog, before, place)
        ):
            raise InvalidArgument(f"{_there(schema, name)} holds other rows than release {before.number}: {_ADVICE}")
    if before is not None and before.number == entry.number and len(copies) == len(places):
        return
    with _own_words(schema):
        for name in sorted(copies, key=lambda name: places[name.lower()], reverse=True):
            books.cursor.execute(f"DROP TABLE {_made(books, schema, name).sql(dialect='duckdb')}")
    _write(books, entry, schema)


def _there(schema: str, name: str) -> str:
    return f"schema is {shorten(schema)!r}, where a table {shorten(name)!r}"


def _check(entry: Entry, schema: str) -> None:
    if not entry.tables:
        raise InvalidArgument(f"{entry.called} is of one table: a schema is made of a release with linked := true")
    if not schema or fold(schema) in ("dpsql", "main", "information_schema", "pg_catalog"):
        raise InvalidArgument(f"schema is {shorten(schema)!r}: give the name of a new schema, such as 'synthetic'")
    own_names(entry)


def _write(books: Books, entry: Entry, schema: str) -> list[tuple[str, int]]:
    cursor, home, names = books.cursor, f"{quote(books.catalog)}.{quote(schema)}", own_names(entry)
    try:
        with _own_words(schema):
            cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {home}")
            cursor.execute(f"USE {home}")  # where DuckDB 1.5 looks for the table that a FOREIGN KEY names
            for place, name in enumerate(names):
                cursor.execute(f"CREATE TABLE {home}.{quote(name)} ({', '.join(_parts(books, entry, place))})")
                rows = rows_table(books.catalog, entry, place).sql(dialect="duckdb")
                cursor.execute(f"INSERT INTO {home}.{quote(name)} FROM {rows}")
    finally:
        with suppress(duckdb.Error):  # in a transaction that failed; who rolls it back closes the connection, too
            cursor.execute("RESET SESSION search_path")
    for place, name in enumerate(names):
        if _count(books, _made(books, schema, name)) != _count(books, rows_table(books.catalog, entry, place)):
            raise BooksError(f"DuckDB did not write every row of {name!r}, so nothing was made: call it again")
    return [(name, released.rows) for name, released in zip(names, entry.tables, strict=True)]


@contextmanager
def _own_words(schema: str) -> Iterator[None]:
    """Says what DuckDB could not make: what is in these tables was released, so its text may be shown."""
    try:
        yield
    except duckdb.TransactionException:  # another session's: the transaction is tried again
        raise
    except duckdb.Error as error:
        raise DpsqlError(f"the schema {shorten(schema)!r} was not made: {error}") from None


def _tables(books: Books, schema: str) -> list[str]:
    sql = (
        "SELECT table_name FROM duckdb_tables() WHERE database_name = $catalog AND lower(schema_name) = lower($schema)"
    )
    given = {"catalog": books.catalog, "schema": schema}
    return [name for (name,) in books.cursor.execute(sql, given).fetchall()]


def _made(books: Books, schema: str, name: str) -> exp.Table:
    return exp.table_(name, db=schema, catalog=books.catalog, quoted=True)


def _count(books: Books, table: exp.Table) -> int:
    count = exp.select(exp.Count(this=exp.Star())).from_(table).sql(dialect="duckdb")
    return int(books.cursor.execute(count).fetchall()[0][0])


def _parts(books: Books, entry: Entry, place: int) -> list[str]:
    """The columns and constraints of a table."""
    described = exp.Describe(this=rows_table(books.catalog, entry, place)).sql(dialect="duckdb")
    columns = books.cursor.execute(described).fetchall()
    required = _required(books, entry, place, [name for name, *_ in columns])
    parts = [f"{quote(name)} {kind}{' NOT NULL' if name in required else ''}" for name, kind, *_ in columns]
    for key in keys_of(entry, place):
        above = f" REFERENCES {quote(key.table)} ({_listed(key.references)})" if key.table else ""
        parts.append(f"{_WORDS[key.kind]} ({_listed(key.columns)}){above}")
    return parts


def _required(books: Books, entry: Entry, place: int, columns: Sequence[str]) -> frozenset[str]:
    """The columns to be NOT NULL: those that are so in the source, and have all their synthetic values."""
    wanted = [name for name in columns if name in entry.tables[place].required]
    if not wanted:
        return frozenset()
    missing = [exp.CountIf(this=exp.Is(this=exp.column(name, quoted=True), expression=exp.null())) for name in wanted]
    counts = exp.select(*missing).from_(rows_table(books.catalog, entry, place)).sql(dialect="duckdb")
    missing_values = books.cursor.execute(counts).fetchall()[0]
    return frozenset(name for name, count in zip(wanted, missing_values, strict=True) if count == 0)


def _listed(columns: tuple[str, ...]) -> str:
    return ", ".join(map(quote, columns))
