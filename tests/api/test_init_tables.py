"""`dpsql init` of a folder or a database: one script that links tables, and runs as it is and with all questions answered."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.api.cli import main
from dpsql.api.proposing.inputs import opened_tables
from dpsql.api.proposing.links import edges_of
from dpsql.api.proposing.shape import arrange

HOSPITAL = {
    "patients": "SELECT i AS pid, 20 + i % 60 AS age, ['F', 'M'][1 + i % 2] AS sex FROM range(3000) r(i)",
    "visits": "SELECT i AS vid, i * 7 % 2500 AS pid, ['n', 's', 'w'][1 + i % 3] AS ward, i % 4 AS severity FROM range(6000) r(i)",
    "labs": "SELECT i * 11 % 5500 AS vid, i % 10 AS result FROM range(9000) r(i)",
    "wards": "FROM (VALUES ('n', 'north'), ('s', 'south'), ('w', 'west')) t(ward, name)",
}
BANK = {
    "accounts": "SELECT i AS id, i * 3 % 400 AS client_id, i % 3 AS kind FROM range(900) r(i)",
    "clients": "SELECT i AS id, i % 2 = 0 AS young FROM range(400) r(i)",
    "transactions": "SELECT i % 900 AS account_id, i % 5 AS kind FROM range(3000) r(i)",
}
KEYED = """
    CREATE TABLE wards (ward INT PRIMARY KEY, name VARCHAR);
    CREATE TABLE patients (pid INT PRIMARY KEY, age INT, sex VARCHAR);
    CREATE TABLE cards (card INT PRIMARY KEY, pid INT UNIQUE REFERENCES patients (pid), gold BOOLEAN);
    CREATE TABLE visits (vid INT PRIMARY KEY, pid INT REFERENCES patients (pid), ward INT REFERENCES wards (ward));
    CREATE TABLE labs (lid INT PRIMARY KEY, pid INT REFERENCES patients (pid), vid INT REFERENCES visits (vid));
    CREATE TABLE notes (vid INT, urgent BOOLEAN);
    CREATE TABLE payments (payer INT REFERENCES patients (pid), payee INT REFERENCES patients (pid));
    CREATE TABLE staff (sid INT PRIMARY KEY, boss INT REFERENCES staff (sid));
    INSERT INTO patients SELECT i, 20 + i % 60, 'F' FROM range(50) r(i);
    INSERT INTO visits SELECT i, i % 50, NULL FROM range(90) r(i);
