"""Bins that people can read: clean edges, powers, the calendar; what was declared before stays as it is."""

from __future__ import annotations

import json

import duckdb
import pytest

import dpsql
from dpsql.core.domain import attribute_from, equal_width, fields_of

KINDS = {
    "whole": "INTEGER",
    "money": "DECIMAL(9,2)",
    "real": "DOUBLE",
    "day": "DATE",
    "seen": "TIMESTAMP",
    "word": "VARCHAR",
    "zone": "TIMESTAMP WITH TIME ZONE",
}


@pytest.fixture(scope="module")
def table():
    with dpsql.connect() as db:
        db.sql(f"CREATE TABLE t ({', '.join(f'{name} {kind} NOT NULL' for name, kind in KINDS.items())})")
        db.protect("t", epsilon=1, delta=1e-6)
        yield db


def labels(db, arguments: str) -> list[str]:
    ((found,),) = db.sql(f"SELECT labels FROM dp_domain('t', {arguments})").fetchall()
    return [label for label in found if label != "outside the domain"]


SHOWN = {
    "'whole', lower := 0, upper := 10000, bins := 4": ["[0, 2500)", "[2500, 5000)", "[5000, 7500)", "[7500, 10000]"],
    "'whole', lower := 0, upper := 99, bins := 4": ["[0, 25)", "[25, 50)", "[50, 75)", "[75, 99]"],
    "'whole', lower := 0, upper := 4, bins := 4": ["[0, 2)", "2", "3", "4"],
    "'money', lower := 0, upper := 10, bins := 2": ["[0.00, 5.00)", "[5.00, 10.00]"],
    "'whole', lower := 1, upper := 1000, scale := 'log', bins := 3": ["[1, 10)", "[10, 100)", "[100, 1000]"],
    "'whole', lower := 0, upper := 1000, scale := 'log', bins := 4": ["0", "[1, 10)", "[10, 100)", "[100, 1000]"],
    "'money', lower := 0, upper := 100, scale := 'log', bins := 3": [
        "[0.00, 1.00)",
        "[1.00, 10.00)",
        "[10.00, 100.00]",
    ],
    "'real', lower := 0.5, upper := 50, scale := 'log', bins := 2": ["[0.5, 5.0)", "[5.0, 50.0]"],
    "'real', lower := 0, upper := 10, bins := 2, points := [0]": ["0.0", "(0.0, 5.0)", "[5.0, 10.0]"],
    "'day', lower := '2024-01-15', upper := '2024-03-02', every := 'month'": [
        "[2024-01-15, 2024-02-01)",
        "[2024-02-01, 2024-03-01)",
        "[2024-03-01, 2024-03-02]",
    ],
    "'day', lower := '2023-11-01', upper := '2024-06-30', every := 'quarter'": [
        "[2023-11-01, 2024-01-01)",
        "[2024-01-01, 2024-04-01)",
        "[2024-04-01, 2024-06-30]",
    ],
    "'day', lower := '2024-01-01', upper := '2024-01-16', every := 'week'": [
        "[2024-01-01, 2024-01-08)",
        "[2024-01-08, 2024-01-15)",
        "[2024-01-15, 2024-01-16]",
    ],
    "'day', lower := '1999-12-31', upper := '2001-01-01', every := 'year'": [
        "1999-12-31",
        "[2000-01-01, 2001-01-01)",
        "2001-01-01",
    ],
    "'seen', lower := '2024-02-28 12:00:00', upper := '2024-03-01', every := 'day'": [
        "[2024-02-28 12:00:00, 2024-02-29 00:00:00)",
        "[2024-02-29 00:00:00, 2024-03-01 00:00:00)",
        "2024-03-01 00:00:00",
    ],
    "'zone', lower := '2024-02-28 23:00:00-01', upper := '2024-03-01 12:00:00+00', every := 'month'": [
        "[2024-02-29 00:00:00+00, 2024-03-01 00:00:00+00)",
        "[2024-03-01 00:00:00+00, 2024-03-01 12:00:00+00]",
    ],
}


@pytest.mark.parametrize("arguments", SHOWN)
def test_labels(table, arguments):
    assert labels(table, arguments) == SHOWN[arguments]


REFUSED = {
    "'whole', lower := 0, upper := 9, every := 'month'": "say it of DATE or TIMESTAMP",
    "'day', lower := '2024-01-01', upper := '2024-12-31', every := 'fortnight'": "say 'hour', 'day', 'week'",
    "'day', lower := '2024-01-01', upper := '2024-12-31', every := 'hour'": "is a DATE",
    "'day', lower := '2024-01-01', upper := '2024-12-31', every := 'month', bins := 3": "leave bins and scale out",
    "'seen', lower := '0001-01-01', upper := '9999-12-31', every := 'hour'": "say a longer one",
    "'day', lower := '2024-01-01', upper := '2024-12-31', scale := 'log'": "no number",
    "'whole', lower := -1, upper := 9, scale := 'log'": "a lower bound of 0 or more",
    "'real', lower := 0, upper := 0.5, scale := 'log'": "above it and above 1",
    "'whole', lower := 1, upper := 9, scale := 'square'": "say 'linear' or 'log'",
    "'whole', edges := [1, 9], scale := 'log'": "scale goes with lower and upper",
    "'real', lower := 0, upper := 10, bins := 2, points := [10]": "declare one above it",
    "'real', lower := 0, upper := 1, bins := 2, nulls_as := [1]": "in the bins too",
    "'real', \"values\" := [0.0, 1.0], nulls_as := ['-0.0']": "in values too",
    "'word', lower := 1, upper := 9, scale := 'log'": "which has no bins",
}


@pytest.mark.parametrize("arguments", REFUSED)
def test_refused(table, arguments):
    with pytest.raises(duckdb.Error, match=REFUSED[arguments]):
        table.sql(f"EXPLAIN FROM dp_domain('t', {arguments})")


def test_a_domain_of_an_earlier_version_stays_where_the_same_is_declared_again(db):
    """Its edges were 0, 11, 21, …: a new domain would have requests charged anew. Other words make the new one."""
    db.sql("CREATE TABLE t (a INTEGER)")
    db.protect("t", epsilon=1, delta=1e-6)
    db.domain("t", "a", lower=0, upper=100, bins=10)
    ((spec,),) = db.sql("SELECT spec FROM dpsql.domain").fetchall()
    new = attribute_from(json.loads(spec))
    assert new.ticks == (*range(0, 100, 10), 101)
    ticks = equal_width(0, 100, 10, is_float=False)
    edges = (*map(str, ticks[:-1]), "100")
    old = json.dumps(fields_of(new) | {"ticks": ticks, "edges": edges})
    db.connection.execute("UPDATE dpsql.domain SET spec = ?", [old])
    db.domain("t", "a", lower=0, upper=100, bins=10)
    assert json.loads(db.sql("SELECT spec FROM dpsql.domain").fetchall()[0][0]) == json.loads(old)
    db.domain("t", "a", lower=0, upper=100, bins=10, points=[0])
    db.domain("t", "a", lower=0, upper=100, bins=10)
    assert json.loads(db.sql("SELECT spec FROM dpsql.domain").fetchall()[0][0]) == json.loads(spec)
