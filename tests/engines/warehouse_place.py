"""Places of the conformance suite for warehouses of which the tests have no account: their statements, run in DuckDB.

The engine, its ADBC connection and the texts of its statements are the product's own. DuckDB plays the warehouse over
its own ADBC driver: sqlglot reads each statement as SQL of the warehouse and writes it for DuckDB. What the warehouse
itself would make of the statement is not tested; `test_warehouse.py` has the texts for somebody who can.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar
from weakref import WeakSet

import adbc_driver_duckdb.dbapi
import adbc_driver_manager.dbapi
import pyarrow as pa
import pytest
import sqlglot
from sqlglot import exp

import dpsql
from dpsql.core.domain import Attribute, Domain
from dpsql.engines.external import ExternalEngine
from dpsql.engines.registry import ENGINES
from dpsql.engines.sql.bigquery import BigQuery, BigQueryEngine
from dpsql.engines.sql.database import Database
from dpsql.engines.sql.snowflake import Snowflake, SnowflakeEngine
from dpsql.engines.sql.types import Native

from .conformance import Rows
from .held_in_duckdb import WithUnits

LONG = 3_000_000
"""Rows."""
VARIABLE = "DPSQL_TEST_WAREHOUSE"
TYPES = {
    "ENUM('sad', 'ok', 'happy')": "VARCHAR",
    "TINYINT": "INTEGER",
    "SMALLINT": "INTEGER",
    "FLOAT": "DOUBLE",
}
"""What a type of the suite is in a warehouse."""


class SnowflakeHere(Snowflake):
    """Its SQL, and DuckDB's catalogue."""

    driver = "dpsql_test_snowflake"
    settings = ()
    NAMES: ClassVar[Mapping[str, tuple[str, int, int]]] = {"INTEGER": ("NUMBER", 9, 0), "BIGINT": ("NUMBER", 18, 0)}

    def native(self, type_name: str, precision: int | None, scale: int | None) -> Native:
        names = {"DOUBLE": "FLOAT", "VARCHAR": "TEXT", "TIMESTAMP": "TIMESTAMP_NTZ"}
        if type_name.startswith("DECIMAL"):
            return super().native("NUMBER", precision, scale)
        if type_name in self.NAMES:
            return super().native(*self.NAMES[type_name])
        named = "TIMESTAMP_TZ" if type_name.endswith("ZONE") else names.get(type_name, type_name)
        return super().native(named, precision, scale)

    def columns(self, parts: Sequence[str]) -> str:
        return catalogue(*parts[1:])

    def identity(self) -> str:
        return "SELECT 'here' AS n"

    def now(self) -> str:
        return "SELECT '2026-01-01 00:00:00.000000 +00:00' AS n"

    def stored(self, identifier: exp.Identifier) -> str:
        return str(identifier.this)

    def connecting(self, options: Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
        return [], {}


class BigQueryHere(BigQuery):
    """Its SQL, and DuckDB's catalogue."""

    driver = "dpsql_test_bigquery"

    def native(self, type_name: str, precision: int | None, scale: int | None) -> Native:
        names = {"DOUBLE": "FLOAT64", "VARCHAR": "STRING", "TIMESTAMP": "DATETIME", "BOOLEAN": "BOOL"}
        whole = dict.fromkeys(("INTEGER", "BIGINT"), "INT64")
        if type_name.startswith("DECIMAL"):
            return super().native(f"NUMERIC({precision}, {scale})", None, None)
        named = "TIMESTAMP" if type_name.endswith("ZONE") else {**names, **whole}.get(type_name, type_name)
        return super().native(named, precision, scale)

    columns = SnowflakeHere.columns
    identity = SnowflakeHere.identity
    now = SnowflakeHere.now
    connecting = SnowflakeHere.connecting


def catalogue(schema: str, table: str) -> str:
    """DuckDB's columns, in the words of `Database.columns`."""
    tables = f"table_schema = '{schema}' AND table_name = '{table}'"
    return (
        "SELECT column_name AS name, data_type AS kind, is_nullable AS nullable, numeric_precision AS digits, "
        "numeric_scale AS scale, collation_name AS collation, CASE WHEN is_generated = 'ALWAYS' THEN 'YES' ELSE 'NO' END "
        "AS computed, (SELECT max(table_type) FROM "
        f"information_schema.tables WHERE {tables}) AS of_table FROM information_schema.columns WHERE {tables} "
        "ORDER BY ordinal_position"
    )


def in_duckdb(sql: str, read: str) -> str:
    """A statement of a warehouse as one of DuckDB: without the snapshot, which is a transaction here."""

    def changed(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Table):
            node.set("when", None)
            node.set("version", None)
        if isinstance(node, exp.Collate) and isinstance(node.expression, exp.Literal):
            return node.this
        if isinstance(node, exp.DataType) and node.is_type("decimal", "bignumeric") and not node.expressions:
            return exp.DataType.build("DECIMAL(38, 9)", dialect="duckdb")
        return node

    return sqlglot.parse_one(sql, read=read).transform(changed).sql(dialect="duckdb")


class Cursor(adbc_driver_manager.dbapi.Cursor):
    """Runs a warehouse's SQL in DuckDB."""

    read: ClassVar[str]
    asked: ClassVar[list[str]] = []
    """The statements that were run."""
    failed: ClassVar[WeakSet[adbc_driver_manager.dbapi.Connection]] = WeakSet()
    """Connections whose transaction an error has ended."""

    def execute(self, operation: Any, parameters: Any = None, **options: Any) -> Any:
        sql = operation if "information_schema" in operation else in_duckdb(operation, self.read)
        self.asked.append(operation)
        if self.connection in self.failed:
            self.connection.rollback()  # not where the error was, which an interrupt would have ended too
            self.failed.discard(self.connection)
        with self._goes_on():
            super().execute(sql, parameters, **options)

    def fetch_arrow_table(self) -> Any:
        with self._goes_on():
            return super().fetch_arrow_table()

    @contextmanager
    def _goes_on(self) -> Iterator[None]:
        """An error ends the transaction that stands in for a snapshot; a warehouse has none, and takes the next."""
        try:
            yield
        except (adbc_driver_manager.dbapi.Error, pa.ArrowException):
            self.failed.add(self.connection)
            raise


def driver_of(
    main: adbc_driver_manager.dbapi.Connection, read: str, made: WeakSet[adbc_driver_manager.dbapi.Connection]
) -> ModuleType:
    """An ADBC driver that takes a warehouse's SQL to one DuckDB, whatever it is told to connect with."""
    reading = type("Cursor", (Cursor,), {"read": read})

    class Connection(adbc_driver_manager.dbapi.Connection):
        def cursor(self, **options: Any) -> Cursor:
            cursor: Cursor = reading(self, **options)
            return cursor

    def connect(**options: Any) -> Connection:
        found = main.adbc_clone()  # begins a transaction, which stands in for the snapshot
        found.__class__ = Connection
        made.add(found)
        return found

    module = ModuleType("driver")
    module.connect = connect
    return module


class InWarehouse(WithUnits):
    """Tables of a second DuckDB file, which plays the warehouse; stubs are in a database in memory."""

    marks: ClassVar[frozenset[str]] = frozenset({"NOT NULL"})
    cannot: ClassVar[frozenset[str]] = frozenset(
        {"presence", "among", "codes", "read_as", "units", "sums", "values of floats"}
    )

    def __init__(self, db: dpsql.Database, name: str, main: adbc_driver_manager.dbapi.Connection) -> None:
        self._db, self._name, self._main, self._cursor = db, name, main, db.connection.cursor()
        self.made: WeakSet[adbc_driver_manager.dbapi.Connection] = WeakSet()
        """Connections of the engine."""

    def sql(self, *statements: str, fetch: bool = False) -> None:
        """Statements in the warehouse, in DuckDB's words."""
        with self._main.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            if fetch:
                cursor.fetchall()

    def open(self) -> ExternalEngine:
        return ENGINES[self._name](self._cursor)

    def stored(self, kind: str) -> str:
        found = TYPES.get(kind, kind)
        return "BIGINT" if found == "INTEGER" and self._name == "bigquery" else found

    def table(self, name: str, columns: Mapping[str, str], rows: Rows) -> None:
        listed = ", ".join(f'"{column}" {self._made(kind)}' for column, kind in columns.items())
        self.sql(f'CREATE OR REPLACE TABLE "{name}" ({listed})')
        if rows:
            self.append(name, rows)
        self._register(name)

    def _made(self, kind: str) -> str:
        first, _, more = kind.partition(" NOT NULL")
        return TYPES.get(first, first) + kind[len(first) :] if more or first != kind else TYPES.get(kind, kind)

    def _register(self, name: str) -> None:
        self._db.sql(f'DROP TABLE IF EXISTS "{name}"')
        quoted = exp.to_identifier(name, quoted=True).sql(dialect=self._name)
        self._db.source(f'"{name}"', engine=self._name, environment=VARIABLE, relation=f"warehouse.main.{quoted}")

    def append(self, name: str, rows: Rows) -> None:
        with self._main.cursor() as cursor:
            cursor.execute(f"SELECT data_type FROM duckdb_columns() WHERE table_name = '{name}' ORDER BY column_index")
            kinds = cursor.fetch_arrow_table().column(0).to_pylist()
            texts = {f"c{n}": pa.array([row[n] for row in rows], pa.string()) for n in range(len(kinds))}
            cursor.adbc_ingest("texts", pa.table(texts), mode="replace")
            casts = ", ".join(f"CAST(c{n} AS {kind})" for n, kind in enumerate(kinds))
            cursor.execute(f'INSERT INTO "{name}" SELECT {casts} FROM texts')

    def view(self, name: str, of: str) -> None:
        self._db.sql(f"CREATE VIEW {name} AS FROM {of}")

    def long(self, name: str) -> Domain:
        self.sql(f"CREATE TABLE {name} AS SELECT i % 1000 AS x, i % 777 AS y FROM range({LONG}) r(i)")
        self._register(name)
        return Domain(tuple(Attribute(n, "BIGINT", "bins", (), (0, 500, 1000), ("0", "500", "999")) for n in "xy"))

    def failing(self, name: str, value: str) -> Domain:
        computed = "VARCHAR GENERATED ALWAYS AS (CAST(CAST(x AS INTEGER) AS VARCHAR))"
        self.sql(
            f"CREATE TABLE {name} (x VARCHAR, y {computed})",
            f"INSERT INTO {name} VALUES ('1')",
            f"UPDATE {name} SET x = '{value}'",
        )
        with pytest.raises(adbc_driver_manager.dbapi.Error, match=value):
            self.sql(f"SELECT y FROM {name}", fetch=True)
        self._register(name)
        return Domain((Attribute("y", "VARCHAR", "values", ("1",), nullable=True),))

    def left(self) -> int:
        """Transactions that hold the snapshot of a counter."""
        return len([one for one in self.made if not one._closed])


DIALECTS: Mapping[str, tuple[type[Database], type[ExternalEngine]]] = {
    "snowflake": (SnowflakeHere, SnowflakeEngine),
    "bigquery": (BigQueryHere, BigQueryEngine),
}


@contextmanager
def warehouse_place(folder: Path, *, name: str) -> Iterator[InWarehouse]:
    dialect, engine = DIALECTS[name]
    main = adbc_driver_duckdb.dbapi.connect(str(folder / "warehouse.duckdb"), autocommit=True)
    with pytest.MonkeyPatch.context() as patch, dpsql.connect() as db, main:
        patch.setattr(engine, "dialect", dialect())
        place = InWarehouse(db, name, main)
        package, module = ModuleType(dialect.driver), driver_of(main, name, place.made)
        package.dbapi = module
        patch.setitem(sys.modules, dialect.driver, package)
        patch.setitem(sys.modules, f"{dialect.driver}.dbapi", module)
        patch.setenv(VARIABLE, "{}")
        yield place
