"""BigQuery: `CALL dp_source('adult', engine := 'bigquery', environment := 'BANK_BQ', relation := 'bank.data.adult')`.

A table is counted as it was at one instant, by FOR SYSTEM_TIME AS OF. NaN is equal to nothing there and in no bin, so
`IS_NAN` asks for it. A decimal constant needs its type, because 2.51 without one is a binary float.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from sqlglot import exp

from dpsql.engines.costs import Rates
from dpsql.engines.sql import types
from dpsql.engines.sql.database import Database
from dpsql.engines.sql.engine import WarehouseEngine
from dpsql.engines.sql.types import NO_DOMAIN, Native, column_of, decimal, typed

_KINDS: Final[Mapping[str, Native]] = {
    "INT64": Native(types.WHOLE, "BIGINT"),
    "FLOAT64": Native(types.FLOAT, "DOUBLE"),
    "STRING": Native(types.TEXT, "VARCHAR"),
    "BOOL": Native(types.TRUTH, "BOOLEAN"),
    "DATE": Native(types.DATE, "DATE"),
    "TIME": Native(types.TIME, "TIME"),
    "DATETIME": Native(types.TIMESTAMP, "TIMESTAMP"),
    "TIMESTAMP": Native(types.INSTANT, "TIMESTAMP WITH TIME ZONE"),
}
_CASTS: Final[Mapping[str, str]] = {
    types.DECIMAL: "NUMERIC",
    types.FLOAT: "FLOAT64",
    types.DATE: "DATE",
    types.TIME: "TIME",
    types.TIMESTAMP: "DATETIME",
    types.INSTANT: "TIMESTAMP",
}
_NUMERIC: Final = re.compile(r"(BIG)?NUMERIC(?:\((\d+)(?:, *(\d+))?\))?")


class BigQuery(Database):
    """See `Database`."""

    name: ClassVar[str] = "bigquery"
    label: ClassVar[str] = "BigQuery"
    sqlglot: ClassVar[str] = "bigquery"
    driver: ClassVar[str] = "adbc_driver_bigquery"
    casts: ClassVar[Mapping[str, str]] = _CASTS
    example: ClassVar[str] = "project.dataset.table"

    def native(self, type_name: str, precision: int | None, scale: int | None) -> Native:
        """See `Database.native`; the digits are in the name, as NUMERIC(9, 2) or STRING(10)."""
        match = _NUMERIC.fullmatch(type_name)
        if match is None:
            return _KINDS.get(type_name.partition("(")[0], NO_DOMAIN)
        big, digits, after = match.groups()
        if digits is None:
            return NO_DOMAIN if big else decimal(38, 9)
        number = decimal(int(digits), int(after or 0))
        return Native(types.DECIMAL, number.in_duckdb, "BIGNUMERIC" if big else "")

    def equals(self, name: str, text: str, native: Native) -> exp.Expr:
        """See `Dialect.equals`."""
        if native.kind == types.FLOAT and text in ("nan", "-nan"):
            return exp.IsNan(this=column_of(name))
        return super().equals(name, text, native)

    def columns(self, parts: Sequence[str]) -> str:
        """See `Database.columns`."""
        database, schema, table = parts
        where = f"{_quoted(database)}.{_quoted(schema)}.INFORMATION_SCHEMA"
        name = exp.Literal.string(table).sql(dialect="bigquery")
        return (
            "SELECT c.column_name AS name, c.data_type AS kind, c.is_nullable AS nullable, "  # noqa: S608
            "CAST(NULL AS INT64) AS digits, CAST(NULL AS INT64) AS scale, "
            "IF(c.collation_name = 'NULL', NULL, c.collation_name) AS collation, "
            "IF(c.is_generated = 'ALWAYS', 'YES', 'NO') AS computed, "
            f"(SELECT MAX(table_type) FROM {where}.TABLES WHERE table_name = {name}) AS of_table "
            f"FROM {where}.COLUMNS AS c WHERE c.table_name = {name} AND c.ordinal_position IS NOT NULL "
            "ORDER BY c.ordinal_position"
        )

    def identity(self) -> str:
        """See `Database.identity`: the project is in the name of each table."""
        return "SELECT '' AS n"

    def now(self) -> str:
        """See `Database.now`: a second ago, so that no write of now comes later."""
        return "SELECT CAST(TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 1 SECOND) AS STRING) AS n"

    def at(self, table: exp.Table, snapshot: str) -> exp.Expr:
        """See `Database.at`."""
        when = typed(snapshot, "TIMESTAMP", "bigquery")
        table.set("version", exp.Version(this="TIMESTAMP", kind="AS OF", expression=when))
        return table


def _quoted(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql(dialect="bigquery")


class BigQueryEngine(WarehouseEngine):
    """See `WarehouseEngine`."""

    dialect: ClassVar[Database] = BigQuery()
    rates: ClassVar[Rates] = Rates("BigQuery", row=None, marginal=None, more=8)
