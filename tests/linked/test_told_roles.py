"""What people are told of roles: by the report, by the release, and where one is refused."""

from __future__ import annotations

import json
import re

import pytest

import dpsql
from dpsql.errors import DpsqlError
from tests.linked.test_release import run
from tests.linked.test_roles import DOMAINS, JOBS, TABLES, linked

QUALIFIED = "one_of := {'head': 'persons.relate = 0'}, at_most_one := {'spouse': 'PERSONS.relate = 1'}"
PLAIN = QUALIFIED.replace("persons.", "").replace("PERSONS.", "")
OF_PERSONS = DOMAINS.partition("CALL dp_domain('jobs'")[0].replace(JOBS, "")


@pytest.fixture
def town():
    with dpsql.connect() as db:
        run(db, TABLES)
        yield db


NAMED = [
    "relate = 0 AS x",
    "relate = 0 x",
    "x: relate = 0",
    "(relate = 0 AS x)",
    "relate = 0 AS (x, y)",
    "(age AS x) > 3",
]


def words(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


@pytest.mark.medium
@pytest.mark.parametrize("roles", [PLAIN, QUALIFIED])
def test_a_report_of_roles_says_what_is_imposed(town, roles):
    linked(town, roles, OF_PERSONS)
    release = town.synthesize("persons", 20.0, linked=True, steps=20, relaxed_rows=20)
    assert len(release.errors)
    assert len(release.answers("persons.spouse", "persons.spouse.relate"))
    written = re.findall(r"'([^']+)'}", roles)
    expected = [
        f"each row of households has exactly one row of persons where {written[0]}",
        f"each row of households has at most one row of persons where {written[1]}",
    ]
    page = words(release.report().html)
    card = json.loads(release.card().json)["deployment"]["dp_variant"]["unprotected_quantities"]
    for text in (page, card):
        assert f"Imposed on the synthetic rows, whatever the real ones are: {'; '.join(expected)}." in text


@pytest.mark.medium
def test_a_report_of_roles_in_another_schema(town):
    run(town, 'CREATE SCHEMA "my.s"; CREATE TABLE "my.s"."the persons" AS FROM persons')
    roles = """one_of := {'head': '"the persons".relate = 0'}"""
    run(town, f"""CALL dp_link('"my.s"."the persons"', 'households', key := 'hid', most := 2, {roles})""")
    run(town, re.sub("'persons'", """'"my.s"."the persons"'""", OF_PERSONS))
    town.sql("""CALL dp_domain('"my.s"."the persons"', 'pid', exclude := true)""").fetchall()
    release = town.synthesize("households", 20.0, linked=True, steps=20, relaxed_rows=20)
    assert "exactly one row of" in words(release.report().html)


@pytest.mark.medium
def test_rows_below_a_role_are_not_measured_and_readers_are_told(town):
    linked(town)
    release = town.synthesize("jobs", 20.0, linked=True, steps=20, relaxed_rows=20)
    words_of_each = [w for w in release.warnings if w.startswith("rows of jobs below")]
    assert [re.findall("below '(.+?)' of persons", w) for w in words_of_each] == [["head"], ["spouse"]]
    page = words(release.report().html).replace("&#39;", "'")
    assert all(warning in page for warning in words_of_each)


@pytest.mark.medium
def test_without_roles_nothing_is_imposed(town):
    run(town, "CALL dp_link('persons', 'households', most := 4);" + OF_PERSONS)
    release = town.synthesize("persons", 20.0, linked=True, steps=20, relaxed_rows=20)
    assert not [w for w in release.warnings if "below" in w]
    assert "Imposed" not in release.report().html + release.card().json


@pytest.mark.medium
def test_numbers_of_rows_are_told_up_to_most_and_the_roles():
    """Rows with a role are rows: with `most := 1` and one head a household has two rows at most where rows are drawn."""
    with dpsql.connect() as db:
        run(db, "CREATE TABLE households (hid INTEGER); CREATE TABLE members (hid INTEGER, relate INTEGER)")
        run(db, "INSERT INTO households FROM range(400)")
        for place, persons in enumerate((1, 2, 4, 5)):
            each = f"least(n, 2) FROM households, range({persons}) r(n) WHERE hid % 4 = {place}"
            run(db, f"INSERT INTO members SELECT hid, {each}")
        db.protect("households", epsilon=100.0, delta=1e-9)
        db.link("members", "households", key="hid", most=1, one_of={"head": "relate = 0"})
        db.domain("members", "relate", values=[0, 1, 2])
        sql = "SELECT m, count(*) AS n FROM (SELECT hid, count(*) AS m FROM members GROUP BY hid) GROUP BY m"
        answers = db.sql("SELECT m, n FROM dp_query(?, epsilon := 90.0) ORDER BY m", [sql]).fetchall()
    assert [m for m, _ in answers] == [1, 2]
    assert all(abs(n - expected) < 20 for (_, n), expected in zip(answers, (100, 300), strict=True))


@pytest.mark.medium
@pytest.mark.parametrize("predicate", NAMED)
def test_an_expression_of_a_row_has_no_name(town, predicate):
    """In roles, in constraints and in computed columns."""
    with pytest.raises(DpsqlError, match="give it no name"):
        town.link("persons", "households", one_of={"head": predicate})
    assert town.sql("SELECT count(*) FROM dpsql.member WHERE source = 'persons'").fetchall() == [(0,)]
    town.link("persons", "households", one_of={"head": "struct_pack(x := relate).x = 0"})
    run(town, OF_PERSONS.replace(JOBS, ""))
    with pytest.raises(DpsqlError, match="give it no name"):
        town.constraint("persons", predicate)
    with pytest.raises(DpsqlError, match="give it no name"):
        town.domain("persons", "pid", computed_as=predicate)


AGAINST = {
    "relate <> 0": "with the role 'head' (relate = 0), and the constraints 'relate <> 0', together allow no declared value",
    "relate <> 1 OR age IS NOT DISTINCT FROM 9999": "with the role 'spouse' (relate = 1), and the constraints 'relate <> 1 OR "
    "age IS NOT DISTINCT FROM 9999', together allow no declared value",
    "relate IS NOT NULL AND relate < 2": "without the role 'head' (relate = 0), 'spouse' (relate = 1), and the constraints 'relate IS NOT "
    "NULL AND relate < 2', together allow no declared value",
    "relate IS NOT NULL AND relate < '2'; age >= 0": "without the role",
}


@pytest.mark.medium
@pytest.mark.parametrize("stated", AGAINST)
def test_roles_that_constraints_leave_nothing_to_are_refused_in_their_own_words(town, stated):
    linked(town, domains=OF_PERSONS)
    for predicate in stated.split("; "):
        town.constraint("persons", predicate)
    with pytest.raises(DpsqlError) as refused:
        town.synthesize("persons", 1.0, linked=True)
    first = stated.partition("; ")[0].replace("'", "''")
    assert AGAINST[stated] in str(refused.value)
    assert f"CALL dp_constraint('persons', '{first}', remove := true)" in str(refused.value)
    assert "coalesce" not in str(refused.value)
    assert "age >= 0" not in str(refused.value)  # it has nothing to do with it
    assert town.sql("SELECT count(*) FROM dp_ledger() WHERE kind = 'charge'").fetchall() == [(0,)]


@pytest.mark.medium
def test_roles_that_span_too_much_with_constraints_are_refused_in_their_own_words(town):
    town.sql("ALTER TABLE jobs ADD COLUMN paid INTEGER")
    town.sql("ALTER TABLE jobs ADD COLUMN kind INTEGER")
    linked(town, domains=OF_PERSONS)
    town.link("jobs", "persons", most=2, one_of={"main": "hours = 0 AND kind = 0"})
    for name, upper in (("hours", 299), ("paid", 299), ("kind", 2)):
        town.domain("jobs", name, lower=0, upper=upper, bins=upper + 1)
    town.constraint("jobs", "hours >= paid")
    with pytest.raises(DpsqlError, match="role 'main' .* 'hours >= paid', together span more than 200000 tuples") as no:
        town.synthesize("persons", 1.0, linked=True)
    assert "coalesce" not in str(no.value)


@pytest.mark.medium
def test_a_role_of_a_computed_column_is_refused_as_such(town):
    town.sql("ALTER TABLE jobs ADD COLUMN twice INTEGER")
    linked(town, domains=DOMAINS.replace("most := 2", "one_of := {'none': 'twice = 0'}"))
    town.domain("jobs", "twice", computed_as="hours * 2")
    with pytest.raises(DpsqlError, match=r"reads 'twice', which is computed as hours \* 2 .*: say the role by 'hours'"):
        town.synthesize("persons", 1.0, linked=True)
