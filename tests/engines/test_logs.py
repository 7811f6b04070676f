"""DuckDB's own logs: a statement on private rows shows no secret and no value of a row."""

from __future__ import annotations

import pytest

import dpsql

CANARY = "canary of a private row"


def enable(db: dpsql.Database, path) -> None:
    """Every log that DuckDB keeps, at its finest."""
    db.sql(f"SET GLOBAL log_query_path = '{path}'")
    for types in ("enable_logging('QueryLog')", "enable_logging(level = 'trace')"):
        db.sql(f"CALL {types}")


@pytest.mark.medium
@pytest.mark.parametrize("kind", ["query", "synthetic table", "discovery"])
def test_the_secret_of_units_is_in_no_log(tmp_path, quick, kind):
    """Of what chooses the rows of a unit no log knows anything, from protecting on: neither it nor its bytes."""
    path = tmp_path / "queries.log"
    with dpsql.connect(tmp_path / "bank.duckdb") as db:
        enable(db, path)
        db.sql("CREATE TABLE t AS SELECT 'p' || i % 9 AS who, i % 2 = 0 AS v, 'x' AS w FROM range(90) r(i)")
        db.connection.execute("INSERT INTO t SELECT ?, true, 'x'", [CANARY])
        db.protect("t", epsilon=900.0, delta=1e-6, privacy_unit="who", max_rows=2)
        if kind == "query":
            db.sql(
                "FROM dp_query('SELECT v, count(*), count(DISTINCT who) FROM t GROUP BY v', epsilon := 1)"
            ).fetchall()
        elif kind == "discovery":
            db.discover("t", "w", epsilon=100.0)
        else:
            db.domain("t", "w", values=["x"])
            db.sql(f"FROM dp_synthesize('t', epsilon := 1, {quick})").fetchall()
        read = "SELECT unit_secret FROM dpsql.account"
        secrets = [db.sql(read).fetchall()[0][0]]
        db.reset("t", reason="a look at the logs")
        secrets.append(db.sql(read).fetchall()[0][0])
        logged = path.read_text() + "".join(map(str, db.sql("FROM duckdb_logs").fetchall()))
    assert "row_number" in logged.lower()  # the statements that use it are there
    assert len(set(secrets)) == 2
    assert not any(text in logged for text in (*secrets, *(secret[:12] for secret in secrets), CANARY))


def test_the_plan_of_what_bounds_shows_no_secret(tmp_path):
    """Nor does a profile of the statement, which the owner may take: the plan reads it from the books."""
    from dpsql.books.ledger import accounts
    from dpsql.books.ledger.store import Books
    from dpsql.engines.duckdb.catalog import find_source
    from dpsql.engines.duckdb.units import bound_by_secret

    with dpsql.connect() as db:
        db.sql("CREATE TABLE t AS SELECT 'p' || i % 9 AS who, i % 2 = 0 AS v FROM range(90) r(i)")
        db.protect("t", epsilon=900.0, delta=1e-6, privacy_unit="who", max_rows=2)
        secret = db.sql("SELECT unit_secret FROM dpsql.account").fetchall()[0][0]
        cursor = db.connection.cursor()
        bound = bound_by_secret(accounts.bound(Books(cursor, "memory"), "t"))
        sql = bound.apply(find_source(cursor, "t"), ("v",)).sql(dialect="duckdb")
        cursor.execute("SET explain_output = 'all'")
        shown = [sql, *map(str, cursor.execute(f"EXPLAIN {sql}").fetchall())]
        shown += map(str, cursor.execute(f"EXPLAIN ANALYZE {sql}").fetchall())
        profile = tmp_path / "profile.json"
        cursor.execute(f"SET enable_profiling = 'json'; SET profiling_output = '{profile}'")
        assert len(cursor.execute(sql).fetchall()) == 18
        cursor.execute("PRAGMA disable_profiling")
        shown.append(profile.read_text())
    assert "unit_secret" in shown[-1]
    assert not any(secret[:8] in text for text in shown)
