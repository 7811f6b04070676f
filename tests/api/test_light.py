"""What a process loads: fits alone need JAX, data frames alone pandas, programs alone scipy.optimize, nothing scipy.stats."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.util import find_spec

import duckdb
import pytest

import dpsql

LARGE = {"jax", "pandas", "scipy.stats", "scipy.optimize"}
SEEN = "import sys; shown = lambda: print(sorted(sys.modules))\n"
BEGIN = """
import dpsql
db = dpsql.connect()
db.sql("CREATE TABLE t AS SELECT 'ward ' || i % 3 AS ward, i % 90 AS age FROM range(900) r(i)")
db.sql("CREATE TABLE cities AS SELECT * FROM (VALUES ('ward 0', NULL), ('ward 1', 'Bern')) v(ward, city)")
db.sql("CALL dp_protect('t', epsilon := 3.0, delta := 1e-9)")
db.sql("CALL dp_domain('t', 'ward', \\"values\\" := ['ward 0', 'ward 1', 'ward 2'])")
db.sql("CALL dp_domain('t', 'age', lower := 0, upper := 90, bins := 9)")
"""
QUERIES = (
    "SELECT ward, count(*) AS n, avg(age) AS old FROM t WHERE age > 10 GROUP BY ward",
    "SELECT upper(ward) AS name, count(*) AS n FROM t GROUP BY ward HAVING n > 5 ORDER BY n",
    "SELECT city, count(*) AS n FROM t JOIN cities USING (ward) GROUP BY city",
)


def loaded(script: str) -> list[set[str]]:
    """The modules that a process has loaded, at each `shown()`."""
    done = subprocess.run([sys.executable, "-c", SEEN + script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [set(ast.literal_eval(line)) for line in done.stdout.splitlines() if line.startswith("['")]


def test_to_import_it_loads_nothing_large():
    (found,) = loaded("import dpsql; dpsql.DpsqlError; dir(dpsql); shown()")
    assert not found & {*LARGE, "duckdb", "numpy", "scipy", "sqlglot"}


def test_help_loads_nothing_large():
    script = "import runpy; sys.argv = ['dpsql', '--help']\n"
    script += "try: runpy.run_module('dpsql', run_name='__main__')\nfinally: shown()"
    (found,) = loaded(script)
    assert not found & {*LARGE, "duckdb", "numpy", "scipy", "sqlglot", "argcomplete", "IPython"}


@pytest.mark.medium
def test_to_open_a_database_loads_what_it_needs():
    """Not SciPy, of which a release needs parts: its import took a third of the time."""
    (found,) = loaded("import dpsql; db = dpsql.connect(); db.sql('FROM dp_budget()').fetchall(); shown()")
    assert not {name for name in found if name in LARGE or name.startswith("scipy.")}


def test_its_names_are_there_before_they_are_loaded():
    assert set(dpsql.__all__) <= set(dir(dpsql))
    assert all(getattr(dpsql, name) is not None for name in dpsql.__all__)
    with pytest.raises(AttributeError, match="no attribute 'conect'"):
        _ = dpsql.conect


@pytest.mark.medium
def test_queries_load_nothing_large():
    """Nor do the SQL functions, among them the one whose rows need JAX, before rows are asked for."""
    lines = ["db.sql(\"DESCRIBE FROM dp_synthesize('t', epsilon := 0.1)\").fetchall()"]
    lines += [f"assert db.sql({f'FROM dp_query({sql!r}, epsilon := 0.1)'!r}).fetchall()" for sql in QUERIES]
    lines += ["assert db.sql('FROM dp_budget()').fetchall()", "shown()"]
    lines += [f"assert len(db.query({QUERIES[0]!r}, epsilon=0.2))", "shown()"]
    in_sql, in_python = loaded(BEGIN + "\n".join(lines))
    allowed = {"pandas"} if duckdb.__version__.startswith("1.") else set()  # which DuckDB 1.5 loads for any parameter
    assert not in_sql & (LARGE - allowed)
    assert in_python & LARGE == {"pandas"}  # its result is a data frame


ASKED = """
import os, signal, sys, time
class Asked:
    def find_spec(self, name, path=None, target=None):
        if name == "jaxlib":  # JAX asks for it when it has begun
            sys.meta_path.remove(self)
            ACT
sys.meta_path.insert(0, Asked())
def work():
    return CALL
try:
    work()
except (KeyboardInterrupt, dpsql.errors.Interrupted):
    print("interrupted")
print(len(work()) > 0)
"""


@pytest.mark.medium
@pytest.mark.parametrize(
    ("act", "call"),
    [
        ("os.kill(os.getpid(), signal.SIGINT)", "db.synthesize('t', 1.0, relaxed_rows=16, steps=20).df()"),
        ("db.interrupt(); time.sleep(0.5)", "db.plan('t', 1.0, mechanism='pgm')"),
    ],
    ids=["Ctrl-C in a fit", "interrupt() in a check"],
)
def test_an_interrupt_while_jax_is_loaded_leaves_it_usable(act, call):
    if "pgm" in call and find_spec("mbi") is None:
        pytest.skip("needs mbi")
    script = BEGIN + ASKED.replace("ACT", act).replace("CALL", call)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["interrupted", "True"], done.stderr
