"""What the documentation says is there, is complete, and runs."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from dpsql.udfs import FUNCTIONS

import dpsql
from dpsql.api.cli import main
from dpsql.mechanisms.base import options_of, registered

from . import tables

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")


@pytest.mark.medium
def test_every_sql_block_of_the_readme_runs(db):
    blocks = re.findall(r"```sql\n(.*?)```", README, re.DOTALL)
    assert len(blocks) >= 8
    for block in blocks:
        for statement in db.connection.extract_statements(block):
            try:
                db.connection.execute(statement).fetchall()
            except Exception as error:
                raise AssertionError(f"{statement.query}\n{error}") from error
    spent = dict(db.sql("SELECT source, releases FROM dp_budget()").fetchall())
    assert spent == {"claims": 2, "patients": 5, "stays": 1, "visits": 15, "votes": 1}
    assert db.sql("FROM synthetic EXCEPT ALL FROM copy").fetchall() == []


@pytest.mark.medium
def test_every_python_block_of_the_readme_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(blocks) == 3
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
        names["db"].close()
    shown = capsys.readouterr().out
    assert "│ Bern" in shown
    assert "is more than the budget of clients has left" in shown


@pytest.mark.medium
def test_what_lets_analysts_in_runs_as_it_is_written(tmp_path, monkeypatch, capsys):
    """The section's Python, and then its commands, on the same file."""
    monkeypatch.chdir(tmp_path)
    section = README.partition("## Let analysts in")[2].partition("\n### ")[0]
    (block,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    names: dict[str, object] = {}
    exec(block, names)
    assert names["answers"].num_rows == 2
    assert names["shown"].num_rows == 100
    assert names["left"][0]["epsilon_left"] < 0.5
    names["db"].close()
    (commands,) = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    for line in commands.splitlines():
        command, *arguments = shlex.split(line, comments=True)
        assert command == "dpsql"
        assert main(arguments) == 0, line
    assert names["token"] not in capsys.readouterr().out
    assert main(["ledger", "verify", "wards.duckdb"]) == 0


@pytest.mark.medium
def test_the_guarantee_that_is_explained_is_one(db):
    """The page's example, and the very words that it explains."""
    page = (ROOT / "docs" / "guarantee.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    for statement in db.connection.extract_statements(block):
        found = db.connection.execute(statement).fetchall()
    quoted = " ".join(line.removeprefix("> ") for line in page.splitlines() if line.startswith("> "))
    assert found[0][1] == quoted


@pytest.mark.parametrize("page", tables.PAGES)
def test_the_tables_are_those_of_the_registers(page):
    """To write them anew: `python -m tests.docs.tables --write`."""
    text = (ROOT / page).read_text(encoding="utf-8")
    assert tables.made(text) == text
    assert text.count("<!-- end -->") == text.count("<!-- made by tests.docs.tables: ")


def test_a_table_that_was_changed_by_hand_is_noticed():
    """The broken twin."""
    assert tables.made(README.replace("the default, for synthetic data", "the best")) == README


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
def test_every_function_and_parameter_says_what_it_is(function):
    assert function.__doc__
    assert f"### {function.name}(" in REFERENCE
    for parameter in function.parameters:
        assert parameter.help


def test_every_function_is_a_file_of_its_own():
    files = sorted(path.stem for path in (ROOT / "udfs").glob("dp_*.py"))
    assert [function.name for function in FUNCTIONS] == files
    assert [function.__module__.rpartition(".")[2] for function in FUNCTIONS] == files


@pytest.mark.parametrize("name", sorted(registered()))
def test_every_option_of_a_mechanism_says_what_it_is(name):
    assert {*tables.documented_options(registered()[name])} == options_of(name)
    assert registered()[name].when


def test_functions_are_listed_by_duckdb(db):
    sql = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'table'"
    listed = {name for (name,) in db.sql(sql).fetchall()}
    assert {function.name for function in FUNCTIONS} <= listed


@pytest.mark.medium
@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_examples_run(example, tmp_path):
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.medium
@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.sql")), ids=lambda path: path.name)
def test_sql_examples_run_and_what_they_say_holds(db, example):
    checked = 0
    for statement in db.connection.extract_statements(example.read_text(encoding="utf-8")):
        found = db.connection.execute(statement)
        names, rows = [column[0] for column in found.description or ()], found.fetchall()
        if names == ["holds"]:
            assert rows == [(True,)], statement.query
            checked += 1
    assert checked


def test_versions_agree():
    assert f"## {dpsql.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
