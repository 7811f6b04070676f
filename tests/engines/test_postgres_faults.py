"""What goes wrong with Postgres: the charge stands, nothing is lost, no error quotes a row or a password."""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress

import duckdb
import psycopg
import pytest

import dpsql
from dpsql.engines.postgres.failures import failure_of
from dpsql.errors import DpsqlError

from .postgres_bank import Bank, bank

pytestmark = pytest.mark.medium
QUERY = "FROM dp_query('SELECT ward, count(*) FROM people GROUP BY ward', epsilon := 1)"


@pytest.fixture
def people(tmp_path) -> Iterator[Bank]:
    """A table with a canary in it."""
    with bank(tmp_path) as found:
        found.people(10.0)
        yield found


def spent(db: dpsql.Database) -> float:
    """Of the budget."""
    return db.sql("SELECT epsilon_spent FROM dp_budget()").fetchall()[0][0]


def fails(people: Bank, match: str, ask: Callable[[], object]) -> None:
    """It does, in words that quote neither a row nor a password."""
    with pytest.raises((DpsqlError, duckdb.Error), match=match) as failed:
        ask()
    shown = "".join(traceback.format_exception(failed.value))
    assert "Canary" not in shown
    assert "secret-of-" not in shown


def while_it_counts(people: Bank, disturb: Callable[[], object]) -> None:
    """Ask, and disturb when the charge is made and Postgres waits for the table."""
    locked, ended = threading.Event(), threading.Event()

    def hold() -> None:
        with suppress(psycopg.OperationalError), psycopg.connect(people.server.words(people.database)) as owner:
            owner.execute("LOCK TABLE people IN ACCESS EXCLUSIVE MODE")
            locked.set()
            waits = "SELECT count(*) FROM pg_locks WHERE NOT granted"
            while not people.sql(waits)[0][0] and not ended.is_set():
                time.sleep(0.01)
            disturb()

    thread = threading.Thread(target=hold)
    thread.start()
    locked.wait()
    try:
        people.db.sql(QUERY).fetchall()
    finally:
        ended.set()
        thread.join()


def goes_on(people: Bank, before: float) -> None:
    """The same call does, for what was charged."""
    assert spent(people.db) > before
    charged = spent(people.db)
    rows = people.db.sql(QUERY + " WHERE ward IS NOT NULL").fetchall()  # noise shows a group of NULL in 1 of 700 runs
    assert [ward for ward, *_ in rows] == ["w0", "w1", "w2"]
    assert all(800 < count < 1200 for _, count, *_ in rows)
    assert spent(people.db) == charged


def test_a_server_that_is_killed_and_started_again(people):
    fails(people, "the same call goes on", lambda: while_it_counts(people, people.server.stop))
    try:
        fails(people, "cannot be reached", lambda: people.db.sql(QUERY).fetchall())
    finally:
        people.server.start()
    goes_on(people, 0.0)


def test_a_connection_that_is_cut(people):
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dpsql'"
    fails(people, "the same call goes on", lambda: while_it_counts(people, lambda: people.sql(cut)))
    goes_on(people, 0.0)


def test_a_statement_that_somebody_cancels(people):
    cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'dpsql'"
    fails(people, "statement_timeout", lambda: while_it_counts(people, lambda: people.sql(cancel)))
    goes_on(people, 0.0)


def until_it_gave_up(people: Bank) -> Callable[[], None]:
    """Hold the lock until nobody waits for it."""

    def hold() -> None:
        while people.sql("SELECT count(*) FROM pg_locks WHERE NOT granted")[0][0]:
            time.sleep(0.01)

    return hold


@pytest.mark.parametrize(
    ("limit", "said"), [("lock_timeout", "lock_timeout"), ("statement_timeout", "statement_timeout")]
)
def test_a_limit_of_the_server_that_ends_a_wait(people, limit, said):
    """Statements before the charge wait for nobody, and take far less."""
    people.sql(f"ALTER DATABASE {people.database} SET {limit} = '3s'")
    fails(people, f"(?s){said}.*the same call goes on", lambda: while_it_counts(people, until_it_gave_up(people)))
    people.sql(f"ALTER DATABASE {people.database} RESET {limit}")
    goes_on(people, 0.0)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("55P03", "lock_timeout = 0"), ("40P01", "locked by somebody else"), ("40001", "hot_standby_feedback"), ("57014", "statement_timeout = 0"),
        ("25P04", "transaction_timeout"), ("57P01", "connection to Postgres broke"), ("08006", "connection to Postgres broke"), ("42501", "may not read"),
    ],
)  # fmt: skip
def test_every_class_of_failure_says_that_the_charge_is_kept(state, said):
    text = str(failure_of(state, alive=True))
    assert said in text
    assert "is kept" in text or "before is kept" in text


