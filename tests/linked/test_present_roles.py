"""Rules that ask whether a row with a role is there: a spouse stands in each married household, and in no other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies

import dpsql
from dpsql.core.constraint import Allowed
from dpsql.core.domain import Attribute, Domain
from dpsql.errors import DpsqlError, InvalidArgument
from dpsql.release.ruled_units import together
from tests.linked.test_release import run
from tests.linked.test_roles import ROLES, TABLES

DOMAINS = """
    CALL dp_domain('persons', 'relate', "values" := ['0', '1', '2', '3']);
    CALL dp_domain('persons', 'age', lower := 0, upper := 99, bins := 5);
"""
BROKEN = """
    SELECT count(*) FILTER (spouses <> married::INT), count(*) FILTER (married AND head < 40), count(*) FILTER (married) FROM (
        SELECT hid, any_value(married) AS married, count(*) FILTER (relate = 1) AS spouses, any_value(age) FILTER (relate = 0) AS head
        FROM households LEFT JOIN persons USING (hid) GROUP BY hid)
"""
RULE = "(spouse IS NOT NULL) = married"


@pytest.fixture
def town():
    with dpsql.connect() as db:
        run(db, TABLES)
        run(db, f"CALL dp_link('persons', 'households', most := 4, {ROLES});" + DOMAINS)
        yield db


@pytest.mark.medium
@pytest.mark.parametrize("epsilon", [0.3, 20.0])
def test_a_spouse_is_there_where_the_household_is_married(town, epsilon):
    """Also where another rule moves the column that says so."""
    town.constraint("households", RULE)
    town.constraint("households", "NOT married OR head.age >= 40")
    release = town.synthesize("persons", epsilon, linked=True, steps=15, relaxed_rows=16)
    rows = release.to_schema("copy")
    town.sql("USE copy")
    broken, young, married = town.sql(BROKEN).fetchall()[0]
    town.sql("USE main")
    assert (broken, young) == (0, 0)
    assert married > 0
    stated = {rule["rule"]: rule for rule in release.entry.report["rules"]}
    assert stated[RULE] == {"table": "households", "rule": RULE, "rows": rows["households"], "broken": 0}


@pytest.mark.medium
def test_a_household_that_is_lent_has_its_spouse_too():
    """Households lie below streets, of which each has more than a unit's row shows."""
    with dpsql.connect() as db:
        run(db, "CREATE TABLE streets (sid INTEGER PRIMARY KEY); INSERT INTO streets FROM range(80)")
        run(db, TABLES.partition("CALL dp_protect")[0].replace("married BOOLEAN NOT NULL", "married BOOLEAN NOT NULL, sid INTEGER")
            .replace("SELECT i, i % 2 = 0 FROM", "SELECT i, i % 2 = 0, i % 80 FROM"))  # fmt: skip
        db.protect("streets", epsilon=100.0, delta=1e-9)
        run(db, "CALL dp_link('households', 'streets', key := ['sid'], most := 8)")
        run(db, f"CALL dp_link('persons', 'households', most := 4, {ROLES});" + DOMAINS)
        db.constraint("households", RULE)
        rows = db.synthesize("persons", 30.0, linked=True, steps=15, relaxed_rows=16).to_schema("copy")
        db.sql("USE copy")
        assert db.sql(BROKEN).fetchall()[0][0] == 0
        assert rows["households"] > 2 * rows["streets"]


@pytest.mark.medium
def test_what_leaves_no_household_is_refused_and_taken_back_word_for_word(town):
    town.constraint("households", "NOT married")
    with pytest.raises(DpsqlError, match="spouse"):
        town.constraint("households", "spouse IS NULL AND married")
    town.constraint("households", RULE)
    town.constraint("households", RULE, remove=True)
    with pytest.raises(DpsqlError, match="it has: NOT married"):
        town.constraint("households", RULE, remove=True)


@pytest.mark.medium
def test_what_spans_too_many_values_is_refused_before_the_charge():
    """By itself each fact is small enough; they share the column that says whether a spouse is there."""
    with dpsql.connect() as db:
        run(db, TABLES.replace("married BOOLEAN NOT NULL", "married BOOLEAN NOT NULL, x INTEGER, y INTEGER")
            .replace("SELECT i, i % 2 = 0 FROM", "SELECT i, i % 2 = 0, i % 300, i % 300 FROM"))  # fmt: skip
        run(db, f"CALL dp_link('persons', 'households', most := 4, {ROLES});" + DOMAINS)
        run(db, "".join(f"CALL dp_domain('households', '{c}', lower := 0, upper := 299, bins := 300);" for c in "xy"))
        db.constraint("households", "spouse IS NULL OR x <= y")
        db.constraint("persons", "relate <> '1' OR age >= 20")
        with pytest.raises(InvalidArgument, match="more than 200000 tuples"):
            db.synthesize("persons", 1.0, linked=True, steps=15, relaxed_rows=16)
        assert db.budget()["epsilon_spent"].tolist() == [0.0]


CODES = strategies.lists(strategies.tuples(*[strategies.integers(0, 2)] * 2), min_size=1, max_size=9, unique=True)


@given(CODES, CODES)
def test_parts_that_share_a_column_allow_what_both_do(first, second):
    """The natural join, by brute force."""
    domain = Domain(tuple(Attribute(name, "INTEGER", "values", ("0", "1", "2")) for name in "abc"))
    parts = [
        Allowed(clique, clique, ("",), np.array(codes), np.zeros((len(codes), 2)))
        for clique, codes in ((("a", "b"), first), (("b", "c"), second))
    ]
    expected = {(a, b, c) for a, b in first for other, c in second if b == other}
    if not expected:
        with pytest.raises(InvalidArgument, match="hold of no declared values"):
            together(domain, parts)
        return
    (joint,) = together(domain, parts)
    assert joint.clique == ("a", "b", "c")
    assert {tuple(codes) for codes in joint.codes.tolist()} == expected
    assert len(joint.codes) == len(expected)
