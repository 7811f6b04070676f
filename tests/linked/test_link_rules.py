"""Rules between rows of a tree, through the public doors: rows above, rows with a role, and inside shared bins."""

from __future__ import annotations

import pytest

import dpsql
from dpsql.errors import DpsqlError
from tests.linked.test_release import run
from tests.linked.test_roles import ROLES
from tests.linked.test_roles import TABLES as TOWN

QUICK = {"steps": 15, "relaxed_rows": 16}
CLINIC = """
    CREATE TABLE patients (pid INTEGER PRIMARY KEY, birth DATE, left_on DATE);
    CREATE TABLE visits (vid INTEGER PRIMARY KEY, pid INTEGER REFERENCES patients (pid), day DATE, until DATE, cost DOUBLE);
    CREATE TABLE labs (vid INTEGER REFERENCES visits (vid), taken DATE, share DOUBLE);
    INSERT INTO patients SELECT i, DATE '2000-01-01' + (i * 37 % 3600)::INTEGER, NULL FROM range(500) r(i);
    INSERT INTO visits SELECT row_number() OVER (), pid, birth + 1 + (pid * k * 91 % (3651 - (birth - DATE '2000-01-01')))::INTEGER,
        NULL, pid % 90 FROM patients, range(1, 4) r(k) WHERE pid % 3 > 0;
    UPDATE visits SET until = day + 3;
    INSERT INTO labs SELECT vid, day, cost / 2 FROM visits WHERE vid % 2 = 0;
    CALL dp_protect('patients', epsilon := 100.0, delta := 1e-9);
    CALL dp_link('visits', 'patients', most := 5);
    CALL dp_link('labs', 'visits', most := 2);
    CALL dp_domain('patients', 'birth', lower := '2000-01-01', upper := '2009-12-31', bins := 5);
    CALL dp_domain('patients', 'left_on', lower := '2000-01-01', upper := '2009-12-31', bins := 5);
    CALL dp_domain('visits', 'day', lower := '2000-01-01', upper := '2009-12-31', bins := 5);
    CALL dp_domain('visits', 'until', lower := '2000-01-01', upper := '2010-12-31', bins := 6);
    CALL dp_domain('visits', 'cost', lower := 0, upper := 100, bins := 4);
    CALL dp_domain('labs', 'taken', lower := '2000-01-01', upper := '2010-12-31', bins := 6);
    CALL dp_domain('labs', 'share', lower := 0, upper := 100, bins := 3);
"""
RULES = {
    "visits": ["day > patients.birth", "day <= until"],  # the second is of one row, and shares a column with the first
    "labs": ["taken >= visits.day AND taken > Patients.birth", '"share" < visits."cost"'],
}
BROKEN = """
    SELECT count(*) FILTER (day <= birth), count(*) FILTER (day > until), count(*) FILTER (taken < day OR taken <= birth),
        count(*) FILTER (share >= cost), count(*) FROM visits JOIN patients USING (pid) LEFT JOIN labs USING (vid)
"""


@pytest.fixture(scope="module")
def clinic():
    with dpsql.connect() as db:
        run(db, CLINIC)
        for table, rules in RULES.items():
            for rule in rules:
                db.constraint(table, rule)
        yield db


@pytest.mark.medium
@pytest.mark.parametrize("epsilon", [0.5, 20.0])
def test_no_visit_is_before_its_birth_inside_a_shared_bin_either(clinic, epsilon):
    """Rows and keys stay: as many rows as were drawn, each with its parent."""
    release = clinic.synthesize("labs", epsilon, linked=True, **QUICK)
    schema = f"made_{str(epsilon).replace('.', '_')}"
    rows = release.to_schema(schema)
    clinic.sql(f"USE {schema}")
    *broken, joined = clinic.sql(BROKEN).fetchone()
    dangling = clinic.sql("SELECT count(*) FROM labs ANTI JOIN visits USING (vid)").fetchone()
    clinic.sql("USE main")
    assert broken == [0, 0, 0, 0]
    assert joined >= rows["visits"] > 0
    assert dangling == (0,)
    counted = {one["rule"]: one for one in release.entry.report["rules"]}
    assert counted["day > patients.birth"] == {
        "table": "visits", "rule": "day > patients.birth", "rows": rows["visits"], "broken": 0
    }  # fmt: skip


