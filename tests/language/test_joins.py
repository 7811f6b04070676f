"""What a query says about a join is read or refused: no condition, no clause and no place of a column is left out."""

from __future__ import annotations

import duckdb
import pytest

import dpsql
from tests.release.test_query import plain, rows_of, silent


@pytest.fixture(scope="module")
def declared():
    with dpsql.connect() as db:
        db.sql(
            """
            CREATE TABLE t AS SELECT i % 4 AS id, i % 3 AS j, i % 10 AS a, i % 2 AS b FROM range(1000) r(i);
            CREATE TABLE p1 AS SELECT i AS id, i % 2 AS k, 'n' || i AS word FROM range(4) r(i);
            CREATE TABLE p2 AS SELECT i AS j, i % 2 AS k, 2 - i AS c FROM range(3) r(i);
            CREATE TABLE p3 AS SELECT i AS id, i // 2 AS b FROM range(4) r(i);
            """
        )
        db.protect("t", epsilon=1000.0, delta=1e-9)
        for name, most in {"id": 3, "j": 2, "a": 9, "b": 1}.items():
            db.domain("t", name, lower=0, upper=most)
        yield db


REFUSED = {
    # two public tables before the protected one
    "p1 JOIN p2 USING (k) JOIN t ON t.id = p1.id AND t.j = p2.j": "USING before the protected table",
    "p1 JOIN p2 ON p1.id = p2.j JOIN t ON t.id = p1.id AND 1 = 0": "no row of the declared domain satisfies",
    "p1 JOIN p2 ON p1.id = p2.j JOIN t ON t.id = p1.id AND random() < 0.5": "random(…) cannot be used",
    "p1, p2 JOIN t USING (id, j)": "USING before the protected table",
    "p1 NATURAL JOIN p2 JOIN t ON t.id = p1.id": "NATURAL JOIN p2 before the protected table",
    "p1 SEMI JOIN p2 USING (k) JOIN t ON t.id = p1.id": "SEMI JOIN p2 USING (k) before the protected table",
    "p1 CROSS JOIN p2 JOIN t ON t.id = p1.id": "where no condition names its key, in: , p2",
    "p1 LEFT JOIN p2 ON p1.k = p2.j JOIN t ON t.id = p1.id": "LEFT JOIN p2 ON p1.k = p2.j before",
    # one before it, or after it
    "p1 JOIN t ON t.id > p1.id AND t.a > 5": "no equality",
    "t NATURAL JOIN (SELECT word FROM p1) q": "no column of 'q' has the name of another's",
    "t LEFT JOIN (p1 JOIN p2 ON p1.id = p2.j) ON t.id = p1.id": "in parentheses is not supported",
    "(t JOIN p1 USING (id)) q": "a name for joins in parentheses",
    "t ASOF JOIN p1 ON t.id >= p1.id": "ASOF JOIN is not supported",
    "t ANTI JOIN p1 ON t.id = p1.id": "ANTI JOIN is not supported",
    "t POSITIONAL JOIN p1": "POSITIONAL JOIN is not supported",
    "t, LATERAL (SELECT t.a) q": "anything but a table or a subquery",
    "t, p1": "a join without ON",
    # what a table says beside its name
    "t JOIN p1 AS q(k, id, word) ON t.id = q.id": "names of columns after a public table's",
    "p1 AS q(k, id, word) JOIN t ON t.id = q.id": "names of columns after a public table's",
    "t JOIN p1 TABLESAMPLE 10% ON t.id = p1.id": "TABLESAMPLE is not supported",
    "t JOIN p1 JOIN p2 ON p1.id = p2.j ON t.id = p1.id": "a join inside a join is not supported",
    "t JOIN p1 PIVOT (sum(id) FOR k IN (1)) ON t.id = p1.id": "PIVOT is not supported",
    "(SELECT * FROM t) q TABLESAMPLE 10%": "TABLESAMPLE is not supported",
    # places of columns that `*` does not make
    "(SELECT * FROM p1 JOIN t ON t.id = p1.id) AS q(w, v) WHERE v = 1": "two have the same name",
    "(SELECT * FROM t JOIN p1 ON t.id = p1.id) AS q(c, d, e, f, g, h) WHERE h = 1": "two have the same name",
    "(SELECT * FROM (SELECT * FROM t JOIN p1 ON t.id = p1.id)) AS q(c, d, e, f, g, h)": "two have the same name",
}


