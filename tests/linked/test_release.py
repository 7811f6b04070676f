"""A linked release through the public doors: one charge, any order, keys that fit, all tables or none."""

from __future__ import annotations

import json

import duckdb
import pytest

import dpsql
from dpsql.books.accounts import verification
from dpsql.books.ledger.store import Books
from dpsql.errors import BooksError, DpsqlError, InsufficientBudget, InvalidArgument, UnknownName
from dpsql.release.synthesis import resolve

TABLES = """
    CREATE TABLE patients (pid INTEGER PRIMARY KEY, sex VARCHAR, age INTEGER);
    CREATE TABLE visits (vid UUID PRIMARY KEY, pid INTEGER REFERENCES patients (pid), ward INTEGER, severity INTEGER);
    CREATE TABLE labs (vid UUID REFERENCES visits (vid), result DOUBLE, note VARCHAR);
    CREATE TABLE cards (pid INTEGER PRIMARY KEY REFERENCES patients (pid), colour VARCHAR);
    INSERT INTO patients SELECT i, ['m', 'f'][1 + i % 2], 20 + i % 60 FROM range(900) r(i);
    INSERT INTO visits SELECT uuid(), nullif(i * 7 % 700, 5), i % 3, i % 4 FROM range(1500) r(i);
    INSERT INTO labs SELECT vid, random() * 10, 'free text' FROM visits, range(2) WHERE severity > 1;
    INSERT INTO cards SELECT pid, ['red', 'blue'][1 + pid % 2] FROM patients WHERE pid % 3 = 0;
"""
LINKS = """
    CALL dp_protect('patients', epsilon := 50.0, delta := 1e-9);
    CALL dp_link('visits', 'patients', most := 10);
    CALL dp_link('labs', 'visits', most := 4);
    CALL dp_link('cards', 'patients', most := 1);
    CALL dp_domain('patients', 'sex', "values" := ['m', 'f']);
    CALL dp_domain('patients', 'age', lower := 0, upper := 99, bins := 5);
    CALL dp_domain('visits', 'ward', "values" := ['0', '1', '2']);
    CALL dp_domain('visits', 'severity', lower := 0, upper := 3, bins := 4);
    CALL dp_domain('labs', 'result', lower := 0, upper := 10, bins := 4);
    CALL dp_domain('labs', 'note', exclude := true);
    CALL dp_domain('cards', 'colour', "values" := ['red', 'blue']);
"""
NAMES = ("patients", "visits", "labs", "cards")
QUICK = "steps := 40, relaxed_rows := 20"


def run(db: dpsql.Database, script: str) -> None:
    for statement in script.split(";"):
        if statement.strip():
            db.sql(statement).fetchall() if statement.strip().upper().startswith(("CALL", "FROM")) else db.sql(
                statement
            )


@pytest.fixture
def clinic():
    with dpsql.connect() as db:
        run(db, TABLES + LINKS)
        yield db


def asked(table: str, epsilon: float = 20.0, more: str = "") -> str:
    return f"FROM dp_synthesize('{table}', epsilon := {epsilon}, linked := true, {QUICK}{more})"


def charges(db: dpsql.Database) -> int:
    (count,) = db.sql("SELECT count(*) FROM dp_ledger() WHERE kind = 'charge'").fetchall()[0]
    return int(count)


FITS = {
    "keys of visits": "SELECT count(*) FROM visits ANTI JOIN patients USING (pid)",
    "keys of labs": "SELECT count(*) FROM labs ANTI JOIN visits USING (vid)",
    "keys of cards": "SELECT count(*) FROM cards ANTI JOIN patients USING (pid)",
    "patients once": "SELECT count(*) - count(DISTINCT pid) FROM patients",
    "visits once": "SELECT count(*) - count(DISTINCT vid) FROM visits",
    "one card each": "SELECT count(*) - count(DISTINCT pid) FROM cards",
    "most visits": "SELECT count(*) FROM (FROM visits SELECT pid GROUP BY pid HAVING count(*) > 10)",
    "most labs": "SELECT count(*) FROM (FROM labs SELECT vid GROUP BY vid HAVING count(*) > 4)",
}


