"""Whether a column without a domain is NULL can be counted: which columns may be NULL is public, what else is in them not."""

from __future__ import annotations

import duckdb
import pytest

import dpsql
from dpsql.core.column_types import registered
from tests.release.test_query import plain, rows_of, silent

KINDS = [kind for kind in registered() if kind.some is not None or kind.members]


def text_of(kind) -> str:
    return kind.some if kind.some is not None else kind.members[0]


@pytest.fixture
def quiet(monkeypatch):
    """A table with a nullable column of each type, none of which has a domain, and the noise switched off."""
    monkeypatch.setattr("dpsql.privacy.distributions.discrete_gaussian", silent)
    with dpsql.connect() as db:
        some = [f"CASE WHEN i % {n + 2} <> 1 THEN '{text_of(k)}'::{k.name} END AS c{n}" for n, k in enumerate(KINDS)]
        db.sql(f"CREATE TABLE t AS SELECT i % 3 AS a, {', '.join(some)} FROM range(600) r(i)")
        db.sql("ALTER TABLE t ADD COLUMN parts INTEGER[]")
        db.sql("UPDATE t SET parts = [1, 2] WHERE a = 1")
        db.protect("t", epsilon=1000.0, delta=1e-9)
        db.domain("t", "a", lower=0, upper=2, nulls=False)
        yield db


def shapes():
    columns = [f"c{number}" for number in range(len(KINDS))]
    yield f"SELECT a, {', '.join(f'count({c}) AS n_{c}' for c in columns)} FROM t GROUP BY a"
    for number, column in enumerate(columns):
        other = columns[(number + 1) % len(columns)]
        yield (
            f"SELECT count(*) AS n FROM t WHERE {column} IS NULL",
            f"SELECT count(*) FILTER (WHERE ({column}) IS NOT NULL OR {other} IS NULL) AS n FROM t",
            f"SELECT {column} IS NULL AS missing, count({other}) AS n FROM t GROUP BY 1",
            f"SELECT count(CASE WHEN a = 1 OR {other} IS NULL THEN {column} END) AS n, count(*) AS m FROM t",
            f"SELECT sum(CASE WHEN {column} IS NULL AND a > 0 THEN 2 ELSE 1 END) AS n FROM t WHERE NOT {other} IS NULL",
        )[number % 5]


@pytest.mark.medium
def test_counts_of_a_column_without_a_domain_are_duckdbs(quiet):
    for sql in shapes():
        names, raw = rows_of(quiet, sql)
        for _ in range(2):  # the second is what was stored
            _, found = rows_of(quiet, f"SELECT {', '.join(names)} FROM dp_query(?, epsilon := 5)", [sql])
            ours, theirs = ([tuple(map(plain, row)) for row in rows] for rows in (found, raw))
            assert sorted(ours, key=repr) == sorted(theirs, key=repr), sql
    asked = len(list(shapes()))
    assert len(quiet.releases()) == asked  # each has a key of its own


REFUSED = {
    "SELECT count(c1 + 1) AS n FROM t": "no public domain is declared for c1",
    "SELECT count(c1) AS n FROM t WHERE c1 = 7": "no public domain is declared for c1",
    "SELECT count(c1) AS n, c1 FROM t GROUP BY c1": "no public domain is declared for c1",
    "SELECT count(parts) AS n FROM t": "say count(*)",
}


def test_what_asks_for_more_needs_a_domain(quiet):
    """Before the charge; and so does what the owner excluded."""
    quiet.domain("t", "c2", exclude=True)
    before = len(quiet.ledger())
    for sql, said in {**REFUSED, "SELECT count(c2) AS n FROM t": "say count(*)"}.items():
        with pytest.raises(duckdb.Error) as caught:
            quiet.sql("FROM dp_query(?, epsilon := 5)", [sql]).fetchall()
        assert said in str(caught.value)
    assert len(quiet.ledger()) == before


def test_a_domain_that_comes_later_is_another_question(quiet):
    """Its answer is of other cells, so it is charged; what was told before is told again until then."""
    sql = "SELECT count(c0) AS n FROM t"
    (first,) = rows_of(quiet, "SELECT n FROM dp_query(?, epsilon := 5)", [sql])[1]
    assert rows_of(quiet, "SELECT n FROM dp_query(?, epsilon := 5)", [sql])[1] == [first]
    assert len(quiet.releases()) == 1
    kind = KINDS[0]
    quiet.domain("t", "c0", values=[text_of(kind)])
    assert rows_of(quiet, "SELECT n FROM dp_query(?, epsilon := 5)", [sql])[1] == [first]
    assert len(quiet.releases()) == 2
