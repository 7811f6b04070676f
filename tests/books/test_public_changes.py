"""Statements that change public tables: public rows keep them public, others end it. See dpsql/api/watching.py."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor

import duckdb
import pandas as pd
import pytest
import sqlglot

import dpsql
from dpsql.books.tables.public import is_protected
from dpsql.engines.duckdb.catalog import find_source
from dpsql.errors import InvalidArgument
from tests.books.test_public_list import plain
from tests.processes import run_and_die

pytestmark = pytest.mark.medium


def is_public(db, table):
    with db.instance.cursor() as cursor:
        try:
            return not is_protected(cursor, find_source(cursor, table))
        except InvalidArgument:
            return False


def killed(path, *statements):
    """Another process runs statements, and is killed after the last."""
    script = (
        "import os, signal, dpsql\n"
        f"db = dpsql.connect({str(path)!r})\n"
        f"for statement in {statements!r}:\n"
        "    db.sql(statement)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert run_and_die(script) == -signal.SIGKILL


# --- what stays public ------------------------------------------------------------------------------------------------

CHANGES = {
    "insert": "INSERT INTO wards VALUES (50, 'letter from people')",
    "insert by a query": "INSERT INTO wards SELECT i, upper('w') FROM range(3) r(i)",
    "insert of itself": "INSERT INTO wards (id, name) SELECT id + 100, name FROM wards",
    "update": "UPDATE wards SET name = 'x' WHERE id = 7",
    "delete": "DELETE FROM wards WHERE id > 40",
    "truncate": "TRUNCATE wards; INSERT INTO wards VALUES (1, 'a')",
    "merge": "MERGE INTO wards USING (SELECT 1 AS id) n ON wards.id = n.id WHEN MATCHED THEN UPDATE SET name = 'm'",
    "copy": "COPY wards FROM 'w.csv'",
    "alter": "ALTER TABLE wards ADD COLUMN beds INTEGER; UPDATE wards SET beds = 3",
    "prepared": "PREPARE p AS INSERT INTO wards VALUES ($1, 'p'); EXECUTE p(9)",
    "in a transaction": "BEGIN; DELETE FROM wards; INSERT INTO wards VALUES (1, 'a'); COMMIT",
    "undone": "BEGIN; DELETE FROM wards; ROLLBACK",
    "a name of WITH": "INSERT INTO wards WITH w AS (FROM wards) FROM w WHERE id < 3",
    "upsert": "CREATE TABLE k (id INTEGER PRIMARY KEY); INSERT INTO k VALUES (1) ON CONFLICT DO UPDATE SET id = 2; "
    "INSERT INTO wards SELECT id, 'k' FROM k",
}


@pytest.mark.parametrize("how", list(CHANGES))
def test_a_public_table_that_public_rows_changed_is_public_after_a_kill(bank, how):
    (bank.parent / "w.csv").write_text("id,name\n77,ward\n", encoding="utf-8")
    killed(bank, *CHANGES[how].replace("w.csv", str(bank.parent / "w.csv")).split("; "))
    with dpsql.connect(bank) as db:
        assert is_public(db, "wards")


SWAPS = {
    "swap": "CREATE TABLE new (id BIGINT, name VARCHAR); INSERT INTO new VALUES (1, 'a'); "
    "ALTER TABLE wards RENAME TO old; ALTER TABLE new RENAME TO wards; COMMENT ON TABLE wards IS 'of today'",
    "replace": "CREATE OR REPLACE TABLE wards AS SELECT i AS id, 'x' AS name FROM range(2000) r(i)",
    "drop": "CREATE TABLE new AS FROM wards; DROP TABLE wards; ALTER TABLE new RENAME TO wards",
}


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a transaction"])
@pytest.mark.parametrize("how", list(SWAPS))
def test_the_swap_of_a_load_needs_no_word(bank, how, inside):
    """Here, after a kill and in the next load; a transaction that is undone lists nothing."""
    text = f"BEGIN; {SWAPS[how]}; COMMIT" if inside else SWAPS[how]
    killed(bank, *text.split("; "))
    with dpsql.connect(bank) as db:
        assert is_public(db, "wards")
        db.sql("DROP TABLE IF EXISTS old")
        db.sql(f"BEGIN; {SWAPS[how]}; ROLLBACK")
        assert is_public(db, "wards")
        db.sql(text)
        assert is_public(db, "wards")
    with dpsql.connect(bank, read_only=True) as db:
        assert is_public(db, "wards")


def test_a_load_that_is_killed_between_any_two_statements_leaves_what_is_there_public(bank):
    statements = SWAPS["swap"].split("; ")
    for count in range(1, len(statements)):
        with dpsql.connect(bank) as db:
            db.sql("DROP TABLE IF EXISTS new; DROP TABLE IF EXISTS old")
            db.sql("CREATE OR REPLACE TABLE wards AS SELECT 1 AS id, 'a' AS name")
        killed(bank, *statements[:count])
        with dpsql.connect(bank) as db:
            for (name,) in db.sql("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main'").fetchall():
                assert is_public(db, name) == (name not in ("people", "visits")), (count, name)


def test_a_transaction_that_is_not_committed_lists_nothing(bank):
    killed(bank, "BEGIN", "CREATE TABLE new AS FROM range(3)", "INSERT INTO wards VALUES (9, 'x')")
    with dpsql.connect(bank) as db:
        assert is_public(db, "wards")
        db.begin().sql("CREATE TABLE new AS FROM range(3)")
        assert db.sql("SELECT count(*) FROM dpsql.public_table WHERE name LIKE '%new%'").fetchall() == [(0,)]
        db.rollback()
        db.begin().sql("CREATE TABLE new AS FROM range(4)")
        db.commit()
        assert is_public(db, "new")


def test_a_script_that_closes_nothing_leaves_its_tables_public(bank):
    """Also where listing was put off, because the load of many statements came first."""
    script = (
        "import dpsql, dpsql.api.watching as watching\n"
        "watching._AT_ONCE = -1e9\n"
        f"db = dpsql.connect({str(bank)!r})\n"
        "for i in range(5):\n"
        "    db.execute('INSERT INTO wards VALUES (?, ?)', [i, 'x'])\n"
        "import atexit; atexit._run_exitfuncs()\n"
    )
    assert run_and_die(script) == 0
    with dpsql.connect(bank) as db:
        assert is_public(db, "wards")


def test_threads_that_change_one_table_leave_it_public(bank):
    def work(number):
        with db.cursor() as other:
            for i in range(5):
                other.execute("INSERT INTO wards VALUES (?, 'x')", [1000 * number + i])

    with dpsql.connect(bank) as db:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        assert is_public(db, "wards")
    with dpsql.connect(bank) as db:
        assert is_public(db, "wards")
        assert db.sql("SELECT count(*) FROM wards").fetchall() == [(70,)]


def test_rows_of_python_keep_a_table_public(bank):
    frame = pd.DataFrame({"id": [1], "name": ["a"]})
    with dpsql.connect(bank) as db:
        db.append("wards", frame)
        db.executemany("INSERT INTO wards VALUES (?, ?)", [[5, "from people"]] * 2)
        db.sql("INSERT INTO wards FROM frame")
    with dpsql.connect(bank) as db:
        assert is_public(db, "wards")


def test_another_database_that_is_detached_keeps_its_list(tmp_path, bank):
    with dpsql.connect() as db:
        db.sql(f"ATTACH '{bank}' AS bank; INSERT INTO bank.wards VALUES (9, 'x'); DETACH bank; ATTACH '{bank}' AS bank")
        assert is_public(db, "bank.main.wards")


# --- what does not ----------------------------------------------------------------------------------------------------

COPIES = {
    "insert": "INSERT INTO wards FROM people",
    "insert of a part": "INSERT INTO wards SELECT id, 'x' FROM people",
    "insert by a name of WITH": "WITH w AS (FROM people) INSERT INTO wards FROM w",
    "insert by a view": "CREATE VIEW v AS FROM people; INSERT INTO wards FROM v",
    "insert by a name of WITH of another scope": "CREATE VIEW v AS FROM people; "
    "INSERT INTO wards SELECT v.* FROM v, (WITH v AS (SELECT 1 AS a) SELECT a FROM v) u",
    "update": "UPDATE wards SET name = people.name FROM people WHERE wards.id = people.id",
    "update by a subquery": "UPDATE wards SET name = (SELECT max(name) FROM people)",
    "delete": "DELETE FROM wards WHERE id IN (SELECT id FROM people)",
    "delete using": "DELETE FROM wards USING people WHERE wards.id = people.id",
    "merge": "MERGE INTO wards USING people ON wards.id = people.id WHEN MATCHED THEN UPDATE SET name = people.name",
    "prepared": "PREPARE p AS INSERT INTO wards FROM people; EXECUTE p",
    "prepared, and a view that changed": "CREATE TABLE v AS FROM wards; PREPARE p AS INSERT INTO wards FROM v; "
    "DROP TABLE v; CREATE TABLE v AS FROM people; EXECUTE p",
    "a macro": "CREATE MACRO m() AS TABLE FROM people; INSERT INTO wards FROM m()",
    "a variable": "SET VARIABLE x = (SELECT list(name) FROM people); INSERT INTO wards SELECT 1, unnest(getvariable('x'))",
    "a text": "INSERT INTO wards FROM query('FROM pe' || 'ople')",
    "a quoted name": 'INSERT INTO wards FROM "PEOPLE"',
    "a name as a text": "INSERT INTO wards FROM 'people'",
    "TABLE": "INSERT INTO wards TABLE people",
    "a pivot": "INSERT INTO wards SELECT id, '' FROM (PIVOT people ON id IN (1, 2) USING count(*) GROUP BY id)",
    "a copy of a copy": "CREATE TABLE copy AS FROM people; INSERT INTO wards FROM copy",
    "a temporary copy": "CREATE TEMP TABLE copy AS FROM people; INSERT INTO wards FROM copy",
    "in a transaction": "BEGIN; INSERT INTO wards FROM people; COMMIT",
    "by a macro of a transaction": "BEGIN; CREATE MACRO m() AS TABLE FROM people; INSERT INTO wards FROM m(); COMMIT",
    "by a swap in a transaction": "BEGIN; CREATE TABLE x AS FROM wards; DROP TABLE wards; "
    "CREATE TABLE wards AS FROM people; COMMIT",
    "by a name that was swapped in a transaction": "BEGIN; CREATE TABLE y (id BIGINT, name VARCHAR); "
    "INSERT INTO y FROM people; ALTER TABLE wards RENAME TO x; ALTER TABLE y RENAME TO wards; COMMIT",
    "after a change": "INSERT INTO wards VALUES (1, 'a'); INSERT INTO wards FROM people; INSERT INTO wards VALUES (2, 'b')",
    "replaced": "CREATE OR REPLACE TABLE wards AS FROM people",
}


@pytest.mark.parametrize(
    ("how", "end"),
    [*((how, "close") for how in COPIES), *((how, "kill") for how in ("insert", "merge", "in a transaction"))],
)
def test_a_public_table_that_may_get_protected_rows_is_not_public(bank, how, end):
    """In this process, after it and after a kill: it leaves the list before the rows come."""
    statements = COPIES[how].split("; ")
    if end == "kill":
        killed(bank, *statements)
    else:
        with dpsql.connect(bank) as db:
            for statement in statements:
                db.sql(statement)
            assert not is_public(db, "wards")
    with dpsql.connect(bank) as db:
        assert not is_public(db, "wards")
        db.sql("DELETE FROM wards; INSERT INTO wards VALUES (1, 'a')")
        assert not is_public(db, "wards")
        db.settle("emptied and filled anew", table="wards")
        assert is_public(db, "wards")


@pytest.mark.parametrize(
    "text",
    [
        "COMMIT; INSERT INTO wards FROM people; PIVOT wards ON name USING count(*) GROUP BY id",
        "PIVOT wards ON name; COMMIT; -- ends; here\nINSERT INTO wards SELECT id, ';' || name FROM people;",
        "COMMIT; INSERT INTO wards SELECT id, $x$;é$x$ FROM people; /* ; */ PIVOT wards ON id USING count(*); ;",
        "INSERT INTO wards FROM people; COMMIT; FROM (PIVOT wards ON id USING count(*))",
    ],
)
@pytest.mark.parametrize("run", ["sql", "execute"])
def test_a_text_with_a_pivot_is_judged_statement_by_statement(bank, text, run):
    """DuckDB 1.5 gives no texts of the statements that it makes of a PIVOT."""
    with dpsql.connect(bank) as db:
        db.sql("BEGIN")
        rows = getattr(db, run)(text)
        assert rows is None or rows.fetchall() is not None
        assert db.sql("SELECT count(*) FROM wards w JOIN people p ON w.id = p.id").fetchall()[0][0] > 0
        assert not is_public(db, "wards")
    with dpsql.connect(bank) as db:
        assert not is_public(db, "wards")


FILLED = {
    "insert": "INSERT INTO wards FROM people",
    "replaced in a transaction": "BEGIN; CREATE OR REPLACE TABLE wards AS FROM people; COMMIT",
    "swapped": "CREATE TABLE y AS FROM people; DROP TABLE wards; ALTER TABLE y RENAME TO wards",
    "swapped in a transaction": "BEGIN; CREATE TABLE y AS FROM people; DROP TABLE wards; ALTER TABLE y RENAME TO wards; COMMIT",
    "swapped twice": "CREATE TABLE y AS FROM people; ALTER TABLE y RENAME TO z; DROP TABLE wards; ALTER TABLE z RENAME TO wards",
    "filled after it was made in the same transaction": "BEGIN; DROP TABLE wards; CREATE TABLE wards AS SELECT 1 AS id, 'a' AS name; "
    "INSERT INTO wards FROM people; COMMIT",
    "filled after it was renamed in the same transaction": "CREATE TABLE y AS SELECT 1 AS id, 'a' AS name; BEGIN; "
    "DROP TABLE wards; ALTER TABLE y RENAME TO wards; INSERT INTO wards FROM people; COMMIT",
}


@pytest.mark.parametrize("end", ["close", "kill"])
@pytest.mark.parametrize("how", list(FILLED))
def test_the_word_about_a_name_ends_when_protected_rows_come(bank, how, end):
    with dpsql.connect(bank) as db:
        db.settle("of the city", table="wards")
        if end == "close":
            db.sql(FILLED[how])
            assert not is_public(db, "wards")
    if end == "kill":
        killed(bank, *FILLED[how].split("; "))
    with dpsql.connect(bank) as db:
        assert not is_public(db, "wards")


DIES = """
import os, signal, dpsql
from dpsql.api import watching
db = dpsql.connect({path!r})
*before, last = {statements!r}
for statement in before:
    db.sql(statement)
