"""dp_synthesize and the books through SQL: what is returned, what is charged, and when."""

from __future__ import annotations

import threading

import duckdb
import pytest

import dpsql
from dpsql.errors import InsufficientBudget, NotDeclared, UnknownName


def spent(db: dpsql.Database) -> float:
    return db.sql("SELECT epsilon_spent FROM dp_budget()").fetchall()[0][0]


def call(quick: str, more: str = "", epsilon: float = 1.0) -> str:
    return f"dp_synthesize('people', epsilon := {epsilon}, {quick}{', ' + more if more else ''})"


@pytest.mark.medium
def test_schema_rows_and_charge(people, quick):
    people.sql(f"CREATE TABLE synthetic AS FROM {call(quick)}")
    assert people.sql("DESCRIBE synthetic").fetchall() == people.sql("DESCRIBE people").fetchall()
    assert 500 < people.sql("SELECT count(*) FROM synthetic").fetchall()[0][0] < 700
    assert people.sql("SELECT count(*) FROM synthetic WHERE age NOT BETWEEN 18 AND 77").fetchall() == [(0,)]
    assert spent(people) == pytest.approx(1.0, abs=1e-6)
    budget = people.sql("SELECT source, epsilon, delta, epsilon_left, releases FROM dp_budget()").fetchall()
    assert budget == [("people", 3.0, 1e-6, pytest.approx(2.77, abs=0.02), 1)]


@pytest.mark.medium
def test_what_is_free(people, quick):
    one = call(quick)
    people.sql(f"EXPLAIN FROM {one}").fetchall()
    people.sql(f"DESCRIBE FROM {one}").fetchall()
    people.sql(f"PREPARE later AS FROM {one}")
    people.sql(f"CREATE VIEW v AS FROM {one}")
    people.connection.sql(f"FROM {one}")
    people.sql(f"FROM {one} LIMIT 0").fetchall()
    people.sql("FROM dp_plan('people', epsilon := 1.0)").fetchall()
    assert spent(people) == 0
    assert people.sql("SELECT count(*) FROM dp_releases()").fetchall() == [(0,)]


@pytest.mark.medium
def test_a_release_is_paid_for_once(people, quick):
    one = call(quick)
    rows = people.sql(f"FROM {one}").fetchall()
    after = spent(people)
    people.sql(f"CREATE VIEW v AS FROM {one}")
    people.sql(f"PREPARE again AS FROM {one}")
    assert people.sql("FROM v").fetchall() == rows
    assert people.sql("EXECUTE again").fetchall() == rows
    assert people.sql(f"FROM {one.upper().replace('PEOPLE', 'People')}").fetchall() == rows
    joined = people.sql(f"SELECT count(*) FROM {one} a JOIN {one} b USING (age, sex, mood, sick)").fetchall()[0][0]
    assert joined >= len(rows) / 2
    assert spent(people) == after
    assert people.sql("FROM " + call(quick, "release := 'b'")).fetchall() != rows
    assert spent(people) > after
    assert [kind for (kind,) in people.sql("SELECT kind FROM dp_ledger() ORDER BY number").fetchall()] == [
        "protect",
        "charge",
        "publish",
        "charge",
        "publish",
    ]


@pytest.mark.medium
def test_equal_requests_share_a_key(people, quick):
    """Spelled differently, the same: the workload by shorthand or SQL, defaults left out or given."""
    pairs = "SELECT age, sex, count(*) FROM people GROUP BY ALL; SELECT sex, mood, count(*) FROM people GROUP BY 1, 2"
    other = "SELECT m AS mood, sex, count(*) FROM main.people GROUP BY sex, mood".replace("m AS mood", "mood")
    other += "; SELECT sex, age, count(*) FROM people GROUP BY sex, age"
    people.sql(f"FROM {call(quick, f'workload := $${pairs}$$')}").fetchall()
    after = spent(people)
    people.sql("FROM " + call(quick, f"workload := $${other}$$, delta := 1e-6, mechanism := 'projection'")).fetchall()
    assert spent(people) == after


