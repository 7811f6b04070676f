"""What the documentation says is there, is complete, and runs."""

from __future__ import annotations

import math
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest
from dpsql.udfs import FUNCTIONS

import dpsql
from dpsql.api.cli import build_parser, main
from dpsql.mechanisms.base import options_of, registered

from . import tables
from .prose import written

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
REFERENCE = (ROOT / "docs" / "reference" / "sql.md").read_text(encoding="utf-8")
OWN_TEST = {
    "docs/how-to/bucket.md",
    "docs/how-to/library.md",
    "docs/how-to/postgres.md",
    "docs/how-to/serve.md",
    "docs/how-to/spark.md",
    "docs/how-to/warehouses.md",
}
"""Pages that tests of their own run: tests/engines/test_*_page.py, tests/linked/test_library_page.py, tests/service/test_documentation.py."""


def blocks(page: str, language: str) -> list[str]:
    """What a page shows in a language, in order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def shown_by(page: str) -> dict[str, str]:
    """The outputs that a page shows, by the block before them: a `text` block under `<!-- what it shows -->`."""
    text = (ROOT / page).read_text(encoding="utf-8")
    pattern = r"^```\w+\n((?:(?!^```).)*?)^```\n+<!-- what it shows -->\n```text\n(.*?)^```$"
    return dict(re.findall(pattern, text, re.DOTALL | re.MULTILINE))


def shape(text: str) -> str:
    """A text without its numbers, for what noise makes differ."""
    return re.sub(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?", "0", text)


def pages_with(*languages: str) -> list[str]:
    return [page for page in written() if page not in OWN_TEST and any(blocks(page, one) for one in languages)]


def with_marks(page: str) -> Any:
    """Ibis, on the page of clients, calls what DuckDB and pandas will rename."""
    ignored = pytest.mark.filterwarnings("ignore::DeprecationWarning")
    return pytest.param(page, marks=[ignored] if page == "docs/how-to/clients.md" else [])


@pytest.mark.medium
@pytest.mark.parametrize("page", pages_with("sql"))
def test_every_sql_block_of_a_page_runs(db, page, tmp_path, monkeypatch):
    """In order, in one database: a page stands by itself."""
    monkeypatch.chdir(tmp_path)
    for block in blocks(page, "sql"):
        for statement in db.connection.extract_statements(block):
            try:
                found = db.execute(statement)
                names, rows = [column[0] for column in found.description or ()], found.fetchall()
            except Exception as error:
                raise AssertionError(f"{statement.query}\n{error}") from error
            if "impossible" in names:
                assert rows == [(0,)]
        if block in shown_by(page):
            assert "".join(f"{str(row[0]).rstrip()}\n" for row in rows) == shown_by(page)[block]
    overspent = db.sql("SELECT count(*) FROM dp_budget() WHERE epsilon_spent > epsilon").fetchall()
    assert overspent == [(0,)]
    if page == "docs/tutorial/owner.md":
        assert db.sql("FROM synthetic EXCEPT ALL FROM copy").fetchall() == []
        assert (tmp_path / "patients_synthetic.parquet").exists()


@pytest.mark.medium
@pytest.mark.parametrize("page", [with_marks(page) for page in pages_with("python", "sh")])
def test_every_python_and_shell_block_of_a_page_runs(page, tmp_path, monkeypatch, capsys):
    """The Python blocks in one session, then the commands, on the files that these made."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks(page, "python"):
        exec(block, names)
    if "db" in names:
        names["db"].close()
    if page == "README.md":
        return  # its commands are those of "Two commands"
    for block in blocks(page, "sh"):
        for line in block.splitlines():
            command, *arguments = shlex.split(line, comments=True)
            if command == "export":
                continue
            assert command == "dpsql", line
            assert main(arguments) == 0, line
    shown = capsys.readouterr().out
    if page == "docs/tutorial/owner.md":
        (excerpt,) = [block for block in blocks(page, "text") if block.startswith("-- ")]
        assert excerpt in Path("patients.sql").read_text(encoding="utf-8")
    if page == "docs/how-to/report.md":
        text = (ROOT / page).read_text(encoding="utf-8")
        quoted = " ".join(line.removeprefix("> ") for line in text.splitlines() if line.startswith("> "))
        assert re.sub(r"\(\w+ the", "(sick the", shape(names["release"].verdict.text)) == shape(quoted)
    if page == "docs/how-to/python.md":
        assert "│ Bern" in shown
        assert "clients has ε = " in shown
    if page == "docs/how-to/clients.md":
        the_clients_read_the_same(names)
    if page == "docs/how-to/command-line.md":
        assert Path("answers.csv").read_text(encoding="utf-8").startswith("smoker,n,n_stderr")
    if page == "docs/how-to/own-table.md":
        assert duckdb.sql("SELECT count(notes), count(DISTINCT sex) FROM 'synthetic.parquet'").fetchall() == [(0, 2)]
    if page == "docs/how-to/users.md":
        assert names["answers"].num_rows == 2
        assert names["shown"].num_rows == 100
        assert names["left"][0]["epsilon_left"] < 0.5
        assert names["token"] not in shown
        assert main(["ledger", "verify", "wards.duckdb"]) == 0


