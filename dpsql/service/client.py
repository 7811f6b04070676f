"""A client of a service, with the methods of `dpsql.Database` that an analyst may use, and the same results.

    rows = CAST(text AS type), where text is DuckDB's own text of a value in the service, and type what DESCRIBE said

So a result has the types that it has on the owner's side, whatever PostgreSQL's protocol has for them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

import duckdb

from dpsql import errors
from dpsql.api.request_arguments import RequestArguments
from dpsql.api.signatures import of_requests
from dpsql.core.arguments import checked_names
from dpsql.core.names import as_text
from dpsql.errors import DpsqlError, Interrupted

from .arrow import received

if TYPE_CHECKING:
    import pandas as pd
    import psycopg

    from dpsql.api.plan_frame import PlanFrame

    Connection = psycopg.Connection[Any]

_BATCH: Final = 50_000
_KINDS: Final[Mapping[str, type[DpsqlError]]] = {
    "22023": errors.InvalidArgument,
    "42601": errors.InvalidQuery,
    "42704": errors.UnknownName,
    "42501": errors.NotAllowed,
    "53400": errors.InsufficientBudget,
    "54000": errors.DomainTooLarge,
    "55000": errors.NotDeclared,
    "57014": errors.Interrupted,
}
"""Errors by PostgreSQL's codes; others are `DpsqlError`."""


class Client:
    """A session of an analyst: `dpsql.client("postgresql://alice:TOKEN@host:5439/dpsql?sslrootcert=bank.duckdb.crt")`.

    A context manager. Its methods raise `DpsqlError`, or the child that the same call raises on the owner's side.

    Attributes:
        connection: of psycopg, for everything else.
    """

    def __init__(self, url: str, *, progress: Callable[[str], None] | None = None) -> None:
        self._progress = progress or _printed
        self._local = duckdb.connect()
        self._number = 0
        psycopg = _psycopg()
        given = psycopg.conninfo.conninfo_to_dict(url)
        secure = {"sslmode": "verify-full", **given}
        try:
            self.connection: Connection = psycopg.connect(**secure, autocommit=True, cursor_factory=psycopg.RawCursor)
        except psycopg.Error as error:
            raise DpsqlError(str(error).strip()) from None
        self.connection.add_notice_handler(lambda notice: self._progress(str(notice.message_primary)))

    def __enter__(self) -> Self:
        """Open already."""
        return self

    def __exit__(self, *_: object) -> None:
        """See `close`."""
        self.close()

    def close(self) -> None:
        """End the session; relations of it end, too."""
        self.connection.close()
        self._local.close()

    def interrupt(self) -> None:
        """Stop what runs, from another thread; what was charged is kept, and the same call goes on from it."""
        self.connection.cancel()

    def sql(self, query: str, params: Sequence[object] | None = None) -> duckdb.DuckDBPyRelation:
        """The rows of a SELECT, which runs in the service.

        Args:
            query: on released tables, or of dp_* functions, which are charged to you.
            params: values of `$1`, `$2`, ….

        Returns:
            A relation in this process, with DuckDB's types: it prints itself, and has `df()`, `pl()` and `fetchall()`.
        """
        described = self._rows(f"DESCRIBE {query}", params)
        columns = [(str(row[0]), str(row[1])) for row in described]
        names = [f"c{number}" for number in range(len(columns))]
        shown = ", ".join(f"CAST({name} AS VARCHAR) AS {name}" for name in names)
        texts = f"SELECT {shown} FROM ({query}\n) AS q({', '.join(names)})"  # noqa: S608 - the service checks it
        return self._stored(columns, texts, params)

    def _stored(
        self, columns: list[tuple[str, str]], texts: str, params: Sequence[object] | None
    ) -> duckdb.DuckDBPyRelation:
        """A table in this process, of rows that are asked for as texts."""
        import pyarrow as pa

        self._number += 1
        schema = pa.schema([(f"c{number}", pa.string()) for number in range(len(columns))])
        batches = []
        with _own_errors(), self.connection.cursor() as cursor:
            cursor.execute(texts, params)
            while rows := cursor.fetchmany(_BATCH):
                parts = zip(*rows, strict=True)
                batches.append(
                    pa.RecordBatch.from_arrays([pa.array(part, pa.string()) for part in parts], schema=schema)
                )
        name, view = f"r{self._number}", f"received{self._number}"
        self._local.register(view, pa.Table.from_batches(batches, schema))
        self._local.execute(f"CREATE TABLE {name} AS {received(view, columns)}")
        self._local.unregister(view)
        return self._local.table(name)

    def _rows(self, query: str, params: Sequence[object] | None = None) -> list[tuple[Any, ...]]:
        with _own_errors():
            rows: list[tuple[Any, ...]] = self.connection.execute(query, params).fetchall()
            return rows

    def query(
        self,
        sql: str,
        epsilon: float,
        *,
        delta: float | None = None,
        mechanism: str | None = None,
        non_negative: bool | None = None,
        release: str | None = None,
    ) -> pd.DataFrame:
        """The noisy answers of a query, charged once to you and its table. See `Database.query`."""
        given = _named(
            epsilon=epsilon, delta=delta, mechanism=mechanism, non_negative=non_negative, release=release
        )  # fmt: skip
        return _frame(self._called("dp_query", sql, given))

    @of_requests
    def synthesize(self, table: str, epsilon: float, **arguments: Unpack[RequestArguments]) -> duckdb.DuckDBPyRelation:
        """The rows of a synthetic table, charged once to you and its table. See `Database.synthesize`."""
        columns = arguments.pop("columns", None)
        listed = None if columns is None else checked_names("columns", columns)
        return self._called("dp_synthesize", table, _named(epsilon=epsilon, columns=listed, **arguments))

    def plan(self, table: str, epsilon: float | None = None, **arguments: object) -> PlanFrame:
        """What `synthesize` or `query` would measure and how noisily; spends nothing. See `Database.plan`."""
        from dpsql.api.plan_frame import PlanFrame

        return PlanFrame(_frame(self._called("dp_plan", table, _named(epsilon=epsilon, **arguments))))

    def _called(self, function: str, about: str, given: str) -> duckdb.DuckDBPyRelation:
        return self.sql(f"SELECT * FROM {function}({literal(about)}{given})")  # noqa: S608 - literals

    def budget(self) -> pd.DataFrame:
        """What you may cause, and did. See `Database.budget`."""
        return _frame(self.sql("SELECT * FROM dp_budget()"))

    def releases(self) -> pd.DataFrame:
        """Your releases. See `Database.releases`."""
        return _frame(self.sql("SELECT * FROM dp_releases()"))

    def tables(self) -> list[str]:
        """The released tables that you are shown."""
        return [str(row[0]) for row in self._rows("SELECT tablename FROM pg_catalog.pg_tables ORDER BY 1")]


