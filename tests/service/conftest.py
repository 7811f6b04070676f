from __future__ import annotations

import gzip
import itertools
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import duckdb
import pytest

import dpsql
from tests.conftest import DATA, declare_from_data
from tests.engines import postgres_server

JDBC = Path("/usr/share/java/postgresql.jar")
ODBC = "PostgreSQL Unicode"


def need(found: object, client: str, install: str) -> None:
    """Skip a test whose client was not found; in CI, which installs them all, fail."""
    if not found:
        missing = f"{client} is not installed: {install}"
        pytest.fail(missing) if os.environ.get("DPSQL_CLIENTS") == "required" else pytest.skip(missing)


def need_psql() -> None:
    need(shutil.which("psql"), "psql", "apt-get install postgresql-client")


def need_jdbc() -> None:
    """A JDK, because the tests' source is compiled as it starts."""
    need(shutil.which("javac"), "a JDK", "apt-get install default-jdk-headless")
    need(JDBC.exists(), "PostgreSQL's JDBC driver", "apt-get install libpostgresql-jdbc-java")


def need_odbc() -> ModuleType:
    """Returns pyodbc."""
    try:
        import pyodbc
    except ImportError:  # the package, or unixODBC's library
        pyodbc = None
    need(pyodbc, "pyodbc", "pip install pyodbc")
    need(ODBC in pyodbc.drivers(), "PostgreSQL's ODBC driver", "apt-get install libodbc2 odbc-postgresql")
    return pyodbc


def need_r() -> None:
    install = "apt-get install r-base-core r-cran-rpostgresql"
    need(shutil.which("Rscript"), "R", install)
    done = subprocess.run(["Rscript", "-e", "library(RPostgreSQL)"], capture_output=True, check=False)
    need(done.returncode == 0, "RPostgreSQL", install)


def need_quack() -> None:
    if not duckdb.__version__.startswith("1.5."):
        pytest.skip("the extension quack has a wheel for DuckDB 1.5 only")
    names = [f"duckdb-{name}" for name in ("extension-quack", "extension-httpfs", "cli")]
    found = [find_spec(name.replace("-", "_")) for name in names]
    wanted = " ".join(f"{name}=={duckdb.__version__}" for name in names)
    need(all(found), "DuckDB's extension quack, or its command", f"pip install {wanted}")


_PORTS = (10_000 + number % 20_000 for number in itertools.count(97 * os.getpid()))
"""Below those that the system gives away, and apart for each process that runs tests."""


def free_port() -> int:
    """A port that nobody listens on, and that nobody is given before its server is there."""
    for port in _PORTS:
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError


psycopg = pytest.importorskip("psycopg")
pytest.importorskip("pyarrow")

USERS = {"alice": "analyst", "rita": "reader"}
CANARY = "canary-4711-private"
SHOWN = """
    CREATE TYPE mood AS ENUM ('sad', 'ok');
    CREATE TABLE shown AS SELECT
        i, i % 3 = 0 AS b, i::SMALLINT AS small, i::INTEGER AS whole, (i / 7)::DECIMAL(9, 2) AS x,
        (i * 1e15)::DECIMAL(38, 4) AS wide, i::HUGEINT * 10000000000000000000 AS huge, (i / 3.0)::FLOAT AS f,
        CASE WHEN i % 2 = 0 THEN i / 3.0 END::DOUBLE AS n,
        DATE '1999-12-30' + i::INT AS d, TIME '10:00:00.5' AS time,
        TIMESTAMP '1999-12-31 10:00:00.5' + INTERVAL (i) HOUR AS t, TIMESTAMPTZ '2020-01-01 10:00:00+02' AS tz,
        INTERVAL (i) MONTH + INTERVAL (i) DAY - INTERVAL (i) SECOND AS iv, md5(i::VARCHAR)::UUID AS u,
        ('\\x00\\xFF' || i)::BLOB AS bl, (CASE WHEN i % 2 = 0 THEN 'sad' ELSE 'ok' END)::mood AS m,
        [i, i + 1] AS l, {'a': i, 'b': 'x'} AS st, 'text ' || i || chr(10) || '"quoted", and a tab' || chr(9) AS s,
        NULL::INTEGER AS nothing
    FROM range(1000) r(i);
"""