@pytest.mark.medium
@pytest.mark.parametrize("order", [("labs", "patients", "cards", "visits"), ("patients", "visits", "labs", "cards")])
def test_any_order_is_one_charge_and_keys_fit(clinic, order):
    clinic.sql("CREATE SCHEMA made")
    for table in order:
        clinic.sql(f"CREATE TABLE made.{table} AS {asked(table)}")
        assert charges(clinic) == 1
    clinic.sql("USE made")
    assert {name: clinic.sql(query).fetchall()[0][0] for name, query in FITS.items()} == dict.fromkeys(FITS, 0)
    counts = {table: clinic.sql(f"SELECT count(*) FROM {table}").fetchall()[0][0] for table in NAMES}
    assert all(counts.values())
    types = {table: clinic.sql(f"FROM {table}").types for table in NAMES}
    assert types == {table: clinic.sql(f"FROM main.{table}").types for table in NAMES}
    assert (
        clinic.sql("SELECT count(*) FROM patients ANTI JOIN visits USING (pid)").fetchall()[0][0] > 0
    )  # zero children


@pytest.mark.medium
def test_a_schema_has_all_tables_with_their_keys(clinic):
    release = clinic.synthesize("visits", 20.0, linked=True, steps=40, relaxed_rows=20)
    assert release.tables == NAMES or set(release.tables) == set(NAMES)
    assert list(release.df()) == ["vid", "pid", "ward", "severity"]
    assert list(release["LABS"].df()) == ["vid", "result", "note"]
    with pytest.raises(UnknownName, match="there are patients"):
        release["wards"]
    rows = release.to_schema("copy")
    assert rows == {table: len(release[table].df()) for table in NAMES}
    constraints = clinic.sql(
        "SELECT table_name, constraint_type, constraint_column_names FROM duckdb_constraints() "
        "WHERE schema_name = 'copy' AND constraint_type IN ('PRIMARY KEY', 'FOREIGN KEY') ORDER BY ALL"
    ).fetchall()
    assert constraints == [
        ("cards", "FOREIGN KEY", ["pid"]),
        ("cards", "PRIMARY KEY", ["pid"]),
        ("labs", "FOREIGN KEY", ["vid"]),
        ("patients", "PRIMARY KEY", ["pid"]),
        ("visits", "FOREIGN KEY", ["pid"]),
        ("visits", "PRIMARY KEY", ["vid"]),
    ]
    with pytest.raises(DpsqlError, match="already exists"):
        release.to_schema("copy")
    number = release.entry.number
    shown = clinic.sql(f"CALL dp_publish({number}, 'by_sql')").fetchall()
    assert sorted(row[0] for row in shown) == [f"by_sql.{table}" for table in sorted(NAMES)]
    assert "together with all its rows in visits, labs, cards" in release.entry.guarantee
    assert release.verdict.text
    assert len(release.errors)


@pytest.mark.medium
def test_what_is_published_is_all_tables(tmp_path):
    """A row of a table below that is changed afterwards is found out, as one of the root is."""
    path = tmp_path / "clinic.duckdb"
    with dpsql.connect(path) as db:
        run(db, TABLES + LINKS)
        release = db.synthesize("patients", 20.0, linked=True, steps=40, relaxed_rows=20)
        number = release.entry.number
    with duckdb.connect(str(path)) as con:
        con.execute(f"UPDATE dpsql.release_{number}_1 SET ward = 1 - ward WHERE ward < 2")
    with duckdb.connect(str(path)) as con, pytest.raises(BooksError, match="are not those that were published"):
        verification.verify(Books(con, "clinic"))


REFUSED = {
    "columns := ['sex']": "leave columns out",
    "workload := 'all 2-way'": "leave workload out",
    "prior := 'cards'": "leave prior out",
}


