"""What users call things: a name that they give is never one that dpsql gives to what stands beside it."""

from __future__ import annotations

import random
import re

import duckdb
import pytest

import dpsql
from tests.release.test_query import plain, rows_of, silent

COLUMNS = ("a", "b", "v")
OURS = (
    "a0",
    "a1",
    "k0",
    "K1",
    "w0",
    "a0_low",
    "c0",
    "c1",
    "n_stderr",
    "r",
    "set",
    "point",
    "unnamed_subquery",
    "value",
)
"""Names that dpsql gives, or gave, to keys, answers, windows and columns, in some case."""
SHAPES = (
    "SELECT {x} AS {p}, count(*) AS {q} FROM {t} GROUP BY {x} ORDER BY count(*) DESC, {x} LIMIT 3",
    "SELECT count(*) AS {p}, {y} AS {q} FROM {t} GROUP BY {y} ORDER BY {y} DESC NULLS LAST LIMIT 2",
    "SELECT {x} AS {p}, sum({z}) AS {q} FROM {t} GROUP BY {x} HAVING sum({z}) > 1300 ORDER BY 2",
    "SELECT {x} AS {p}, row_number() OVER (ORDER BY count(*), {x}) AS {q} FROM {t} GROUP BY {x} QUALIFY {q} <= 2",
    "SELECT {p}, max({q}) AS {r} FROM (SELECT {x} AS {p}, {y}, count(*) AS {q} FROM {t} GROUP BY ALL) GROUP BY {p}",
    "WITH {r} AS (SELECT {x} AS {p}, count(*) AS {q} FROM {t} GROUP BY {x}) SELECT {q}, {p} FROM {r} ORDER BY {q}, {p} LIMIT 3",
    "SELECT {p}.{x} AS {q}, count(*) + 1 AS {r} FROM {t} AS {p} WHERE {p}.{z} > 2 GROUP BY {p}.{x} ORDER BY {r}, {q}",
    "SELECT {q}, count(*) AS {r} FROM (SELECT {x} AS {p}, {z} AS {q} FROM {t}) AS {r} WHERE {p} > 1 GROUP BY {q} ORDER BY 2, 1 LIMIT 4",
)


def filled(table: str, columns: tuple[str, ...], pool: tuple[str, ...], seed: int):
    """The shapes with a table's names, and some for all else."""
    draw = random.Random(seed)
    for shape in SHAPES:
        p, q, r = (f'"{name}"' for name in draw.sample(pool, 3))
        x, y, z = (f'"{name}"' for name in columns)
        yield shape.format(t=table, p=p, q=q, r=r, x=x, y=y, z=z)


@pytest.fixture(scope="module")
def declared():
    with dpsql.connect() as db:
        for table, columns in (("t", COLUMNS), ("u", OURS[:3])):
            a, b, v = columns
            db.sql(
                f"CREATE TABLE {table} AS SELECT ((i + i // 7) % 5)::INTEGER AS {a}, (['x', 'y'])[1 + i % 2 + "
                f"(i % 3) // 2] AS {b}, (i * 7 % 10)::INTEGER AS {v} FROM range(1511) r(i)"
            )
            db.protect(table, epsilon=1000.0, delta=1e-9)
            db.domain(table, a, lower=0, upper=4, nulls=False)
            db.domain(table, b, values=["x", "y"])
            db.domain(table, v, lower=0, upper=9, nulls=False)
        yield db


@pytest.mark.medium
@pytest.mark.parametrize(("table", "columns"), [("t", COLUMNS), ("u", OURS[:3])])
def test_names_that_dpsql_gives_too_mean_what_users_mean(declared, monkeypatch, table, columns):
    """Rows and their order are DuckDB's, whatever results, tables and columns are called (three draws of names)."""
    monkeypatch.setattr("dpsql.privacy.distributions.discrete_gaussian", silent)
    monkeypatch.setattr("dpsql.release.answers_frame._SILENT", 0.0)
    for seed in range(3):
        for sql in filled(table, columns, OURS, seed):
            names, raw = rows_of(declared, sql)
            shown, found = rows_of(declared, "FROM dp_query(?, epsilon := 5)", [sql])
            places, left = [], 0
            for name in names:
                left = next(n for n in range(left, len(shown)) if re.fullmatch(rf"{re.escape(name)}(_\d+)?", shown[n]))
                places.append(left)
                left += 1
            ours = [tuple(plain(row[place]) for place in places) for row in found]
            theirs = [tuple(map(plain, row)) for row in raw]
            key = None if "ORDER BY" in sql else repr
            assert (ours if key is None else sorted(ours, key=key)) == (
                theirs if key is None else sorted(theirs, key=key)
            ), sql