@pytest.mark.medium
def test_a_rollback_does_not_refund(people, quick):
    people.sql("BEGIN")
    people.sql(f"CREATE TABLE lost AS FROM {call(quick)}")
    people.sql("ROLLBACK")
    assert spent(people) == pytest.approx(1.0, abs=1e-6)
    assert people.sql("SELECT count(*) FROM dp_releases() WHERE state = 'published'").fetchall() == [(1,)]


@pytest.mark.medium
def test_statements(people, quick, tmp_path):
    one = call(quick)
    people.sql(f"CREATE TABLE t AS FROM {one}")
    count = people.sql("SELECT count(*) FROM t").fetchall()[0][0]
    people.sql(f"INSERT INTO t FROM {one}")
    people.sql(f"COPY (FROM {one}) TO '{tmp_path}/out.parquet'")
    assert people.sql("SELECT count(*) FROM t").fetchall() == [(2 * count,)]
    assert people.sql(f"SELECT count(*) FROM '{tmp_path}/out.parquet'").fetchall() == [(count,)]
    assert people.sql(f"WITH s AS (FROM {one}) SELECT count(*) FROM s").fetchall() == [(count,)]
    prepared = "SELECT count(*) FROM dp_synthesize(?, epsilon := ?, relaxed_rows := ?, steps := ?)"
    assert people.sql(prepared, ["people", 1.0, 16, 20]).fetchall() == [(count,)]
    assert people.sql(f"CALL {one}").fetchall() == people.sql(f"FROM {one}").fetchall()


@pytest.mark.medium
def test_rows_and_columns(people, quick):
    sql = "FROM " + call(quick, "rows := 25, columns := ['SICK', 'age']")
    assert [name for name, *_ in people.sql(f"DESCRIBE {sql}").fetchall()] == ["age", "sick"]
    assert len(people.sql(sql).fetchall()) == 25
    assert people.sql(f"FROM {call(quick, 'rows := 0', 0.1)}").fetchall() == []


@pytest.mark.medium
def test_excluded_columns_are_null(people, quick):
    people.sql("ALTER TABLE people ADD COLUMN notes VARCHAR")
    people.sql("CALL dp_domain('people', 'notes', exclude := true)").fetchall()
    people.sql("ALTER TABLE people ADD COLUMN tags VARCHAR[]")
    people.sql("CALL dp_domain('people', 'tags', exclude := true)").fetchall()
    sql = f"SELECT count(*) > 0, count(notes), count(tags) FROM {call(quick)}"
    assert people.sql(sql).fetchall() == [(True, 0, 0)]
    assert people.sql(f"DESCRIBE FROM {call(quick)}").fetchall() == people.sql("DESCRIBE people").fetchall()


@pytest.mark.medium
def test_a_good_fit_is_near_the_table(people):
    """At ε = 3 over 600 rows every cell of the pairs comes within the noise: six standard deviations."""
    sql = "SELECT sex, sick, count(*) AS n FROM {} GROUP BY ALL ORDER BY ALL"
    people.sql("CREATE TABLE s AS FROM dp_synthesize('people', epsilon := 3.0, workload := 'all 2-way')")
    true = {tuple(key): n for *key, n in people.sql(sql.format("people")).fetchall()}
    synthetic = {tuple(key): n for *key, n in people.sql(sql.format("s")).fetchall()}
    noise = people.sql("SELECT max(stddev) FROM dp_measurements(2)").fetchall()[0][0]
    assert all(abs(synthetic.get(key, 0) - n) < 6 * noise for key, n in true.items())


