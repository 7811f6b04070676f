"""The process in which expressions are tried starts from anywhere, is left by forks, and leaves nothing behind."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
import tracemalloc

import duckdb
import numpy as np
import pytest
from dpsql.udfs import dp_plan

import dpsql
from dpsql.errors import InvalidQuery
from dpsql.evaluation import messages, sandbox, workers
from dpsql.evaluation.sandbox import TooLong, empty_database, one_limit
from tests.processes import run_and_die

ASKS = """
import dpsql

def ask():
    with dpsql.connect() as db:
        db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS a FROM range(300) r(i)")
        db.protect("t", epsilon=1.0, delta=1e-6)
        assert len(db.sql("FROM dp_plan('SELECT count(*) AS n FROM t WHERE a', epsilon := 0.1)").fetchall()) == 1
"""
PLACES = {
    "a text": ("{ask}ask()", ["-c", "{text}"]),
    "standard input": ("{ask}ask()", ["-"]),
    "a file without a guard": ("{ask}ask()", ["script.py"]),
    "isolated": ("{ask}ask()", ["-I", "script.py"]),
    "a folder that was deleted": (
        "{ask}import os\nos.mkdir('x'); os.chdir('x'); os.rmdir('../x')\nask()",
        ["-c", "{text}"],
    ),
    "a fork after use": (
        "{ask}import os\nask()\nchild = os.fork()\nask()\nif not child: os._exit(0)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0",
        ["script.py"],
    ),
    "a pool of forks": (
        "{ask}import multiprocessing, concurrent.futures as f\nask()\n"
        "with f.ProcessPoolExecutor(2, multiprocessing.get_context('fork')) as pool:\n"
        "    [one.result() for one in [pool.submit(ask) for _ in range(4)]]",
        ["script.py"],
    ),
    "a pool of spawned processes": (
        "{ask}import multiprocessing\nif __name__ == '__main__':\n    ask()\n"
        "    with multiprocessing.get_context('spawn').Pool(2) as pool: pool.starmap(ask, [()] * 4)",
        ["script.py"],
    ),
}


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("writable", [True, False])
def test_it_starts_from_anywhere(tmp_path, place, writable):
    """Nothing is printed to standard error, and the process ends."""
    code, arguments = PLACES[place]
    text = code.format(ask=ASKS)
    (tmp_path / "script.py").write_text(text)
    if place != "a folder that was deleted" and not writable:
        tmp_path.chmod(0o555)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "none"), os.path.abspath(".")])}
    command = [sys.executable, *(argument.format(text=text) for argument in arguments)]
    given = text if arguments == ["-"] else None
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, input=given, capture_output=True, text=True, timeout=300, check=False
    )
    tmp_path.chmod(0o755)
    if place == "isolated" and "No module named" in done.stderr:
        pytest.skip("dpsql is not installed here")
    shown = [line for line in done.stderr.splitlines() if "DeprecationWarning" not in line and "fork()" not in line]
    assert (done.returncode, shown) == (0, [])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_a_current_directory_may_be_deleted(tmp_path, monkeypatch):
    script = f"""
import os, sys
os.chdir({str(tmp_path)!r}); os.rmdir({str(tmp_path)!r})
sys.path.insert(0, "")
from dpsql.evaluation.sandbox import empty_database
with empty_database() as empty:
    assert empty.execute("SELECT 1").fetchall() == [(1,)]
"""
    assert run_and_die(script) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_in_the_middle_of_anything_waits_for_nobody():
    """Another thread holds each lock of ours when the process is forked, and this one is in the middle of a query."""
    script = """
import os, signal, threading
from dpsql.evaluation import sandbox, workers
from dpsql.runtime import progress
from dpsql.runtime.progress import polling, unbreakable
held, over = threading.Event(), threading.Event()
def hold():
    with unbreakable, workers._pool.lock, progress._watcher.lock:
        held.set()
        over.wait()
with sandbox.one_empty_database():
    with sandbox.empty_database() as empty:
        assert empty.execute("SELECT 1").fetchall() == [(1,)]
    threading.Thread(target=hold, daemon=True).start()
    held.wait()
    child = os.fork()
    if not child:
        signal.alarm(60)
        with polling(lambda: False, lambda: None), sandbox.empty_database() as empty:
            assert empty.execute("SELECT 2").fetchall() == [(2,)]
        os._exit(0)
    over.set()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with sandbox.empty_database() as empty:
        assert empty.execute("SELECT 3").fetchall() == [(3,)]
