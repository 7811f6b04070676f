"""Privacy units: all rows of one patient, client or household are protected together, at most `max_rows` of them count."""

from __future__ import annotations

import signal

import duckdb
import numpy as np
import pytest
from scipy import stats
from sqlglot import exp

import dpsql
from dpsql.books.ledger import accounts
from dpsql.books.ledger.store import Books
from dpsql.books.releases import journal
from dpsql.core.domain import Attribute, Domain
from dpsql.engines.duckdb.catalog import find_source
from dpsql.engines.duckdb.counting import DuckDBCounter
from dpsql.engines.duckdb.units import Bound, bound_by_secret
from tests.conftest import settle

from ..processes import run_and_die

VISITS = """
    CREATE TABLE visits AS
    SELECT 'p' || (i * i * 7 % 211) AS patient, (['a', 'b', 'c'])[1 + i % 3] AS ward, i * 11 % 4 = 0 AS ill,
        (i * 7 % 30)::TINYINT AS days
    FROM range(2000) r(i);
    INSERT INTO visits SELECT NULL, 'a', true, 3 FROM range(50);
"""


def protect(db, rows: int) -> None:
    db.sql(VISITS)
    db.protect("visits", epsilon=1000.0, delta=1e-6, privacy_unit="patient", max_rows=rows)
    db.domain("visits", "ward", values=["a", "b", "c"])
    db.domain("visits", "days", lower=0, upper=29, bins=30)


@pytest.fixture
def silent(monkeypatch):
    """No noise."""
    for kind in ("gaussian", "laplace"):
        monkeypatch.setattr(f"dpsql.privacy.distributions.discrete_{kind}", lambda v, n, e=None: np.zeros(n, np.int64))


ASKED = [
    "SELECT count(DISTINCT patient) AS a, count(*) AS b, sum(days) AS c FROM visits",
    "SELECT ward AS k, count(DISTINCT patient) AS a, count(*) AS b FROM visits GROUP BY ward",
    "SELECT count(DISTINCT patient) FILTER (WHERE ill AND days > 20) AS a, count(*) AS b FROM visits WHERE ward <> 'a'",
    "SELECT days // 10 AS k, count(DISTINCT v.patient) AS a, sum(days) AS b FROM visits v WHERE ill GROUP BY ALL",
    "SELECT ward AS k, count(DISTINCT who) AS a, count(*) AS b FROM (SELECT patient AS who, ward FROM visits) GROUP BY 1",
    "SELECT ward AS k, ill AS l, count(DISTINCT patient) AS a FROM visits GROUP BY CUBE (ward, ill)",
]


@pytest.mark.medium
@pytest.mark.parametrize("sql", ASKED)
def test_with_room_for_all_rows_answers_are_duckdbs_own(db, silent, sql):
    """Rows without a patient count nowhere."""
    protect(db, 1000)
    columns = [name for name in "klabc" if f" AS {name}" in sql]
    found = db.sql(f"SELECT {', '.join(columns)} FROM dp_query(?, epsilon := 1)", [sql]).fetchall()
    numbers = sum(name in "abc" for name in columns)
    counted = {row for row in found if any(row[-numbers:])}
    db.sql("CREATE TABLE known AS FROM visits WHERE patient IS NOT NULL")
    raw = db.sql(f"SELECT {', '.join(columns)} FROM ({sql.replace('FROM visits', 'FROM known')})").fetchall()
    assert counted == set(raw)


@pytest.mark.medium
def test_of_each_unit_no_more_rows_count(db, silent):
    """Σ min(rows of the unit, 4), and a unit in each of its groups once, of at most 4 rows."""
    protect(db, 4)
    expected = db.sql(
        "SELECT sum(least(n, 4)), count(*) FROM (SELECT count(*) AS n FROM visits WHERE patient IS NOT NULL GROUP BY patient)"
    ).fetchall()[0]
    sql = "SELECT count(*) AS n, count(DISTINCT patient) AS patients FROM visits"
    assert db.sql("SELECT n, patients FROM dp_query(?, epsilon := 1)", [sql]).fetchall() == [expected]
    assert db.sql("SELECT count(*) FROM dp_synthesize('visits', epsilon := 1, mechanism := 'direct')").fetchall() == [
        (expected[0],)
    ]