@pytest.mark.medium
def test_who_has_rows_below_takes_a_value_with_which_they_can_obey():
    """No declared day comes after a birth of the last years: who has visits has no such birth, who has none may."""
    with dpsql.connect() as db:
        run(
            db,
            CLINIC.replace(
                "UPDATE visits", "UPDATE visits SET day = DATE '2000-01-01' + (vid % 300)::INTEGER; UPDATE visits"
            ),
        )
        run(db, "CALL dp_domain('visits', 'day', lower := '2000-01-01', upper := '2000-12-31', bins := 3)")
        db.constraint("visits", "day > patients.birth")
        made = db.synthesize("visits", 20.0, linked=True, **QUICK)
        assert made.to_schema("made")["visits"] > 500
        last = "SELECT max(birth) < '2000-12-31', max(birth) > '2005-01-01' FROM made.patients {} JOIN made.visits USING (pid)"
        assert db.sql(last.format("SEMI")).fetchone() == (True, False)
        assert db.sql(last.format("ANTI")).fetchone() == (False, True)
        joined = "SELECT bool_and(day > birth), avg((day IS NULL)::INT) < 0.2 FROM made.visits JOIN made.patients USING (pid)"
        assert db.sql(joined).fetchone() == (True, True)


@pytest.fixture
def town():
    with dpsql.connect() as db:
        run(db, TOWN)
        run(db, f"CALL dp_link('persons', 'households', most := 4, {ROLES})")
        run(db, "CALL dp_link('jobs', 'persons', most := 2)")
        run(db, "CALL dp_domain('persons', 'relate', \"values\" := ['0', '1', '2', '3'])")
        run(db, "CALL dp_domain('persons', 'age', lower := 0, upper := 99, bins := 5)")
        run(db, "CALL dp_domain('jobs', 'hours', lower := 0, upper := 49, bins := 5)")
        yield db


@pytest.mark.medium
def test_names_of_roles_are_those_of_rows(town):
    rules = [("persons", "relate <> 2 OR age < head.age"), ("households", "NOT married OR head.age >= 20")]
    rules += [("households", "spouse.age - head.age BETWEEN -5 AND 5"), ("jobs", "hours < persons.age")]
    for table, rule in rules:
        town.sql(f"CALL dp_constraint('{table}', '{rule}')").fetchall()
    release = town.synthesize("persons", 20.0, linked=True, **QUICK)
    assert [one["broken"] for one in release.entry.report["rules"]] == [0, 0, 0, 0]
    release.to_schema("made")
    town.sql("USE made")
    beside = """
        SELECT count(*) FILTER (p.relate = 2 AND p.age >= h.age), count(*) FILTER (p.relate = 1 AND abs(p.age - h.age) > 5),
            count(*) FILTER (married AND h.age < 20), count(*) FILTER (p.relate = 2), count(*) FILTER (p.relate = 1)
        FROM persons p JOIN persons h USING (hid) JOIN households USING (hid) WHERE h.relate = 0
    """
    *broken, children, spouses = town.sql(beside).fetchone()
    assert broken == [0, 0, 0]
    assert min(children, spouses) > 0
    assert town.sql("SELECT count(*) FROM jobs JOIN persons USING (pid) WHERE hours >= age").fetchone() == (0,)
    town.sql("USE main")
    assert "relate &lt;&gt; 2 OR age &lt; head.age" in release.report().html
    assert "rows that break “relate <> 2 OR age < head.age”" in str(town.evaluate("households", release))


