"""Rules that no rows obey together are refused while that is free; of all others rows come, and all of them obey."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import dpsql
from dpsql.errors import DpsqlError, InvalidArgument
from tests.depth import depth
from tests.linked.test_link_rules import LEVELS, QUICK
from tests.linked.test_release import run

TOWN = """
    CREATE TABLE households (hid INTEGER PRIMARY KEY, income INTEGER);
    CREATE TABLE persons (pid INTEGER PRIMARY KEY, hid INTEGER REFERENCES households (hid), relate INTEGER NOT NULL, age INTEGER NOT NULL);
    CREATE TABLE jobs (pid INTEGER REFERENCES persons (pid), hours INTEGER NOT NULL);
    INSERT INTO households SELECT i, i % 100 FROM range(200) r(i);
    INSERT INTO persons SELECT row_number() OVER (), i, k, (30 + i % 50) // (1 + k // 2) FROM range(200) r(i), range(4) s(k) WHERE k = 0 OR i % (k + 1) = 0;
    INSERT INTO jobs SELECT pid, pid % 50 FROM persons WHERE age > 20;
    CALL dp_protect('households', epsilon := 1000.0, delta := 1e-9);
    CALL dp_link('persons', 'households', most := 3, one_of := {'head': 'relate = 0'}, at_most_one := {'spouse': 'relate = 1'});
    CALL dp_link('jobs', 'persons', most := 2);
    CALL dp_domain('households', 'income', lower := 0, upper := 99, bins := 4);
    CALL dp_domain('persons', 'relate', lower := 0, upper := 3);
    CALL dp_domain('persons', 'age', lower := 0, upper := 99, bins := 4);
    CALL dp_domain('jobs', 'hours', lower := 0, upper := 49, bins := 3);
