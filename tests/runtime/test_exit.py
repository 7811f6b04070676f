"""How a process ends: nothing on standard error but what went wrong, whatever was left open."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dpsql
from tests.depth import is_deep

QUICK = "relaxed_rows=16, steps=20"
BEGIN = f"""
import dpsql
db = dpsql.connect(*PATH)
db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a, i % 3 = 0 AS b FROM range(300) r(i)")
db.protect("t", epsilon=2, delta=1e-6)
release = db.synthesize("t", 1.0, {QUICK})
answers = db.query("SELECT a, count(*) AS n FROM t GROUP BY a", epsilon=0.1)
"""
SCRIPTS = {
    "closed": "db.close()",
    "a connection that is never closed": "",
    "cursors, results and relations that are open": """
cursor = db.connection.cursor()
open_result = cursor.execute("FROM dp_synthesize('t', epsilon := 1.0, relaxed_rows := 16, steps := 20)")
relation = db.connection.sql("FROM dp_budget()")
db.sql("PREPARE later AS FROM dp_budget()")
""",
    "a connection that outlives the modules": "import sys; sys.kept = db.connection; db.sql('PREPARE p AS FROM dp_budget()')",
    "a second database": "other = dpsql.connect(); other.sql('FROM dp_budget()').fetchall(); db.close()",
    "a connection of one's own": """
import duckdb
own = duckdb.connect(config={"allow_unsigned_extensions": "true"})
dpsql.install(own); dpsql.install(own.cursor())
""",
    "work at exit": "import atexit; atexit.register(lambda: db.query('SELECT b, count(*) AS n FROM t GROUP BY b', epsilon=0.1))",
    "an interrupted statement": """
import threading
def press(ended=threading.Event()):
    while not ended.wait(0.5):
        db.interrupt()
threading.Thread(target=press, daemon=False).start()
try:
    db.sql("FROM dp_synthesize('t', epsilon := 0.5, steps := 100000, relaxed_rows := 512)").fetchall()
except Exception as error:
    press.__defaults__[0].set()
    assert "interrupted" in str(error).lower(), error
""",
}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Python in a process of its own."""
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.slow
@pytest.mark.parametrize("end", SCRIPTS)
def test_a_script_ends_in_silence(tmp_path, forked, end):
    """In a fork; before a release in a process of its own."""
    script = tmp_path / "script.py"
    script.write_text(BEGIN.replace("*PATH", repr(str(tmp_path / "bank.duckdb"))) + SCRIPTS[end])
    if is_deep():
        done = run(str(script))
        assert (done.returncode, done.stderr) == (0, "")
    else:
        status, _, err = forked(path=str(script))
        assert (status, err) == (0, "")


@pytest.mark.medium
def test_a_script_that_is_not_silent_is_seen(tmp_path, forked):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n\nclass Last:\n    def __del__(self):\n        sys.stderr.write('at the end')\n\nlast = Last()\n"
    )
    assert forked(path=str(script)) == (0, "", "at the end")


