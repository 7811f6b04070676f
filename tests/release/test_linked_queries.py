"""Linked tables in `dp_query`: the rows of the deepest one, each of one unit at most, whatever keys and joins there are."""

from __future__ import annotations

import itertools
import random

import duckdb
import numpy as np
import pytest

from dpsql.errors import NotDeclared

from ..linked_bank import Unruly, declare, protect, whole

PATH = {
    "visits": "FROM visits JOIN patients USING (pid)",
    "labs": "FROM labs JOIN visits USING (vid) JOIN patients USING (pid)",
}


@pytest.fixture
def silent(monkeypatch):
    """No noise."""
    for kind in ("gaussian", "laplace"):
        monkeypatch.setattr(f"dpsql.privacy.distributions.discrete_{kind}", lambda v, n, e=None: np.zeros(n, np.int64))


def answers(db, sql: str, columns: str, release: str = "") -> list[tuple]:
    """Answers without noise; groups without rows are left out."""
    text = f"SELECT {columns} FROM dp_query(?, epsilon := 0.5, release := ?)"
    found = db.sql(text, [sql, release]).fetchall()
    return sorted(row for row in found if row[-1] or len(row) == 1)


# --- joins ------------------------------------------------------------------------------------------------------------

ITEMS = {"p": "patients p", "v": "visits v", "l": "labs l"}
ON = {("l", "v"): "l.vid = v.vid", ("v", "p"): "v.pid = p.pid"}


def spelled(order: str, how: str) -> str:
    """FROM with those tables in that order."""
    pairs = [on for names, on in ON.items() if set(names) <= set(order)]
    if how == "comma":
        return f"FROM {', '.join(ITEMS[name] for name in order)} WHERE {' AND '.join(pairs)}"
    text, here = f"FROM {ITEMS[order[0]]}", {order[0]}
    for name in order[1:]:
        here.add(name)
        new = [on for names, on in ON.items() if name in names and set(names) <= here]
        turned = [" = ".join(reversed(on.split(" = "))) for on in new]
        text += f" {'INNER JOIN' if how == 'inner' else 'JOIN'} {ITEMS[name]} ON {' AND '.join(turned) or 'TRUE'}"
    return text


ORDERS = [order for size in (2, 3) for order in map("".join, itertools.permutations("pvl", size)) if "v" in order]


@pytest.mark.medium
@pytest.mark.parametrize("how", ["comma", "on", "inner"])
def test_joins_in_any_order_are_one_release_and_duckdbs_own_answers(db, silent, how):
    whole(db)
    protect(db)
    for order in ORDERS:
        sql = f"SELECT v.ward AS k, count(*) AS n {spelled(order, how)} GROUP BY v.ward"
        expected = sorted(db.connection.sql(sql.replace("WHERE", "WHERE v.pid IS NOT NULL AND")).fetchall())
        if order in ("lv", "vl"):  # rows of visits without a patient are nobody's
            expected = sorted(
                db.connection.sql(
                    "SELECT ward, count(*) FROM labs JOIN visits USING (vid) WHERE pid IS NOT NULL GROUP BY ward"
                ).fetchall()
            )
        assert answers(db, sql, "k, n") == expected, sql
    charged = db.sql("SELECT count(*) FROM dp_ledger() WHERE kind = 'charge'").fetchall()
    assert charged == [(2,)]  # of the rows of visits, and of labs


ASKED = [
    ("SELECT sex AS k, count(*) AS n {labs} GROUP BY sex", "k, n"),
    ("SELECT sex AS k, name AS l, count(*) AS n {labs} JOIN wards USING (ward) GROUP BY ALL", "k, l, n"),
    (
        "SELECT name AS k, sum(result) AS n FROM wards JOIN visits USING (ward) JOIN labs USING (vid) JOIN patients USING (pid) GROUP BY ALL",
        "k, n",
    ),
    ("SELECT sex AS k, count(DISTINCT pid) AS n {visits} GROUP BY sex", "k, n"),
    ("SELECT ward AS k, count(DISTINCT patients.pid) AS n {labs} GROUP BY ward", "k, n"),
    ("SELECT ward AS k, count(*) FILTER (WHERE sex = 1 AND result > 0) AS n {labs} GROUP BY ward", "k, n"),
    (
        "SELECT k, count(*) AS n FROM (SELECT v.ward + p.sex AS k FROM visits v JOIN patients p USING (pid)) GROUP BY k",
        "k, n",
    ),
    ("WITH j AS (SELECT v.ward, sex {on}) SELECT ward AS k, sex AS l, count(*) AS n FROM j GROUP BY ALL", "k, l, n"),
    (
        "SELECT ward AS k, count(*) AS n FROM (SELECT * FROM visits WHERE ward > 0) JOIN patients USING (pid) GROUP BY 1",
        "k, n",
    ),
    ("SELECT sex AS k, count(*) AS n FROM visits NATURAL JOIN (SELECT pid, sex FROM patients) GROUP BY sex", "k, n"),
    ("SELECT sex AS k, count(*) AS n FROM joined GROUP BY sex", "k, n"),
]


