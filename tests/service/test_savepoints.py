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