@pytest.mark.medium
def test_a_result_called_as_an_answer_orders_nothing(declared, monkeypatch):
    """`a0` is the count, and the user's name of a key: the largest groups were those of the largest key."""
    monkeypatch.setattr("dpsql.privacy.distributions.discrete_gaussian", silent)
    sql = "SELECT a AS a0, count(*) AS n FROM t GROUP BY a ORDER BY n DESC, a LIMIT 2"
    _, rows = rows_of(declared, "SELECT a0, n FROM dp_query(?, epsilon := 6)", [sql])
    assert rows == rows_of(declared, sql)[1]


RESERVED = ("dpsql_1_stderr", "dpsql_groups", "DPSQL_all", "dpsql_joined_0", "dpsql_d0", "Dpsql_Anything")
PLACES = (
    'SELECT a AS "{}", count(*) AS n FROM t GROUP BY a',
    "SELECT a AS '{}', count(*) AS n FROM t GROUP BY a",
    "SELECT {}: a, count(*) AS n FROM t GROUP BY a",
    "SELECT a, count(*) AS n FROM t AS {} GROUP BY a",
    "SELECT a, count(*) AS n FROM t AS q({}) GROUP BY 1",
    "WITH {} AS (SELECT * FROM t) SELECT a, count(*) AS n FROM {} GROUP BY a",
    "SELECT {} FROM (SELECT a, count(*) AS {} FROM t GROUP BY a)",
    "SELECT n FROM (SELECT a, count(*) AS n FROM t GROUP BY a) AS {}",
    "SELECT a, count(*) AS n FROM t WHERE a IN (SELECT {} FROM (SELECT 1 AS {})) GROUP BY a",
    "SELECT a, count(*) AS n FROM t GROUP BY a ORDER BY {}",
)


def test_reserved_names_are_refused_wherever_they_stand(declared):
    for number, place in enumerate(PLACES):
        for name in RESERVED[number % 3 :: 3]:
            with pytest.raises(duckdb.Error, match="names that begin with dpsql_ are reserved"):
                declared.sql("FROM dp_plan(?, epsilon := 1)", [place.format(name, name)]).fetchall()


@pytest.mark.medium
def test_a_column_of_a_table_cannot_be_taken_for_ours():
    """By its name, by its place, and in a view: the key of a public table was looked up in itself."""
    with dpsql.connect() as db:
        db.sql("CREATE TABLE t AS SELECT (i % 3)::INTEGER AS dpsql_d0, i % 5 AS b FROM range(60) r(i)")
        db.sql("CREATE TABLE p AS FROM (VALUES (0, 'zero'), (1, 'one'), (2, 'two')) v(k, word)")
        db.protect("t", epsilon=100.0, delta=1e-9)
        db.domain("t", "dpsql_d0", lower=0, upper=2, nulls=False)
        db.domain("t", "b", lower=0, upper=4, nulls=False)
        db.sql("CREATE VIEW w AS SELECT dpsql_d0 AS x, b FROM t")
        for sql in (
            "SELECT word, count(*) FROM t JOIN p ON p.k = t.dpsql_d0 GROUP BY word",
            "SELECT word, count(*) FROM t AS q(x, y) JOIN p ON p.k = q.x GROUP BY word",
            "SELECT word, count(*) FROM w JOIN p ON p.k = w.x GROUP BY word",
        ):
            with pytest.raises(duckdb.Error, match="reserved, such as 'dpsql_d0'"):
                db.sql("FROM dp_query(?, epsilon := 1)", [sql])
        db.sql("CREATE VIEW named AS SELECT b AS dpsql_groups FROM t")
        with pytest.raises(duckdb.Error, match="reserved, such as 'dpsql_groups'"):
            db.sql("FROM dp_query('SELECT count(*) FROM named', epsilon := 1)")
        assert db.sql("SELECT n FROM dp_query('SELECT count(*) AS n FROM t WHERE b < 3', epsilon := 1)").fetchall()


@pytest.mark.medium
def test_a_database_and_a_schema_may_be_called_as_they_like(tmp_path):
    """They stand before names that are never dpsql's own; a computed column has a query of its own with both."""
    with dpsql.connect(tmp_path / "dpsql_demo.duckdb") as db:
        db.sql(
            "CREATE SCHEMA dpsql_dev; CREATE TABLE dpsql_dev.u AS SELECT i % 4 AS h, i % 5 AS x, 0 AS y FROM range(200) r(i)"
        )
        db.sql("CREATE VIEW v AS SELECT * FROM dpsql_dev.u")
        db.protect("dpsql_dev.u", epsilon=1000.0, delta=1e-3)
        db.domain("dpsql_dev.u", "h", lower=0, upper=3, bins=4)
        db.domain("dpsql_dev.u", "x", lower=0, upper=4, bins=5)
        db.domain("dpsql_dev.u", "y", computed_as="CAST(h + x AS INTEGER)")
        for table in ("dpsql_dev.u", "dpsql_demo.dpsql_dev.u", "v"):
            answers = db.query(f"SELECT count(*) AS n FROM {table} WHERE y = 7", epsilon=100.0)
            assert answers.n.tolist() == [10]
