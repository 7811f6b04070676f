"""A public table LEFT JOINed to the protected one: its rows are the groups, whatever private rows there are."""

from __future__ import annotations

import duckdb
import pytest

import dpsql
from tests.release.test_query import plain, rows_of, silent

TABLES = """
    CREATE TABLE visits AS
    SELECT i % 5 AS ward, i % 7 AS age, CASE WHEN i % 9 <> 2 THEN i % 3 = 0 END AS sick FROM range({rows}) r(i);
    CREATE TABLE wards AS FROM (VALUES (0, 'eye', 10), (1, 'ear', 20), (2, 'skin', NULL), (7, 'lung', 30),
        (8, NULL, 40), (NULL, 'none', 50)) v(ward, name, beds);
"""


def opened(rows: int):
    db = dpsql.connect()
    db.sql(TABLES.format(rows=rows))
    db.protect("visits", epsilon=1000.0, delta=1e-9)
    db.domain("visits", "ward", lower=0, upper=5)
    db.domain("visits", "age", lower=0, upper=6)
    return db


@pytest.fixture(scope="module")
def declared():
    with opened(630) as db:
        yield db


JOINS = (
    "wards w LEFT JOIN visits v ON v.ward = w.ward{on}",
    "wards w LEFT JOIN visits v ON w.ward = v.ward{on}",
    "visits v RIGHT JOIN wards w ON v.ward = w.ward{on}",
    "wards w LEFT JOIN (SELECT ward, age, sick FROM visits WHERE age < 6) v ON v.ward = w.ward{on}",
    "(SELECT * FROM wards WHERE ward < 8 OR ward IS NULL) w LEFT JOIN visits v ON v.ward = w.ward{on}",
)
ON = ("", " AND v.sick", " AND w.beds > 10", " AND (v.age > 2 OR v.sick IS NULL)", " AND v.age < w.beds")
WHERE = ("", " WHERE w.beds > 10", " WHERE w.name IS NOT NULL OR w.beds > 45", " WHERE w.ward IS NULL OR w.ward > 0")
SHOWN = (
    "count(v.ward) AS n",
    "count(v.age) FILTER (WHERE v.sick) AS n",
    "coalesce(count_if(v.sick), 0) AS n",
    "coalesce(sum(v.age), 0) AS n",
    "coalesce(sum(v.age * 2 - 1), 0) AS n",
    "coalesce(sum(CASE WHEN v.age > 3 THEN 2 ELSE 0 END), 0) AS n",
    "coalesce(sum(v.age) FILTER (WHERE v.age BETWEEN 1 AND 4), 0) AS n",
)
KEYS = ("w.name", "w.name, w.beds", "w.beds > 15", "coalesce(w.name, '?')")