@pytest.mark.medium
def test_one_choice_for_all_releases(db, silent):
    """All marginals of a release count the same rows, and those of the next: so they can be used together."""
    protect(db, 2)
    call = "dp_synthesize('visits', epsilon := 1, mechanism := 'direct', workload := 'all 2-way', release := '{}')"
    singles = []
    for name in ("one", "two"):
        db.sql(f"SELECT count(*) FROM {call.format(name)}").fetchall()
        cells = db.sql(f"SELECT columns, cell, value FROM dp_measurements('{name}')").fetchall()
        for columns in {tuple(columns) for columns, _, _ in cells if "ward" in columns}:
            wards: dict = {}
            for names, cell, value in cells:
                if tuple(names) == columns:
                    ward = cell[columns.index("ward")]
                    wards[ward] = wards.get(ward, 0) + value
            singles.append(wards)
    assert len(singles) == 4
    assert all(wards == singles[0] for wards in singles)


@pytest.mark.medium
def test_the_choice_survives_a_kill(tmp_path):
    """A release that is killed after half its answers goes on with the same rows."""
    path = tmp_path / "bank.duckdb"
    call = "FROM dp_synthesize('visits', epsilon := 500, mechanism := 'direct', workload := 'all 2-way')"
    script = f"""
import os, signal, dpsql, numpy as np
from dpsql.privacy import distributions
distributions.discrete_gaussian = lambda v, n, e=None: np.zeros(n, np.int64)
from dpsql.privacy.curator import Curator
measure = Curator.measure
def once(self, requests, noise="gaussian"):
    found = measure(self, requests[:1], noise)
    os.kill(os.getpid(), signal.SIGKILL)
Curator.measure = once
dpsql.connect({str(path)!r}).sql({call!r}).fetchall()
"""
    with dpsql.connect(path) as db:
        protect(db, 2)
    assert run_and_die(script) == -signal.SIGKILL
    with dpsql.connect(path) as db:
        ((key,),) = db.sql("SELECT key FROM dp_releases()").fetchall()
        books = Books(db.connection.cursor(), "bank")
        assert len(journal.answers(books, key)) == 1
        secret = bound_by_secret(accounts.bound(books, "visits")).secret.sql(dialect="duckdb")
        before = db.sql(f"SELECT {secret}").fetchall()
        db.sql(call).fetchall()
        assert db.sql(f"SELECT {secret}").fetchall() == before
        db.reset("visits", reason="other patients")
        assert db.sql(f"SELECT {secret}").fetchall() != before


def test_the_unit_column_stays_what_it_was(db):
    """Renamed, or replaced by another of its name: refused before any charge."""
    protect(db, 2)
    query = "FROM dp_query('SELECT ward, count(*) AS n FROM visits GROUP BY ward', epsilon := 1)"
    db.sql("ALTER TABLE visits RENAME patient TO person")
    for call in (query, "FROM dp_synthesize('visits', epsilon := 1, columns := ['ward'])"):
        with pytest.raises(duckdb.Error, match="which tells whose row it is, is not what it was"):
            db.sql(call).fetchall()
    db.sql("ALTER TABLE visits ADD COLUMN patient INTEGER DEFAULT 1")
    with pytest.raises(duckdb.Error, match="which tells whose row it is, is not what it was"):
        db.sql(query).fetchall()
    db.sql("ALTER TABLE visits DROP COLUMN patient; ALTER TABLE visits RENAME person TO patient")
    assert db.sql("SELECT releases FROM dp_budget()").fetchall() == [(0,)]


