"""Shapes of queries that people write: with the noise switched off each is answered as DuckDB answers it."""

from __future__ import annotations

from pathlib import Path

import pytest

import dpsql
from tests.release.test_query import plain, rows_of, silent

SHAPES = [
    line
    for line in (Path(__file__).parents[1] / "fixtures" / "workload" / "shapes.sql").read_text().splitlines()
    if line and not line.startswith("--")
]
TABLES = """
    CREATE TABLE orders (
        number INTEGER NOT NULL, day DATE, region VARCHAR, late BOOLEAN, units INTEGER, price DOUBLE, channel INTEGER,
        placed TIMESTAMP);
    INSERT INTO orders
    SELECT
        i, DATE '2024-01-01' + (i % 91)::INTEGER, (['north', 'south', 'east', NULL])[1 + i % 4], i % 5 = 0,
        i * 7 % 10, (i * 13 % 51) / 2, i % 3, TIMESTAMP '2024-01-01' + to_minutes(i * 127 % 131040)
    FROM range(1020) r(i);
    CREATE TABLE channels AS FROM (VALUES (0, 'shop', 1.5), (1, 'post', 0.5), (2, 'web', 2.5), (7, 'fax', 9.0)) v(id, name, fee);
    CREATE TABLE lanes AS FROM (VALUES (0, 'fast'), (1, 'slow'), (9, 'none')) v(channel, lane);
    CREATE TABLE words AS FROM (VALUES ('shop', 'Laden'), ('post', 'Post'), ('web', 'Netz')) v(name, word);
    CREATE TABLE calendar AS SELECT DATE '2023-12-30' + i::INTEGER AS date, i % 7 < 2 AS weekend FROM range(100) r(i);
"""


@pytest.fixture(scope="module")
def declared():
    with dpsql.connect() as db:
        db.sql(TABLES)
        db.protect("orders", epsilon=1000.0, delta=1e-9)
        db.domain("orders", "number", exclude=True)
        db.domain("orders", "day", lower="2024-01-01", upper="2024-03-31", bins=91)
        db.domain("orders", "placed", lower="2024-01-01", upper="2024-03-31 23:59:59.999999", bins=91)
        db.domain("orders", "region", values=["east", "north", "south"])
        db.domain("orders", "units", lower=0, upper=9)
        db.domain("orders", "price", lower=0, upper=25, bins=5)
        db.domain("orders", "channel", lower=0, upper=2)
        yield db


@pytest.fixture
def quiet(declared, monkeypatch):
    """The tables with the noise switched off, and no group of NULL hidden."""
    monkeypatch.setattr("dpsql.privacy.distributions.discrete_gaussian", silent)
    monkeypatch.setattr("dpsql.release.answers_frame._SILENT", 0.0)
    return declared


def test_there_are_enough_shapes():
    assert len(SHAPES) >= 60


@pytest.mark.medium
@pytest.mark.parametrize("sql", SHAPES)
def test_a_shape_is_answered_as_duckdb_answers_it(quiet, sql):
    names, raw = rows_of(quiet, sql)
    listed = ", ".join(f'"{name}"' for name in names)
    _, found = rows_of(quiet, f"SELECT {listed} FROM dp_query(?, epsilon := 5)", [sql])
    ours, theirs = ([tuple(map(plain, row)) for row in rows] for rows in (found, raw))
    if " ORDER BY " in sql:
        assert [row for row in ours if row in theirs] == theirs
    assert set(theirs) <= set(ours)
    empty = [row for row in ours if row not in theirs]
    assert all(row[-1] in (0, None) for row in empty)  # a group of the domain that no row is in
