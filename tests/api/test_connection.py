"""The methods of Python: one kind of error, and names as everywhere else."""

from __future__ import annotations

import importlib.util
import inspect

import duckdb
import pandas as pd
import pytest
from dpsql.udfs.dp_domain import OF_DISCOVERY, DpDomain
from dpsql.udfs.dp_plan import DpPlan
from dpsql.udfs.dp_query import DpQuery
from dpsql.udfs.dp_synthesize import DpSynthesize

import dpsql
from dpsql.api.request_arguments import Options, RequestArguments
from dpsql.errors import DpsqlError, InsufficientBudget, InvalidArgument, InvalidQuery, UnknownName
from dpsql.mechanisms.base import options
from dpsql.service.client import Client


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda db: db.query("SELECT min(age) FROM people", 0.1), InvalidQuery),
        (lambda db: db.query("SELECT count(*) FROM people", 1000.0), InsufficientBudget),
        (lambda db: db.query("SELECT count(*) FROM nobody", 0.1), UnknownName),
        (lambda db: db.query("SELECT count(*) FROM people", 0.1, mechanism="mwem"), InvalidArgument),
        (lambda db: db.query("SELECT count(*) FROM people", "much"), InvalidArgument),
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


@pytest.mark.medium
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


@pytest.mark.medium
def test_columns_as_text(people):
    """One name or several with commas; they used to be taken letter by letter."""
    for columns, asked in (("sick", ["sick"]), ("sick, mood", ["sick", "mood"]), (["sick"], ["sick"])):
        release = people.synthesize("people", 0.1, columns=columns, mechanism="direct", steps=20)
        assert set(release.measurements["columns"].explode()) <= set(asked)


@pytest.mark.medium
def test_a_reference_is_found_on_the_search_path(db):
    db.sql("CREATE SCHEMA shop; CREATE TABLE shop.t AS SELECT 'a' AS v; CREATE TABLE shop.public AS SELECT 'b' AS v")
    db.sql("CREATE TABLE public AS SELECT 'of main' AS v; SET search_path = 'shop'")
    db.protect("t", epsilon=1.0, delta=1e-9)
    db.domain("t", "v", reference="public.v")
    found = db.query("SELECT v, count(*) AS n FROM t WHERE v IS NOT NULL GROUP BY v", 0.1)
    assert found.v.tolist() == ["b"]


@pytest.mark.medium
def test_arrow_without_pyarrow_says_what_to_install(people, monkeypatch):
    release = people.synthesize("people", 0.1, mechanism="direct", columns="sick", steps=20)
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "pyarrow" else found(name, *more)
    )
    with pytest.raises(DpsqlError, match="pip install pyarrow"):
        release.arrow()


@pytest.mark.medium
def test_a_release_is_not_written_over(people, tmp_path):
    release = people.synthesize("people", 0.1, mechanism="direct", columns="sick", steps=20)
    release.to_table("mine")
    with pytest.raises(DpsqlError, match="already exists"):
        release.to_table("mine")
    with pytest.raises(DpsqlError):
        release.write(tmp_path / "nowhere" / "x.csv")


def test_the_keywords_of_python_are_the_parameters_of_sql():
    """Every one is typed and named, so an editor completes it; options are those that mechanisms have."""
    assert set(Options.__annotations__) == set(options())
    of = {parameter.name for parameter in DpSynthesize.parameters} - set(options())
    assert set(RequestArguments.__annotations__) - set(options()) == of - {"table", "epsilon"}
    of_plans = {parameter.name for parameter in DpPlan.parameters} - set(options()) - {"chart"}  # plan().plot()
    methods = {dpsql.Database.synthesize: of, dpsql.Database.request: of, Client.synthesize: of}
    methods |= {dpsql.Database.plan: of_plans, dpsql.Database.query: {p.name for p in DpQuery.parameters}}
    for method, wanted in methods.items():
        assert set(inspect.signature(method).parameters) - {"self", "options"} == wanted
    declared = {parameter.name for parameter in DpDomain.parameters} - {*OF_DISCOVERY}
    assert set(inspect.signature(dpsql.Database.domain).parameters) - {"self"} == declared
    discovered = set(inspect.signature(dpsql.Database.discover).parameters) - {"self"}
    assert {*OF_DISCOVERY} - {"discover"} < discovered < {parameter.name for parameter in DpDomain.parameters}


def test_it_is_the_connection_that_it_is(db):
    """What people know of DuckDB's connection works here."""
    frame = pd.DataFrame({"ward": ["north", "south"], "beds": [10, 20]})
    db.register("wards", frame)
    assert db.execute("SELECT sum(beds) FROM wards WHERE ward = ?", ["north"]).fetchall() == [(10,)]
    assert "north" in str(db.table("wards"))
    db.unregister("wards")
    with pytest.raises(duckdb.Error, match="wards"):
        db.table("wards")


@pytest.mark.parametrize("call", ["query", "domain", "discover", "plan"])
def test_a_keyword_that_is_none_is_refused_by_python(people, call):
    """Before anything is looked up, so nothing is charged."""
    arguments = ("people", "age", 0.1) if call in ("domain", "discover") else ("SELECT count(*) FROM people", 0.1)
    before = len(people.ledger())
    with pytest.raises((TypeError, InvalidArgument), match="epsilom|positional"):
        getattr(people, call)(*arguments, epsilom=3)
    assert len(people.ledger()) == before


CALLS = {
    "query": lambda db: db.query("SELECT count(*) FROM people", 0.1),
    "plan": lambda db: db.plan("people", 0.1),
    "domains": lambda db: db.domains("people"),
    "table": lambda db: db.table("people"),
    "ledger": lambda db: db.ledger(),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "asked", ["FROM range({}) r(i)", "-- all\n(SELECT i FROM range({}) r(i))", "SELECT 1; VALUES (1), ({})"]
)
def test_rows_that_are_not_fetched_yet_stay(people, call, asked):
    """Of `sql` and of `execute`, few and many, whatever a method of ours asks meanwhile."""
    for count in (5, 100_000):
        for run in (people.sql, people.execute):
            rows = run(asked.format(count))
            first = rows.fetchone()
            CALLS[call](people)
            assert [first, *rows.fetchall()] == duckdb.connect().execute(asked.format(count)).fetchall()


def test_names_are_looked_up_where_the_connection_stands_now(people):
    """Also while there are rows to fetch, and where somebody used DuckDB's own connection."""
    people.sql("CREATE SCHEMA other; CREATE TABLE other.people AS FROM range(3) r(i)")
    for use in (people.sql, people.execute, people.connection.execute):
        people.execute("FROM range(9) r(i)").fetchall()
        use("USE other")
        with pytest.raises(DpsqlError, match="not protected"):
            people.plan("people", 0.1)
        people.execute("FROM range(9) r(i)").fetchone()
        with pytest.raises(DpsqlError, match="not protected"):
            people.plan("people", 0.1)
        people.execute("FROM range(9) r(i)").fetchall()
        use("USE main")
        people.plan("people", 0.1)
