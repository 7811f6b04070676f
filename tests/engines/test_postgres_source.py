"""Tables in Postgres as an owner registers them, and all that can be asked of them."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from dpsql.errors import DpsqlError

from .postgres_bank import Bank, bank

pytestmark = pytest.mark.medium
ERRORS = (DpsqlError, duckdb.Error)


@pytest.fixture(scope="module")
def visits(tmp_path_factory) -> Iterator[Bank]:
    """A table in Postgres, and the same rows in DuckDB, with the same domains."""
    with bank(tmp_path_factory.mktemp("visits")) as found:
        rows = (
            "SELECT i AS id, 'p' || i % 300 AS person, 'w' || i % 5 AS ward, CAST(i % 90 AS {int}) AS age, "
            "CAST(i % 80 AS {float}) / 8 AS weight, CAST('row ' || i % 12 AS {text}) AS note"
        )
        found.sql(
            f"CREATE TABLE visits AS {rows.format(int='int4', float='float8', text='text')} FROM generate_series(1, 6000) i",
            "ALTER TABLE visits ADD PRIMARY KEY (id)",
        )
        found.source("visits")
        found.db.sql(
            f"CREATE TABLE here AS {rows.format(int='INTEGER', float='DOUBLE', text='VARCHAR')} FROM range(1, 6001) r(i)"
        )
        for table in ("visits", "here"):
            found.db.protect(table, epsilon=1000.0, delta=1e-6)
            found.db.domain(table, "ward", values=[f"w{n}" for n in range(4)])
            found.db.domain(table, "age", lower=0, upper=89)
            found.db.domain(table, "weight", lower=0, upper=9, bins=18)
            for name in ("id", "person", "note"):
                found.db.domain(table, name, exclude=True)
        yield found


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM {}",
        "SELECT ward, count(*) FROM {} GROUP BY ward",
        "SELECT ward, age // 10, count(*) FILTER (weight > 3) FROM {} GROUP BY ward, age // 10",
        "SELECT sum(age), sum(weight), avg(weight) FROM {}",
        "SELECT ward, sum(CASE WHEN age < 50 THEN least(weight * 2, 9) - 1 ELSE round(weight, 1) END) FROM {} GROUP BY 1",
        "SELECT sum(abs(weight - 4) / 3), sum(floor(weight) + ceil(weight)), sum(greatest(-weight, -5)) FROM {}",
        "SELECT sum(age * weight), covar_pop(age, weight) FROM {}",
        "SELECT w.size, count(*) FROM {} v JOIN wards w ON v.ward = w.ward GROUP BY w.size",
    ],
)
def test_answers_are_those_of_the_same_rows_in_duckdb(visits, query):
    """With a budget at which the noise is nearly nothing."""
    visits.db.sql("CREATE TABLE IF NOT EXISTS wards AS SELECT 'w' || i AS ward, i % 2 AS size FROM range(4) r(i)")
    found = [
        visits.db.sql(f"FROM dp_query('{query.format(table)}', epsilon := 90)").fetchall()
        for table in ("visits", "here")
    ]
    for there, here in zip(*found, strict=True):
        texts, numbers = (
            [[x for x in row if isinstance(x, str) == is_text] for row in (there, here)] for is_text in (1, 0)
        )
        assert texts[0] == texts[1]
        assert numbers[0] == pytest.approx(numbers[1], rel=5e-3, abs=6.0)


def test_a_synthetic_table(visits, quick):
    """Its rows are here; those of the quick settings are of about the right kind."""
    made = f"dp_synthesize('visits', epsilon := 100, columns := ['ward', 'age'], {quick})"
    wards = dict(visits.db.sql(f"SELECT ward, count(*) FROM {made} GROUP BY ward").fetchall())
    assert {*wards} <= {None, *(f"w{n}" for n in range(4))}
    assert sum(wards.values()) == pytest.approx(6000, abs=60)


def test_values_that_are_discovered(visits, tmp_path):
    with bank(tmp_path) as found:
        found.sql(
            "CREATE TABLE t (id int4 PRIMARY KEY, who text, note text)",
            "INSERT INTO t SELECT i, 'p' || i % 100, CASE WHEN i = 7 THEN 'only one' ELSE 'note ' || i % 3 END "
            "FROM generate_series(1, 1000) i",
        )
        found.source("t")
        found.db.protect("t", epsilon=20.0, delta=1e-4, privacy_unit="who", max_rows=4)
        values = found.db.discover("t", "note", epsilon=10.0)
        assert "only one" not in str(values)
        (labels,) = found.db.sql("SELECT labels FROM dp_domains('t') WHERE \"column\" = 'note'").fetchall()[0]
        assert {label for label in labels if label.startswith("note")} == {"note 0", "note 1", "note 2"}


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("relation := 'nowhere'", "no table 'nowhere'.*relation := 'schema.table'"),
        ("relation := 'a.b.c.d'", "no table"),
        ("relation := 'v'", "view: name the table"),
        ("relation := 't', identity := 'y'", r"identity.*there are: id"),
        ("relation := 't', identity := ['id', 'y']", r"identity.*there are: id"),
        ("identity := 'id'", "relation := 'schema.table'"),
        ("relation := 't', files := 'a'", "files"),
        ("relation := 't', sample := 10, \"rows\" := 100", "sample"),
        ("relation := 't', secret := 'prod'", "one of them"),
    ],
)
def test_a_wrong_call_says_what_works(tmp_path, call, says):
    with bank(tmp_path) as found:
        found.sql("CREATE TABLE t (id int4 PRIMARY KEY, y int4)", "CREATE VIEW v AS TABLE t")
        with pytest.raises(ERRORS, match=says):
            found.db.sql(f"CALL dp_source('t', engine := 'postgres', environment := '{found.variable}', {call})")
        assert not found.db.sql("SHOW TABLES").fetchall()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("environment := 'NO_SUCH_VARIABLE'", "NO_SUCH_VARIABLE.*no such variable"),
        ("secret := 'prod'", "prod.*(allow_unredacted_secrets|no such secret)"),
    ],
)
def test_words_that_are_not_there(db, call, says):
    with pytest.raises(ERRORS, match=says):
        db.sql(f"CALL dp_source('t', engine := 'postgres', relation := 't', {call})")


def test_what_it_cannot_do_is_refused_before_the_charge(tmp_path):
    with bank(tmp_path) as found:
        found.sql("CREATE TABLE t (id int4, who text NOT NULL, share text, x float8, tags json)")
        found.source("t")
        db = found.db
        with pytest.raises(ERRORS, match="identity"):
            db.protect("t", epsilon=1.0, delta=1e-6, privacy_unit="who", max_rows=3)
        found.sql("ALTER TABLE t ADD PRIMARY KEY (id)")
        db.sql("CALL dp_source('t', identity := 'id')")
        with pytest.raises(ERRORS, match="privacy_unit is 'tags'"):
            db.protect("t", epsilon=1.0, delta=1e-6, privacy_unit="tags", max_rows=3)
        db.protect("t", epsilon=1.0, delta=1e-6, privacy_unit="who", max_rows=3)
        with pytest.raises(ERRORS, match="read_as.*values"):
            db.domain("t", "share", lower=0, upper=100, read_as="DECIMAL(5,1)%")
        db.domain("t", "x", lower=-1, upper=1, bins=4)
        db.domain("t", "who", values=["a", "b"])
        for text, says in {
            "SELECT count(DISTINCT share) FROM t": "DISTINCT",
            f"SELECT sum({' * '.join('x' * 8)}) FROM t": "could fail in Postgres",
        }.items():
            for call in (f"dp_query('{text}', epsilon := 0.1)", f"dp_plan('{text}', epsilon := 0.1)"):
                with pytest.raises(ERRORS, match=says):
                    db.sql(f"FROM {call}").fetchall()
        for call in ("dp_synthesize('t', epsilon := 0.1, {})", "dp_plan('t', epsilon := 0.1, {})"):
            with pytest.raises(ERRORS, match="option|excluded|declare|sample"):
                db.sql("FROM " + call.format("mechanism := 'dualquery', subsample := true")).fetchall()
        assert db.sql("SELECT epsilon_spent, releases FROM dp_budget()").fetchall() == [(0.0, 0)]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        ("CREATE MATERIALIZED VIEW m AS TABLE t", "materialized view"),
        ("CREATE TABLE m AS TABLE t; ALTER TABLE m ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; "
         "GRANT SELECT ON m TO reader", "row security"),
        ("CREATE TABLE m AS TABLE t", "no column"),
    ],
)  # fmt: skip
def test_relations_that_are_no_plain_tables(tmp_path, make, says):
    with bank(tmp_path) as found:
        if not found.server.has_role("reader"):
            found.sql("CREATE ROLE reader LOGIN")
        found.sql("CREATE TABLE t (x int4)", *make.split("; "))
        found.connect_as("reader")
        with pytest.raises(ERRORS, match=says):
            found.source("m")


def test_one_table_has_one_budget(visits):
    """The same table under another name is refused."""
    with pytest.raises(ERRORS, match="visits"):
        visits.source("again", "visits")


def test_a_secret_of_duckdb_leads_there(tmp_path):
    """Where DuckDB has its extension and was opened so that it shows secrets."""
    package = pytest.importorskip("duckdb_extension_postgres_scanner", reason="no Postgres extension for this DuckDB")
    from pathlib import Path

    (path,) = Path(package.__file__).parent.rglob("*.duckdb_extension")
    if f"v{duckdb.__version__}" not in str(path):
        pytest.skip("no Postgres extension for this DuckDB")
    with bank(tmp_path, config={"allow_unredacted_secrets": "true"}) as found:
        found.sql("CREATE TABLE t (x int4)")
        found.db.sql(f"LOAD '{path}'")
        found.db.sql(
            f"CREATE SECRET prod (TYPE postgres, HOST '{found.server.folder}', USER 'postgres', "
            f"PASSWORD 'a;user=b=\\''''c', DATABASE '{found.database}')"
        )
        found.db.sql("CALL dp_source('t', engine := 'postgres', secret := 'prod', relation := 't')")
        assert found.db.sql("FROM t").columns == ["x"]
        assert "secret := 'prod'" not in found.db.sql("FROM dpsql.source").fetchall()[0]
