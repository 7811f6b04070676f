"""A hostile client: what it sends is refused or harmless, and no answer holds anything of the private file."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import duckdb
import psycopg
import pytest

from dpsql.service.allowlist import LONGEST, AllowList, NotAllowed
from dpsql.service.pgwire.session import split
from dpsql.service.respell import respelled
from tests.service.conftest import CANARY
from tests.service.hostile import CORNERS, REFUSED, REFUSED_TABLE_FUNCTIONS, TRIED

HARMLESS = {
    "SELECT * FROM information_schema.tables LIMIT 1",
    "SELECT * FROM pg_catalog.pg_settings LIMIT 1",
    "SELECT current_setting('home_directory')",
    "BEGIN TRANSACTION",
    "RESET lock_configuration",
    "DESCRIBE shown",
    "SUMMARIZE shown",
    "SELECT * FROM (VALUES (1)) v",
    "SELECT * FROM repeat_row(1, num_rows=2)",
    "SELECT 1 AS a; SELECT 2 AS b",
}
"""What is answered: from views of our own, from released tables, or by nothing at all, as SET is."""


@pytest.mark.medium
def test_every_other_function_is_refused():
    allowed = AllowList()
    for name in sorted(REFUSED | {"a_new_one"}):
        with pytest.raises((NotAllowed, duckdb.ParserException)):
            allowed.check(f'SELECT "{name}"(1)')
    for name in sorted(REFUSED_TABLE_FUNCTIONS | {"a_new_one"}):
        for text in (
            f'SELECT * FROM "{name}"(1)',
            f'SELECT (SELECT 1 FROM "{name}"()) AS a',
            f"WITH x AS (FROM {name}()) FROM x",
        ):
            with pytest.raises((NotAllowed, duckdb.ParserException)):
                allowed.check(text)


@pytest.mark.medium
def test_every_pragma_setting_and_catalogue_view_is_refused():
    allowed = AllowList()
    with duckdb.connect() as db:
        settings = [name for (name,) in db.execute("SELECT name FROM duckdb_settings()").fetchall()]
        views = db.execute("SELECT schema_name, view_name FROM duckdb_views() WHERE internal").fetchall()
        kinds = db.execute("SELECT DISTINCT function_name, function_type FROM duckdb_functions()").fetchall()
        pragmas = sorted(name for name, kind in kinds if kind == "pragma")
    for name in settings:
        for text in (f"SET {name} = 1", f"SET GLOBAL {name} = 1", f"RESET {name}", f"PRAGMA {name}"):
            with pytest.raises((NotAllowed, duckdb.Error)):
                allowed.check(text)
        with pytest.raises(NotAllowed):
            allowed.check(f"SELECT current_setting('{name}')")
    for name in pragmas:
        for text in (f"PRAGMA {name}", f"CALL {name}()", f"CALL pragma_{name}()"):
            with pytest.raises((NotAllowed, duckdb.Error)):
                allowed.check(text)
    for schema, name in views:
        with pytest.raises(NotAllowed):
            allowed.check(f'SELECT * FROM system."{schema}"."{name}"')
        with pytest.raises(NotAllowed):
            allowed.check(f'SELECT * FROM "{schema}"."{name}"')
        if schema == "main":
            with pytest.raises(NotAllowed):
                allowed.check(f'SELECT * FROM "{name.upper()}"')


@pytest.mark.parametrize("sql", CORNERS)
def test_corners_are_refused(sql):
    with pytest.raises((NotAllowed, duckdb.Error)):
        AllowList().check(sql)


SERVED = [
    "SELECT DISTINCT ON (s) i, shown.*, COLUMNS(c -> c LIKE 'n%') FROM shown WHERE i BETWEEN 1 AND 2 OR n IS NULL ORDER BY ALL LIMIT 1",
    "SELECT i::DECIMAL(9, 2), i::VARCHAR(3), [i]::INT[1], {'a': i}::STRUCT(a INT), 'a'::ENUM ('a'), CASE i WHEN 1 THEN 2 END FROM shown",
    "WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM r WHERE a < 5), x AS MATERIALIZED (FROM r) FROM x",
    "SELECT sum(i) OVER (PARTITION BY b ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM shown QUALIFY row_number() OVER () = 1",
    "SELECT (SELECT 1), EXISTS (SELECT 1), i IN (SELECT 1), s LIKE 'b', s COLLATE nocase, #1, TRY_CAST(s AS INT) FROM shown",
    "SELECT b, m, count(*) FROM shown GROUP BY GROUPING SETS ((b), (m), ()) HAVING count(*) > 1 ORDER BY 1 DESC NULLS LAST LIMIT 10%",
    "FROM shown JOIN shown AS o USING (i) LEFT JOIN shown AS p ON p.i = o.i SELECT count(*)",
    "FROM (PIVOT shown ON b IN (true, false) USING count(*))",
    "FROM shown UNPIVOT (v FOR k IN (i, whole)) SELECT count(*)",
    "SELECT * FROM range(3) r(i), unnest([1]) u, (VALUES (1)) v",
    "SELECT 1 UNION SELECT 2 EXCEPT SELECT 3 INTERSECT SELECT 4",
    "FROM shown TABLESAMPLE 10%",
    "SELECT $1 + 1, list_transform([1], lambda x: x + 1), [x FOR x IN [1, 2] IF x > 1], i AT TIME ZONE 'UTC' FROM shown",
]


@pytest.mark.medium
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "part",
    [
        *("/*", "$a$", "'", '"', "e'", "regtype ", "::", "--", "cast(", "operator(", "$", "a."),
        *("(a # 1), ", "(a, b) OVERLAPS (c, d), ", "a BETWEEN SYMMETRIC 1 AND 2 AND ", "substr(a, b), "),
        "1 FROM jsonb_array_elements(j) e UNION SELECT ",
        *("a -> b ? 'x', ", "x ~ 'a.+?b', ", "array_agg(DISTINCT x), ", "json_agg(x ORDER BY y) FILTER (WHERE z), "),
        *("1 || array[", "array_agg(1, ", "a::jsonb || b::jsonb, ", "jsonb_path_exists(a, '$.a'), "),
    ],
)
def test_reading_takes_time_in_proportion_to_the_length(part):
    """Five times the longest that is read takes a second; with the square of the length it would take many minutes."""
    text = f"SELECT {part * (5 * LONGEST // len(part))}"
    assert respelled(text)
    assert len(list(split(text))) == 1


@pytest.mark.parametrize(
    "name", ["to_regclass", "to_regtype", "pg_get_function_arguments", "obj_description", "map_to_pg_oid"]
)
def test_functions_of_postgres_in_one_another_do_not_fill_the_memory(name):
    """DuckDB writes each macro's text out with its arguments, so the text doubles with each call around."""
    deep = f"{name}(" * 30 + "'a'" + ")" * 30
    with pytest.raises(NotAllowed):
        AllowList().check(respelled(f"SELECT {deep}"))
    AllowList().check(respelled(f"SELECT {name}({name}('a'))"))


