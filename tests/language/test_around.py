"""What is said around a query of groups is work on its answers: free, in the user's words, as DuckDB answers it."""

from __future__ import annotations

import random

import duckdb
import pytest

import dpsql
from tests.release.test_query import plain, rows_of, silent

TABLES = """
    CREATE TABLE t AS
    SELECT ((i + i // 7) % 5)::INTEGER AS a, (['x', 'y', NULL])[1 + i % 3] AS b, (i * 7 % 10)::INTEGER AS v FROM range(1500) r(i);
    CREATE VIEW by_a AS SELECT a, count(*) AS n, sum(v) AS s FROM t GROUP BY a;
    CREATE TABLE public AS FROM (VALUES (0, 'none'), (1, 'some')) p(a, word);
"""


@pytest.fixture(scope="module")
def declared():
    with dpsql.connect() as db:
        db.sql(TABLES)
        db.protect("t", epsilon=1000.0, delta=1e-9)
        db.domain("t", "a", lower=0, upper=4, nulls=False)
        db.domain("t", "b", values=["x", "y"])
        db.domain("t", "v", lower=0, upper=9, nulls=False)
        yield db


@pytest.fixture
def quiet(declared, monkeypatch):
    """The tables with the noise switched off, and no group of NULL hidden."""
    monkeypatch.setattr("dpsql.privacy.distributions.discrete_gaussian", silent)
    monkeypatch.setattr("dpsql.release.answers_frame._SILENT", 0.0)
    return declared


GROUPS = {
    "SELECT a, b, count(*) AS n, sum(v) AS s FROM t GROUP BY a, b": ("a", "b", "n", "s"),
    "SELECT b, count(*) AS n, avg(v) AS s FROM t WHERE a < 4 GROUP BY b HAVING count(*) > 1": ("b", "n", "s"),
    "SELECT a, 2 * count(*) AS n, sum(count(*)) OVER () AS s FROM t GROUP BY a ORDER BY n DESC, a LIMIT 3": (
        "a",
        "n",
        "s",
    ),
    "SELECT a, count(*) AS n, sum(v) AS s FROM (SELECT * FROM t WHERE b IS NOT NULL) q GROUP BY ROLLUP (a)": (
        "a",
        "n",
        "s",
    ),
}
FROM = (
    "SELECT {0} FROM ({1}) {2}",
    "SELECT {0} FROM ({1}) AS q {2}",
    "WITH q AS ({1}) SELECT {0} FROM q {2}",
    "WITH q AS ({1}), w AS (SELECT * FROM q WHERE n > 2) SELECT {0} FROM w {2}",
    "SELECT {0} FROM (SELECT * EXCLUDE (s), s FROM (({1})) AS q) {2}",
    "FROM ({1}) SELECT {0} {2}",
)
ROWS = (
    "*",
    "n, s",
    "{k}, n",
    "n AS many, {k} AS s",
    "{k}, n, 100.0 * n / sum(n) OVER () AS part",
    "n - lag(n, 1, 0) OVER (ORDER BY n, {k}) AS x",
    "{k}, 'a;b' || n AS \"odd name\"",
)
ALL = (
    "avg(n)",
    "max(n) AS m, min({k}) AS k",
    "count(*), count({k})",
    "round(sum(n) / nullif(sum(s), 0), 3) AS r",
    "median(n) AS m",
    "count(DISTINCT {k}) AS d",
    "sum(n) FILTER (WHERE s > 1) AS f",
    "arg_max({k}, n) IS NULL AS x",
)
WHERE = ("", "WHERE n > 20", "WHERE {k} IS NOT NULL AND n BETWEEN 1 AND 1e6", "WHERE s IS NOT NULL -- all of them\n")
ENDS = ("", "ORDER BY n DESC, s LIMIT 4", "QUALIFY row_number() OVER (ORDER BY n DESC, {k}) <= 2", "ORDER BY ALL")


def statements():
    """Parts of statements put together by a fixed draw, all of them in the end."""
    draw = random.Random(7)
    for number in range(96):
        inner = draw.choice(list(GROUPS))
        key = GROUPS[inner][0]
        shape, where = FROM[number % len(FROM)], draw.choice(WHERE)
        if number % 2:
            listed, rest = draw.choice(ROWS), draw.choice(ENDS)
        else:
            listed, rest = draw.choice(ALL), draw.choice(("", "", "HAVING count(*) > 1"))
            if number % 3 == 0:
                listed, rest = "n > 150 AS large, " + listed, "GROUP BY n > 150"
        yield shape.format(listed.format(k=key), inner, f"{where} {rest}".format(k=key))


@pytest.mark.medium
def test_it_means_what_sql_means(quiet):
    """With the noise switched off. The groups alone are charged, once for all that is said around them."""
    asked = list(statements())
    for sql in asked:
        names, raw = rows_of(quiet, sql)
        shown, found = rows_of(quiet, "FROM dp_query(?, epsilon := 3)", [sql])
        places, left = [], 0
        for name in names:  # in order, errors behind them
            left = shown.index(name, left)
            places.append(left)
        ours, theirs = (
            [tuple(map(plain, row)) for row in rows] for rows in ([[r[p] for p in places] for r in found], raw)
        )
        assert sorted(ours, key=repr) == sorted(theirs, key=repr), sql
    assert len(quiet.releases()) <= len(GROUPS)
    assert len(asked) == 96