def the_clients_read_the_same(names: dict[str, Any]) -> None:
    frames = [names["pandas_frame"], names["polars_frame"], names["arrow_table"]]
    assert {(len(frame), frame.shape[1]) for frame in frames} == {(1000, 2)}
    assert names["counted"] == 1000
    sql = "SELECT ward, avg(smoker::INT) FROM 'synthetic.parquet' GROUP BY ward ORDER BY ward"
    expected = duckdb.sql(sql).fetchall()
    assert [tuple(row) for row in names["smokers"].itertuples(index=False)] == [pytest.approx(row) for row in expected]


def test_every_output_that_is_shown_follows_a_block_that_runs():
    """A mark that nothing is compared with would go unnoticed."""
    for page in written():
        marks = len(re.findall(r"^<!-- what it shows -->$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE))
        known = [code for code in shown_by(page) if code in blocks(page, "sql")]
        assert len(known) == marks, page
    assert len(shown_by("docs/how-to/plan.md")) == 1


def test_a_changed_output_is_noticed():
    """The broken twin of comparing shapes: numbers may differ, words may not."""
    assert shape("off by 0.13 points (a 1e-9)") == shape("off by 12 points (a 0.5)")
    assert shape("off by 0.13 points") != shape("off by 0.13 percent")


@pytest.mark.parametrize("page", [page for page in written() if blocks(page, "text")])
def test_commands_that_are_shown_only_are_commands(page):
    """Those of `text` blocks, which need a network or root or take long, are parsed at least."""
    for block in blocks(page, "text"):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("dpsql ") and not line.startswith("dpsql serve"):  # which parses its own
                command = shlex.split(line.partition(" > ")[0], comments=True)[1:]
                assert build_parser().parse_args(command), line


@pytest.mark.medium
def test_the_four_commands_of_the_readme_run(tmp_path, monkeypatch, capsys):
    """On the tutorial's file: the number of the release is right, and the page is there."""
    monkeypatch.chdir(tmp_path)
    (maker, *_) = blocks("docs/tutorial/owner.md", "python")
    exec(maker, {})
    (block,) = [block for block in blocks("README.md", "text") if block.startswith("dpsql init")]
    for line in block.splitlines():
        assert main(shlex.split(line, comments=True)[1:]) == 0, line
    assert (tmp_path / "synthetic.parquet").exists()
    assert "</html>" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "left out until you answer the QUESTION lines" in capsys.readouterr().out


def test_the_profile_of_dbt_is_that_of_the_example():
    (shown,) = blocks("docs/how-to/dbt.md", "yaml")
    example = (ROOT / "examples" / "dbt" / "profiles.yml").read_text(encoding="utf-8")
    assert shown == re.sub(r" +#.*", "", example)


def test_the_options_of_sql_are_on_the_page_of_the_command_line():
    (sql,) = [action.choices["sql"] for action in build_parser()._actions if getattr(action, "choices", None)]
    page = (ROOT / "docs" / "how-to" / "command-line.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `(--\w[\w-]*)", page, re.MULTILINE))
    assert documented == {name for name in sql._option_string_actions if name.startswith("--")} - {"--help"}


def test_nothing_that_looks_like_code_is_left_out():
    """A fence of another language would not run."""
    for page in written():
        text = (ROOT / page).read_text(encoding="utf-8")
        known = {"sql", "python", "sh", "text", "yaml", "pycon", *(["r"] if page in OWN_TEST else [])}
        opened = re.findall(r"^ *```(.*)$", text, re.MULTILINE)[::2]
        assert {*opened} <= known, page


def test_the_readme_is_short_and_has_its_two_commands():
    assert len(README.splitlines()) <= 200
    assert blocks("README.md", "sh") == [
        "python3 -m venv .venv && .venv/bin/python -m pip install . && .venv/bin/dpsql demo\n",
        ".venv/bin/python -m pip install '.[test]' && .venv/bin/python -m pytest -n logical\n",
    ]


@pytest.mark.medium
def test_the_guarantee_that_is_explained_is_one(db):
    """The page's example, and the very words that it explains."""
    page = (ROOT / "docs" / "explanation" / "guarantee.md").read_text(encoding="utf-8")
    (block,) = blocks("docs/explanation/guarantee.md", "sql")
    for statement in db.connection.extract_statements(block):
        found = db.connection.execute(statement).fetchall()
    quoted = " ".join(line.removeprefix("> ") for line in page.splitlines() if line.startswith("> "))
    assert found[0][1] == quoted


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as the site and code hosts make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).strip().replace(" ", "-") for heading in headings}


