"""The bridge: what a table function written in Python can do inside DuckDB."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import pytest
from dpsql.udfs import extension
from dpsql.udfs.bridge import callbacks
from dpsql.udfs.bridge.connections import Connections
from dpsql.udfs.bridge.declare import Call, Parameter, Query, Relation, TableFunction

from dpsql.errors import DpsqlError, InvalidArgument

EVERY_TYPE = """
    SELECT * REPLACE (coalesce(varchar, 'x') AS varchar) FROM test_all_types()
"""


class Squares(TableFunction):
    name = "squares"
    parameters = (Parameter("upto", "BIGINT", positional=True), Parameter("power", "BIGINT", default=2))

    def bind(self, call: Call) -> Relation:
        if call["upto"] < 0:
            raise InvalidArgument(f"upto is {call['upto']}: give a number of at least 0")
        return Query(
            f"SELECT i, (i ** {call['power']:d})::BIGINT AS power FROM range({call['upto']:d}) t(i)", call["upto"]
        )


class Echo(TableFunction):
    """Every argument as Python saw it."""

    name = "echo"
    parameters = (
        Parameter("text", "VARCHAR", positional=True),
        Parameter("any", "ANY", default=None),
        Parameter("texts", "VARCHAR[]", default=()),
        Parameter("flag", "BOOLEAN", default=False),
        Parameter("share", "DOUBLE", default=0.5),
    )

    def bind(self, call: Call) -> Relation:
        columns = ", ".join("'" + repr(call[p.name]).replace("'", "''") + f"' AS c_{p.name}" for p in self.parameters)
        return Query(f"SELECT {columns}")


class Everything(TableFunction):
    name = "everything"
    parameters = ()

    def bind(self, call: Call) -> Relation:
        return Query("FROM every_type")


class Needs(TableFunction):
    name = "needs"
    parameters = (Parameter("epsilon", "DOUBLE"),)

    def bind(self, call: Call) -> Relation:
        return Query("SELECT 1 AS one")


class Counted(TableFunction):
    """Counts how often its relation runs: binding must not run it."""

    name = "counted"
    parameters = ()

    def __init__(self) -> None:
        self.runs = 0

    def bind(self, call: Call) -> Relation:
        outer = self

        class Run(Relation):
            schema = "SELECT 1::BIGINT AS run, 'x' AS other"

            def run(self) -> str:
                outer.runs += 1
                return f"SELECT {outer.runs}::BIGINT AS run, 'x' AS other"

        return Run()


class Broken(TableFunction):
    name = "broken"
    parameters = (Parameter("when", "VARCHAR", positional=True),)

    def bind(self, call: Call) -> Relation:
        if call["when"] == "bind":
            raise RuntimeError("canary: a private value")

        class Run(Relation):
            schema = "SELECT 1 AS one"

            def run(self) -> str:
                if call["when"] == "columns":
                    return "SELECT 'text' AS one"
                if call["when"] == "sql":
                    return "SELECT canary FROM nowhere"
                raise RuntimeError("canary: a private value")

        return Run()


@pytest.fixture
def counted() -> Counted:
    return Counted()


@pytest.fixture
def con(counted: Counted) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    functions = [Squares(), Echo(), Everything(), Needs(), counted, Broken()]
    extension.install(connection, lambda instance: functions)
    yield connection
    connection.close()


def test_rows_and_parameters(con):
    assert con.execute("FROM squares(4)").fetchall() == [(0, 0), (1, 1), (2, 4), (3, 9)]
    assert con.execute("SELECT power FROM squares(3, power := 3) WHERE i = 2").fetchall() == [(8,)]
    assert con.execute("SELECT max(i) FROM squares(?, power := ?)", [5, 1]).fetchall() == [(4,)]
    assert con.execute("SELECT count(*) FROM squares(100000)").fetchall() == [(100000,)]
    assert con.execute("FROM squares(0)").fetchall() == []


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("[1, 2]", "[1, 2]"),
        ("[1.5, 2]", "[Decimal('1.5'), Decimal('2.0')]"),
        ("['a', NULL]", "['a', None]"),
        ("DATE '2020-02-03'", "'2020-02-03'"),
        ("2.5e-9", "2.5e-09"),
        ("true", "True"),
        ("170141183460469231731687303715884105727", "170141183460469231731687303715884105727"),
        ("'it''s 🦆'", '"it\'s 🦆"'),
    ],
)
def test_any_arrives_as_written(con, sql, expected):
    assert con.execute(f"SELECT c_any FROM echo('x', \"any\" := {sql})").fetchall() == [(expected,)]


def test_lists_flags_and_defaults(con):
    row = con.execute("FROM echo('x', texts := ['a', 'b'], flag := true, share := 1)").fetchall()[0]
    assert row == ("'x'", "None", "['a', 'b']", "True", "1.0")
    assert con.execute("FROM echo('x')").fetchall() == [("'x'", "None", "()", "False", "0.5")]


def test_every_type_passes_unchanged(con):
    con.execute(f"CREATE TABLE every_type AS {EVERY_TYPE}")
    con.execute("CREATE TABLE copy AS FROM everything()")
    assert con.execute("DESCRIBE copy").fetchall() == con.execute("DESCRIBE every_type").fetchall()
    difference = "(FROM {} EXCEPT ALL FROM {})"
    for one, other in (("every_type", "everything()"), ("everything()", "every_type")):
        assert con.execute(f"SELECT count(*) FROM {difference.format(one, other)}").fetchall() == [(0,)]


def test_statements_that_use_it(con, tmp_path):
    con.execute("CREATE VIEW v AS SELECT power FROM squares(3)")
    assert con.execute("FROM v").fetchall() == [(0,), (1,), (4,)]
    con.execute("CREATE TABLE t AS FROM squares(2)")
    con.execute("INSERT INTO t FROM squares(1)")
    assert con.execute("SELECT count(*) FROM t").fetchall() == [(3,)]
    con.execute(f"COPY (FROM squares(3)) TO '{tmp_path}/out.parquet'")
    assert con.execute(f"SELECT sum(power) FROM '{tmp_path}/out.parquet'").fetchall() == [(5,)]
    joined = "WITH a AS (FROM squares(5)) SELECT count(*) FROM a JOIN squares(9) b USING (i) JOIN squares(3) USING (i)"
    assert con.execute(joined).fetchall() == [(3,)]
    con.execute("PREPARE p AS SELECT sum(i) FROM squares(4)")
    assert con.execute("EXECUTE p").fetchall() == [(6,)]
    assert con.execute("EXECUTE p").fetchall() == [(6,)]
    assert con.execute("CALL squares(1)").fetchall() == [(0, 0)]


def test_more_joined_calls_than_streams(con):
    tables = ", ".join(f"squares(3) s{i}" for i in range(2 + Connections.STREAMS))
    assert con.execute(f"SELECT count(*) FROM {tables}").fetchall() == [(3 ** (2 + Connections.STREAMS),)]


def test_listed_by_duckdb_functions(con):
    row = con.execute(
        "SELECT function_type, parameters FROM duckdb_functions() WHERE function_name = 'squares'"
    ).fetchall()
    assert row[0][0] == "table"


def test_binding_does_not_run(con, counted):
    con.execute("EXPLAIN FROM counted()").fetchall()
    con.execute("DESCRIBE FROM counted()").fetchall()
    con.execute("PREPARE q AS FROM counted()")
    con.execute("CREATE VIEW w AS FROM counted()")
    relation = con.sql("FROM counted()")
    assert counted.runs == 0
    assert relation.fetchall() == [(1, "x")]
    assert con.execute("EXECUTE q").fetchall() == [(2, "x")]
    assert con.execute("FROM w").fetchall() == [(3, "x")]
    assert con.execute("FROM counted() LIMIT 0").fetchall() == []
    assert counted.runs == 3


def test_cardinality_reaches_the_optimiser(con):
    plan = con.execute("EXPLAIN FROM squares(123456)").fetchall()[0][1]
    assert "123,456" in plan or "123456" in plan


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("FROM squares(-1)", "upto is -1"),
        ("FROM squares('many')", "(?i)many|No function matches"),
        ("FROM squares()", "No function matches"),
        ("FROM squares(1, wrong := 2)", "wrong"),
        ("FROM squares(NULL)", "upto is NULL"),
        ("FROM needs()", "epsilon is missing: say needs"),
        ("FROM needs(epsilon := NULL)", "epsilon is NULL"),
        ("FROM broken('bind')", r"internal error \(RuntimeError\)"),
        ("FROM broken('run')", r"internal error \(RuntimeError\)"),
        ("FROM broken('columns')", "columns changed"),
    ],
)
def test_errors(con, sql, message):
    with pytest.raises(duckdb.Error, match=message) as caught:
        con.execute(sql).fetchall()
    assert "canary" not in str(caught.value)
    assert con.execute("SELECT 1").fetchall() == [(1,)]


def test_errors_carry_the_caret(con):
    with pytest.raises(duckdb.Error, match=r"LINE 1: FROM squares\(-1\)\n +\^"):
        con.execute("FROM squares(-1)")


class Allocated(ctypes.Structure):
    """`struct mallinfo2` of the C library: bytes of all its arenas."""

    _fields_ = (
        ("before", ctypes.c_size_t * 4),
        ("hblkhd", ctypes.c_size_t),
        ("between", ctypes.c_size_t * 2),
        ("uordblks", ctypes.c_size_t),
        ("after", ctypes.c_size_t * 2),
    )


def allocated() -> int:
    """Bytes that this process has allocated and not freed; those of Python's objects with `PYTHONMALLOC=malloc`.

    What the system counts as resident comes and goes by megabytes with DuckDB's own allocator.
    """
    read = ctypes.CDLL(None).mallinfo2
    read.restype = Allocated
    now = read()
    return now.uordblks + now.hblkhd


def growth(leaked: int) -> tuple[float, int]:
    """Bytes that this process grows by in a call, and calls held, where each keeps `leaked` bytes."""
    con = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    con.execute("SET threads = 1")
    extension.install(con, lambda instance: [Squares()])
    kept = []

    def call(count: int) -> None:
        for index in range(count):
            con.execute("SELECT sum(power) FROM squares(10, power := 2)").fetchall()
            kept.append(b"\1" * leaked)
            if index % 10 == 0:
                with pytest.raises(duckdb.Error):
                    con.execute("FROM squares(-1)")
                con.execute("FROM squares(100000) LIMIT 1").fetchall()
        con.execute("SELECT 1").fetchall()  # frees the result before it
        gc.collect()

    call(500)
    held, memory = callbacks.held(), allocated()
    call(1500)
    return (allocated() - memory) / 1500, callbacks.held() - held


def alone(leaked: int) -> tuple[float, int]:
    """`growth` in a process of its own, where no other test allocates."""
    script = f"from tests.udfs.test_bridge import growth; print(*growth({leaked}))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONMALLOC": "malloc"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    grown, held = done.stdout.split()
    return float(grown), int(held)


@pytest.mark.slow
def test_calls_leak_nothing():
    grown, held = alone(0)
    assert held == 0
    assert grown < 150


@pytest.mark.slow
def test_a_leak_of_two_hundred_bytes_per_call_would_show():
    grown, _ = alone(200)
    assert grown > 150


@pytest.mark.medium
def test_threads_and_cursors(con):
    failures = []

    def work(cursor: duckdb.DuckDBPyConnection, number: int) -> None:
        try:
            for _ in range(50):
                assert cursor.execute("SELECT count(*) FROM squares(?)", [number]).fetchall() == [(number,)]
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(con.cursor(), 1000 * n)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_interrupt_between_chunks(con, interrupting):
    """DuckDB itself notices con.interrupt() between two chunks of a long scan."""
    with interrupting(con, 0.3), pytest.raises(duckdb.Error, match=r"(?i)interrupt"):
        con.execute("SELECT sum(hash(i)) FROM squares(2000000000, power := 1)").fetchall()


def test_closing_the_connection_ends_the_instance(tmp_path):
    path = str(tmp_path / "bank.duckdb")
    connection = duckdb.connect(path, config={"allow_unsigned_extensions": "true"})
    extension.install(connection, lambda instance: [Squares()])
    cursor = connection.cursor()
    assert cursor.execute("SELECT count(*) FROM squares(5)").fetchall() == [(5,)]
    connection.close()
    duckdb.connect(path).close()  # another configuration: refused while the first instance lives


def test_nothing_of_ours_is_listed_among_the_users_objects(con):
    """The guard that tells when a connection is closed is in no catalog."""
    con.execute("CREATE TABLE mine AS SELECT 1 AS a")
    assert con.execute("SHOW ALL TABLES").fetchall()[0][2] == "mine"
    assert con.execute("SHOW TABLES").fetchall() == [("mine",)]
    assert con.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall() == []
    assert (
        con.execute("SELECT function_name FROM duckdb_functions() WHERE function_name ILIKE '%guard%'").fetchall() == []
    )


def test_a_rolled_back_transaction_does_not_end_the_instance():
    """A guard that was made in the user's transaction would go with it."""
    own = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    own.begin()
    with pytest.raises(DpsqlError, match="a transaction is open on this connection"):
        extension.install(own, lambda instance: [Squares()])
    own.rollback()
    extension.install(own, lambda instance: [Squares()])
    own.begin()
    extension.install(own, lambda instance: [Squares()])
    own.rollback()
    assert own.execute("SELECT count(*) FROM squares(5)").fetchall() == [(5,)]
    own.close()


def test_two_instances(con):
    other = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    extension.install(other, lambda instance: [Squares()])
    other.execute("CREATE TABLE only_here (a INT)")
    assert other.execute("FROM squares(1)").fetchall() == [(0, 0)]
    with pytest.raises(duckdb.Error, match="echo"):
        other.execute("FROM echo('x')")
    other.close()
    assert con.execute("FROM squares(1)").fetchall() == [(0, 0)]
