"""What units are asked about their rows: EXISTS, IN, values of one row, numbers with zeros. A unit counts once."""

from __future__ import annotations

import random

import pytest

from ..linked_bank import Unruly, protect, refuses_before_a_charge, whole
from .test_linked_queries import KEYS, answers, moved, owners, silent, unruly_trees  # noqa: F401

UP = "JOIN patients USING (pid)"
BESIDE = "FROM patients p LEFT JOIN visits v USING (pid)"
SOME = "EXISTS (SELECT 1 FROM visits v WHERE v.pid = p.pid AND v.ward = 2)"
ASKED = [
    f"SELECT sex AS k, count(*) AS n FROM patients p WHERE {SOME} GROUP BY sex",
    f"SELECT sex AS k, count(*) AS n FROM patients p WHERE NOT {SOME} AND pid IN (SELECT pid FROM visits) GROUP BY sex",
    "SELECT sex AS k, count(*) AS n FROM patients WHERE pid NOT IN (SELECT DISTINCT v.pid FROM visits v WHERE tag > 9 AND v.pid IS NOT NULL) GROUP BY sex",
    "SELECT sex AS k, count(*) AS n FROM patients p WHERE EXISTS (SELECT 1 FROM labs JOIN visits w USING (vid) WHERE p.pid = w.pid AND result = ward) OR sex = 1 GROUP BY sex",
    "SELECT sex AS k, count(*) AS n FROM patients WHERE pid IN (SELECT pid FROM visits WHERE ward < 2 GROUP BY pid HAVING count(*) > 1) GROUP BY sex",
    "SELECT sex AS k, count(*) AS n FROM patients p WHERE (SELECT count(*) FROM visits v WHERE v.pid = p.pid) BETWEEN 1 AND 2 GROUP BY 1",
    "SELECT sex AS k, count(*) AS n FROM (SELECT * FROM patients p WHERE p.pid = ANY (SELECT p.pid FROM visits p WHERE p.ward = 1)) GROUP BY sex",
    "SELECT w AS k, count(*) AS n FROM (SELECT pid, min(ward) AS w FROM visits WHERE pid IS NOT NULL GROUP BY pid) GROUP BY w",
    f"SELECT w + sex AS k, count(*) AS n FROM (SELECT pid, sex, max_by(ward, vid) AS w FROM visits {UP} GROUP BY ALL) GROUP BY k",
    f"SELECT w AS k, count(*) AS n FROM (SELECT pid, first(ward ORDER BY vid DESC) AS w FROM visits v {UP} WHERE v.tag < 20 GROUP BY pid HAVING count(*) FILTER (WHERE ward > 0) >= 1) GROUP BY w",
    f"SELECT w AS k, count(*) AS n FROM (SELECT pid, last(v.tag ORDER BY v.vid) AS w FROM visits v {UP} GROUP BY pid) GROUP BY w",
    f"SELECT w AS k, count(*) AS n FROM (SELECT pid, CASE WHEN count(*) > 2 THEN any_value(sex) + 2 ELSE 0 END AS w FROM visits {UP} GROUP BY pid) GROUP BY w",
    "SELECT m AS k, count(*) AS n FROM (SELECT p.pid, count(v.pid) AS m FROM patients p LEFT JOIN visits v USING (pid) GROUP BY p.pid) GROUP BY m",
    "SELECT m AS k, count(*) AS n FROM (SELECT p.pid, count(v.pid) AS m FROM visits v RIGHT JOIN patients p ON p.pid = v.pid AND ward = 1 WHERE sex = 1 GROUP BY p.pid) GROUP BY m",
    "SELECT m AS k, count(*) AS n FROM (SELECT p.pid, max(result) AS m FROM patients p LEFT JOIN visits v USING (pid) LEFT JOIN labs l USING (vid) GROUP BY p.pid) GROUP BY m",
    "SELECT sex AS k, count(*) AS n FROM patients WHERE pid IN (SELECT pid FROM visits WHERE pid IS NOT NULL GROUP BY pid HAVING count(*) FILTER (WHERE ward > 0) >= 2) GROUP BY sex",
    "SELECT sex AS k, count(*) AS n FROM patients WHERE pid IN (SELECT q.pid FROM patients q LEFT JOIN visits v USING (pid) GROUP BY q.pid) GROUP BY sex",
]  # fmt: skip


