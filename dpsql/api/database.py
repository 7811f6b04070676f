"""Connect to DuckDB with dpsql in it: `connect(path)`, or `install(connection)` on one's own."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb
from sqlglot import exp

from dpsql.books.releases import Entry, rows_table
from dpsql.books.store import Books
from dpsql.books.verification import check_all
from dpsql.core.domain import Attribute
from dpsql.engines.duckdb.catalog import Source, current_schema, find_source
from dpsql.errors import DpsqlError, InvalidArgument
from dpsql.evaluation.constraints import parse_predicate
from dpsql.evaluation.sandbox import stopped_by
from dpsql.mechanisms.base import checked, checked_names
from dpsql.owner.account_changes import forgive, raise_budget, reset, retire, settle, unprotect
from dpsql.owner.protect import constrain, declare, protect, unconstrain
from dpsql.privacy.account import Account
from dpsql.release.discovery import DiscoveryRequest, discover, resolve_discovery
from dpsql.release.pipeline import produce
from dpsql.release.quality import marginal_answers, marginal_errors, warnings_of
from dpsql.release.request import Request
from dpsql.release.synthesis import Resolved, resolve
from dpsql.runtime.progress import breaking
from dpsql.udfs import functions
from dpsql.udfs.bridge.declare import REQUIRED, Call, TableFunction
from dpsql.udfs.dp_budget import DpBudget
from dpsql.udfs.dp_ledger import DpLedger
from dpsql.udfs.dp_measurements import DpMeasurements
from dpsql.udfs.dp_plan import DpPlan
from dpsql.udfs.dp_query import DpQuery
from dpsql.udfs.dp_releases import DpReleases
from dpsql.udfs.extension import Instance
from dpsql.udfs.extension import install as _install
from dpsql.udfs.interrupts import pressed, watched

if TYPE_CHECKING:
    import pandas as pd

# A table function's parameters are either positional or named; a macro's are both, so dp_ledger('adult') works too.
_LEDGER_OF_ONE = (
    "CREATE OR REPLACE TEMP MACRO dp_ledger(source := '') AS TABLE FROM system.main.dp_ledger(source := source)"
)

_KINDS: Final[dict[str, type[Any]]] = {"BOOLEAN": bool, "BIGINT": int, "DOUBLE": float, "VARCHAR": str}


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
        DpsqlError: the extension cannot be loaded.
        BooksError: the ledger is not what was recorded, or older than its head: see `dpsql ledger verify`.
        duckdb.Error: the file cannot be opened; another process may have it.

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
    database = Database(connection, _install(connection, functions, owner=owner))
    with database.instance.cursor() as cursor:
        check_all(cursor)
    return database


class Release:
    """A release that was paid for: its synthetic rows and noisy marginals.

    Attributes:
        entry: what the books say of it.
    """

    def __init__(self, database: Database, resolved: Resolved, entry: Entry) -> None:
        self._database, self._resolved, self.entry = database, resolved, entry

    def __repr__(self) -> str:
        said = [f"{self.entry.rows} rows, {self.entry.guarantee}", *warnings_of(self.entry)]
        return f"<Release {self.entry.number} of {self.entry.source}: {'; '.join(said)}>"

    def _select(self) -> str:
        table = rows_table(self._resolved.source.catalog, self.entry)
        return exp.select("*").from_(table).sql(dialect="duckdb")

    def df(self) -> pd.DataFrame:
        """The synthetic rows as a pandas data frame."""
        with own_errors():
            return self._database.connection.execute(self._select()).df()

    def arrow(self) -> Any:
        """The synthetic rows as an Arrow table.

        Raises:
            DpsqlError: pyarrow is not installed.
        """
        if importlib.util.find_spec("pyarrow") is None:
            raise DpsqlError("arrow() needs pyarrow, which is not installed: run pip install pyarrow, or use df()")
        with own_errors():
            return self._database.connection.sql(self._select()).to_arrow_table()

    def to_table(self, name: str) -> None:
        """Copy the synthetic rows into a new table.

        Args:
            name: of the table, quoted as needed; it must not exist.

        Raises:
            DpsqlError: it exists, or cannot be made; with DuckDB's reason.
        """
        target = exp.table_(name, quoted=True)
        tree = exp.Create(this=target, kind="TABLE", expression=exp.maybe_parse(self._select(), dialect="duckdb"))
        with own_errors():
            self._database.connection.execute(tree.sql(dialect="duckdb"))

    def write(self, path: str | Path) -> None:
        """Write the synthetic rows to a file, CSV or Parquet by its suffix.

        Raises:
            DpsqlError: it cannot be written; with DuckDB's reason.
        """
        query: exp.Select = exp.maybe_parse(self._select(), dialect="duckdb")
        copy = exp.Copy(this=query.subquery(), kind=False, files=[exp.Literal.string(str(path))])
        with own_errors():
            self._database.connection.execute(copy.sql(dialect="duckdb"))

    @property
    def warnings(self) -> list[str]:
        """What a reader should know: a fit that did not converge, rows lost in noise or outside the domains."""
        return warnings_of(self.entry)

    @property
    def outside(self) -> dict[str, float]:
        """For each column with values outside its declared domain, about which part of the rows has one.

        Such a value is NULL in a synthetic row, or the column's `other`. Computed from the noisy counts; a column of
        which they show none is left out.
        """
        return dict(self.entry.report.get("outside", {}))

    @property
    def choice(self) -> str:
        """Why `auto` took the mechanism of this request, also where the release was made by name before; else empty."""
        return self._resolved.choice

    @property
    def measurements(self) -> pd.DataFrame:
        """The noisy counts that the release is made from: see `dp_measurements` in SQL."""
        return self._database.call(DpMeasurements, release=self.entry.key)

    @property
    def errors(self) -> pd.DataFrame:
        """How far the synthetic table is from each noisy marginal, beside what the noise alone makes up.

        One row for each measured marginal: its columns, cells, standard deviation of the noise, the L1 distance of
        synthetic and measured counts, and the expected L1 of the noise; both as fractions of the measured total.
        Computed from released values only.
        """
        with self._database.instance.cursor() as cursor:
            return marginal_errors(cursor, Books(cursor, self._resolved.source.catalog), self.entry)

    def answers(self, *columns: str) -> pd.DataFrame:
        """A measured marginal, cell by cell: its noisy counts beside those of the synthetic table.

        Args:
            columns: of the marginal.

        Raises:
            InvalidArgument: the release measured no such marginal whole; lists those that it did.

        >>> with connect() as db:
        ...     _ = db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS sick FROM range(1000) r(i)")
        ...     _ = db.protect("t", epsilon=3.0, delta=1e-9)
        ...     release = db.synthesize("t", epsilon=1.0)
        ...     list(release.answers("sick").columns)
        ['sick', 'measured', 'stddev', 'synthetic']
        """
        with self._database.instance.cursor() as cursor:
            books = Books(cursor, self._resolved.source.catalog)
            return marginal_answers(cursor, books, self.entry, columns)


class Database:
    """A DuckDB connection with dpsql in it. A context manager: leaving it closes the connection.

    Its methods raise `DpsqlError`, or a child that says what kind of error it is. `sql` alone raises DuckDB's errors,
    which for the functions of dpsql hold the same text.

    Attributes:
        connection: the DuckDB connection, for everything else.
        instance: the database's part of dpsql.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, instance: Instance) -> None:
        self.connection, self.instance = connection, instance
        connection.execute(_LEDGER_OF_ONE)

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def interrupt(self) -> None:
        """Stop what runs now on this database, from another thread; what was charged is kept."""
        self.instance.interrupt()
        self.connection.interrupt()

    def sql(self, query: str, parameters: Sequence[Any] | None = None) -> duckdb.DuckDBPyConnection:
        """Run SQL on the connection.

        Args:
            query: one or more statements.
            parameters: for its question marks.

        Returns:
            The connection, to fetch from: `.fetchall()`, `.df()`, …
        """
        return self.connection.execute(query, parameters)

    @property
    def _search_path(self) -> str:
        row = self.connection.execute("SELECT system.main.current_setting('search_path')").fetchall()[0]
        return str(row[0] or self.instance.home)

    def _source(self, cursor: duckdb.DuckDBPyConnection, table: str) -> Source:
        return find_source(cursor, table, self._search_path)

    def protect(
        self,
        table: str,
        epsilon: float,
        delta: float,
        neighbours: str = "add_remove",
        privacy_unit: str | None = None,
        max_rows: int | None = None,
        *,
        enums: bool = False,
    ) -> Account:
        """Give a table a privacy budget, once: all its releases together will be (ε, δ)-DP. See `dp_protect`.

        The promise is for tables that differ by one row; with `privacy_unit` by all rows of one unit, of which at most
        `max_rows` count. `enums=True` is the owner's word that the members of the table's ENUM types are public,
        whatever rows there are.

        >>> with connect() as db:
        ...     _ = db.sql("CREATE TABLE t (sick BOOLEAN NOT NULL)")
        ...     db.protect("t", epsilon=3.0, delta=1e-9).epsilon_left
        3.0
        """
        self.instance.check_owner("protect")
        with self.instance.cursor() as cursor:
            source = self._source(cursor, table)
            return protect(cursor, source, epsilon, delta, neighbours, privacy_unit, max_rows, enums=enums)

    def raise_budget(self, table: str, epsilon: float, reason: str) -> Account:
        """Promise a larger ε of all releases of a table, at the same δ; the ledger keeps the reason.

        >>> with connect() as db:
        ...     _ = db.sql("CREATE TABLE t (sick BOOLEAN NOT NULL)")
        ...     _ = db.protect("t", epsilon=1.0, delta=1e-9)
        ...     db.raise_budget("t", epsilon=2.0, reason="the board agreed on 3 May").epsilon
        2.0
        """
        self.instance.check_owner("raise_budget")
        with self.instance.cursor() as cursor:
            return raise_budget(cursor, self._source(cursor, table), epsilon, reason)

    def reset(self, table: str, reason: str) -> Account:
        """Begin the account of a table anew, for rows about other people; about the same it breaks the promise."""
        self.instance.check_owner("reset")
        with self.instance.cursor() as cursor:
            return reset(cursor, self._source(cursor, table), reason)

    def retire(self, table: str, reason: str) -> Account:
        """Let nothing more of a table be charged; what was published stays."""
        self.instance.check_owner("retire")
        with self.instance.cursor() as cursor:
            return retire(cursor, self._source(cursor, table), reason)

    def forgive(self, table: str, reason: str) -> Account:
        """Let releases of a table be charged again of which too many were stopped; what those cost stays spent."""
        self.instance.check_owner("forgive")
        with self.instance.cursor() as cursor:
            return forgive(cursor, self._source(cursor, table), reason)

    def unprotect(self, table: str, reason: str) -> None:
        """Take back the protection of a table to which nothing was ever charged, with its domains and constraints.

        >>> with connect() as db:
        ...     _ = db.sql("CREATE TABLE wards (name VARCHAR)")
        ...     _ = db.protect("wards", epsilon=1.0, delta=1e-9)
        ...     db.unprotect("wards", reason="a look-up table, protected by mistake")
        ...     len(db.budget())
        0
        """
        self.instance.check_owner("unprotect")
        with self.instance.cursor() as cursor:
            unprotect(cursor, self._source(cursor, table), reason)

    def settle(self, reason: str) -> None:
        """No table of the current database but those of its accounts holds private rows; see `dpsql ledger settle`."""
        self.instance.check_owner("settle")
        with self.instance.cursor() as cursor:
            settle(cursor, current_schema(cursor, self._search_path)[0], reason)

    def domain(self, table: str, column: str, **how: Any) -> None:
        """Declare the public domain of a column; the keywords are those of `dp_domain` in SQL."""
        self.instance.check_owner("domain")
        known = {"values", "lower", "upper", "bins", "edges", "reference", "type", "exclude", "nulls", "other"}
        unknown = sorted(set(how) - known)
        if unknown:
            raise InvalidArgument(f"{unknown[0]} is no way to declare a domain; there are {', '.join(sorted(known))}")
        with self.instance.cursor() as cursor:
            path = self._search_path
            declare(cursor, find_source(cursor, table, path), column, search_path=path, **how)

    def discover(self, table: str, column: str, epsilon: float, **how: Any) -> Attribute:
        """Find the domain of a column in its private rows, with noise: charged. See `dp_domain` in SQL.

        With `lower` and `upper` (public) the edges of `bins` with about as many rows in each: (ε, δ)-DP by Gaussian DP.
        Without, the values that so many rows or units have that none of them makes one known: (ε, δ/2)-DP but for δ/2.

        >>> with connect() as db:
        ...     _ = db.sql("CREATE TABLE t AS SELECT 'ward ' || i % 3 AS ward FROM range(3000) r(i)")
        ...     _ = db.sql("INSERT INTO t VALUES ('ward of a single person')")
        ...     _ = db.protect("t", epsilon=3.0, delta=1e-9)
        ...     db.discover("t", "ward", epsilon=1.0).values
        ('ward 0', 'ward 1', 'ward 2')
        """
        self.instance.check_owner("discover")
        known = {"delta", "lower", "upper", "bins", "nulls", "other"}
        unknown = sorted(set(how) - known)
        if unknown:
            raise InvalidArgument(f"{unknown[0]} is no option of a discovery; there are {', '.join(sorted(known))}")
        epsilon = checked("epsilon", epsilon, float)
        with pressed(), watched(self.instance) as progress:
            with self.instance.cursor() as cursor:
                resolved = resolve_discovery(
                    cursor, DiscoveryRequest(table, column, epsilon, search_path=self._search_path, **how)
                )
            return discover(self.instance.cursor, resolved, progress)

    def constraint(self, table: str, predicate: str, *, remove: bool = False) -> None:
        """State a public fact that every synthetic row must satisfy. See `dp_constraint` in SQL.

        >>> with connect() as db:
        ...     _ = db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS sick, i % 6 = 0 AS fever FROM range(1000) r(i)")
        ...     _ = db.protect("t", epsilon=3.0, delta=1e-9)
        ...     db.constraint("t", "sick OR NOT fever")
        ...     int(db.synthesize("t", epsilon=1.0).df().eval("fever == True and sick == False").sum())
        0
        """
        self.instance.check_owner("constraint")
        with self.instance.cursor() as cursor:
            source = self._source(cursor, table)
            if remove:
                unconstrain(cursor, source, predicate)
            else:
                constrain(cursor, source, parse_predicate(source, predicate))

    def request(self, table: str, epsilon: float, **how: Any) -> Request:
        """The request that the arguments of `synthesize` state."""
        kinds = {
            "delta": float,
            "workload": str,
            "mechanism": str,
            "rows": int,
            "release": str,
            "prior": str,
            "reuse": bool,
        }
        given: dict[str, Any] = {
            name: checked(name, how.pop(name), kind) for name, kind in kinds.items() if how.get(name) is not None
        }
        if how.get("columns") is not None:
            given["columns"] = checked_names("columns", how.pop("columns"))
        how = {name: value for name, value in how.items() if value is not None}
        epsilon = checked("epsilon", epsilon, float)
        return Request(checked("table", table, str), epsilon, options=how, search_path=self._search_path, **given)

    def synthesize(self, table: str, epsilon: float, **how: Any) -> Release:
        """A synthetic table, charged once; the keywords are the parameters of `dp_synthesize` in SQL.

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
            request = self.request(table, epsilon, **how)
            with self.instance.cursor() as cursor, stopped_by(progress), breaking(progress):
                resolved = resolve(cursor, request)
            entry = produce(resolved, self.instance.cursor, progress)
        return Release(self, resolved, entry)

    def query(self, sql: str, epsilon: float, **how: Any) -> pd.DataFrame:
        """The noisy answers of a query, charged once; the keywords are the parameters of `dp_query` in SQL.

        Args:
            sql: grouped counts, sums and averages over one protected table.
            epsilon: what the answers cost.
            **how: `delta`, `mechanism`, `non_negative`, `release`.

        Returns:
            The query's own columns, and for each noisy column x also x_stderr, x_low and x_high.

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
        return self.call(DpQuery, sql=sql, epsilon=epsilon, **how)

    def call(self, function: type[TableFunction], **arguments: Any) -> pd.DataFrame:
        """The rows of one of the SQL functions, with the errors of Python.

        Args:
            function: its class.
            **arguments: its parameters; None for their defaults.

        Raises:
            DpsqlError: a child with the text that is DuckDB's error in SQL.
        """
        parameters = {parameter.name: parameter for parameter in function.parameters}
        unknown = sorted(set(arguments) - set(parameters))
        if unknown:
            raise InvalidArgument(f"{unknown[0]} is no parameter of {function.name}; there are {', '.join(parameters)}")
        given = {name: parameter.default for name, parameter in parameters.items()}
        for name, value in arguments.items():
            if value is not None:
                kind = _KINDS.get(parameters[name].type)
                listed = parameters[name].type == "VARCHAR[]"
                given[name] = list(checked_names(name, value)) if listed else value
                given[name] = given[name] if kind is None else checked(name, value, kind)
        missing = [name for name, value in given.items() if value is REQUIRED]
        if missing:
            raise InvalidArgument(f"{missing[0]} is missing: say {missing[0]}=…")
        with pressed():
            relation = function(self.instance).bind(Call(function.name, given, self._search_path))  # type: ignore[call-arg]
            rows = relation.run()
            with self.instance.cursor() as cursor, own_errors():
                return cursor.execute(rows).df()

    def plan(self, table: str, epsilon: float | None = None, **how: Any) -> pd.DataFrame:
        """What `synthesize` or `query` would measure and how noisily; spends nothing. See `dp_plan`.

        Args:
            table: the table, or a query.
            epsilon: what it would cost; None with `max_error`.
            **how: the parameters of `dp_plan` in SQL.

        Raises:
            DpsqlError: a child says what is wrong.
        """
        return self.call(DpPlan, table=table, epsilon=epsilon, **how)

    def budget(self) -> pd.DataFrame:
        """What is spent and left of each protected table. See `dp_budget`."""
        return self.call(DpBudget)

    def ledger(self) -> pd.DataFrame:
        """Every charge, in order. See `dp_ledger`."""
        return self.call(DpLedger)

    def releases(self) -> pd.DataFrame:
        """Every release. See `dp_releases`."""
        return self.call(DpReleases)


@contextmanager
def own_errors() -> Iterator[None]:
    """DuckDB's errors as dpsql's, with the same text: what runs inside reads released rows only."""
    try:
        yield
    except duckdb.Error as error:
        raise DpsqlError(str(error)) from None
