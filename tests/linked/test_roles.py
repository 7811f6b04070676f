"""Roles through the public doors: one head in each household, one spouse at most, and what a role may say."""

from __future__ import annotations

import json

import pytest

import dpsql
from dpsql.books.accounts import verification
from dpsql.books.ledger.store import Books
from dpsql.errors import DpsqlError
from tests.linked.test_release import run

TABLES = """
    CREATE TABLE households (hid INTEGER PRIMARY KEY, married BOOLEAN NOT NULL);
    CREATE TABLE persons (pid INTEGER PRIMARY KEY, hid INTEGER REFERENCES households (hid), relate INTEGER, age INTEGER);
    CREATE TABLE jobs (pid INTEGER REFERENCES persons (pid), hours INTEGER);
    INSERT INTO households SELECT i, i % 2 = 0 FROM range(400) r(i);
    INSERT INTO persons SELECT row_number() OVER (), hid, relate, age FROM (
        SELECT i AS hid, 0 AS relate, 30 + i % 50 AS age FROM range(400) r(i) WHERE i % 9 > 0
        UNION ALL SELECT i, 1, 30 + i % 50 FROM range(400) r(i) WHERE i % 2 = 0
        UNION ALL SELECT i, 0, 40 FROM range(400) r(i) WHERE i % 7 = 0
        UNION ALL SELECT i, 2, i % 18 FROM range(400) r(i), range(3) WHERE i % 3 = 0);
    INSERT INTO jobs SELECT pid, 10 * (pid % 5) FROM persons WHERE age > 20;
    CALL dp_protect('households', epsilon := 100.0, delta := 1e-9);
"""
ROLES = "one_of := {'head': 'relate = 0'}, at_most_one := {'spouse': 'relate = 1'}"
JOBS = "CALL dp_link('jobs', 'persons', most := 2);"
DOMAINS = f"""
    {JOBS}
    CALL dp_domain('persons', 'relate', "values" := ['0', '1', '2', '3']);
    CALL dp_domain('persons', 'age', lower := 0, upper := 99, bins := 5);
    CALL dp_domain('jobs', 'hours', lower := 0, upper := 49, bins := 5);
"""
ROLES_OF_EACH = """
    SELECT count(*) FILTER (heads <> 1), count(*) FILTER (spouses > 1), count(*) FILTER (spouses = 1) FROM (
        SELECT hid, count(*) FILTER (relate = 0) AS heads, count(*) FILTER (relate = 1) AS spouses
        FROM households LEFT JOIN persons USING (hid) GROUP BY hid)
"""


@pytest.fixture
def town():
    with dpsql.connect() as db:
        run(db, TABLES)
        yield db


def linked(db: dpsql.Database, roles: str = ROLES, domains: str = DOMAINS) -> None:
    run(db, f"CALL dp_link('persons', 'households', most := 4, {roles});" + domains)


@pytest.mark.medium
def test_each_household_has_one_head_and_one_spouse_at_most(town):
    linked(town)
    rows = town.synthesize("jobs", 20.0, linked=True, steps=20, relaxed_rows=20).to_schema("copy")
    assert rows["persons"] >= rows["households"]
    town.sql("USE copy")
    without, several, couples = town.sql(ROLES_OF_EACH).fetchall()[0]
    assert (without, several) == (0, 0)
    assert couples > 0
    assert town.sql("SELECT count(*) FROM jobs ANTI JOIN persons USING (pid)").fetchall() == [(0,)]
    assert town.sql("SELECT count(*) - count(DISTINCT pid) FROM persons").fetchall() == [(0,)]


@pytest.mark.medium
@pytest.mark.parametrize("mechanism", ["direct", "mwem", "pgm"])
def test_other_mechanisms_keep_roles_too(mechanism):
    with dpsql.connect() as db:
        run(db, TABLES.replace("relate INTEGER, age INTEGER", "relate INTEGER NOT NULL, age INTEGER"))
        run(db, f"CALL dp_link('persons', 'households', most := 1, {ROLES})")
        db.sql("CALL dp_domain('persons', 'relate', \"values\" := ['0', '1', '2'])").fetchall()
        db.sql("CALL dp_domain('persons', 'age', exclude := true)").fetchall()
        db.synthesize("persons", 20.0, linked=True, mechanism=mechanism).to_schema("copy")
        db.sql("USE copy")
        assert db.sql(ROLES_OF_EACH).fetchall()[0][:2] == (0, 0)


@pytest.mark.medium
def test_a_table_without_rows_has_its_heads_all_the_same(town):
    """Where no unit shows what a head is, heads are any that the role and the constraints allow."""
    town.sql("DELETE FROM jobs")
    town.sql("DELETE FROM persons")
    linked(town)
    town.sql("CALL dp_constraint('persons', 'relate <> 0 OR age >= 20')").fetchall()
    town.synthesize("persons", 20.0, linked=True, steps=20, relaxed_rows=20).to_schema("copy")
    town.sql("USE copy")
    assert town.sql(ROLES_OF_EACH).fetchall()[0][:2] == (0, 0)
    assert town.sql("SELECT count(*) FROM persons WHERE relate = 0 AND age < 20").fetchall() == [(0,)]


