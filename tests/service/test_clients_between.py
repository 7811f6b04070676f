"""What stands between: pgbouncer in both modes, and pgcli, a terminal with completion."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.service.conftest import free_port, need
from tests.service.test_clients import ASK

pytestmark = pytest.mark.medium
POOLER = "/usr/sbin/pgbouncer"


@contextmanager
def pooled(served, folder: Path, mode: str):
    """Where a pgbouncer listens that has one connection to the service."""
    need(os.path.exists(POOLER), "pgbouncer", "apt-get install pgbouncer")
    port = free_port()
    (folder / "users").write_text(f'"alice" "{served.tokens["alice"]}"\n')
    certificate = Path(shutil.copy(served.service.certificate, folder / "server.crt"))
    (folder / "pooler.ini").write_text(f"""
[databases]
dpsql = host=127.0.0.1 port={served.service.port} dbname=dpsql
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {folder / "users"}
pool_mode = {mode}
default_pool_size = 1
server_tls_sslmode = verify-full
server_tls_ca_file = {certificate}
""")
    user = "postgres" if os.getuid() == 0 else None  # it refuses to be root's
    for path in (folder, *folder.iterdir()) if user else ():
        shutil.chown(path, user)
    with subprocess.Popen([POOLER, folder / "pooler.ini"], user=user, cwd=folder, stderr=subprocess.DEVNULL) as process:
        try:
            yield f"host=127.0.0.1 port={port} dbname=dpsql user=alice password={served.tokens['alice']}"
        finally:
            process.terminate()


def connected(where: str, **more) -> psycopg.Connection:
    for _ in range(600):
        try:
            return psycopg.connect(where, autocommit=True, **more)
        except psycopg.OperationalError as error:
            if "refused" not in str(error):
                raise
            time.sleep(0.05)
    raise AssertionError("pgbouncer does not listen")


@pytest.fixture
def folder():
    """A folder that another user of the system may enter, which pytest's own is not."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="dpsql-pool-", dir="/tmp") as name:
        yield Path(name)


@pytest.mark.client(
    "pgbouncer, session pooling",
    "1.18",
    "a question, a cursor; the next client finds no setting and no cursor of the one before",
    "",
)
def test_pgbouncer_of_sessions(served, folder):
    with pooled(served, folder, "session") as where:
        with connected(where) as first:
            assert [row[0] for row in first.execute(ASK).fetchall()] == ["Female", "Male"]
            first.execute("SET statement_timeout = '7s'")
            first.execute("DECLARE c CURSOR WITH HOLD FOR SELECT i FROM shown ORDER BY i")
            assert first.execute("FETCH 1 FROM c").fetchall() == [(0,)]
            process = first.execute("SELECT 1").fetchall()
        with connected(where) as second:
            assert second.execute("SHOW statement_timeout").fetchall() == [("0",)]
            with pytest.raises(psycopg.errors.InvalidCursorName):
                second.execute("FETCH 1 FROM c")
            assert second.execute("SELECT 1").fetchall() == process


@pytest.mark.client(
    "pgbouncer, transaction pooling",
    "1.18",
    "a question, two clients by turns on one connection, transactions",
    "as with PostgreSQL: prepared statements and `SET` outside a transaction are not for it",
)
def test_pgbouncer_of_transactions(served, folder):
    with (
        pooled(served, folder, "transaction") as where,
        connected(where, prepare_threshold=None) as first,
        connected(where, prepare_threshold=None) as second,
    ):
        for place in range(3):
            for one in (first, second):
                assert one.execute("SELECT i FROM shown WHERE i = %s", [place]).fetchall() == [(place,)]
        with first.transaction():
            first.execute("SET LOCAL statement_timeout = '7s'")
            assert first.execute("SHOW statement_timeout").fetchall() == [("7s",)]
        assert second.execute("SHOW statement_timeout").fetchall() == [("0",)]
        assert [row[0] for row in second.execute(ASK).fetchall()] == ["Female", "Male"]


@pytest.mark.client("pgcli", "4.7", "a question, `\\dt`, `\\d`, `\\dn`, `\\l`, `\\df`, `\\du`", "")
def test_pgcli(served, tmp_path):
    pgcli = Path(sys.executable).with_name("pgcli")
    need(pgcli.exists(), "pgcli", "pip install pgcli")
    commands = [ASK, "\\dt", "\\d shown", "\\dn", "\\l", "\\df dp_query", "\\du"]
    environment = {**os.environ, "HOME": str(tmp_path), "PAGER": "cat", "PGPASSWORD": served.tokens["alice"]}
    given = [part for command in commands for part in ("-c", command)]
    done = subprocess.run(
        [pgcli, served.dsn().replace(f"password={served.tokens['alice']} ", ""), "--less-chatty", *given],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    shown = done.stdout + done.stderr
    assert done.returncode == 0, shown
    for words in ("Female", "n_stderr", "shown", "numeric(9,2)", "main", "dpsql", "dp_query"):
        assert words in shown, shown
    assert "Error" not in shown
    assert "secret" not in shown
