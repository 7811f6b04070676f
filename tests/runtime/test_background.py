"""Ctrl-C while work runs that cannot be broken off: the call ends, nothing is lost, and a command's process ends too."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import dpsql
from dpsql.errors import Interrupted
from dpsql.runtime.background import in_background
from dpsql.runtime.progress import Quiet

SAID = "interrupted; what was charged is kept, the same"
BLOCKED = f"""
import os, signal, sys, threading
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background of a shell is born ignoring it
import dpsql
from dpsql.fitting.relaxed import fit_marginals
free = threading.Event()
def compile_for_ever(*_):
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    free.wait()
"""
CALL = "FROM dp_synthesize('t', epsilon := 1.0, mechanism := 'projection')"
COMMANDS = {
    "synthesize": ["synthesize", "DATABASE", "t", "--epsilon", "1", "--mechanism", "projection", "--output", "o.csv"],
    "sql": ["sql", "DATABASE", CALL],
}


@pytest.fixture
def bank(tmp_path):
    """A file with a protected table."""
    path = tmp_path / "bank.duckdb"
    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a, i % 3 = 0 AS b FROM range(300) r(i)")
        db.protect("t", epsilon=2, delta=1e-6)
    return path


def run(script: str, *arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Python in a process of its own; it is killed only where it does not end at all."""
    command = [sys.executable, "-c", BLOCKED + script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=500, cwd=cwd)


def charged(bank: Path) -> list[tuple[object, ...]]:
    """What the books say of the release that was interrupted, before and after the same call."""
    with dpsql.connect(bank) as db:
        before = db.sql("SELECT state FROM dp_releases()").fetchall()
        db.sql(CALL).fetchall()
        return [*before, *db.sql("SELECT releases FROM dp_budget()").fetchall()]


@pytest.mark.medium
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_ends_though_work_goes_on_for_ever(bank, tmp_path, command):
    script = """
from dpsql.api import cli
fit_marginals._fit = compile_for_ever
cli.command()
"""
    arguments = ["-", *(str(bank) if word == "DATABASE" else word for word in COMMANDS[command])]
    done = run("sys.argv.pop(1)" + script, *arguments, cwd=tmp_path)
    assert done.returncode == 130
    said = "At ε = 1 the plan predicts" if command == "synthesize" else ""
    assert done.stdout.startswith(said)
    assert "release" not in done.stdout
    assert len(done.stderr.splitlines()) == 1
    assert SAID in done.stderr
    assert charged(bank) == [("measured",), (1,)]


@pytest.mark.medium
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("call", ["db.synthesize('t', 1.0, mechanism='projection')", f'db.sql("{CALL}").fetchall()'])
def test_a_call_ends_though_work_goes_on(bank, tmp_path, call):
    """The process ends when the work has ended: Python would abort if it did not wait for it."""
    script = f"""
db, fit = dpsql.connect(sys.argv[1]), fit_marginals._fit
fit_marginals._fit = compile_for_ever
try:
    {call}
except BaseException as error:
    print(type(error).__name__, {SAID!r} in str(error))
print([thread.daemon for thread in threading.enumerate() if thread.name == "dpsql-background"])
free.set()
"""
    done = run(script, bank, cwd=tmp_path)
    name, said, threads = done.stdout.split(maxsplit=2)
    assert (said, threads) == ("True", "[False]\n")
    assert name == ("KeyboardInterrupt" if "db.synthesize" in call else "Interrupted")
    assert (done.returncode, done.stderr) == (0, "")
    assert charged(bank) == [("measured",), (1,)]


@pytest.mark.medium
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_control_c_is_never_lost(tmp_path):
    """Pressed at any time of a call: it ends the call, or is raised after it; a handler of the caller's is called."""
    script = """
db = dpsql.connect()
db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a FROM range(300) r(i)")
db.protect("t", epsilon=9, delta=1e-6)
query = "SELECT a, count(*) AS n FROM t GROUP BY a"
db.query(query, epsilon=0.01)
lost = 0
for number in range(40):
    timer = threading.Timer(number / 1000, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        db.query(query, epsilon=0.01, release=str(number))
        timer.join()
    except KeyboardInterrupt:
        continue
    lost += 1
print(lost)
seen = []
signal.signal(signal.SIGINT, lambda *_: seen.append(1))
fit_marginals._fit = lambda *_: os.kill(os.getpid(), signal.SIGINT) or free.wait()
try:
    db.synthesize("t", 1.0, mechanism="projection")
except dpsql.DpsqlError as error:
    print(type(error).__name__, seen)
free.set()
"""
    done = run(script, cwd=tmp_path)
    assert done.stdout.splitlines() == ["0", "Interrupted [1]"], done.stderr
    assert (done.returncode, done.stderr) == (0, "")


def test_work_that_is_left_stops_where_it_looks():
    asked, free, ended = threading.Event(), threading.Event(), threading.Event()

    def work(progress: Quiet) -> None:
        asked.set()
        free.wait()
        try:
            progress.advance()
        finally:
            ended.set()

    with pytest.raises(Interrupted):
        in_background(Quiet(asked.is_set), work)
    assert not ended.is_set()
    free.set()
    ended.wait()


def test_errors_of_the_work_are_the_callers():
    with pytest.raises(ZeroDivisionError):
        in_background(Quiet(), lambda _: 1 / 0)
