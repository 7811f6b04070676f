from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from dpsql.udfs import FUNCTIONS

import dpsql
from dpsql.api import cli
from dpsql.api.cli import build_parser, main
from tests.conftest import settle


@pytest.fixture
def bank(tmp_path):
    path = tmp_path / "bank.duckdb"
    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS a, i % 3 = 0 AS b FROM range(300) r(i)")
        db.protect("t", epsilon=2, delta=1e-6)
    return str(path)


@pytest.mark.medium
def test_sql(bank, capsys):
    assert main(["sql", bank, "SELECT source, epsilon FROM dp_budget()"]) == 0
    assert "source" in capsys.readouterr().out
    assert main(["sql", bank, "CREATE TABLE s AS SELECT 1 AS a; INSERT INTO s VALUES (2)"]) == 0
    with dpsql.connect(bank) as db:
        assert db.sql("SELECT sum(a) FROM s").fetchall() == [(3,)]


@pytest.mark.medium
def test_synthesize_and_budget(bank, capsys, tmp_path):
    output = tmp_path / "out.parquet"
    assert main(["synthesize", bank, "t", "--epsilon", "1", "--output", str(output), "--rows", "50"]) == 0
    assert "50 rows" in capsys.readouterr().out
    with dpsql.connect() as db:
        assert db.sql(f"SELECT count(*) FROM '{output}'").fetchall() == [(50,)]
    assert main(["budget", bank]) == 0
    text = capsys.readouterr().out
    assert "epsilon_left" in text
    assert "several releases together lose less than the sum" in text
    assert main(["releases", bank]) == 0
    head, row, following = capsys.readouterr().out.splitlines()
    assert head.split()[:2] == ["release", "name"]
    number = row.split()[0]
    assert following.startswith(f"next: dpsql report {bank}")
    with dpsql.connect(bank) as db:
        db.sql("FROM dp_query('SELECT a, count(*) FROM t GROUP BY a', epsilon => 0.1)").fetchall()
    page = tmp_path / "newest.html"
    assert main(["report", bank, "--output", str(page)]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"release {number} of t, the newest synthetic table\n"), "a query's answers have no report"
    assert f"of release {number} of t" in text
    assert page.exists()
    with dpsql.connect(bank) as db:
        db.sql("CREATE TABLE public_t AS FROM t LIMIT 30")
        settle(db, "public_t")
    command = ["synthesize", bank, "t", "--epsilon", "0.5", "--output", str(output), "--mechanism", "pmwpub"]
    assert main([*command, "--prior", "public_t", "--option", "rounds=1", "--option", "passes=2"]) == 0
    assert "rows of release" in capsys.readouterr().out


