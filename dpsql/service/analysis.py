"""The front's own DuckDB, in memory: released tables, what was fetched for statements, and Postgres' catalogue.

Users who are shown the same tables share one. Users who are shown others have another, so that no statement and no
catalogue can tell them of a table that is not for them. A table that is shown to others from now on is another table:
nobody who was shown the one before can read the new rows, not even until their session ends.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import duckdb

from dpsql.core.names import as_text, quote
from dpsql.udfs.bridge import callbacks
from dpsql.udfs.bridge.connections import Connections
from dpsql.udfs.bridge.library import load

from . import arrow, catalogue_file, keys, protected_names
from .calls import Calls, Login, Shown, own_name
from .catalogue import OIDS, RESULTS
from .directory import Columns
from .forwarded import Callers, Forwarded, WhoAmI
from .options import Options
from .parameters import Nobody, named

_LOCKED: Final = (
    "SET GLOBAL TimeZone = 'UTC'",
    "SET max_temp_directory_size = '0KB'",
    "SET temp_directory = ''",
    "SET allow_community_extensions = false",
    "SET allow_unsigned_extensions = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET allow_persistent_secrets = false",
    "SET python_enable_replacements = false",
    "SET disabled_filesystems = 'LocalFileSystem'",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
_ZONES: Final = "SET allowed_configs = ['TimeZone']"
"""`Analyst` sets the time zone of a session's connections. No statement does: the allow-list takes SELECT only."""
AS_POSTGRES: Final = (
    "SET GLOBAL integer_division = true",  # 5 / 2 is 2
    "SET GLOBAL default_null_order = 'postgres'",  # NULLs come last in ascending order, and first in descending
    "SET GLOBAL ieee_floating_point_ops = false",  # 1 / 0.0 is no infinity
)
"""What PostgreSQL's clients mean by the same text, where a setting of DuckDB says so."""
_FREE: Final = frozenset({"SET allow_unsigned_extensions = false", "SET temp_directory = ''"})
"""What a version of DuckDB may refuse, because the settings before it hold it already."""
_STREAMS: Final = 32
_MAIN: Final = "main"
_KEPT_SECONDS: Final = 600.0


def lock(connection: duckdb.DuckDBPyConnection) -> None:
    """Close files, the network and the settings of an instance, for good."""
    for statement in _LOCKED:
        try:
            connection.execute(statement)
        except duckdb.Error:
            if statement not in _FREE:
                raise


class _Unreadable(Exception):
    """A table has a value whose text DuckDB does not read again."""

    def __init__(self, table: str) -> None:
        super().__init__(table)
        self.table = table