def test_what_is_shown_as_it_is_keeps_its_interval(declared):
    """And what several groups make, or what is counted of them, has none."""
    groups = "SELECT a, count(*) AS n, sum(v) AS s FROM t GROUP BY a"
    _, plainly = rows_of(declared, "SELECT a, n, n_stderr, n_low, n_high FROM dp_query(?, epsilon := 4)", [groups])
    for sql in (
        f"SELECT * FROM ({groups}) AS virtual_table WHERE a < 9 LIMIT 1000",
        f"WITH q AS ({groups}) SELECT n, a, n * 2 AS x FROM q",
        "SELECT * EXCLUDE (s) FROM by_a",
        "SELECT v.a, v.n FROM by_a AS v ORDER BY v.n",
    ):
        _, rows = rows_of(declared, "SELECT a, n, n_stderr, n_low, n_high FROM dp_query(?, epsilon := 4)", [sql])
        assert sorted(rows) == sorted(plainly), sql
    for sql in (
        f"SELECT n, count(*) AS c FROM ({groups}) GROUP BY n",
        f"SELECT DISTINCT n FROM ({groups})",
        f"SELECT * REPLACE (n + 1 AS n) FROM ({groups})",
        f"SELECT n + 1 AS n FROM ({groups})",
        f"SELECT * FROM (SELECT a, n - 1 AS n FROM ({groups}))",
        f"SELECT * FROM (SELECT a, s AS n FROM ({groups}))",
        f"SELECT * FROM ({groups}) AS q(n, a, s)",
        f"WITH q(n, a, s) AS ({groups}) SELECT n FROM q",
        f"SELECT n FROM ({groups}) AS q(n, a, s)",
    ):
        _, rows = rows_of(declared, "SELECT n_stderr, n_low, n_high FROM dp_query(?, epsilon := 4)", [sql])
        assert set(rows) == {(None, None, None)}, sql
    assert len(declared.releases()) <= len(GROUPS) + 1


@pytest.mark.medium
def test_a_table_that_stands_for_its_columns_has_those_of_the_groups_alone(declared):
    """The errors that are shown beside them are no part of a row."""
    for sql in (
        "SELECT q, q.n FROM (SELECT a, count(*) AS n FROM t GROUP BY a) AS q",
        "WITH w AS (SELECT a, count(*) AS n FROM t GROUP BY a) SELECT w AS q FROM w WHERE w IS NOT NULL",
        "SELECT unnamed_subquery AS q FROM (SELECT a, count(*) AS n FROM t GROUP BY a)",
    ):
        _, rows = rows_of(declared, "SELECT q FROM dp_query(?, epsilon := 4)", [sql])
        assert {tuple(row[0]) for row in rows} == {("a", "n")}, sql


NESTED = (
    "SELECT max(n) FROM (SELECT b, sum(n) AS n FROM {0} GROUP BY b) q",
    "SELECT count(*), max(m) FROM (SELECT a, avg(n) AS m FROM {0} WHERE b = 'x' GROUP BY a HAVING max(n) > 50)",
    "WITH g AS (FROM {0}), h AS (SELECT a, max(n) AS m FROM g GROUP BY a ORDER BY 2, 1 LIMIT 3) SELECT sum(m) FROM h",
    "SELECT big, count(*) FROM (SELECT a, max(n) > 99 AS big FROM (SELECT * FROM {0} WHERE a < 4) x GROUP BY ALL) GROUP BY big",
    "SELECT max(c) FROM (SELECT b, count(*) AS c FROM (SELECT a, b, max(n) AS n FROM {0} GROUP BY CUBE (a, b)) GROUP BY b)",
    "SELECT sum(s) FROM (SELECT n, max(s) AS s FROM by_a GROUP BY n)",
    "SELECT a, lead(m) OVER (ORDER BY a) AS later FROM (SELECT a, min(n) AS m FROM (FROM per) GROUP BY a)",
)


@pytest.mark.medium
def test_groups_of_groups_are_what_sql_means(quiet):
    """Whatever stands between; the innermost groups are charged, once."""
    groups = "(SELECT a, b, count(*) AS n FROM t GROUP BY a, b)"
    quiet.sql(f"CREATE OR REPLACE VIEW per AS {groups[1:-1]}")
    before = len(quiet.releases())
    for shape in NESTED:
        sql = shape.format(groups)
        names, raw = rows_of(quiet, sql)
        listed = ", ".join(f'"{name}"' for name in names)
        _, found = rows_of(quiet, f"SELECT {listed} FROM dp_query(?, epsilon := 2)", [sql])
        ours, theirs = ([tuple(map(plain, row)) for row in rows] for rows in (found, raw))
        assert sorted(ours, key=repr) == sorted(theirs, key=repr), sql
    assert len(quiet.releases()) == before + 2