"""
NAMES = {
    "households": ["income", "head.age", "spouse.age"],
    "persons": ["age", "relate", "head.age", "spouse.age", "households.income"],
    "jobs": ["hours", "persons.age", "households.income"],
}


def charges(db):
    return db.sql("SELECT count(*), sum(epsilon) FROM dp_ledger() WHERE kind = 'charge'").fetchone()


@st.composite
def rules(draw):
    table = draw(st.sampled_from(sorted(NAMES)))
    one, other = draw(st.lists(st.sampled_from(NAMES[table]), min_size=2, max_size=2, unique=True))
    sign = draw(st.sampled_from(["<", ">", "=", ">=", "<>"]))
    return table, f"{one} {sign} {other} + {draw(st.integers(-90, 90))}"


@pytest.fixture(scope="module")
def town():
    with dpsql.connect() as db:
        run(db, TOWN)
        yield db


@pytest.mark.slow
@settings(
    max_examples=depth(12),
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
@given(stated=st.lists(rules(), min_size=1, max_size=3, unique=True))
def test_rules_are_refused_without_a_charge_or_rows_come(town, stated):
    accepted = []
    try:
        for table, rule in stated:
            before = charges(town)
            try:
                town.constraint(table, rule)
            except DpsqlError:
                assert charges(town) == before
                continue
            accepted.append((table, rule))
        before = charges(town)
        release = f"of {accepted} {before[0]}"
        try:
            made = town.synthesize("persons", 5.0, linked=True, release=release, **QUICK)
        except DpsqlError:
            assert charges(town) == before
            return
        assert len(made["households"].df()) > 100
        assert len(made.entry.report.get("rules", [])) == sum("." in rule for _, rule in accepted)
    finally:
        for table, rule in accepted:
            town.constraint(table, rule, remove=True)


AGAINST = {
    "two of one pair": [("roofs", "high > floors.low"), ("roofs", "high < floors.low")],
    "around a circle": [("roofs", "high > floors.low"), ("doors", "x > roofs.high"), ("doors", "x < floors.low")],
    "with a fact about one row": [("roofs", "high < 20"), ("roofs", "high > floors.low + 19")],
    "a fact about one row with a rule": [("roofs", "high > floors.low + 19"), ("roofs", "high < 20")],
}


@pytest.mark.medium
@pytest.mark.parametrize("kind", AGAINST)
def test_what_contradicts_is_refused_when_it_is_stated(kind):
    *before, (table, last) = AGAINST[kind]
    with dpsql.connect() as db:
        run(db, LEVELS)
        db.constraint("doors", "x <> floors.low")  # it has nothing to do with it
        for other, rule in before:
            db.constraint(other, rule)
        with pytest.raises(InvalidArgument, match="no declared values of rows.*remove := true") as refused:
            db.constraint(table, last)
        assert "x <> floors.low" not in str(refused.value)
        assert db.sql("SELECT count(*) FROM dpsql.constraint").fetchone() == (1 + len(before),)


@pytest.mark.medium
def test_a_domain_that_rules_contradict_later_is_refused_before_the_charge():
    with dpsql.connect() as db:
        run(db, LEVELS)
        db.constraint("roofs", "high > floors.low")
        db.constraint("roofs", "high < 100 - floors.low")
        run(db, "CALL dp_domain('floors', 'low', lower := 50, upper := 59, bins := 2)")
        for call in (db.plan, db.synthesize):
            with pytest.raises(InvalidArgument, match="'high < 100 - floors.low' and 'high > floors.low'"):
                call("roofs", 1.0, linked=True)
        assert charges(db)[0] == 0


@pytest.mark.medium
def test_a_rule_that_no_row_of_a_role_obeys_is_refused():
    with dpsql.connect() as db:
        run(db, TOWN)
        with pytest.raises(InvalidArgument, match="no declared values of rows"):
            db.constraint("persons", "relate = 0 AND age < head.age")  # of all but heads


@pytest.mark.slow
def test_a_rule_of_all_rows_beside_one_with_a_role_holds_of_those_drawn_before_it():
    """A head is drawn before the spouse that the rule names: it is the spouse that takes another value."""
    with dpsql.connect() as db:
        run(db, TOWN)
        db.constraint("persons", "age > spouse.age")
        db.constraint("households", "spouse.age > income")
        db.synthesize("persons", 20.0, linked=True, **QUICK).to_schema("made")
        found = db.sql("""
            SELECT count(*) FILTER (p.age <= s.age), count(*) FILTER (p.relate = 0) > 0
            FROM made.persons p JOIN made.persons s USING (hid) WHERE s.relate = 1 AND p.relate <> 1
        """)
        assert found.fetchone() == (0, True)


@pytest.mark.medium
def test_a_unit_whose_rows_find_no_values_has_those_of_another():
    """Floors are drawn before roofs and doors, which leave few of them a door."""
    with dpsql.connect() as db:
        run(db, LEVELS.replace("upper := 59, bins := 3", "upper := 99, bins := 5"))
        db.constraint("doors", "x > floors.low + 30")
        db.constraint("doors", "x < roofs.high - 30")
        made = db.synthesize("doors", 1.0, linked=True, **QUICK)
        assert any("units have the rows of other units" in warning for warning in made.warnings)
        rows = made.to_schema("made")
        found = db.sql(
            "SELECT bool_and(x > low + 30 AND x < high - 30), count(*) "
            "FROM made.floors JOIN made.roofs USING (id) JOIN made.doors USING (rid)"
        )
        assert found.fetchone() == (True, rows["doors"])
        assert rows["doors"] > 0


@pytest.mark.medium
def test_a_rule_of_one_row_below_goes_with_others():
    """It is given no other row: `spouse.age < 60`."""
    with dpsql.connect() as db:
        run(db, TOWN)
        db.constraint("households", "spouse.age < 60")
        db.constraint("households", "spouse.age > head.age")
        with pytest.raises(InvalidArgument, match="'head.age > 60' and 'spouse.age < 60' and 'spouse.age > head.age'"):
            db.constraint("households", "head.age > 60")


def holding(low, high, x):
    """Rules that hold of one floor, roof and door, and of hardly any other ones."""
    yield "roofs", f"high >= floors.low + ({high - low}) AND high <= floors.low + ({high - low + 1})"
    yield "doors", f"x >= roofs.high + ({x - high})"
    yield "doors", f"roofs.high + ({x - high}) >= x"
    yield "doors", f"x BETWEEN floors.low + ({x - low}) AND floors.low + ({x - low})"
    yield "roofs", f"high * 2 + floors.low <= {2 * high + low}"
    yield "doors", f"NOT (x + floors.low < {x + low})"


@pytest.mark.medium
@pytest.mark.parametrize("witness", [(0, 99, 0), (59, 0, 99), (17, 23, 31), (40, 41, 40)])
def test_rules_that_hold_together_are_not_refused(witness):
    """Their values lie anywhere in wide bins, so that trying some of them finds none."""
    with dpsql.connect() as db:
        run(db, LEVELS)
        for table, rule in holding(*witness):
            db.constraint(table, rule)
        assert db.plan("doors", 1.0, linked=True) is not None
        with pytest.raises(InvalidArgument, match="no declared values of rows"):
            db.constraint("doors", f"x < floors.low + ({witness[2] - witness[0]})")


@pytest.mark.medium
def test_rows_that_need_not_be_there_contradict_nothing():
    """Children under 10 have no jobs, as two rules say; other persons have some."""
    with dpsql.connect() as db:
        run(db, TOWN.replace("'spouse': 'relate = 1'", "'baby': 'relate = 1'"))
        db.constraint("households", "baby.age < 10")
        db.constraint("jobs", "persons.age >= 16 + 0 * hours")
        db.constraint("persons", "relate IN (0, 1) OR age < head.age")
        with pytest.raises(InvalidArgument, match="no declared values of rows"):
            db.constraint("households", "baby.age > income + 9")


@pytest.mark.medium
def test_what_contradicts_already_refuses_no_other_fact():
    with dpsql.connect() as db:
        run(db, LEVELS)
        db.constraint("roofs", "high > floors.low")
        db.constraint("roofs", "high < 100 - floors.low")
        run(db, "CALL dp_domain('floors', 'low', lower := 50, upper := 59, bins := 2)")
        db.constraint("doors", "x > floors.low")
        db.constraint("doors", "x < 90")
        with pytest.raises(InvalidArgument, match="'high < 100 - floors.low' and 'high > floors.low'"):
            db.synthesize("roofs", 1.0, linked=True)
        assert len(db.query("SELECT count(*) FROM floors", 1.0)) == 1