class Analysis:
    """See the module.

    Attributes:
        callers: whose connection is whose.
        sessions: how many use it.
        left: when the last one of them ended, in seconds of a clock.
    """

    def __init__(self, calls: Calls, options: Options, catalogue: int, meaning: Sequence[str] = ()) -> None:
        self._calls, self.callers = calls, Callers()
        self.sessions, self.left = 0, 0.0
        config: dict[str, Any] = {
            "allow_unsigned_extensions": "true",
            "threads": str(options.threads),
            "memory_limit": options.memory,
        }
        self._connection = duckdb.connect(config=config)
        self._lock = threading.RLock()
        self._numbers = itertools.count(1)
        self._schemas: dict[str, dict[str, str]] = {}
        self._protected: protected_names.Protected = {}
        self._served = calls.hello()
        functions = [WhoAmI(), *(Forwarded(self.callers, served) for served in self._served)]

        def register(handle: Any) -> None:
            self._connections = Connections(handle, _STREAMS)
            callbacks.register(self._connections, functions)

        load(self._connection, register)
        self._connection.execute(f"CREATE SCHEMA {RESULTS}")
        catalogue_file.copy(self._connection, catalogue)
        for statement in meaning:
            self._connection.execute(statement)
        self._connection.execute(_ZONES)
        lock(self._connection)

    def connection_of_nobody(self) -> Nobody | None:
        """A connection on which statements are bound for the types of their parameters; None if all are in use."""
        handle = self._connections.acquire()
        return None if handle is None else Nobody(handle, self._connections)

    def close(self) -> None:
        """Nobody uses it any more."""
        self._connections.close()
        self._connection.close()

    def argument_types(self, sql: str, count: int) -> list[int]:
        """PostgreSQL's types of the parameters that are arguments of dp_* functions."""
        return named(self._served, sql, count)

    def cursor(self) -> tuple[duckdb.DuckDBPyConnection, int]:
        """A new connection, and DuckDB's number of it."""
        with self._lock:
            cursor = self._connection.cursor()
        return cursor, int(cursor.execute("SELECT number FROM dpsql_connection()").fetchall()[0][0])

    # --- released tables --------------------------------------------------------------------------------------------

    def refresh(self, user: Login, shown: Shown) -> None:
        """Have the tables that a user is shown now, who is one of those for whom this is."""
        with self._lock:
            if shown.protected != self._protected:
                for statement in protected_names.statements(shown.protected, shown.tables):
                    self._connection.execute(statement)
                self._protected = shown.protected
            wanted = _by_schema(shown.tables)
            for schema in {*self._schemas, *wanted}:
                versions = {name: str(table["version"]) for name, table in wanted.get(schema, {}).items()}
                if versions != self._schemas.get(schema, {}):
                    self._change(user, schema, wanted.get(schema, {}))
                    self._schemas[schema] = versions

    def _change(self, user: Login, schema: str, tables: Mapping[str, Mapping[str, Any]]) -> None:
        """Have other tables in a schema, all or none, and their keys with them."""
        plain: set[str] = set()
        while True:
            try:
                return self._try_change(user, schema, tables, plain)
            except _Unreadable as error:  # nobody is kept out by it
                plain.add(error.table)

    def _try_change(
        self, user: Login, schema: str, tables: Mapping[str, Mapping[str, Any]], plain: Container[str]
    ) -> None:
        """See `_change`; of the tables in `plain` what travels as a text stays one."""
        before, home = self._schemas.get(schema, {}), quote(schema or _MAIN)
        self._connection.execute("BEGIN")
        try:
            if schema:
                self._connection.execute(f"CREATE SCHEMA IF NOT EXISTS {home}")
                self._connection.execute(keys.FORGET, [schema])
            for name in set(before) - set(tables):
                self._connection.execute(f"DROP TABLE IF EXISTS {home}.{quote(own_name(name, schema))}")
            for name, table in tables.items():
                if before.get(name) != table["version"]:
                    self._fetch(user, name, table, f"{home}.{quote(own_name(name, schema))}", is_plain=name in plain)
            if schema:
                own = {own_name(name, schema): table for name, table in tables.items()}
                oids = dict(self._connection.execute(OIDS, [schema]).fetchall())
                for row in keys.rows(schema, own, oids):
                    self._connection.execute(keys.INSERT, row)
                if not tables:
                    self._connection.execute(f"DROP SCHEMA {home}")
            self._connection.execute("COMMIT")
        except BaseException:
            with suppress(duckdb.Error):  # where DuckDB has done so
                self._connection.execute("ROLLBACK")
            raise

    def _fetch(self, user: Login, name: str, published: Mapping[str, Any], table: str, *, is_plain: bool) -> None:
        columns = [(column, kind) for column, kind in published["columns"]]
        with self._calls.read(user, name, published["version"]) as rows:
            try:
                self._create(table, arrow.as_texts(columns) if is_plain else columns, rows, is_checked=not is_plain)
            except (duckdb.ConversionException, duckdb.InvalidInputException):
                if is_plain:
                    raise
                raise _Unreadable(name) from None
        for column in (*keys.not_null(published), *self._filled(table, published.get("required", ()))):
            self._connection.execute(f"ALTER TABLE {table} ALTER {quote(column)} SET NOT NULL")
        self._connection.execute(f"COMMENT ON TABLE {table} IS {as_text(str(published['comment']))}")

    def _filled(self, table: str, required: Sequence[str]) -> list[str]:
        """The columns that have all values: of one that is excluded there is none."""
        if not required:
            return []
        held = ", ".join(f"bool_and({quote(column)} IS NOT NULL)" for column in required)
        row = self._connection.execute(f"SELECT {held} FROM {table}").fetchall()[0]  # noqa: S608
        return [column for column, is_filled in zip(required, row, strict=True) if is_filled]

    # --- rows that were fetched for a statement ---------------------------------------------------------------------

    def keep(self, columns: Columns, rows: Any) -> str:
        """A table of rows that the keeper sent; the name of it."""
        name = f"{RESULTS}.r{next(self._numbers)}"
        with self._lock:
            self._create(name, columns, rows)
        return name

    def drop(self, name: str) -> None:
        """The statement has ended."""
        with self._lock, suppress(duckdb.Error):
            self._connection.execute(f"DROP TABLE IF EXISTS {name}")

    def _create(self, name: str, columns: Columns, rows: Any, *, is_checked: bool = False) -> None:
        with self._registered(rows) as relation:
            query = arrow.received(relation, columns, is_checked=is_checked)
            self._connection.execute(f"CREATE OR REPLACE TABLE {name} AS {query}")

    @contextmanager
    def _registered(self, rows: Any) -> Iterator[str]:
        view = f"dpsql_received_{next(self._numbers)}"
        self._connection.register(view, rows)
        try:
            yield view
        finally:
            self._connection.unregister(view)


def _by_schema(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """The tables that users are shown by their schemas."""
    by_schema: dict[str, dict[str, Mapping[str, Any]]] = {}
    for name, table in tables.items():
        by_schema.setdefault(table["schema"], {})[name] = table
    return by_schema


class Analyses:
    """An `Analysis` for each set of tables that users are shown together.

    Args:
        calls: to the keeper.
        options: of the service.
        catalogue: the file of it.
        meaning: settings that say what a text of SQL means; DuckDB's own where there are none.
    """

    def __init__(self, calls: Calls, options: Options, catalogue: int, meaning: Sequence[str] = ()) -> None:
        self._calls, self._options, self._catalogue, self._meaning = calls, options, catalogue, meaning
        self._lock = threading.Lock()
        self._analyses: dict[frozenset[tuple[str, str]], Analysis] = {}

    def of(self, user: Login, shown: Shown) -> Analysis:
        """The one of a user, with what they are shown; `left` gives it back."""
        with self._lock:
            self._forget()
            analysis = self._analyses.get(shown.audiences)
            if analysis is None:
                analysis = self._analyses[shown.audiences] = Analysis(
                    self._calls, self._options, self._catalogue, self._meaning
                )
            analysis.sessions += 1
        try:
            analysis.refresh(user, shown)
        except BaseException:
            self.left(analysis)
            raise
        return analysis

    def left(self, analysis: Analysis) -> None:
        """A session of it has ended."""
        with self._lock:
            analysis.sessions -= 1
            analysis.left = time.monotonic()

    def _forget(self) -> None:
        """Close those that nobody has come back to: their tables take memory."""
        for tables, analysis in list(self._analyses.items()):
            if not analysis.sessions and time.monotonic() - analysis.left > _KEPT_SECONDS:
                del self._analyses[tables]
                analysis.close()