def test_sql_for_analysis_is_served():
    allowed = AllowList()
    for sql in SERVED:
        assert allowed.check(sql).sql == sql
        assert allowed.check(f"EXPLAIN {sql}").explains


HIDING = [
    "--\rEXPLAIN ANALYZE {} /*\nEXPLAIN SELECT 1 --*/\n+ 1",
    "EXPLAIN /* /* */ SELECT 1 -- */ ANALYZE {}\n+ 1",
    "/* /* */ a SELECT 1 -- */ EXPLAIN ANALYZE {}\n+ 1",
    "EXPLAIN\u200bANALYZE {}",
    "EXPLAIN\u00a0ANALYZE {}",
    "EXPLAIN\ufeffANALYZE {}",
    "EXPLAIN\x0bANALYZE {}",
    "EXPLAIN\rANALYZE {}",
    "EXPLAIN/**/ANALYZE {}",
    "EXPLAIN $a$ SELECT 1 $a$ ANALYZE {}",
    "EXPLAIN ($a$(SELECT 1$a$) ANALYZE {}",
    "EXPLAIN -- \u2028ANALYZE {}\nSELECT 1",
    'EXPLAIN "" ANALYZE {}',
    "EXPLAIN e'\\' /*' ANALYZE {} --*/",
    "EXPLAIN (VERBOSE) ANALYZE {}",
    "EXPLAIN {}",
    "\u200b{}",
    "/* /* */ SELECT 1 -- */ {}",
]


