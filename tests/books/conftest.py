"""A bank with visits, people and wards, each as the `TABLES` of the test's module say; the first two are protected."""

from __future__ import annotations

from pathlib import Path

import pytest

import dpsql


def protect(db: dpsql.Database, *names: str) -> None:
    """Protect some of the tables, or both that are by rule; `visits` has a domain of its ids."""
    names = names or ("visits", "people")
    for name in names:
        db.protect(name, epsilon=2.0, delta=1e-6)
    if "visits" in names:
        most = db.sql("SELECT max(id) FROM visits").fetchall()[0][0]
        db.domain("visits", "id", values=list(range(most + 1)), nulls=False)


@pytest.fixture
def bank(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """The closed file."""
    path = tmp_path / "bank.duckdb"
    with dpsql.connect(path) as db:
        db.sql(request.module.TABLES)
        protect(db)
    return path