@pytest.mark.medium
@pytest.mark.parametrize("sql", ASKED)
def test_what_units_are_asked_is_duckdbs_own(db, silent, sql):  # noqa: F811
    whole(db)
    protect(db, 1)
    found = db.sql("SELECT k, n FROM dp_query(?, epsilon := 20)", [sql]).fetchall()
    expected = db.connection.sql(sql).fetchall()
    assert sorted(filter(lambda row: row[-1], found), key=str) == sorted(expected, key=str)


REFUSED = {
    "SELECT count(*) FROM visits v WHERE EXISTS (SELECT 1 FROM labs l WHERE l.vid = v.vid)": "l.vid = v.vid does not lead from rows",
    "SELECT count(*) FROM visits WHERE pid IN (SELECT pid FROM visits WHERE ward = 1)": "are not the units whose rows",
    "SELECT count(*) FROM patients p WHERE EXISTS (SELECT 1 FROM visits v)": "of the unit's rows, by its key",
    "SELECT count(*) FROM patients p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.vid = p.pid)": "v.vid = p.pid does not lead from rows",
    "SELECT count(*) FROM patients p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.pid = p.pid OR TRUE)": "by its key",
    "SELECT count(*) FROM patients p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.pid = p.pid AND v.ward > p.sex)": "is not what FROM calls",
    "SELECT count(*) FROM patients p WHERE EXISTS (SELECT 1 FROM patients v WHERE v.pid = p.pid)": "is not supported",
    "SELECT count(*) FROM patients WHERE sex IN (SELECT pid FROM visits)": "pid = sex does not lead from rows",
    "SELECT count(*) FROM patients WHERE pid IN (SELECT ward FROM visits GROUP BY ward)": "groups in a subquery",
    "SELECT EXISTS (SELECT 1 FROM visits v WHERE v.pid = p.pid), count(*) FROM patients p GROUP BY 1": "in WHERE only",
    "SELECT count(*) FROM (SELECT p.pid, count(*) AS k FROM patients p LEFT JOIN visits v USING (pid) GROUP BY p.pid)": "as one row",
    "SELECT count(*) FROM (SELECT p.pid FROM patients p LEFT JOIN visits v USING (pid) WHERE ward = 1 GROUP BY p.pid)": "say it in ON",
    "SELECT count(*) FROM (SELECT v.pid FROM patients p LEFT JOIN visits v USING (pid) GROUP BY v.pid)": "LEFT JOIN keeps rows",
    "SELECT count(*) FROM patients LEFT JOIN visits USING (pid) JOIN labs USING (vid)": "all joins do",
    f"SELECT k, count(*) FROM (SELECT p.pid, any_value(p.sex) AS k {BESIDE} GROUP BY p.pid) GROUP BY k": "say JOIN",
    f"SELECT k, count(*) FROM (SELECT p.pid, max(v.ward) AS k {BESIDE} LEFT JOIN labs l USING (vid) GROUP BY p.pid) GROUP BY k": "say JOIN",
    f"SELECT k, count(*) FROM (SELECT p.pid, max_by(v.ward, p.sex) AS k {BESIDE} GROUP BY p.pid) GROUP BY k": "say JOIN",
    "SELECT count(*) FROM patients p WHERE EXISTS (SELECT count(*) FROM visits v WHERE v.pid = p.pid)": "an aggregate or unnest",
    "SELECT count(*) FROM patients p WHERE EXISTS (SELECT unnest([]) FROM visits v WHERE v.pid = p.pid)": "an aggregate or unnest",
    "SELECT count(*) FROM patients WHERE pid IN (SELECT max(pid) FROM visits)": "an aggregate or unnest",
    "SELECT count(*) FROM patients WHERE pid IN (SELECT pid, ward FROM visits)": "more or fewer columns",
    "SELECT k, count(*) FROM (SELECT pid, first(ward) AS k FROM visits GROUP BY pid) GROUP BY k": "first is not said",
    "SELECT k, count(*) FROM (SELECT pid, min(vid) AS k FROM visits GROUP BY pid) GROUP BY k": "no public domain",
    "SELECT k, count(*) FROM (SELECT pid, min_by(result, vid) AS k FROM labs JOIN visits USING (vid) GROUP BY pid) GROUP BY k": "which its owner excluded",
    "SELECT k, count(*) FROM (SELECT pid, sum(ward) AS k FROM visits GROUP BY pid) GROUP BY k": "of each unit is not supported",
    "SELECT n, count(*) FROM (SELECT pid, count(*) AS n FROM visits WHERE ward // tag = 'x' AND tag = 2 GROUP BY pid) GROUP BY n": "fails on declared values",
}  # fmt: skip


