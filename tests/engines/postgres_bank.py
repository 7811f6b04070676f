"""A database of DuckDB beside one of Postgres, which a variable of the environment leads to."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dpsql

from .postgres_server import Server, server

CANARY = "Ms Canary of 12 Row Street"
"""What stands in rows of `people`, and must stand nowhere else."""


class Bank:
    """Both databases."""

    def __init__(self, db: dpsql.Database, database: str) -> None:
        self.db, self.server, self.database = db, server(), database
        self.variable = f"DPSQL_TEST_{database.upper()}"
        self.connect_as("postgres")

    def connect_as(self, user: str) -> None:
        """From now on."""
        os.environ[self.variable] = self.server.words(self.database, user)

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        """The rows of the last statement in Postgres."""
        return self.server.sql(*statements, database=self.database)

    def source(self, name: str, relation: str = "", **how: Any) -> None:
        """Register a table."""
        self.db.source(name, engine="postgres", environment=self.variable, relation=relation or f"public.{name}", **how)

    def people(self, epsilon: float) -> None:
        """Protect a table with a canary in each row."""
        self.sql(
            "CREATE TABLE people (id int8 PRIMARY KEY, ward text, note text)",
            f"INSERT INTO people SELECT i, 'w' || i % 3, '{CANARY}' FROM generate_series(1, 3000) i",
        )
        self.source("people")
        self.db.protect("people", epsilon=epsilon, delta=1e-6)
        self.db.domain("people", "ward", values=["w0", "w1", "w2"])
        for name in ("id", "note"):
            self.db.domain("people", name, exclude=True)

    def forget_log(self) -> None:
        """What Postgres logged so far."""
        os.truncate(self.server.log, 0)


@contextmanager
def bank(
    folder: Path, path: str = "bank.duckdb", config: Mapping[str, Any] | None = None, **how: str
) -> Iterator[Bank]:
    """Both databases, empty."""
    with server().database(**how) as database, dpsql.connect(folder / path, config=dict(config or {})) as db:
        found = Bank(db, database)
        try:
            yield found
        finally:
            os.environ.pop(found.variable, None)


__all__ = ["CANARY", "Bank", "Server", "bank"]
