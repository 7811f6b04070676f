"""Which engine has a table's rows: the one place that names the engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from importlib import import_module
from types import MappingProxyType
from typing import Final, cast

from dpsql.core.domain import Attribute
from dpsql.core.linear_query import LinearQuery
from dpsql.core.names import as_text
from dpsql.engines.costs import Rates
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.external import ExternalEngine
from dpsql.engines.protocol import Engine
from dpsql.engines.source import HOST, Source
from dpsql.errors import DpsqlError, InvalidArgument


def _later(where: str) -> Callable[[Cursor], ExternalEngine]:
    """An engine whose module is imported when it is opened, because its driver may be large."""

    def opened(cursor: Cursor) -> ExternalEngine:
        return engine_class(where)(cursor)

    return opened


def engine_class(where: str) -> type[ExternalEngine]:
    """The class of an engine, from `module:class`."""
    module, _, name = where.partition(":")
    return cast("type[ExternalEngine]", getattr(import_module(module), name))


EXTERNAL: Final[Mapping[str, str]] = MappingProxyType(
    {
        "parquet": "dpsql.engines.lake.parquet:ParquetEngine",
        "delta": "dpsql.engines.lake.delta:DeltaEngine",
        "iceberg": "dpsql.engines.lake.iceberg:IcebergEngine",
        "postgres": "dpsql.engines.postgres.engine:PostgresEngine",
        "snowflake": "dpsql.engines.sql.snowflake:SnowflakeEngine",
        "bigquery": "dpsql.engines.sql.bigquery:BigQueryEngine",
        "spark": "dpsql.engines.spark.engine:SparkTaskEngine",
        "spark_sql": "dpsql.engines.spark.engine:SparkSqlEngine",
        # one line an engine
    }
)
"""Where the class of each engine is that `dp_source` knows; see `dpsql.engines.external`."""
ENGINES: Final[Mapping[str, Callable[[Cursor], Engine]]] = MappingProxyType(
    {HOST: DuckDBEngine} | {name: _later(where) for name, where in EXTERNAL.items()}
)
"""For each name that `Source.engine` may be, what opens the engine beside a connection to the host."""


def engine_of(cursor: Cursor, source: Source) -> Engine:
    """The engine that has the rows of a table; the caller closes it.

    Args:
        cursor: a connection to the host of the caller's own, which the engine may use until it is closed.
        source: the table.

    Raises:
        DpsqlError: this version of dpsql has no such engine.
    """
    if source.engine not in ENGINES:
        raise DpsqlError(
            f"the rows of {source.name!r} are in engine {source.engine!r}, which this dpsql does not know: install "
            "the version that registered it"
        )
    check_period(source)
    return ENGINES[source.engine](cursor)


def check_period(source: Source) -> None:
    """Refuse to read one period's rows in an engine that would read all.

    Raises:
        InvalidArgument: it is one.
    """
    if source.period is not None and source.place is not None:
        raise InvalidArgument(
            f"period is {source.period.label!r}, but rows of {source.name!r} are in engine {source.place.engine!r}, "
            "and periods are of tables in DuckDB"
        )


def external(cursor: Cursor, engine: str) -> ExternalEngine:
    """The engine of that name, for `dp_source`.

    Raises:
        InvalidArgument: there is none.
    """
    if engine not in EXTERNAL:
        raise InvalidArgument(f"engine is {engine!r}: there are {', '.join(map(repr, sorted(EXTERNAL)))}")
    return cast("ExternalEngine", ENGINES[engine](cursor))


def cannot_of(source: Source) -> Mapping[str, str]:
    """The counts that the engine of a table cannot make, each with what works instead; see `ExternalEngine.cannot`."""
    return {} if source.engine == HOST else engine_class(EXTERNAL[source.engine]).cannot


def rates_of(source: Source) -> Rates | None:
    """How fast the engine of a table counts; None of the host, which a plan's seconds are about anyway."""
    return None if source.engine == HOST else engine_class(EXTERNAL[source.engine]).rates


def check_readable(source: Source, attribute: Attribute) -> None:
    """Refuse a domain of texts that are read as numbers, where the engine of a table cannot read them.

    Raises:
        InvalidArgument: says what works instead.
    """
    if attribute.is_read and "read_as" in (cannot := cannot_of(source)):
        raise InvalidArgument(
            f"read_as: engine {source.engine!r} of {source.name!r} cannot read the values of {attribute.name!r} as "
            f"{attribute.type}; {cannot['read_as']}"
        )


def check_domain(cursor: Cursor, source: Source, attribute: Attribute) -> None:
    """Refuse a domain that the engine of a table cannot count in, when it is declared.

    Raises:
        InvalidArgument: says what works instead.
    """
    check_readable(source, attribute)
    if source.engine != HOST and attribute.kind != "excluded":
        with closing(external(cursor, source.engine)) as opened:
            opened.check_domain(source, attribute)


def check_listed(cursor: Cursor, source: Source, column: str) -> None:
    """Refuse to list the values of a column that the engine of a table cannot tell apart.

    Raises:
        InvalidArgument: says what works instead.
    """
    if source.engine != HOST:
        with closing(external(cursor, source.engine)) as opened:
            opened.check_listed(source, column)


def check_sums(cursor: Cursor, source: Source, query: LinearQuery) -> None:
    """Refuse sums that the engine of a table could fail to compute, because of a value of a row.

    Raises:
        InvalidQuery: says what works instead.
    """
    if source.engine != HOST:
        external(cursor, source.engine).check_sums(query)


def check_unit(cursor: Cursor, source: Source, unit: str) -> None:
    """Refuse a privacy unit that the engine of a table cannot bound, or whose rows were not drawn together.

    Raises:
        InvalidArgument: says the call of `dp_source` that works.
    """
    if source.place is None:
        return
    if not source.place.sample:
        external(cursor, source.place.engine).check_unit(source, unit)
    elif source.place.drawn["by"] != unit:
        raise InvalidArgument(
            f"privacy_unit is {unit!r}, but the sample of {source.name!r} was drawn by "
            f"{source.place.drawn['by'] or 'rows'}, so it has some rows of a unit and not others: first say "
            f"CALL dp_source({source.argument}, identity := {as_text(unit)}, sample := …, rows := …)"
        )


def find_source(cursor: Cursor, text: str, search_path: str = "") -> Source:
    """The table that a name means; see `Engine.find`. Names are the host's, whatever engine has the rows."""
    return DuckDBEngine(cursor).find(text, search_path)


def find_parts(
    cursor: Cursor, parts: Sequence[str], home: tuple[str, str], known_source: Source | None = None
) -> Source:
    """The table that the parts of a name mean; see `Engine.find_parts`."""
    return DuckDBEngine(cursor).find_parts(parts, home, known_source)