watching._Watch.after = lambda watch: os.kill(os.getpid(), signal.SIGKILL)
db.sql(last)
"""


@pytest.mark.parametrize("how", ["insert", "replaced", "swapped", "swapped twice"])
def test_the_word_about_a_name_has_ended_before_protected_rows_are_there(bank, how):
    """A kill comes when the statement is done, and before anything is noted about it."""
    statements = (FILLED | {"replaced": "CREATE OR REPLACE TABLE wards AS FROM people"})[how].split("; ")
    with dpsql.connect(bank) as db:
        db.settle("of the city", table="wards")
    assert run_and_die(DIES.format(path=str(bank), statements=statements)) == -signal.SIGKILL
    with dpsql.connect(bank) as db:
        assert not is_public(db, "wards")


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a transaction"])
def test_the_word_about_a_name_covers_a_load_that_may_read_anything(bank, inside):
    """A view is not followed, so the load is doubtful, and the word is there for that."""
    with dpsql.connect(bank) as db:
        db.sql("CREATE VIEW v AS SELECT 3 AS id, 'c' AS name")
        db.settle("of the city", table="wards")
        load = "CREATE TABLE y AS FROM v; DROP TABLE wards; ALTER TABLE y RENAME TO wards"
        db.sql(f"BEGIN; {load}; COMMIT" if inside else load)
        assert is_public(db, "wards")
    with dpsql.connect(bank) as db:
        assert is_public(db, "wards")


def test_a_relation_of_python_is_followed_under_a_name_of_with(bank):
    """A name of WITH in another scope does not hide it."""
    with dpsql.connect(bank) as db:
        w = db.connection.sql("FROM people")
        db.sql("INSERT INTO wards SELECT w.* FROM w, (WITH w AS (SELECT 1 AS a) SELECT a FROM w) u")
        assert w is not None
        assert not is_public(db, "wards")


@pytest.mark.parametrize("where", ["in this process", "when it is opened again"])
def test_a_new_table_under_a_listed_name_with_protected_rows_is_not_public(bank, where):
    """By a connection of DuckDB's own, of which dpsql sees nothing."""
    swap = ("DROP TABLE wards", "CREATE TABLE wards AS FROM people")
    if where == "in this process":
        with dpsql.connect(bank) as db:
            assert is_public(db, "wards")
            for statement in swap:
                db.connection.execute(statement)
            assert not is_public(db, "wards")
            db.sql("INSERT INTO wards VALUES (1, 'a')")  # does not list it
            assert not is_public(db, "wards")
    else:
        plain(bank, *swap)
    with dpsql.connect(bank) as db:
        assert not is_public(db, "wards")