@pytest.mark.medium
@pytest.mark.parametrize("collation", ["NOCASE", "NOACCENT"])
def test_units_are_told_apart_by_their_bytes(db, silent, collation):
    """Whatever a session or the instance says: one that is written in many ways is many, in all that counts units."""
    ways = ["abc", "abC", "aBc", "Abc"] if collation == "NOCASE" else ["abc", "äbc", "ábc", "àbc"]
    db.sql(f"SET GLOBAL default_collation = '{collation}'")
    db.sql("CREATE TABLE t (who VARCHAR, d VARCHAR)")
    for way in ways:
        db.connection.execute("INSERT INTO t SELECT ? || i % 5, 'a rare one' FROM range(20) r(i)", [way])
    db.sql("INSERT INTO t SELECT 'p' || i, 'flu' FROM range(100) r(i)")
    db.protect("t", epsilon=900.0, delta=1e-6, privacy_unit="who", max_rows=3)
    db.sql(f"SET SESSION default_collation = '{collation}'")
    assert db.discover("t", "d", epsilon=300.0).values == ("a rare one", "flu")  # of 20 units
    sql = "SELECT count(*) AS n, count(DISTINCT who) AS units FROM t"
    assert db.sql("SELECT n, units FROM dp_query(?, epsilon := 1)", [sql]).fetchall() == [(160, 120)]


@pytest.mark.medium
def test_a_unit_under_a_collation_takes_no_row_from_another(db, silent):
    """A neighbour, one patient more whose number differs by case, changes the answers by its own rows only."""
    db.sql("SET GLOBAL default_collation = 'nocase'; CREATE TABLE t (who VARCHAR, v INTEGER)")
    db.sql("INSERT INTO t SELECT 'abc', 0 FROM range(3)")
    db.protect("t", epsilon=900.0, delta=1e-6, privacy_unit="who", max_rows=3)
    db.domain("t", "v", values=[0, 1])
    found = []
    for release in ("without", "with"):
        call = (
            "SELECT n FROM dp_query('SELECT v, count(*) AS n FROM t GROUP BY v', epsilon := 1, release := ?) ORDER BY v"
        )
        found.append(np.array(db.sql(call, [release]).fetchall())[:, 0])
        db.sql("INSERT INTO t SELECT 'ABC', 1 FROM range(30)")
    assert ((found[1] - found[0]) ** 2).sum() == 9


def test_a_unit_column_with_a_collation_is_refused(db):
    db.sql("""CREATE TABLE t (a INTEGER, "Who'" VARCHAR COLLATE nocase.noaccent DEFAULT 'COLLATE')""")
    db.sql("""INSERT INTO t VALUES (1, 'x'), (2, 'X')""")
    with pytest.raises(dpsql.DpsqlError, match="a column with a collation, .* TYPE VARCHAR USING lower") as refused:
        db.protect("t", epsilon=1.0, delta=1e-6, privacy_unit="who'", max_rows=3)
    db.sql(str(refused.value).split("as in ")[1])
    db.protect("t", epsilon=1.0, delta=1e-6, privacy_unit="who'", max_rows=3)


@pytest.mark.medium
@pytest.mark.parametrize(
    ("kind", "values", "units"),
    [
        ("DOUBLE", "['0.0', '-0.0', 'nan', '-nan', 'inf', '1e-300', '2e-300']", 5),
        ("FLOAT", "['0.0', '-0.0', 'nan', '0.1', '0.10000001']", 4),
        ("TIMESTAMPTZ", "['2024-03-31 02:30:00+01', '2024-03-31 01:30:00+00', '2024-03-31 01:30:00.000001+00']", 2),
        ("DECIMAL(5, 2)", "['0.10', '0.1', '-0.1']", 2),
        ("BLOB", r"['a', 'A', 'a\x00']", 3),
        ("VARCHAR", "['', ' ', 'a', 'a ', 'A', 'ß', 'ss']", 7),
        ("ENUM ('a', 'A')", "['a', 'A', 'a']", 2),
        ("UUID", "['00000000-0000-0000-0000-00000000000a', '00000000-0000-0000-0000-00000000000A']", 1),
        ("INTEGER[]", "['[1, 2]', '[1,2]', '[12]']", 2),
        ("INTERVAL", "['1 month', '30 days', '720 hours', '1 months', '31 days']", 2),
        ("TIME WITH TIME ZONE", "['12:00:00+00', '13:00:00+01', '12:00:00+00:00']", 2),
    ],
)
def test_units_of_every_type(db, silent, kind, values, units):
    """Each of 4 rows, of which 2 count."""
    db.sql(f"CREATE TABLE t (who {kind}, v BOOLEAN)")
    db.sql(f"INSERT INTO t SELECT CAST(unnest(CAST({values} AS VARCHAR[])) AS {kind}), true FROM range(4)")
    db.protect("t", epsilon=900.0, delta=1e-6, privacy_unit="who", max_rows=2)
    sql = "SELECT count(*) AS n, count(DISTINCT who) AS units FROM t"
    assert db.sql("SELECT n, units FROM dp_query(?, epsilon := 1)", [sql]).fetchall() == [(2 * units, units)]