@pytest.mark.medium
def test_what_units_cannot_be_asked_is_refused_before_a_charge(db):
    whole(db)
    protect(db)
    db.domain("labs", "vid", exclude=True)
    refuses_before_a_charge(db, REFUSED)


@pytest.mark.medium
def test_conditions_that_share_no_column_are_no_product(db, silent):  # noqa: F811
    """Columns whose tuples are more than may be tried: each condition is tried by itself."""
    db.sql("CREATE TABLE patients (pid INTEGER PRIMARY KEY)")
    db.sql("INSERT INTO patients SELECT unnest(range(20))")
    db.sql("CREATE TABLE visits AS SELECT i % 20 AS pid, i AS a, i AS b, i AS c FROM range(60) r(i)")
    db.protect("patients", epsilon=1000.0, delta=1e-6)
    db.link("visits", "patients", "pid", "pid", most=5)
    for name in "abc":
        db.domain("visits", name, lower=0, upper=499, bins=500)
    where = "a >= 5 AND b < 50 AND c IN (1, 7, 9, 12, 44) AND c <> 44"
    sql = f"SELECT n AS k, count(*) AS n FROM (SELECT pid, count(*) AS n FROM visits WHERE {where} GROUP BY pid) GROUP BY 1"
    assert answers(db, sql, "k, n") == sorted(db.connection.sql(sql).fetchall())


INSIDE = {
    "some": "SELECT tag AS k, count(*) AS n FROM patients p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.pid = p.pid AND ward = 1) GROUP BY k",
    "none": "SELECT tag AS k, count(*) AS n FROM patients WHERE pid NOT IN (SELECT pid FROM labs JOIN visits USING (vid) WHERE result > ward) GROUP BY k",
    "any": "SELECT w AS k, count(*) AS n FROM (SELECT patients.pid, any_value(visits.tag) AS w FROM visits JOIN patients ON visits.pid = patients.pid GROUP BY ALL) GROUP BY k",
    "first": "SELECT w AS k, count(*) AS n FROM (SELECT patients.pid, first(visits.tag ORDER BY ward) AS w FROM visits JOIN patients ON visits.pid = patients.pid GROUP BY ALL) GROUP BY k",
    "by": "SELECT w AS k, count(*) AS n FROM (SELECT patients.pid, min_by(labs.tag, result) AS w FROM labs JOIN visits ON labs.vid = visits.vid JOIN patients ON visits.pid = patients.pid WHERE sex = 1 GROUP BY ALL HAVING count(*) FILTER (WHERE ward > 0) >= 1) GROUP BY k",
    "all": "SELECT m AS k, count(*) AS n FROM (SELECT p.pid, count(v.pid) AS m FROM patients p LEFT JOIN visits v ON p.pid = v.pid AND ward < 2 GROUP BY p.pid) GROUP BY k",
}  # fmt: skip


@pytest.mark.parametrize(("keys", "seed"), unruly_trees(4))
def test_a_unit_with_all_its_rows_moves_one_answer_by_one(db, silent, keys, seed):  # noqa: F811
    """Of trees with NULL keys, keys that lead nowhere, and keys of two parents: without a patient, each of them.

    What is left is stored in another order, and other units' rows are chosen as before.
    """
    draws = random.Random(f"questions {keys} {seed}")
    tree = Unruly(KEYS[keys].type, KEYS[keys].keys).draw(draws)
    tree.create(db)
    protect(db)
    whose = owners(db, "whole")

    def counted(release: str) -> dict[str, dict]:
        return {
            name: {key: (count,) for key, count in answers(db, sql, "k, n", release)} for name, sql in INSIDE.items()
        }

    before = counted("whole")
    assert sum(count for (count,) in before["all"].values()) == len(tree.rows["patients"])
    for patient in draws.sample(range(len(tree.rows["patients"])), min(seed + 2, 5)):
        gone = {table: {tag for tag, owner in rows.items() if owner == patient} for table, rows in whose.items()}
        tree.without(db, {"patients": {patient}, **gone})
        after = counted(f"without {patient}")
        for name, answered in before.items():
            assert moved(answered, after[name], 0) <= 1, (name, patient)
        assert moved(before["all"], after["all"], 0) == 1