"""
    assert run_and_die(script) == 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
@pytest.mark.medium
def test_connections_that_were_closed_leave_no_process_behind():
    script = (
        ASKS
        + """
import os, subprocess
ask()
def counted():
    children = subprocess.run(["ps", "--ppid", str(os.getpid()), "-o", "args="], capture_output=True, text=True).stdout
    return sum("dpsql.evaluation.worker" in line for line in children.splitlines()), len(os.listdir("/proc/self/fd"))
before = counted()
for _ in range(20):
    ask()
for _ in range(80):
    with dpsql.connect() as db:
        db.sql("SELECT 1")
after = counted()
assert after[0] == before[0] == 1, (before, after)
assert after[1] <= before[1] + 2, (before, after)
"""
    )
    assert run_and_die(script) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="there are no process groups")
@pytest.mark.medium
def test_ctrl_c_prints_one_traceback(tmp_path):
    """SIGINT to the whole group, as a terminal sends it, while an expression is tried."""
    script = """
from dpsql.evaluation.sandbox import empty_database
with empty_database() as empty:
    print("ready", flush=True)
    empty.execute("SELECT sum(hash(a.range) % (b.range + 7)) FROM range(10000000) a, range(100000) b").fetchall()
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.2)
        os.killpg(process.pid, signal.SIGINT)
        _, shown = process.communicate(timeout=60)
    assert process.returncode != 0
    assert shown.count("Traceback") == 1
    assert shown.strip().splitlines()[-1] == "KeyboardInterrupt"


# --- messages ---------------------------------------------------------------------------------------------------------


def _memory_to_receive(sent: bytes) -> int:
    """The bytes of memory that a message takes at most, of which no more comes."""
    ends = os.pipe()
    os.write(ends[1], sent)
    os.close(ends[1])
    tracemalloc.start()
    with pytest.raises(messages.Ended):
        messages.receive(ends[0])
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    os.close(ends[0])
    return most


@pytest.mark.parametrize("size", [1 << 27, messages._LARGEST_HEAD, 1 << 40, (1 << 64) - 1])
def test_a_length_takes_no_memory_before_its_bytes_come(size):
    assert _memory_to_receive(size.to_bytes(8, "big") + b"{") < 8 << 20


def test_columns_take_no_memory_before_their_bytes_come():
    head = b'{"columns": [["<i8", 100000000]]}'
    assert _memory_to_receive(len(head).to_bytes(8, "big") + head + b"1234") < 8 << 20


@pytest.mark.medium
def test_rows_come_back_in_so_many_bytes():
    """The process says so before it sends them, and lives; one that sends more all the same is not listened to."""
    many = "SELECT repeat('é', 100000) AS x FROM range(200)"
    with sandbox.empty_database() as empty:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(duckdb.Error, match="larger than 64 MiB: say less in each row, or show fewer rows"):
            empty.execute(many).fetchall()
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # KiB
        assert len(empty.execute(many + " LIMIT 20").fetchall()) == 20
        worker = empty.worker
    here, there = os.pipe()
    worker._from, there_before = here, worker._from
    try:
        os.write(there, (messages.MOST_OF_ROWS + 1).to_bytes(8, "big") + b"{")
        os.close(there)
        with pytest.raises(workers.Died):
            worker.ask({"do": "rows", "on": 1})
        assert os.read(here, 1) == b"{"  # of which nothing was read
    finally:
        worker._from = there_before
        os.close(here)


def test_a_head_holds_so_many_values_and_no_more(monkeypatch):
    monkeypatch.setattr(messages, "_MOST_VALUES", 1000)
    for text, is_read in ((b"[" + b"[]," * 990 + b"1]", False), (b"[" + b"1," * 900 + b"1]", True)):
        ends = os.pipe()
        head = b'{"columns": [], "rows": ' + text + b"}"
        os.write(ends[1], len(head).to_bytes(8, "big") + head)
        if is_read:
            assert len(messages.receive(ends[0])[0]["rows"]) == 901
        else:
            with pytest.raises(messages.Ended):
                messages.receive(ends[0])
        for end in ends:
            os.close(end)


