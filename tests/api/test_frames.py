"""SQL finds the data frames of whoever calls `db.sql`, and nothing else of Python."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpsql
from dpsql.api.cli import main
from dpsql.errors import DpsqlError, UnknownName

of_module = pd.DataFrame({"a": [1]})


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
def test_a_local_variable_is_found(db, make):
    frame = make({"a": [1, 2]})
    assert db.sql("FROM frame WHERE a > ?", [1]).fetchall() == db.execute("FROM frame WHERE a > 1").fetchall() == [(2,)]
    assert db.table("frame").shape == frame.shape
    db.sql("CREATE TABLE t AS FROM frame")
    db.executemany("INSERT INTO t SELECT a + ? FROM frame", [[10], [20]])
    assert db.sql("SELECT sum(a) FROM t").fetchall() == [(3 + 23 + 43,)]
    assert db.protect("t", epsilon=1.0, delta=1e-9).epsilon == 1.0


def test_a_variable_of_the_module_is_found(db):
    assert db.sql("FROM of_module").fetchall() == db.execute("FROM of_module").fetchall() == [(1,)]


def test_a_relation_keeps_what_it_read(db):
    def make():
        inside = pd.DataFrame({"a": [3]})
        assert inside.shape == (1, 1)
        return db.sql("FROM inside")

    rows = make()
    assert rows.fetchall() == rows.filter("a > 0").fetchall() == [(3,)]


def test_a_variable_of_a_caller_further_up_is_not_found(db):
    def inner():
        return db.sql("FROM outer_frame")

    outer_frame = pd.DataFrame({"a": [1]})
    with pytest.raises(DpsqlError, match="outer_frame does not exist"):
        inner()
    assert outer_frame.shape == (1, 1)


@pytest.mark.parametrize("name", ["self", "query", "frame", "call", "names", "parameters", "folded", "found", "duckdb"])
@pytest.mark.parametrize("method", ["sql", "execute", "table"])
def test_no_variable_of_dpsql_is_found(db, name, method):
    with pytest.raises(DpsqlError, match="does not exist"):
        getattr(db, method)(name if method == "table" else f"FROM {name}")


def test_a_table_goes_before_a_variable(people):
    """So no variable stands for a protected table; what is protected is private as before."""
    before = people.sql("SELECT count(*) FROM people").fetchall()
    wards = people.sql("CREATE TABLE wards AS SELECT 'of the database' AS name")
    wards = pd.DataFrame({"name": ["of Python"]})
    assert people.sql("FROM wards").fetchall() == [("of the database",)]
    assert people.sql("SELECT count(*) FROM people").fetchall() == before
    assert len(wards) == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda db, wards: db.query("SELECT count(*) FROM wards", 0.1),
        lambda db, wards: db.query("SELECT count(*) FROM people JOIN wards USING (sick)", 0.1),
        lambda db, wards: db.plan("wards", 0.1),
        lambda db, wards: db.protect("wards", 1.0, 1e-9),
        lambda db, wards: db.synthesize("people", 0.1, prior="wards"),
        lambda db, wards: db.domain("people", "age", reference="wards.sick"),
        lambda db, wards: db.sql("FROM dp_query('SELECT count(*) FROM wards', epsilon := 0.1)"),
        lambda db, wards: db.sql("CALL dp_protect('wards', epsilon := 1.0, delta := 1e-9)"),
    ],
)
def test_functions_of_dpsql_find_no_variable(people, call):
    before = len(people.ledger())
    with pytest.raises(UnknownName, match="wards"):
        call(people, pd.DataFrame({"sick": [True]}))
    assert len(people.ledger()) == before


def test_a_name_that_is_registered_hides_no_protected_table(people):
    """It is a view of the connection; what counts private rows looks names up elsewhere."""
    people.register("people", pd.DataFrame({"sick": [True]}))
    assert people.sql("FROM people").fetchall() == [(True,)]
    noisy = people.query("SELECT count(*) AS n FROM people", 1.0)
    people.unregister("people")
    assert abs(noisy.n[0] - people.sql("SELECT count(*) FROM people").fetchall()[0][0]) < 100


def test_frames_are_added_to_tables(db):
    frame = pd.DataFrame({"b": [1], "a": [2]})
    db.sql("CREATE TABLE t (a INTEGER, b INTEGER)")
    db.append("t", frame, by_name=True)
    assert db.table("t").fetchall() == [(2, 1)]
    assert db.from_df(frame).fetchall() == db.from_arrow(pa.table(frame)).fetchall() == [(1, 2)]


def test_the_command_line_finds_no_variable(tmp_path, capsys):
    path = str(tmp_path / "a.duckdb")
    dpsql.connect(path).close()
    assert main(["sql", path, "FROM options"]) == 1
    assert "options does not exist" in capsys.readouterr().err
