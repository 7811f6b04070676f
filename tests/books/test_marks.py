"""Protection follows a table through RENAME, swaps, copies and lost books: see dpsql/books/ledger/table_ids.py."""

from __future__ import annotations

import re
import shutil

import duckdb
import pytest

import dpsql
from dpsql.api.cli import main
from dpsql.books.ledger import heads
from dpsql.books.tables.public import is_protected
from dpsql.engines.duckdb.catalog import find_source
from dpsql.errors import DpsqlError
from tests.books.conftest import protect

TABLES = """
    CREATE TABLE visits AS SELECT i % 2 = 0 AS ill, i % 9 AS id FROM range(50) r(i);
    CREATE TABLE people AS SELECT i AS id, 'canary ' || i AS name, i % 2 = 0 AS ill FROM range(9) r(i);
    CREATE TABLE wards AS SELECT i AS id, 'ward ' || i AS name, i % 2 = 0 AS ill FROM range(9) r(i);
"""
SWAP = "ALTER TABLE people RENAME TO old; CREATE TABLE people AS SELECT 1 AS id, 'canary' AS name, true AS ill"
REFUSED = "protected|may hold protected rows|none of its tables is surely public"


def ask(db, table="people", release="", epsilon=0.1):
    return db.sql(
        f"FROM dp_query('SELECT ill, count(*) AS n FROM {table} GROUP BY ill', epsilon := {epsilon}, "
        f"release := '{release}')"
    ).fetchall()


def uses(table):
    """Every use of a table that wants it to be public."""
    joined = f"SELECT s.name, count(*) AS n FROM visits v JOIN {table} s ON v.id = s.id GROUP BY ALL"
    return (
        f"FROM dp_plan('{joined}', epsilon := 0.1)",
        f"FROM dp_query('{joined}', epsilon := 0.1)",
        f"CALL dp_domain('visits', 'id', reference := '{table}.id')",
        f"FROM dp_synthesize('visits', epsilon := 0.1, columns := ['ill'], prior := '{table}', relaxed_rows := 16, "
        "steps := 20)",
    )


def check_private(db, table, match=REFUSED):
    """No use of it as a public table, no budget of its own, and no release of it under that name; all for nothing."""
    spent = db.budget().epsilon_spent.tolist()
    for statement in uses(table):
        with pytest.raises(duckdb.Error, match=match) as refused:
            db.sql(statement).fetchall()
        assert "canary" not in str(refused.value)
    with pytest.raises(duckdb.Error, match=match):
        db.sql(f"CALL dp_protect('{table}', epsilon := 1.0, delta := 1e-6)")
    with pytest.raises(duckdb.Error, match=f"{match}|is not protected"):
        ask(db, table)
    assert db.budget().epsilon_spent.tolist() == spent


def check_public(db, table):
    db.sql(f"CALL dp_domain('visits', 'id', reference := '{table}.id')")


def plain(path, sql):
    """Somebody changes the file without dpsql."""
    with duckdb.connect(str(path)) as connection:
        connection.execute(sql)


@pytest.fixture
def memory(db):
    db.sql(TABLES)
    protect(db, "visits", "people")
    return db


# --- RENAME and the swap of a load ------------------------------------------------------------------------------------


@pytest.mark.medium
def test_both_tables_of_a_swap_are_protected(memory):
    memory.sql(SWAP)
    check_private(memory, "old")
    check_public(memory, "wards")
    ask(memory)
    assert memory.budget().set_index("source").releases.to_dict() == {"people": 1, "visits": 0}
    memory.sql("DROP TABLE people; ALTER TABLE old RENAME TO people")
    ask(memory, release="of the earlier load")
    assert memory.budget().set_index("source").releases.to_dict() == {"people": 2, "visits": 0}


@pytest.mark.medium
def test_a_renamed_table_is_found_and_others_stay_public(memory):
    memory.sql("ALTER TABLE people RENAME TO x; CREATE TABLE later AS SELECT 1 AS id")
    check_private(memory, "x", "protected")
    check_public(memory, "wards")
    with pytest.raises(duckdb.Error, match="'x' is protected under another name, 'people'"):
        ask(memory, "x")


@pytest.mark.medium
def test_a_swap_without_dpsql_is_noticed_later(bank):
    """Each of three loads is protected, though dpsql saw neither the second nor the third come."""
    plain(bank, SWAP.replace("old", "one") + ";" + SWAP.replace("old", "two"))
    with dpsql.connect(bank) as db:
        check_private(db, "one")
        check_private(db, "two", "may hold protected rows")
        check_public(db, "wards")
        ask(db)
    with dpsql.connect(bank) as db:
        check_private(db, "two", "may hold protected rows")


