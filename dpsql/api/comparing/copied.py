"""A protected table as another process gets it: a copy in a file, and all that its owner said of it.

The copy has an account of its own, which ends with the process. So nothing is charged to the table, and whatever is
made of the copy is private: it is deleted, and only figures are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dpsql.books.ledger.store import Books
from dpsql.books.tables import facts
from dpsql.books.tables.links import link_of
from dpsql.core.constraint import Constraint
from dpsql.core.domain import attribute_from, fields_of
from dpsql.core.names import quote
from dpsql.engines.duckdb.calls import literal
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.registry import find_source
from dpsql.engines.source import HOST, Column, Source
from dpsql.errors import InvalidArgument
from dpsql.owner.periods import check_whole
from dpsql.owner.protect import account_of, domain_of, protect

_AT: Final = "dpsql_copied"
_MEMORY: Final = "memory"
"""What DuckDB calls a database that is in memory."""


@dataclass(frozen=True)
class Copied:
    """What a process needs to protect a copy as the table is protected.

    Attributes:
        path: of the DuckDB file that holds the rows, and those of the public table.
        tables: the statements that make both tables anew, empty, in order.
        source: schema and name of the table.
        prior: of the public table; None for none.
        delta: of the account.
        neighbours: of its promise: add_remove or replace_one.
        unit, unit_rows: the privacy unit's column, and how many rows of one unit count; None for rows.
        attributes: the declared domains, as the books have them.
        constraints: predicates, and the columns of each.
        prior_rows: so many rows of the public table only, from a fixed order by chance; None for all.
        digests: of the rows of the table and of the public one, whatever their order is.
    """

    path: str
    tables: tuple[str, ...]
    source: tuple[str, str]
    prior: tuple[str, str] | None
    delta: float
    neighbours: str
    unit: str | None
    unit_rows: int | None
    attributes: tuple[Mapping[str, Any], ...]
    constraints: tuple[tuple[str, tuple[str, ...]], ...]
    prior_rows: int | None = None
    digests: tuple[str, ...] = ()


def copy(cursor: Cursor, source: Source, folder: Path, prior: str | None, search_path: str = "") -> Copied:
    """Copy a table and what was said of it.

    Args:
        cursor: of the owner.
        source: the protected table.
        folder: where the file is made; the caller deletes it.
        prior: a public table of the same database, or None.
        search_path: where that is looked up.

    Raises:
        NotProtected: the table has no account.
        NotDeclared: a column has no domain yet.
        UnknownName: there is no such public table.
        InvalidArgument: the rows are elsewhere.
    """
    if source.engine != HOST:
        raise InvalidArgument(f"the rows of {source.name!r} are not in this database: compare on a table that is")
    books = Books(cursor, source.catalog)
    account = account_of(books, source)
    if link_of(books, source.key) is not None:
        raise InvalidArgument(f"{source.name!r} is linked to another table: compare on the table at the top")
    check_whole(books, source, "compare copies all rows")
    domain_of(books, source)
    public = None if prior is None else find_source(cursor, prior, search_path)
    path = str(folder / "copied.duckdb")
    copied = [source] if public is None else [source, public]
    cursor.execute(f"ATTACH {literal(path)} AS {_AT}")
    try:
        for table in copied:
            for statement in _made(table):
                cursor.execute(statement.format(at=f"{_AT}."))
            cursor.execute(f"INSERT INTO {_AT}.{_name(table)} SELECT {_columns(table)} FROM {_whole(table)}")  # noqa: S608
        digests = tuple(_digest(cursor, f"{_AT}.{_name(table)}") for table in copied)
    finally:
        cursor.execute(f"DETACH {_AT}")
    unit = account.unit_column
    return Copied(
        path=path,
        tables=tuple(statement for table in copied for statement in _made(table)),
        source=(source.schema, source.name),
        prior=None if public is None else (public.schema, public.name),
        delta=account.delta,
        neighbours=account.neighbours.kind,
        unit=unit,
        unit_rows=account.neighbours.unit_rows if unit else None,
        attributes=tuple(fields_of(attribute) for attribute in facts.declared(books, source.key).values()),
        constraints=tuple(
            (constraint.predicate, constraint.columns) for constraint in facts.constraints(books, source.key)
        ),
        digests=digests,
    )


def _digest(cursor: Cursor, table: str) -> str:
    """Tells tables of different rows apart: the number of rows, and the sum of their hashes."""
    ((rows, total),) = cursor.execute(f"SELECT count(*), sum(hash(r)) FROM {table} r").fetchall()  # noqa: S608
    return f"{rows}:{total or 0:x}"


def count_prior(cursor: Cursor, prior: str, search_path: str) -> int:
    """How many rows a public table has.

    Args:
        cursor: of the owner.
        prior: its name.
        search_path: where it is looked up.

    Raises:
        UnknownName: there is no such table.
    """
    public = find_source(cursor, prior, search_path)
    row = cursor.execute(f"SELECT count(*) FROM {_whole(public)}").fetchone()  # noqa: S608
    return int(row[0]) if row else 0


def restore(cursor: Cursor, copied: Copied, epsilon: float) -> Source:
    """Make the tables anew in an empty database in memory, and protect the one.

    Args:
        cursor: of that database's owner.
        copied: what it is made of.
        epsilon: of the account.
    """
    for statement in copied.tables:
        cursor.execute(statement.format(at=f"{_MEMORY}."))
    cursor.execute(f"ATTACH {literal(copied.path)} AS {_AT} (READ_ONLY)")
    for schema, name in filter(None, (copied.source, copied.prior)):
        table = f"{quote(schema)}.{quote(name)}"
        public = copied.prior_rows is not None and [schema, name] == list(copied.prior or ())  # lists, from JSON
        fewer = f" ORDER BY hash(rowid), rowid LIMIT {copied.prior_rows:d}" if public else ""
        cursor.execute(f"INSERT INTO {_MEMORY}.{table} FROM {_AT}.{table}{fewer}")
    cursor.execute(f"DETACH {_AT}")
    source = find_source(cursor, ".".join([_MEMORY, *map(quote, copied.source)]))
    protect(cursor, source, epsilon, copied.delta, copied.neighbours, copied.unit, copied.unit_rows)
    books = Books(cursor, source.catalog)
    for fields in copied.attributes:
        facts.declare(books, source.key, attribute_from(fields))
    for predicate, columns in copied.constraints:
        facts.constrain(books, source.key, Constraint(predicate, tuple(columns)))
    return source


def _made(source: Source) -> list[str]:
    """The statements that make a table of the same columns, with a place for the catalogue's name."""
    columns = ", ".join(map(_column, _stored(source)))
    schema = f"CREATE SCHEMA IF NOT EXISTS {{at}}{_escaped(quote(source.schema))}"
    return [schema, f"CREATE TABLE {{at}}{_escaped(_name(source))} ({columns})"]


def _column(column: Column) -> str:
    """Its definition; what may not be NULL in the one may not in the other, because domains depend on it."""
    return _escaped(f"{quote(column.name)} {column.type}{'' if column.nullable else ' NOT NULL'}")


def _stored(source: Source) -> list[Column]:
    return [column for column in source.columns if not column.generated]


def _columns(source: Source) -> str:
    return ", ".join(quote(column.name) for column in _stored(source))


def _name(source: Source) -> str:
    return f"{quote(source.schema)}.{quote(source.name)}"


def _whole(source: Source) -> str:
    return f"{quote(source.catalog)}.{_name(source)}"


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