@pytest.mark.medium
def test_measurements(people, quick):
    people.sql("FROM " + call(quick, "release := 'named'")).fetchall()
    whole = people.sql("FROM dp_measurements(2)").fetchall()
    assert people.sql("FROM dp_measurements('named')").fetchall() == whole
    key = people.sql("SELECT key FROM dp_releases()").fetchall()[0][0]
    assert people.sql("FROM dp_measurements(?)", [key]).fetchall() == whole
    sex = "SELECT cell[1] FROM dp_measurements(2) WHERE columns = ['sex'] GROUP BY ALL ORDER BY ALL"
    assert sorted(str(c) for (c,) in people.sql(sex).fetchall()) == ["F", "M", "NULL", "outside the domain"]
    pair = people.sql(
        "SELECT DISTINCT count(*), count(DISTINCT cell) FROM dp_measurements(2) WHERE columns = ['age', 'mood'] GROUP BY measurement"
    )
    assert pair.fetchall() == [(32, 32)]  # each time, where a second stage measured it again
    triple = "SELECT cell FROM dp_measurements(2) WHERE columns = ['sex', 'mood', 'sick'] ORDER BY ALL"
    assert people.sql(triple).fetchall()[0] == (["F", "NULL", "NULL"],)
    with pytest.raises(duckdb.Error, match="no release is called 'nope'"):
        people.sql("FROM dp_measurements('nope')")


@pytest.mark.medium
def test_the_books_add_up(people, quick):
    people.sql(f"FROM {call(quick)}").fetchall()
    people.sql(f"FROM {call(quick, epsilon=0.5)}").fetchall()
    charged = people.sql("SELECT sum(rho) FROM dp_ledger('people')").fetchall()[0][0]
    asked = people.sql("SELECT sum(rho) FROM dp_releases()").fetchall()[0][0]
    assert charged == pytest.approx(asked, rel=1e-12)
    for number in (2, 4):
        rho = people.sql("SELECT rho FROM dp_releases() WHERE release = ?", [number]).fetchall()[0][0]
        shares = people.sql(
            "SELECT sum(rho) FROM (SELECT DISTINCT measurement, 1 / (2 * stddev ** 2) AS rho FROM dp_measurements(?))",
            [number],
        ).fetchall()[0][0]
        assert shares <= rho * (1 + 1e-9)
        assert shares > 0.99 * rho


@pytest.mark.medium
def test_insufficient_budget(people, quick):
    with pytest.raises(duckdb.Error, match="has ε = 3 left"):
        people.sql(f"FROM {call(quick, epsilon=3.5)}")
    people.sql(f"FROM {call(quick, epsilon=2.0)}").fetchall()
    with pytest.raises(duckdb.Error) as caught:
        people.sql(f"FROM {call(quick, epsilon=2.9)}")
    assert all(part in str(caught.value) for part in ("asks for 2.9", "Of epsilon 3", "2 is spent"))
    left = people.sql("SELECT epsilon_left FROM dp_budget()").fetchall()[0][0]
    assert f"has ε = {left:g} left" in str(caught.value)
    people.sql(f"FROM {call(quick, epsilon=left)}").fetchall()
    with pytest.raises(duckdb.Error, match=r"has (ε = .*|nothing) left"):
        people.sql(f"FROM {call(quick, epsilon=0.5)}")
    people.sql(f"FROM {call(quick, epsilon=2.0)}").fetchall()  # what was paid for stays readable


@pytest.mark.medium
def test_replace_one(db, quick):
    db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS a, i % 2 = 0 AS b FROM range(120) r(i)")
    db.protect("t", epsilon=2, delta=1e-6, neighbours="replace_one")
    for mechanism in ("projection", "rap"):
        options = quick if mechanism == "projection" else "rounds := 2, queries_per_round := 2, steps := 20"
        sql = f"SELECT count(*) FROM dp_synthesize('t', epsilon := 0.5, mechanism := '{mechanism}', {options})"
        assert db.sql(sql).fetchall() == [(120,)]  # n is public
    assert "one row changed" in db.sql("SELECT guarantee FROM dp_releases()").fetchall()[0][0]


