"""A linked release that is killed anywhere goes on: one charge, all tables or none. The command line writes them all."""

from __future__ import annotations

import signal

import duckdb
import pytest

import dpsql
from tests.linked.test_release import LINKS, NAMES, TABLES, asked, charges, run
from tests.processes import run_and_die

POINTS = {
    "after the first answers": """
from dpsql.privacy.curator import Curator
measure = Curator.measure
def once(self, requests, noise="gaussian"):
    measure(self, requests[:1], noise)
    die()
Curator.measure = once
""",
    "between two tables": """
from dpsql.books.releases import publication
write = publication._write
def once(books, entry, place, part):
    found = write(books, entry, place, part)
    if place == 1:
        die()
    return found
publication._write = once
""",
    "right before the commit": """
from dpsql.books.releases import publication
def once(*arguments):
    die()
publication.end = once
""",
}


@pytest.mark.medium
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_leaves_all_tables_or_none(tmp_path, point):
    path = tmp_path / "clinic.duckdb"
    with dpsql.connect(path) as db:
        run(db, TABLES + LINKS)
    script = f"""
import os, signal, dpsql
def die():
    os.kill(os.getpid(), signal.SIGKILL)
{POINTS[point]}
dpsql.connect({str(path)!r}).sql({asked("labs")!r}).fetchall()
"""
    assert run_and_die(script) == -signal.SIGKILL
    with dpsql.connect(path) as db:
        assert db.sql("SELECT state FROM dp_releases()").fetchall() != [("published",)]
        assert charges(db) == 1
        tables = {table: db.sql(asked(table)).fetchall() for table in NAMES}
        assert charges(db) == 1
        assert all(tables.values())
        assert {row[1] for row in tables["visits"]} <= {row[0] for row in tables["patients"]}
        assert db.sql("SELECT count(*) FROM dp_ledger() WHERE kind = 'publish'").fetchall() == [(1,)]


@pytest.mark.medium
def test_the_command_line_writes_a_folder(tmp_path, capsys):
    from dpsql.api.cli import main

    path, folder = tmp_path / "clinic.duckdb", tmp_path / "made"
    with dpsql.connect(path) as db:
        run(db, TABLES + LINKS)
    options = ["--option", "steps=40", "--option", "relaxed_rows=20", "--epsilon", "20", "--output", str(folder)]
    main(["synthesize", str(path), "visits", "--linked", *options])
    assert sorted(file.name for file in folder.iterdir()) == sorted(f"{table}.parquet" for table in NAMES)
    assert "together with all its rows in visits" in " ".join(capsys.readouterr().out.split())
    main(["synthesize", str(path), "patients", "--linked", "--csv", *options])
    visits, patients = (f"'{folder}/{table}.csv'" for table in ("visits", "patients"))
    assert duckdb.sql(f"SELECT count(*) FROM {visits} ANTI JOIN {patients} USING (pid)").fetchall() == [(0,)]
    with dpsql.connect(path) as db:
        assert charges(db) == 1


@pytest.mark.medium
def test_a_table_that_changed_its_columns_meanwhile_is_another_request(tmp_path):
    """What was charged is of the columns as they were: after an ALTER of a table below nothing is counted for it."""
    path = tmp_path / "clinic.duckdb"
    with dpsql.connect(path) as db:
        run(db, TABLES + LINKS)
        db.sql(asked("patients")).fetchall()
        db.sql("ALTER TABLE visits ADD COLUMN late BOOLEAN")
        db.sql(asked("patients")).fetchall()
        assert charges(db) == 2
        assert "late" in db.sql(asked("visits")).columns