@pytest.mark.medium
@pytest.mark.parametrize("rows", REFUSED)
def test_what_is_not_read_of_a_join_is_refused_before_the_charge(declared, rows):
    before = len(declared.ledger())
    with pytest.raises(duckdb.Error) as caught:
        declared.sql("FROM dp_query(?, epsilon := 1)", [f"SELECT count(*) AS n FROM {rows}"]).fetchall()
    assert REFUSED[rows] in str(caught.value)
    assert len(declared.ledger()) == before


ANSWERED = [
    "t LEFT JOIN p1 ON t.id = p1.id AND p1.k = 1",
    "t LEFT JOIN p1 ON t.id = p1.id AND t.a > 4 WHERE p1.word IS NULL",
    "t NATURAL JOIN (SELECT id, k AS b, word FROM p1) q",
    "t NATURAL JOIN p3",
    "p1 JOIN p2 ON p1.id = p2.j JOIN t ON t.id = p1.id AND t.a > 5",
    "p1 JOIN p2 ON p1.id = p2.j JOIN t ON t.id = p1.id AND a > 5",
    "p1 JOIN p2 ON p1.id = p2.j JOIN t ON t.id = p1.id AND (a = 5 OR p1.k = 1)",
    "p1 JOIN t ON t.id = p1.id AND t.a > 5",
    "p2, p1, t WHERE t.id = p1.id AND p2.j = t.j AND p1.k < c",
    "t, p1 LEFT JOIN p2 ON p2.j = p1.id WHERE p1.id = t.id",
    "(SELECT * FROM p1 JOIN (t JOIN p2 ON t.j = p2.j) ON t.id = p1.id) WHERE c > 0",
    "(SELECT p1.*, t.a FROM t, p1 WHERE t.id = p1.id) AS q(w, v) WHERE v = 1",
    "p1 JOIN p2 ON p1.k = p2.k JOIN t ON t.id = p1.id AND t.j = p2.j",
    "p2, p1 JOIN t ON t.id = p1.id AND t.j = p2.j",
    "(SELECT p1.*, t.a FROM p1 JOIN t ON t.id = p1.id) AS q(w, v) WHERE v = 1",
    "(SELECT * FROM p1 JOIN t USING (id)) AS q(w, v) WHERE v = 1",
    "(SELECT * FROM p1 RIGHT JOIN t USING (id)) AS q(w, v, x, y) WHERE v = 1 AND y = 2",
    "(SELECT * FROM (SELECT id AS own, k AS b FROM p1) p JOIN t ON t.id = p.own) WHERE b = 1",
    "(SELECT * FROM t JOIN (SELECT id AS own, k AS b FROM p1) p ON t.id = p.own) WHERE b = 1",
    "(SELECT * FROM p1 JOIN p2 ON p1.k = p2.k JOIN t ON t.id = p1.id AND t.j = p2.j) WHERE k = 1 AND c > 0",
    "(SELECT * EXCLUDE (word) FROM p1 JOIN t USING (id)) AS q(w, v, x) WHERE x = 1 AND v = 1",
]


@pytest.mark.medium
@pytest.mark.parametrize("rows", ANSWERED)
def test_tables_in_any_order_are_answered_as_duckdb_answers_them(declared, monkeypatch, rows):
    """With the noise switched off."""
    monkeypatch.setattr("dpsql.privacy.distributions.discrete_gaussian", silent)
    sql = f"SELECT count(*) AS n, sum(a) AS s FROM {rows}" if " q(" not in rows else f"SELECT count(*) AS n FROM {rows}"
    names, raw = rows_of(declared, sql)
    _, found = rows_of(declared, f"SELECT {', '.join(names)} FROM dp_query(?, epsilon := 5)", [sql])
    assert [tuple(map(plain, row)) for row in found] == [tuple(map(plain, row)) for row in raw]
    assert raw[0][0] > 0