@pytest.mark.medium
def test_a_command_names_the_next(bank, capsys):
    """A list that is empty names the command that begins it, and nothing that could not work yet."""
    for arguments, begins, goes_on in (
        (["releases", bank], "nothing was released: dpsql synthesize FILE TABLE", None),
        (["user", "list", bank], "no users: dpsql user add FILE NAME", None),
        (["user", "add", bank, "alice", "--limit", "t=1"], "dpsql_", None),
        (["user", "limit", bank, "alice", "t=1.5"], "alice: t: epsilon 1.5", "user list"),
        (["user", "list", bank], "name ", "user limit"),
        (["user", "share", bank, "on"], "users share releases: on", "user list"),
        (["user", "revoke", bank, "alice"], "alice: revoked", "user list"),
        (["budget", bank], "source ", "releases"),
        (["ledger", "raise", bank, "t", "--epsilon", "3", "--reason", "more"], "t: epsilon 3", "budget"),
        (["ledger", "verify", bank], f"{bank}: ", "budget"),
    ):
        assert main(arguments) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith(begins), arguments
        assert [line.partition(f" {bank}")[0] for line in lines if line.startswith("next: ")] == (
            [f"next: dpsql {goes_on}"] if goes_on else []
        )
    assert main(["report", bank]) == 1
    assert "no synthetic table was released yet" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["budget", "nowhere.duckdb"], "there is no database file"),
        (["synthesize", "BANK", "nowhere", "--epsilon", "1", "--output", "o.csv"], "there is no table"),
        (["synthesize", "BANK", "t", "--epsilon", "9", "--output", "o.csv"], "; this asks for "),
        (["synthesize", "BANK", "t", "--epsilon", "1", "--output", "o.xls"], ".csv or .parquet"),
        (["synthesize", "BANK", "t", "--epsilon", "1", "--output", "o.csv", "--option", "rounds"], "give name=value"),
        (
            ["synthesize", "BANK", "t", "--epsilon", "1", "--output", "o.csv", "--option", "epsilon=3"],
            "give name=value",
        ),
        (["synthesize", "BANK", "t", "--epsilon", "1", "--output", "o.csv", "--option", "rounds=3"], "is no option of"),
        (["sql", "BANK", "FROM nowhere"], "nowhere"),
        (["demo", "--input", "nowhere.csv"], "give an existing"),
    ],
)
def test_errors_go_to_standard_error(bank, capsys, arguments, message):
    assert main([bank if a == "BANK" else a for a in arguments]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("dpsql: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_doctor(capsys):
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert all(
        word in text
        for word in ("duckdb", "jax", "device", f"{len(FUNCTIONS)} of {len(FUNCTIONS)} registered", "ready")
    )


def test_alone_it_helps(capsys):
    assert main([]) == 0
    text = capsys.readouterr().out
    assert text == build_parser().format_help()
    assert all(command in text for command in ("demo", "init", "sql", "synthesize", "budget", "serve", "doctor"))


def test_each_file_of_commands_is_found():
    files = {path.stem for path in Path(cli.__file__).parent.glob("cli_*.py")}
    assert {module.__name__.rpartition(".")[2] for module in cli.modules()} == files


@pytest.mark.parametrize("arguments", [["synth"], ["sql"], ["budget", "--nothing", "a.duckdb"]])
def test_wrong_usage_is_told_in_one_line(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert re.fullmatch(r"dpsql[ a-z]*: .*; see dpsql[ a-z]* --help\n", capsys.readouterr().err)


def test_no_traceback_and_no_value_of_a_row_reaches_a_person(capsys, monkeypatch):
    def fails(_: object) -> None:
        raise KeyError("Alice has the flu")

    assert cli.status_of(fails, None) == 1
    err = capsys.readouterr().err
    assert err.startswith("dpsql: internal error (KeyError)")
    assert "Alice" not in err
    assert err.count("\n") == 1
    monkeypatch.setenv("DPSQL_DEBUG", "1")
    with pytest.raises(KeyError):
        cli.status_of(fails, None)


def interrupts(_: object) -> None:
    raise KeyboardInterrupt


def test_an_interrupt_has_its_own_status(capsys):
    assert cli.status_of(interrupts, None) == 130
    assert "what was charged is kept" in capsys.readouterr().err


@pytest.mark.slow
def test_demo(tmp_path, capsys):
    path = tmp_path / "demo.duckdb"
    assert main(["demo", "--database", str(path)]) == 0
    text = capsys.readouterr().out
    assert all(part in text for part in ("dp_protect", "dp_plan", "dp_synthesize", "dp_budget", "simulated", "Done in"))
    assert main(["demo", "--database", str(path)]) == 1


@pytest.mark.slow
def test_demo_of_linked_tables(tmp_path, capsys):
    path = tmp_path / "demo.duckdb"
    assert main(["demo", "--linked", "--database", str(path)]) == 0
    text = capsys.readouterr().out
    assert all(
        part in text for part in ("dp_protect", "dp_link", "dp_synthesize", "dp_publish", "simulated", "Done in")
    )
    assert "far from what was measured" not in text
    with dpsql.connect(str(path)) as db:
        orphans = "SELECT count(*) FROM synthetic.accounts ANTI JOIN synthetic.clients USING (client)"
        assert db.sql(orphans).fetchall() == [(0,)]
    assert main(["demo", "--linked", "--database", str(path)]) == 1
    assert main(["demo", "--linked", "--input", "a.csv"]) == 1


@pytest.mark.medium
def test_demo_with_a_file_of_ones_own(tmp_path, capsys):
    with dpsql.connect() as db:
        db.sql(
            f"COPY (SELECT i % 7 AS \"a b\", 'x' || i % 3 AS c, i::VARCHAR AS id, i * 0.5 AS amount, NULL AS nothing "
            f"FROM range(500) r(i)) TO '{tmp_path}/own.csv'"
        )
    assert main(["demo", "--input", str(tmp_path / "own.csv"), "--database", str(tmp_path / "own.duckdb")]) == 0
    text = capsys.readouterr().out
    assert "-- id, BIGINT. Looked: a key, which tells rows or people apart" in text
    assert "DISCLOSURE: the rows were read" in text
    assert text.splitlines()[-1].endswith("own.sql.")
    assert "simulated" not in text.split("6. The same questions")[1]


@pytest.mark.medium
def test_python_m_dpsql():
    done = subprocess.run([sys.executable, "-m", "dpsql", "--help"], capture_output=True, text=True, check=True)
    assert "demo" in done.stdout
