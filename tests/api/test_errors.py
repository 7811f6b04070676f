"""One family: what `Database` raises is a `DpsqlError`, and what DuckDB says stays DuckDB's."""

from __future__ import annotations

import pickle

import duckdb
import pytest

import dpsql
from dpsql.errors import DpsqlError, InsufficientBudget, InvalidQuery, UnknownName


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda db: db.sql("SELEC 1"), duckdb.ParserException),
        (lambda db: db.sql("FROM nowhere"), duckdb.CatalogException),
        (lambda db: db.execute("FROM nowhere"), duckdb.CatalogException),
        (lambda db: db.sql("SELECT a"), duckdb.BinderException),
        (lambda db: db.sql("SELECT ?", [1, 2]), duckdb.InvalidInputException),
        (
            lambda db: db.sql("CREATE TABLE t (a INTEGER PRIMARY KEY); INSERT INTO t VALUES (1), (1)"),
            duckdb.ConstraintException,
        ),
        (lambda db: db.table("nowhere"), duckdb.CatalogException),
        (lambda db: db.view("nowhere"), duckdb.CatalogException),
        (lambda db: db.unregister("x").register("x", 3), duckdb.Error),
        (lambda db: db.rollback(), duckdb.TransactionException),
        (lambda db: db.begin().begin(), duckdb.TransactionException),
        (lambda db: db.execute("SELECT error('x')").fetchall(), duckdb.InvalidInputException),
        (lambda db: db.sql("SELECT error('x' || range) FROM range(1)").fetchall(), duckdb.InvalidInputException),
        (lambda db: db.sql("SELECT error('x' || range) FROM range(1)").df(), duckdb.InvalidInputException),
        (lambda db: db.sql("SELECT error('x' || range) FROM range(1)").pl(), duckdb.InvalidInputException),
        (lambda db: db.sql("SELECT error('x' || range) FROM range(1)").arrow(), duckdb.InvalidInputException),
        (lambda db: db.sql("SELECT error('x' || range) FROM range(1)").fetchone(), duckdb.InvalidInputException),
        (lambda db: list(db.sql("SELECT error('x' || range) FROM range(1)")), duckdb.InvalidInputException),
        (lambda db: repr(db.sql("SELECT error('x' || range) FROM range(1)")), duckdb.InvalidInputException),
        (lambda db: db.sql("SELECT error('x' || range) FROM range(1)").show(), duckdb.InvalidInputException),
        (lambda db: db.sql("SELECT 1").filter("nowhere > 1"), duckdb.BinderException),
    ],
)
def test_errors_of_duckdb_are_of_both(db, call, kind):
    with pytest.raises(kind) as caught:
        call(db)
    assert isinstance(caught.value, DpsqlError)
    assert type(caught.value).__name__ == next(
        k.__name__ for k in type(caught.value).__mro__ if k.__module__ == "_duckdb"
    )


@pytest.mark.parametrize(
    ("sql", "epsilon", "kind"),
    [
        ("SELECT min(age) FROM people", 0.1, InvalidQuery),
        ("SELECT count(*) FROM nobody", 0.1, UnknownName),
        ("SELECT count(*) FROM people", 1000.0, InsufficientBudget),
    ],
)
def test_what_dpsql_raises_in_sql_is_of_its_own_class_too(people, sql, epsilon, kind):
    for call in (people.sql, people.execute):
        with pytest.raises(kind) as caught:
            call("FROM dp_query(?, epsilon := ?)", [sql, epsilon])
        assert isinstance(caught.value, duckdb.Error)
    with pytest.raises(DpsqlError) as caught:
        people.sql("SELECT error('dp_query: of somebody else')").fetchall()
    assert not isinstance(caught.value, kind)


@pytest.mark.parametrize("lines", [1, 2, 9, 10, 11])
@pytest.mark.parametrize("last", ["a", "sum(1, 2, 3) FROM range(3)", "1 FROM nowhere", "1 FRO M"])
def test_the_caret_is_that_of_duckdb(db, last, lines):
    """Also where DuckDB's relations have none."""
    sql = "SELECT" + "\n" * (lines - 1) + f"  {last}"
    with pytest.raises(duckdb.Error, match=f"LINE {lines}:") as own, duckdb.connect() as other:
        other.execute(sql)
    with pytest.raises(DpsqlError) as told:
        db.sql(sql)
    assert str(told.value) == str(own.value)


def test_to_say_where_nothing_runs(people):
    """A script that stops at its first statement: the second, which would charge, is not run for the sake of a caret."""
    before = len(people.ledger())
    with pytest.raises(DpsqlError, match="nowhere"):
        people.sql("INSERT INTO nowhere VALUES (1); FROM dp_query('SELECT count(*) FROM people', epsilon := 0.1)")
    assert len(people.ledger()) == before


def test_they_are_sent_to_other_processes(db):
    with pytest.raises(DpsqlError) as caught:
        db.sql("FROM nowhere")
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is type(caught.value)
    assert str(again) == str(caught.value)


def test_a_file_that_cannot_be_opened(tmp_path):
    (tmp_path / "no.duckdb").write_text("this is no database")
    with pytest.raises(duckdb.IOException) as caught:
        dpsql.connect(tmp_path / "no.duckdb")
    assert isinstance(caught.value, DpsqlError)


@pytest.mark.parametrize(
    "call", ["sql('SELECT 1')", "execute('SELECT 1')", "table('t')", "budget()", "query('SELECT 1', 1)", "cursor()"]
)
def test_a_connection_that_is_closed(call):
    db = dpsql.connect()
    db.close()
    with pytest.raises(DpsqlError):
        eval(f"db.{call}")