@pytest.mark.medium
def test_lists_are_shown(quiet):
    for sql in (
        "SELECT max(n, 2) AS l, quantile_disc(n, [0.1, 0.9]) AS m FROM (SELECT a, count(*) AS n FROM t GROUP BY a)",
        "SELECT [b, 'it''s, \"x\"'] AS l, [1, NULL] AS m, count(*) AS n FROM t GROUP BY b",
    ):
        asked = "SELECT l, m FROM {} ORDER BY ALL"
        _, found = rows_of(quiet, asked.format("dp_query(?, epsilon := 6)"), [sql])
        assert found == rows_of(quiet, asked.format(f"({sql})"))[1], sql


IN = "(SELECT a, count(*) AS n FROM t GROUP BY a)"
MANY = ", ".join(["x"] * 400)
REFUSED = {
    f"SELECT q.n, p.word FROM {IN} q JOIN public p ON p.a = q.a": "beside anything else",
    f"SELECT q.n FROM {IN} q, t": "beside anything else",
    f"SELECT n FROM {IN} WHERE n > (SELECT count(*) FROM t)": "around a query of groups",
    f"SELECT n FROM {IN} WHERE EXISTS (FROM t)": "around a query of groups",
    f"SELECT n FROM {IN} WHERE a IN (SELECT a FROM t)": "around a query of groups",
    f"SELECT (FROM t LIMIT 1) FROM {IN}": "around a query of groups",
    f"WITH x AS (SELECT v FROM t) SELECT n FROM {IN} q, x": "beside anything else",
    f"SELECT n FROM {IN} UNION ALL SELECT v FROM t": "ask each by itself",
    f"SELECT n FROM {IN} USING SAMPLE 3": "TABLESAMPLE",
    f"SELECT current_setting('memory_limit') FROM {IN}": "current_setting(…) cannot be used",
    f"SELECT 'memory_limit'.current_setting() FROM {IN}": "current_setting(…) cannot be used",
    f"SELECT \"current_setting\"('memory_limit') FROM {IN}": "current_setting(…) cannot be used",
    f"SELECT random() * n FROM {IN}": "random(…) cannot be used",
    f"SELECT n, now() FROM {IN}": "now(…) cannot be used",
    f"SELECT repeat('x', 1000000000) FROM {IN}": "could be texts of",
    f"SELECT list_transform([n], x -> x + 1) FROM {IN}": "is not supported",
    f"SELECT string_agg(n, ', ') FROM {IN}": "cannot be used",
    f"SELECT q.current_setting FROM {IN} AS q(current_setting, n) WHERE current_setting('threads') > '0'": "cannot be used",
    f"SELECT CAST(n AS TINYINT) FROM {IN}": "out of range",
    f"SELECT nothing FROM {IN}": "nothing",
    f"SELECT n::JSON::VARIANT FROM {IN}": "no type",
    f"SELECT * FROM duckdb_settings() AS q, {IN}": "",
    "SELECT n FROM (SELECT a, count(*) AS n FROM t GROUP BY a UNION SELECT 1, 2)": "UNION inside FROM",
    f"SELECT concat({MANY}) AS x FROM (SELECT concat({MANY}) AS x FROM (SELECT a AS x FROM {IN}))": "could be texts of",
    f"SELECT n AS x, concat({MANY}) AS y, concat(y, y, y, y) AS z FROM {IN}": "could be texts of",
    f"SELECT q, concat(q, q) FROM (SELECT concat({MANY}) AS y FROM (SELECT n AS x FROM {IN})) AS q": "could be texts of",
    f"SELECT max(n, 1000000) FROM {IN}": "could be texts of",
    f"SELECT max(n, n) FROM {IN}": "a whole number",
    f"SELECT equi_width_bins(0, n, 100000000, true) FROM {IN}": "can be of any size",
    f"SELECT first(n) FROM {IN}": "first(…) cannot be used",
    f"SELECT max(n) FROM {IN} GROUP BY CUBE (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)": "more than 256 grouping sets",
    f"SELECT max(n) FROM (SELECT max(n) AS n FROM {IN} GROUP BY CUBE (1, 2, 3, 4, 5)) GROUP BY CUBE (1, 2, 3, 4)": "grouping sets",
    f"SELECT a AS dpsql_1_stderr, n FROM {IN}": "reserved",
    f'WITH "DPSQL_All" AS {IN} FROM "DPSQL_All"': "reserved",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_reads_something_else_is_refused_before_the_charge(declared, sql):
    before = len(declared.ledger())
    with pytest.raises(duckdb.Error) as caught:
        declared.sql("FROM dp_query(?, epsilon := 0.5)", [sql]).fetchall()
    assert REFUSED[sql] in str(caught.value)
    assert len(declared.ledger()) == before


def test_a_workload_is_of_groups_alone(declared):
    with pytest.raises(duckdb.Error, match="around a query of groups"):
        declared.sql("FROM dp_plan('t', epsilon := 1, workload := ?)", [f"SELECT max(n) FROM {IN}"]).fetchall()
