"""What counts as public: tables that something reads without noise, members of ENUM types, attached databases."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.books.ledger.store import Books
from dpsql.books.reading.priors import load_prior
from dpsql.engines.duckdb.catalog import find_source
from dpsql.errors import InvalidArgument, NotDeclared
from dpsql.owner.protect import domain_of
from tests.conftest import settle

SECRET = "Zachariah"
"""A name that one row of the private table has."""
QUICK = "relaxed_rows := 16, steps := 20"
PRIVATE = f"""
    CREATE TABLE patients AS
    SELECT CASE WHEN i = 7 THEN '{SECRET}' ELSE 'name ' || i END AS name, (20 + i % 50)::INTEGER AS age FROM range(141) r(i);
    CREATE TABLE open AS SELECT 'name 1' AS name, 21::INTEGER AS age;
    CREATE VIEW people AS SELECT * FROM patients;
"""


@pytest.fixture
def hospital(db: dpsql.Database) -> dpsql.Database:
    """A protected table `patients`, a view of it named `people`, and a public table `open`."""
    db.sql(PRIVATE)
    db.protect("patients", epsilon=3.0, delta=1e-6)
    db.domain("patients", "name", values=["name 1", "name 2"], other="another")
    db.domain("patients", "age", lower=20, upper=69, bins=5)
    return db


def spent(db: dpsql.Database) -> float:
    return float(db.budget().epsilon_spent[0])


SNEAKY = {
    "a CTE of another scope": """
        SELECT * FROM people WHERE (WITH people AS (SELECT true AS yes) SELECT yes FROM people)""",
    "a CTE in a join": "SELECT people.* FROM people, (WITH people AS (SELECT 1 AS one) SELECT * FROM people) AS x",
    "a CTE that names itself": "WITH people AS (SELECT * FROM people) SELECT * FROM people",
    "a materialized CTE": "WITH x AS MATERIALIZED (FROM patients) SELECT a.* FROM x a JOIN x b USING (name)",
    "a recursive CTE": """
        WITH RECURSIVE x AS (SELECT name, age FROM open UNION ALL SELECT p.name, p.age FROM patients p, x WHERE x.age < 20)
        FROM x""",
    "a correlated subquery": "SELECT * FROM open o WHERE o.age <= (SELECT max(age) FROM patients p WHERE p.age >= o.age)",
    "EXISTS": "SELECT * FROM open WHERE EXISTS (FROM patients)",
    "a semi join": "SELECT * FROM open SEMI JOIN patients USING (age)",
    "an anti join": "SELECT * FROM open ANTI JOIN patients USING (age)",
    "a lateral join": "SELECT l.* FROM open o, LATERAL (SELECT * FROM patients p WHERE p.age >= o.age) AS l",
    "a set operation": "FROM open EXCEPT FROM patients",
    "PIVOT": 'SELECT name, "20_n"::INTEGER AS age FROM (PIVOT patients ON age IN (20) USING count(*) AS n GROUP BY name)',
    "a scalar macro": "SELECT name, oldest(1) AS age FROM open",
    "a table macro": "FROM everybody()",
    "query()": "SELECT name, age FROM query('from pat' || 'ients')",
    "query_table()": "SELECT name, age FROM query_table('pat' || 'ients')",
    "a view of views": "SELECT age FROM (SELECT age FROM people)",
    "another schema": "SELECT * FROM elsewhere.open",
    "a sample": "SELECT * FROM patients USING SAMPLE 50%",
    "SUMMARIZE": "SELECT count::INTEGER AS age FROM (SUMMARIZE patients)",
    "a statistic": "SELECT length(stats(age))::INTEGER AS age FROM patients",
    "the catalogue": "SELECT estimated_size::INTEGER AS age FROM duckdb_tables() WHERE table_name = 'patients'",
    "a plan": "SELECT length(json_serialize_plan('FROM patients WHERE age > 68', optimize := true))::INTEGER AS age FROM open",
    "DESCRIBE": "SELECT column_name AS name FROM (DESCRIBE patients)",
    "a setting": "SELECT current_setting('memory_limit') AS name",
    "members of a type": "SELECT unnest(enum_range(NULL::names))::VARCHAR AS name",
    "a file": "SELECT content AS name FROM read_text('/etc/hostname')",
    "a plain file": "SELECT * FROM '/nowhere.parquet'",
    "a folded plan": "SELECT 20 + length(json_serialize_plan('FROM patients WHERE age > 68'))::INTEGER % 2 AS age",
    "a folded plan by a quoted name": "SELECT length(\"json_serialize_plan\" ('FROM patients')) AS age",
    "a folded plan in a view": 'SELECT age FROM "a""b"',
    "a folded plan in a macro": "SELECT planned() AS age",
    "a folded setting": "SELECT length(current_setting('memory_limit')) AS age",
    "a generated column": "FROM computed",
    "somebody's function": "SELECT length(peek('x')) AS age",
    "somebody's function by an odd name": 'SELECT length("pe ""ek"(\'x\')) AS age',
    "the books": "SELECT key AS name FROM dpsql.release",
    "itself by dpsql": "SELECT name, age FROM dp_synthesize('patients', epsilon := 1.0, prior := 'start')",
}


@pytest.mark.medium
@pytest.mark.parametrize("way", SNEAKY)
def test_no_way_to_a_protected_table_makes_a_prior(hospital, way):
    """The view is refused when the statement is bound, in words that do not depend on a row; nothing is charged."""
    hospital.sql(
        "CREATE MACRO oldest(x) AS (SELECT max(age) + x FROM patients); CREATE MACRO everybody() AS TABLE FROM patients;"
        "CREATE SCHEMA elsewhere; CREATE MACRO elsewhere.peek(x) AS 1; CREATE VIEW elsewhere.open AS FROM patients; CREATE VIEW start AS FROM open;"
        "CREATE TYPE names AS ENUM (SELECT DISTINCT name FROM patients);"
        'CREATE VIEW "a""b" AS SELECT length(json_serialize_plan(\'FROM patients\'))::INTEGER AS age;'
        "CREATE MACRO planned() AS length(json_serialize_plan('FROM patients'))::INTEGER;"
        "CREATE TABLE computed (name VARCHAR, age BIGINT AS (length(json_serialize_plan('FROM patients'))))"
    )
    for name in ("peek", 'pe "ek'):
        hospital.connection.create_function(name, lambda _: SECRET, ["VARCHAR"], "VARCHAR")
    if way == "a plain file":  # a view of a file that is gone
        hospital.sql('CREATE TABLE "/nowhere.parquet" AS FROM open')
    hospital.sql(f"CREATE VIEW sneaky AS {SNEAKY[way]}")
    if way == "a plain file":
        hospital.sql('DROP TABLE "/nowhere.parquet"')
    if way == "itself by dpsql":
        hospital.sql("CREATE OR REPLACE VIEW start AS FROM sneaky")
    for call in ("FROM", "EXPLAIN FROM", "EXPLAIN ANALYZE FROM"):
        with pytest.raises(duckdb.Error) as refused:
            hospital.sql(f"{call} dp_synthesize('patients', epsilon := 1.0, prior := 'sneaky', {QUICK})").fetchall()
        said = (
            "reads 'patients', which is protected",
            "cannot tell whether it is",
            "may hold protected rows of 'patients'",
        )
        assert any(words in str(refused.value) for words in said)
        assert SECRET not in str(refused.value)
    assert spent(hospital) == 0


PUBLIC = {
    "a CTE that hides a protected name": "WITH patients AS (FROM open) FROM patients",
    "a table of that name elsewhere": "FROM elsewhere.patients",
    "a column of that name": "SELECT p.name, p.age FROM open AS p, (SELECT age AS patients FROM open) AS q WHERE patients > 0",
    "a table macro": "FROM everybody()",
    "expressions": """
        SELECT upper(name) AS name, CASE WHEN age BETWEEN 20 AND 40 THEN age // 2 * 2 ELSE coalesce(age, 30) END AS age
        FROM open WHERE name LIKE 'n%' AND age IN (20, 21, 22) GROUP BY ALL HAVING count(*) > 0""",
    "values": "FROM (VALUES ('name 1', 21), ('name 2', 30)) AS v(name, age)",
    "a window": "SELECT name, age FROM open QUALIFY row_number() OVER (PARTITION BY age ORDER BY name) = 1",
    "a pivot": 'SELECT name, "21_n"::INTEGER + 20 AS age FROM (PIVOT open ON age IN (21) USING count(*) AS n GROUP BY name)',
    "a recursive CTE": "WITH RECURSIVE x AS (SELECT 20 AS age UNION ALL SELECT age + 1 FROM x WHERE age < 40) FROM x",
}


@pytest.mark.medium
@pytest.mark.parametrize("way", PUBLIC)
def test_a_view_of_public_tables_is_a_prior(hospital, way):
    hospital.sql(
        "CREATE SCHEMA elsewhere; CREATE TABLE elsewhere.patients AS FROM open;"
        f"CREATE MACRO everybody() AS TABLE FROM open; CREATE VIEW fine AS {PUBLIC[way]}"
    )
    assert hospital.sql("FROM dp_plan('patients', epsilon := 1.0, prior := 'fine')").fetchall()
    with hospital.instance.cursor() as cursor:
        source = find_source(cursor, "patients")
        domain = domain_of(Books(cursor, source.catalog), source)
        assert load_prior(cursor, "fine", "", source, domain).weights.sum() > 0


@pytest.mark.medium
def test_no_error_of_a_prior_quotes_a_row(hospital):
    """What its rows make fail is told when it runs, before the charge, in constant texts; bound, no row is read."""
    hospital.sql(
        f"""
        CREATE TABLE names AS SELECT '{SECRET}' AS name;
        CREATE VIEW failing AS SELECT name::INTEGER AS age FROM names;
        CREATE VIEW outside AS SELECT 1000 + length(name)::INTEGER AS age FROM names;
        CREATE VIEW nobody AS SELECT 1 AS age FROM names WHERE length(name) > 100;
        """
    )
    for prior, reason in {
        "failing": "cannot be read: an expression fails on its rows",
        "outside": "has rows with a value of 'age' outside its declared domain",
        "nobody": "has no rows",
    }.items():
        call = f"dp_synthesize('patients', epsilon := 1.0, prior := '{prior}', {QUICK})"
        hospital.sql(f"EXPLAIN FROM {call}").fetchall()
        hospital.sql(f"CREATE VIEW bound_{prior} AS FROM {call}")
        with pytest.raises(duckdb.Error, match=reason) as refused:
            hospital.sql(f"FROM {call}").fetchall()
        assert SECRET not in str(refused.value)
        assert "Conversion" not in str(refused.value)
    assert spent(hospital) == 0


def test_a_view_that_changed_since_the_statement_was_bound_is_checked_again(hospital):
    hospital.sql("CREATE VIEW later AS FROM open")
    hospital.sql(f"PREPARE ask AS FROM dp_synthesize('patients', epsilon := 1.0, prior := 'later', {QUICK})")
    hospital.sql("CREATE OR REPLACE VIEW later AS FROM people")
    with pytest.raises(duckdb.Error, match="reads 'patients', which is protected"):
        hospital.sql("EXECUTE ask").fetchall()
    assert spent(hospital) == 0


@pytest.mark.medium
def test_a_view_of_an_attached_database_is_followed_into_it(hospital, tmp_path):
    """Names of a view mean what they mean where the view is."""
    hospital.sql(f"ATTACH '{tmp_path}/other.duckdb' AS other; CREATE TABLE other.patients AS FROM open")
    hospital.sql("CREATE VIEW fine AS FROM other.main.patients; CREATE VIEW sneaky AS FROM memory.main.patients")
    assert hospital.sql(f"FROM dp_synthesize('patients', epsilon := 1.0, prior := 'fine', {QUICK})").fetchall()
    with pytest.raises(duckdb.Error, match="reads 'patients', which is protected"):
        hospital.sql("FROM dp_synthesize('patients', epsilon := 0.5, prior := 'sneaky')").fetchall()


@pytest.mark.medium
def test_a_joined_table_that_becomes_protected_or_a_view_is_not_read(hospital):
    query = "SELECT city, count(*) FROM patients JOIN towns USING (age) GROUP BY city"
    hospital.sql("CREATE TABLE towns AS SELECT 21::INTEGER AS age, 'Bern' AS city")
    hospital.sql("PREPARE ask AS FROM dp_query(?, epsilon := 0.5)".replace("?", f"'{query}'"))
    hospital.sql("DROP TABLE towns; CREATE VIEW towns AS SELECT age, min(name) AS city FROM patients GROUP BY age")
    with pytest.raises(duckdb.Error, match="'towns' is (not a public table|a view)") as refused:
        hospital.sql("EXECUTE ask").fetchall()
    assert SECRET not in str(refused.value)
    hospital.sql("DROP VIEW towns; CREATE TABLE towns AS SELECT 21::INTEGER AS age, 'Bern' AS city")
    hospital.protect("towns", epsilon=1.0, delta=1e-6)
    for call in ("EXECUTE ask", f"FROM dp_query('{query}', epsilon := 0.5)"):
        with pytest.raises(duckdb.Error, match="'towns' is (not a public table|protected)"):
            hospital.sql(call).fetchall()
    assert spent(hospital) == 0


@pytest.mark.medium
def test_a_reference_is_a_public_table(hospital):
    for reference in ("patients.name", "people.name", "main.patients.name"):
        with pytest.raises(duckdb.Error, match="is protected|is a view"):
            hospital.sql(f"CALL dp_domain('patients', 'name', reference := '{reference}')").fetchall()
    with pytest.raises(InvalidArgument, match="is protected"):
        hospital.domain("patients", "name", reference="patients.name")
    hospital.domain("patients", "name", reference="open.name")


def test_a_constraint_reads_no_table(hospital):
    for predicate in ("age IN (SELECT age FROM patients)", "EXISTS (FROM patients WHERE patients.age > 30) OR age > 1"):
        with pytest.raises(duckdb.Error) as refused:
            hospital.sql("CALL dp_constraint('patients', ?)", [predicate]).fetchall()
        assert SECRET not in str(refused.value)


# --- ENUM types -------------------------------------------------------------------------------------------------------

MADE = """
    CREATE TABLE raw AS SELECT 'Ann' AS name, i % 3 = 0 AS sick FROM range(60) r(i);
    {more}
    CREATE TYPE person AS ENUM (SELECT DISTINCT name FROM raw ORDER BY 1);
    CREATE TABLE t AS SELECT name::person AS name, {{'a': name::person}} AS nested, sick FROM raw;
