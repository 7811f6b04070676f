"""64 three-way marginals of raw Adult, repeated: plain GROUP BYs of Spark, dpsql's engines, and a table end to end.

    python -m tests.benchmarks.spark --times 20
    python -m tests.benchmarks.spark --times 1024 --only whole
    python -m tests.benchmarks.spark --times 20 --iceberg          with pyspark 3.5, see tests/engines/spark_lake.py

CPU seconds are those of this process, of Spark's virtual machine and of the workers of its tasks.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psutil

import dpsql
from dpsql.books.ledger.store import Books
from dpsql.engines.registry import engine_of, find_source
from dpsql.owner.protect import domain_of
from tests.conftest import DATA, declare_from_data
from tests.engines.spark_session import CATALOG, ICEBERG, iceberg_jar

MARGINALS = 64
WAYS = {
    "spark": "dpsql on Spark, DuckDB in the tasks, one pass",
    "spark_sql": "dpsql on Spark, Spark's own SQL, one pass",
    "parquet": "dpsql on the same files, DuckDB here",
}
FILES = 4


def load(db: dpsql.Database, folder: Path, times: int) -> int:
    """Adult so often in files, and its domains from one copy of it; how many rows."""
    (folder / "adult").mkdir()
    for number in range(FILES):
        rows = f"SELECT a.* FROM '{DATA}/adult.csv.gz' a, range({times // FILES})"
        db.sql(f"COPY ({rows}) TO '{folder}/adult/{number}.parquet'")
    db.sql(f"CREATE TABLE adult AS FROM '{DATA}/adult.csv.gz'")
    db.protect("adult", epsilon=3.0, delta=1e-9)
    declare_from_data(db, "adult")
    return int(db.sql(f"SELECT count(*) FROM '{folder}/adult/*.parquet'").fetchall()[0][0])


def register(db: dpsql.Database, engine: str, folder: Path, table: str = "") -> None:
    """The files, or a table of Spark with the same rows, as a table of an engine, with the domains of Adult."""
    db.sql("DROP TABLE IF EXISTS remote")
    if table and engine != "parquet":
        db.source("remote", engine=engine, relation=table)
    else:
        db.source("remote", engine=engine, files=f"{folder}/adult/*.parquet")
    db.protect("remote", epsilon=3.0, delta=1e-9)
    kinds = db.sql("SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'adult'").fetchall()
    for name, kind in kinds:
        if kind == "VARCHAR":
            rows = db.sql(f'SELECT DISTINCT "{name}" FROM adult WHERE "{name}" IS NOT NULL ORDER BY 1').fetchall()
            db.domain("remote", name, values=[value for (value,) in rows])
        else:
            low, high = db.sql(f'SELECT min("{name}"), max("{name}") FROM adult').fetchall()[0]
            db.domain("remote", name, lower=low, upper=high)


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Prints a line of the table."""

    def cpu() -> float:
        alive = [psutil.Process(), *psutil.Process().children(recursive=True)]
        return sum(sum(process.cpu_times()[:4]) for process in alive)

    begun, used = time.perf_counter(), cpu()
    yield
    print(f"| {what} | {time.perf_counter() - begun:.1f} | {cpu() - used:.1f} |", flush=True)


def counted(db: dpsql.Database) -> list[dict[int, int]]:
    """The cells of all marginals."""
    cursor = db.connection.cursor()
    source = find_source(cursor, "remote")
    domain = domain_of(Books(cursor, source.catalog), source)
    cells = []
    with closing(engine_of(cursor, source)) as engine, closing(engine.counter(source, domain)) as counter:
        asked = cliques(domain.names)
        getattr(counter, "expect", list)(asked)
        for clique in asked:
            marginal = counter.marginal(clique)
            cells.append(dict(zip(marginal.cells.tolist(), marginal.counts.tolist(), strict=True)))
    return cells


def cliques(names: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The same for all."""
    return random.Random(0).sample(list(itertools.combinations(sorted(names), 3)), MARGINALS)


def session(folder: Path, *, iceberg: bool) -> Any:
    """A Spark of this machine, with two cores, and with a catalogue of Iceberg's if it is asked for."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.local.dir": str(folder),
        "spark.log.level": "ERROR",
        "spark.sql.files.maxPartitionBytes": str(2**25),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if iceberg:
        settings |= ICEBERG | {"spark.jars": iceberg_jar() or "", f"{CATALOG}.warehouse": str(folder / "lake")}
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def in_iceberg(spark: Any, folder: Path) -> str:
    """The rows of the files in a partitioned table of Iceberg, and others that are deleted merge-on-read."""
    table, files = "lake.bank.adult", f"parquet.`{folder}/adult`"
    for statement in (
        f"CREATE TABLE {table} USING iceberg PARTITIONED BY (sex) TBLPROPERTIES ('write.delete.mode' = 'merge-on-read') "
        f"AS SELECT * FROM {files}",
        f"INSERT INTO {table} SELECT * FROM {files} WHERE age < 30",
        f"DELETE FROM {table} WHERE age < 30 AND education != 'Masters'",
        f"INSERT INTO {table} SELECT * FROM {files} WHERE age < 30 AND education != 'Masters'",
        f"DELETE FROM {table} WHERE age < 30 AND education = 'Masters'",
        f"INSERT INTO {table} SELECT * FROM {files} WHERE age < 30 AND education = 'Masters'",
    ):
        spark.sql(statement)
    return table


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=20, help="how often each row of Adult is there")
    parser.add_argument("--only", choices=["marginals", "whole"], help="the marginals, or the table end to end")
    parser.add_argument("--iceberg", action="store_true", help="a table of Iceberg in place of the files")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, dpsql.connect(Path(name) / "bank.duckdb") as db:
        folder = Path(name)
        rows = load(db, folder, given.times)
        print(
            f"{rows:,} rows, {MARGINALS} marginals\n\n| way | seconds | CPU seconds |\n| --- | --- | --- |", flush=True
        )
        with timed("Spark starts"):
            spark = session(folder, iceberg=given.iceberg)
        table = in_iceberg(spark, folder) if given.iceberg else ""
        if given.only != "whole":
            marginals(db, spark, folder, table)
        if given.only != "marginals":
            for engine in ("spark", "parquet"):
                register(db, engine, folder, table)
                with timed(f"dp_synthesize of all pairs at ε = 1, a million rows back, engine {engine!r}"):
                    made = f"dp_synthesize('remote', epsilon := 1.0, workload := 'all 2-way', rows := 1000000, release := '{engine}')"
                    shown = db.sql(f"SELECT count(*), avg(age), mode(education) FROM {made}").fetchall()
                print("\n", *shown, "\n", sep="\n")
        spark.stop()


def marginals(db: dpsql.Database, spark: Any, folder: Path, table: str) -> None:
    """All ways to count them, which agree."""
    rows = spark.table(table) if table else spark.read.parquet(f"{folder}/adult")
    rows.createOrReplaceTempView("adult")
    with timed("Spark, plain GROUP BYs of the values, one after the other"):
        for clique in cliques(tuple(db.sql("FROM adult LIMIT 0").columns)):
            listed = ", ".join(f"`{column}`" for column in clique)
            spark.sql(f"SELECT {listed}, count(*) FROM adult GROUP BY {listed}").toPandas()
    found = []
    for engine, way in WAYS.items():
        register(db, engine, folder, table)
        with timed(way):
            found.append(counted(db))
    assert found[0] == found[1] == found[2]


if __name__ == "__main__":
    main()
