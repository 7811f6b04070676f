"""The page about command line, notebook, dbt and clients: its commands and its Python run."""

from __future__ import annotations

import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import duckdb
import pytest

from dpsql.api.cli import build_parser, main

PAGE = (Path(__file__).parents[2] / "docs" / "parts" / "cli.md").read_text(encoding="utf-8")


@pytest.mark.medium
def test_the_commands_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    query = "FROM dp_query('SELECT smoker, count(*) AS n FROM visits GROUP BY smoker', epsilon := 0.1)"
    Path("report.sql").write_text(f"-- asked each week\n{query};\n")
    (block,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines():
        command, *arguments = shlex.split(line, comments=True)
        assert command == "dpsql"
        assert main(arguments) == 0, line
    assert Path("answers.csv").read_text().startswith("smoker,n,n_stderr")


def test_the_options_are_those_of_the_command():
    (sql,) = [action.choices["sql"] for action in build_parser()._actions if getattr(action, "choices", None)]
    documented = set(re.findall(r"^\| `(--\w[\w-]*)", PAGE, re.MULTILINE))
    assert documented == {name for name in sql._option_string_actions if name.startswith("--")} - {"--help"}


@pytest.mark.medium
@pytest.mark.skipif(find_spec("ibis") is None, reason="needs ibis-framework")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ibis calls methods that DuckDB will rename
def test_the_python_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block, names)
    frames = [names["pandas_frame"], names["polars_frame"], names["arrow_table"]]
    assert {(len(frame), frame.shape[1]) for frame in frames} == {(1000, 2)}
    assert names["counted"] == 1000
    expected = names["db"].sql("SELECT ward, avg(smoker::INT) FROM synthetic GROUP BY ward ORDER BY ward").fetchall()
    assert [tuple(row) for row in names["smokers"].itertuples(index=False)] == [pytest.approx(row) for row in expected]
    names["db"].close()
    assert duckdb.sql("SELECT count(*) FROM 'synthetic.parquet'").fetchall() == [(1000,)]
