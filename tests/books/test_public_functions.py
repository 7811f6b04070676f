"""What a view calls may tell of private rows though it reads no protected table: then it is not read as public."""

from __future__ import annotations

import duckdb
import pytest

import dpsql

REFUSED = {
    "typeof(m)": "the function typeof",
    "hash(m)": "the function hash",
    "enum_code(m)": "the function enum_code",
    "TRY_CAST(k AS e)": "a cast to an ENUM",
    "[k]::e[]": "a cast to an ENUM",
    "age(DATE '2020-01-01')": "the function age",
    "lpad(k, 9, k)": "the function lpad",
}


@pytest.mark.medium
def test_a_view_that_may_tell_of_private_rows_is_not_read():
    """The type's members are a protected column's values: DuckDB reads them where no table is read."""
    call = "CALL dp_synthesize('t', epsilon := 0.1, mechanism := 'pmwpub', prior := 'v')"
    with dpsql.connect() as db:
        db.sql("CREATE TABLE t AS SELECT 'n' || i AS name, i::INTEGER % 10 AS a FROM range(50) r(i)")
        db.protect("t", epsilon=1.0, delta=1e-6)
        db.domain("t", "a", lower=0, upper=9)
        db.domain("t", "name", exclude=True)
        db.sql("CREATE TYPE e AS ENUM (SELECT DISTINCT name FROM t)")
        db.sql("CREATE TABLE shown (m e, k VARCHAR); INSERT INTO shown VALUES (NULL, 'x')")
        view = "CREATE OR REPLACE VIEW v AS SELECT {} AS a FROM shown WHERE k != 'b' AND k IS DISTINCT FROM 'c'"
        for expression, reason in REFUSED.items():
            db.sql(view.format(expression))
            with pytest.raises(duckdb.Error, match=reason):
                db.sql(call)
        assert db.budget().releases[0] == 0
        db.sql(view.format("length(k)"))
        db.sql(call).fetchall()
        assert db.budget().releases[0] == 1


MADE = {
    "AS SELECT enum_code('n7'::e) AS a": False,
    "AS SELECT TRY_CAST('n7' AS e) IS NULL AS a": False,
    "AS SELECT e 'n7' IS NULL AS a": False,
    "AS SELECT hash(m) AS a FROM shown": False,
    "AS SELECT enum_code(m) AS a FROM shown": False,
    "AS SELECT nextval('numbers') AS a": False,
    "AS SELECT currval('numbers') AS a": False,
    "(a INTEGER, m e)": True,
    "AS SELECT now() AS a, current_date AS b, random() AS c": True,
    "AS SELECT k AS a FROM shown": True,
}


@pytest.mark.medium
def test_a_table_that_may_tell_of_private_rows_is_not_listed():
    """Members of an ENUM type, and how many numbers a sequence gave, may be a protected table's; the clock is nobody's."""
    with dpsql.connect() as db:
        db.sql("CREATE SEQUENCE numbers")
        db.sql("CREATE TABLE t AS SELECT nextval('numbers') AS id, 'n' || i AS name FROM range(50) r(i)")
        db.sql("CREATE TYPE e AS ENUM (SELECT DISTINCT name FROM t)")
        db.sql("CREATE TABLE shown (m e, k VARCHAR)")
        db.protect("t", epsilon=1.0, delta=1e-6)
        for number, (rest, is_public) in enumerate(MADE.items()):
            db.sql(f"CREATE TABLE made{number} {rest}")
            if is_public:
                db.protect(f"made{number}", epsilon=1.0, delta=1e-6)
            else:
                with pytest.raises(dpsql.DpsqlError, match="ledger settle|settle"):
                    db.protect(f"made{number}", epsilon=1.0, delta=1e-6)


def test_codes_of_a_database_without_an_enum_are_public():
    with dpsql.connect() as db:
        db.sql("CREATE TABLE t AS SELECT i % 3 AS a FROM range(50) r(i)")
        db.protect("t", epsilon=1.0, delta=1e-6)
        db.sql("CREATE TABLE simulated AS SELECT hash(i) % 5 AS a FROM range(50) r(i)")
        db.protect("simulated", epsilon=1.0, delta=1e-6)


def test_what_the_clock_says_stays_in_a_table_and_is_not_read_of_a_view():
    """So the same request is the same release, whatever the time."""
    ask = "SELECT n FROM dp_query('SELECT count(*) AS n FROM t WHERE a IN (SELECT a FROM {})', epsilon := 1)"
    with dpsql.connect() as db:
        db.sql("CREATE TABLE t AS SELECT (i % 3)::INTEGER AS a FROM range(50) r(i)")
        db.protect("t", epsilon=10.0, delta=1e-6)
        db.domain("t", "a", lower=0, upper=2, nulls=False)
        db.sql("CREATE TABLE p AS SELECT (random() * 3)::INTEGER % 3 AS a, now() AS made")
        first = db.sql(ask.format("p")).fetchall()
        assert db.sql(ask.format("p")).fetchall() == first
        assert len(db.releases()) == 1
        db.sql("CREATE VIEW v AS SELECT (random() * 3)::INTEGER % 3 AS a, now() AS made")
        with pytest.raises(duckdb.Error):
            db.sql(ask.format("v")).fetchall()
        assert len(db.releases()) == 1
