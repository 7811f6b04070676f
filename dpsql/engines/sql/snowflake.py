"""Snowflake: `CALL dp_source('adult', engine := 'snowflake', environment := 'BANK_SF', relation := 'BANK.S.ADULT')`.

A table is counted as it was at one instant, by AT (TIMESTAMP => …), which takes Time Travel. NaN is equal to itself
there and above all numbers. Texts are compared by their bytes unless a column has a collation. A time has up to nine
digits of a second, of which a constant has six.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from sqlglot import exp

from dpsql.engines.costs import Rates
from dpsql.engines.sql import types
from dpsql.engines.sql.database import Database
from dpsql.engines.sql.engine import WarehouseEngine
from dpsql.engines.sql.types import NO_DOMAIN, Native, column_of, decimal, typed

_KINDS: Final[Mapping[str, Native]] = {
    "FLOAT": Native(types.FLOAT, "DOUBLE"),
    "REAL": Native(types.FLOAT, "DOUBLE"),
    "TEXT": Native(types.TEXT, "VARCHAR"),
    "BOOLEAN": Native(types.TRUTH, "BOOLEAN"),
    "DATE": Native(types.DATE, "DATE"),
    "TIME": Native(types.TIME, "TIME"),
    "TIMESTAMP_NTZ": Native(types.TIMESTAMP, "TIMESTAMP"),
    "TIMESTAMP_LTZ": Native(types.INSTANT, "TIMESTAMP WITH TIME ZONE"),
    "TIMESTAMP_TZ": Native(types.INSTANT, "TIMESTAMP WITH TIME ZONE"),
}
_CASTS: Final[Mapping[str, str]] = {
    types.FLOAT: "DOUBLE",
    types.DATE: "DATE",
    types.TIME: "TIME",
    types.TIMESTAMP: "TIMESTAMP_NTZ",
    types.INSTANT: "TIMESTAMP_TZ",
}


class Snowflake(Database):
    """See `Database`."""

    name: ClassVar[str] = "snowflake"
    label: ClassVar[str] = "Snowflake"
    sqlglot: ClassVar[str] = "snowflake"
    driver: ClassVar[str] = "adbc_driver_snowflake"
    casts: ClassVar[Mapping[str, str]] = _CASTS
    example: ClassVar[str] = "DATABASE.SCHEMA.TABLE"
    settings: ClassVar[Sequence[str]] = (
        "ALTER SESSION SET TIMEZONE = 'UTC', QUOTED_IDENTIFIERS_IGNORE_CASE = FALSE, QUERY_TAG = 'dpsql'",
        "ALTER SESSION SET DATE_INPUT_FORMAT = 'AUTO', TIME_INPUT_FORMAT = 'AUTO', TIMESTAMP_INPUT_FORMAT = 'AUTO'",
    )

    def native(self, type_name: str, precision: int | None, scale: int | None) -> Native:
        """See `Database.native`."""
        if type_name == "NUMBER":
            return decimal(38 if precision is None else precision, scale or 0)
        return _KINDS.get(type_name, NO_DOMAIN)

    def spelled(self, text: str, native: Native) -> str:
        """See `Dialect.spelled`: an offset has minutes."""
        return f"{text}:00" if native.kind == types.INSTANT and text[-3] in "+-" else text

    def column(self, name: str, native: Native) -> exp.Expr:
        """See `Dialect.column`: the catalogue does not tell which columns have a collation, so none decides."""
        column = column_of(name)
        if native.kind != types.TEXT:
            return column
        return exp.Collate(this=column, expression=exp.Literal.string("utf8"))

    def columns(self, parts: Sequence[str]) -> str:
        """See `Database.columns`; the catalogue does not tell which columns are computed."""
        database, schema, table = parts
        where = f"{_quoted(database)}.INFORMATION_SCHEMA"
        names = f"table_schema = {_text(schema)} AND table_name = {_text(table)}"
        return (
            'SELECT c.column_name AS "name", c.data_type AS "kind", c.is_nullable AS "nullable", '  # noqa: S608
            'c.numeric_precision AS "digits", c.numeric_scale AS "scale", c.collation_name AS "collation", '
            f"'NO' AS \"computed\", "
            f'(SELECT max(table_type) FROM {where}.TABLES WHERE {names}) AS "of_table" '
            f"FROM {where}.COLUMNS AS c WHERE {names} ORDER BY c.ordinal_position"
        )

    def identity(self) -> str:
        """See `Database.identity`."""
        return "SELECT CURRENT_ORGANIZATION_NAME() || '.' || CURRENT_ACCOUNT_NAME() AS \"n\""

    def now(self) -> str:
        """See `Database.now`: a second ago, because AT knows milliseconds, and a warehouse's clocks differ a little."""
        second_ago = "DATEADD(second, -1, CURRENT_TIMESTAMP())"
        return f"SELECT TO_CHAR({second_ago}, 'YYYY-MM-DD HH24:MI:SS.FF3 TZH:TZM') AS \"n\""

    def at(self, table: exp.Table, snapshot: str) -> exp.Expr:
        """See `Database.at`."""
        when = typed(snapshot, "TIMESTAMP_TZ", "snowflake")
        table.set("when", exp.HistoricalData(this="AT", kind="TIMESTAMP", expression=when))
        return table

    def stored(self, identifier: exp.Identifier) -> str:
        """See `Database.stored`: in capitals, unless it is quoted."""
        return str(identifier.this) if identifier.args.get("quoted") else str(identifier.this).upper()

    def connecting(self, options: Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """See `Database.connecting`; its driver takes the address apart from the rest."""
        others = {key: value for key, value in options.items() if key != "uri"}
        return ([options["uri"]] if "uri" in options else []), {"db_kwargs": others, "autocommit": True}


def _quoted(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql(dialect="snowflake")


def _text(value: str) -> str:
    return exp.Literal.string(value).sql(dialect="snowflake")


class SnowflakeEngine(WarehouseEngine):
    """See `WarehouseEngine`."""

    dialect: ClassVar[Database] = Snowflake()
    rates: ClassVar[Rates] = Rates("Snowflake", row=None, marginal=None, more=8)
