"""Conditions that ask public tables: `x IN (SELECT …)`, `NOT IN` and `EXISTS`, with NULL, no value and other types."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dpsql
from tests.release.test_query import plain, rows_of, silent

TABLES = """
    CREATE TABLE t AS
    SELECT
        CASE WHEN i % 7 <> 3 THEN (i % 5)::INTEGER END AS a, (['1', 'x', 'é', NULL])[1 + i % 4] AS b,
        (i % 4 / 2)::DECIMAL(4, 1) AS c, DATE '2024-01-01' + (i % 6)::INTEGER AS d
    FROM range(840) r(i);
    CREATE TABLE p AS FROM (VALUES (1, '1', 0.5, DATE '2024-01-02'), (3, 'x', 1.50, NULL), (3, NULL, 7.25, DATE '2024-01-05'),
        (NULL, 'é', NULL, DATE '2030-01-01'), (9, 'y', 0.0, DATE '2024-01-02')) v(k, w, x, y);
    CREATE VIEW seen AS SELECT * FROM t WHERE a IN (SELECT k FROM p);
"""


@pytest.fixture(scope="module")
def declared():
    with dpsql.connect() as db:
        db.sql(TABLES)
        db.protect("t", epsilon=1000.0, delta=1e-9)
        db.domain("t", "a", lower=0, upper=4)
        db.domain("t", "b", values=["1", "x", "é"])
        db.domain("t", "c", lower=0, upper=2)
        db.domain("t", "d", lower="2024-01-01", upper="2024-01-06")
        yield db


@pytest.fixture
def quiet(declared, monkeypatch):
    """The tables with the noise switched off, and no group of NULL hidden."""
    monkeypatch.setattr("dpsql.privacy.distributions.discrete_gaussian", silent)
    monkeypatch.setattr("dpsql.release.answers_frame._SILENT", 0.0)
    return declared


VALUES = (
    ("a", "k"),
    ("b", "w"),
    ("c", "x"),
    ("d", "y"),
    ("a", "x"),
    ("c", "k"),
    ("a + 1", "k"),
    ("upper(b)", "upper(w)"),
    ("a", "k // 2"),
    ("d", "y + 1"),
)
ROWS = (
    "",
    " WHERE {c} IS NOT NULL",
    " WHERE k > 100",
    " WHERE w IN ('x', 'é')",
    " WHERE k < 4 AND (w <> 'x' OR w IS NULL)",
    " p WHERE p.x BETWEEN 0 AND 2",
)
SHAPES = (
    "SELECT count(*) AS n FROM t WHERE a >= 0 OR ({m})",
    "SELECT count(*) AS n FROM t WHERE ({m}) IS NULL OR a IS NULL",
    "SELECT {m} AS k, count(*) AS n FROM t GROUP BY 1",
    "SELECT count(*) FILTER (WHERE {m} OR a = 1) AS m, count(*) AS n FROM t",
    "SELECT sum(CASE WHEN {m} THEN a WHEN a > 2 THEN 1 ELSE 0 END) AS s FROM t",
    "SELECT b, count(*) AS n FROM (SELECT * FROM t WHERE {m} OR b IS NULL) q GROUP BY b HAVING count(*) > 0",
)


@st.composite
def members(draw):
    """A condition that asks the public table."""
    mine, theirs = draw(st.sampled_from(VALUES))
    rows = draw(st.sampled_from(ROWS)).format(c=theirs)
    no = draw(st.sampled_from(("", "NOT ")))
    if draw(st.integers(0, 3)) == 0:
        return f"{no}EXISTS (SELECT {theirs} FROM p{rows})"
    return f"{mine} {no}IN (SELECT {draw(st.sampled_from(('', 'DISTINCT ')))}{theirs} FROM p{rows})"


@pytest.mark.medium
@given(members(), st.sampled_from(SHAPES))
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_conditions_mean_what_sql_means(quiet, condition, shape):
    """With the noise switched off; groups that no row is in have 0."""
    sql = shape.format(m=condition)
    names, raw = rows_of(quiet, sql)
    _, found = rows_of(quiet, f"SELECT {', '.join(names)} FROM dp_query(?, epsilon := 3)", [sql])
    ours, theirs = ([tuple(map(plain, row)) for row in rows] for rows in (found, raw))
    assert set(theirs) <= set(ours), sql
    assert all(row[-1] in (0, None) for row in ours if row not in theirs), sql


@pytest.mark.medium
def test_another_content_is_another_question(declared):
    """What the public table holds takes part in the key, as does what is asked of it; the same again is free."""
    asked = [
        f"SELECT count(*) AS n FROM t WHERE a {no}IN (SELECT k FROM p{rows})"
        for no in ("", "NOT ")
        for rows in (" WHERE k < 2", " WHERE k < 4")
    ]
    asked += [
        f"SELECT count(*) AS n FROM t WHERE {no}EXISTS (SELECT k FROM p WHERE k < 2) OR a = 1" for no in ("", "NOT ")
    ]
    before = len(declared.releases())
    for _ in range(2):
        for sql in asked:
            rows_of(declared, "FROM dp_query(?, epsilon := 7)", [sql])
        assert len(declared.releases()) == before + len(asked)
    declared.sql("UPDATE p SET k = 0 WHERE k = 1")
    try:
        rows_of(declared, "FROM dp_query(?, epsilon := 7)", [asked[0]])
        assert len(declared.releases()) == before + len(asked) + 1
    finally:
        declared.sql("UPDATE p SET k = 1 WHERE k = 0")


@pytest.mark.medium
def test_a_view_and_a_with_may_ask(quiet):
    for sql in (
        "SELECT count(*) AS n FROM seen WHERE a > 0",
        "WITH s AS (SELECT k FROM p WHERE w IS NOT NULL) SELECT count(*) AS n FROM t WHERE a IN (SELECT k FROM s)",
        "SELECT count(*) AS n FROM t WHERE a IN (SELECT q.k FROM (SELECT k FROM p WHERE k > 1) q)",
        "SELECT count(*) AS n FROM t JOIN (SELECT w, y FROM p WHERE w = 'x') q ON q.w = t.b WHERE d NOT IN (SELECT y FROM p WHERE y IS NOT NULL)",
    ):
        _, raw = rows_of(quiet, sql)
        assert rows_of(quiet, "SELECT n FROM dp_query(?, epsilon := 3)", [sql])[1] == raw, sql


REFUSED = {
    "a IN (SELECT a FROM t)": "'t' is protected",
    "EXISTS (FROM t WHERE a = 1)": "'t' is protected",
    "EXISTS (SELECT 1 FROM p WHERE p.k = t.a)": "depends on the row",
    "EXISTS (SELECT 1 FROM p WHERE k = a)": "depends on the row",
    "a IN (SELECT max(k) FROM p)": "groups in a subquery",
    "a IN (SELECT k FROM p GROUP BY k)": "groups in a subquery",
    "a IN (SELECT k FROM p ORDER BY k LIMIT 1)": "LIMIT inside FROM",
    "a IN (SELECT k, w FROM p)": "one column",
    "a IN (SELECT k FROM p UNION SELECT 1)": "not supported",
    "a IN (SELECT k FROM p, p AS q)": "not supported",
    "a IN (SELECT k FROM p WHERE random() < 0.5)": "random(…) cannot be used",
    "a IN (SELECT random()::INT FROM p)": "random(…) cannot be used",
    "a IN (SELECT k FROM p WHERE w = current_setting('threads'))": "current_setting(…) cannot be used",
    "a IN (SELECT value FROM duckdb_settings())": "not",
    "a IN (SELECT nothing FROM p)": "nothing",
    "a IN (SELECT k FROM nowhere)": "nowhere",
    "dpsql_joined_0.dpsql_d0 = 1": "reserved",
    "a IN (SELECT dpsql_joined_0.dpsql_d0 FROM p)": "reserved",
    "a = (SELECT max(k) FROM p)": "a subquery in an expression",
}


@pytest.mark.parametrize("condition", REFUSED)
def test_what_reads_something_else_is_refused_before_the_charge(declared, condition):
    before = len(declared.ledger())
    with pytest.raises(duckdb.Error) as caught:
        declared.sql("FROM dp_query(?, epsilon := 0.5)", [f"SELECT count(*) AS n FROM t WHERE {condition}"]).fetchall()
    assert REFUSED[condition] in str(caught.value)
    assert len(declared.ledger()) == before


def test_a_bin_that_a_public_value_lies_in_is_not_guessed(declared):
    """Only the ends of a wide bin are tried, and no constant tells where the public values are."""
    with dpsql.connect() as db:
        db.sql("CREATE TABLE wide AS SELECT i * 997 AS a FROM range(1000) r(i); CREATE TABLE p AS SELECT 997 AS k")
        db.protect("wide", epsilon=1.0, delta=1e-9)
        db.domain("wide", "a", lower=0, upper=99_999_999, bins=10, nulls=False)
        with pytest.raises(duckdb.Error, match="not known to be the same"):
            db.sql("FROM dp_query('SELECT count(*) FROM wide WHERE a IN (SELECT k FROM p)', epsilon := 0.1)").fetchall()
        assert db.sql("FROM dp_releases()").df().empty
