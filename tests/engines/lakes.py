"""Places of the conformance suite whose tables are files: plain Parquet, Delta and Iceberg, registered by dp_source.

A table is made in DuckDB, and written to the lake in three parts; then the stub of its name is what the engine finds.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote, unquote

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsql
from dpsql.core.domain import Attribute, Domain
from dpsql.engines.external import ExternalEngine
from dpsql.engines.registry import external

from .conformance import Rows
from .delta_mapped import first_commit, map_columns
from .delta_vectors import delete
from .held_in_duckdb import WithUnits, fill
from .iceberg_deletes import delete_by_vector, delete_places, paths_of
from .s3_server import Server, httpfs, s3_server

LONG = 3_000_000
"""Rows."""
CATALOG = "conformance"
"""Of Iceberg tables."""
_PARTS = 3
_numbers = itertools.count()


class InLake(WithUnits):
    """Tables in a lake; the stubs, and the secrets of units, are in a database in memory."""

    engine: ClassVar[str] = "parquet"
    changes: ClassVar[Mapping[str, str]] = {"ENUM('sad', 'ok', 'happy')": "VARCHAR"}
    marks: ClassVar[frozenset[str]] = frozenset()
    cannot: ClassVar[frozenset[str]] = frozenset()
    more_types = frozenset({"TIMESTAMP WITH TIME ZONE"})

    def __init__(self, db: dpsql.Database, folder: Path) -> None:
        self._db, self._folder, self._cursor = db, folder, db.connection.cursor()
        self._places: dict[str, Any] = {}

    def open(self) -> ExternalEngine:
        return external(self._cursor, self.engine)

    def stored(self, kind: str) -> str:
        return self.changes.get(kind, kind)

    def table(self, name: str, columns: Mapping[str, str], rows: Rows) -> None:
        listed = ", ".join(f'"{column}" {kind}' for column, kind in columns.items())
        self._db.sql(f'CREATE OR REPLACE TABLE raw."{name}" ({listed})')
        fill(self._db, name, rows, "raw")
        self._write(name, f'FROM raw."{name}"')

    def append(self, name: str, rows: Rows) -> None:
        self._db.sql(f'DELETE FROM raw."{name}"')
        fill(self._db, name, rows, "raw")
        self._add(name, self._db.sql(f'FROM raw."{name}"').arrow())
        self._db.source(f'"{name}"')

    def _write(self, name: str, query: str) -> None:
        """Write a table in parts and register it, in place of one of that name."""
        self._db.sql(f'DROP TABLE IF EXISTS "{name}"')
        rows = self._db.sql(query).arrow()
        self._create(name, rows.schema)
        part = -(-len(rows) // _PARTS) or 1
        for start in range(0, max(len(rows), 1), part):
            self._add(name, rows.slice(start, part))
        self._register(name)

    def _create(self, name: str, schema: pa.Schema) -> None:
        self._places[name] = self._folder / f"table {next(_numbers)}"
        self._places[name].mkdir()

    def _add(self, name: str, rows: pa.Table) -> None:
        self._db.connection.register("added", rows)
        self._db.sql(f"COPY (FROM added) TO '{self._at(name)}/{next(_numbers):06}.parquet'")
        self._db.connection.unregister("added")

    def _at(self, name: str) -> str:
        """The folder of a table, as DuckDB calls it."""
        return str(self._places[name])

    def _register(self, name: str) -> None:
        self._db.source(f'"{name}"', files=f"{self._at(name)}/*.parquet")

    def view(self, name: str, of: str) -> None:
        self._db.sql(f"CREATE VIEW {name} AS FROM {of}")

    def long(self, name: str) -> Domain:
        self._write(name, f"SELECT i % 1000 AS x, i % 777 AS y FROM range({LONG}) r(i)")
        return Domain(tuple(Attribute(n, "BIGINT", "bins", (), (0, 500, 1000), ("0", "500", "999")) for n in "xy"))

    def failing(self, name: str, value: str) -> Domain:
        field = pa.field(self._in_files("y"), pa.string(), metadata={"PARQUET:field_id": "1"})
        self._db.sql(f'DROP TABLE IF EXISTS "{name}"')
        self._create(name, pa.schema({"y": pa.string()}))
        self._add(name, pa.table({"y": ["1"]}))
        path = next(Path(file) for file in sorted(self._files(name)))
        rows = [value.encode() + b"\xff"] * pq.read_metadata(path).num_rows
        broken = pa.array(rows, pa.binary()).view(pa.string())
        pq.write_table(pa.table([broken], pa.schema([field])), path)
        return self._with_broken(name, str(path), value)

    def _with_broken(self, name: str, path: str, value: str) -> Domain:
        """Register a table with a file that DuckDB cannot read, in words that have the value."""
        with pytest.raises(duckdb.Error, match=value):  # DuckDB's own words
            self._db.sql(f"SELECT {self._in_files('y')} FROM read_parquet('{path}')").fetchall()
        self._register(name)
        return Domain((Attribute("y", "VARCHAR", "values", ("1",), nullable=True),))

    def _in_files(self, column: str) -> str:
        """What the files call the only column of a table."""
        return column

    def _files(self, name: str) -> list[str]:
        return [str(path) for path in self._places[name].glob("*.parquet")]

    def left(self) -> int:
        held = "SELECT (SELECT count(*) FROM duckdb_tables() WHERE temporary), (SELECT count(*) FROM duckdb_views() "
        return sum(self._cursor.execute(f"{held} WHERE temporary AND NOT internal)").fetchall()[0])


class InBucket(InLake):
    """Plain Parquet in a bucket of a server on this machine."""

    def __init__(self, db: dpsql.Database, folder: Path) -> None:
        super().__init__(db, folder)
        self._server, self._bucket = _opened(db)

    def _create(self, name: str, schema: pa.Schema) -> None:
        self._places[name] = f"{self._bucket}/table {next(_numbers)}"

    def _at(self, name: str) -> str:
        return f"s3://{self._places[name]}"

    def failing(self, name: str, value: str) -> Domain:
        broken = pa.array([value.encode() + b"\xff"], pa.binary()).view(pa.string())
        file = pa.BufferOutputStream()
        pq.write_table(pa.table({"y": broken}), file)
        self._db.sql(f'DROP TABLE IF EXISTS "{name}"')
        self._create(name, pa.schema({"y": pa.string()}))
        path = f"{self._places[name]}/0.parquet"
        self._server.put(path.replace(" ", "%20"), file.getvalue().to_pybytes())
        return self._with_broken(name, f"s3://{path}", value)


def _opened(db: dpsql.Database) -> tuple[Server, str]:
    """The server, with a new bucket and a secret that opens it."""
    server, bucket = s3_server(), f"conformance-{next(_numbers)}"
    server.make(bucket)
    db.sql(f"LOAD '{httpfs()}'")
    db.sql(server.secret())
    return server, bucket


class InDelta(InLake):
    """Delta tables, each part a version."""

    engine = "delta"

    def _add(self, name: str, rows: pa.Table) -> None:
        import deltalake

        plain = pa.table({n: rows[n].cast(pa.string()) if _is_enum(rows[n]) else rows[n] for n in rows.column_names})
        deltalake.write_deltalake(self._places[name], plain, mode="append")

    def _register(self, name: str) -> None:
        self._db.source(f'"{name}"', self.engine, relation=str(self._places[name]))

    def _files(self, name: str) -> list[str]:
        import deltalake

        return [unquote(path) for path in deltalake.DeltaTable(self._places[name]).file_uris()]


class InBucketDelta(InDelta):
    """Delta tables that are written here, and lie in a bucket."""

    def __init__(self, db: dpsql.Database, folder: Path) -> None:
        super().__init__(db, folder)
        self._server, self._bucket = _opened(db)

    def _add(self, name: str, rows: pa.Table) -> None:
        super()._add(name, rows)
        self._upload(name)

    def _upload(self, name: str) -> str:
        folder = self._places[name]
        self._server.put_folder(f"{self._bucket}/{folder.name}", folder)
        return f"s3://{self._bucket}/{folder.name}"

    def _register(self, name: str) -> None:
        self._db.source(f'"{name}"', self.engine, relation=self._upload(name))


class InDeltaWithVectors(InDelta):
    """Delta tables whose files have the first rows of each part twice, the second time deleted by a vector."""

    def _add(self, name: str, rows: pa.Table) -> None:
        twice = min(len(rows), 1000)
        places = [*(place for place in range(twice) for _ in range(2)), *range(twice, len(rows))]
        super()._add(name, rows.take(pa.array(places, pa.int64())))
        if twice:
            delete(self._places[name], range(1, 2 * twice, 2), inline=next(_numbers) % 2 == 0)


class InMappedDelta(InDelta):
    """Delta tables whose files call columns otherwise."""

    def _add(self, name: str, rows: pa.Table) -> None:
        commit = first_commit(self._places[name])
        if commit.exists():
            commit.write_text(self._plain[commit])  # deltalake reads a log that maps columns, and writes none
        files = [f"c{number}" for number in range(rows.num_columns)]
        super()._add(name, rows.rename_columns(files))
        self._plain[commit] = commit.read_text()
        map_columns(self._places[name], dict(zip(files, rows.column_names, strict=True)))

    def _in_files(self, column: str) -> str:
        return "c0"

    def __init__(self, db: dpsql.Database, folder: Path) -> None:
        super().__init__(db, folder)
        self._plain: dict[Path, str] = {}


class InIceberg(InLake):
    """Iceberg tables in a catalog in SQLite, each part a snapshot."""

    engine = "iceberg"
    changes: ClassVar[Mapping[str, str]] = {**InLake.changes, "TINYINT": "INTEGER"}

    def __init__(self, db: dpsql.Database, folder: Path) -> None:
        super().__init__(db, folder)
        from pyiceberg.catalog.sql import SqlCatalog

        self._catalog = SqlCatalog(CATALOG, uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/ice")
        self._catalog.create_namespace("bank")

    def _create(self, name: str, schema: pa.Schema) -> None:
        kinds = [(field.name, pa.int32() if field.type == pa.int8() else field.type) for field in schema]
        plain = pa.schema([(n, pa.string() if pa.types.is_dictionary(kind) else kind) for n, kind in kinds])
        self._places[name] = self._catalog.create_table(f"bank.t{next(_numbers)}", schema=plain), plain

    def _add(self, name: str, rows: pa.Table) -> None:
        table, schema = self._places[name]
        table.append(rows.cast(schema))

    def _register(self, name: str) -> None:
        metadata = self._places[name][0].metadata_location.removeprefix("file://")
        self._db.source(f'"{name}"', self.engine, relation=metadata)

    def append(self, name: str, rows: Rows) -> None:
        self._db.sql(f'DELETE FROM raw."{name}"')
        fill(self._db, name, rows, "raw")
        self._add(name, self._db.sql(f'FROM raw."{name}"').arrow())
        self._register(name)

    def _files(self, name: str) -> list[str]:
        files = self._places[name][0].scan().plan_files()
        return [file.file.file_path.removeprefix("file://") for file in files]


class InBucketIceberg(InIceberg):
    """Iceberg tables in a bucket."""

    def __init__(self, db: dpsql.Database, folder: Path) -> None:
        super().__init__(db, folder)
        self._server, bucket = _opened(db)
        self._catalog.properties.update(warehouse=f"s3://{bucket}", **self._server.for_pyiceberg())

    def failing(self, name: str, value: str) -> Domain:
        self._db.sql(f'DROP TABLE IF EXISTS "{name}"')
        self._create(name, pa.schema({"y": pa.string()}))
        self._add(name, pa.table({"y": ["1"]}))
        (path,) = self._files(name)
        broken = pa.array([value.encode() + b"\xff"], pa.binary()).view(pa.string())
        field = pa.field("y", pa.string(), metadata={"PARQUET:field_id": "1"})
        file = pa.BufferOutputStream()
        pq.write_table(pa.table([broken], pa.schema([field])), file)
        self._server.put(quote(path.removeprefix("s3://")), file.getvalue().to_pybytes())
        return self._with_broken(name, path, value)


class InIcebergWithDeletes(InIceberg):
    """Iceberg tables whose files have the first rows of each part twice, the second time deleted beside them."""

    def _add(self, name: str, rows: pa.Table) -> None:
        twice = min(len(rows), 1000)
        places = [*(place for place in range(twice) for _ in range(2)), *range(twice, len(rows))]
        super()._add(name, rows.take(pa.array(places, pa.int64())))
        if twice:
            table, _ = self._places[name]
            how = delete_places if next(_numbers) % 2 else delete_by_vector
            how(table, {paths_of(table)[-1]: range(1, 2 * twice, 2)})


def _is_enum(column: pa.ChunkedArray) -> bool:
    return pa.types.is_dictionary(column.type)


@contextmanager
def lake_place(folder: Path, kind: type[InLake], *, threads: int) -> Iterator[InLake]:
    os.environ.setdefault("PYICEBERG_MAX_WORKERS", "1")
    with dpsql.connect(config={"threads": threads}) as db:
        db.sql("CREATE SCHEMA raw")
        yield kind(db, folder)