@pytest.mark.medium
@pytest.mark.parametrize("mechanism", ["direct", "pgm"])
def test_other_mechanisms_obey_rules_too(mechanism):
    with dpsql.connect() as db:
        run(db, TOWN.replace("relate INTEGER, age INTEGER", "relate INTEGER NOT NULL, age INTEGER"))
        run(db, f"CALL dp_link('persons', 'households', most := 1, {ROLES})")
        run(db, "CALL dp_domain('persons', 'relate', \"values\" := ['0', '1', '2'])")
        run(db, "CALL dp_domain('persons', 'age', lower := 0, upper := 99, bins := 2)")
        db.constraint("persons", "age < head.age")  # of all but heads themselves
        db.synthesize("persons", 20.0, linked=True, mechanism=mechanism).to_schema("made")
        found = db.sql(
            "SELECT count(*) FILTER (p.age >= h.age), count(*) > 0, count(h.age) > count(*) / 2 "
            "FROM made.persons p JOIN made.persons h USING (hid) WHERE h.relate = 0 AND p.relate <> 0"
        ).fetchone()
        assert found == (0, True, True)


REFUSED = {
    ("visits", "day >= patient.birth"): "these are: patients",
    ("visits", "day >= patients.born"): "no column 'born'",
    ("visits", "day >= labs.taken"): "state the rule of 'labs'",
    ("patients", "birth <= visits.day"): "state the rule of 'visits'",
    ("visits", "patients.birth > DATE '2001-01-01'"): "state it of the table",
    ("visits", "day >= patients.pid"): "is a key",
    ("visits", "day > patients.birth + cost * 'x'"): "fails on the declared domain",
    ("visits", "day > patients.birth + 9999"): "no declared values satisfy",
    ("visits", "cost > (SELECT 1) + length(patients.birth::VARCHAR)"): "not about one row alone",
    ("cards", "colour <> visits.cost::VARCHAR"): "a rule of each with a column of a row above",
    ("cards", "main.patients.birth IS NULL OR colour = 'red'"): "by the name of its table or role alone",
}


@pytest.mark.medium
def test_what_is_no_rule_is_refused_when_it_is_stated(clinic):
    run(clinic, "CREATE TABLE cards (pid INTEGER, colour VARCHAR); CALL dp_link('cards', 'patients', key := ['pid'])")
    run(clinic, "CALL dp_domain('cards', 'colour', \"values\" := ['red'])")
    for (table, rule), words in REFUSED.items():
        with pytest.raises(DpsqlError, match=words):
            clinic.constraint(table, rule)


@pytest.mark.medium
def test_rules_of_roles_and_of_tables_that_are_not_linked_are_refused(town):
    run(town, "CREATE TABLE alone (a BOOLEAN); CALL dp_protect('alone', epsilon := 1.0, delta := 1e-9)")
    refused = {
        ("alone", "a = persons.age"): "dp_link",
        ("households", "spouse > 1"): "name a column of it",
        ("households", "spouse IS NOT NULL"): "names columns of 'households' beside it",
        ("households", "spouse IS NULL OR head.age > 20"): "state two rules",
        ("households", "head IS NULL OR income = 1"): "each row has its 'head'",
        ("persons", "spouse IS NULL OR age > 20"): "state the rule of 'households'",
        ("persons", "head.age > 20"): "no column of 'persons' itself",
    }
    for (table, rule), words in refused.items():
        with pytest.raises(DpsqlError, match=words):
            town.constraint(table, rule)


@pytest.mark.medium
def test_a_rule_is_taken_back_word_for_word_and_one_without_its_link_is_refused(town):
    town.constraint("households", "spouse.age < 60")
    town.constraint("households", "head.age >= 20")
    town.constraint("households", "spouse.age < 60", remove=True)
    with pytest.raises(DpsqlError, match=r"it has: head.age >= 20"):
        town.constraint("households", "spouse.age < 60", remove=True)
    town.unprotect("jobs", "said anew")
    town.unprotect("persons", "said anew")
    run(town, "CALL dp_link('persons', 'households', most := 4)")
    run(town, "CALL dp_domain('persons', 'relate', \"values\" := ['0', '1', '2', '3'])")
    run(town, "CALL dp_domain('persons', 'age', lower := 0, upper := 99, bins := 5)")
    with pytest.raises(DpsqlError, match="not about the tables as they are now.*remove := true"):
        town.synthesize("persons", 1.0, linked=True)
    assert town.sql("SELECT count(*) FROM dp_ledger() WHERE kind = 'charge'").fetchone() == (0,)


