"""Places of the conformance suite whose tables are in Spark, registered by dp_source; DuckDB writes their files."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsql
from dpsql.core.domain import Attribute, Domain
from dpsql.engines.registry import external
from dpsql.engines.spark.engine import SparkEngine

from .conformance import Rows
from .held_in_duckdb import WithUnits, fill
from .spark_session import Spark, has_collations, spark

LONG = 300_000
"""Rows."""
TYPES = {"VARCHAR": "STRING", "TIMESTAMP": "TIMESTAMP_NTZ"}
_numbers = itertools.count()


class InSpark(WithUnits):
    """Tables of Spark's catalogue; the stubs, and the secrets of units, are in a database of DuckDB."""

    engine: ClassVar[str] = "spark"
    form: ClassVar[str] = "parquet"
    environment: ClassVar[str] = ""
    """The variable that leads to the session; the one of this process without."""
    marks: ClassVar[frozenset[str]] = frozenset()
    cannot: ClassVar[frozenset[str]] = frozenset({"among", "codes"})

    def __init__(self, db: dpsql.Database, there: Spark) -> None:
        self._db, self._spark, self._cursor = db, there, db.connection.cursor()
        self._schema = self._home = there.schema()
        self._places: dict[str, str] = {}
        self._engines: list[SparkEngine] = []

    def open(self) -> SparkEngine:
        found = external(self._cursor, self.engine)
        assert isinstance(found, SparkEngine)
        self._engines.append(found)
        return found

    def stored(self, kind: str) -> str:
        return "VARCHAR" if kind.startswith("ENUM") else kind

    def table(self, name: str, columns: Mapping[str, str], rows: Rows) -> None:
        plain = {column: kind.partition(" GENERATED")[0].removesuffix(" NOT NULL") for column, kind in columns.items()}
        listed = ", ".join(f'"{column}" {kind.removesuffix(" COLLATE NOCASE")}' for column, kind in plain.items())
        self._db.sql(f'CREATE OR REPLACE TABLE raw."{name}" ({listed})')
        kinds = ", ".join(f"`{column}` {_in_spark(kind)}" for column, kind in plain.items())
        self._places[name] = f"{self._home}.t{next(_numbers)}"
        self._create(self._places[name], kinds)
        self._add(name, rows)
        self._register(name)

    def _create(self, there: str, kinds: str) -> None:
        self._spark.sql(f"CREATE TABLE {there} ({kinds}) USING {self.form}")

    def append(self, name: str, rows: Rows) -> None:
        self._add(name, rows)
        self._db.source(f'"{name}"')

    def _add(self, name: str, rows: Rows) -> None:
        """Write rows into a file more of a table."""
        if not rows:
            return
        self._db.sql(f'DELETE FROM raw."{name}"')
        fill(self._db, name, rows, "raw")
        found = self._db.sql(f'FROM raw."{name}"').arrow()
        plain = pa.table({n: _plain(found[n]) for n in found.column_names})
        described = self._spark.sql(f"DESCRIBE TABLE EXTENDED {self._places[name]}")
        folder = Path(dict(row[:2] for row in described)["Location"].removeprefix("file:"))
        folder.mkdir(exist_ok=True, parents=True)
        half = -(-len(plain) // 2)
        for part in (plain.slice(0, half), plain.slice(half)):
            pq.write_table(part, folder / f"part-{next(_numbers):06}.parquet")

    def _register(self, name: str) -> None:
        self._db.sql(f'DROP TABLE IF EXISTS "{name}"')
        led = {"environment": self.environment} if self.environment else {}
        self._db.source(f'"{name}"', self.engine, relation=self._places[name], **led)

    def view(self, name: str, of: str) -> None:
        self._db.sql(f"CREATE VIEW {name} AS FROM {of}")

    def long(self, name: str) -> Domain:
        self._places[name] = f"{self._home}.{name}"
        rows = f"SELECT id % 1000 AS x, id % 777 AS y FROM range({LONG})"
        self._spark.sql(f"CREATE TABLE {self._places[name]} USING {self.form} AS {rows}")
        self._register(name)
        return Domain(tuple(Attribute(n, "BIGINT", "bins", (), (0, 500, 1000), ("0", "500", "999")) for n in "xy"))

    def failing(self, name: str, value: str) -> Domain:
        """Of a table one file has a text where a number should be."""
        self._places[name] = f"{self._schema}.{name}"
        folder = self._spark.folder / f"files {next(_numbers)}"
        folder.mkdir()
        (folder / "part.csv").write_text(f"1\n{value}\n")
        self._spark.sql(
            f"CREATE TABLE {self._places[name]} (y INT) USING csv OPTIONS (mode 'FAILFAST') LOCATION '{folder}'"
        )
        with warnings.catch_warnings(), pytest.raises(Exception, match=value):  # Spark's own words
            warnings.simplefilter("ignore")
            self._spark.sql(f"SELECT y FROM {self._places[name]}")
        self._register(name)
        return Domain((Attribute("y", "INTEGER", "values", ("1",), nullable=True),))

    def close(self) -> None:
        for engine in self._engines:
            engine.close()

    def left(self) -> int:
        """Counters that work, views that they made, and what is kept for them."""
        kept = self._spark.session.sparkContext._jsc.getPersistentRDDs().size()
        views = [view for _, view, _ in self._spark.sql("SHOW VIEWS") if view.startswith("dpsql_")]
        return sum(session.is_open for engine in self._engines for session in engine._sessions) + kept + len(views)


class InSparkSql(InSpark):
    """The same, counted by Spark's own SQL."""

    engine = "spark_sql"
    cannot: ClassVar[frozenset[str]] = InSpark.cannot | {"presence", "read_as", "units"}


class InSparkIceberg(InSpark):
    """Iceberg tables of a catalogue of the session."""

    form = "iceberg"

    def __init__(self, db: dpsql.Database, there: Spark) -> None:
        super().__init__(db, there)
        self._home = f"lake.{self._schema}"

    def stored(self, kind: str) -> str:
        return "INTEGER" if kind in ("TINYINT", "SMALLINT") else super().stored(kind)

    def _create(self, there: str, kinds: str) -> None:
        super()._create(there, kinds)
        self._spark.sql(f"INSERT INTO {there} SELECT * FROM {there}")  # a snapshot without rows, for one without any

    def _add(self, name: str, rows: Rows) -> None:
        if not rows:
            return
        self._db.sql(f'DELETE FROM raw."{name}"')
        fill(self._db, name, rows, "raw")
        path = self._spark.folder / f"added {next(_numbers)}.parquet"
        found = self._db.sql(f'FROM raw."{name}"').arrow()
        pq.write_table(pa.table({n: _plain(found[n]) for n in found.column_names}), path)
        self._spark.sql(f"INSERT INTO {self._places[name]} SELECT * FROM parquet.`{path}`")


class InSparkIcebergSql(InSparkIceberg):
    """The same, counted by Spark's own SQL."""

    engine = "spark_sql"
    cannot: ClassVar[frozenset[str]] = InSparkSql.cannot


def _in_spark(kind: str) -> str:
    """A type of DuckDB in Spark."""
    if kind.endswith(" COLLATE NOCASE"):
        return "STRING COLLATE UTF8_LCASE" if has_collations() else "STRING"
    return TYPES.get(kind, "STRING" if kind.startswith("ENUM") else kind)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column


@contextmanager
def spark_place(folder: Path, kind: type[InSpark], there: Spark | None = None) -> Iterator[InSpark]:
    with dpsql.connect(folder / "bank.duckdb") as db:
        db.sql("CREATE SCHEMA raw")
        place = kind(db, there or spark())
        try:
            yield place
        finally:
            place.close()