@dataclass
class Served:
    service: object
    path: Path
    tokens: dict[str, str]

    def dsn(self, user: str = "alice", password: str | None = None, **more: object) -> str:
        parts = {
            "host": "127.0.0.1",
            "port": self.service.port,
            "user": user,
            "password": password or self.tokens[user],
            "dbname": "dpsql",
            "sslmode": "verify-full",
            "sslrootcert": self.service.certificate,
            **more,
        }
        return " ".join(f"{name}={value}" for name, value in parts.items())


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service of Adult, and of a table with every type that is published."""
    with serving(tmp_path_factory.mktemp("served")) as service:
        yield service


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service of a small table, and of one with every type."""
    with browsing(tmp_path_factory.mktemp("browsed")) as service:
        yield service


@contextmanager
def browsing(folder: Path, shown: str = SHOWN) -> Iterator[Served]:
    """A service of a small table, which starts fast, and of one that is published."""
    from dpsql.service.supervisor import serve

    path = folder / "bank.duckdb"
    with dpsql.connect(str(path)) as db:
        db.sql(shown)
        db.sql("CREATE TABLE visits AS SELECT i % 4 = 0 AS ill FROM range(100) r(i)")
        db.protect("visits", epsilon=3.0, delta=1e-9)
        token = db.users.add("alice", limits={"visits": 1.0})
    with serve(str(path), port=0, directory="tests.service.typed:open_typed") as service:
        yield Served(service, path, {"alice": token})


@pytest.fixture(scope="module")
def browsed(small: Served) -> Iterator[psycopg.Connection]:
    """A connection of alice's to the small service."""
    with psycopg.connect(small.dsn(), autocommit=True) as connection:
        yield connection


@contextmanager
def serving(folder: Path, **options: object) -> Iterator[Served]:
    from dpsql.service.supervisor import serve

    if not DATA.is_dir():
        pytest.skip("the real tables are not beside the checkout")
    path = folder / "bank.duckdb"
    with gzip.open(DATA / "adult.csv.gz") as source, (folder / "adult.csv").open("wb") as target:
        shutil.copyfileobj(source, target)
    with dpsql.connect(str(path)) as db:
        db.sql(f"CREATE TABLE adult AS FROM '{folder}/adult.csv'")
        db.protect("adult", epsilon=3.0, delta=1e-9)
        declare_from_data(db, "adult")
        db.sql(f"CREATE TABLE secret AS SELECT '{CANARY}' AS note FROM range(10)")
        note = f"CASE WHEN i % 40 = 0 THEN '{CANARY}-asked' ELSE 'usual' END"
        db.sql(f"CREATE TABLE asked AS SELECT {note} AS note, i % 5 AS size FROM range(2000) r(i)")
        db.protect("asked", epsilon=3.0, delta=1e-9)
        db.domain("asked", "note", values=["usual", "rare"])
        db.domain("asked", "size", lower=0, upper=4)
        db.sql(SHOWN)
        tokens = {name: db.users.add(name, role) for name, role in USERS.items()}
        db.users.limit("alice", "adult", 3.0)
        db.users.limit("alice", "asked", 2.0)
    stated = {"port": 0, "directory": "tests.service.typed:open_typed", "statement_seconds": 20.0, **options}
    with serve(str(path), **stated) as service:
        yield Served(service, path, tokens)


@pytest.fixture(scope="module")
def real(pytestconfig: pytest.Config) -> Iterator[psycopg.Connection]:
    """A connection to a real PostgreSQL, beside which the service's answers are laid."""
    server = postgres_server.server()
    pytestconfig.add_cleanup(postgres_server.remove)
    server.start()  # a test of another engine may have stopped it
    with psycopg.connect(server.words(), autocommit=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection
