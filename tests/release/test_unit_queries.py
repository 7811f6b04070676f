"""How many rows each unit of linked tables has: a unit counts once, whatever its number is, and needs no bound."""

from __future__ import annotations

import random

import duckdb
import pytest

from ..linked_bank import Unruly, protect, refuses_before_a_charge, whole
from .test_linked_queries import KEYS, ROWS_OF, answers, moved, owners, silent, unruly_trees  # noqa: F401

PATIENTS = "JOIN patients USING (pid)"
ASKED = [
    ("SELECT n AS k, count(*) AS n FROM (SELECT pid, count(*) AS n FROM visits WHERE pid IS NOT NULL GROUP BY pid) GROUP BY 1", "k, n"),
    (f"SELECT n AS k, sex AS l, count(*) AS n FROM (SELECT pid, sex, count(*) AS n FROM visits {PATIENTS} GROUP BY ALL) GROUP BY ALL", "k, l, n"),
    (f"SELECT count(*) AS n FROM (SELECT pid FROM labs JOIN visits USING (vid) {PATIENTS} GROUP BY pid HAVING count(*) >= 3)", "n"),
    (f"SELECT sex AS k, sum(m) AS n FROM (SELECT pid, sex, count(*) AS m FROM visits {PATIENTS} GROUP BY pid, sex) GROUP BY 1", "k, n"),
    (f"WITH u AS (SELECT pid, sex, count(*) AS m FROM visits v {PATIENTS} GROUP BY 1, 2) SELECT sex AS k, count(*) AS n FROM u WHERE m BETWEEN 2 AND 3 GROUP BY sex", "k, n"),
    (f"SELECT m // 2 AS k, count(*) AS n FROM (SELECT patients.pid AS p, count(*) AS m FROM visits {PATIENTS} GROUP BY patients.pid) GROUP BY k", "k, n"),
    (f"SELECT sex AS k, count(*) AS n FROM (SELECT pid, sex FROM visits {PATIENTS} WHERE ward = 2 OR sex = 1 GROUP BY ALL) GROUP BY sex", "k, n"),
    (f"SELECT m AS k, count(*) AS n FROM (SELECT pid, count(*) AS m FROM labs JOIN visits USING (vid) {PATIENTS} WHERE result > ward GROUP BY pid) GROUP BY m", "k, n"),
    (f"SELECT m AS k, count(*) AS n FROM (SELECT pid, count(*) AS m FROM (SELECT * FROM visits WHERE ward < 2) {PATIENTS} WHERE NOT (sex = 1) GROUP BY pid) GROUP BY m", "k, n"),
]  # fmt: skip


@pytest.mark.medium
@pytest.mark.parametrize(("sql", "columns"), ASKED)
@pytest.mark.parametrize("bound", [1000, 1])
def test_what_is_asked_of_units_is_duckdbs_own_whatever_the_bound(db, silent, sql, columns, bound):  # noqa: F811
    whole(db)
    protect(db, bound)
    expected = [row for row in db.connection.sql(sql).fetchall() if row[-1] or len(row) == 1]
    assert answers(db, sql, columns) == sorted(expected)


REFUSED = {
    "SELECT count(*) FROM (SELECT pid, count(*) AS m FROM visits GROUP BY pid) u JOIN visits USING (pid)": "counted for each unit cannot be joined",
    "SELECT count(*) FROM (SELECT pid, count(*) AS m FROM visits GROUP BY pid) u JOIN patients USING (pid)": "counted for each unit cannot be joined",
    "SELECT n, count(*) FROM (SELECT pid, count(*) AS n FROM visits WHERE day > 3 GROUP BY pid) GROUP BY n": "a code stands for several",
    "SELECT n, count(*) FROM (SELECT pid, count(*) AS n FROM visits WHERE ward = 9 GROUP BY pid) GROUP BY n": "is true of no declared value",
    "SELECT n, count(*) FROM (SELECT pid, count(*) AS n FROM visits WHERE vid = 9 GROUP BY pid) GROUP BY n": "no public domain",
    "SELECT n, count(*) FROM (SELECT pid, count(*) AS n FROM visits WHERE random() > ward GROUP BY pid) GROUP BY n": "random",
    "SELECT n, count(*) FROM (SELECT pid, avg(ward) AS n FROM visits GROUP BY pid) GROUP BY n": "of each unit is not supported",
    "SELECT n, count(*) FROM (SELECT pid, count(ward) AS n FROM visits GROUP BY pid) GROUP BY n": "of each unit is not supported",
    "SELECT count(*) FROM (SELECT pid FROM visits GROUP BY pid HAVING count(*) > 200)": "say a larger most",
    "SELECT count(*) FROM (SELECT pid, vid FROM visits GROUP BY pid, vid)": "the query selects rows",
}  # fmt: skip


