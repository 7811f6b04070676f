"""People's expressions are tried in a process that may die alone: theirs ends, ours and everybody's calls go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsql
from dpsql.errors import Interrupted, InvalidQuery
from dpsql.evaluation import messages, sandbox, worker, workers
from dpsql.evaluation.sandbox import check_syntax, empty_database, one_empty_database
from dpsql.language import value_types
from dpsql.runtime.progress import Quiet
from tests.processes import run_and_die

DEEP = "(rpad('[', 49000, '[') || lpad(']', 49000, ']'))"
ENDS = f"CAST(CAST(CAST({DEEP} AS JSON) AS VARIANT) AS VARCHAR) IS NULL"
CALL = "FROM dp_{}('SELECT count(*) AS n FROM t WHERE {}', epsilon := 0.1)"


@pytest.fixture
def db():
    with dpsql.connect() as db:
        db.sql("CREATE TABLE t AS SELECT (i % 100)::INTEGER AS a, (i % 3)::VARCHAR AS s FROM range(1000) r(i)")
        db.protect("t", epsilon=1.0, delta=1e-6)
        db.domain("t", "a", lower=0, upper=99)
        db.domain("t", "s", values=["0", "1", "2"])
        yield db


@pytest.mark.medium
def test_a_death_is_a_refusal_and_charges_nothing(db, monkeypatch):
    """Where a type got on the list by mistake: DuckDB dies, and the next call has a process of its own."""
    monkeypatch.setattr(value_types, "_LISTED", value_types._LISTED | {value_types._T.VARIANT})
    for name in ("plan", "query"):
        with pytest.raises(duckdb.Error, match="too large, or too deep inside another"):
            db.sql(CALL.format(name, ENDS.replace("'", "''")))
    assert db.sql(CALL.format("query", "a > 3")).fetchall()
    assert db.budget().releases[0] == 1


def test_a_death_ends_nobody_elses_work():
    """Four threads are in the middle of something when a fifth one's process dies."""
    begun, over = threading.Barrier(5), threading.Event()
    answers = []

    def work() -> None:
        with empty_database() as empty:
            begun.wait(30)
            over.wait(30)
            answers.append(empty.execute("SELECT 42").fetchall())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    with pytest.raises(InvalidQuery, match="too large"), empty_database() as empty:
        begun.wait(30)
        empty.execute(f"SELECT {ENDS}")
    over.set()
    for thread in threads:
        thread.join()
    assert answers == [[(42,)]] * 4
    assert len(workers._pool.all()) <= workers._MOST


def test_who_waits_for_a_process_gets_one_in_order_of_coming(monkeypatch):
    pool, order, threads = workers._Pool(), [], []
    monkeypatch.setattr(workers, "_pool", pool)
    monkeypatch.setattr(workers, "_thread", threading.local())
    monkeypatch.setattr(workers, "_MOST", 1)

    def next_one(number):
        with workers.worker_of_thread(None):
            order.append(number)

    with workers.worker_of_thread(None):
        for number in range(10):
            threads.append(threading.Thread(target=next_one, args=[number]))
            threads[-1].start()
            while len(pool.waiting) < number + 1:
                time.sleep(0.001)
        gone = _Gone()
        with pytest.raises(Interrupted):  # who goes leaves no place behind
            pool.take(gone)
        assert len(pool.waiting) == 10
    for thread in threads:
        thread.join()
    assert order == list(range(10))
    workers._end_all()


class _Gone(Quiet):
    def check(self):
        raise Interrupted