"""


def made(db: dpsql.Database, more: str = f"INSERT INTO raw VALUES ('{SECRET}', true);") -> dpsql.Database:
    """A protected table whose ENUM type has the values of its rows as members."""
    db.sql(MADE.format(more=more))
    db.protect("t", epsilon=10.0, delta=1e-6)
    db.domain("t", "nested", exclude=True)
    return db


def test_an_enum_has_no_domain_without_the_owners_word(db):
    made(db)
    for call in (
        "dp_synthesize('t', epsilon := 1.0)",
        "dp_query('SELECT name, count(*) FROM t GROUP BY name', epsilon := 1.0)",
    ):
        with pytest.raises(duckdb.Error, match=r"CALL dp_domain\('t', 'name', type := true\)") as refused:
            db.sql(f"FROM {call}").fetchall()
        assert SECRET not in str(refused.value)
    with pytest.raises(NotDeclared, match="type := true"):
        db.synthesize("t", 1.0)
    assert spent(db) == 0


HIDDEN = {
    "excluded": "exclude := true",
    "listed": "\"values\" := ['Ann', 'Bob']",
    "referred to": "reference := 'known.name'",
    "discovered": "discover := true, epsilon := 1.0",
}


@pytest.mark.medium
@pytest.mark.parametrize("way", HIDDEN)
def test_no_released_schema_shows_members_that_are_not_public(db, way):
    """Two tables that differ by one row give the same schema: the ENUM and the excluded STRUCT of it come out as texts."""
    schemas = set()
    for more in ("", f"INSERT INTO raw VALUES ('{SECRET}', true);"):
        with dpsql.connect() as one:
            made(one, more)
            one.sql("CREATE TABLE known AS SELECT 'Ann' AS name")
            shown = [one.sql(f"CALL dp_domain('t', 'name', {HIDDEN[way]})").fetchall()]
            call = f"dp_synthesize('t', epsilon := 1.0, {QUICK})"
            shown += [one.sql(f"DESCRIBE FROM {call}").fetchall()]
            one.sql(f"CREATE TABLE synthetic AS FROM {call}")
            shown += [one.sql(f"DESCRIBE FROM {name}").fetchall() for name in (call, "synthetic")]
            if way != "excluded":
                query = "dp_query('SELECT name, count(*) FROM t GROUP BY name', epsilon := 1.0)"
                shown += [one.sql(f"DESCRIBE FROM {query}").fetchall(), one.sql(f"FROM {query}").fetchall()[0][:1]]
                one.constraint("t", "name <> 'Bob' OR sick")
            assert [row[:2] for row in shown[3]] == [("name", "VARCHAR"), ("nested", "VARCHAR"), ("sick", "BOOLEAN")]
            assert one.sql("SELECT count(nested) FROM synthetic").fetchall() == [(0,)]
            schemas.add(repr(shown))
    assert len(schemas) == 1
    assert SECRET not in schemas.pop()


@pytest.mark.medium
def test_the_owners_word_makes_members_public(db):
    made(db)
    row = db.sql("CALL dp_domain('t', 'name', type := true)").df().iloc[0]
    assert (row.origin, list(row.labels), row.nullable) == ("type", ["Ann", SECRET, "NULL"], True)
    assert row.public_because == "the owner says that the members of its type are public, whatever the rows are"
    synthetic = db.synthesize("t", 2.0, relaxed_rows=16, steps=20).df()
    assert set(synthetic.name.dropna()) <= {"Ann", SECRET}
    query = "FROM dp_query('SELECT name, count(*) FROM t GROUP BY name', epsilon := 1.0)"
    assert db.sql(f"DESCRIBE {query}").fetchall()[0][1].startswith("ENUM(")
    assert len(db.sql(query).fetchall()) in (2, 3)  # a group of NULL shows where noise makes it


@pytest.mark.medium
def test_the_owners_word_for_all_enums_of_a_table(db):
    db.sql(MADE.format(more=""))
    call = "CALL dp_protect('t', epsilon := 3.0, delta := 1e-6, enums := {})"
    assert db.sql(call.format("false")).df().enums[0] is None
    assert "members of the types of name are public" in db.sql(call.format("true")).df().enums[0]
    db.domain("t", "nested", exclude=True)
    assert db.synthesize("t", 1.0, relaxed_rows=16, steps=20).df().name.dtype == "category"
    db.domain("t", "name", exclude=True)
    db.protect("t", epsilon=3.0, delta=1e-6, enums=True)  # what was declared otherwise stays so
    assert db.sql("DESCRIBE FROM dp_synthesize('t', epsilon := 0.5)").fetchall()[0][1] == "VARCHAR"


def test_a_pandas_category_tells_nothing(db):
    frame = db.sql("SELECT 'Ann' AS name FROM range(50)").df()
    frame.loc[7, "name"] = SECRET
    frame["name"] = frame["name"].astype("category")
    db.connection.register("frame", frame)
    db.sql("CREATE TABLE t AS FROM frame")
    db.protect("t", epsilon=3.0, delta=1e-6)
    with pytest.raises(NotDeclared, match="'name', type := true") as refused:
        db.synthesize("t", 1.0)
    assert SECRET not in str(refused.value)
    db.domain("t", "name", values=["Ann"])
    assert SECRET not in str(db.sql("DESCRIBE FROM dp_synthesize('t', epsilon := 1.0)").fetchall())


@pytest.mark.parametrize(
    ("how", "wrong"),
    [
        ("type := true, exclude := true", "say one of"),
        ("type := true, other := 'x'", "other is 'x'"),
        ("type := true, discover := true, epsilon := 1.0", "type := true"),
        ("lower := 'a', upper := 'b'", "is of type ENUM, which has no bins"),
    ],
)
def test_wrong_words_about_an_enum(db, how, wrong):
    made(db)
    with pytest.raises(duckdb.Error, match=wrong) as refused:
        db.sql(f"CALL dp_domain('t', 'name', {how})").fetchall()
    assert SECRET not in str(refused.value)
    with pytest.raises(duckdb.Error, match="is of type STRUCT, which lists no members") as refused:
        db.sql("CALL dp_domain('t', 'nested', type := true)").fetchall()
    assert SECRET not in str(refused.value)


@pytest.mark.medium
def test_a_privacy_unit_of_an_enum_type_is_not_told(db):
    db.sql(MADE.format(more=f"INSERT INTO raw VALUES ('{SECRET}', true);"))
    db.protect("t", epsilon=3.0, delta=1e-6, privacy_unit="name", max_rows=2)
    db.domain("t", "nested", exclude=True)
    assert SECRET not in repr(db.synthesize("t", 1.0, relaxed_rows=16, steps=20).df().dtypes)
    schema = db.sql("DESCRIBE FROM dp_synthesize('t', epsilon := 1.0)").fetchall()
    assert SECRET not in repr(schema)


@pytest.mark.medium
def test_books_from_before_owners_were_asked(db):
    """A release that told all members was made without a word; it is found, and the column goes on being known."""
    db.sql(MADE.format(more=""))
    db.protect("t", epsilon=3.0, delta=1e-6, enums=True)
    db.domain("t", "nested", exclude=True)
    before = db.synthesize("t", 1.0, relaxed_rows=16, steps=20)
    db.sql("DELETE FROM dpsql.domain WHERE name = 'name'")  # as it was then
    again = db.synthesize("t", 1.0, relaxed_rows=16, steps=20)
    assert again.df().equals(before.df())
    assert db.synthesize("t", 0.5, relaxed_rows=16, steps=20).df().name.dtype == "category"
    spec = json.loads(db.sql("SELECT spec FROM dpsql.domain WHERE name = 'nested'").fetchall()[0][0])
    spec["type"] = "STRUCT(a ENUM('Ann'))"
    db.sql("UPDATE dpsql.domain SET spec = ? WHERE name = 'nested'", [json.dumps(spec)])
    assert db.sql("DESCRIBE FROM dp_synthesize('t', epsilon := 0.4)").fetchall()[1][1] == "VARCHAR"


# --- attached databases of other kinds --------------------------------------------------------------------------------


@pytest.fixture
def lite(db: dpsql.Database, tmp_path: Path) -> dpsql.Database:
    """A database to which a SQLite database is attached as `lite`, its table `t`."""
    package = pytest.importorskip("duckdb_extension_sqlite_scanner", reason="no SQLite extension for this DuckDB")
    [file] = Path(package.__file__).parent.glob(f"extensions/v{duckdb.__version__}/*.duckdb_extension")
    db.connection.load_extension(str(file))
    db.sql(f"ATTACH '{tmp_path}/secret password.db' AS lite (TYPE sqlite)")
    db.sql(
        "CREATE TABLE lite.t (sick BOOLEAN); INSERT INTO lite.t VALUES (true); CREATE TABLE u AS SELECT true AS sick"
    )
    db.protect("u", epsilon=1.0, delta=1e-6)
    return db


TAKES_A_TABLE = [
    "dp_protect('{}', epsilon := 1.0, delta := 1e-6)",
    "dp_domain('{}', 'sick', exclude := true)",
    "dp_domain('{}', 'sick', discover := true, epsilon := 0.1)",
    "dp_domain('u', 'sick', reference := '{}.sick')",
    "dp_constraint('{}', 'sick')",
    "dp_synthesize('{}', epsilon := 0.1)",
    "dp_synthesize('u', epsilon := 0.1, prior := '{}')",
    "dp_plan('{}', epsilon := 0.1)",
    "dp_query('SELECT count(*) FROM {}', epsilon := 0.1)",
    "dp_query('SELECT count(*) FROM u JOIN {} AS l ON u.sick = l.sick', epsilon := 0.1)",
]


@pytest.mark.parametrize("call", TAKES_A_TABLE)
def test_a_table_of_another_kind_of_database_is_refused(lite, call, tmp_path):
    for name in ("lite.t", "LITE.nothing") if "reference" in call else ("lite.t", "lite.main.t", "LITE.main.nothing"):
        with pytest.raises(
            duckdb.Error, match=r"a database of type sqlite.*CREATE TABLE … AS FROM lite\.main"
        ) as refused:
            lite.sql(f"FROM {call.format(name)}").fetchall()
        assert "password" not in str(refused.value)
    assert [path.name for path in tmp_path.iterdir()] == ["secret password.db"]
    assert lite.sql("SELECT table_name FROM duckdb_tables() WHERE database_name = 'lite'").fetchall() == [("t",)]


def test_it_is_refused_in_python_too_and_named_bare(lite):
    with pytest.raises(InvalidArgument, match="a database of type sqlite"):
        lite.protect("lite.t", epsilon=1.0, delta=1e-6)
    lite.sql("USE lite")
    for work in (lambda: lite.protect("t", epsilon=1.0, delta=1e-6), lambda: lite.retire("t", reason="why")):
        with pytest.raises(InvalidArgument, match="a database of type sqlite"):
            work()


def test_a_copy_of_it_can_be_protected(lite):
    """Once its owner has said that no protected row is in it, because dpsql knows nothing of that database's tables."""
    lite.sql("CREATE TABLE t AS SELECT sick = 1 AS sick FROM lite.main.t")
    with pytest.raises(InvalidArgument, match=r"'t' may hold protected rows of 'u': .* db\.settle"):
        lite.protect("t", epsilon=1.0, delta=1e-6)
    settle(lite, "t")
    assert lite.protect("t", epsilon=1.0, delta=1e-6).source == "t"
    lite.sql("CREATE VIEW seen AS FROM lite.main.t")
    with pytest.raises(duckdb.Error, match="so dpsql cannot tell whether it is public"):
        lite.sql("FROM dp_synthesize('t', epsilon := 0.1, prior := 'seen')")
    assert len(lite.budget()) == 2


def test_connecting_looks_for_no_head_of_it(lite, tmp_path):
    """Nor at books that an older dpsql wrote there."""
    lite.sql("CREATE TABLE lite.account (source VARCHAR)")
    assert len(dpsql.install(lite.connection).budget()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["secret password.db"]