@pytest.mark.medium
def test_an_exception_prints_its_traceback_alone(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(BEGIN.replace("*PATH", "") + "kept = [db.connection.cursor()]\n1 / 0\n")
    done = run(str(script))
    assert done.returncode == 1
    assert re.fullmatch(
        r'Traceback \(most recent call last\):\n  File ".*script.py", line \d+, in <module>\n    1 / 0\n'
        r"(    [~^]+\n)?ZeroDivisionError: division by zero\n",
        done.stderr,
    )


FORKS = """
import json, os, runpy, sys
import dpsql.api.arguments, dpsql.api.cli, dpsql.api.database, dpsql.release.pipeline, pandas
for line in sys.stdin:
    command = json.loads(line)
    child = os.fork()
    if not child:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
for number, path in enumerate([os.devnull, command["out"], command["err"]]):
    os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), number)
if "path" in command:  # its names are this module's, so that they are there until the process ends
    exec(compile(open(command["path"]).read(), command["path"], "exec"))
else:
    sys.argv = ["dpsql", *command["arguments"]]
    runpy.run_module("dpsql", run_name="__main__", alter_sys=True)
"""


@pytest.fixture(scope="module")
def forked(tmp_path_factory, pytestconfig):
    """A script or a command in a process that was forked from one that has imported dpsql, which takes two seconds.

    It ends as every script does, because the fork leaves the loop and runs to the end of the script. The status, and
    what is on standard output and on standard error.
    """
    folder = tmp_path_factory.mktemp("forked")
    one = subprocess.Popen([sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    pytestconfig.add_cleanup(one.communicate)  # when all tests have ended, so that no test pays for its end
    numbers = itertools.count()

    def run_one(**command: object) -> tuple[int, str, str]:
        out, err = (folder / f"{name} of {next(numbers)}" for name in ("out", "err"))
        assert one.stdin is not None
        assert one.stdout is not None
        print(json.dumps({**command, "out": str(out), "err": str(err)}), file=one.stdin, flush=True)
        status = int(one.stdout.readline())
        return status, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8")

    return run_one


@pytest.mark.medium
@pytest.mark.parametrize("arguments", [[], ["--version"], ["doctor"]], ids=str)
def test_a_command_by_itself_ends_in_silence(arguments):
    done = run("-m", "dpsql", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


@pytest.mark.medium
def test_a_command_that_is_not_silent_is_seen(forked):
    """Whether a fork shows what a process of its own does."""
    status, out, err = forked(arguments=["budget", "/nowhere/at.duckdb"])
    assert (status, out) == (1, "")
    assert "/nowhere/at.duckdb" in err


@pytest.mark.slow
def test_commands_end_in_silence(tmp_path, forked):
    bank, new, output = (str(tmp_path / name) for name in ("bank.duckdb", "new.duckdb", "out.csv"))
    script = tmp_path / "script.sql"
    script.write_text("-- wards\nUPDATE wards SET ward = 2;\nFROM wards;\n")
    with dpsql.connect(bank) as db:
        db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a, i % 3 = 0 AS b FROM range(300) r(i)")
        db.protect("t", epsilon=2, delta=1e-6)
        db.sql(f"COPY (SELECT a, b FROM t LIMIT 200) TO '{tmp_path}/own.csv'")
    quick = ["--option", "relaxed_rows=16", "--option", "steps=20"]
    for command in (
        ["synthesize", bank, "t", "--epsilon", "1", "--output", output, *quick],
        ["sql", bank, "SELECT a, n FROM dp_query('SELECT a, count(*) AS n FROM t GROUP BY a', epsilon := 0.1)"],
        ["sql", bank, "FROM dp_plan('t', epsilon := 0.5)"],
        ["sql", new, "CREATE TABLE wards AS SELECT 1 AS ward", "FROM wards", "--output", "csv"],
        ["sql", new, str(script), "--to", str(tmp_path / "wards.parquet")],
        ["budget", bank],
        ["evaluate", bank, "--table", "t", "--release", "2"],
        ["user", "add", bank, "carol", "--limit", "t=0.5"],
        ["user", "limit", bank, "carol", "t=0.25"],
        ["user", "rotate", bank, "carol"],
        ["user", "share", bank, "on"],
        ["user", "list", bank],
        ["releases", bank],
        ["publish", bank, "2", "synthetic", "--audience", "everyone"],
        ["unpublish", bank, "synthetic"],
        ["user", "revoke", bank, "carol"],
        ["ledger", "verify", bank],
        ["ledger", "raise", bank, "t", "--epsilon", "2.5", "--reason", "the board allows it"],
        ["ledger", "forgive", bank, "t", "--reason", "the machine was stopped"],
        ["ledger", "settle", bank, "--reason", "all else is public"],
        ["ledger", "retire", bank, "t", "--reason", "the study has ended"],
        ["completion", "bash"],
        ["demo", "--input", str(tmp_path / "own.csv"), "--database", str(tmp_path / "demo.duckdb")],
    ):
        status, out, err = forked(arguments=command)
        assert (status, err) == (0, ""), command
        assert out, command


@pytest.mark.slow
def test_the_first_example_ends_in_silence(tmp_path):
    """README's first example as a script: a connection at module level, which nobody closes."""
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    opened, statements = re.findall(r"```(?:python|sql)\n(.*?)```", text, re.DOTALL)[:2]
    assert "dpsql.connect(" in opened
    assert "dp_synthesize(" in statements
    script = tmp_path / "script.py"
    script.write_text(f"import os\nos.chdir({str(tmp_path)!r})\n{opened}\ndb.sql({statements!r})\n", encoding="utf-8")
    done = run(str(script))
    assert (done.returncode, done.stderr) == (0, "")