@pytest.mark.medium
@pytest.mark.parametrize(("sql", "columns"), ASKED)
def test_what_is_asked_of_a_path_is_duckdbs_own(db, silent, sql, columns):
    whole(db)
    protect(db)
    db.sql("CREATE VIEW joined AS SELECT sex, ward FROM patients p JOIN visits v ON v.pid = p.pid")
    sql = sql.format(**PATH, on="FROM visits v JOIN patients p ON v.pid = p.pid")
    expected = [row for row in db.connection.sql(sql).fetchall() if row[-1]]
    assert answers(db, sql, columns) == sorted(expected)


@pytest.mark.medium
def test_rows_without_a_unit_count_nowhere_with_left_join_too(db, silent):
    whole(db)
    protect(db)
    for sql in ("SELECT count(*) AS n FROM labs", "SELECT count(*) AS n FROM labs LEFT JOIN visits USING (vid)"):
        (expected,) = db.connection.sql(f"SELECT count(*) {PATH['labs']}").fetchall()
        assert answers(db, sql, "n") == [expected]


REFUSED = {
    "SELECT count(*) FROM patients LEFT JOIN visits USING (pid)": "keeps rows of a table above without rows below",
    "SELECT count(*) FROM visits RIGHT JOIN patients USING (pid)": "keeps rows of a table above",
    "SELECT count(*) FROM visits FULL JOIN patients USING (pid)": "FULL JOIN",
    "SELECT count(*) FROM labs JOIN patients ON TRUE": "'visits' lies between",
    "SELECT count(*) FROM visits, patients": "by the keys that were declared",
    "SELECT count(*) FROM visits v JOIN patients p ON v.tag = p.tag": "by the keys that were declared",
    "SELECT count(*) FROM visits v JOIN patients p ON v.vid = p.pid": "by the keys that were declared",
    "SELECT count(*) FROM visits v JOIN patients p USING (pid, tag)": "no declared key",
    "SELECT count(*) FROM visits v JOIN visits w ON v.vid = w.vid": "stands in FROM twice",
    "SELECT count(*) FROM visits v LEFT JOIN patients p ON v.pid = p.pid AND p.sex = 1": "say it in WHERE",
    "SELECT count(*) FROM notes JOIN labs USING (vid)": "do not lead to rows",
    "SELECT count(*) FROM notes": "max_rows := 20",
    "SELECT count(DISTINCT vid) FROM labs": "privacy unit only",
}


@pytest.mark.medium
def test_what_would_be_of_other_rows_is_refused_before_a_charge(db):
    whole(db)
    protect(db)
    db.sql("CREATE TABLE notes (vid INTEGER)")
    db.link("notes", "visits", "vid")
    for sql, words in REFUSED.items():
        with pytest.raises(duckdb.Error) as refused:
            db.sql("FROM dp_query(?, epsilon := 1)", [sql])
        assert words in str(refused.value), sql
    assert db.sql("SELECT count(*) FROM dp_ledger() WHERE kind = 'charge'").fetchall() == [(0,)]


# --- one unit ---------------------------------------------------------------------------------------------------------