@pytest.mark.medium
@pytest.mark.parametrize("through", ["x", "wards"])
def test_who_removes_the_mark_does_not_make_a_table_public(memory, through):
    """Not even under the name of a table that was public."""
    memory.sql("DROP TABLE wards; COMMENT ON TABLE people IS NULL; " + SWAP.replace("old", through))
    check_private(memory, through)
    memory.sql(f"ALTER TABLE {through} RENAME TO again")
    check_private(memory, "again")


@pytest.mark.medium
def test_a_mark_that_was_removed_without_dpsql_is_missed(bank):
    """The table may be any that was not there: those are refused until the owner says what holds."""
    plain(bank, "COMMENT ON TABLE people IS 'of 2025'; " + SWAP)
    with dpsql.connect(bank) as db:
        check_private(db, "old", "may hold protected rows")
        check_public(db, "wards")
        ask(db)
        check_private(db, "old", "may hold protected rows")
    assert main(["ledger", "settle", str(bank), "--reason", "old is a list of streets"]) == 0
    with dpsql.connect(bank) as db:
        check_public(db, "old")
        assert db.sql("SELECT reason FROM dp_ledger() WHERE kind = 'settle'").fetchall() == [
            ("old is a list of streets",)
        ]
        db.sql("COMMENT ON TABLE people IS NULL")
        with pytest.raises(DpsqlError, match="reason is empty"):
            db.settle("")
        db.settle("people is where it was")
        db.sql("ALTER TABLE people RENAME TO x")
        check_private(db, "x", "protected")


@pytest.mark.medium
def test_the_table_that_is_back_ends_the_doubt(bank):
    plain(bank, "COMMENT ON TABLE people IS NULL; ALTER TABLE people RENAME TO old")
    with dpsql.connect(bank) as db:
        check_private(db, "old", "may hold protected rows")
        db.sql("ALTER TABLE old RENAME TO people; CREATE TABLE later AS SELECT 1 AS id")
        ask(db)
        ask(db, release="b")
    plain(bank, "DROP TABLE later; ALTER TABLE people RENAME TO later")
    with dpsql.connect(bank) as db:
        check_private(db, "later")


@pytest.mark.medium
@pytest.mark.parametrize("load", ["CREATE OR REPLACE TABLE people", "DROP TABLE people; CREATE TABLE people"])
def test_a_table_that_is_loaded_anew_asks_nothing_of_its_owner(bank, load):
    plain(bank, f"{load} AS SELECT 1 AS id, 'canary' AS name, true AS ill")
    with dpsql.connect(bank) as db:
        ask(db)
        db.sql("CREATE TABLE later AS SELECT 1 AS id")
        check_public(db, "later")
        db.sql("ALTER TABLE people RENAME TO old")
        check_private(db, "old")
        db.sql("ALTER TABLE old RENAME TO people")
    dpsql.connect(bank).close()
    plain(bank, "DROP TABLE people")
    with dpsql.connect(bank) as db:  # it was dropped for good, which needs no empty table in its place
        check_public(db, "later")


def test_the_owners_comment_is_kept(db):
    db.sql("CREATE TABLE t AS SELECT true AS ill; COMMENT ON TABLE t IS 'it''s \"ours\"'")
    protect(db, "t")
    (said,) = db.sql("SELECT comment FROM duckdb_tables() WHERE table_name = 't'").fetchall()[0]
    assert re.fullmatch(r"it's \"ours\" \[dpsql:[0-9a-f]{32}\]", said)


def test_the_names_of_two_protected_tables_are_swapped(memory):
    """Rows are charged to their own account, or to none."""
    memory.sql("ALTER TABLE people RENAME TO x; ALTER TABLE visits RENAME TO people; ALTER TABLE x RENAME TO visits")
    for name, other in (("people", "visits"), ("visits", "people")):
        with pytest.raises(duckdb.Error, match=f"'{name}' is protected under another name, '{other}'"):
            ask(memory, name)
    assert memory.budget().releases.tolist() == [0, 0]


@pytest.mark.medium
def test_a_load_whose_name_is_spelled_otherwise_has_no_budget_of_its_own(memory):
    memory.sql(SWAP.replace("TABLE people AS", "TABLE PEOPLE AS"))
    with pytest.raises(duckdb.Error, match="'PEOPLE' is protected under another name, 'people'"):
        ask(memory)
    with pytest.raises(DpsqlError, match="rows have one budget"):
        memory.protect("people", epsilon=1.0, delta=1e-6)
    check_private(memory, "old")


