from __future__ import annotations

import gzip
import hashlib
import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import duckdb
import pytest

import dpsql

DATA = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture
def db() -> Iterator[dpsql.Database]:
    """A fresh in-memory database."""
    with dpsql.connect() as database:
        yield database


@contextmanager
def _interrupting(database: dpsql.Database | duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    """Interrupts from another thread after so many seconds, and again each second until the work has ended.

    For an interrupt that comes before a statement has begun is lost.
    """
    ended = threading.Event()

    def interrupt() -> None:
        pause = seconds
        while not ended.wait(pause):
            database.interrupt()
            pause = 1.0

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.fixture
def interrupting() -> Callable[..., AbstractContextManager[None]]:
    """A context that interrupts what is done in it on a database."""
    return _interrupting


PEOPLE = """
    CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
    CREATE TABLE people AS
    SELECT
        (i * 7 % 60 + 18)::INTEGER AS age,
        CASE WHEN i % 3 = 0 THEN 'F' WHEN i % 31 = 1 THEN NULL ELSE 'M' END AS sex,
        (['sad', 'ok', 'happy'])[i % 3 + 1]::mood AS mood,
        i % 4 = 0 AS sick
    FROM range(600) r(i);
"""


@pytest.fixture
def people(db: dpsql.Database) -> dpsql.Database:
    """A small protected table `people` with all domains declared and a budget of epsilon 3."""
    db.sql(PEOPLE)
    db.protect("people", epsilon=3.0, delta=1e-6, enums=True)
    db.domain("people", "age", lower=18, upper=77, bins=6)
    db.domain("people", "sex", values=["F", "M"])
    return db


QUICK = "relaxed_rows := 16, steps := 20"
"""Options of the projection that make it fast and bad."""


@pytest.fixture
def quick() -> str:
    return QUICK


@pytest.fixture
def data() -> Path:
    """The folder of real tables."""
    if not DATA.is_dir():
        pytest.skip(f"the real tables are not beside the checkout, in {'/'.join(DATA.parts[-2:])}")
    return DATA


def declare_from_data(db: dpsql.Database, table: str) -> None:
    """Domains for a table whose values are public here: texts as listed, numbers in at most 100 bins."""
    for name, kind in db.sql(
        "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ?", [table]
    ).fetchall():
        if kind == "VARCHAR":
            rows = db.sql(f'SELECT DISTINCT "{name}" FROM {table} WHERE "{name}" IS NOT NULL ORDER BY 1').fetchall()
            db.domain(table, name, values=[value for (value,) in rows])
        else:
            low, high = db.sql(f'SELECT min("{name}"), max("{name}") FROM {table}').fetchall()[0]
            db.domain(table, name, lower=low, upper=high)


@pytest.fixture
def load_adult(data: Path) -> Callable[[dpsql.Database], None]:
    """Loads the raw Adult table into a database, protects it and declares its domains."""

    def load(db: dpsql.Database) -> None:
        with gzip.open(data / "adult.csv.gz") as file:
            assert file.readline().startswith(b"age,")
        db.sql(f"CREATE TABLE adult AS FROM '{data}/adult.csv.gz'")
        db.protect("adult", epsilon=3.0, delta=1e-9)
        declare_from_data(db, "adult")

    return load


@pytest.fixture
def entropy() -> Callable[[int], bytes]:
    """A repeatable source of bytes, for tests only."""
    return seeded_entropy("dpsql tests")


def seeded_entropy(seed: str) -> Callable[[int], bytes]:
    counter = itertools.count()

    def draw(count: int) -> bytes:
        return hashlib.shake_256(f"{seed}/{next(counter)}".encode()).digest(count)

    return draw
