"""ROLLBACK TO SAVEPOINT ends the failed state, as drivers and psql rely on; DISCARD ALL leaves nothing to the next client."""

from __future__ import annotations

import subprocess

import psycopg
import pytest

from tests.service.conftest import need_psql

pytestmark = pytest.mark.medium


def test_nested_transactions(served):
    with psycopg.connect(served.dsn()) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        for _ in range(2):
            with pytest.raises(psycopg.errors.UndefinedColumn), connection.transaction():
                connection.execute("SELECT nope")
            assert connection.execute("SELECT 2").fetchone() == (2,)
        with connection.transaction(), pytest.raises(psycopg.errors.UndefinedTable), connection.transaction():
            connection.execute("SELECT * FROM nope")
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS


def test_savepoints_are_postgres_own(served, real):
    """The same statements, the same codes and the same states."""
    statements = [
        "SAVEPOINT a", "ROLLBACK TO a", "RELEASE a", "BEGIN", "SAVEPOINT a", 'SAVEPOINT "A b"', "SELECT 1/x", "SELECT 1",
        "SAVEPOINT c", "RELEASE a", "ROLLBACK TO nope", 'ROLLBACK TO SAVEPOINT "A b"', "SELECT 1",
        "ROLLBACK WORK TO A", 'ROLLBACK TO "A b"', "ROLLBACK TO SAVEPOINT a", "DECLARE c CURSOR FOR SELECT 7", "SAVEPOINT d",
        "DECLARE e CURSOR FOR SELECT 8", "ROLLBACK TO d", "FETCH c", "FETCH e", "ROLLBACK TO d", "FETCH c", "RELEASE a",
        "ROLLBACK TO d", "DISCARD ALL", "ROLLBACK", "SAVEPOINT a", "DISCARD ALL", "DISCARD PLANS",
    ]  # fmt: skip
    with psycopg.connect(served.dsn(), autocommit=True) as ours:
        for sql in statements:
            answers = []
            for connection in (ours, real):
                result = connection.pgconn.exec_(sql.encode())
                code = result.error_field(psycopg.pq.DiagnosticField.SQLSTATE)
                answers.append((code, result.command_status, connection.info.transaction_status))
            assert answers[0] == answers[1], sql


def test_settings_go_back_with_what_fails(served, real):
    """To the savepoint, to the transaction's beginning, or to the message's; the client is sent the time zone again."""
    messages = [
        "SET TIME ZONE 1", "BEGIN", "SET TIME ZONE 2", "SAVEPOINT a", "SET TIME ZONE 3", "SET LOCAL statement_timeout = '9s'",
        "SAVEPOINT b", "SET TIME ZONE 4", "ROLLBACK TO b", "SET TIME ZONE 5", "SELECT nope", "ROLLBACK TO a",
        "SET TIME ZONE 6", "RELEASE a", "SET statement_timeout = '8s'", "SELECT nope", "COMMIT", "BEGIN", "SET TIME ZONE 8", "RESET statement_timeout",
        "ROLLBACK", "BEGIN; SET TIME ZONE 7; SAVEPOINT a; SET TIME ZONE 8; ROLLBACK TO a; COMMIT",
        "SET TIME ZONE 9; SELECT nope", "SET TIME ZONE 10; SELECT 1", "SET TIME ZONE 11; SET TIME ZONE 'Nope/Zone'",
        "SET TIME ZONE 11; BEGIN; ROLLBACK", "SET TIME ZONE 11; ROLLBACK", "SET TIME ZONE 3; BEGIN; SET TIME ZONE 4; COMMIT",
        "SET TIME ZONE 5; BEGIN; SELECT nope", "ROLLBACK", "SET TIME ZONE 6; COMMIT; SET TIME ZONE 7; ROLLBACK",
        "SET TIME ZONE 8; BEGIN", "SET TIME ZONE 9", "ROLLBACK", "SET TIME ZONE 2; BEGIN; SAVEPOINT a; SET TIME ZONE 1; ROLLBACK TO a; COMMIT",
    ]  # fmt: skip
    with psycopg.connect(served.dsn(), autocommit=True) as ours:
        for message in messages:
            states = []
            for connection in (ours, real):
                connection.pgconn.exec_(message.encode())
                state = [connection.info.transaction_status, connection.info.parameter_status("TimeZone")]
                for name in ("TimeZone", "statement_timeout"):
                    shown = connection.pgconn.exec_(f"SHOW {name}".encode())
                    state.append(shown.get_value(0, 0) if shown.ntuples else None)
                states.append(state)
            if states[0][0] == psycopg.pq.TransactionStatus.INERROR:  # PostgreSQL tells at once, and here at the end
                states = [[state[0]] for state in states]
            assert states[0] == states[1], message
    real.execute("SET TIME ZONE 'UTC'")


def test_what_was_set_before_a_sync_goes_back_too(served, real):
    with psycopg.connect(served.dsn(), autocommit=True) as ours:
        for connection in (ours, real):
            connection.execute("SET TIME ZONE 'UTC'")
            with pytest.raises(psycopg.errors.UndefinedColumn), connection.pipeline():
                connection.execute("SET TIME ZONE 'Asia/Tokyo'")
                connection.execute("SELECT nope")
            assert connection.execute("SHOW TimeZone").fetchone() == ("UTC",)


def test_psql_goes_on_after_an_error(served):
    need_psql()
    script = "\\set ON_ERROR_ROLLBACK on\nBEGIN;\nSELECT nope;\nSELECT 'goes on';\nCOMMIT;\n"
    command = ["psql", served.dsn(), "-X", "-q", "-A", "-t"]
    done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "goes on", done.stderr


def test_discard_all_leaves_nothing(served):
    with psycopg.connect(served.dsn(), autocommit=True) as connection:
        for end in ("DISCARD ALL", "RESET ALL"):
            connection.execute("SET statement_timeout = '7s'")
            connection.execute("SET application_name = 'one'")
            connection.execute("DECLARE c CURSOR WITH HOLD FOR SELECT 1")
            connection.execute(end)
            assert connection.execute("SHOW statement_timeout").fetchone() == ("0",)
            assert connection.execute("SHOW application_name").fetchone() == ("",)
            if end == "RESET ALL":
                assert connection.execute("FETCH c").fetchone() == (1,)
                continue
            with pytest.raises(psycopg.errors.InvalidCursorName):
                connection.execute("FETCH c")