@pytest.mark.medium
@pytest.mark.parametrize("rows", [0, 1])
def test_empty_and_one_row_tables(db, quick, rows):
    db.sql(f"CREATE TABLE t AS SELECT true AS a, false AS b FROM range({rows})")
    db.protect("t", epsilon=1, delta=1e-6)
    assert db.sql(f"SELECT count(*) >= 0 FROM dp_synthesize('t', epsilon := 1.0, {quick})").fetchall() == [(True,)]
    assert db.sql("SELECT epsilon_spent FROM dp_budget()").fetchall()[0][0] == pytest.approx(1.0, abs=1e-6)


@pytest.mark.medium
def test_rows_outside_the_domain_are_no_error(people, quick):
    people.sql("INSERT INTO people VALUES (150, 'X', NULL, NULL), (-3, NULL, 'ok', true)")
    assert people.sql(f"SELECT count(*) > 0 FROM {call(quick)}").fetchall() == [(True,)]
    assert people.sql("SELECT count(DISTINCT cell) FROM dp_measurements(2) WHERE columns = ['sex']").fetchall() == [
        (4,)
    ]


@pytest.mark.medium
def test_schemas_attached_databases_and_odd_names(db, quick, tmp_path):
    db.sql(f'ATTACH \'{tmp_path}/bank.duckdb\' AS "bank of 🦆"; CREATE SCHEMA "bank of 🦆"."s;1"')
    table = '"bank of 🦆"."s;1"."cli""ents; DROP"'
    db.sql(f'CREATE TABLE {table} AS SELECT i % 2 = 0 AS "a ""b"" ;🦆" FROM range(50) r(i)')
    db.protect(table, epsilon=1, delta=1e-6)
    sql = f"FROM dp_synthesize(?, epsilon := 1.0, {quick})"
    assert db.sql(f"DESCRIBE {sql}", [table]).fetchall()[0][0] == 'a "b" ;🦆'
    assert len(db.sql(sql, [table]).fetchall()) > 0
    assert db.sql("SELECT source FROM dp_budget()").fetchall() == [('bank of 🦆.s;1."cli""ents; DROP"',)]
    db.sql('USE "bank of 🦆"."s;1"')
    assert len(db.sql(sql, ['"cli""ents; DROP"']).fetchall()) > 0
    assert len(db.sql(sql, ['cli"ents; DROP']).fetchall()) > 0
    assert db.sql("SELECT releases FROM dp_budget()").fetchall() == [(1,)]
    assert db.sql("SELECT count(*) > 0 FROM dp_measurements(2)").fetchall() == [(True,)]
    assert db.sql("SELECT count(*) FROM dp_ledger()").fetchall() == [(3,)]


@pytest.mark.medium
def test_a_database_called_dpsql(tmp_path, quick):
    with dpsql.connect(tmp_path / "dpsql.duckdb") as db:
        db.sql("CREATE TABLE t AS SELECT true AS a FROM range(10)")
        db.protect("t", epsilon=1, delta=1e-6)
        assert db.sql(f"SELECT count(*) >= 0 FROM dp_synthesize('t', epsilon := 1.0, {quick})").fetchall() == [(True,)]
        assert db.sql("SELECT releases FROM dp_budget()").fetchall() == [(1,)]


@pytest.mark.medium
def test_it_is_all_in_the_file(tmp_path, quick):
    path = tmp_path / "bank.duckdb"
    sql = f"FROM dp_synthesize('t', epsilon := 1.0, {quick})"
    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a FROM range(100) r(i)")
        db.protect("t", epsilon=1, delta=1e-6)
        rows = db.sql(sql).fetchall()
    with dpsql.connect(path) as db:
        assert db.sql(sql).fetchall() == rows
    with dpsql.connect(path, read_only=True) as db:
        assert db.sql(sql).fetchall() == rows
        assert len(db.plan("t", 0.5, release=None)) > 0
        with pytest.raises(duckdb.Error, match="read-only"):
            db.sql(f"FROM dp_synthesize('t', epsilon := 0.5, {quick})")
        with pytest.raises(dpsql.DpsqlError, match="read-only"):
            db.protect("t", epsilon=1, delta=1e-6)