def test_rows_that_came_unseen_are_not_listed_by_a_later_statement(bank):
    with dpsql.connect(bank) as db:
        db.connection.execute("INSERT INTO wards FROM people")
        db.sql("INSERT INTO wards VALUES (1, 'a')")
    with dpsql.connect(bank) as db:
        assert not is_public(db, "wards")


# --- files ------------------------------------------------------------------------------------------------------------


PATHS = ("{folder}/p.parquet", "{folder}/*.parquet", "{folder}/../{name}/p.parquet", "{folder}/link.parquet")
READS = ("FROM read_parquet('{}')", "FROM '{}'", "FROM parquet_scan('{}')", 'FROM "{}"')


def test_a_file_that_is_protected_is_no_public_table(tmp_path):
    """By whatever spelling of its path; another file is public."""
    duckdb.sql("SELECT i AS id, i % 2 = 0 AS ill FROM range(100) r(i)").write_parquet(str(tmp_path / "p.parquet"))
    duckdb.sql("SELECT i AS id FROM range(9) r(i)").write_parquet(str(tmp_path / "other.pq"))
    (tmp_path / "link.parquet").symlink_to(tmp_path / "p.parquet")
    with dpsql.connect(tmp_path / "b.duckdb") as db:
        db.sql(f"CALL dp_source('p', files := '{tmp_path}/p.parquet')").fetchall()
        db.protect("p", epsilon=2.0, delta=1e-6)
        for path in PATHS:
            spelled = path.format(folder=tmp_path, name=tmp_path.name)
            for read in READS:
                db.sql(f"CREATE OR REPLACE TABLE copy AS {read.format(spelled)}")
                assert not is_public(db, "copy"), (path, read)
        db.sql(f"CREATE TABLE wards AS FROM read_parquet('{tmp_path}/other.pq')")
        assert is_public(db, "wards")
        (tmp_path / "part").symlink_to(tmp_path / "p.parquet")
        db.sql("CREATE TABLE empty (id BIGINT, ill BOOLEAN)")
        for number, copy in enumerate(("COPY", "EXPLAIN ANALYZE COPY")):
            db.sql(f"CREATE TABLE copied{number} AS FROM empty")
            db.sql(f"{copy} copied{number} FROM '{tmp_path}/part' (FORMAT parquet)")
            assert not is_public(db, f"copied{number}"), copy


