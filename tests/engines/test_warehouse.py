"""Snowflake and BigQuery: texts of statements, what is refused and when, and an owner's work from the first call on.

There is no account to run them on. The texts are in `golden/`, for somebody who has one; the counts are those of the
statements in DuckDB (`warehouse_place.py`).
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import duckdb
import pytest
import sqlglot
from sqlglot import exp

import dpsql
from dpsql.core.domain import Attribute, Domain
from dpsql.engines.sql import types
from dpsql.engines.sql.bigquery import BigQuery
from dpsql.engines.sql.codes import MOST
from dpsql.engines.sql.counter import SqlCounter
from dpsql.engines.sql.counts import every_row, listed_values
from dpsql.engines.sql.database import Database
from dpsql.engines.sql.engine import Relation
from dpsql.engines.sql.snowflake import Snowflake, SnowflakeEngine
from dpsql.engines.sql.types import Native
from dpsql.errors import DpsqlError, InvalidArgument, InvalidQuery

from ..conftest import DATA, settle
from .conformance import CASES, attribute_of
from .warehouse_place import VARIABLE, Cursor, warehouse_place

WAREHOUSES = ("snowflake", "bigquery")
NATIVES = {
    "BOOLEAN": Native(types.TRUTH, "BOOLEAN"),
    "INTEGER": Native(types.WHOLE, "INTEGER"),
    "TINYINT": Native(types.WHOLE, "INTEGER"),
    "BIGINT": Native(types.WHOLE, "BIGINT"),
    "DOUBLE": Native(types.FLOAT, "DOUBLE"),
    "FLOAT": Native(types.FLOAT, "DOUBLE"),
    "DATE": Native(types.DATE, "DATE"),
    "TIME": Native(types.TIME, "TIME"),
    "TIMESTAMP": Native(types.TIMESTAMP, "TIMESTAMP"),
    "TIMESTAMP WITH TIME ZONE": Native(types.INSTANT, "TIMESTAMP WITH TIME ZONE"),
    "VARCHAR": Native(types.TEXT, "VARCHAR"),
}
UPDATE = "DPSQL_WRITE_GOLDEN"
CANARY = "Ms Canary"


def native_of(kind: str) -> Native | None:
    return types.decimal(9, 2) if kind.startswith("DECIMAL") else NATIVES.get(kind)


def known(name: str) -> bool:
    case = CASES[name]
    listed_floats = case.type == "DOUBLE" and "values" in case.declared
    return native_of(case.type) is not None and "read_as" not in case.declared and not listed_floats


def statements(dialect: Database) -> list[str]:
    """Of the catalogue, and one for each column of the conformance suite."""
    names = [name for name in CASES if known(name)]
    attributes = [attribute_of(name, native_of(CASES[name].type).in_duckdb) for name in names]
    texts = ["it's", "a\\b", "x\ny", "😀", "a`b", 'a"b']
    attributes.append(Attribute("texts", "VARCHAR", "values", tuple(texts), nullable=True))
    natives = {a.name: native_of(CASES[a.name].type) for a in attributes[:-1]} | {"texts": NATIVES["VARCHAR"]}
    table = dialect.at(Relation(("bank", "s", 'it"s'), natives).table(), "2026-01-01 00:00:00+00:00")
    domain = Domain(tuple(attributes))
    counter = SqlCounter(None, dialect, table, natives, domain, None)
    queries = [every_row(table.copy()), listed_values("ward", natives, dialect, table.copy())]
    queries += [counter._counting(domain, (name,)) for name in domain.names]
    queries.append(counter._counting(domain, ("truth", "wide", "texts")))
    catalogue = [*dialect.settings, dialect.columns(("bank", "s", "it's")), dialect.identity(), dialect.now()]
    return [*catalogue, *(query.sql(dialect=dialect.sqlglot) for query in queries)]


@pytest.mark.parametrize("dialect", [Snowflake(), BigQuery()], ids=lambda one: one.name)
def test_statements_are_as_written_down(dialect):
    """A change shows here: somebody with an account runs the new text before it is written down."""
    path = Path(__file__).parent / "golden" / f"{dialect.name}.sql"
    found = ";\n\n".join(statements(dialect)) + ";\n"
    if os.environ.get(UPDATE):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("dialect", [Snowflake(), BigQuery()], ids=lambda one: one.name)
def test_no_statement_casts_a_column(dialect):
    """A cast could fail for a value, and the error of the warehouse could quote it."""
    for text in statements(dialect)[len(dialect.settings) :]:
        if "INFORMATION_SCHEMA" in text or "CURRENT_" in text:
            continue
        for cast in sqlglot.parse_one(text, read=dialect.sqlglot).find_all(exp.Cast, exp.TryCast):
            assert isinstance(cast.this, exp.Literal), text


# --- an owner's work --------------------------------------------------------------------------------------------------


@pytest.fixture(params=WAREHOUSES)
def place(request, tmp_path):
    with warehouse_place(tmp_path, name=request.param) as place:
        yield place


def people(place, rows=300):
    """A table of people with a canary, registered and protected."""
    place.sql(
        "CREATE TABLE people AS SELECT 18 + i * 7 % 70 AS age, CASE WHEN i % 3 = 0 THEN 'F' WHEN i % 3 = 1 THEN 'M' "
        f"WHEN i = 2 THEN '{CANARY}' END AS sex, i / 8 AS cost FROM range({rows}) r(i)"
    )
    place._register("people")
    place._db.protect("people", epsilon=1000.0, delta=1e-9)
    return place._db


@pytest.mark.medium
@pytest.mark.skipif(not (DATA / "adult.csv.gz").exists(), reason="the table adult is not in ../shared/data")
def test_adult_is_answered_as_here(place):
    """Domains, a discovery, queries, a plan and a table of the same rows in the warehouse and in this database.

    A relaxed row of the fit stands for 95 rows, so a rare group may be off by as many; all groups together are not by 1 %.
    """
    place.sql(
        "CREATE TABLE adult AS SELECT age, nullif(workclass, '?') AS workclass, education, sex, hours_per_week, "
        f"CASE WHEN fnlwgt % 7 = 0 THEN 'nan'::DOUBLE ELSE fnlwgt / 1e5 END AS weight FROM read_csv('{DATA}/adult.csv.gz')"
    )
    db, path = place._db, place._main
    with path.cursor() as cursor:
        cursor.execute("FROM adult")
        db.connection.register("rows_of_adult", cursor.fetch_arrow_table())
    place._register("adult")
    db.sql("CREATE TABLE here AS FROM rows_of_adult")
    told = {}
    for table in ("adult", "here"):
        if table == "here":
            settle(db, table)
        db.protect(table, epsilon=1000.0, delta=1e-9)
        db.domains(
            table,
            {
                "age": {"lower": 17, "upper": 90},
                "education": {"values": db.sql("SELECT DISTINCT education FROM here").df()["education"].tolist()},
                "sex": {"values": ["Female", "Male"]},
                "hours_per_week": {"lower": 1, "upper": 99, "bins": 12},
                "weight": {"lower": 0, "upper": 10, "bins": 8, "nulls_as": ["nan"]},
            },
        )
        found = db.discover(table, "workclass", epsilon=50.0, delta=1e-10)
        texts = (
            "SELECT sex, count(*) FROM {} WHERE age > 40 GROUP BY 1",
            "SELECT count(*) FROM {} WHERE weight IS NULL",
        )
        counts = [
            row[-4]
            for text in texts
            for row in db.sql(f"FROM dp_query('{text.format(table)}', epsilon := 100)").fetchall()
        ]
        made = f"dp_synthesize('{table}', epsilon := 300, mechanism := 'direct', workload := 'all 2-way')"
        db.sql(f"CREATE TABLE made_{table} AS FROM {made}")
        groups = db.sql(f"SELECT workclass, count(*) FROM made_{table} GROUP BY ALL ORDER BY ALL").fetchall()
        told[table] = found.values, counts, groups
        assert db.sql(f"SELECT count(*) FROM dp_plan('{table}', epsilon := 1)").fetchall()[0][0] > 4
    (values, counts, groups), (values_here, counts_here, groups_here) = told["adult"], told["here"]
    assert values == values_here
    assert counts == pytest.approx(counts_here, abs=8)
    rows, rows_here = dict(groups), dict(groups_here)  # a group of seven rows may be left out
    assert sum(abs(rows.get(group, 0) - rows_here.get(group, 0)) for group in {*rows, *rows_here}) < 488
    assert db.sql("SELECT count(*) FROM adult").fetchall() == [(0,)]


@pytest.mark.medium
def test_what_it_cannot_do_is_refused_before_the_charge(place):
    db = people(place)
    db.domain("people", "age", lower=18, upper=87)
    db.domain("people", "cost", lower=0, upper=40, bins=4)
    for refused, says in {
        "SELECT avg(cost) FROM people": "sums and averages are not computed",
        "SELECT sum(cost) FROM people": "copy the table",
    }.items():
        with pytest.raises((InvalidQuery, duckdb.Error), match=says):
            db.sql(f"FROM dp_query('{refused}', epsilon := 1)").fetchall()
    with pytest.raises(DpsqlError, match="values of 'cost' are binary floats"):
        db.domain("people", "cost", values=[0.5, 1.5])
    with pytest.raises(DpsqlError, match=f"at most {MOST}"):
        db.domain("people", "cost", lower=0, upper=40, bins=MOST + 1)
    place.sql("CREATE TABLE units AS SELECT 1 AS who, 2 AS x")
    place._register("units")
    with pytest.raises(InvalidArgument, match="rows of a privacy unit are not chosen"):
        db.protect("units", epsilon=1.0, delta=1e-9, privacy_unit="who", max_rows=1)
    assert db.sql("SELECT count(*) FROM dp_ledger() WHERE kind = 'charge'").fetchall() == [(0,)]


@pytest.mark.medium
def test_a_plan_says_how_many_statements_will_be_run(place):
    db = people(place)
    db.domains("people", {"age": {"lower": 18, "upper": 87}, "sex": {"values": ["F"], "other": "?"}})
    db.domain("people", "cost", lower=0, upper=40, bins=4)
    request = "'people', epsilon := 1, mechanism := 'direct', workload := 'all 2-way'"
    planned = f"SELECT note FROM dp_plan({request}, assume_rows := 1_000_000) WHERE marginal = ['(counting)']"
    ((note,),) = db.sql(planned).fetchall()
    (told,) = re.findall(r"would run about (\d+) statements: (?:[\d.]+ to )?[\d.]+ GB read", note)
    Cursor.asked.clear()
    db.sql(f"FROM dp_synthesize({request})").fetchall()
    counting = [text for text in Cursor.asked if "COUNT(*)" in text]
    assert len(counting) == int(told) - 6  # columns, account and clock, before the charge and after
    assert len(Cursor.asked) == pytest.approx(int(told), abs=2)


@pytest.mark.medium
def test_a_domain_that_means_something_else_there_is_refused(place, monkeypatch):
    """A warehouse that compares texts in any case: found out by constants, before anything is charged."""
    db = people(place)
    db.domain("people", "sex", values=["F", "M"])
    equals = Database.equals

    def in_any_case(self, name, text, native):
        found = equals(self, name, text, native)
        return exp.EQ(this=exp.Lower(this=found.this), expression=exp.Lower(this=found.expression))

    monkeypatch.setattr(Database, "equals", in_any_case)
    with pytest.raises(InvalidArgument, match="elsewhere than DuckDB does"):
        db.domain("people", "sex", values=["F", "M"])


@pytest.mark.medium
def test_a_warehouse_that_misreads_constants_is_refused(place, monkeypatch):
    """All of them alike, so that their codes are right: it is the constants that are told apart."""
    db = people(place)
    native = Native(types.FLOAT, "DOUBLE")
    own = type(place.open().dialect).constant

    def larger(self, text, kind):
        return own(self, repr(1.3 * float(text)) if kind == native else text, kind)

    monkeypatch.setattr(type(place.open().dialect), "constant", larger)
    with pytest.raises(InvalidArgument, match="elsewhere than DuckDB does"):
        db.domain("people", "cost", lower=1, upper=10, bins=3)


@pytest.mark.medium
def test_ends_of_types_and_computed_columns(place):
    """The neighbours of the largest number are none; an expression of a computed column could fail on a value."""
    largest = 10**18 - 1 if place._name == "snowflake" else 2**63 - 1
    place.sql("CREATE TABLE ends (i BIGINT, n BIGINT GENERATED ALWAYS AS (i + 1))", "INSERT INTO ends VALUES (1)")
    place._register("ends")
    place._db.protect("ends", epsilon=10.0, delta=1e-9)
    place._db.domain("ends", "i", values=[1, largest, -largest])
    with pytest.raises(InvalidArgument, match="type BLOB"):
        place._db.domain("ends", "n", lower=0, upper=9)


@pytest.mark.medium
def test_no_option_and_no_value_is_in_an_error_or_the_books(place, monkeypatch, tmp_path):
    """The options have a password; a row has a canary, and the table changes so that each statement fails."""
    monkeypatch.setenv(VARIABLE, json.dumps({"password": "Sesame"}))
    db = people(place)
    db.domain("people", "sex", values=["F", "M"])
    said = []
    place.sql("ALTER TABLE people RENAME COLUMN sex TO gender")
    for call in (
        "dp_query('SELECT count(*) FROM people WHERE sex = ''F''', epsilon := 1)",
        "dp_plan('people', epsilon := 1)",
    ):
        try:
            db.sql(f"FROM {call}").fetchall()
        except duckdb.Error as error:
            said.append(str(error))
    monkeypatch.setenv(VARIABLE, "Sesame {")
    with pytest.raises(DpsqlError, match="environment") as failed:
        db.source("people")
    said.append(str(failed.value))
    assert any("not as dp_source registered it" in text for text in said)
    db.sql(f"EXPORT DATABASE '{tmp_path}/out'")
    written = "".join(path.read_text() for path in (tmp_path / "out").glob("*.*"))
    for text in (*said, written):
        assert "Sesame" not in text
        assert CANARY not in text
    assert db.sql("SELECT count(*) FROM dp_ledger() WHERE kind = 'charge'").fetchall() == [(0,)]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"environment": VARIABLE, "relation": "people"}, "all 3 parts of the name"),
        ({"environment": VARIABLE}, "relation is missing"),
        ({"relation": "warehouse.main.people"}, "environment is missing"),
        ({"environment": "NO_SUCH", "relation": "warehouse.main.people"}, "no such variable"),
        ({"environment": VARIABLE, "relation": "warehouse.main.nobody"}, "there is no table"),
        ({"environment": VARIABLE, "relation": "warehouse.main.seen"}, "is no table but a view"),
        ({"environment": VARIABLE, "relation": "warehouse.main.people", "sample": 5, "rows": 9}, "does not know it"),
    ],
)
def test_bad_arguments_say_what_works(arguments, says, tmp_path):
    with warehouse_place(tmp_path, name="bigquery") as place:
        place.sql("CREATE TABLE people (x INTEGER)", "CREATE VIEW seen AS FROM people")
        with pytest.raises(DpsqlError, match=says):
            place._db.source("t", engine="bigquery", **arguments)
        assert place._db.sql("SELECT count(*) FROM duckdb_tables() WHERE table_name = 't'").fetchall() == [(0,)]


@pytest.mark.parametrize("name", WAREHOUSES)
def test_a_driver_that_is_not_installed_is_named(name, monkeypatch):
    monkeypatch.setitem(os.environ, VARIABLE, "{}")
    monkeypatch.setitem(__import__("sys").modules, f"adbc_driver_{name}.dbapi", None)
    with dpsql.connect() as db, pytest.raises(DpsqlError, match=rf"pip install 'dpsql\[{name}\]'"):
        db.source("t", engine=name, environment=VARIABLE, relation="a.b.c")


# --- the page ---------------------------------------------------------------------------------------------------------

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "warehouses.md").read_text(encoding="utf-8")


@pytest.mark.medium
@pytest.mark.parametrize("name", WAREHOUSES)
def test_the_page_runs_as_it_is_written(name, tmp_path, monkeypatch):
    """But for the name of the relation, and for the warehouse."""
    (statements,) = re.findall(r"^```sql\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    with warehouse_place(tmp_path, name=name) as place:
        place.sql(
            "CREATE TABLE VISITS AS SELECT i AS id, (['surgery', 'children', 'eyes'])[1 + i % 3] AS ward, i % 100 AS age, "
            "(i % 5000)::DECIMAL(9, 2) AS cost FROM range(2000) r(i)"
        )
        (option,) = re.findall(rf"export BANK_{name[0].upper()}.='(.*)'", PAGE)
        monkeypatch.setenv("BANK_SF", option)
        said = statements.replace("BANK.CLINIC", "warehouse.main").replace("'snowflake'", f"'{name}'")
        for statement in place._db.connection.extract_statements(said):
            rows = place._db.connection.execute(statement).fetchall()
            if statement.query.lstrip().startswith("FROM dp_query"):
                assert {ward: count for ward, count, *_ in rows} == pytest.approx(dict.fromkeys(WARDS, 233), abs=90)
        made = place._db.sql("SELECT DISTINCT ward FROM made ORDER BY 1").fetchall()
        assert made == [(ward,) for ward in sorted(WARDS)]


WARDS = ("surgery", "children", "eyes")


def test_the_page_names_all_that_it_cannot_do():
    assert {*SnowflakeEngine.cannot} == {"presence", "among", "read_as"}
    for text in ("count(DISTINCT unit)", "`read_as`", "a sample of rows", "`privacy_unit`", f"{MOST:,}"):
        assert text in PAGE