KEYS = {
    "numbers": Unruly("INTEGER", ["1", "2", "3", "4", "99"]),
    "floats": Unruly("DOUBLE", ["0.0", "'-0.0'::DOUBLE", "'nan'::DOUBLE", "-('nan'::DOUBLE)", "1", "1e308"]),
    "texts": Unruly("VARCHAR", ["'a'", "'A'", "'a '", "'á'", "'a' || chr(769)", "''"]),
    "intervals": Unruly("INTERVAL", ["INTERVAL 1 MONTH", "INTERVAL 30 DAYS", "INTERVAL 720 HOURS", "INTERVAL 1 DAY"]),
}


def unruly_trees(seeds: int) -> list[object]:
    """Kinds of keys and seeds. A unit that is taken out costs some eight CPU seconds, so a run has one of each kind."""

    def marks(keys: str, seed: int) -> list[pytest.MarkDecorator]:
        return [pytest.mark.slow, pytest.mark.audit] if seed else [pytest.mark.medium]

    return [pytest.param(keys, seed, marks=marks(keys, seed)) for keys in KEYS for seed in range(seeds)]


MOST = 3
"""Rows of one unit that count in `few_visits` and `few_labs`, which have the same rows as `visits` and `labs`."""
UP = "JOIN visits ON {0}.vid = visits.vid JOIN patients ON visits.pid = patients.pid"
ROWS_OF = {
    "visits": "FROM visits JOIN patients ON visits.pid = patients.pid",
    "few_visits": "FROM few_visits JOIN patients ON few_visits.pid = patients.pid",
    "labs": f"FROM labs {UP.format('labs')}",
    "few_labs": f"FROM few_labs {UP.format('few_labs')}",
}


def with_few(db, tree: Unruly) -> None:
    """The tables, and others with the same rows of which few count."""
    tree.create(db)
    db.sql("CREATE TABLE few_visits AS FROM visits; CREATE TABLE few_labs AS FROM labs")
    protect(db)
    db.link("few_visits", "patients", "pid", max_rows=MOST)
    db.link("few_labs", "visits", "vid", max_rows=MOST)
    for few in ("few_visits", "few_labs"):
        declare(db, [few])


def owners(db, release: str) -> dict[str, dict[int, int]]:
    """The patient, by tag, of each row that has one, as released without noise and with room for all rows."""
    found: dict[str, dict[int, int]] = {}
    for table in ("visits", "labs"):
        sql = f"SELECT {table}.tag AS k, patients.tag AS l, count(*) AS n {ROWS_OF[table]} GROUP BY ALL"
        listed = answers(db, sql, "k, l, n", release)
        found[table] = {tag: patient for tag, patient, _ in listed}
        assert sum(count for *_, count in listed) == len(found[table]), "a row has two units"
    return found


def counted(db, release: str) -> dict[str, dict]:
    """Answers about rows and units."""
    found = {}
    for table, rows in ROWS_OF.items():
        for column in (f"{table}.tag", "patients.sex"):
            sql = f"SELECT {column} AS k, count(*) AS n, count(DISTINCT patients.pid) AS m {rows} GROUP BY {column}"
            listed = db.sql("SELECT k, n, m FROM dp_query(?, epsilon := 0.5, release := ?)", [sql, release]).fetchall()
            found[table, column] = {key: (rows, units) for key, rows, units in listed}
    return found


def moved(before: dict, after: dict, place: int) -> int:
    """Σ |change| over the groups."""
    none = (0, 0, 0)
    return sum(abs(before.get(key, none)[place] - after.get(key, none)[place]) for key in before.keys() | after.keys())


@pytest.mark.parametrize(("keys", "seed"), unruly_trees(6))
def test_a_unit_with_all_its_rows_moves_its_own_rows_and_no_others(db, silent, keys, seed):
    """Of trees with NULL keys, keys that lead nowhere, and keys of two parents: without a patient, each of them.

    What stays has the owners that it had. Counts move by the unit's rows, and by `max_rows` where those are more.
    """
    draws = random.Random(f"{keys} {seed}")
    tree = KEYS[keys].draw(draws)
    with_few(db, tree)
    whose, before = owners(db, "whole"), counted(db, "whole")
    for patient in draws.sample(range(len(tree.rows["patients"])), min(seed + 1, 6)):
        gone = {table: {tag for tag, owner in rows.items() if owner == patient} for table, rows in whose.items()}
        tree.without(db, {"patients": {patient}, **gone})
        db.sql("DELETE FROM few_visits; DELETE FROM few_labs")
        db.sql("INSERT INTO few_visits FROM visits; INSERT INTO few_labs FROM labs")
        left = {table: {t: o for t, o in rows.items() if o != patient} for table, rows in whose.items()}
        assert owners(db, f"without {patient}") == left
        after = counted(db, f"without {patient}")
        for (table, column), answered in before.items():
            rows = len(gone[table.removeprefix("few_")])
            most = min(rows, MOST) if table.startswith("few") else rows
            assert moved(answered, after[table, column], 0) <= most, (table, column, patient)
            assert moved(answered, after[table, column], 1) <= (most if column != "patients.sex" else min(rows, 1))