@pytest.mark.parametrize("argument", REFUSED)
def test_what_is_not_there_yet_is_refused_before_a_charge(clinic, argument):
    with pytest.raises(duckdb.Error, match=REFUSED[argument]):
        clinic.sql(asked("patients", more=f", {argument}"))
    assert charges(clinic) == 0


def test_a_table_without_links_is_refused():
    with dpsql.connect() as db:
        run(db, "CREATE TABLE t (a BOOLEAN); CALL dp_protect('t', epsilon := 1.0, delta := 1e-9)")
        with pytest.raises(duckdb.Error, match="no table is linked to 't', and .* privacy unit: say CALL dp_link"):
            db.sql(asked("t"))


@pytest.mark.medium
def test_more_than_is_left_is_refused_for_every_table(clinic):
    for table in NAMES:
        with pytest.raises(duckdb.Error, match="epsilon"):
            clinic.sql(asked(table, 90.0))
        with pytest.raises(InsufficientBudget):
            clinic.synthesize(table, 90.0, linked=True)
    assert charges(clinic) == 0


@pytest.mark.medium
def test_the_request_hashes_the_tree_and_not_the_table(clinic):
    plans = [clinic.sql(f"FROM dp_plan('{table}', epsilon := 1.0, linked := true)").df() for table in NAMES]
    assert all(plan.equals(plans[0]) for plan in plans)
    with clinic.instance.cursor() as cursor:
        keys = {resolve(cursor, clinic.request(table, 1.0, linked=True)).key for table in NAMES}
        plain = resolve(cursor, clinic.request("patients", 1.0, columns=["sex", "age"])).key
        before = resolve(cursor, clinic.request("patients", 1.0, linked=True)).canonical
    assert len(keys) == 1
    assert plain not in keys
    clinic.sql("CALL dp_domain('cards', 'colour', \"values\" := ['red', 'blue', 'green'])").fetchall()
    with clinic.instance.cursor() as cursor:
        after = resolve(cursor, clinic.request("patients", 1.0, linked=True)).canonical
    assert {name for name in json.loads(after) if json.loads(after)[name] != json.loads(before)[name]} == {"domain"}


@pytest.mark.medium
def test_a_fact_about_a_table_below_holds_of_its_rows(clinic):
    clinic.sql("CALL dp_constraint('visits', 'severity < 2 OR ward = 1')").fetchall()
    clinic.sql("CALL dp_constraint('patients', 'sex = ''f'' OR age < 60')").fetchall()
    release = clinic.synthesize("visits", 20.0, linked=True, steps=40, relaxed_rows=20)
    visits, patients = release.df(), release["patients"].df()
    assert not ((visits.severity >= 2) & (visits.ward != 1) & visits.ward.notna()).any()
    assert not ((patients.sex == "m") & (patients.age >= 60)).any()


@pytest.mark.medium
@pytest.mark.parametrize("mechanism", ["direct", "mwem", "pgm"])
def test_other_mechanisms_make_trees_too(mechanism):
    with dpsql.connect() as db:
        run(
            db,
            "CREATE TABLE p (k INTEGER PRIMARY KEY, a BOOLEAN); CREATE TABLE c (k INTEGER REFERENCES p (k), b BOOLEAN)",
        )
        run(
            db,
            "INSERT INTO p SELECT i, i % 3 = 0 FROM range(500) r(i); INSERT INTO c SELECT i % 400, i % 2 = 0 FROM range(700) r(i)",
        )
        run(db, "CALL dp_protect('p', epsilon := 3.0, delta := 1e-9); CALL dp_link('c', 'p', most := 3)")
        release = db.synthesize("p", 2.0, linked=True, mechanism=mechanism)
        assert {table: len(release[table].df()) > 100 for table in release.tables} == {"p": True, "c": True}


KINDS = ["VARCHAR", "UUID", "DATE", "BIGINT", "SMALLINT", "DECIMAL(9,0)", "TIMESTAMP"]


