"""A bank with visits, people and wards, as `TABLES` of the test's module say, or of this one; the first two are protected."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import dpsql

TABLES = """
    CREATE TABLE visits AS SELECT i % 2 = 0 AS ill, i % 50 AS id FROM range(150) r(i);
    CREATE TABLE people AS SELECT i AS id, 'canary ' || i AS name FROM range(50) r(i);
    CREATE TABLE wards AS SELECT i AS id, 'ward ' || i AS name FROM range(50) r(i);
"""


def protect(db: dpsql.Database, *names: str) -> None:
    """Protect some of the tables, or both that are by rule; `visits` has a domain of its ids."""
    names = names or ("visits", "people")
    for name in names:
        db.protect(name, epsilon=2.0, delta=1e-6)
    if "visits" in names:
        most = db.sql("SELECT max(id) FROM visits").fetchall()[0][0]
        db.domain("visits", "id", values=list(range(most + 1)), nulls=False)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A folder with the closed file and the head of its ledger, which each test has a copy of."""
    folder = tmp_path_factory.mktemp("made")
    with dpsql.connect(folder / "bank.duckdb") as db:
        db.sql(getattr(request.module, "TABLES", TABLES))
        protect(db)
    return folder


@pytest.fixture
def bank(tmp_path: Path, made: Path) -> Path:
    """The closed file."""
    return shutil.copytree(made, tmp_path, dirs_exist_ok=True) / "bank.duckdb"