def shown_on(page: Path) -> Path:
    """A page of the site that shows a file at the top of the repository stands for it."""
    found = (
        re.fullmatch(r"<!-- the whole of (\S+) -->\s*", page.read_text(encoding="utf-8"))
        if page.suffix == ".md"
        else None
    )
    return ROOT / found[1] if found else page


@pytest.mark.parametrize("page", written())
def test_every_link_leads_somewhere(page):
    text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("https://"):
            continue
        name, _, anchor = target.partition("#")
        place = (ROOT / page).parent / name if name else ROOT / page
        assert place.exists(), target
        if place.suffix == ".png":
            assert anchor in ("", "only-light", "only-dark"), target  # the theme shows it in these colours
        else:
            assert not anchor or anchor in anchors(shown_on(place)), target


def test_every_page_is_in_the_navigation_and_has_one_title():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    listed = re.findall(r"^ *- [^#\n]*: (\S+\.md)$", navigation, re.MULTILINE)
    pages = [page for page in written() if page.startswith("docs/")]
    assert sorted(f"docs/{page}" for page in listed) == sorted(pages)
    for page in pages:
        text = re.sub(
            r"^ *```.*?^ *```$", "", shown_on(ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
        )
        assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1, page


def test_every_variable_of_the_environment_is_on_the_page_of_settings():
    code = [path for folder in ("dpsql", "udfs") for path in (ROOT / folder).rglob("*.py")]
    named = {name for path in code for name in re.findall(r'"(DPSQL_[A-Z_]+)"', path.read_text(encoding="utf-8"))}
    page = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    assert named == set(re.findall(r"^\| `(DPSQL_[A-Z_]+)`", page, re.MULTILINE))


def test_the_table_for_review_boards_follows_its_formula():
    page = (ROOT / "docs" / "how-to" / "choose-epsilon.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.]+) % \| ([\d.]+) % \|", page, re.MULTILINE)
    assert len(rows) == 5
    for epsilon, *said in rows:
        for before, percent in zip((0.1, 0.5), said, strict=True):
            odds = before * math.exp(float(epsilon))
            grown, step = 100 * odds / (1 - before + odds), 10.0 ** -len(percent.partition(".")[2])
            assert grown <= float(percent) < grown + step, "a promise is rounded up"


@pytest.mark.parametrize("page", tables.PAGES)
def test_the_tables_are_those_of_the_registers(page):
    """To write them anew: `python -m tests.docs.tables --write`."""
    text = (ROOT / page).read_text(encoding="utf-8")
    assert tables.made(text) == text
    made = text.count("<!-- made by tests.docs.tables: ") + text.count("<!-- sentence of tests.docs.tables: ")
    assert text.count("<!-- end -->") == made


def test_a_table_that_was_changed_by_hand_is_noticed():
    """The broken twin."""
    page = (ROOT / "docs" / "how-to" / "mechanisms.md").read_text(encoding="utf-8")
    assert tables.made(page.replace("the default, for synthetic data", "the best")) == page


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
        found = db.execute(statement)
        names, rows = [column[0] for column in found.description or ()], found.fetchall()
        if names == ["holds"]:
            assert rows == [(True,)], statement.query
            checked += 1
    assert checked


def test_versions_agree():
    assert f"## {dpsql.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