@pytest.mark.medium
def test_more_threads_than_processes_all_get_one():
    answers = []

    def work(number: int) -> None:
        with one_empty_database():
            for _ in range(3):
                with empty_database() as empty, empty_database() as inner:
                    answers.append((number, *empty.execute("SELECT $1::INT", [number]).fetchall()[0]))
                    assert inner.execute("SELECT 1").fetchall() == [(1,)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(workers._MOST + 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == sorted((n, n) for n in range(workers._MOST + 4) for _ in range(3))
    assert len(workers._pool.idle) <= workers._IDLE


def test_databases_share_nothing():
    with empty_database() as first:
        first.execute("CREATE TABLE left_behind AS SELECT 1 AS a")
        with empty_database() as second, pytest.raises(duckdb.CatalogException):
            second.execute("FROM left_behind")
    with empty_database() as third, pytest.raises(duckdb.CatalogException):
        third.execute("FROM left_behind")


@pytest.mark.parametrize(
    "statement",
    [
        "FROM read_csv('/etc/passwd')",
        "ATTACH '{folder}/never.duckdb'",
        "COPY (SELECT 1) TO '{folder}/never.csv'",
        "SET enable_external_access = true",
        "SET memory_limit = '1TB'",
        "INSTALL httpfs",
    ],
)
def test_the_process_reaches_nothing(statement, tmp_path):
    with empty_database() as empty, pytest.raises(duckdb.Error):
        empty.execute(statement.format(folder=tmp_path))
    assert not [*tmp_path.iterdir()]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_the_process_has_no_secret_and_no_file(db, monkeypatch, tmp_path):
    monkeypatch.setenv("DPSQL_LEDGER_KEY", "canary-4711")
    with dpsql.connect(tmp_path / "private.duckdb") as other:
        other.sql("CREATE TABLE x AS SELECT 1 AS a")
        workers._end_all()
        with empty_database() as empty:
            process = f"/proc/{empty.worker._process.pid}"
            with open(f"{process}/environ", "rb") as file:
                assert b"canary-4711" not in file.read()
            opened = [os.readlink(f"{process}/fd/{number}") for number in os.listdir(f"{process}/fd")]
            assert not [path for path in opened if path.startswith("/") and not path.startswith("/dev/")]


def _is_gone(pid: int) -> bool:
    for _ in range(2400):
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
@pytest.mark.medium
def test_it_ends_with_the_process_that_started_it_even_in_the_middle():
    """Without a `__main__` guard, from a text, killed while DuckDB is busy."""
    script = """
import threading
from dpsql.evaluation.sandbox import empty_database
with empty_database() as empty:
    print(empty.worker._process.pid, flush=True)
    empty.execute("SELECT sum(hash(a.range) % (b.range + 7)) FROM range(10000000) a, range(100000) b").fetchall()
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        time.sleep(0.3)
        process.send_signal(signal.SIGKILL)
    assert _is_gone(pid)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_has_one_of_its_own():
    script = """
import os
from dpsql.evaluation.sandbox import empty_database
with empty_database() as empty:
    empty.execute("SELECT 1")
    first = empty.worker._process.pid
child = os.fork()
if not child:
    with empty_database() as empty:
        empty.execute("SELECT 2")
        own = empty.worker._process.pid
    os._exit(0 if own != first else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
with empty_database() as empty:
    assert empty.execute("SELECT 3").fetchall() == [(3,)]
    assert empty.worker._process.pid == first
"""
    assert run_and_die(script) == 0


@pytest.mark.medium
def test_what_takes_long_ends_with_its_process(monkeypatch):
    with (
        monkeypatch.context() as short,
        pytest.raises(InvalidQuery, match="takes more than"),
        empty_database() as empty,
    ):
        short.setattr(sandbox, "_LONGEST", 0.3)
        empty.execute(f"SELECT json_pretty({DEEP})")  # which notices no interrupt
    with empty_database() as empty:
        assert empty.execute("SELECT 1").fetchall() == [(1,)]


@pytest.mark.medium
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="bounds another process")
def test_its_memory_is_bounded():
    """What one row makes of itself is not bounded by DuckDB's own limit in each version; the process's is.

    That is gigabytes, which take minutes to fill: it is looked at, and what happens there is tried at a smaller one.
    """
    import resource

    with empty_database() as empty:
        empty.execute("SELECT 1")
        process = empty.worker._process.pid
        most, _ = resource.prlimit(process, resource.RLIMIT_AS)
        assert most == worker.memory() + (2 << 30)
        (limit,) = empty.execute("SELECT current_setting('memory_limit')").fetchall()[0]
        assert limit == duckdb_size(worker.memory())
    with pytest.raises((duckdb.Error, InvalidQuery)), empty_database() as empty:
        empty.execute("SELECT 1")
        process = empty.worker._process.pid
        with open(f"/proc/{process}/statm") as file:
            taken = int(file.read().split()[0]) * resource.getpagesize()
        resource.prlimit(process, resource.RLIMIT_AS, (taken + (256 << 20), most))
        empty.execute("SELECT list(repeat(range::VARCHAR, 1000000)) FROM range(1000)").fetchall()
    workers._end_all()  # so that nobody gets this one


def duckdb_size(size: int) -> str:
    """A number of bytes as DuckDB writes its own limit."""
    with duckdb.connect(config={"memory_limit": f"{size}B"}) as con:
        return str(con.execute("SELECT current_setting('memory_limit')").fetchall()[0][0])


def test_a_text_is_parsed_there_too():
    check_syntax("SELECT 1")
    with pytest.raises(InvalidQuery, match="syntax error"):
        check_syntax("SELECT FROM FROM")
    with pytest.raises(InvalidQuery, match="nested too deeply|syntax error|Parser"):
        check_syntax("SELECT " + "[" * 19_000)


numbers = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1)).map(lambda v: np.array(v, np.int64)),
    st.lists(st.floats(width=64)).map(lambda v: np.array(v, np.float64)),
    st.lists(st.booleans()).map(lambda v: np.array(v, bool)),
)
texts = st.lists(st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]))))


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.one_of(numbers, texts)))
def test_columns_come_over_as_they_are(columns):
    masked = {name: np.array(v, object) if isinstance(v, list) else v for name, v in columns.items()}
    for name, values in masked.items():
        if values.dtype == object:
            missing = np.array([v is None for v in values], bool)
            masked[name] = np.ma.MaskedArray(values, missing) if missing.any() else values
    head, parts = messages.written(masked)
    ends = os.pipe()
    sender = threading.Thread(target=messages.send, args=(ends[1], head, parts))
    sender.start()
    back = messages.read(*messages.receive(ends[0]))
    sender.join()
    for end in ends:
        os.close(end)
    assert list(back) == list(masked)
    for name, values in masked.items():
        assert np.ma.getdata(back[name]).dtype == values.dtype
        mask = np.ma.getmaskarray(values)
        assert (np.ma.getmaskarray(back[name]) == mask).all()
        kept, came = np.ma.getdata(values)[~mask], np.ma.getdata(back[name])[~mask]
        assert kept.tobytes() == came.tobytes() if kept.dtype != object else kept.tolist() == came.tolist()


def _framed(head: object) -> bytes:
    text = json.dumps(head).encode()
    return len(text).to_bytes(8, "big") + text


@settings(max_examples=100, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=200),
        st.text(max_size=60).map(lambda text: len(text.encode()).to_bytes(8, "big") + text.encode()),
        st.recursive(
            st.one_of(st.none(), st.integers(), st.text(max_size=3), st.floats()),
            lambda inner: st.one_of(
                st.lists(inner, max_size=3),
                st.dictionaries(st.sampled_from(["columns", "result", "rows", "error"]), inner, max_size=3),
            ),
            max_leaves=8,
        ).map(_framed),
    )
)
def test_what_is_no_message_is_an_end(data):
    """From a process that a hostile text has taken over."""
    ends = os.pipe()
    os.write(ends[1], data)
    os.close(ends[1])
    try:
        head, columns = messages.receive(ends[0])
        messages.rows_of(head)
        messages.read(head, columns)
        workers._error_of(head.get("error"))
    except messages.Ended:
        pass
    finally:
        os.close(ends[0])


SIGNS = [
    "(",
    "[",
    "{'a': ",
    "CASE WHEN ",
    "NOT ",
    "- ",
    "+ ",
    "~ ",
    "f(",
    "a[",
    "(SELECT ",
    "[1, [",
    "{'a': [",
    "-(",
    "NOT (",
]


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("times", [400, 5_000])
def test_what_is_nested_too_deeply_is_refused(db, sign, times):
    text = f"SELECT count(*) AS n FROM t WHERE {sign * times}a > 3".replace("'", "''")
    for call in ("FROM dp_plan('{}', epsilon := 0.1)", "FROM dp_constraint('t', '{}')"):
        with pytest.raises(
            duckdb.Error,
            match="nested too deeply|memory exhausted|DuckDB's|syntax|not an SQL|Expecting|expected|Required",
        ):
            db.sql(call.format(text if "plan" in call else text.rpartition("WHERE ")[2]))


@pytest.mark.medium
@pytest.mark.parametrize("times", [300, 60_000])
def test_chains_of_indices_are_refused_at_once(db, times):
    """Of which sqlglot takes a time that grows with their square: 60,000 of them take a day."""
    text = f"SELECT count(*) AS n FROM t WHERE s{'[1]' * times} IS NULL"
    with pytest.raises(duckdb.Error, match=r"times x\[i\]"):
        db.sql(f"FROM dp_plan('{text}', epsilon := 0.1)")


def test_no_type_but_those_that_were_looked_at(db):
    """Every type of DuckDB's catalogue, as it is and inside others."""
    with duckdb.connect() as own:
        names = {name for (name,) in own.execute("SELECT type_name FROM duckdb_types() WHERE internal").fetchall()}
    assert {"VARIANT", "variant"} & names
    refused = 0
    for name in sorted(names | {"UNION(a INTEGER)", "STRUCT(a VARIANT)", "VARIANT[]", "INTEGER[][][][][]"}):
        query = f"SELECT count(*) AS n FROM t WHERE s::{name} IS NULL"
        try:
            db.sql(f"FROM dp_plan('{query}', epsilon := 0.1)")
        except duckdb.Error as error:
            refused += "no type that expressions may have" in str(error)
    assert refused >= 6
    assert db.budget().releases[0] == 0