@pytest.mark.medium
def test_what_is_not_counted_of_units_is_refused_before_a_charge(db):
    whole(db)
    db.sql("ALTER TABLE visits ADD COLUMN day INTEGER")
    protect(db)
    db.domain("visits", "day", lower=0, upper=30, bins=3)
    refuses_before_a_charge(db, REFUSED)


@pytest.mark.medium
def test_the_noise_is_that_of_one_row_and_the_last_number_is_open(db, silent):  # noqa: F811
    db.sql("CREATE TABLE patients (pid INTEGER PRIMARY KEY)")
    db.sql("INSERT INTO patients SELECT unnest(range(5))")
    db.sql("CREATE TABLE visits (pid INTEGER REFERENCES patients (pid))")
    db.sql("INSERT INTO visits SELECT i FROM range(5) p(i), range(1 + 10 * i) r(j)")
    db.protect("patients", epsilon=1000.0, delta=1e-6)
    db.link("visits", "patients", most=20)  # without a bound
    sql = "SELECT n AS k, count(*) AS n FROM (SELECT pid, count(*) AS n FROM visits GROUP BY pid) GROUP BY 1"
    found = db.sql("SELECT k, n_stderr FROM dp_query(?, epsilon := 200)", [sql]).fetchall()
    alone = db.sql("SELECT n_stderr FROM dp_query('SELECT count(*) AS n FROM patients', epsilon := 200)").fetchall()
    assert {error for _, error in found} == {alone[0][0]}
    assert max(number for number, _ in found) == 20
    found = db.sql("SELECT k, n FROM dp_query(?, epsilon := 200)", [sql]).fetchall()
    assert {number for number, count in found if count > 0} == {1, 11, 20}
    assert db.sql("SELECT DISTINCT source FROM dp_ledger() WHERE kind = 'charge'").fetchall() == [("patients",)]


@pytest.mark.parametrize(("keys", "seed"), unruly_trees(6))
def test_a_unit_with_all_its_rows_moves_one_count_by_one(db, silent, keys, seed):  # noqa: F811
    """Of trees with NULL keys, keys that lead nowhere, and keys of two parents: without a patient, each of them."""
    draws = random.Random(f"units {keys} {seed}")
    tree = Unruly(KEYS[keys].type, KEYS[keys].keys).draw(draws)
    tree.create(db)
    protect(db, 1000)
    whose = owners(db, "whole")

    def counted(release: str) -> dict:
        found = {}
        for table in ("visits", "labs"):
            inside = f"SELECT patients.pid, patients.tag, count(*) AS n {ROWS_OF[table]} GROUP BY ALL"
            some = inside.replace("GROUP BY", f"WHERE {table}.tag % 3 > 0 AND sex = 0 GROUP BY")
            listed = answers(db, f"SELECT n AS k, count(*) AS n FROM ({some}) GROUP BY 1", "k, n", release)
            found[table, "some"] = {key: (count,) for key, count in listed}
            for column in ("n", "tag"):
                listed = answers(db, f"SELECT {column} AS k, count(*) AS n FROM ({inside}) GROUP BY 1", "k, n", release)
                found[table, column] = {key: (count,) for key, count in listed}
        return found

    before = counted("whole")
    for table, rows in whose.items():
        assert set(before[table, "tag"]) == set(rows.values())
    for patient in draws.sample(range(len(tree.rows["patients"])), min(seed + 1, 6)):
        gone = {table: {tag for tag, owner in rows.items() if owner == patient} for table, rows in whose.items()}
        tree.without(db, {"patients": {patient}, **gone})
        after = counted(f"without {patient}")
        for name, answered in before.items():
            change = moved(answered, after[name], 0)
            assert change <= 1 if name[1] == "some" else change == int(bool(gone[name[0]])), (name, patient)


@pytest.mark.medium
def test_a_part_of_a_composite_key_is_no_unit(db):
    db.sql("CREATE TABLE patients (house INTEGER, pid INTEGER)")
    db.sql("CREATE TABLE visits (house INTEGER, pid INTEGER)")
    db.protect("patients", epsilon=1.0, delta=1e-6)
    db.link("visits", "patients", ["house", "pid"])
    with pytest.raises(duckdb.Error, match="say how many rows of one unit count|max_rows := 20"):
        db.sql(
            "FROM dp_query('SELECT count(*) FROM (SELECT house, count(*) AS n FROM visits GROUP BY house)', epsilon := 1)"
        )
    both = "SELECT n, count(*) FROM (SELECT house, pid, count(*) AS n FROM visits GROUP BY house, pid) GROUP BY n"
    assert len(db.sql("FROM dp_query(?, epsilon := 0.5)", [both]).fetchall()) == 100
