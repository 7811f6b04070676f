"""What Postgres is sent: only counts of groups, no cast of a column, no secret, by a user who may do no more."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import sqlglot
from sqlglot import exp

import dpsql

from .postgres_bank import Bank, bank

pytestmark = pytest.mark.medium
_LOGGED = re.compile(r"LOG: {2}(?:statement|execute [^:]*): (.*)")
_COPY = re.compile(r"COPY \((.*)\) TO STDOUT \(FORMAT binary\)$", re.DOTALL)

_NUMBER = '(SELECT COUNT(*) AS "n" FROM "public"."people")'
"""The number of all rows."""


@pytest.fixture
def people(tmp_path) -> Iterator[Bank]:
    """A table with columns of many types, several rows for each person, and a domain for each column."""
    with bank(tmp_path) as found:
        found.sql(
            "CREATE TABLE people (id int8 PRIMARY KEY, person text, ward text, age int4, weight float8, cost numeric(9,2), "
            "born date, seen timestamptz, here bool)",
            "INSERT INTO people SELECT i, 'p' || i % 40, 'w' || i % 7, i % 90, i / 3.0, i % 50 / 4.0, "
            "DATE '1990-01-01' + i, TIMESTAMPTZ '2020-01-01 00:00+00' + i * INTERVAL '1 hour', i % 3 = 0 "
            "FROM generate_series(1, 600) i",
            "ANALYZE people",
        )
        found.source("people", identity="id")
        db = found.db
        db.protect("people", epsilon=100.0, delta=1e-6, privacy_unit="person", max_rows=5)
        for name, how in {
            "ward": {"values": [f"w{n}" for n in range(6)], "other": "rest"},
            "age": {"lower": 0, "upper": 80, "points": [0]},
            "weight": {"lower": 0, "upper": 250, "bins": 20, "nulls_as": ["nan", -1]},
            "cost": {"lower": 0, "upper": 12, "bins": 5},
            "born": {"lower": "1990-01-01", "upper": "1991-12-31", "bins": 24},
            "seen": {"lower": "2020-01-01", "upper": "2020-02-01", "bins": 31},
        }.items():
            db.domain("people", name, **how)
        for name in ("id", "person"):
            db.domain("people", name, exclude=True)
        yield found


def everything(db: dpsql.Database, quick: str) -> None:
    """Each kind of question that Postgres answers."""
    db.discover("people", "ward", epsilon=20.0)
    db.sql(f"CREATE OR REPLACE TABLE made AS FROM dp_synthesize('people', epsilon := 1, {quick})")
    for query in (
        "SELECT ward, count(*), sum(age), avg(least(weight, 50) * 2 - 1) FROM people WHERE here GROUP BY ward",
        "SELECT sum(age * cost), sum(CASE WHEN age > 3 THEN round(cost, 1) END) FROM people",
        "SELECT ward, count(DISTINCT person) FROM people GROUP BY ward",
    ):
        db.sql(f"FROM dp_query('{query}', epsilon := 1)").fetchall()
    db.evaluate("people", "made")


def logged(found: Bank) -> list[str]:
    """The texts of all statements of dpsql's that the server logged."""
    log = found.server.log.read_text()
    return [line[1] for line in _LOGGED.finditer(log)]


def test_no_column_is_cast(people, quick):
    """Of what is cast the only thing that is no constant is a number between two bounds."""
    people.forget_log()
    everything(people.db, quick)
    read = [
        text for text in logged(people) if '"people"' in text and "LOCK TABLE" not in text and "LIMIT 0" not in text
    ]
    assert len(read) >= 8
    seen = set()
    for text in read:
        inner = _COPY.match(text)
        tree = sqlglot.parse_one(inner[1] if inner else text, read="postgres")
        for cast in tree.find_all(exp.Cast, exp.TryCast):
            if isinstance(cast.this, exp.IntDiv):  # sqlglot reads div(a, b) of two numerics so
                continue
            assert isinstance(cast.this, exp.Literal | exp.Null | exp.Greatest), cast.sql("postgres")
            seen.add(type(cast.this))
            if isinstance(cast.this, exp.Greatest):
                low, high = cast.this.expressions[0], cast.this.this.expressions[0]
                assert isinstance(cast.this.this, exp.Least)
                assert isinstance(low.this, exp.Literal)
                assert isinstance(high.this, exp.Literal)
        assert tree.find(exp.Group) or _NUMBER in text, text
        outer = tree.expression if isinstance(tree, exp.Insert) else tree
        assert all(
            name in {"n", "cell", "cells", "value", *(f"c{i}" for i in range(9))} for name in outer.named_selects
        ), text
    assert exp.Greatest in seen  # a sum