def client(url: str, *, progress: Callable[[str], None] | None = None) -> Client:
    """A client of a service.

    Args:
        url: as PostgreSQL writes it, with the user's name and token. TLS is verified unless `sslmode` says otherwise.
        progress: is told how far a call is; by default it is printed where standard error is a terminal.

    Raises:
        DpsqlError: psycopg is not installed, or the service refused the login.
    """
    return Client(url, progress=progress)


def literal(value: object) -> str:
    """A value as SQL has it.

    >>> literal("it's"), literal(True), literal(0.1), literal(["a", "b"])
    ("'it''s'", 'true', '0.1', "['a', 'b']")
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(literal, value))}]"
    return as_text(str(value))


def _named(**arguments: object) -> str:
    """Arguments after the first."""
    return "".join(f", {name} => {literal(value)}" for name, value in arguments.items() if value is not None)


def _frame(relation: duckdb.DuckDBPyRelation) -> pd.DataFrame:
    frame: pd.DataFrame = relation.df()
    return frame


def _printed(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"dpsql: {text}\n")


def _psycopg() -> Any:
    try:
        import psycopg
        import psycopg.conninfo
        import pyarrow  # noqa: F401 - needed for the rows
    except ImportError:
        raise DpsqlError("dpsql.client needs psycopg and pyarrow: run pip install 'dpsql[client]'") from None
    return psycopg


class _own_errors:
    """Psycopg's errors become dpsql's."""

    def __enter__(self) -> None:
        """Nothing."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Raise the error anew, where it is psycopg's."""
        import psycopg

        if isinstance(error, psycopg.Error):
            error_class = _KINDS.get(error.sqlstate or "", DpsqlError)
            raise (error_class() if error_class is Interrupted else error_class(str(error).strip())) from None