# --- what DuckDB does is kept -----------------------------------------------------------------------------------------


def test_a_pending_result_is_kept_where_duckdb_keeps_it(bank):
    """What this connection does after a result that is not fetched yet is what DuckDB's own does."""

    def outcome(connection):
        try:
            connection.execute("FROM range(5)")
            connection.sql("CREATE OR REPLACE TABLE pending (a INTEGER)")
            return connection.fetchall()
        except duckdb.Error as error:
            return str(error).partition(":")[0]

    with dpsql.connect(bank) as db, duckdb.connect() as other:
        assert outcome(db) == outcome(other)


@pytest.mark.parametrize(
    "statement", ["CREATE TABLE w AS PIVOT wards ON name USING count(*)", "FROM (PIVOT wards ON id)"]
)
def test_nothing_is_written_to_standard_error(bank, capfd, statement):
    with dpsql.connect(bank) as db:
        db.sql(statement)
        if statement.startswith("CREATE"):
            assert is_public(db, "w")
    assert capfd.readouterr().err == ""


def test_sqlglot_logs_nothing_of_a_call_of_ours(caplog):
    """From whichever module of the package; other users of sqlglot see what it logs as before."""
    code = "def write(text):\n    return parse_one(text, read='postgres').sql('duckdb')"
    heard = []
    for name in ("dpsql.made_up", "other"):
        space = {"__name__": name, "parse_one": sqlglot.parse_one}
        exec(code, space)
        space["write"]("SELECT levenshtein(a, 'b', 1, 2, 3)")
        heard.append(bool(caplog.records))
    assert heard == [False, True]