@pytest.mark.medium
@pytest.mark.parametrize("kind", KINDS)
def test_keys_of_many_types_are_numbered(kind):
    values = {
        "UUID": "uuid()",
        "DATE": "DATE '2000-01-01' + i::INT",
        "TIMESTAMP": "TIMESTAMP '2000-01-01' + i * INTERVAL 1 DAY",
    }
    with dpsql.connect() as db:
        run(
            db,
            f"CREATE TABLE p (k {kind} PRIMARY KEY, a BOOLEAN); CREATE TABLE c (k {kind} REFERENCES p (k), b BOOLEAN)",
        )
        run(db, f"INSERT INTO p SELECT {values.get(kind, 'i')}, i % 3 = 0 FROM range(300) r(i)")
        run(db, "INSERT INTO c SELECT k, n > 0 FROM p, range(2) s(n)")
        run(db, "CALL dp_protect('p', epsilon := 9.0, delta := 1e-9); CALL dp_link('c', 'p', most := 3)")
        release = db.synthesize("p", 5.0, linked=True, steps=30, relaxed_rows=20)
        release.to_schema("made")
        assert db.sql("SELECT count(*) > 100 FROM made.c JOIN made.p USING (k)").fetchall() == [(True,)]


@pytest.mark.medium
def test_composite_keys_and_rows_without_columns():
    with dpsql.connect() as db:
        run(db, "CREATE TABLE house (town INTEGER, nr VARCHAR, PRIMARY KEY (town, nr))")
        run(
            db,
            "CREATE TABLE person (town INTEGER, nr VARCHAR, line INTEGER, head BOOLEAN, PRIMARY KEY (town, nr, line))",
        )
        run(db, "INSERT INTO house SELECT i % 7, i::VARCHAR FROM range(400) r(i)")
        run(db, "INSERT INTO person SELECT town, nr, n, n = 0 FROM house, range(3) s(n) WHERE n <= town % 3")
        run(db, "CALL dp_protect('house', epsilon := 9.0, delta := 1e-9)")
        run(db, "CALL dp_link('person', 'house', key := ['town', 'nr'], most := 5)")
        release = db.synthesize("house", 5.0, linked=True, steps=30, relaxed_rows=20)
        release.to_schema("made")
        lines = db.sql(
            "SELECT max(line), max(n) FROM (FROM made.person SELECT *, count(*) OVER (PARTITION BY town, nr) AS n)"
        )
        most, largest = lines.fetchall()[0]
        assert most == largest <= 5


@pytest.mark.medium
@pytest.mark.parametrize("kind", ["UTINYINT", "SMALLINT", "DECIMAL(3, 0)"])
def test_more_rows_than_a_key_has_numbers_lead_to_it(kind):
    """A foreign key repeats, so its type bounds the rows of its parent and not those that lead there."""
    with dpsql.connect() as db:
        db.sql(f"CREATE TABLE r AS SELECT i::{kind} AS pid, i % 2 = 0 AS a FROM range(1, 101) t(i)")
        db.sql(f"CREATE TABLE v AS SELECT (1 + i % 100)::{kind} AS pid, i % 3 = 0 AS b FROM range(900) t(i)")
        db.protect("r", epsilon=50.0, delta=1e-9)
        db.link("v", "r", key="pid", references="pid", most=20)
        release = db.synthesize("r", 40.0, linked=True, steps=40, relaxed_rows=20)
        assert 90 <= len(release["r"].df()) <= 110
        assert 700 <= len(release["v"].df()) <= 1_100


@pytest.mark.medium
def test_a_key_within_its_parent_is_as_small_as_it_is_there():
    with dpsql.connect() as db:
        db.sql("CREATE TABLE r AS SELECT i AS pid, i % 2 = 0 AS a FROM range(500) t(i)")
        db.sql("CREATE TABLE v (pid BIGINT, nr TINYINT, b BOOLEAN, PRIMARY KEY (pid, nr))")
        db.sql("INSERT INTO v SELECT i % 500, i // 500, i % 3 = 0 FROM range(1000) t(i)")
        db.protect("r", epsilon=50.0, delta=1e-9)
        db.link("v", "r", key="pid", references="pid", most=5)
        rows = db.synthesize("r", 40.0, linked=True, steps=40, relaxed_rows=20)["v"].df()
        assert len(rows) > 900
        assert not rows.duplicated(["pid", "nr"]).any()