@pytest.mark.medium
def test_roles_below_the_second_level(town):
    """Each person has one main job at most, and one other that every person has."""
    roles = "one_of := {'any': 'hours < 10'}, at_most_one := {'main': 'hours >= 40'}"
    linked(town, domains=DOMAINS.replace("most := 2", f"most := 2, {roles}"))
    town.synthesize("jobs", 20.0, linked=True, steps=20, relaxed_rows=20).to_schema("copy")
    town.sql("USE copy")
    found = town.sql("""
        SELECT count(*) FILTER (low <> 1), count(*) FILTER (high > 1) FROM (
            SELECT pid, count(*) FILTER (hours < 10) AS low, count(*) FILTER (hours >= 40) AS high
            FROM persons LEFT JOIN jobs USING (pid) GROUP BY pid)
    """).fetchall()
    assert found == [(0, 0)]


def test_roles_are_in_the_books_and_in_the_list_of_links(town):
    linked(town)
    (row,) = town.sql("SELECT roles FROM dp_links() WHERE source = 'persons'").fetchall()
    assert row == (["one head: relate = 0", "at most one spouse: relate = 1"],)
    run(town, "CALL dp_link('persons', 'households', max_rows := 5)")  # said later, the rest as it was
    (stated,) = town.sql("SELECT stated FROM dpsql.member WHERE source = 'persons'").fetchall()[0]
    assert json.loads(stated)["roles"] == [["head", "relate = 0", True], ["spouse", "relate = 1", False]]
    assert "roles" not in json.loads(town.sql("SELECT stated FROM dpsql.member WHERE source = 'jobs'").fetchall()[0][0])
    with pytest.raises(DpsqlError, match="said once"):
        run(town, "CALL dp_link('persons', 'households', one_of := {'head': 'relate = 2'})")
    with town.connection.cursor() as cursor:
        verification.verify(Books(cursor, "memory"))


def test_a_table_of_one_row_each_has_no_roles(town):
    town.sql("CREATE TABLE cards (hid INTEGER PRIMARY KEY, kind INTEGER)")
    with pytest.raises(DpsqlError, match="leave one_of and at_most_one out"):
        town.link("cards", "households", key="hid", one_of={"main": "kind = 1"})


@pytest.mark.medium
def test_python_and_maps_say_the_same(town):
    town.link("persons", "households", one_of={"head": "relate = 0"}, at_most_one={"spouse": "relate = 1"})
    told = town.sql("SELECT roles FROM dp_links() WHERE source = 'persons'").fetchall()
    assert told == [(["one head: relate = 0", "at most one spouse: relate = 1"],)]
    town.unprotect("persons", "said anew")
    run(town, "CALL dp_link('persons', 'households', one_of := MAP {'the head': 'relate = 0'})")
    assert town.links("persons").roles[1].tolist() == ["one the head: relate = 0"]


REFUSED = {
    "one_of := 'relate = 0'": "give a name and a predicate",
    "one_of := {'head': 3}": "give a name and a predicate",
    "one_of := {'head': 'relate = 0'}, at_most_one := {'Head': 'relate = 1'}": "one name of its own",
    "one_of := {'head': 'relate ='}": "not an SQL expression",
    "one_of := {'head': 'role = 0'}": "role",
    "one_of := {'head': '(SELECT count(*) FROM households) > 0'}": "not about one row alone",
    "one_of := {'head': 'random() < 0.5'}": "not about one row alone",
    "one_of := {'head': 'relate = 9'}": "true of no declared value",
    "one_of := {'head': 'relate >= 0 OR relate IS NULL'}": "none for further rows",
    "one_of := {'head': 'relate < 2'}, at_most_one := {'spouse': 'relate = 1'}": "exclude each other",
    "one_of := {'head': 'relate = 0'}, at_most_one := {'old': 'age >= 80'}": "exclude each other",
    "one_of := {'head': 'age >= 18'}": "not the same for all values in the bin age",
    "one_of := {'head': 'age = 33 OR age IS NULL'}": "not the same for all values in the bin age",
    "one_of := {'head': 'hid = 1'}": "is a key",
}


@pytest.mark.medium
@pytest.mark.parametrize("roles", REFUSED)
def test_what_is_no_role_is_refused_before_anything_is_charged(town, roles):
    """At the link, or where its columns' domains are needed before the charge."""
    with pytest.raises(DpsqlError, match=REFUSED[roles]):
        linked(town, roles, DOMAINS.partition("CALL dp_domain('jobs'")[0].replace(JOBS, ""))
        town.synthesize("persons", 1.0, linked=True)
    assert town.sql("SELECT count(*) FROM dp_ledger() WHERE kind = 'charge'").fetchall() == [(0,)]