HOSTILE = """
    CREATE TABLE "Fam ily" (id INTEGER PRIMARY KEY, "in come" DOUBLE, "a.b" INTEGER);
    CREATE TABLE "mem""ber" (id INTEGER REFERENCES "Fam ily" (id), kind VARCHAR, "in come" DOUBLE);
    INSERT INTO "Fam ily" SELECT i, i % 100, i % 5 FROM range(400) r(i);
    INSERT INTO "mem""ber" SELECT i, 'x''y', i % 100 / 2 FROM range(400) r(i);
    INSERT INTO "mem""ber" SELECT i, 'o', i % 100 / 3 FROM range(400) r(i), range(2);
    CALL dp_protect('"Fam ily"', epsilon := 100.0, delta := 1e-9);
    CALL dp_link('"mem""ber"', '"Fam ily"', most := 4, one_of := MAP {'the Head': 'kind = ''x''''y'''});
    CALL dp_domain('"Fam ily"', 'in come', lower := 0, upper := 100, bins := 4);
    CALL dp_domain('"Fam ily"', 'a.b', lower := 0, upper := 4);
    CALL dp_domain('"mem""ber"', 'kind', "values" := ['x''y', 'o']);
    CALL dp_domain('"mem""ber"', 'in come', lower := 0, upper := 100, bins := 4);
"""


@pytest.mark.medium
def test_names_that_need_quotes_name_rows(tmp_path):
    with dpsql.connect(tmp_path / "family.duckdb") as db:
        run(db, HOSTILE)
        db.constraint('"mem""ber"', '"in come" < "Fam ily"."in come"')
        db.constraint('"mem""ber"', '"in come" <> "THE head"."in come" -- ) of all but the head')
        db.constraint('"Fam ily"', '"the head"."in come" * 2 < "in come" + "a.b"')
        db.synthesize('"Fam ily"', 20.0, linked=True, **QUICK).to_schema("made")
        broken = db.sql("""
            SELECT count(*) FILTER (m."in come" >= f."in come"),
                count(*) FILTER (kind <> 'o' AND m."in come" * 2 >= f."in come" + "a.b"), count(*) > 0
            FROM made."mem""ber" m JOIN made."Fam ily" f USING (id)
        """).fetchone()
        assert broken == (0, 0, True)


@pytest.mark.medium
def test_a_value_between_two_of_the_row_above():
    """Where the two share a bin with hardly a value between them, the row above takes other ones."""
    with dpsql.connect() as db:
        run(
            db,
            """
            CREATE TABLE spans (id INTEGER PRIMARY KEY, low INTEGER NOT NULL, high INTEGER NOT NULL);
            CREATE TABLE points (id INTEGER REFERENCES spans (id), x INTEGER NOT NULL);
            INSERT INTO spans SELECT i, i % 90, i % 90 + 3 FROM range(500) r(i);
            INSERT INTO points SELECT i, i % 90 + 1 FROM range(500) r(i), range(3);
            CALL dp_protect('spans', epsilon := 100.0, delta := 1e-9);
            CALL dp_link('points', 'spans', most := 4);
            CALL dp_domain('spans', 'low', lower := 0, upper := 99, bins := 5);
            CALL dp_domain('spans', 'high', lower := 0, upper := 99, bins := 5);
            CALL dp_domain('points', 'x', lower := 0, upper := 99, bins := 5);
            """,
        )
        db.constraint("points", "x > spans.low AND x < spans.high")
        db.synthesize("spans", 20.0, linked=True, **QUICK).to_schema("made")
        found = db.sql(
            "SELECT bool_and(low < x AND x < high), count(*) > 0 FROM made.points JOIN made.spans USING (id)"
        )
        assert found.fetchone() == (True, True)