def statements():
    """Every part of a statement with every other part once or more, not all combinations."""
    for number in range(60):
        parts = [listed[number // step % len(listed)] for listed, step in ((JOINS, 1), (ON, 5), (WHERE, 3), (KEYS, 2))]
        join, on, where, keys = parts
        yield f"SELECT {keys}, {SHOWN[number % len(SHOWN)]} FROM {join.format(on=on)}{where} GROUP BY {keys}"


@pytest.mark.medium
def test_a_condition_of_the_join_is_another_question_than_one_of_the_rows(declared, monkeypatch):
    """ON says which rows meet, WHERE which groups there are: each has an answer of its own, in whatever order asked."""
    monkeypatch.setattr("dpsql.privacy.distributions.discrete_gaussian", silent)
    joined = "SELECT w.name, count(v.ward) AS n FROM {} LEFT JOIN visits v ON v.ward = w.ward{} GROUP BY w.name"
    asked = (
        joined.format("wards w", " AND w.beds > 15"),
        joined.format("wards w", "").replace(" GROUP", " WHERE w.beds > 15 GROUP"),
        joined.format("(SELECT * FROM wards WHERE beds > 15) w", ""),
    )
    answers = [rows_of(declared, "SELECT name, n FROM dp_query(?, epsilon := 3)", [sql])[1] for sql in asked]
    for rows, sql in zip(answers, asked, strict=True):
        assert {(name, round(n)) for name, n in rows} == {*rows_of(declared, sql)[1]}, sql
    assert len(answers[0]) > len(answers[1]) == len(answers[2])


@pytest.mark.medium
def test_each_row_of_the_public_table_is_in_a_group(declared, monkeypatch):
    """As DuckDB answers it, with the noise switched off: no group more, and none less."""
    monkeypatch.setattr("dpsql.privacy.distributions.discrete_gaussian", silent)
    for sql in statements():
        names, raw = rows_of(declared, sql)
        listed = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
        _, found = rows_of(declared, f"SELECT {listed} FROM dp_query(?, epsilon := 2)", [sql])
        ours, theirs = ([tuple(map(plain, row)) for row in rows] for rows in (found, raw))
        assert sorted(ours, key=repr) == sorted(theirs, key=repr), sql


SQL = "SELECT w.name, count(v.ward) AS n FROM wards w LEFT JOIN visits v ON v.ward = w.ward GROUP BY w.name"


def test_groups_without_rows_have_noise_and_do_not_depend_on_private_rows():
    """An exact 0 in each of three groups is less likely than 1e-6, by noise of a standard deviation above 300."""
    keys = []
    for rows in (0, 1, 630):
        with opened(rows) as db:
            found = db.sql("SELECT name, n, n_stderr FROM dp_query(?, epsilon := 0.01)", [SQL]).fetchall()
        assert {name for name, _, _ in found} == {"eye", "ear", "skin", "lung", "none", None}
        empty = [(n, stderr) for name, n, stderr in found if name in ("lung", "none", None)]
        assert all(stderr > 300 for _, stderr in empty)
        assert any(n != 0 for n, _ in empty)
        keys.append([name for name, _, _ in found])
    assert keys[0] == keys[1] == keys[2]


REFUSED = {
    "count(*)": "say count(v.ward)",
    "count(w.beds)": "which is private",
    "count(coalesce(v.age, 0))": "which is private",
    "count(*) FILTER (WHERE v.age IS NULL)": "which is private",
    "count(*) FILTER (WHERE v.age > 3 OR w.beds > 10)": "which is private",
    "count(*) FILTER (WHERE NOT (v.age IS NOT NULL))": "which is private",
    "sum(coalesce(v.age, 1))": "which is private",
    "sum(CASE WHEN v.age IS NULL THEN 1 ELSE 0 END)": "which is private",
    "sum(CASE v.age WHEN 1 THEN 0 ELSE 1 END)": "which is private",
    "sum(w.beds)": "which is private",
    "avg(CASE WHEN v.sick THEN 1 ELSE 0 END)": "which is private",
    "count_if(v.sick IS DISTINCT FROM true)": "which is private",
    "sum(v.age) / count(*)": "say count(v.ward)",
}


CLAUSES = {
    SQL.replace(" GROUP", " WHERE v.sick GROUP"): "say it in ON",
    SQL.replace(" GROUP", " WHERE v.ward IS NULL GROUP"): "say it in ON",
    SQL.replace(" GROUP", " WHERE w.beds > v.age GROUP"): "say it in ON",
    SQL + ", v.sick": "a key of 'v'",
    SQL.replace(" GROUP", " JOIN wards x ON x.ward = v.age GROUP"): "a join by a column of 'v'",
}


@pytest.mark.parametrize("sql", CLAUSES)
def test_what_a_public_row_that_nobody_visits_would_change_is_refused(declared, sql):
    with pytest.raises(duckdb.Error) as caught:
        declared.sql("FROM dp_query(?, epsilon := 1)", [sql]).fetchall()
    assert CLAUSES[sql] in str(caught.value)


@pytest.mark.parametrize("shown", REFUSED)
def test_what_counts_public_rows_that_nobody_visits_is_refused(declared, shown):
    """Whether one has no private row is private, so nothing may count it; and nothing is charged."""
    before = len(declared.ledger())
    with pytest.raises(duckdb.Error) as caught:
        declared.sql("FROM dp_query(?, epsilon := 1)", [SQL.replace("count(v.ward)", shown)]).fetchall()
    assert REFUSED[shown] in str(caught.value)
    assert len(declared.ledger()) == before
