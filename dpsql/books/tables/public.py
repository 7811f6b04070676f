"""Which tables are public: those that no account claims and that are on the list of public tables.

See `dpsql.books.ledger.table_ids` for how the tables of an account are known, and `dpsql.books.tables.public_list` for
the list. Where the books of a database are lost, nobody knows its accounts, and none of its tables is surely public.
That there were books is known from the head of the ledger, outside the database; of a database in memory, this process
knows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb

from dpsql.books.ledger import heads, ledger
from dpsql.books.ledger.accounts import list_accounts
from dpsql.books.ledger.store import Books
from dpsql.books.ledger.table_ids import Listed, Standing, list_tables, seen_by
from dpsql.books.tables import write_table_ids
from dpsql.engines.source import Source
from dpsql.errors import InvalidArgument

_DATABASE = """
    SELECT database_oid, CASE WHEN type = 'duckdb' THEN path END FROM duckdb_databases() WHERE database_name = ?
"""


def is_protected(cursor: duckdb.DuckDBPyConnection, source: Source) -> bool:
    """Whether a table is one of an account, or stands for rows elsewhere, of which nobody said that they are public.

    Raises:
        InvalidArgument: it is not known: the books of its database are lost, or it is not on the list of public tables.
    """
    books, standing = _standing(cursor, source.catalog, list_tables(cursor))
    if source.place is not None:
        return True
    table = next((table for table in standing.unclaimed if table.identity == source.identity), None)
    if table is None:
        return True
    _check_public(books, table, standing)
    return False


def check_unclaimed(cursor: duckdb.DuckDBPyConnection, source: Source) -> None:
    """Refuse a budget of its own to a table whose rows have, or may have, one already.

    Raises:
        InvalidArgument: it bears the mark of another account, or is not on the list of public tables.
    """
    books, standing = _standing(cursor, source.catalog, list_tables(cursor))
    holder = write_table_ids.holder(books, source)
    if holder is not None and holder != source.key:
        raise InvalidArgument(f"{elsewhere(source, holder)}; its rows have one budget")
    for table in standing.unclaimed:
        if table.identity == source.identity and source.place is None:  # rows elsewhere are told by their address
            _check_public(books, table, standing)


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


def _check_public(books: Books, table: Listed, standing: Standing) -> None:
    if write_table_ids.is_public(books, table, standing):
        return
    if not standing.accounts:
        raise InvalidArgument(
            f"{table.key!r} was made from a table that is protected, or may be, so it is not public and has no budget "
            "of its own: ask about the table that it was made from"
        )
    raise InvalidArgument(
        f"{table.key!r} may hold protected rows of {', '.join(map(repr, standing.accounts))}: it is not on the list of "
        "public tables, or has other rows than when dpsql saw it last. If none of its rows comes from there, the owner "
        f"says dpsql ledger settle <file> --table '{table.key}' --reason '…', in Python db.settle('…', "
        f"table={table.key!r}), once for all rows that come under this name"
    )


def _standing(cursor: duckdb.DuckDBPyConnection, catalog: str, tables: Sequence[Listed]) -> tuple[Books, Standing]:
    """The books of a database, and which of its tables are protected.

    Raises:
        InvalidArgument: the books are lost.
    """
    books = Books(cursor, catalog)
    for oid, path in cursor.execute(_DATABASE, [catalog]).fetchall():
        _check_not_lost(cursor, books, oid, path)
    return books, write_table_ids.standing(books, tables)


def _check_not_lost(cursor: duckdb.DuckDBPyConnection, books: Books, oid: int, path: str | None) -> None:
    """Refuse to call anything public where a head knows accounts that the books do not."""
    if path is None:
        seen = seen_by(cursor)
        lost = ["all"] if seen is not None and oid in seen.homes and not ledger.events(books) else []
    else:
        head = heads.read_head(heads.file_beside(Path(path)))
        # to ask for books in vain ends a transaction
        lost = (
            []
            if head is None or not head.accounts
            else sorted(set(head.accounts) - {account.source for account in list_accounts(books)})
        )
    if lost:
        raise InvalidArgument(
            f"the books of database {books.catalog!r} have lost accounts ({', '.join(lost)}), so none of its tables is "
            "surely public: restore a copy of the database; dpsql ledger verify <file> tells more"
        )
