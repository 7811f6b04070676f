"""Rows in files that a cluster of Spark counts, and tasks that something happens to in the middle of counting."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import dpsql
from dpsql.books.ledger.store import Books
from dpsql.engines.registry import engine_of, find_source
from dpsql.engines.spark.tasks import Statements, in_task
from dpsql.errors import DpsqlError
from dpsql.owner.protect import domain_of

from .spark_cluster import VARIABLE, wait_for

CANARY = "Ms Canary of 12 Row Street"
QUERY = "FROM dp_query('SELECT ward, count(*) FROM people GROUP BY ward', epsilon := 4)"
FILES, ROWS = 4, 3000


@contextmanager
def bank(folder: Path, engine: str = "spark", **protected: Any) -> Iterator[dpsql.Database]:
    """A protected table of four files, with a canary in each row; 400 patients have 7 or 8 rows each."""
    (folder / "people").mkdir()
    with dpsql.connect(folder / "bank.duckdb") as db:
        rows = f"SELECT i AS id, 'p' || i % 400 AS patient, 'w' || i % 3 AS ward, '{CANARY}' AS note FROM range({ROWS}) r(i)"
        for number in range(FILES):
            db.sql(f"COPY (FROM ({rows}) WHERE id % {FILES} = {number}) TO '{folder}/people/{number}.parquet'")
        db.source("people", engine=engine, environment=VARIABLE, files=f"{folder}/people")
        db.protect("people", epsilon=40.0, delta=1e-6, **protected)
        db.domain("people", "ward", values=["w0", "w1", "w2"])
        for name in ("id", "patient", "note"):
            db.domain("people", name, exclude=True)
        yield db


def spent(db: dpsql.Database) -> float:
    """Of the budget."""
    return float(db.sql("SELECT epsilon_spent FROM dp_budget()").fetchall()[0][0])


def is_right(rows: list[tuple[Any, ...]], each: int) -> bool:
    """Whether each ward has as many rows; a file that is counted twice or not at all adds or takes 250."""
    return [ward for ward, *_ in rows] == ["w0", "w1", "w2"] and all(abs(n - each) < 120 for _, n, *_ in rows)


def exact(db: dpsql.Database, table: str) -> list[dict[int, int]]:
    """What its engine counts of each column: cells with their counts."""
    cursor = db.connection.cursor()
    source = find_source(cursor, table)
    domain = domain_of(Books(cursor, source.catalog), source)
    with closing(engine_of(cursor, source)) as engine, closing(engine.counter(source, domain)) as counter:
        marginals = [counter.marginal((name,)) for name in domain.names]
    return [dict(zip(found.cells.tolist(), np.asarray(found.counts).tolist(), strict=True)) for found in marginals]


def fails(match: str, ask: Callable[[], object], capfd: Any) -> None:
    """It does, in words that quote no row, and nothing is printed of one."""
    capfd.readouterr()
    with pytest.raises((DpsqlError, duckdb.Error), match=match) as failed:
        ask()
    shown = "".join(traceback.format_exception(failed.value)) + "".join(capfd.readouterr())
    assert "Canary" not in shown
    assert "spark.apache" not in shown


def goes_on(db: dpsql.Database) -> None:
    """The same call does, for what was charged."""
    charged = spent(db)
    assert charged > 0
    assert is_right(db.sql(QUERY).fetchall(), ROWS // 3)
    assert spent(db) == charged


def once(marker: Path, kill: str, when: Callable[[Statements], object] = lambda _: True) -> Callable[..., Any]:
    """In place of `in_task`: the first task, once it has a row, is marked and then waits, or kills its executor."""
    path = str(marker)

    def made(statements: Statements, *more: Any) -> Any:
        real, is_meant = in_task(statements, *more), bool(when(statements))

        def task(batches: Iterator[Any]) -> Iterator[Any]:
            import os
            import signal
            import time
            from itertools import chain
            from pathlib import Path

            batches = iter(batches)
            for first in batches:
                if is_meant and not os.path.exists(path):
                    with open(path, "x"):
                        pass
                    while kill == "wait":
                        time.sleep(0.1)
                    executor = int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])
                    os.kill(executor, signal.SIGKILL)
                yield from real(chain([first], batches))

        return task

    return made


@contextmanager
def meanwhile(marker: Path, happens: Callable[[], object]) -> Iterator[None]:
    """Something happens in another thread once a task is marked."""

    def work() -> None:
        wait_for(marker.exists, "a task runs")
        happens()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        thread.join()


kills = partial(once, kill="executor")
waits = partial(once, kill="wait")
