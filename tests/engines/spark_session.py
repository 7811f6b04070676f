"""A Spark of this process, made when a test first asks for it: local, one core, its tables in a temporary folder."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import warnings
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import pytest

_numbers = count(1)
SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.memory": "1g",
    "spark.eventLog.compress": "false",
    "spark.eventLog.enabled": "true",
    "spark.log.level": "OFF",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",  # what a test asks is run once, and sooner than it is compiled
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.session.timeZone": "America/St_Johns",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",  # as Spark 4 has them; 3.5 would refuse
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


CATALOG = "spark.sql.catalog.lake"
ICEBERG = {
    CATALOG: "org.apache.iceberg.spark.SparkCatalog",
    f"{CATALOG}.type": "hadoop",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}


def iceberg_jar() -> str | None:
    """Iceberg for Spark 3.5, where it is: DPSQL_ICEBERG_JAR names it, or a package holds it; None if it is not."""
    if not find_spec("pyspark") or has_collations():
        return None
    package = find_spec("snowpark_connect_deps_iceberg")
    places = [] if package is None else list(package.submodule_search_locations or ())
    found = [str(path) for place in places for path in Path(place).rglob("iceberg-spark-runtime-3.5_2.12-*.jar")]
    return os.environ.get("DPSQL_ICEBERG_JAR") or next(iter(found), None)


def has_collations() -> bool:
    """Whether texts can be compared in another way than by their bytes, which Spark 3.5 cannot."""
    import pyspark

    return int(pyspark.__version__.partition(".")[0]) >= 4


class Spark:
    """A running session, and a folder for what tests write."""

    def __init__(self, session: Any, folder: Path) -> None:
        self.session, self.folder = session, folder
        self.events = folder / "events"

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        """The rows of the last statement."""
        for statement in statements:
            found = self.session.sql(statement)
        return [tuple(row) for row in found.collect()]

    def schema(self) -> str:
        """A new schema for a test's tables."""
        name = f"bank_{next(_numbers)}"
        self.sql(f"CREATE SCHEMA {name}")
        return name

    def log(self) -> str:
        """What Spark wrote of its jobs so far, the one that is under way too."""
        return "\n".join(path.read_text(errors="replace") for path in self.events.rglob("*") if path.is_file())

    def remove(self) -> None:
        self.session.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def need_spark() -> None:
    """Skip a test where there is no Java or no pyspark; in CI, fail it."""
    for there, name, install in (
        (find_spec("pyspark"), "pyspark", "pip install 'dpsql[spark]'"),
        (shutil.which("java"), "Java", "apt-get install openjdk-17-jre-headless"),
    ):
        if not there:
            missing = f"{name} is not installed: {install}"
            pytest.fail(missing) if os.environ.get("DPSQL_CLIENTS") == "required" else pytest.skip(missing)


@cache
def spark() -> Spark:
    """The Spark of this process."""
    need_spark()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _local()


def _local() -> Spark:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable  # else the workers' is the first on the path
    folder = Path(tempfile.mkdtemp(prefix="dpsql-spark-"))
    (folder / "events").mkdir()
    builder = SparkSession.builder.master("local[1]").appName("tests")
    folders = {"spark.sql.warehouse.dir": folder / "tables", "spark.eventLog.dir": (folder / "events").as_uri()}
    jar = iceberg_jar()
    lake = {} if jar is None else ICEBERG | {"spark.jars": jar, f"{CATALOG}.warehouse": folder / "lake"}
    for key, value in (SETTINGS | folders | lake).items():
        builder = builder.config(key, str(value))
    return Spark(builder.getOrCreate(), folder)


def remove() -> None:
    """Stop the Spark of this process, if there is one, and end its virtual machine, which has its settings."""
    if spark.cache_info().currsize:
        spark().remove()
        spark.cache_clear()
        end_machine()


def end_machine() -> None:
    """Stop what runs in Spark's virtual machine of this process, if there is one, and end it."""
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:
        SparkContext._active_spark_context.stop()
    if SparkContext._gateway is not None:
        process = SparkContext._gateway.proc
        SparkContext._gateway.shutdown()
        SparkContext._gateway = SparkContext._jvm = None
        process.stdin.close()
        process.wait()