@pytest.mark.parametrize(
    "hostile",
    [
        ("quote_all_identifiers = on", "bytea_output = escape", "extra_float_digits = -15", "transform_null_equals = on"),
        ("default_transaction_read_only = on",),
        ("default_transaction_isolation = serializable", "default_transaction_deferrable = on", "plan_cache_mode = force_generic_plan"),
        ("datestyle = 'German'", "timezone = 'Asia/Kathmandu'", "array_nulls = off", "enable_hashagg = off", "lc_messages = 'C'"),
    ],
)  # fmt: skip
def test_settings_of_the_database_change_no_answer(people, quick, hostile):
    for setting in hostile:
        people.sql(f"ALTER DATABASE {people.database} SET {setting}")
    rows = people.db.sql("FROM dp_query('SELECT ward, count(*) FROM people GROUP BY ward', epsilon := 9)").fetchall()
    assert [(ward, round(count / 100)) for ward, count, *_ in rows[:3]] == [("w0", 10), ("w1", 10), ("w2", 10)]
    assert people.db.sql(f"FROM dp_synthesize('people', epsilon := 0.5, {quick})").fetchall()


def test_options_of_the_owner_are_not_replaced(people):
    people.sql(f"ALTER DATABASE {people.database} SET quote_all_identifiers = on")
    words = os.environ[people.variable]
    os.environ[people.variable] = f"{words}&options=-c%20work_mem%3D1MB"
    fails(people, "ALTER ROLE … SET quote_all_identifiers = off", lambda: people.db.sql(QUERY).fetchall())
    assert spent(people.db) == 0
    os.environ[people.variable] = f"{words}&options=-c%20quote_all_identifiers%3Doff"
    people.db.sql(QUERY).fetchall()


def test_an_interrupt_of_the_call(people):
    fails(people, "(?i)interrupted", lambda: while_it_counts(people, people.db.interrupt))
    goes_on(people, 0.0)


def test_nothing_is_charged_where_the_server_does_not_answer(people):
    people.server.stop()
    try:
        fails(people, f"environment := '{people.variable}'", lambda: people.db.sql(QUERY).fetchall())
    finally:
        people.server.start()
    assert spent(people.db) == 0


@pytest.mark.parametrize(
    ("change", "back"),
    [
        ("ALTER TABLE people DROP COLUMN note", "ALTER TABLE people ADD note text"),
        ("ALTER TABLE people ALTER ward TYPE varchar(3)[] USING ARRAY[ward]", "ALTER TABLE people ALTER ward TYPE text USING ward[1]"),
        ("ALTER TABLE people RENAME TO persons", "ALTER TABLE persons RENAME TO people"),
        ("ALTER TABLE people ALTER id DROP IDENTITY IF EXISTS, DROP CONSTRAINT people_pkey, ALTER id DROP NOT NULL",
         "ALTER TABLE people ADD PRIMARY KEY (id)"),
        ("ALTER TABLE people OWNER TO postgres; REVOKE ALL ON people FROM PUBLIC, reader", "GRANT SELECT ON people TO reader"),
    ],
)  # fmt: skip
def test_a_table_that_changed_is_refused_before_the_charge(people, change, back):
    """And what the owner undoes is counted."""
    if not people.server.has_role("reader"):
        people.sql("CREATE ROLE reader LOGIN")
    people.sql("GRANT SELECT ON people TO reader")
    people.connect_as("reader")
    people.sql(*change.split("; "))
    fails(people, "dp_source|GRANT SELECT", lambda: people.db.sql(QUERY).fetchall())
    assert spent(people.db) == 0
    people.sql(back)
    people.db.sql(QUERY).fetchall()


def test_a_column_that_is_added_does_not_matter(people):
    people.sql("ALTER TABLE people ADD more int4")
    people.db.sql(QUERY).fetchall()


def test_a_table_that_changes_after_the_charge(people):
    """Between them a lock is waited for, which is held by who changes it."""
    swap = ("ALTER TABLE people DROP COLUMN ward", "ALTER TABLE people ADD ward int4")

    def change() -> None:
        people.sql("SELECT 1")

    while_it_counts(people, change)  # nothing is wrong with waiting
    people.sql(*swap)
    other = QUERY.replace("epsilon := 1", "epsilon := 2")
    charged = spent(people.db)
    fails(people, "dp_source", lambda: people.db.sql(other).fetchall())
    assert spent(people.db) == charged


def test_another_server_behind_the_same_variable(people, tmp_path):
    with bank(tmp_path, path="other.duckdb") as other:
        other.sql("CREATE TABLE people (id int8 PRIMARY KEY, ward text, note text)")
        os.environ[people.variable] = other.server.words(other.database)
        fails(people, "another server or database", lambda: people.db.sql(QUERY).fetchall())
    assert spent(people.db) == 0


def test_a_variable_that_is_gone(people):
    os.environ.pop(people.variable)
    fails(people, people.variable, lambda: people.db.sql(QUERY).fetchall())


def test_no_password_in_what_is_stored(people, tmp_path):
    people.db.sql(QUERY).fetchall()
    people.db.sql("CHECKPOINT")
    people.db.close()
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert files
    for file in files:
        assert b"secret-of-" not in file.read_bytes()
        assert "secret-of-" not in str(file)
        assert b"Canary" not in file.read_bytes()