MOVES = {
    "others deleted, and a checkpoint": "DELETE FROM t WHERE who >= 50; CHECKPOINT",
    "copied in another order": "CREATE TABLE u AS FROM t ORDER BY v DESC, who; DELETE FROM t; INSERT INTO t FROM u",
    "written anew": "UPDATE t SET v = v + 1; UPDATE t SET v = v - 1",
}


@pytest.mark.medium
@pytest.mark.parametrize("move", MOVES)
def test_one_choice_wherever_rows_are_stored(tmp_path, silent, move):
    """Of units whose rows stay the same ones count, after what gives rows other numbers; alike rows are as good."""
    path, found = tmp_path / "bank.duckdb", []

    def answers(db, release):
        sql = "SELECT v, count(*) AS n FROM t WHERE near GROUP BY v"
        return db.sql("SELECT v, n FROM dp_query(?, epsilon := 1, release := ?) ORDER BY v", [sql, release]).fetchall()

    with dpsql.connect(path) as db:
        db.sql("CREATE TABLE t AS SELECT i % 97 AS who, (i * 7 % 30) AS v, i % 97 < 50 AS near FROM range(1000) r(i)")
        db.sql("INSERT INTO t SELECT 1, 3, true FROM range(5)")
        db.protect("t", epsilon=900.0, delta=1e-6, privacy_unit="who", max_rows=2)
        db.domain("t", "v", lower=0, upper=29, bins=30)
        found.append(answers(db, "before"))
        db.sql(MOVES[move])
    with dpsql.connect(path) as db:
        found.append(answers(db, "after"))
    assert found[0] == found[1]


def by_row_number(source, secret):
    """A broken twin of `content_of`: where a row is stored, and not what it holds."""
    number = exp.cast(exp.column("rowid"), "VARCHAR", dialect="duckdb")
    return exp.func("md5", exp.DPipe(this=secret.copy(), expression=number), dialect="duckdb")


@pytest.mark.medium
@pytest.mark.parametrize("broken", [False, True])
def test_one_choice_after_rows_moved_in_the_file(tmp_path, silent, monkeypatch, broken):
    """DELETE and CHECKPOINT give rows other numbers. The marginals of the next release stay; by rowid they do not."""
    if broken:
        monkeypatch.setattr("dpsql.engines.duckdb.units.content_of", by_row_number)
    path, found = tmp_path / "bank.duckdb", []
    call = "dp_synthesize('t', epsilon := 1, mechanism := 'direct', workload := 'all 2-way', release := '{0}')"

    def marginals(db, release):
        db.sql(f"SELECT count(*) FROM {call.format(release)}").fetchall()
        cells = f"SELECT columns, cell, value FROM dp_measurements('{release}') ORDER BY ALL"
        sql = "SELECT v, count(*) AS n FROM t WHERE near GROUP BY v"
        query = "SELECT v, n FROM dp_query(?, epsilon := 1, release := ?) ORDER BY v"
        near = "SELECT * FROM ({}) WHERE list_contains(columns, 'near')"
        held = [row for row in db.sql(near.format(cells)).fetchall() if row[1][row[0].index("near")] == "true"]
        return held, db.sql(query, [sql, release]).fetchall()

    with dpsql.connect(path) as db:
        db.sql(
            "CREATE TABLE t AS SELECT i, i % 4 = 0 AS near, i % 997 + 1000 * (i % 4) AS who, i % 31 AS v "
            "FROM range(300_000) r(i)"
        )
        db.protect("t", epsilon=900.0, delta=1e-6, privacy_unit="who", max_rows=2)
        db.domain("t", "v", lower=0, upper=30, bins=31)
        db.domain("t", "i", exclude=True)
        found.append(marginals(db, "before"))
        db.sql("DELETE FROM t WHERE NOT near; CHECKPOINT")
    with dpsql.connect(path) as db:
        assert db.sql("SELECT count(*) > 10000 FROM t WHERE rowid <> i").fetchall() == [(True,)]
        found.append(marginals(db, "after"))
    assert sum(n for _, n in found[0][1]) == 2 * 997
    assert (found[0] == found[1]) is not broken