@pytest.mark.parametrize("hiding", HIDING)
@pytest.mark.parametrize(
    "hidden", ["CREATE TABLE loot AS SELECT 7 AS a", "SELECT 1 // (SELECT 0 FROM range(nextval('s')))"]
)
def test_what_runs_is_what_was_looked_at(hiding, hidden):
    """Comments and spaces that we and DuckDB read differently hide nothing: it is refused, or runs nothing."""
    with duckdb.connect() as db:
        db.execute("CREATE SEQUENCE s")
        with suppress(NotAllowed, duckdb.Error):
            db.execute(AllowList().check(respelled(hiding.format(hidden))).sql)
        assert db.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]
        assert db.execute("SELECT nextval('s')").fetchall() == [(1,)], "what is hidden did not run"


@pytest.mark.medium
def test_what_was_tried_by_hand(served):
    assert len(TRIED) >= 95
    private = Path(served.path).read_bytes()
    answered = set()
    with psycopg.connect(served.dsn(), autocommit=True) as connection:
        for sql in TRIED:
            try:
                cursor = connection.execute(sql.encode(), prepare=False)
                rows = cursor.fetchall() if cursor.description else []
                answered.add(sql)
                shown = repr(rows)
            except psycopg.Error as error:
                shown = str(error)
            finally:
                connection.execute("ROLLBACK")
            for words in (CANARY, "PRIVATE KEY", "root:", str(served.path)):
                assert words not in shown, sql
        assert connection.execute("SELECT count(*) FROM shown").fetchall() == [(1000,)]
        assert connection.execute("SELECT lower('A')").fetchall() == [("a",)]
        assert connection.execute("SELECT tablename FROM pg_tables").fetchall() == [("shown",)]
    changed = {sql for sql in answered if sql.startswith(("SET", "RESET", "BEGIN", "CLOSE"))}
    assert answered - changed - HARMLESS == set()
    assert Path(served.path).read_bytes()[:4096] == private[:4096]


@pytest.mark.medium
def test_results_of_others_cannot_be_seen(served):
    asks = "SELECT * FROM dp_query('SELECT race, count(*) AS n FROM adult GROUP BY race', epsilon => 0.05)"
    with psycopg.connect(served.dsn()) as one, psycopg.connect(served.dsn()) as other, one.cursor() as cursor:
        rows = cursor.stream(asks, size=1)
        next(rows)
        for view in ("information_schema.columns", "information_schema.tables", "pg_catalog.pg_attribute"):
            assert "n_stderr" not in repr(other.execute(f"SELECT * FROM {view}").fetchall())
        list(rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["keeper", "front"])
def test_either_is_killed_and_the_service_answers_again(served, name):
    import os
    import signal

    asks = "SELECT * FROM dp_query('SELECT race, count(*) AS n FROM adult GROUP BY race', epsilon => 0.05)"
    with psycopg.connect(served.dsn(), autocommit=True) as connection:
        before = connection.execute(asks).fetchall()
        spent = connection.execute("SELECT epsilon_spent FROM dp_budget()").fetchall()
        os.kill(served.service.process(name), signal.SIGKILL)
        with pytest.raises(psycopg.Error) as failure:
            for _ in range(100):
                connection.execute("SELECT * FROM dp_budget()")
                time.sleep(0.01)
        assert failure.value.sqlstate == ("08006" if name == "keeper" else None)
        if name == "keeper":  # the statement ended, and not the session
            assert connection.execute("SELECT count(*) FROM shown").fetchall() == [(1000,)]
            deadline = time.monotonic() + 120
            while True:
                with suppress(psycopg.OperationalError):
                    assert connection.execute(asks).fetchall() == before
                    break
                assert time.monotonic() < deadline
                time.sleep(0.2)
    deadline = time.monotonic() + 120
    while True:
        try:
            with psycopg.connect(served.dsn(), autocommit=True) as connection:
                after = connection.execute(asks).fetchall()
                assert connection.execute("SELECT epsilon_spent FROM dp_budget()").fetchall() == spent
            break
        except psycopg.OperationalError:
            assert time.monotonic() < deadline
            time.sleep(0.2)
    assert after == before, "the same noise, and paid for once"