@pytest.mark.medium
@pytest.mark.parametrize("schema", ["main", '"a.b"', "other.main"])
def test_names_in_schemas_attached_databases_and_quotes(db, schema):
    db.sql(f"ATTACH ':memory:' AS other; CREATE SCHEMA \"a.b\"; {TABLES}")
    name = f'{schema}."my ""people"".x"'
    db.sql(f"CREATE TABLE {name} AS FROM people")
    protect(db, "visits", name)
    db.sql(f"ALTER TABLE {name} RENAME TO x; CREATE VIEW seen AS FROM {schema}.x")
    for private in (f"{schema}.x".replace(".main", ""), "seen"):
        for statement in uses(private):
            with pytest.raises(duckdb.Error, match=f"{REFUSED}|is a view"):
                db.sql(statement).fetchall()
    check_public(db, "people")
    db.sql(f"CREATE TABLE {name} AS FROM people")
    ask(db, name)
    assert db.budget().releases.sum() == 1


@pytest.mark.medium
def test_a_table_that_is_altered_meanwhile_is_marked_another_time(memory):
    """And until then known by its name, and in this process by its object id."""
    memory.sql(SWAP)
    with memory.connection.cursor() as other:
        other.execute("BEGIN; ALTER TABLE people RENAME name TO title")
        ask(memory)
        other.execute("ROLLBACK")
    said = "SELECT comment FROM duckdb_tables() WHERE table_name = 'people'"
    assert memory.sql(said).fetchall() == [(None,)]
    ask(memory, release="b")
    assert "dpsql" in memory.sql(said).fetchall()[0][0]


# --- copies -----------------------------------------------------------------------------------------------------------

COPIED = "are a copy of those of another one"


@pytest.mark.medium
def test_a_copy_in_memory_has_no_budget(bank):
    """The same rows are charged to the books that they come from."""
    with dpsql.connect() as db:
        db.sql(f"ATTACH '{bank}' AS bank; COPY FROM DATABASE bank TO memory")
        for table in ("people", "memory.people"):
            with pytest.raises(duckdb.Error, match=COPIED):
                ask(db, table)
        with pytest.raises(DpsqlError, match=COPIED):
            db.protect("wards", epsilon=1.0, delta=1e-6)
        ask(db, "bank.people")
        db.sql("DETACH bank")
        with pytest.raises(duckdb.Error, match=COPIED):
            ask(db)
        db.sql("ALTER TABLE people RENAME TO old")
        with pytest.raises(duckdb.Error, match="'old' is protected"):
            db.sql(uses("old")[0])


@pytest.mark.medium
def test_an_import_into_memory_has_no_budget(bank, tmp_path):
    plain(bank, f"EXPORT DATABASE '{tmp_path / 'exported'}'")
    with dpsql.connect() as db:
        db.sql(f"IMPORT DATABASE '{tmp_path / 'exported'}'")
        with pytest.raises(duckdb.Error, match=COPIED):
            ask(db)
        db.sql("ALTER TABLE people RENAME TO old")
        check_private(db, "old", f"{REFUSED}|{COPIED}")


@pytest.mark.medium
def test_a_copy_from_memory_to_memory_has_no_budget(memory):
    memory.sql("ATTACH ':memory:' AS m; COPY FROM DATABASE memory TO m")
    ask(memory)
    with pytest.raises(duckdb.Error, match=COPIED):
        ask(memory, "m.people")
    with dpsql.connect() as other:  # whose databases have the same numbers as those of the first
        other.sql(TABLES)
        protect(other, "visits", "people")
        ask(other)


@pytest.mark.medium
def test_a_copy_in_another_file_has_no_budget(bank, tmp_path):
    with dpsql.connect(bank) as db:
        db.sql(f"ATTACH '{tmp_path / 'copy.duckdb'}' AS copy; COPY FROM DATABASE bank TO copy")
        with pytest.raises(duckdb.Error, match="the head of the ledger is missing"):
            ask(db, "copy.people")
        ask(db)


@pytest.mark.medium
def test_a_file_and_its_copy_are_not_charged_together(bank, tmp_path):
    """A copy of file and head is a moved database, but not where the original is attached too."""
    copy = tmp_path / "copy.duckdb"
    shutil.copy(bank, copy)
    shutil.copy(heads.file_beside(bank), heads.file_beside(copy))
    with dpsql.connect(bank) as db:
        db.sql(f"ATTACH '{copy}' AS copy")
        for table in ("people", "copy.people"):
            with pytest.raises(duckdb.Error, match=COPIED):
                ask(db, table)
        db.sql("DETACH copy")
        ask(db)


@pytest.mark.medium
@pytest.mark.parametrize("where", [":memory:", "other.duckdb"])
def test_rows_copied_without_their_books_are_neither_public_nor_protected_anew(bank, tmp_path, where):
    place = where if where.startswith(":") else str(tmp_path / where)
    with dpsql.connect(place) as db:
        db.sql(
            f"ATTACH '{bank}' AS bank; COPY FROM DATABASE bank TO {db.sql('SELECT current_database()').fetchall()[0][0]}"
        )
        db.sql("DETACH bank; DROP SCHEMA dpsql CASCADE; DROP TABLE visits; CREATE TABLE visits AS FROM wards")
        protect(db, "visits")
        check_private(db, "people", "bears a mark of dpsql|protected")
        check_public(db, "wards")