@pytest.mark.medium
def test_python_says_the_same(people, tmp_path):
    options = {"relaxed_rows": 16, "steps": 20}
    release = people.synthesize("people", 1.0, **options)
    sql = "FROM dp_synthesize('people', epsilon := 1.0, relaxed_rows := 16, steps := 20)"
    assert len(people.sql(sql).fetchall()) == len(release.df())
    assert spent(people) == pytest.approx(1.0, abs=1e-6)
    assert people.synthesize("people", 1.0, **options).entry == release.entry
    assert len(release.df()) == release.entry.rows
    assert release.arrow().num_rows == release.entry.rows
    release.to_table("copy")
    assert people.sql("DESCRIBE copy").fetchall() == people.sql("DESCRIBE people").fetchall()
    release.write(tmp_path / "s.csv")
    assert people.sql(f"SELECT count(*) FROM '{tmp_path}/s.csv'").fetchall() == [(release.entry.rows,)]
    assert set(release.measurements.columns) == {
        "measurement",
        "columns",
        "cell",
        "value",
        "stddev",
        "noise",
        "at_least",
        "answer",
        "query",
    }
    errors = release.errors
    told = release.entry.report
    assert len(errors) == told["marginals"]
    assert len({tuple(columns) for columns in errors["columns"]}) == told["marginals"]
    assert (errors.distance_l1 >= 0).all()
    assert "people" in repr(release)
    assert people.plan("people", 1.0).rho.sum() == pytest.approx(people.releases().rho[0], rel=1e-9)
    assert len(people.ledger()) == 3
    with pytest.raises(InsufficientBudget):
        people.synthesize("people", 2.9)
    with pytest.raises(UnknownName):
        people.synthesize("people", 0.1, mechanism="magic")


@pytest.mark.medium
def test_the_plan_reads_no_row(people):
    planned = people.sql("FROM dp_plan('people', epsilon := 1.0)").fetchall()
    assert people.plan("people", 9.0).epsilon_left.tolist()[0] == 0  # a plan may ask for more than there is
    people.sql("DELETE FROM people")
    assert people.sql("FROM dp_plan('people', epsilon := 1.0)").fetchall() == planned


@pytest.mark.medium
def test_what_is_not_declared(people, quick):
    people.sql("ALTER TABLE people ADD COLUMN salary DOUBLE")
    with pytest.raises(duckdb.Error, match=r"no public domain .* salary .*lower := …"):
        people.sql(f"FROM {call(quick)}")
    people.sql("FROM " + call(quick, "columns := ['age', 'sex']")).fetchall()
    people.sql("ALTER TABLE people ALTER COLUMN age TYPE BIGINT")
    with pytest.raises(NotDeclared, match="age"):
        people.synthesize("people", 0.1)


@pytest.mark.medium
def test_threads_ask_for_the_same_release(people, quick):
    results: list[object] = []

    def work(cursor: duckdb.DuckDBPyConnection) -> None:
        results.append(cursor.execute(f"SELECT count(*), sum(age) FROM {call(quick)}").fetchall())

    threads = [threading.Thread(target=work, args=(people.connection.cursor(),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    assert all(result == results[0] for result in results)
    assert people.sql("SELECT releases FROM dp_budget()").fetchall() == [(1,)]


@pytest.mark.medium
def test_one_thread_is_enough(people, quick):
    """A callback holds a thread of DuckDB while its own statements need one: with a single thread nothing must hang."""
    people.sql("SET threads = 1")
    parts = ["SELECT count(*) AS n FROM " + call(quick, f"rows := {5 + k}", 0.2) for k in range(4)]
    assert people.sql(f"SELECT sum(n) FROM ({' UNION ALL '.join(parts)})").fetchall() == [(5 + 6 + 7 + 8,)]
