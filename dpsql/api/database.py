"""Connect to DuckDB with dpsql in it: `connect(path)`, or `install(connection)` on one's own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import duckdb

from dpsql.api.arguments import arguments_of
from dpsql.api.errors import own_errors
from dpsql.api.forecast import Forecast, forecast_of, is_conversation
from dpsql.api.release import Release
from dpsql.api.reports import Reports, as_plan
from dpsql.api.request_arguments import RequestArguments
from dpsql.api.signatures import of_requests
from dpsql.books.accounts.verification import check_all
from dpsql.errors import InvalidArgument
from dpsql.evaluation.sandbox import stopped_by
from dpsql.release.pipeline import produce
from dpsql.release.request import Request
from dpsql.release.synthesis import resolve
from dpsql.runtime.progress import breaking
from dpsql.udfs import functions
from dpsql.udfs.bridge.declare import Call
from dpsql.udfs.dp_budget import DpBudget
from dpsql.udfs.dp_ledger import DpLedger
from dpsql.udfs.dp_plan import DpPlan
from dpsql.udfs.dp_query import DpQuery
from dpsql.udfs.dp_releases import DpReleases
from dpsql.udfs.dp_synthesize import DpSynthesize, request_of
from dpsql.udfs.extension import install as _install
from dpsql.udfs.interrupts import pressed, watched

if TYPE_CHECKING:
    import pandas as pd

    from dpsql.api.plan_frame import PlanFrame


def connect(
    path: str | Path = ":memory:",
    *,
    read_only: bool = False,
    config: dict[str, Any] | None = None,
    owner: bool | None = None,
) -> Database:
    """Open a DuckDB database with dpsql in it.

    Args:
        path: of the file; in memory by default.
        read_only: open for reading; stored releases can be read, nothing can be charged.
        config: further settings of DuckDB.
        owner: see `install`.

    Raises:
        InvalidArgument: path is none (a connection that is open is for `install`), or see `install`.
        DpsqlError: the extension cannot be loaded, or the file not be opened, perhaps because another process has it.
        BooksError: the ledger is not what was recorded, or older than its head: see `dpsql ledger verify`.

    >>> with connect() as db:
    ...     db.sql("FROM dp_budget()").fetchall()
    []
    """
    if not isinstance(path, (str, Path)):
        raise InvalidArgument(
            f"path is a {type(path).__name__}: give the path of a database file, or dpsql.install(connection) for a "
            "connection that is open"
        )
    settings = {"allow_unsigned_extensions": "true", **(config or {})}
    with own_errors:
        connection = duckdb.connect(str(path), read_only=read_only, config=settings)
    try:
        return install(connection, owner=owner)
    except BaseException:
        connection.close()
        raise


def install(connection: duckdb.DuckDBPyConnection, *, owner: bool | None = None) -> Database:
    """Put the SQL functions of dpsql into the database of a connection; doing it twice is harmless.

    All connections to that database can call them, as long as one that was given to `install` is open.

    Args:
        connection: opened with `config={"allow_unsigned_extensions": "true"}`.
        owner: whether the owner's functions can be called: `dp_protect`, `dp_domain`, `dp_constraint`, and in Python
            `protect`, `domain`, `discover`, `constraint`, `raise_budget`, `reset`, `retire` and `unprotect`. False
            switches them off for all connections to the database, until the last of them is closed. By default as it
            is; they can where dpsql is new to the database.

    Raises:
        InvalidArgument: owner is True, and they were switched off.
        DpsqlError: the connection does not allow it, or the extension was not built.
        BooksError: the ledger of a database that can be written is not what was recorded, or older than its head.
    """
    with own_errors:
        database = Database(connection, _install(connection, functions, owner=owner))
    with database.instance.cursor() as cursor:
        check_all(cursor)
    return database


class Database(Reports):
    """A DuckDB connection with dpsql in it. A context manager: leaving it closes the connection.

    Its methods raise `DpsqlError`, or a child that says what kind of error it is. An error of DuckDB is a `DpsqlError`
    that keeps DuckDB's text and class. What a function of dpsql raises in SQL has the class that it has in Python, too.

    Attributes:
        connection: the DuckDB connection, for everything else.
        instance: the database's part of dpsql.
    """

    @of_requests
    def request(self, table: str, epsilon: float, **arguments: Unpack[RequestArguments]) -> Request:
        """The request that the arguments of `synthesize` state.

        >>> with connect() as db:
        ...     db.request("t", epsilon=1.0, workload="all 2-way").workload
        'all 2-way'
        """
        given = arguments_of(DpSynthesize, {"table": table, "epsilon": epsilon, **arguments})
        return request_of(Call(DpSynthesize.name, given, self._search_path))

    @of_requests
    def synthesize(self, table: str, epsilon: float, **arguments: Unpack[RequestArguments]) -> Release:
        """A synthetic table, charged once. See `dp_synthesize` in SQL.

        Args:
            table: the protected table.
            epsilon: what this release costs.
            **arguments: see `RequestArguments`.

        Raises:
            DpsqlError: a child says what is wrong; nothing was charged.
            Interrupted: by `interrupt`; what was charged is kept, the same call goes on from it.
            KeyboardInterrupt: by Ctrl-C; so too.

        >>> with connect() as db:
        ...     _ = db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS sick FROM range(1000) r(i)")
        ...     _ = db.protect("t", epsilon=3.0, delta=1e-9)
        ...     release = db.synthesize("t", epsilon=1.0, rows=500)
        ...     len(release.df()), release.entry.state
        (500, 'published')
        """
        with pressed(), watched(self.instance) as progress:
            request = self.request(table, epsilon, **arguments)
            with self.instance.cursor() as cursor, stopped_by(progress), breaking(progress):
                resolved = resolve(cursor, request)
                if resolved.entry is None and is_conversation():
                    sys.stderr.write(f"{forecast_of(cursor, resolved, None)}\n")
            entry = produce(resolved, self.instance.cursor, progress)
        return Release(self.instance, self.connection, resolved.source.catalog, entry, resolved.choice, resolved.place)

    @of_requests
    def forecast(
        self, table: str, epsilon: float, *, assume_rows: int | None = None, **arguments: Unpack[RequestArguments]
    ) -> Forecast:
        """How many pairs of columns of a synthetic table will be reliable, and what would help; spends nothing.

        `str(forecast)` is a sentence, `forecast.advice` what would make more pairs reliable. `synthesize` prints the
        sentence before it charges, where a person types to Python.

        Args:
            table: the protected table.
            epsilon: what the release would cost.
            assume_rows: about how many rows there are; by default as the newest release tells it, else 10,000.
            **arguments: see `RequestArguments`.

        Raises:
            DpsqlError: a child says what is wrong.

        >>> with connect() as db:
        ...     _ = db.sql("CREATE TABLE t (sick BOOLEAN, old BOOLEAN)")
        ...     _ = db.protect("t", epsilon=3.0, delta=1e-9)
        ...     print(db.forecast("t", epsilon=1.0, assume_rows=5000))
        At ε = 1 the plan predicts that the only pair of columns will be reliable, with about 5,000 rows.
        """
        with self.instance.cursor() as cursor:
            resolved = resolve(cursor, self.request(table, epsilon, **arguments), to_charge=False)
            return forecast_of(cursor, resolved, assume_rows)

    def query(
        self,
        sql: str,
        epsilon: float,
        *,
        delta: float | None = None,
        mechanism: str | None = None,
        non_negative: bool | None = None,
        release: str | None = None,
        period: str | None = None,
    ) -> pd.DataFrame:
        """The noisy answers of a query, charged once. See `dp_query` in SQL.

        Args:
            sql: grouped counts, sums and averages over one protected table.
            epsilon: what the answers cost; 0 for what earlier releases tell already, free.
            delta: of it; by default the table's; not used with Laplace noise.
            mechanism: `gaussian`, the default, or `laplace` for pure ε.
            non_negative: whether counts below 0 are shown as 0.
            release: name of the release; a new name makes (and pays for) a new one.
            period: whose rows are read, such as `2026-03`, where each period has a budget.

        Returns:
            The query's own columns, and for each noisy column x also x_stderr, x_low and x_high. As polars or Arrow:
            `db.sql("FROM dp_query(?, epsilon := 1)", [sql]).pl()`, which is the same release.

        Raises:
            DpsqlError: a child says what is wrong; nothing was charged.
            Interrupted: by `interrupt`; what was charged is kept, the same call goes on from it.
            KeyboardInterrupt: by Ctrl-C; so too.

        >>> with connect() as db:
        ...     _ = db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS sick FROM range(1000) r(i)")
        ...     _ = db.protect("t", epsilon=3.0, delta=1e-9)
        ...     list(db.query("SELECT sick, count(*) AS n FROM t GROUP BY sick", epsilon=1.0))
        ['sick', 'n', 'n_stderr', 'n_low', 'n_high']
        """
        return self.call(
            DpQuery,
            {
                "sql": sql,
                "epsilon": epsilon,
                "delta": delta,
                "mechanism": mechanism,
                "non_negative": non_negative,
                "release": release,
                "period": period,
            },
        )

    @of_requests
    def plan(
        self,
        table: str,
        epsilon: float | None = None,
        *,
        max_error: float | None = None,
        assume_rows: int | None = None,
        **arguments: Unpack[RequestArguments],
    ) -> PlanFrame:
        """What `synthesize` or `query` would measure and how noisily; spends nothing. `plot()` draws it. See `dp_plan`.

        A query takes `delta`, `release`, and `mechanism`: `gaussian` or `laplace`.

        Args:
            table: the table, or a query.
            epsilon: what it would cost; None with `max_error`.
            max_error: instead of `epsilon`: the smallest that is enough is found.
            assume_rows: about how many rows there are; the number is private.
            **arguments: see `RequestArguments`.

        Raises:
            DpsqlError: a child says what is wrong.

        >>> with connect() as db:
        ...     _ = db.sql("CREATE TABLE t (sick BOOLEAN)"), db.protect("t", epsilon=3.0, delta=1e-9)
        ...     float(db.plan("t", epsilon=1.0).epsilon[0])
        1.0
        """
        given = {"table": table, "epsilon": epsilon, "max_error": max_error, "assume_rows": assume_rows, **arguments}
        return as_plan(self.call(DpPlan, given))

    def budget(self) -> pd.DataFrame:
        """What is spent and left of each protected table. See `dp_budget`.

        >>> with connect() as db:
        ...     _ = db.sql("CREATE TABLE t (sick BOOLEAN NOT NULL)")
        ...     _ = db.protect("t", epsilon=3.0, delta=1e-9)
        ...     float(db.budget().epsilon_left[0])
        3.0
        """
        return self.call(DpBudget, {})

    def ledger(self) -> pd.DataFrame:
        """Every charge, in order. See `dp_ledger`.

        >>> with connect() as db:
        ...     _ = db.sql("CREATE TABLE t (sick BOOLEAN NOT NULL)")
        ...     _ = db.protect("t", epsilon=3.0, delta=1e-9)
        ...     db.ledger().kind.tolist()
        ['protect']
        """
        return self.call(DpLedger, {})

    def releases(self) -> pd.DataFrame:
        """Every release. See `dp_releases`.

        >>> with connect() as db:
        ...     len(db.releases())
        0
        """
        return self.call(DpReleases, {})