@pytest.mark.parametrize(
    ("key", "most", "words"),
    [
        ("pid UTINYINT, nr INTEGER", 5, "give it that one's type, INTEGER"),
        ("pid INTEGER, nr TINYINT", 200, "larger type"),
    ],
)
def test_a_key_that_holds_too_few_numbers_is_refused_before_a_charge(key, most, words):
    with dpsql.connect() as db:
        db.sql("CREATE TABLE r AS SELECT i::INTEGER AS pid, i % 2 = 0 AS a FROM range(500) t(i)")
        db.sql(f"CREATE TABLE v ({key}, b BOOLEAN, PRIMARY KEY (pid, nr))")
        db.protect("r", epsilon=50.0, delta=1e-9)
        db.link("v", "r", key="pid", references="pid", most=most)
        with pytest.raises(InvalidArgument, match=words):
            db.synthesize("r", 40.0, linked=True, steps=40, relaxed_rows=20)
        assert db.sql("SELECT releases FROM dp_budget()").fetchall() == [(0,)]


@pytest.mark.medium
@pytest.mark.parametrize("schema", ["DPSQL", "Main", "Information_Schema"])
def test_no_schema_of_the_database_itself_is_written(clinic, schema):
    release = clinic.synthesize("patients", 20.0, linked=True, steps=40, relaxed_rows=20)
    with pytest.raises(InvalidArgument, match="new schema"):
        release.to_schema(schema)


@pytest.mark.medium
def test_a_schema_says_not_null_of_what_was_so_and_has_its_values():
    with dpsql.connect() as db:
        run(
            db,
            """
            CREATE TABLE p (id INTEGER PRIMARY KEY, a BOOLEAN NOT NULL, b BOOLEAN, left_out VARCHAR NOT NULL);
            CREATE TABLE c (up INTEGER NOT NULL REFERENCES p (id), "as is" BOOLEAN NOT NULL, y BOOLEAN);
            INSERT INTO p SELECT i, i % 2 = 0, i % 3 = 0, 'x' FROM range(500) r(i);
            INSERT INTO c SELECT i % 400, i % 2 = 0, i % 5 = 0 FROM range(800) r(i);
            CALL dp_protect('p', epsilon := 50.0, delta := 1e-9);
            CALL dp_link('c', 'p', most := 3);
            CALL dp_domain('p', 'left_out', exclude := true)
            """,
        )
        db.synthesize("p", 20.0, linked=True, mechanism="direct").to_schema("copy")
        required = db.sql(
            "SELECT table_name, column_name FROM duckdb_columns() WHERE schema_name = 'copy' AND NOT is_nullable ORDER BY ALL"
        ).fetchall()
    assert required == [("c", "as is"), ("c", "up"), ("p", "a"), ("p", "id")]


@pytest.mark.medium
def test_a_table_that_comes_out_empty_says_so_and_what_helps():
    with dpsql.connect() as db:
        run(
            db,
            """
            CREATE TABLE p (id INTEGER PRIMARY KEY, a BOOLEAN NOT NULL);
            CREATE TABLE c (up INTEGER REFERENCES p (id), x BOOLEAN NOT NULL);
            INSERT INTO p SELECT i, i % 2 = 0 FROM range(300) r(i);
            CALL dp_protect('p', epsilon := 50.0, delta := 1e-9);
            CALL dp_link('c', 'p', most := 3)
            """,
        )
        release = db.synthesize("p", 20.0, linked=True, mechanism="direct")
        assert len(release["p"].df())
        assert not len(release["c"].df())
        assert any("c has no rows" in word and "larger epsilon" in word for word in release.warnings)
