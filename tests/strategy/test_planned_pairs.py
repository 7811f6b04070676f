"""A plan names the pairs of columns that will be reliable, and a release then agrees."""

from __future__ import annotations

import json

import pytest

import dpsql

pytestmark = pytest.mark.medium
SQL = """CREATE TABLE t AS SELECT (i % 3)::TINYINT AS a, (i * 7 % 5)::TINYINT AS b, hash(i) % 400 AS c
FROM range(4000) r(i)"""


@pytest.fixture
def db():
    with dpsql.connect() as database:
        database.sql(SQL)
        database.protect("t", epsilon=10.0, delta=1e-6)
        for name, most in (("a", 2), ("b", 4), ("c", 399)):
            database.domain("t", name, lower=0, upper=most, bins=most + 1)
        yield database


def notes(db: dpsql.Database, epsilon: float, rows: int) -> dict[str, str]:
    sql = "SELECT array_to_string(marginal, ', '), note FROM dp_plan('t', epsilon := ?, assume_rows := ?)"
    return dict(db.sql(sql, [epsilon, rows]).fetchall())


def test_a_small_pair_of_many_rows_is_reliable_and_a_large_one_of_few_is_not(db):
    found = notes(db, 1.0, 4000)
    assert found["a, b"] == "measured; likely a reliable pair"
    assert found["a, c"] == "measured; likely not a reliable pair"
    assert found["a"] == "measured"


def test_more_rows_make_a_pair_reliable(db):
    assert notes(db, 1.0, 100_000)["a, c"] == "measured; likely a reliable pair"
    assert not any("reliable" in note for note in notes(db, 1.0, 100).values())  # no pair is measured at all


def test_a_release_agrees_with_its_plan(db):
    planned = {pair for pair, note in notes(db, 1.0, 4000).items() if note.endswith("likely a reliable pair")}
    db.synthesize("t", 1.0)
    (report,) = db.sql("SELECT report FROM dp_releases()").fetchone()
    assert set(json.loads(report)["reliable_pairs"]) == planned
