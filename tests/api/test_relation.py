"""`db.sql` returns a relation, as DuckDB's connection does: it prints itself, and is fetched in every shape."""

from __future__ import annotations

import gc
import importlib.util

import pytest

import dpsql
from dpsql.errors import DpsqlError

NOISY = "FROM dp_query('SELECT sick, count(*) AS n FROM people GROUP BY sick', epsilon := 0.1)"


def test_it_prints_itself_as_a_table(db):
    shown = repr(db.sql("SELECT 42 AS answer, NULL AS nothing"))
    assert shown == str(db.sql("SELECT 42 AS answer, NULL AS nothing"))
    assert "│ answer │" in shown
    assert "int32" in shown
    assert "42" in shown


def test_a_column_may_have_the_name_of_a_method(db):
    rows = db.sql("SELECT epsilon AS materialize, releases AS show FROM dp_budget()")
    assert rows.columns == ["materialize", "show"]
    assert rows.fetchall() == []


def test_show_prints_it(db, capsys):
    db.sql("SELECT range AS i, NULL AS nothing FROM range(100)").show(max_rows=4, null_value="none")
    shown = capsys.readouterr().out
    assert "none" in shown
    assert "4 shown" in shown


def test_the_rows_come_in_every_shape(db):
    rows = db.sql("SELECT range AS i FROM range(3)")
    assert rows.fetchall() == rows.fetchall() == list(rows) == [(0,), (1,), (2,)]
    assert rows.df().i.tolist() == rows.pl()["i"].to_list() == rows.arrow()["i"].to_pylist() == [0, 1, 2]
    assert rows.to_arrow_table() == rows.fetch_arrow_table() == rows.to_arrow_reader().read_all()
    assert (rows.columns, [str(kind) for kind in rows.types], rows.shape) == (["i"], ["BIGINT"], (3, 1))
    assert rows.description[0][0] == "i"


def test_rows_one_after_the_other(db):
    rows = db.sql("FROM range(5)")
    assert (rows.fetchone(), rows.fetchmany(2), rows.fetchall(), rows.fetchone()) == (
        (0,),
        [(1,), (2,)],
        [(3,), (4,)],
        None,
    )
    assert rows.fetchmany(2) == []


def test_parameters_by_place_and_by_name(db):
    assert db.sql("SELECT ? + ?", [40, 2]).fetchall() == [(42,)]
    assert db.sql("SELECT $a", {"a": 42}).filter("true").fetchall() == [(42,)]
    assert db.execute("SELECT $a", {"a": 42}).fetchall() == [(42,)]


def test_what_is_not_a_query_runs_at_once(db):
    db.sql("CREATE TABLE t AS SELECT 1 AS a; INSERT INTO t VALUES (2)")
    assert db.sql("UPDATE t SET a = a + 1 RETURNING a").fetchall() == [(2,), (3,)]
    assert db.sql("FROM t").fetchall() == [(2,), (3,)]
    assert db.sql("SELECT 1; FROM t ORDER BY a DESC").fetchall() == [(3,), (2,)]


def test_a_query_of_tables_reads_them_when_it_is_fetched(db):
    """As in DuckDB: so to print one of a large table reads the first rows only."""
    db.sql("CREATE TABLE t (a INTEGER)")
    rows = db.sql("FROM t")
    db.sql("INSERT INTO t VALUES (1)")
    assert rows.fetchall() == [(1,)]


@pytest.mark.medium
@pytest.mark.parametrize("parameters", [None, [0.1]])
def test_a_query_that_charges_runs_once_and_at_once(people, parameters):
    """Whatever is done with its relation: printed, fetched twice, built on, read by name."""
    before = len(people.ledger())
    rows = people.sql(NOISY.replace("0.1", "?") if parameters else NOISY, parameters)
    assert len(people.ledger()) > before
    charged, calls = len(people.ledger()), people.releases().to_dict()
    people.retire("people", reason="so that another run is refused")
    text, found = repr(rows), rows.fetchall()
    assert str(found[0][1]) in text
    assert rows.df().n.tolist() == [row[1] for row in found] == rows.select("n").df().n.tolist()
    assert people.sql("SELECT sick, n FROM rows WHERE n >= 0").shape[1] == 2
    assert len(people.ledger()) == charged + 1
    assert people.releases().to_dict() == calls


@pytest.mark.medium
def test_one_that_changes_something_changes_it_without_being_fetched(db):
    db.sql("CREATE TABLE t (a BOOLEAN); CREATE VIEW v AS FROM dp_budget()")
    protected = db.sql("FROM dp_protect('t', epsilon := 1.0, delta := 1e-9)")
    assert db.budget().source.tolist() == ["t"]
    assert repr(protected) == repr(protected)  # to run it again would be an error
    seen = db.sql("FROM v")
    db.unprotect("t", reason="a mistake")
    assert seen.shape[0] == 1
    assert db.sql("FROM v").shape[0] == 0