LEVELS = """
    CREATE TABLE floors (id INTEGER PRIMARY KEY, low INTEGER NOT NULL);
    CREATE TABLE roofs (rid INTEGER PRIMARY KEY, id INTEGER REFERENCES floors (id), high INTEGER NOT NULL);
    CREATE TABLE doors (rid INTEGER REFERENCES roofs (rid), x INTEGER NOT NULL);
    INSERT INTO floors SELECT i, i * 37 % 60 FROM range(400) r(i);
    INSERT INTO roofs SELECT i, i, i * 37 % 60 + 10 FROM range(400) r(i);
    INSERT INTO doors SELECT i, i * 37 % 60 + 5 FROM range(400) r(i), range(2);
    CALL dp_protect('floors', epsilon := 100.0, delta := 1e-9);
    CALL dp_link('roofs', 'floors', most := 3);
    CALL dp_link('doors', 'roofs', most := 3);
    CALL dp_domain('floors', 'low', lower := 0, upper := 59, bins := 3);
    CALL dp_domain('roofs', 'high', lower := 0, upper := 99, bins := 5);
    CALL dp_domain('doors', 'x', lower := 0, upper := 99, bins := 5);
"""


@pytest.mark.medium
def test_two_rules_on_one_column_leave_it_a_value_over_three_levels():
    """Each by itself leaves `x` a value where `high` is below `low`; both together do not."""
    with dpsql.connect() as db:
        run(db, LEVELS)
        db.constraint("doors", "x > floors.low")
        db.constraint("doors", "x < roofs.high")
        rows = db.synthesize("doors", 1.0, linked=True, **QUICK).to_schema("made")
        found = db.sql(
            "SELECT bool_and(low < x AND x < high), count(*) "
            "FROM made.floors JOIN made.roofs USING (id) JOIN made.doors USING (rid)"
        )
        assert found.fetchone() == (True, rows["doors"])
        assert rows["doors"] > 0


LOANS = """
    CREATE TABLE loans (lid INTEGER PRIMARY KEY, amount INTEGER);
    CREATE TABLE payments (lid INTEGER REFERENCES loans (lid), paid INTEGER, fee INTEGER);
    INSERT INTO loans SELECT i, i * 7919 % 100 FROM range(2000) r(i);
    INSERT INTO payments SELECT lid, lid * k * 7907 % (amount + 1), lid * k * 31 % (amount + 1) FROM loans, range(1, 4) r(k);
    CALL dp_protect('loans', epsilon := 100.0, delta := 1e-9);
    CALL dp_link('payments', 'loans', most := 4);
    CALL dp_domain('loans', 'amount', lower := 0, upper := 99, bins := 10);
    CALL dp_domain('payments', 'paid', lower := 0, upper := 99, bins := 10);
    CALL dp_domain('payments', 'fee', lower := 0, upper := 99, bins := 10);
"""


@pytest.mark.medium
def test_columns_keep_their_values_in_all():
    """Rows exchange values, although the fit, of two steps, knows nothing of the rules, and a tenth of the rows break one.

    Before, those rows took smaller values: the mean of `paid` and `fee` together was 46.2 to 46.9 in three runs, where the truth is 48.8.
    """
    with dpsql.connect() as db:
        run(db, LOANS)
        db.constraint("payments", "paid <= loans.amount")
        db.constraint("payments", "fee <= loans.amount")
        db.synthesize("payments", 50.0, linked=True, steps=2, relaxed_rows=16).to_schema("made")
        both = "SELECT avg(paid + fee), count(*) FILTER (paid > amount OR fee > amount) FROM {0}payments JOIN {0}loans USING (lid)"
        (truth, _), (made, broken) = (db.sql(both.format(place)).fetchone() for place in ("", "made."))
        assert broken == 0
        assert made == pytest.approx(truth, abs=1.2)