@pytest.mark.medium
def test_alike_rows_count_as_often_as_others(db, silent):
    """7 rows alike and one other, of which one counts: the other in an eighth of the units, not in half (1e-6)."""
    db.sql("CREATE TABLE t AS SELECT i % 4000 AS who, i < 4000 AS v FROM range(32000) r(i)")
    db.protect("t", epsilon=900.0, delta=1e-6, privacy_unit="who", max_rows=1)
    call = "SELECT v, n FROM dp_query('SELECT v, count(*) AS n FROM t GROUP BY v', epsilon := 1)"
    found = dict(db.sql(call).fetchall())
    assert found[True] + found[False] == 4000
    assert stats.binomtest(found[True], 4000, 1 / 8).pvalue > 1e-6


def test_a_column_named_as_ours_is_no_matter(db, silent):
    """A table may have columns called rowid, or what the statement that bounds calls its own."""
    db.sql(
        "CREATE TABLE t AS SELECT 'x' AS rowid, i % 5 AS dpsql_unit, i AS dpsql_content, 1 AS dpsql_place FROM range(40) r(i)"
    )
    db.protect("t", epsilon=900.0, delta=1e-6, privacy_unit="dpsql_unit", max_rows=3)
    assert db.sql("SELECT n FROM dp_query('SELECT count(*) AS n FROM t', epsilon := 1)").fetchall() == [(15,)]


DOMAIN = Domain((Attribute("v", "INTEGER", "values", tuple(map(str, range(8)))),))


def chosen(db, secret: str, rows: int = 1) -> np.ndarray:
    """How often each of the rows v = 0, …, 7 counts."""
    cursor = db.connection.cursor()
    return (
        DuckDBCounter(
            cursor, find_source(cursor, "t"), DOMAIN, Bound("u", "INTEGER", rows, exp.Literal.string(secret)), once=True
        )
        .marginal(("v",))
        .dense()
    )


@pytest.mark.parametrize("rows", [8, 999_999, 1_000_000, 2**40])
def test_all_rows_count_where_very_many_may(db, rows):
    """As an evaluation of linked tables counts them; DuckDB 1.5 refuses numbers of a million in what it makes of them."""
    db.sql("CREATE TABLE t AS SELECT 7 AS u, i::INTEGER AS v FROM range(8) r(i)")
    assert chosen(db, "secret", rows).tolist() == [1] * 8


@pytest.mark.slow
def test_rows_are_chosen_uniformly(db):
    """χ² over 1,200 secrets at a false-alarm rate of 1e-6; the first row of each unit, a broken choice, is caught."""
    db.sql("CREATE TABLE t AS SELECT 7 AS u, i::INTEGER AS v FROM range(8) r(i)")
    counts = sum(chosen(db, f"{number:064x}") for number in range(1200))
    assert counts.sum() == 1200
    assert stats.chisquare(counts).pvalue > 1e-6
    assert stats.chisquare([1200, *[0] * 7]).pvalue < 1e-6


def test_a_unit_changes_nothing_but_its_own_rows(db):
    """Adding a unit, even one of many rows, leaves what is counted of the others."""
    db.sql("CREATE TABLE t AS SELECT i % 5 AS u, (i % 8)::INTEGER AS v FROM range(40) r(i)")
    before = chosen(db, "secret", 3)
    db.sql("INSERT INTO t SELECT 99, 7 FROM range(100)")
    assert (chosen(db, "secret", 3) - before).tolist() == [0] * 7 + [3]
    db.sql("INSERT INTO t SELECT NULL, 7 FROM range(100)")
    assert (chosen(db, "secret", 3) - before).sum() == 3


