"""A throw-away Postgres: a cluster in a temporary folder, without a network port, made when a test first asks for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path("/usr/lib/postgresql")
SETTINGS = """
listen_addresses = ''
unix_socket_directories = '{folder}'
fsync = off
autovacuum = off
shared_buffers = 32MB
max_connections = 60
shared_preload_libraries = '{preloaded}'
log_statement = 'all'
logging_collector = off
"""
_numbers = count(1)


class Server:
    """A running cluster."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="dpsql-pg-"))
        self._user = "postgres" if os.getuid() == 0 else None  # Postgres refuses to be root's
        if self._user:
            shutil.chown(self.folder, self._user)
        self.data, self.log = self.folder / "data", self.folder / "log"
        self._call("initdb", "-D", self.data, "-U", "postgres", "--auth=trust", "--locale=C.UTF-8", "-E", "UTF8", "-N")
        contrib = (Path("/usr/share/postgresql") / programs.parent.name / "extension").joinpath
        preloaded = "pg_stat_statements" if contrib("pg_stat_statements.control").exists() else ""
        with (self.data / "postgresql.conf").open("a") as file:
            file.write(SETTINGS.format(folder=self.folder, preloaded=preloaded))
        self.start()

    def _call(self, program: str, *arguments: Any) -> None:
        command = [str(self._programs / program), *map(str, arguments)]
        done = subprocess.run(command, user=self._user, cwd="/", capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        """Start it, if it does not run."""
        if (self.data / "postmaster.pid").exists():
            return
        self._call("pg_ctl", "-D", self.data, "-l", self.log, "-w", "start")

    def stop(self, mode: str = "immediate") -> None:
        self._call("pg_ctl", "-D", self.data, "-m", mode, "-w", "stop")

    def remove(self) -> None:
        if (self.data / "postmaster.pid").exists():
            self.stop()
        shutil.rmtree(self.folder)

    def words(self, database: str = "postgres", user: str = "postgres") -> str:
        """What libpq connects with."""
        return f"postgresql://{user}:secret-of-{user}@/{database}?host={self.folder}"

    def sql(self, *statements: str, database: str = "postgres", user: str = "postgres") -> list[tuple[Any, ...]]:
        """The rows of the last statement."""
        import psycopg  # where only other engines are tested, it is not there

        with psycopg.connect(self.words(database, user), autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def has_role(self, name: str) -> bool:
        """Whether there is a user of that name."""
        return bool(self.sql(f"SELECT 1 FROM pg_roles WHERE rolname = '{name}'"))

    def fill(self, database: str, table: str, rows: Sequence[tuple[str | None, ...]]) -> None:
        """Add rows of texts, which Postgres reads as values of the columns' types."""
        import psycopg

        with (
            psycopg.connect(self.words(database), autocommit=True) as connection,
            connection.cursor() as cursor,
            cursor.copy(f"COPY {table} FROM STDIN".encode()) as copy,
        ):
            for row in rows:
                copy.write_row(row)

    @contextmanager
    def standby(self) -> Iterator[Standby]:
        """A replica that replays at once what is in its way or not; it lives as long as the context."""
        folder = self.folder / f"standby_{next(_numbers)}"
        self._call("pg_basebackup", "-D", folder, "-d", self.words(), "-R", "-X", "stream", "-c", "fast")
        with (folder / "postgresql.auto.conf").open("a") as file:
            file.write("max_standby_streaming_delay = 0\nport = 5433\n")
        self._call("pg_ctl", "-D", folder, "-l", folder / "log", "-w", "start")
        try:
            yield Standby(self)
        finally:
            self._call("pg_ctl", "-D", folder, "-m", "immediate", "-w", "stop")
            shutil.rmtree(folder)

    @contextmanager
    def database(self, locale: str = "") -> Iterator[str]:
        """A database of its own."""
        self.start()
        name = f"bank_{next(_numbers)}"
        more = f"LOCALE_PROVIDER icu ICU_LOCALE '{locale}'" if locale else ""
        self.sql(f"CREATE DATABASE {name} TEMPLATE template0 {more}")
        try:
            yield name
        finally:
            self.start()
            self.sql(f"DROP DATABASE {name} WITH (FORCE)")


class Standby:
    """A replica of a server, which may only be read."""

    def __init__(self, primary: Server) -> None:
        self._primary = primary

    def words(self, database: str) -> str:
        """What libpq connects with."""
        return self._primary.words(database) + "&port=5433"

    def catch_up(self) -> None:
        """Wait until it has replayed what the primary did so far."""
        import psycopg

        commit = "SELECT pg_logical_emit_message(true, 'dpsql', '')"  # which flushes what VACUUM wrote, too
        ((now,),) = self._primary.sql(commit, "SELECT pg_current_wal_flush_lsn()::text")
        with psycopg.connect(self.words("postgres"), autocommit=True) as connection:
            while not connection.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", [now]).fetchone()[0]:  # type: ignore[index]
                time.sleep(0.01)


@cache
def server() -> Server:
    """The cluster of this process. Skips a test where there is no Postgres or no driver; in CI, fails it."""
    found = sorted(PROGRAMS.glob("*/bin/initdb"))
    for there, name, install in (
        (found, "Postgres", "apt-get install postgresql"),
        (find_spec("adbc_driver_postgresql"), "the driver of Postgres", "pip install 'dpsql[postgres]'"),
    ):
        if not there:
            missing = f"{name} is not installed: {install}"
            pytest.fail(missing) if os.environ.get("DPSQL_CLIENTS") == "required" else pytest.skip(missing)
    return Server(found[-1].parent)


def remove() -> None:
    """Stop the cluster of this process, if there is one."""
    if server.cache_info().currsize:
        server().remove()
        server.cache_clear()
