"""Which tables are public: those that are surely no table of an account, under whatever name they are now.

See `dpsql.database.marks` for how the tables of an account are known. Where the books of a database are lost, nobody
knows its accounts, and no table is surely public. That there were books is told by the head of the ledger, outside the
database; of a database in memory, this process knows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb

from dpsql.database import heads
from dpsql.database.catalog import Source
from dpsql.database.marks import Standing, list_tables, seen_by
from dpsql.database.store import Books
from dpsql.errors import InvalidArgument
from dpsql.names import fold

_DATABASES = """
    SELECT database_name, database_oid, CASE WHEN type = 'duckdb' THEN path END FROM duckdb_databases()
    WHERE NOT internal
"""


def protected_tables(cursor: duckdb.DuckDBPyConnection) -> set[tuple[str, str]]:
    """Database and key of every table that is not surely public, in lower case; and of the accounts.

    Raises:
        InvalidArgument: the books of a database are lost, so no table is surely public.
    """
    keys = set()
    for catalog, (books, standing) in _standings(cursor).items():
        keys |= {(fold(catalog), fold(account.source)) for account in books.accounts()}
        keys |= {(fold(catalog), fold(table.key)) for table in (*standing.held, *standing.suspects)}
    return keys


def is_protected(cursor: duckdb.DuckDBPyConnection, source: Source) -> bool:
    """Whether a table is one of an account.

    Raises:
        InvalidArgument: it cannot be told, for a table of an account is not found, and it might be that one.
    """
    standings = _standings(cursor)
    if source.catalog not in standings:
        return True  # detached meanwhile
    _, standing = standings[source.catalog]
    _check_no_suspect(source, standing)
    return any(table.identity == source.identity for table in standing.held)


def check_unclaimed(cursor: duckdb.DuckDBPyConnection, source: Source) -> None:
    """Refuse a budget of its own to a table whose rows have, or may have, one already.

    Raises:
        InvalidArgument: it bears the mark of another account, or might be a table of one.
    """
    books, standing = _standings(cursor)[source.catalog]
    _check_no_suspect(source, standing)
    holder = books.holder(source)
    if holder is not None and holder != source.key:
        raise InvalidArgument(f"{elsewhere(source, holder)}; its rows have one budget")


def elsewhere(source: Source, holder: str) -> str:
    """Why a table that belongs to an account of another name, or to none that is known, has none of its own."""
    if holder:
        return (
            f"table {source.name!r} is protected under another name, {holder!r}: ask about {holder!r}, or rename it "
            "back"
        )
    return (
        f"table {source.name!r} bears a mark of dpsql that the books of {source.catalog!r} do not know: it is a copy "
        "of a protected table, or the books are lost. Release from the original, or restore the books. Only the owner "
        "may remove the mark, by COMMENT ON TABLE, for then the same rows can get a second budget"
    )


def _check_no_suspect(source: Source, standing: Standing) -> None:
    if any(table.identity == source.identity for table in standing.suspects):
        names = " and ".join(map(repr, standing.doubtful))
        raise InvalidArgument(
            f"{source.name!r} may hold protected rows: a table of {names} was renamed, replaced or dropped unseen, and "
            f"{source.name!r} was not there before, so it is not surely public. Rename the protected table back; or, "
            "if no unprotected table holds its rows, the owner says dpsql ledger settle <file> --reason '…', in Python "
            "db.settle(reason)"
        )


def _standings(cursor: duckdb.DuckDBPyConnection) -> Mapping[str, tuple[Books, Standing]]:
    """Of each attached database.

    Raises:
        InvalidArgument: the books of one are lost.
    """
    tables = list_tables(cursor)
    found = {}
    for catalog, oid, path in cursor.execute(_DATABASES).fetchall():
        books = Books(cursor, catalog)
        _check_not_lost(cursor, books, oid, path)
        found[catalog] = books, books.standing(tables)
    return found


def _check_not_lost(cursor: duckdb.DuckDBPyConnection, books: Books, oid: int, path: str | None) -> None:
    """Refuse to call anything public where a head knows accounts that the books do not."""
    if path is None:
        seen = seen_by(cursor)
        lost = ["all"] if seen is not None and oid in seen.homes and not books.events else []
    else:
        head = heads.read_head(heads.file_beside(Path(path)))
        known = {account.source for account in books.accounts()}
        lost = [] if head is None else sorted(set(head.accounts) - known)
    if lost:
        raise InvalidArgument(
            f"the books of database {books.catalog!r} have lost accounts ({', '.join(lost)}), so no table is surely "
            "public: restore a copy of the database; dpsql ledger verify <file> tells more"
        )