# --- lost books -------------------------------------------------------------------------------------------------------


@pytest.mark.medium
def test_without_its_books_no_table_of_a_file_is_public(bank, tmp_path):
    """The head outside the database knows of the accounts."""
    plain(bank, "DROP SCHEMA dpsql CASCADE; ALTER TABLE people RENAME TO old")
    with dpsql.connect() as db:
        db.sql(TABLES)
        protect(db, "visits")
        db.sql(f"ATTACH '{bank}' AS bank")
        for table in ("bank.old", "bank.wards"):
            for statement in uses(table):
                with pytest.raises(
                    duckdb.Error, match="have lost accounts .people, visits., so none of its tables is surely public"
                ):
                    db.sql(statement).fetchall()
        with pytest.raises(DpsqlError, match="have lost accounts"):
            db.protect("bank.old", epsilon=1.0, delta=1e-6)
        check_public(db, "wards")


@pytest.mark.medium
def test_without_its_books_no_table_in_memory_is_public(memory):
    memory.sql(
        "ATTACH ':memory:' AS other; CREATE TABLE other.visits AS SELECT i % 2 = 0 AS ill, i AS id FROM range(9) r(i)"
    )
    memory.protect("other.visits", epsilon=1.0, delta=1e-6)
    memory.domain("other.visits", "id", values=list(range(9)), nulls=False)
    memory.sql("DROP SCHEMA memory.dpsql CASCADE; COMMENT ON TABLE people IS NULL; ALTER TABLE people RENAME TO old")
    for table in ("memory.old", "memory.wards"):
        for statement in uses(table):
            with pytest.raises(duckdb.Error, match="none of its tables is surely public"):
                memory.sql(statement.replace("visits", "other.visits")).fetchall()
        with pytest.raises(DpsqlError, match="none of its tables is surely public"):
            memory.protect(table, epsilon=1.0, delta=1e-6)


@pytest.mark.medium
@pytest.mark.parametrize("rename", ["", "; ALTER TABLE people RENAME TO old"])
def test_an_account_that_is_no_longer_in_the_books_leaves_its_table_protected(memory, rename):
    memory.sql(f"DELETE FROM dpsql.account WHERE source = 'people'{rename}")
    for statement in uses("old" if rename else "people"):
        with pytest.raises(duckdb.Error, match="protected"):
            memory.sql(statement).fetchall()
    with pytest.raises(DpsqlError, match="rows have one budget|the account of people is not what the ledger says"):
        memory.protect("old" if rename else "people", epsilon=1.0, delta=1e-6)


# --- books of earlier versions ----------------------------------------------------------------------------------------


@pytest.fixture
def earlier(bank):
    """Books without marks."""
    plain(
        bank,
        "DROP TABLE IF EXISTS dpsql.known_table; DROP TABLE IF EXISTS dpsql.public_table; "
        "UPDATE dpsql.books SET version = 4; COMMENT ON TABLE people IS NULL; COMMENT ON TABLE visits IS NULL",
    )
    return bank


@pytest.mark.medium
def test_books_of_an_earlier_version_get_marks_when_they_are_opened(earlier):
    dpsql.connect(earlier).close()
    plain(earlier, SWAP)
    with dpsql.connect(earlier) as db:
        check_private(db, "old", "protected")
        check_public(db, "wards")
        ask(db)


@pytest.mark.medium
def test_books_of_an_earlier_version_go_by_name_until_then(earlier):
    with dpsql.connect(earlier, read_only=True) as db:
        db.sql(uses("wards")[0])
        with pytest.raises(duckdb.Error, match="'people' is protected"):
            db.sql(uses("people")[0])
    plain(earlier, "ALTER TABLE people RENAME TO old")
    for read_only in (True, False):
        with dpsql.connect(earlier, read_only=read_only) as db:
            for table in ("old", "wards"):
                with pytest.raises(duckdb.Error, match="may hold protected rows"):
                    db.sql(uses(table)[0])


@pytest.mark.medium
def test_what_is_public_can_be_asked_inside_a_transaction(earlier):
    """On DuckDB 2.0 a statement that names what is not there ends a transaction; books may be of an earlier version."""
    with dpsql.connect() as db, db.instance.cursor() as cursor:
        db.sql(f"ATTACH '{earlier}' AS bank (READ_ONLY); CREATE TABLE t AS SELECT 1 AS id")
        cursor.execute("BEGIN")
        assert is_protected(cursor, find_source(cursor, "bank.people"))
        assert not is_protected(cursor, find_source(cursor, "bank.wards"))
        assert not is_protected(cursor, find_source(cursor, "memory.main.t"))
        cursor.execute("COMMIT")
