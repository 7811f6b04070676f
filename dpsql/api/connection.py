"""A DuckDB connection with dpsql in it: what it shares with every DuckDB connection."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Self

import duckdb

from dpsql.api.caller import caller, seen_from
from dpsql.api.errors import own_errors
from dpsql.api.executed import Executed
from dpsql.api.once import Parameters, answered, materialized, placed
from dpsql.api.relation import Relation
from dpsql.api.watching import Changes, settle_changes, steps, watched
from dpsql.core.names import quote
from dpsql.engines.duckdb.names import split_name
from dpsql.engines.registry import find_source
from dpsql.engines.source import Source
from dpsql.errors import DpsqlError
from dpsql.udfs.bridge.callbacks import latest_call
from dpsql.udfs.extension import Instance
from dpsql.udfs.interrupts import pressed

if TYPE_CHECKING:
    import pandas as pd

# A table function's parameters are either positional or named; a macro's are both, so dp_ledger('adult') works too.
_LEDGER_OF_ONE = (
    "CREATE OR REPLACE TEMP MACRO dp_ledger(source := '') AS TABLE FROM system.main.dp_ledger(source := source)"
)

_ROWS_AT_ONCE: Final = 100_000
_ASKS: Final = re.compile(
    r"(?:[\s(]|--[^\n]*\n|/\*.*?\*/)*(select|with|from|values|table|show|describe|summarize)\b",
    re.IGNORECASE | re.DOTALL,
)
"""Statements that have rows, and change no setting."""


class Connection(Executed):
    """Runs SQL as a DuckDB connection does. A context manager: leaving it closes the connection.

    SQL finds data frames (pandas, polars, Arrow), relations and releases by the names of the caller's variables, where
    no table has that name. Every error of DuckDB is of its own class and a `DpsqlError`.

    Attributes:
        connection: the DuckDB connection, for everything else.
        instance: the database's part of dpsql.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, instance: Instance) -> None:
        self.connection, self.instance = connection, instance
        self._place: tuple[str, object] | None = None  # see `_search_path`
        self._changes = Changes(instance)
        connection.execute(_LEDGER_OF_ONE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection.

        >>> import dpsql
        >>> db = dpsql.connect()
        >>> db.close()
        """
        with suppress(DpsqlError, duckdb.Error):  # closed already, or a statement is under way
            settle_changes(self._changes)
        self.connection.close()

    @own_errors
    def cursor(self) -> Self:
        """Another connection to the same database, for another thread.

        >>> import dpsql
        >>> with dpsql.connect() as db, db.cursor() as other:
        ...     other.sql("SELECT 42").fetchall()
        [(42,)]
        """
        connection = self.connection.cursor()
        self.instance.use(connection)
        return type(self)(connection, self.instance)

    def interrupt(self) -> None:
        """Stop what runs now on this database, from another thread; what was charged is kept.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.interrupt()
        """
        self.instance.interrupt()
        self.connection.interrupt()

    # `Any` beside it, as in DuckDB's own types a relation alone: else a type checker would ask for a check of None
    # in `db.sql("FROM t").df()`.
    def sql(self, query: str | duckdb.Statement, params: Parameters = None, *, alias: str = "") -> Relation | Any:
        """A query as a relation, which prints itself; any other statement runs at once.

        A query that calls a function of dpsql runs at once too, and once: to print its relation and to fetch from it
        shows the same rows.

        Args:
            query: one or more statements.
            params: for the last one's `?` or `$1` a list, for its `$name` a dict.
            alias: of the relation.

        Returns:
            The relation of the last statement. None for one without rows on DuckDB 1.5; DuckDB 2.0 counts them.

        Raises:
            DpsqlError: and DuckDB's own class of it, with its text.

        >>> import pandas as pd, dpsql
        >>> people = pd.DataFrame({"age": [30, 50]})
        >>> with dpsql.connect() as db:
        ...     db.sql("SELECT avg(age) AS age FROM people WHERE age > ?", [20])
        ┌────────┐
        │  age   │
        │ double │
        ├────────┤
        │   40.0 │
        └────────┘
        <BLANKLINE>
        """
        with own_errors:
            frame, self._place = caller(), None
            *before, last = steps(self.connection, _text(query))
            for text in before:
                with self._watched(frame, text, self.connection.execute):
                    seen_from(frame, text, partial(self._complete, text))
            try:
                with self._watched(frame, last, self.connection.sql):
                    relation = answered(self.connection, frame, last, params, alias)
            except (duckdb.BinderException, duckdb.CatalogException) as error:
                raise placed(self.connection, error, frame, last) from None
            return None if relation is None else Relation(relation)

    def execute(self, query: str | duckdb.Statement, parameters: Parameters = None) -> Self:
        """Run statements now; the rows of the last one are fetched from this connection.

        Args:
            query: one or more statements.
            parameters: for the last one's `?` or `$1` a list, for its `$name` a dict.

        Raises:
            DpsqlError: and DuckDB's own class of it, with its text.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.execute("SELECT $a + 1", {"a": 41}).fetchall()
        [(42,)]
        """
        with own_errors:
            frame, text, self._place = caller(), _text(query), None
            *before, last = steps(self.connection, text)
            for first in before:
                with self._watched(frame, first, self.connection.execute):
                    seen_from(frame, first, partial(self._complete, first))
            path = self._search_path if _ASKS.match(last) else None
            with self._watched(frame, last, self.connection.execute):
                seen_from(frame, last, partial(self.connection.execute, last if before else query, parameters))
            self._place = None if path is None else (path, self.connection.description)
        return self

    def _complete(self, text: str) -> None:
        """Run a statement whose rows nobody reads: DuckDB 2 begins no other before they were fetched."""
        result = self.connection.execute(text)
        while result.fetchmany(_ROWS_AT_ONCE):
            pass

    def _watched(self, frame: FrameType, text: str, run: Callable[[str], Any]) -> AbstractContextManager[None]:
        return watched(self._changes, lambda query: run(query).fetchall(), frame, text)

    def executemany(self, query: str | duckdb.Statement, parameters: Sequence[Parameters]) -> Self:
        """Run a statement once for each set of parameters.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.sql("CREATE TABLE t (a INTEGER)")
        ...     db.executemany("INSERT INTO t VALUES (?)", [[1], [2]]).sql("FROM t").fetchall()
        [(1,), (2,)]
        """
        with own_errors:
            frame, text, self._place = caller(), _text(query), None
            with self._watched(frame, text, self.connection.execute):
                seen_from(frame, text, partial(self.connection.executemany, query, parameters))
        return self

    def table(self, name: str) -> Relation:
        """A table or view as a relation, which prints itself.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.sql("CREATE TABLE t AS SELECT 42 AS answer")
        ...     db.table("t").columns
        ['answer']
        """
        with own_errors:
            return self._named(caller(), name, self.connection.table)

    def view(self, name: str) -> Relation:
        """A view as a relation, which prints itself.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.sql("CREATE VIEW v AS SELECT 42 AS answer")
        ...     db.view("v").fetchall()
        [(42,)]
        """
        with own_errors:
            return self._named(caller(), name, self.connection.view)

    def _named(self, frame: FrameType, name: str, find: Callable[[str], duckdb.DuckDBPyRelation]) -> Relation:
        """What has that name; a view that calls dpsql runs now, once."""
        before, named = latest_call(), seen_from(frame, name, partial(find, name))
        has_called = latest_call() != before
        return Relation(materialized(self.connection, named, frame, named.sql_query()) if has_called else named)

    @own_errors
    def from_df(self, frame: pd.DataFrame) -> Relation:
        """A pandas data frame as a relation.

        >>> import pandas as pd, dpsql
        >>> with dpsql.connect() as db:
        ...     db.from_df(pd.DataFrame({"a": [1]})).fetchall()
        [(1,)]
        """
        return Relation(self.connection.from_df(frame))

    @own_errors
    def from_arrow(self, table: object) -> Relation:
        """An Arrow table, or what gives itself out as one such as a polars data frame, as a relation.

        >>> import polars as pl, dpsql
        >>> with dpsql.connect() as db:
        ...     db.from_arrow(pl.DataFrame({"a": [1]})).fetchall()
        [(1,)]
        """
        return Relation(self.connection.from_arrow(table))

    @own_errors
    def register(self, name: str, frame: object) -> Self:
        """Show a data frame or an Arrow table under a name, as a view of this connection.

        >>> import pandas as pd, dpsql
        >>> with dpsql.connect() as db:
        ...     db.register("wards", pd.DataFrame({"beds": [10, 20]})).sql("SELECT sum(beds) FROM wards").fetchall()
        [(30,)]
        """
        self.connection.register(name, frame)
        return self

    @own_errors
    def unregister(self, name: str) -> Self:
        """Show it no longer.

        >>> import pandas as pd, dpsql
        >>> with dpsql.connect() as db:
        ...     db.register("wards", pd.DataFrame({"beds": [10]})).unregister("wards").sql("SHOW TABLES").fetchall()
        []
        """
        self.connection.unregister(name)
        return self

    @own_errors
    def append(self, name: str, frame: pd.DataFrame, *, by_name: bool = False) -> Self:
        """Add the rows of a pandas data frame to a table.

        Args:
            name: of the table.
            frame: the rows.
            by_name: whether its columns are found by their names, in place of their order.

        >>> import pandas as pd, dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.sql("CREATE TABLE t (a INTEGER)")
        ...     db.append("t", pd.DataFrame({"a": [1]})).table("t").fetchall()
        [(1,)]
        """
        target = ".".join(map(quote, split_name(name) or (name,)))
        text = " ".join(["INSERT INTO", target, "DEFAULT VALUES"])  # what is judged in its place
        with self._watched(caller(), text, self.connection.execute):
            self.connection.append(name, frame, by_name=by_name)
        return self

    @own_errors
    def begin(self) -> Self:
        """Begin a transaction of this connection; what functions of dpsql charge is outside of it.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.begin().sql("CREATE TABLE t (a INTEGER)")
        ...     db.rollback().sql("SHOW TABLES").fetchall()
        []
        """
        self.connection.begin()
        return self

    @own_errors
    def commit(self) -> Self:
        """Keep what the transaction did.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     _ = db.begin().sql("CREATE TABLE t (a INTEGER)")
        ...     db.commit().sql("SHOW TABLES").fetchall()
        [('t',)]
        """
        self.connection.commit()
        settle_changes(self._changes)
        return self

    @own_errors
    def rollback(self) -> Self:
        """Undo what the transaction did.

        >>> import dpsql
        >>> with dpsql.connect() as db:
        ...     db.begin().rollback().sql("SHOW TABLES").fetchall()
        []
        """
        self.connection.rollback()
        settle_changes(self._changes)
        return self

    @property
    def _search_path(self) -> str:
        """Where bare names are looked up; not asked while there may be rows to fetch, which would be lost."""
        with own_errors, pressed():  # else Ctrl-C is a RuntimeError of DuckDB's
            if self._place is not None and self.connection.description == self._place[1]:
                return self._place[0]
            row = self.connection.execute("SELECT system.main.current_setting('search_path')").fetchall()[0]
        return str(row[0] or self.instance.home)

    def _source(self, cursor: duckdb.DuckDBPyConnection, table: str) -> Source:
        return find_source(cursor, table, self._search_path)


def _text(query: str | duckdb.Statement) -> str:
    return query.query if isinstance(query, duckdb.Statement) else str(query)
