"""A service whose rows are elsewhere, in Postgres, in files, in a bucket: real clients, and whatever dies while it counts.

A charge is made once, the same call goes on for it, and no client sees a row, a password, or where the rows are.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import duckdb
import psycopg
import pytest

import dpsql
from dpsql.service.supervisor import NotStarted, serve
from tests.engines import postgres_server, s3_server
from tests.engines.postgres_bank import CANARY, Bank, bank
from tests.service.conftest import Served

pytestmark = pytest.mark.medium
EPSILON = 4.0
QUERY = f"SELECT ward, n FROM dp_query('SELECT ward, count(*) AS n FROM people GROUP BY ward', epsilon => {EPSILON})"
ROWS = "SELECT i AS id, 'w' || i % 3 AS ward, '{}' AS note FROM range(3000) r(i)"
DEADLINE = 120.0


@pytest.fixture(scope="module", autouse=True)
def servers() -> Iterator[None]:
    """Those that a test of this module started end with it."""
    yield
    postgres_server.remove()
    s3_server.remove()


def declare(db: dpsql.Database) -> None:
    db.protect("people", epsilon=20.0, delta=1e-6)
    db.domain("people", "ward", values=["w0", "w1", "w2"])
    for name in ("id", "note"):
        db.domain("people", name, exclude=True)


@contextmanager
def served(path, limit: float = 10.0, **options: object) -> Iterator[Served]:
    """A service of a file that is closed by now; ann may ask about people."""
    with dpsql.connect(path) as db:
        token = db.users.add("ann", limits={"people": limit})
    with serve(str(path), port=0, **options) as service:
        yield Served(service, path, {"ann": token})


@pytest.fixture(scope="module")
def on_postgres(tmp_path_factory) -> Iterator[tuple[Bank, Served]]:
    folder = tmp_path_factory.mktemp("postgres")
    with bank(folder) as both:
        both.people(40.0)
        both.db.close()
        with served(folder / "bank.duckdb", 40.0) as service:
            yield both, service


def ask(service: Served, sql: str) -> list[tuple]:
    with psycopg.connect(service.dsn("ann"), autocommit=True) as ann:
        return ann.execute(sql).fetchall()


def answered(service: Served, sql: str) -> list[tuple]:
    """Ask until the service is back."""
    until = time.monotonic() + DEADLINE
    while True:
        try:
            return ask(service, sql)
        except psycopg.Error:
            assert time.monotonic() < until, "the service does not come back"
            time.sleep(0.1)


def spent(service: Served) -> float:
    """What is charged to the table."""
    return answered(service, "SELECT epsilon_spent FROM dp_budget()")[0][0]


def right(rows: list[tuple]) -> bool:
    """Thousand rows a ward; noise of 30 would take ε = 4 some e^-100."""
    return [ward for ward, _ in rows][:3] == ["w0", "w1", "w2"] and all(abs(n - 1000) < 30 for _, n in rows[:3])


SEEN = (
    QUERY,
    "SELECT * FROM dp_synthesize('people', epsilon => 4, steps => 20, relaxed_rows => 20)",
    "SELECT * FROM dp_domains('people')",
    "SELECT * FROM dp_budget()",
    "SELECT * FROM dp_plan('people', epsilon => 1)",
    "SELECT * FROM dp_releases()",
    "SELECT * FROM people",
    "SELECT * FROM dp_ledger()",
    "SELECT * FROM dp_source('x', engine => 'postgres', environment => 'HOME', relation => 'public.people')",
    "SELECT table_name, column_name FROM information_schema.columns",
    "SELECT * FROM duckdb_secrets()",
    "SELECT getenv('PGPASSWORD')",
)


def all_that_is_seen(service: Served) -> str:
    """What each statement shows, its error included."""
    shown = []
    for sql in SEEN:
        try:
            shown.append(repr(ask(service, sql)))
        except psycopg.Error as error:
            shown.append(f"{error} {error.diag.message_detail} {error.diag.message_hint} {error.diag.context}")
    return "\n".join(shown)


def test_rows_in_postgres_are_asked_and_nothing_else_of_them_is_seen(on_postgres):
    both, service = on_postgres
    rows = answered(service, QUERY)
    assert right(rows)
    assert ask(service, QUERY) == rows
    shown = all_that_is_seen(service)
    for secret in (CANARY, "secret-of-", both.database, both.variable, str(both.server.folder)):
        assert secret not in shown


DISTURBANCES = {
    "postgres stops": lambda both, service, ann: both.server.stop(),
    "a connection of postgres is cut": lambda both, service, ann: both.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dpsql'"
    ),
    "the keeper is killed": lambda both, service, ann: os.kill(service.service.process("keeper"), signal.SIGKILL),
    "the front is killed": lambda both, service, ann: os.kill(service.service.process("front"), signal.SIGKILL),
    "the client cancels": lambda both, service, ann: ann.cancel(),
}


@pytest.mark.parametrize("disturbance", DISTURBANCES)
def test_what_dies_while_postgres_counts_costs_nothing_twice(on_postgres, disturbance):
    both, service = on_postgres
    both.server.start()
    locked, ended = threading.Event(), threading.Event()
    query = QUERY.replace("=> 4.0", f"=> 4.0, release => '{disturbance}'")
    before = spent(service)
    with psycopg.connect(service.dsn("ann"), autocommit=True) as ann:

        def hold() -> None:
            """Lock the table until the count waits for it, then disturb; a client that cancels is answered first."""
            with suppress(psycopg.OperationalError), psycopg.connect(both.server.words(both.database)) as owner:
                owner.execute("LOCK TABLE people IN ACCESS EXCLUSIVE MODE")
                locked.set()
                while not both.sql("SELECT count(*) FROM pg_locks WHERE NOT granted")[0][0] and not ended.is_set():
                    time.sleep(0.01)
                DISTURBANCES[disturbance](both, service, ann)
                ended.wait(DEADLINE)

        thread = threading.Thread(target=hold)
        thread.start()
        try:
            assert locked.wait(DEADLINE)
            with pytest.raises(psycopg.Error) as failed:
                ann.execute(query)
        finally:
            ended.set()
            thread.join()
    assert CANARY not in str(failed.value)
    assert "secret-of-" not in str(failed.value)
    both.server.start()
    charged = spent(service)
    assert charged > before
    rows = answered(service, query)
    assert right(rows)
    assert ask(service, query) == rows
    assert spent(service) == charged


def test_rows_in_files_are_asked_and_a_replaced_file_is_refused(tmp_path):
    path, file = tmp_path / "bank.duckdb", tmp_path / "people.parquet"
    with dpsql.connect(path) as db:
        db.sql(f"COPY ({ROWS.format(CANARY)}) TO '{file}'")
        db.source("people", files=str(file))
        declare(db)
    with served(path) as service:
        rows = ask(service, QUERY)
        assert right(rows)
        assert ask(service, QUERY) == rows
        shown = all_that_is_seen(service)
        for secret in (CANARY, str(file)):
            assert secret not in shown
        charged = spent(service)
        duckdb.sql(f"COPY ({ROWS.format('another')} LIMIT 10) TO '{file}'")
        assert ask(service, QUERY) == rows, "what was answered stays"
        with pytest.raises(psycopg.Error) as failed:
            ask(service, QUERY.replace("4.0", "1.0"))
        assert str(file) not in str(failed.value)
        assert spent(service) == charged


@pytest.mark.skipif(s3_server.httpfs() is None, reason=s3_server.MISSING)
def test_rows_in_a_bucket_are_asked_with_what_the_keeper_runs_first(tmp_path):
    path, startup, server = tmp_path / "bank.duckdb", tmp_path / "startup.sql", s3_server.s3_server()
    server.make("served")
    startup.write_text(f"LOAD '{s3_server.httpfs()}';\n{server.secret()};\nSET GLOBAL http_retries = 0;")
    with dpsql.connect(path) as db:
        db.connection.execute(startup.read_text())
        db.sql(f"COPY ({ROWS.format(CANARY)}) TO 's3://served/people.parquet'")
        db.source("people", files="s3://served/people.parquet")
        declare(db)
    with served(path, startup=str(startup)) as service:
        rows = ask(service, QUERY)
        assert right(rows)
        charged = spent(service)
        with server.fault(status=503), pytest.raises(psycopg.Error) as failed:
            ask(service, QUERY.replace("4.0", "2.0"))
        os.kill(service.service.process("keeper"), signal.SIGKILL)
        assert right(answered(service, QUERY.replace("4.0", "2.5")))
        assert spent(service) > charged
        assert ask(service, QUERY) == rows
        shown = f"{all_that_is_seen(service)} {failed.value}"
        for secret in (CANARY, s3_server.KEY, s3_server.SECRET, s3_server.TOKEN, server.endpoint):
            assert secret not in shown
    log = b"".join(file.read_bytes() for file in path.parent.rglob("*") if file.is_file() and file.suffix != ".sql")
    assert s3_server.SECRET.encode() not in log


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"CREATE SECRET s (TYPE nothing, KEY_ID 'canary')", "statement 1 of .* failed"),
        (b"SELECT 1; SELECT 'canary'::INT", "statement 2 of .* failed with ConversionException"),
        (b"SELEC 'canary'", "no SQL that DuckDB knows"),
        (b"SELECT 1; CALL dp_protect('people', epsilon := 1e6, delta := 1e-6)", "statement 2 of .* failed"),
        (b"\xff", "no text in UTF-8"),
        (None, "cannot be read"),
    ],
)
def test_a_startup_that_fails_is_said_and_not_quoted(tmp_path, capfd, text, message):
    startup = tmp_path / "startup.sql"
    if text is not None:
        startup.write_bytes(text)
    with dpsql.connect(tmp_path / "bank.duckdb") as db:
        db.sql("CREATE TABLE people (a INTEGER)")
    with pytest.raises(NotStarted), serve(str(tmp_path / "bank.duckdb"), port=0, startup=str(startup)):
        pass
    shown = capfd.readouterr().err
    assert re.search(message, shown)
    assert "canary" not in shown