@pytest.mark.medium
def test_of_each_unit_no_more_rows_count_over_all_rows_between(db, silent):
    """Σ min(labs of a patient, 2), whatever visits they are of."""
    whole(db)
    protect(db, 2)
    of_units = f"SELECT pid, count(*) AS n {PATH['labs']} GROUP BY pid"
    expected = db.connection.sql(f"SELECT sum(least(n, 2)), count(*) FROM ({of_units})").fetchall()
    asked = "SELECT count(*) AS n, count(DISTINCT pid) AS m FROM labs JOIN visits USING (vid)"
    assert db.sql("SELECT n, m FROM dp_query(?, epsilon := 1)", [asked]).fetchall() == expected


@pytest.mark.medium
def test_a_composite_key_with_a_null_leads_nowhere(db, silent):
    db.sql("CREATE TABLE patients (house INTEGER, pid INTEGER, sex BOOLEAN NOT NULL)")
    db.sql("CREATE TABLE visits (house INTEGER, who INTEGER, ill BOOLEAN NOT NULL)")
    db.sql(
        "INSERT INTO patients VALUES (1, 1, true), (1, NULL, true), (NULL, NULL, false), (1, 2, false), (11, 2, true)"
    )
    db.sql("INSERT INTO visits VALUES (1, 1, true), (1, NULL, true), (NULL, NULL, true), (11, 2, true), (1, 12, true)")
    db.protect("patients", epsilon=100.0, delta=1e-6)
    db.link("visits", "patients", ["house", "who"], ["house", "pid"], max_rows=9)
    sql = "SELECT sex AS k, count(*) AS n FROM visits v JOIN patients p ON v.house = p.house AND who = pid GROUP BY sex"
    assert answers(db, sql, "k, n") == [(True, 2)]
    with pytest.raises(duckdb.Error, match="by all of them"):
        db.sql("FROM dp_query('SELECT count(*) FROM visits JOIN patients USING (house)', epsilon := 1)")


@pytest.mark.medium
def test_noise_is_made_for_the_rows_of_a_unit_over_all_levels(db):
    """As of a table with the unit in a column of its own."""
    whole(db)
    protect(db, 8)
    db.sql("CREATE TABLE flat (who INTEGER, result INTEGER)")
    db.protect("flat", epsilon=1000.0, delta=1e-6, privacy_unit="who", max_rows=8)
    found = {
        db.sql(f"SELECT n_stderr FROM dp_query('SELECT count(*) AS n FROM {t}', epsilon := 1)").fetchall()[0]
        for t in ("visits", "labs", "flat")
    }
    assert len(found) == 1


@pytest.mark.medium
def test_a_synthetic_table_of_a_linked_one_counts_rows_with_a_unit(db, silent):
    whole(db)
    protect(db)
    for column in ("vid", "pid"):
        db.domain("visits", column, exclude=True)
    found = db.sql("SELECT count(*) FROM dp_synthesize('visits', epsilon := 1, mechanism := 'direct')").fetchall()
    assert found == db.connection.sql("SELECT count(*) FROM visits WHERE pid IS NOT NULL").fetchall()


def test_a_column_without_a_domain_is_declared_where_it_is(db):
    """The call that mends it names the table above, whose column it is."""
    whole(db)
    db.protect("patients", epsilon=3.0, delta=1e-9)
    db.link("visits", "patients", key="pid", references="pid", max_rows=2)
    with pytest.raises(NotDeclared, match=r"CALL dp_domain\('patients', 'sex', "):
        db.query("SELECT sex, count(*) FROM visits JOIN patients USING (pid) GROUP BY sex", epsilon=0.5)