"""
FLIGHTS = {
    "airlines": "SELECT 'A' || i AS carrier, 'line ' || i AS name FROM range(9) r(i)",
    "planes": "SELECT 'N' || i AS tailnum, 1990 + i % 20 AS year, i % 3 AS engines FROM range(200) r(i)",
    "flights": "SELECT 2013 AS year, 1 + i % 12 AS month, 'A' || i % 9 AS carrier, 'N' || i % 200 AS tailnum FROM range(900) r(i)",
    "weather": "SELECT 'JFK' AS origin, 2013 AS year, 1 + i % 12 AS month, i % 30 AS temp FROM range(300) r(i)",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, tables: dict[str, str], kind: str = "csv") -> str:
    (folder / "in").mkdir()
    for table, rows in tables.items():
        duckdb.sql(f"COPY ({rows}) TO 'in/{table}.{kind}'")
    return "in"


def init(given: str, *options: str) -> str:
    assert main(["init", given, *options, "--output", "made.sql"]) == 0
    return Path("made.sql").read_text(encoding="utf-8")


def answered(script: str) -> str:
    """A script whose questions are all answered by yes."""
    lines, is_prefixed = [], False
    for line in script.split("\n"):
        is_prefixed = is_prefixed and not line.startswith("-- -----")
        if line != "/*":
            lines.append(line.removeprefix("--") if is_prefixed else line)
        is_prefixed = is_prefixed or (line.startswith("--") and line.endswith("below."))
    return "\n".join(lines)


def ran(script: str, path: str = "bank.duckdb") -> dpsql.Database:
    Path("run.sql").write_text(script, encoding="utf-8")
    assert main(["sql", path, "run.sql"]) == 0
    return dpsql.connect(path)


def links(db: dpsql.Database) -> set[tuple[str, str, str]]:
    rows = db.sql("SELECT source, parent, key FROM dp_links() WHERE parent IS NOT NULL").fetchall()
    return {(source, parent, ",".join(key)) for source, parent, key in rows}


@pytest.mark.medium
@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("looks", [(), ("--owner-looks",)])
def test_folder_gives_a_script_that_runs_as_it_is_and_answered(folder, kind, looks):
    script = init(write(folder, HOSPITAL, kind), *looks)
    with ran(script) as db:
        assert db.budget()["source"].tolist() == ["patients"]
        assert not links(db)
        tables = {
            name
            for (name,) in db.sql(
                "SELECT table_name FROM duckdb_tables() WHERE NOT temporary AND schema_name = 'main'"
            ).fetchall()
        }
        assert tables == {"patients"}  # nobody said yes: no other file is loaded, where it would pass for public
    with ran(answered(script)) as db:
        assert links(db) == {("visits", "patients", "pid"), ("labs", "visits", "vid")}
        assert db.budget()["source"].tolist() == ["patients"]
        assert db.budget()["epsilon_left"].tolist() == [3.0]
        assert not any(len(names) for names in db.links()["undeclared"])
    with ran(answered(script)) as db:
        assert len(db.links()) == 3  # again changes nothing


@pytest.mark.medium
def test_answered_script_makes_a_linked_release_by_the_command_it_names(folder):
    script = init(write(folder, HOSPITAL), "--owner-looks")
    ran(answered(script)).close()
    command = re.search(r"AFTERWARDS: dpsql (.*)", script)
    assert command is not None
    assert main(command[1].split()) == 0
    assert sorted(path.name for path in (folder / "synthetic").iterdir()) == [
        f"{table}.parquet" for table in ("labs", "patients", "visits")
    ]


@pytest.mark.medium
def test_ids_of_other_tables_are_asked_by_their_name(folder):
    script = init(write(folder, BANK))
    assert "-- TREE: clients" in script
    with ran(answered(script)) as db:
        assert links(db) == {("accounts", "clients", "client_id"), ("transactions", "accounts", "account_id")}


LABORATORY = {
    "persons": "SELECT i AS id, i % 50 AS age FROM range(400) r(i)",
    "tests": "SELECT i % 390 AS id, i % 7 AS kind, i AS visit FROM range(2000) r(i)",  # whose id
    "wards": "SELECT i AS id, 'ward ' || i AS name FROM range(12) r(i)",  # an id of its own
    "visits": "SELECT i AS id, i % 400 AS person, i % 12 AS ward FROM range(2000) r(i)",
    "stays": "SELECT 'north' AS person, i AS id FROM range(500) r(i)",  # a text that leads to no number
}


@pytest.mark.parametrize("looks", [False, True])
def test_a_column_called_as_a_table_leads_to_it_and_an_id_that_repeats_to_the_key_that_holds_it(folder, looks):
    with opened_tables(write(folder, LABORATORY), read=looks) as tables:
        edges = {(e.child.table, *e.key, e.parent.table) for e in edges_of(tables.sources, looks=looks)}
    wanted = {("visits", "person", "persons"), ("visits", "ward", "wards")}
    assert wanted <= edges
    assert {("tests", "visit", "visits")} <= edges
    assert edges - wanted - {("tests", "visit", "visits")} == ({("tests", "id", "persons")} if looks else set())


@pytest.mark.medium
def test_constraints_are_facts_and_names_are_questions(folder):
    with duckdb.connect("bank.duckdb") as con:
        con.execute(KEYED)
    script = init("bank.duckdb")
    with ran(script) as db:
        assert links(db) == {("visits", "patients", "pid"), ("cards", "patients", "pid")}
        assert db.links().set_index("source")["most"]["cards"] == 1
    with ran(answered(script)) as db:
        assert links(db) >= {("notes", "visits", "vid"), ("labs", "visits", "vid"), ("payments", "patients", "payer")}
        assert not {"wards", "staff"} & {source for source, _, _ in links(db)}
    assert "wards.ward" in script.replace('"', "")  # a list of its values is offered


@pytest.mark.medium
def test_without_owner_looks_the_script_does_not_depend_on_rows(folder):
    made = []
    for number, rows in enumerate(("INSERT INTO notes VALUES (7, true)", "DELETE FROM visits")):
        with duckdb.connect(f"{number}.duckdb") as con:
            con.execute(KEYED)
            con.execute(rows)
        Path("now.duckdb").symlink_to(f"{number}.duckdb")
        made.append(init("now.duckdb"))
        Path("made.sql").unlink()
        Path("now.duckdb").unlink()
    assert made[0] == made[1]


def test_a_look_drops_keys_that_rows_contradict(folder):
    """Both by names; of airlines a key is unique, of weather it is not, and of nothing are half of the values missing."""
    given = write(folder, FLIGHTS, "parquet")
    with opened_tables(given, read=True) as tables:
        edges = {(e.child.name, e.key, e.parent.name) for e in edges_of(tables.sources, looks=True)}
    assert edges == {("flights", ("carrier",), "airlines"), ("flights", ("tailnum",), "planes")}


def test_root_is_whom_people_words_name_and_can_be_said(folder):
    with duckdb.connect("bank.duckdb") as con:
        con.execute(
            "CREATE TABLE district (d INT PRIMARY KEY); CREATE TABLE client (c INT PRIMARY KEY, d INT REFERENCES district (d));"
            "CREATE TABLE account (a INT PRIMARY KEY, c INT REFERENCES client (c))"
        )
    with opened_tables("bank.duckdb") as tables:
        edges = edges_of(tables.sources, looks=False)
        shape = arrange(tables.sources, edges, None)
        assert [source.name for source in shape.members] == ["client", "account"]
        assert [source.name for source in shape.apart] == ["district"]
        by_district = arrange(tables.sources, edges, tables.sources[0])
        assert [source.name for source in by_district.members] == ["district", "client", "account"]


HOSTILE = 'k\'*/ "q"; DROP TABLE x; --'


@pytest.mark.medium
def test_hostile_names_stay_inside_their_comments(folder):
    """Names that end a comment or a text: the script runs, as it is and answered, and makes nothing else."""
    quoted = '"' + HOSTILE.replace('"', '""') + '"'
    with duckdb.connect("bank.duckdb") as con:
        con.execute(
            f"CREATE TABLE x (i INT); CREATE TABLE patients (pid INT PRIMARY KEY, {quoted} INT);"
            f'CREATE TABLE {quoted} (pid INT, {quoted} INT); CREATE SCHEMA "s /*"; CREATE TABLE "s /*"."t\n2" (pid INT, a BOOLEAN)'
        )
    script = init("bank.duckdb", "--unit", "patients")
    for text in (script, answered(script)):
        with ran(text) as db:
            assert db.sql("SELECT count(*) FROM x").fetchall() == [(0,)]
    with dpsql.connect("bank.duckdb") as db:
        assert len(links(db)) >= 1


@pytest.mark.medium
def test_a_circle_of_keys_and_a_table_without_a_key(folder):
    given = write(
        folder,
        {
            "a": "SELECT i AS a_id, i * 3 % 40 AS b_id, i % 2 = 0 AS v FROM range(40) r(i)",
            "b": "SELECT i AS b_id, i * 7 % 40 AS a_id, i % 2 = 0 AS w FROM range(40) r(i)",
            "lone": "SELECT i % 2 = 0 AS z FROM range(40) r(i)",
        },
    )
    Path("in/empty.csv").touch()
    script = init(given, "--unit", "a")
    assert "LEFT ASIDE: empty.csv (empty)" in script
    with ran(answered(script)) as db:
        assert links(db) == {("b", "a", "a_id")}


@pytest.mark.parametrize(
    ("files", "options", "says"),
    [
        ((), (), "there is no .csv"),
        (("a.csv", "A.csv"), (), "would both be table"),
        (("a-b.csv", "a b.csv"), (), "would both be table"),
        (("a.csv", "b.csv"), ("--unit", "c"), "which is no table"),
        (("a.csv", "b.csv"), ("--unit", "a", "--max-rows", "3"), "--max-rows is of one table"),
        (("a.csv", "b.csv"), ("--columns", "x"), "--columns is of one table"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(folder, capsys, files, options, says):
    (folder / "in").mkdir()
    for name in files:
        (folder / "in" / name).write_text("x,y\n1,2\n")
    assert main(["init", "in", *options]) == 1
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def test_one_table_alone_is_as_ever(folder):
    (folder / "in").mkdir()
    duckdb.sql(f"COPY ({HOSPITAL['patients']}) TO 'in/patients.parquet'")
    assert init("in") == init_of("in/patients.parquet")


def init_of(given: str) -> str:
    Path("made.sql").unlink()
    return init(given)
