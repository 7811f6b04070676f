"""`dpsql sql`: files that are made, scripts, formats, widths, and errors in one line."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys

import pytest

import dpsql
from dpsql.api.cli import main

QUERY = "FROM dp_query('SELECT a, count(*) AS n FROM t GROUP BY a ORDER BY a', epsilon := 0.1)"
MAKE = [
    "CREATE TABLE t AS SELECT i % 2 = 0 AS a, i % 3 = 0 AS b FROM range(300) r(i)",
    "CALL dp_protect('t', epsilon := 2, delta := 1e-6)",
]

WIDE = f"SELECT {', '.join(f'{i} AS column_{i}' for i in range(60))}"


@pytest.fixture
def new(tmp_path, capsys):
    """A database that the command made."""
    path = str(tmp_path / "new.duckdb")
    assert main(["sql", path, *MAKE]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0] == f"{path}: a new database file"
    assert "add_remove" in out  # what the CALL returned
    return path


def test_a_missing_file_is_not_made_by_a_question(tmp_path, new, capsys):
    near = str(tmp_path / "nwe.duckdb")
    assert main(["sql", near, "FROM t"]) == 1
    assert f"do you mean {new!r}" in capsys.readouterr().err
    assert main(["sql", near, "CREATE TABLE x AS FROM t", "SELECT 1"]) == 1  # made, and taken back
    assert "Table with name t does not exist" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.duckdb", "new.duckdb.dpsql-head"]
    assert main(["sql", near, "SELECT 1", "--create"]) == 0
    assert (tmp_path / "nwe.duckdb").exists()


def test_what_was_made_before_an_error_is_kept(tmp_path):
    path = tmp_path / "kept.duckdb"
    assert main(["sql", str(path), "CREATE TABLE x AS SELECT 1 AS a; FROM nowhere"]) == 1
    with dpsql.connect(path) as db:
        assert db.sql("FROM x").fetchall() == [(1,)]


def test_a_script_says_the_line_of_an_error(tmp_path, new, capsys):
    script = tmp_path / "script.sql"
    script.write_text(
        "-- a comment; with a semicolon\nSELECT 7 AS one;\n\n-- two\nFROM\n  nowhere -- here\n;\nSELECT 3;\n"
    )
    assert main(["sql", new, str(script)]) == 1
    out, err = capsys.readouterr()
    assert "7" in out
    assert "3 " not in out
    assert err.startswith(f"dpsql: {script}, statement at line 5: Catalog Error: Table with name nowhere")
    assert err.endswith("(line 6, at 'nowhere -- here')\n")
    script.write_text("SELECT 1;\nFORM t;\n")
    assert main(["sql", new, str(script)]) == 1
    out, err = capsys.readouterr()
    assert out == ""  # nothing ran
    assert "(line 2, at 'FORM t;')" in err
    assert main(["sql", new, str(tmp_path / "none.sql")]) == 1
    assert "no such file" in capsys.readouterr().err


def test_formats_carry_the_same_rows_and_are_charged_once(tmp_path, new, capsys):
    rows = []
    assert main(["sql", new, QUERY, "--output", "csv"]) == 0
    rows.append([int(row["n"]) for row in csv.DictReader(io.StringIO(capsys.readouterr().out))])
    assert main(["sql", new, "SELECT 'unseen' AS first", QUERY, "--output", "json"]) == 0
    rows.append([row["n"] for row in json.loads(capsys.readouterr().out)])
    for name in ("o.csv", "o.json", "o.parquet"):
        assert main(["sql", new, QUERY, "--to", str(tmp_path / name)]) == 0
        assert capsys.readouterr().out == f"2 rows in {tmp_path / name}\n"
        with dpsql.connect() as db:
            rows.append([n for (n,) in db.sql(f"SELECT n FROM '{tmp_path / name}'").fetchall()])
    assert len(rows) == 5
    assert all(one == rows[0] for one in rows)
    assert main(["budget", new, "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["releases"] == 1


@pytest.mark.parametrize(
    "query", ["DESCRIBE t", "SHOW TABLES", "SUMMARIZE SELECT 1 AS a", "CALL dp_budget()", "VALUES (1)"]
)
def test_whatever_has_rows_is_written(new, query, capsys):
    assert main(["sql", new, query, "--output", "csv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 1


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--to", "nowhere/o.csv"], "there is no folder"),
        (["--to", "o.xls"], "give a .csv"),
        (["--width", "40"], "give a number from 80"),
        (["--rows", "-1"], "give a number from 0"),
        (["EXPLAIN FROM t", "--output", "csv"], "EXPLAIN"),
    ],
)
def test_what_cannot_be_written_is_refused_before_any_charge(new, more, message, capsys):
    assert main(["sql", new, QUERY, *more]) == 1
    assert message in capsys.readouterr().err
    with dpsql.connect(new) as db:
        assert db.budget().releases[0] == 0


def test_a_wide_table_fits(new, capsys, monkeypatch):
    widths = {}
    for width in ("80", "100", "0"):
        assert main(["sql", new, WIDE, "--width", width]) == 0
        widths[width] = max(map(len, capsys.readouterr().out.splitlines()))
    assert widths["80"] <= 80 < widths["100"] <= 100 < widths["0"]
    monkeypatch.setenv("COLUMNS", "90")
    assert main(["sql", new, WIDE]) == 0  # to a pipe
    assert "…" not in capsys.readouterr().out
    assert main(["sql", new, "FROM range(50)", "--rows", "0"]) == 0
    assert "·" not in capsys.readouterr().out


@pytest.mark.parametrize("ending", [";   -- of the first", "; -- a; b", " -- x\n;", ";\n-- y", "", " /* ; */ ;"])
def test_a_comment_behind_a_statement_is_no_part_of_it(tmp_path, new, ending, capsys):
    script = tmp_path / "script.sql"
    script.write_text(f"FROM range(3){ending}\nSELECT ';' AS \"é\";" if ending else "FROM range(3)", encoding="utf-8")
    assert main(["sql", new, str(script)]) == 0
    assert capsys.readouterr().err == ""


def test_explain_and_returning_are_shown(new, capsys):
    assert main(["sql", new, "EXPLAIN FROM t", "UPDATE t SET a = true WHERE false RETURNING b", "SET threads = 1"]) == 0
    out = capsys.readouterr().out
    assert "explain_value" not in out
    assert "boolean" in out


def run(*arguments: str, **how: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "dpsql", *arguments], text=True, timeout=500, check=False, **how)


@pytest.mark.medium
def test_pipes(new):
    """What is piped in runs; who reads may leave early."""
    done = run("sql", new, input="SELECT 42 AS answer;", capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "42" in done.stdout
    many = subprocess.Popen(
        [sys.executable, "-m", "dpsql", "sql", new, "FROM range(1000000)", "--output", "csv"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert many.stdout.readline() == "range\n"
    many.stdout.close()
    assert many.stderr.read() == ""
    many.stderr.close()
    assert many.wait() == 0


@pytest.mark.medium
@pytest.mark.skipif(sys.platform == "win32", reason="a terminal of Unix")
def test_a_terminal_is_as_wide_as_it_says(new):
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 95, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = run("sql", new, WIDE, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=environment)
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert (done.returncode, done.stderr) == (0, "")
    assert "…" in shown
    assert 80 < max(map(len, shown.splitlines())) <= 95


@pytest.mark.medium
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_and_options(shell, tmp_path):
    """In bash as bash does it; the others' scripts are at least read by them, where they are installed."""
    command = tmp_path / "dpsql"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m dpsql "$@"\n')
    command.chmod(0o755)
    script = run("completion", shell, capture_output=True)
    assert (script.returncode, script.stderr) == (0, "")
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    if shell == "zsh":
        asked = f"autoload -Uz compinit && compinit -u -d {tmp_path}/dump\n{script.stdout}\nprint -- ${{_comps[dpsql]}}"
        found = ["_python_argcomplete"]
    elif shell == "fish":
        asked, found = f"{script.stdout}\ncomplete -C 'dpsql sy'", ["synthesize"]
    else:
        asked = f"""{script.stdout}
            COMP_WORDS=(dpsql sy) COMP_CWORD=1 COMP_LINE="dpsql sy" COMP_POINT=8 COMP_TYPE=9
            _python_argcomplete dpsql; echo "${{COMPREPLY[@]}}"
            COMP_LINE="dpsql sql a.duckdb --out" COMP_POINT=24 COMP_WORDS=(dpsql sql a.duckdb --out) COMP_CWORD=3
            _python_argcomplete dpsql; echo "${{COMPREPLY[@]}}" """
        found = ["synthesize", "--output"]
    done = subprocess.run([shell, "-c", asked], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout.split()[: len(found)] == found, done.stderr  # fish says what a command does, too