def test_what_is_built_on_it(db):
    rows = db.sql("SELECT range AS i FROM range(6)")
    assert rows.filter("i > 1").order("i DESC").limit(2, offset=1).fetchall() == [(4,), (3,)]
    assert rows.select("i % 2 AS odd").distinct().aggregate("count(*) AS n").fetchall() == [(2,)]
    assert sorted(rows.select("i % 2 AS odd").aggregate("odd, count(*) AS n", "odd").fetchall()) == [(0, 3), (1, 3)]
    rows.to_table("six")
    assert db.table("six").shape == (6, 1)
    assert "RANGE" in rows.explain().upper()


def test_execute_is_fetched_from_the_connection(db):
    """By the names that Python's database API has, and as frames."""
    assert db.execute("FROM range(4)").fetchone() == (0,)
    assert db.fetchmany(2) == [(1,), (2,)]
    assert (db.fetchall(), db.fetchone()) == ([(3,)], None)
    assert db.execute("SELECT 1 AS a").df().a[0] == db.execute("SELECT 1 AS a").pl()["a"][0] == 1
    assert db.execute("SELECT 1 AS a").arrow().num_rows == 1
    assert db.description[0][0] == "a"


def test_a_cursor_is_a_connection_of_its_own(people):
    with people.cursor() as other:
        other.begin().sql("CREATE TABLE theirs (a INTEGER)")
        assert people.sql("FROM duckdb_tables() WHERE table_name = 'theirs'").fetchall() == []
        other.commit()
        assert other.budget().equals(people.budget())
        assert other.sql("FROM dp_ledger('people')").shape[0] >= 1
    assert people.table("theirs").fetchall() == []


def test_a_cursor_goes_on_when_nobody_holds_its_connection():
    with dpsql.connect().cursor() as other:
        gc.collect()
        other.sql("CREATE TABLE t (a BOOLEAN)")
        assert other.protect("t", epsilon=1.0, delta=1e-9).epsilon == 1.0


@pytest.mark.parametrize(("package", "method"), [("pyarrow", "arrow"), ("polars", "pl")])
def test_a_package_that_is_missing_is_named(db, monkeypatch, package, method):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == package else found(name, *more)
    )
    for rows in (db.sql("SELECT 1"), db.execute("SELECT 1")):
        with pytest.raises(DpsqlError, match=f"pip install {package}"):
            getattr(rows, method)()


@pytest.mark.medium
def test_a_release_is_read_in_every_shape(people):
    release = people.synthesize("people", 0.1, mechanism="direct", columns="sick", steps=20)
    rows = release.entry.rows
    assert release.df().shape == release.pl().shape == release.arrow().shape == release.relation.shape == (rows, 1)
    assert people.sql("SELECT count(*) FROM release").fetchall() == [(rows,)]
    assert "│" in repr(release.relation)
    assert release.entry.guarantee in repr(release)


COUNTED = "FROM dp_query('SELECT sick, count(*) AS n FROM people GROUP BY sick', epsilon := 0.1, release := random()::VARCHAR)"


@pytest.mark.medium
@pytest.mark.parametrize("method", ["table", "view"])
def test_a_view_that_charges_runs_once(people, method):
    """Each run of this view is a charge, because its release has another name each time."""
    people.sql(f"CREATE VIEW counted AS {COUNTED}")
    rows = getattr(people, method)("counted")
    assert rows.fetchall() == rows.fetchall()
    assert "sick" in repr(rows)
    assert len(people.sql("FROM dp_ledger() WHERE kind = 'charge'").fetchall()) == 1


@pytest.mark.medium
def test_a_pivot_of_what_was_paid_for_is_shown(people):
    rows = people.sql(f"PIVOT (SELECT sick, n FROM ({NOISY})) ON sick USING sum(n)")
    [(no, yes)] = rows.fetchall()
    assert no > yes
    assert len(people.sql("FROM dp_ledger() WHERE kind = 'charge'").fetchall()) == 1


@pytest.mark.medium
def test_a_relation_that_calls_dpsql_has_its_alias(people):
    assert people.sql(NOISY, alias="answers").filter("answers.n IS NOT NULL").columns[0] == "sick"
    assert people.sql("FROM dp_ledger()", alias="events").filter("events.kind = 'charge'").shape[0] == 1


@pytest.mark.medium
def test_a_release_of_a_database_that_was_closed_fails_nothing_else(people):
    """Its variable has the name of a word in the statement: a release is read only by a statement that asks for it."""
    with dpsql.connect() as other:
        other.sql("CREATE TABLE t AS SELECT i % 2 = 0 AS even FROM range(100) r(i)")
        other.protect("t", epsilon=1.0, delta=1e-6)
        answer = other.synthesize("t", 1.0, relaxed_rows=16, steps=20)  # noqa: F841 - SQL names it
        assert other.sql("SELECT count(*) FROM answer").fetchall()[0][0] > 0
    assert people.sql("SELECT 42 AS answer").fetchall() == [(42,)]
    assert people.sql("SELECT 42 AS my_answer").fetchall() == [(42,)]
    with pytest.raises(DpsqlError, match="answer"):
        people.sql("FROM answer")
    people.begin()
    with pytest.raises(DpsqlError):
        people.sql("SELECT 1/0 FROM nowhere")
    people.sql("ROLLBACK")
