"""The methods of Python: one kind of error, and names as everywhere else."""

from __future__ import annotations

import importlib.util

import duckdb
import pytest

from dpsql.errors import DpsqlError, InsufficientBudget, InvalidArgument, InvalidQuery, UnknownName


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda db: db.query("SELECT min(age) FROM people", 0.1), InvalidQuery),
        (lambda db: db.query("SELECT count(*) FROM people", 1000.0), InsufficientBudget),
        (lambda db: db.query("SELECT count(*) FROM nobody", 0.1), UnknownName),
        (lambda db: db.query("SELECT count(*) FROM people", 0.1, mechanism="mwem"), InvalidArgument),
        (lambda db: db.query("SELECT count(*) FROM people", "much"), InvalidArgument),
        (lambda db: db.query("SELECT count(*) FROM people", 0.1, rows=5), InvalidArgument),
        (lambda db: db.plan("nobody", 0.1), UnknownName),
        (lambda db: db.plan("people"), InvalidArgument),
        (lambda db: db.plan("people", 0.1, columns=["nobody"]), UnknownName),
        (lambda db: db.synthesize("nobody", 0.1), UnknownName),
        (lambda db: db.synthesize("people", 0.1, columns=""), InvalidArgument),
        (lambda db: db.synthesize("people", 0.1, columns=["age", 3]), InvalidArgument),
    ],
)
def test_methods_raise_errors_of_dpsql(people, call, kind):
    before = len(people.ledger())
    with pytest.raises(kind) as caught:
        call(people)
    assert not isinstance(caught.value, duckdb.Error)
    assert len(people.ledger()) == before


@pytest.mark.parametrize(
    ("sql", "epsilon"), [("SELECT min(age) FROM people", 0.1), ("SELECT count(*) FROM people", 1000.0)]
)
def test_sql_and_python_say_the_same(people, sql, epsilon):
    with pytest.raises(DpsqlError) as python:
        people.query(sql, epsilon)
    with pytest.raises(duckdb.Error) as database:
        people.sql("FROM dp_query(?, epsilon := ?)", [sql, epsilon])
    assert str(python.value) in str(database.value)


def test_python_and_sql_show_the_same(people):
    sql = "SELECT sick, count(*) AS n FROM people GROUP BY sick"
    found = people.query(sql, 0.1)
    assert found.equals(people.sql("FROM dp_query(?, epsilon := 0.1)", [sql]).df())
    assert people.ledger().equals(people.sql("FROM dp_ledger()").df())
    assert people.budget().equals(people.sql("FROM dp_budget()").df())
    assert people.releases().equals(people.sql("FROM dp_releases()").df())
    planned = people.plan("people", 0.5, assume_rows=100, columns=["sick"])
    assert planned.equals(
        people.sql("FROM dp_plan('people', epsilon := 0.5, assume_rows := 100, columns := ['sick'])").df()
    )


def test_columns_as_text(people):
    """One name or several with commas; they used to be taken letter by letter."""
    for columns, asked in (("sick", ["sick"]), ("sick, mood", ["sick", "mood"]), (["sick"], ["sick"])):
        release = people.synthesize("people", 0.1, columns=columns, mechanism="direct", steps=20)
        assert set(release.measurements["columns"].explode()) <= set(asked)


def test_a_reference_is_found_on_the_search_path(db):
    db.sql("CREATE SCHEMA shop; CREATE TABLE shop.t AS SELECT 'a' AS v; CREATE TABLE shop.public AS SELECT 'b' AS v")
    db.sql("CREATE TABLE public AS SELECT 'of main' AS v; SET search_path = 'shop'")
    db.protect("t", epsilon=1.0, delta=1e-9)
    db.domain("t", "v", reference="public.v")
    found = db.query("SELECT v, count(*) AS n FROM t WHERE v IS NOT NULL GROUP BY v", 0.1)
    assert found.v.tolist() == ["b"]


def test_arrow_without_pyarrow_says_what_to_install(people, monkeypatch):
    release = people.synthesize("people", 0.1, mechanism="direct", columns="sick", steps=20)
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "pyarrow" else found(name, *more)
    )
    with pytest.raises(DpsqlError, match="pip install pyarrow"):
        release.arrow()


def test_a_release_is_not_written_over(people, tmp_path):
    release = people.synthesize("people", 0.1, mechanism="direct", columns="sick", steps=20)
    release.to_table("mine")
    with pytest.raises(DpsqlError, match="already exists"):
        release.to_table("mine")
    with pytest.raises(DpsqlError):
        release.write(tmp_path / "nowhere" / "x.csv")
