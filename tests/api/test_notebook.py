"""A real kernel runs a notebook: connect, protect, ask, interrupt a fit, and go on from what was charged."""

from __future__ import annotations

import sys
import warnings
from importlib.util import find_spec

import pytest

import dpsql

NEEDED = ("ipykernel", "nbclient", "ipywidgets")
pytestmark = pytest.mark.skipif(
    any(find_spec(name) is None for name in NEEDED) or sys.platform == "win32", reason=f"needs {', '.join(NEEDED)}"
)
FIT = "%%dp\nFROM dp_synthesize('t', epsilon := 1.0, rows := 90, steps := 300, relaxed_rows := 100)"
PRESS = """
import os, signal
from dpsql.runtime import notebook_bar
from dpsql.runtime.notebook_bar import NotebookBar
notebook_bar._DELAY = 0.0  # a fast machine fits in less
show = NotebookBar._show
def press(self):  # the button, as soon as the bar of the fit is there
    show(self)
    if "fitting" in self._bar.desc:
        NotebookBar._show = show
        os.kill(os.getpid(), signal.SIGINT)
NotebookBar._show = press
"""
CELLS = {
    "load": "%load_ext dpsql",
    "nowhere": "%dp_connect nowhere.duckdb",
    "connect": "%dp_connect bank.duckdb --create",
    "protect": "%%dp\nCREATE TABLE t AS SELECT i % 2 = 0 AS a, i % 3 AS b FROM range(900) r(i);\n"
    "CALL dp_protect('t', epsilon := 3.0, delta := 1e-9);\n"
    "CALL dp_domain('t', 'b', lower := 0, upper := 3, bins := 3)",
    "assign": "%%dp answers <<\nFROM dp_query('SELECT a, count(*) AS n FROM t GROUP BY a', epsilon := 0.5)",
    "names": "import pandas as pd\nwords = pd.DataFrame({'a': [True], 'word': ['<b>yes']})",
    "joined": "%dp SELECT word, n FROM answers JOIN words USING (a)",
    "wrong": "%%dp\nSELECT nothing FROM t",
    "press": PRESS,
    "interrupted": FIT,
    "again": FIT,
}


@pytest.fixture
def ran(tmp_path):
    """What each cell showed."""
    import nbclient
    import nbformat
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    class Client(nbclient.NotebookClient):
        """Sees the bars that are shown meanwhile."""

        def process_message(self, msg, cell, cell_index):
            if msg["msg_type"] == "display_data" and cell.source == FIT:
                bars.append(msg["content"]["data"]["text/plain"])
            return super().process_message(msg, cell, cell_index)

    class Manager(AsyncKernelManager):
        """Starts this very Python."""

        @property
        def kernel_spec(self):
            argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
            return KernelSpec(argv=argv, display_name="dpsql", language="python")

    bars: list[str] = []
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS.values()]
    notebook = nbformat.v4.new_notebook(cells=cells)
    with warnings.catch_warnings(action="ignore"):  # of the client's own event loop
        client = Client(
            notebook,
            timeout=300,
            allow_errors=True,
            kernel_manager_class=Manager,
            resources={"metadata": {"path": str(tmp_path)}},
        )
        client.execute()
    return {name: cell.outputs for name, cell in zip(CELLS, notebook.cells, strict=True)} | {"bars": bars}


def shown(outputs) -> str:
    """All that a cell shows, as text."""
    texts = []
    for output in outputs:
        data = output.get("data", {})
        texts += [output.get("text", ""), data.get("text/html", data.get("text/plain", ""))]
        texts += output.get("traceback", [])
    return "\n".join(texts)


@pytest.mark.medium
def test_a_notebook(ran, tmp_path):
    assert ran["load"] == ran["assign"] == ran["names"] == []
    assert shown(ran["nowhere"]).strip() == (
        "DpsqlError: there is no database file 'nowhere.duckdb'; %dp_connect --create makes one"
    )
    assert "db = bank.duckdb" in shown(ran["connect"])
    assert "<table" in shown(ran["protect"])
    assert "&lt;b&gt;yes" in shown(ran["joined"])
    assert "<b>" not in shown(ran["joined"])
    assert "Traceback" not in shown(ran["wrong"])
    assert 'Referenced column "nothing" not found' in shown(ran["wrong"])
    assert ran["bars"][0].startswith("dpsql ")  # it was there, in the cell that runs, and nothing is left of it
    emptied, told = ran["interrupted"]
    assert emptied["data"] == {"text/plain": ""}
    assert told["ename"] == "KeyboardInterrupt"
    assert told["traceback"] == [
        "interrupted; release 4 of t is charged with epsilon 1; what was charged is kept, "
        "the same cell goes on from it, free"
    ]
    assert "the first 20 rows" in shown(ran["again"])
    assert ran["again"][-1]["output_type"] == "execute_result"
    with dpsql.connect(tmp_path / "bank.duckdb") as db:
        assert db.ledger().query("kind == 'charge'").epsilon.tolist() == [0.5, 1.0]
        assert db.releases().state.tolist() == ["published", "published"]


def test_a_table_in_html_is_escaped_and_bounded(db):
    html = db.sql("SELECT '<script>' || i AS \"a<b\", NULL AS nothing, i FROM range(100) r(i)")._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;19" in html
    assert "&lt;script&gt;20" not in html
    assert "a&lt;b" in html
    assert "the first 20 rows, 3 columns" in html
    assert "NULL" in html
    wide = db.sql(f"SELECT {', '.join(f'{i} AS c{i}' for i in range(50))}")._repr_html_()
    assert "50 columns, of which 40 are shown" in wide
    assert "1 row," in wide


@pytest.mark.medium
def test_a_release_shows_itself(db):
    """Ten rows of a release, and what `repr` says of it."""
    db.sql("CREATE TABLE t AS SELECT i % 3 = 0 AS sick FROM range(1000) r(i)")
    db.protect("t", epsilon=3.0, delta=1e-9)
    release = db.synthesize("t", 1.0, rows=50, mechanism="direct")
    html = release._repr_html_()
    assert html.count("<tr") == 11
    assert "Release 2 of t: 50 rows" in html