def test_the_secret_of_units_is_in_no_statement(people, quick):
    """What is bound is made of it, and stands in the server's log only beside the statement, as a parameter."""
    people.forget_log()
    everything(people.db, quick)
    secret = people.db.sql("SELECT unit_secret FROM dpsql.account").fetchall()[0][0]
    log = people.server.log.read_text()
    assert "sha256($1 || " in log.lower()
    bound = re.findall(r"parameters: \$1 = '\\x([0-9a-f]{64})'", log)
    assert bound
    for text in (secret, secret[:12], secret.encode().hex()):
        assert text not in log
    assert not any(key in text for key in bound for text in logged(people))


@pytest.mark.parametrize("temporary", [True, False])
def test_a_user_who_may_only_read_is_enough(people, quick, temporary):
    """Of a user who may read some columns, and make a temporary table or not, Postgres tells what it ran."""
    server, database = people.server, people.database
    columns = "person, id, ward, age, weight, cost, born, seen, here"
    people.sql(
        "CREATE EXTENSION IF NOT EXISTS pg_stat_statements",
        "DROP OWNED BY reader; DROP ROLE reader" if server.has_role("reader") else "SELECT 1",
        "CREATE ROLE reader LOGIN",
        f"GRANT SELECT ({columns}) ON people TO reader",
        f"{'GRANT' if temporary else 'REVOKE'} TEMPORARY ON DATABASE {database} {'TO' if temporary else 'FROM'} PUBLIC",
        "SELECT pg_stat_statements_reset()",
    )
    people.connect_as("reader")
    everything(people.db, quick)
    rows = people.sql(
        "SELECT query, rows FROM pg_stat_statements s JOIN pg_roles r ON r.oid = s.userid WHERE rolname = 'reader'"
    )
    of_rows = [text for text, _ in rows if '"people"' in text]
    assert of_rows
    for text in of_rows:
        is_of_none = re.search(r'SELECT \S+ AS n FROM "public"."people" LIMIT', text)
        assert "GROUP BY" in text or is_of_none or _NUMBER in text, text
    made = [text for text, _ in rows if text.startswith(("INSERT", "CREATE"))]
    assert bool(made) == temporary
    assert all("dpsql_codes" in text for text in made)
    assert not [text for text, _ in rows if re.match(r"UPDATE|DELETE|ALTER|DROP|GRANT", text)]


def test_all_is_read_in_one_transaction_that_only_reads(people, quick):
    """Of each release one, of one snapshot."""
    people.forget_log()
    people.db.sql(f"FROM dp_synthesize('people', epsilon := 1, {quick})").fetchall()
    texts = logged(people)
    first = next(place for place, text in enumerate(texts) if text.startswith("BEGIN"))
    assert texts[first] == "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    read = [place for place, text in enumerate(texts) if "GROUP BY" in text]
    assert read
    assert all(first < place < texts.index("ROLLBACK") for place in read)
    assert [text for text in texts if text.startswith("BEGIN")] == [texts[first]]


def test_operators_of_others_are_not_asked(tmp_path):
    """One that fits a column better than Postgres' own would be taken by another search path, and see every value."""
    with bank(tmp_path) as found:
        found.sql(
            "CREATE TABLE t (x varchar)",
            "INSERT INTO t SELECT CASE WHEN i % 2 = 0 THEN 'a' ELSE 'b' END FROM generate_series(1, 100) i",
            "CREATE FUNCTION public.always(varchar, varchar) RETURNS bool LANGUAGE sql AS 'SELECT true'",
            "CREATE OPERATOR public.= (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = public.always)",
        )
        assert found.sql("SELECT count(*) FROM t WHERE x = 'c'::varchar") == [(100,)]
        found.source("t")
        found.db.protect("t", epsilon=1000.0, delta=1e-6)
        found.db.domain("t", "x", values=["c", "a", "b"])
        rows = found.db.sql("FROM dp_query('SELECT x, count(*) FROM t GROUP BY x', epsilon := 500)").fetchall()
        assert {x: round(n / 10) for x, n, *_ in rows} == {"a": 5, "b": 5, "c": 0}