@pytest.mark.medium
def test_noise_grows_with_the_rows(db):
    """σ² − 1/8 is 64 times that of one row; of numbers of units at most 3 groups' worth."""
    protect(db, 8)
    shown = "SELECT stddev FROM dp_plan('visits', epsilon := 1, mechanism := 'direct', workload := 'SELECT ward, count(*) FROM visits GROUP BY 1')"
    many = db.sql(shown + " WHERE len(marginal) = 1").fetchall()[0][0]
    groups = "SELECT ward, count(DISTINCT patient) AS n FROM visits GROUP BY ward"
    units = db.sql("SELECT stddev FROM dp_plan(?, epsilon := 1)", [groups]).fetchall()[0][0]
    total = "SELECT count(DISTINCT patient) AS n FROM visits"
    one = db.sql("SELECT stddev FROM dp_plan(?, epsilon := 1)", [total]).fetchall()[0][0]
    db.sql("CREATE TABLE rows AS SELECT ward, ill, days FROM visits")
    settle(db, "rows")
    db.protect("rows", epsilon=1000.0, delta=1e-6)
    db.domain("rows", "ward", values=["a", "b", "c"])
    db.domain("rows", "days", lower=0, upper=29, bins=30)
    alone = db.sql(shown.replace("visits", "rows") + " WHERE len(marginal) = 1").fetchall()[0][0]
    assert (many**2 - 1 / 8) / (alone**2 - 1 / 8) == pytest.approx(64)
    assert (units**2 - 1 / 8) / (one**2 - 1 / 8) == pytest.approx(4)  # NULL is a ward too


@pytest.mark.medium
def test_the_promise_names_the_unit(db):
    protect(db, 8)
    shown = db.sql(
        "SELECT privacy_unit, max_rows, neighbours FROM dp_protect('visits', epsilon := 1000, "
        "delta := 1e-6, privacy_unit := 'PATIENT', max_rows := 8)"
    ).fetchall()
    assert shown == [("patient", 8, "add_remove")]
    db.sql("SELECT count(*) FROM dp_query('SELECT count(*) AS n FROM visits', epsilon := 1)").fetchall()
    guarantee = db.sql("SELECT guarantee FROM dp_releases()").fetchall()[0][0]
    assert "all rows of one privacy unit, of which at most 8 count" in guarantee
    assert db.sql("SELECT privacy_unit, max_rows FROM dp_budget()").fetchall() == [("patient", 8)]
    assert db.sql("SELECT count(patient) FROM dp_synthesize('visits', epsilon := 1)").fetchall() == [(0,)]


REFUSED = {
    "privacy_unit := 'patient'": "say max_rows too",
    "max_rows := 3": "of which unit",
    "privacy_unit := 'nobody', max_rows := 3": "has no column 'nobody'",
    "privacy_unit := 'patient', max_rows := 0": "max_rows is 0: give 1 to",
    "privacy_unit := 'patient', max_rows := 3, neighbours := 'replace_one'": "goes with 'add_remove'",
}


@pytest.mark.parametrize("arguments", REFUSED)
def test_refused(db, arguments):
    db.sql(VISITS)
    with pytest.raises(duckdb.Error, match=REFUSED[arguments]):
        db.sql(f"CALL dp_protect('visits', epsilon := 1, delta := 1e-6, {arguments})")


@pytest.mark.medium
def test_what_units_rule_out(db):
    protect(db, 3)
    for call, reason in {
        "dp_synthesize('visits', epsilon := 1, mechanism := 'dualquery', subsample := true)": "subsample",
        "dp_query('SELECT count(DISTINCT ward) FROM visits', epsilon := 1)": "say count\\(DISTINCT patient\\)",
        "dp_query('SELECT count(DISTINCT patient) FROM visits', epsilon := 0)": "marginals count rows",
        "dp_query('SELECT patient, count(*) FROM visits GROUP BY patient', epsilon := 1)": "patient",
        "dp_protect('visits', epsilon := 1000, delta := 1e-6)": "privacy_unit 'patient', max_rows 3: a budget is set once",
    }.items():
        with pytest.raises(Exception, match=reason):
            db.sql(f"FROM {call}").fetchall()
    assert db.sql("SELECT releases FROM dp_budget()").fetchall() == [(0,)]
