"""The books of one database: the rows of its schema `dpsql`, and how they are read and changed.

Every change is one transaction, retried when another session changed the same rows at the same time. What the rows are
stands in modules of their own, whose functions take a `Books`: accounts, facts, releases, the journal, the ledger, ….
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

import duckdb

from dpsql.books.ledger import chain, heads, keys
from dpsql.books.ledger.chain import Link, Point
from dpsql.books.ledger.statements import qualified
from dpsql.books.ledger.table_ids import seen_by
from dpsql.engines.duckdb.names import place
from dpsql.errors import BooksError

Result = TypeVar("Result")
_ATTEMPTS: Final = 200


class Books:
    """The books of the database `catalog`, on a connection of one's own.

    Attributes:
        cursor: the connection.
        catalog: the database.
        inside: whether a transaction is under way.
        looked: what the transaction found the newest event and the accounts to be; see `ledger.look`.
        recorded: the newest event before the transaction, and after it; None if it recorded none.
        takes_key: whether the ledger gets its key now.
    """

    def __init__(self, cursor: duckdb.DuckDBPyConnection, catalog: str) -> None:
        self.cursor, self.catalog = cursor, catalog
        self.inside, self.takes_key = False, False
        self.looked: Point | None = None
        self.recorded: tuple[Link, Point] | None = None
        self._name = ""  # see `name`

    def run(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """The rows of a statement, whose schema `dpsql` is the one of this database."""
        try:
            cursor = self.cursor.execute(qualified(sql, self.catalog), dict(parameters) if parameters else None)
        except duckdb.CatalogException:  # another database has this name by now, or its books were dropped
            self._there.clear()
            raise
        return cursor.fetchall()

    def has(self, table: str) -> bool:
        """Whether there is a table of the books; asked of the catalogue, for to read one in vain ends a transaction.

        Tables of the books stay. So one that was there is not asked for again, because to find it DuckDB lists all
        tables, of which each release is one.
        """
        if (self.catalog, table) in self._there:
            return True
        sql = (
            "SELECT count(*) FROM duckdb_tables() WHERE database_name = $catalog AND schema_name = 'dpsql' "
            "AND table_name = $name"
        )
        exists = bool(self.cursor.execute(sql, {"catalog": self.catalog, "name": table}).fetchall()[0][0])
        if exists and not self.inside:  # what was made inside may be rolled back
            self._there.add((self.catalog, table))
        return exists

    @property
    def _there(self) -> set[tuple[str, str]]:
        """Tables of books that were there, by database."""
        seen = seen_by(self.cursor)
        return set() if seen is None else seen.books

    def transaction(self, work: Callable[[], Result], *, attempts: int = _ATTEMPTS) -> Result:
        """Do some work in a transaction, again if another one conflicts; `ledger.commit` is for what records events."""
        for attempt in range(attempts):
            self.recorded, self.inside, self.looked = None, True, None
            self.cursor.execute("BEGIN")
            try:
                result = work()
                self.cursor.execute("COMMIT")
                break
            except BaseException as error:
                self._rollback()
                self.recorded = None
                if attempt == attempts - 1 or not _is_conflict(error):
                    raise
                time.sleep(secrets.randbelow(1000) / 1000 * min(0.05, 0.001 * 2**attempt))
            finally:
                self.inside = False
        return result

    def snapshot(self, look: Callable[[], Result]) -> Result:
        """Several statements that see the same state of the books."""
        self.cursor.execute("BEGIN")
        self.inside = True
        try:
            return look()
        finally:
            self.inside = False
            self._rollback()

    def _rollback(self) -> None:
        with suppress(duckdb.Error):  # a failed COMMIT has rolled back already
            self.cursor.execute("ROLLBACK")

    # --- where they are -----------------------------------------------------------------------------------------------

    @cached_property
    def _place(self) -> tuple[Path | None, bool]:
        """The database's file, None in memory; whether it is read-only."""
        return place(self.cursor, self.catalog)

    @property
    def is_writable(self) -> bool:
        """Whether the database was not opened for reading only."""
        return not self._place[1]

    def check_writable(self) -> None:
        """Refuse a read-only database.

        Raises:
            BooksError: it is read-only, so no charge could be recorded.
        """
        if not self.is_writable:
            raise BooksError(
                f"database {self.catalog!r} is read-only, so nothing can be charged: open it for writing (releases "
                "made before can still be read)"
            )

    @cached_property
    def head_path(self) -> Path | None:
        """Where the head of the ledger is; None of a database in memory, which has none."""
        return None if self._place[0] is None else heads.file_beside(self._place[0])

    @cached_property
    def key(self) -> keys.LedgerKey | None:
        """The key that is there for this ledger."""
        return keys.find_key(self.head_path)

    @property
    def fingerprint(self) -> str | None:
        """Of the key that is there."""
        return None if self.key is None else self.key.fingerprint

    @property
    def name(self) -> str:
        """Which ledger this is, to the memory of the process: by its file, in memory by its first event."""
        if self._place[0] is not None:
            return str(self._place[0])
        if not self._name:
            first = chain.at(self.run, 1)
            self._name = "" if first is None else first.hash
        return self._name

    @cached_property
    def oid(self) -> int:
        """The object id of the database in this instance."""
        sql = "SELECT database_oid FROM duckdb_databases() WHERE database_name = $name"
        return int(self.cursor.execute(sql, {"name": self.catalog}).fetchall()[0][0])


def catalogs_with_books(cursor: duckdb.DuckDBPyConnection) -> list[str]:
    """The attached databases that have books, of DuckDB's own kind."""
    account = "SELECT database_name FROM duckdb_tables() WHERE schema_name = 'dpsql' AND table_name = 'account'"
    # in two statements, which take less time than one that joins the two lists
    catalogs = {name for (name,) in cursor.execute(account).fetchall()}
    if not catalogs:
        return []
    own = cursor.execute("SELECT database_name FROM duckdb_databases() WHERE type = 'duckdb'").fetchall()
    return sorted(catalogs & {name for (name,) in own})


def _is_conflict(error: BaseException) -> bool:
    text = str(error).lower()
    return isinstance(error, duckdb.TransactionException | duckdb.ConstraintException) and (
        "conflict" in text or "duplicate key" in text or "violates primary key" in text or "aborted" in text
    )


class LookUp(Books):
    """Books for the facts of one look-up: no statement is run twice, so what is said of one fact agrees with itself.

    Many functions ask for the same few rows, such as the members of an account. A change through these books forgets
    what was read. In a transaction each statement is run, for a charge is decided there.
    """

    def __init__(self, cursor: duckdb.DuckDBPyConnection, catalog: str) -> None:
        super().__init__(cursor, catalog)
        self._rows: dict[str, list[tuple[Any, ...]]] = {}

    def run(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """See `Books.run`."""
        if self.inside or not sql.lstrip().startswith("SELECT"):
            self._rows.clear()
            return super().run(sql, parameters)
        key = repr((sql, parameters))
        if key not in self._rows:
            self._rows[key] = super().run(sql, parameters)
        return list(self._rows[key])