def _types() -> list[str]:
    with duckdb.connect() as own:
        found = own.execute("SELECT DISTINCT upper(type_name) FROM duckdb_types() WHERE internal ORDER BY 1").fetchall()
    made = [
        "DECIMAL(38,3)",
        "DECIMAL(9,0)",
        "ENUM('a','b')",
        "STRUCT(a INTEGER)",
        "MAP(INTEGER, DATE)",
        "DATE[]",
        "DATE[2]",
    ]
    inner = {
        "DECIMAL",
        "ENUM",
        "STRUCT",
        "MAP",
        "LIST",
        "ARRAY",
        "ROW",
        "UNION",
        "TABLE",
        "ANY",
        "INVALID",
        "POINTER",
        "LAMBDA",
    }
    return [*sorted({name for (name,) in found} - inner), *made]


@pytest.mark.parametrize("kind", _types())
def test_a_column_of_any_type_comes_over_or_is_refused_by_name(kind):
    """NULL alone, and with a value where a text makes one: as DuckDB has it, or as a type that is not supported."""
    for value in ("NULL", "1", "'2024-02-29'", "'12:30:00'", "'a'", "'1 day'"):
        query = f"SELECT CAST(v AS {kind}) AS c FROM (VALUES (NULL), ({value})) t(v)"
        with duckdb.connect() as own:
            try:
                expected = own.execute(query).fetchnumpy()["c"]
            except Exception:  # no such value, or none that NumPy has
                continue
        with empty_database() as empty:
            try:
                column = empty.execute(query).fetchnumpy()["c"]
            except (duckdb.NotImplementedException, InvalidQuery) as error:
                assert "not supported" in str(error), (kind, value)
                assert np.asarray(expected).dtype == object, (kind, value)
                continue
        gone = np.ma.getmaskarray(np.ma.asarray(expected))
        assert (np.ma.getmaskarray(column) == gone).all()
        assert np.ma.getdata(column)[~gone].tolist() == np.ma.getdata(np.asarray(expected))[~gone].tolist()


# --- time ---------------------------------------------------------------------------------------------------------------


@pytest.mark.medium
def test_steps_of_one_look_up_share_its_time(monkeypatch):
    with empty_database():
        pass  # it has started
    with monkeypatch.context() as short, pytest.raises(TooLong), one_limit():
        short.setattr(sandbox, "_LONGEST", 1.0)
        for _ in range(2):  # each is shorter than the limit
            with empty_database() as empty:
                time.sleep(0.7)
                empty.execute("SELECT 1")
    for _ in range(2):
        with one_limit(), empty_database() as empty:
            assert empty.execute("SELECT 1").fetchall() == [(1,)]


@pytest.mark.medium
@pytest.mark.parametrize("door", ["sql", "execute", "connection"])
def test_a_statement_that_took_too_long_is_not_tried_again(monkeypatch, door):
    """To show the place of an error, the statement would be bound a second time."""
    tried = []
    monkeypatch.setattr(sandbox, "_LONGEST", 0.3)
    bind = dp_plan.DpPlan.bind
    monkeypatch.setattr(dp_plan.DpPlan, "bind", lambda self, call: (tried.append(call), bind(self, call))[1])
    with dpsql.connect() as db:
        db.sql("CREATE TABLE t AS SELECT i::INTEGER AS a FROM range(1000) r(i)")
        db.protect("t", epsilon=1.0, delta=1e-6)
        db.domain("t", "a", lower=0, upper=100_000)
        slow = " AND ".join(f"len(regexp_replace(a::VARCHAR, ''(.*)(.*)(.*)x{n}'', ''y'')) <> 9" for n in range(100))
        call = getattr(db, door) if door != "connection" else db.connection.execute
        with pytest.raises(duckdb.Error, match="takes more than"):
            call(f"FROM dp_plan('SELECT count(*) AS n FROM t WHERE {slow}', epsilon := 0.1)")
        assert len(tried) == 1
        assert db.budget().releases[0] == 0


def test_at_the_end_of_python_pipes_of_busy_processes_stay_open(monkeypatch):
    """A thread that still reads must not find another file under the number of its pipe."""
    pool = workers._Pool()
    monkeypatch.setattr(workers, "_pool", pool)
    monkeypatch.setattr(workers, "_thread", threading.local())
    with workers.worker_of_thread(None) as worker:
        workers._end_all()
        assert os.fstat(worker._from)
        assert not worker.is_running()
