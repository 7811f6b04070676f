"""What an owner read off the rows of any table of a tree is said wherever a release of it promises something."""

from __future__ import annotations

import itertools
import json
import random
import re

import pytest

import dpsql
from tests.depth import some

TABLES = """
    CREATE TABLE patients (pid INTEGER PRIMARY KEY, ward INTEGER, twice INTEGER, note VARCHAR);
    CREATE TABLE visits (vid INTEGER PRIMARY KEY, pid INTEGER, ward INTEGER, twice INTEGER, note VARCHAR);
    CREATE TABLE labs (vid INTEGER, ward INTEGER, twice INTEGER, note VARCHAR);
    INSERT INTO patients SELECT i, i % 3, i % 3 * 2, 'a' FROM range(60) r(i);
    INSERT INTO visits SELECT i, i % 60, i % 4, i % 4 * 2, 'b' FROM range(90) r(i);
    INSERT INTO labs SELECT i % 90, i % 5, i % 5 * 2, 'c' FROM range(120) r(i);
    CALL dp_protect('patients', epsilon := 50.0, delta := 1e-9);
    CALL dp_link('visits', 'patients', key := ['pid'], "references" := ['pid'], most := 3, max_rows := 3);
    CALL dp_link('labs', 'visits', key := ['vid'], "references" := ['vid'], most := 3, max_rows := 9);
"""
NAMES = ("patients", "visits", "labs")
SAID = {
    "ward": "CALL dp_domain('{}', 'ward', lower := 0, upper := 6, looked := {})",
    "twice": "CALL dp_domain('{}', 'twice', computed_as := 'ward * 2', looked := {})",
    "note": "CALL dp_domain('{}', 'note', exclude := true, looked := {})",
    "fact": "CALL dp_constraint('{}', 'ward >= 0', looked := {})",
}
"""Excluded columns have no domain to be read off; keys have one that no linked release uses."""
ALL = [*itertools.product(NAMES, SAID)]
DRAWN = [frozenset(random.Random(n).sample(ALL, 4)) for n in range(3)]
LOOKED = [frozenset({pair}) for pair in some(ALL, part=5)] + DRAWN
"""Alone, each word and each table at least once, or all pairs if deep; and four together."""


@pytest.fixture
def db():
    with dpsql.connect() as db:
        for statement in TABLES.split(";"):
            if statement.strip():
                db.sql(statement)
        yield db


def declare(db: dpsql.Database, looked: frozenset[tuple[str, str]]) -> None:
    for table, what in ALL:
        db.sql(SAID[what].format(table, str((table, what) in looked).lower()))
    db.sql("CALL dp_domain('visits', 'vid', lower := 0, upper := 999, looked := true)")  # a key


def expected(looked: frozenset[tuple[str, str]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    columns = tuple(f"{table}.{what}" for table, what in ALL if what in ("ward", "twice") and (table, what) in looked)
    facts = sorted(f"in {table}: ward >= 0" for table, what in looked if what == "fact")
    return columns, tuple(facts)


def synthesize(db: dpsql.Database, by_sql: bool) -> dpsql.Release:
    if by_sql:
        db.sql("FROM dp_synthesize('labs', epsilon := 9.0, linked := true, steps := 20, relaxed_rows := 20)")
        return db.release(db.sql("SELECT max(release) FROM dp_releases()").fetchall()[0][0])
    return db.synthesize("patients", 9.0, linked=True, steps=20, relaxed_rows=20)


def check_said(db: dpsql.Database, release: dpsql.Release, looked: frozenset[tuple[str, str]]) -> None:
    """In the words of each place."""
    columns, facts = expected(looked)
    assert (release.entry.looked, release.entry.looked_facts) == (columns, facts)
    listed, stated = ", ".join(columns), "; ".join(facts)
    page = re.sub(r"<[^>]+>", " ", release.report().html).replace("&gt;", ">")
    card = json.loads(release.card().json)["deployment"]["dp_variant"]["unprotected_quantities"]
    in_sql = db.sql("SELECT string_agg(guarantee) FROM dp_releases()").fetchall()[0][0]
    for place, text in {"SQL": in_sql, "repr": repr(release), "page": page, "card": card}.items():
        assert listed in text, place
        assert stated in text, place
        assert bool(re.search("read (it |them )?off the rows", text)) == bool(columns or facts), place
    told = [f"in {table}: ward >= 0" for table in NAMES]
    assert all(card.count(one) == 1 for one in told)  # either looked at or declared
    assert page.count("the owner read this domain off the rows") == sum(
        (1 if table == "patients" else 2) for table in NAMES if f"{table}.ward" in columns
    )


@pytest.mark.medium
@pytest.mark.parametrize("looked", LOOKED, ids=lambda chosen: "+".join(sorted(".".join(one) for one in chosen)))
def test_all_tables_of_a_linked_release(db, looked):
    declare(db, looked)
    check_said(db, synthesize(db, by_sql=len(looked) > 1), looked)


@pytest.mark.medium
def test_the_charge_keeps_it_and_later_words_add_to_it(db):
    first = frozenset({("visits", "ward"), ("labs", "twice"), ("visits", "fact")})
    declare(db, first)
    number = synthesize(db, by_sql=True).entry.number
    ((charge,),) = db.connection.sql(f"SELECT content FROM dpsql.event WHERE number = {number}").fetchall()
    assert json.loads(charge)["looked"] == ["visits.ward", "labs.twice"]
    assert json.loads(charge)["looked_facts"] == ["in visits: ward >= 0"]
    for table, what in first:
        if what == "fact":
            db.sql(f"CALL dp_constraint('{table}', 'ward >= 0', remove := true)")
        db.sql(SAID[what].format(table, "false"))
    check_said(db, db.release(number), first)
    db.sql(SAID["ward"].format("labs", "true"))
    check_said(db, db.release(number), first | {("labs", "ward")})


@pytest.mark.medium
def test_a_query_says_it_of_the_tables_above(db):
    declare(db, frozenset({("patients", "ward"), ("labs", "fact")}))
    sql = "SELECT p.ward AS k, v.ward AS l, count(*) AS n FROM visits v JOIN patients p USING (pid) GROUP BY ALL"
    db.sql("SELECT * FROM dp_query(?, epsilon := 1.0)", [sql]).fetchall()
    ((guarantee,),) = db.sql("SELECT guarantee FROM dp_releases()").fetchall()
    assert "the owner read it off the rows: the domain of patients.ward" in guarantee
    assert "visits.ward" not in guarantee
