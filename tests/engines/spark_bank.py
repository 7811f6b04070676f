"""A database of DuckDB beside a schema of Spark, whose tables are written by Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dpsql

from .spark_session import Spark, has_collations, spark

WAYS = ("spark", "spark_sql")


class Lot:
    """Both."""

    def __init__(self, db: dpsql.Database, there: Spark) -> None:
        self.db, self.spark, self.schema = db, there, there.schema()

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        """The rows of the last statement in Spark; {s} is the schema."""
        there = (statement.replace("{s}", self.schema) for statement in statements)
        collated = " COLLATE UTF8_LCASE"
        return self.spark.sql(*(text if has_collations() else text.replace(collated, "") for text in there))

    def source(self, name: str, engine: str = "spark", relation: str = "", **how: Any) -> None:
        """Register a table."""
        self.db.source(name, engine=engine, relation=f"{self.schema}.{relation or name}", **how)


@contextmanager
def lot(folder: Path) -> Iterator[Lot]:
    folder.mkdir(exist_ok=True)
    with dpsql.connect(folder / "bank.duckdb") as db:
        yield Lot(db, spark())
