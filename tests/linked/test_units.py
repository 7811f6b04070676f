"""A table with a privacy unit as a tree: its units are rows, each with its rows of the table, however many."""

from __future__ import annotations

import json
import signal
from collections import Counter

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

import dpsql
from dpsql.books.accounts import verification
from dpsql.books.ledger.store import Books
from dpsql.core.domain import Attribute, Domain
from dpsql.core.neighbours import Neighbours
from dpsql.core.tree import UNITS, Link, Tree
from dpsql.core.unit_row import UnitRow
from dpsql.engines.duckdb import unit_rows
from dpsql.engines.duckdb.catalog import find_source
from dpsql.errors import InvalidArgument
from tests.linked.test_release import charges, run
from tests.linked.test_resume import POINTS
from tests.linked.test_unit_rows import SETTINGS
from tests.linked.trees import KEYS, moved, same
from tests.processes import run_and_die

VALUE = Attribute("value", "INTEGER", "values", ("0", "1"), nullable=True, outside=True)
LINK = Link("t", UNITS, ("unit",), ("unit",), most=20)
UNIT_ROW = UnitRow(Tree(UNITS, (LINK,)), {UNITS: Domain(()), "t": Domain((VALUE,))})


def counter(con, kind, rows):
    con.execute(f"CREATE OR REPLACE TABLE t (unit {kind}, value INTEGER)")
    if rows:
        con.executemany("INSERT INTO t VALUES (?, ?)", rows)
    return unit_rows.UnitCounter(con, {"t": find_source(con, "t")}, UNIT_ROW, exp.Literal.string("5ec2e7"))


def counted(con, kind, rows) -> Counter[int]:
    """How many units are in which cell of the product of all columns."""
    counting = counter(con, kind, rows)
    whole = counting.marginal(UNIT_ROW.domain.names)
    counting.close()
    return Counter(dict(zip(whole.cells.tolist(), whole.counts.tolist(), strict=True)))


def total(con, kind, rows) -> int:
    counting = counter(con, kind, rows)
    counts = counting.marginal(()).counts
    counting.close()
    return int(counts[0])


def units_of(rows) -> Counter[object]:
    """The rows of each unit, by plain loops."""
    return Counter(unit for value, _ in rows if (unit := same({"unit": value}, ("unit",))) is not None)


def sensitivity(con, kind, rows) -> int:
    """The most that removing one unit with all its rows moves."""
    before, worst = counted(con, kind, rows), 0
    for unit in units_of(rows):
        left = [row for row in rows if same({"unit": row[0]}, ("unit",)) != unit]
        worst = max(worst, moved(before, counted(con, kind, left)))
        worst = max(worst, abs(total(con, kind, rows) - total(con, kind, left)))
    return worst


@st.composite
def tables(draw):
    kind = draw(st.sampled_from(sorted(KEYS)))
    row = st.tuples(st.sampled_from(KEYS[kind]), st.sampled_from([0, 1, 7, None]))
    return kind, draw(st.lists(row, max_size=20))


@pytest.mark.medium
@settings(SETTINGS, max_examples=12)
@given(tables())
def test_removing_a_unit_with_all_its_rows_moves_one_row(table):
    check_units(*table)


@pytest.mark.slow
@settings(SETTINGS, max_examples=30)
@given(tables())
def test_removing_a_unit_with_all_its_rows_moves_one_row_of_many_tables(table):
    check_units(*table)


def check_units(kind, rows):
    with duckdb.connect() as con:
        assert sensitivity(con, kind, rows) <= 1
        units = units_of(rows)
        counting = counter(con, kind, rows)
        assert counting.marginal(()).counts.tolist() == [len(units)]
        numbers = counting.marginal((UNIT_ROW.domain.names[0],)).dense()
        expected = np.zeros(len(LINK.starts))
        for number in units.values():
            expected[np.searchsorted(LINK.starts, number, side="right") - 1] += 1
        assert numbers.tolist() == expected.tolist()
        assert moved(counted(con, kind, rows), counted(con, kind, rows[::-1])) == 0  # wherever rows are stored


@pytest.mark.medium
def test_units_that_are_told_apart_by_their_rows_are_found_out(monkeypatch):
    """A broken twin: a unit for each content of its rows."""
    rows = [(1, 0), (1, 1), (1, None), (2, 0)]
    with duckdb.connect() as con:
        assert sensitivity(con, "INTEGER", rows) == 1
        monkeypatch.setattr(exp.Select, "group_by", _by_content(exp.Select.group_by))
        assert sensitivity(con, "INTEGER", rows) > 1


def _by_content(group_by):
    def grouped(query, *columns, **how):
        by = [*columns, exp.column("content")] if str(columns[0]) == "key0" else columns
        return group_by(query, *by, **how)

    return grouped


def test_a_sample_of_units_is_the_same_wherever_rows_are_stored():
    rows = [(i % 40, i % 3) for i in range(200)]
    found = []
    with duckdb.connect() as con:
        for stored in (rows, rows[::-1]):
            sample = counter(con, "INTEGER", stored).among(np.arange(0, 40, 3))
            found.append(sample.marginal(UNIT_ROW.domain.names).counts.tolist())
    assert found[0] == found[1]
    assert sum(found[0]) == 14


@pytest.mark.medium
def test_a_unit_of_a_million_rows_is_one_row():
    with duckdb.connect() as con:
        counting = counter(con, "INTEGER", [(i, 0) for i in range(5)])
        con.execute("INSERT INTO t SELECT if(i % 2 = 0, 3, NULL), i % 2 FROM range(2_000_000) r(i)")
        before = counting.marginal(UNIT_ROW.domain.names)
        counting.close()
        con.execute("DELETE FROM t WHERE unit = 3")
        after = counter(con, "INTEGER", [(i, 0) for i in range(5) if i != 3]).marginal(UNIT_ROW.domain.names)
    counts = [Counter(dict(zip(m.cells.tolist(), m.counts.tolist(), strict=True))) for m in (before, after)]
    assert moved(*counts) == 1


# --- through the public doors -----------------------------------------------------------------------------------------

PANEL = """
    CREATE TABLE stays (patient VARCHAR, year INTEGER, sex VARCHAR, severe BOOLEAN, note VARCHAR);
    INSERT INTO stays SELECT 'p' || p, 2000 + y, ['m', 'f'][1 + p % 2], p % 5 = 0, 'text'
        FROM range(600) a(p), range(8) b(y) WHERE y < 4 OR p % 3 = 0;
    INSERT INTO stays SELECT NULL, 2000, 'm', false, 'text' FROM range(50);
    CALL dp_protect('stays', epsilon := 100.0, delta := 1e-9, privacy_unit := 'patient', max_rows := 8);
    CALL dp_domain('stays', 'year', lower := 2000, upper := 2007);
    CALL dp_domain('stays', 'sex', "values" := ['m', 'f']);
    CALL dp_domain('stays', 'note', exclude := true);
"""
QUICK = {"steps": 60, "relaxed_rows": 30}
ASKED = "FROM dp_synthesize('stays', epsilon := 20.0, linked := true, steps := 60, relaxed_rows := 30)"
WORDS = "for neighbours that differ by all rows of one privacy unit, however many, added or removed"


@pytest.fixture
def hospital():
    with dpsql.connect() as db:
        run(db, PANEL)
        yield db


@pytest.mark.medium
def test_units_have_as_many_rows_as_in_truth_and_rows_that_are_alike(hospital):
    release = hospital.synthesize("stays", 20.0, linked=True, **QUICK)
    assert release.tables == ("stays",)
    assert release.entry.neighbours == Neighbours.UNITS
    assert release.entry.guarantee.endswith(WORDS)
    assert WORDS in release.entry.recorded
    hospital.sql(f"CREATE TABLE made AS {ASKED}")
    assert charges(hospital) == 1
    assert hospital.sql("FROM made").types == hospital.sql("FROM stays").types
    units = dict(
        hospital.sql("SELECT n, count(*) FROM (SELECT count(*) n FROM made GROUP BY patient) GROUP BY n").fetchall()
    )
    assert 340 <= units[4] <= 460
    assert 150 <= units[8] <= 250
    assert hospital.sql("SELECT count(*) FROM made WHERE patient IS NULL").fetchall() == [(0,)]
    pairs = "FROM made a JOIN made b ON a.patient = b.patient AND a.rowid < b.rowid"
    alike = hospital.sql(f"SELECT avg((a.sex = b.sex)::INT), avg((a.severe = b.severe)::INT) {pairs}").fetchall()[0]
    assert min(alike) > 0.8  # by chance a half, and two thirds
    assert hospital.sql("SELECT sum(note IS NOT NULL::INT) FROM made").fetchall() in ([(0,)], [(None,)])


@pytest.mark.medium
def test_the_noise_is_that_of_one_row_whatever_max_rows_is():
    scales = []
    for most in (2, 1000):
        with dpsql.connect() as db:
            run(db, PANEL.replace("max_rows := 8", f"max_rows := {most}"))
            plan = "FROM dp_plan('stays', epsilon := 1.0, linked := true) SELECT marginal, stddev"
            scales.append(db.sql(plan).fetchall())
            db.sql("CREATE TABLE persons (sex VARCHAR)")
            db.protect("persons", epsilon=1.0, delta=1e-9)
    assert scales[0] == scales[1]


@pytest.mark.medium
def test_what_was_asked_before_stays_another_release_and_neither_uses_the_other(hospital):
    whole = hospital.synthesize("stays", 5.0, linked=True, **QUICK)
    hospital.sql('ALTER TABLE stays RENAME severe TO "stays[1].sex"')
    hospital.sql("CALL dp_domain('stays', 'stays[1].sex', \"values\" := ['false', 'true'])").fetchall()
    rows = hospital.synthesize("stays", 5.0, workload="all 1-way", **QUICK)
    assert charges(hospital) == 2
    assert "at most 8 count" in rows.entry.guarantee
    assert not rows.entry.report.get("reused")
    assert list(rows.df()["patient"].dropna()) == []
    again = hospital.synthesize("stays", 5.0, linked=True, **QUICK)
    assert again.entry.number != whole.entry.number
    assert len({name.lower() for name in again.entry.domain.names}) == len(again.entry.domain.names)


@pytest.mark.medium
def test_a_schema_and_a_report(hospital):
    release = hospital.synthesize("stays", 20.0, linked=True, **QUICK)
    (made,) = hospital.sql(f"CALL dp_publish({release.entry.number}, 'copy')").fetchall()
    assert made[0] == "copy.stays"
    assert hospital.sql("SELECT count(*) FROM copy.stays").fetchall() == [(len(release.df()),)]
    page, card = release.report().html, release.card()
    words = " ".join(page.split()), json.dumps(card.facts if hasattr(card, "facts") else dict(card))
    for text in words:
        assert "the number of rows counts, and what two of them hold" in text
        assert "None rows" not in text
    assert "what two of them hold; these two are chosen at random" in words[1]
    assert "The guarantee protects single privacy units." in words[0]
    with hospital.instance.cursor() as cursor:
        verification.verify(Books(cursor, "memory"))


REFUSED = {
    "CREATE TABLE a AS SELECT i AS k, true AS b FROM range(9) r(i); CALL dp_protect('a', epsilon := 1.0, delta := 1e-9, neighbours := 'replace_one')": "no table is linked",
    "CREATE TABLE a AS SELECT i AS k, true AS b FROM range(9) r(i); CALL dp_protect('a', epsilon := 1.0, delta := 1e-9)": "privacy unit",
    "CREATE TABLE a AS SELECT INTERVAL 1 DAY AS k, true AS b FROM range(9) r(i); CALL dp_protect('a', epsilon := 1.0, delta := 1e-9, privacy_unit := 'k', max_rows := 2)": "synthetic rows cannot number",
    "CREATE TABLE a (k INTEGER, rowid INTEGER, b BOOLEAN); CALL dp_protect('a', epsilon := 1.0, delta := 1e-9, privacy_unit := 'k', max_rows := 2)": "rowid",
}


@pytest.mark.parametrize("script", REFUSED)
def test_what_has_no_units_to_number_is_refused_before_a_charge(script):
    with dpsql.connect() as db:
        run(db, script)
        with pytest.raises(InvalidArgument, match=REFUSED[script]):
            db.synthesize("a", 0.5, linked=True)
        assert charges(db) == 0


@pytest.mark.medium
def test_more_units_than_the_type_of_their_column_holds_are_not_drawn():
    with dpsql.connect() as db:
        db.sql("CREATE TABLE a AS SELECT (i % 250)::UTINYINT AS k, i % 2 = 0 AS b FROM range(900) r(i)")
        db.protect("a", epsilon=60.0, delta=1e-9, privacy_unit="k", max_rows=4)
        rows = db.synthesize("a", 50.0, linked=True, rows=400, **QUICK).df()
        assert rows["k"].nunique() <= 255
        assert rows["k"].notna().all()


@pytest.mark.medium
def test_a_table_that_shares_an_account_is_charged_to_it(hospital):
    hospital.sql("CREATE TABLE bills AS SELECT i % 300 AS person, i % 3 = 0 AS paid FROM range(700) r(i)")
    hospital.protect("bills", account="stays", privacy_unit="person", max_rows=2)
    release = hospital.synthesize("bills", 10.0, linked=True, **QUICK)
    assert release.tables == ("bills",)
    assert release.df()["person"].nunique() > 200
    assert hospital.sql("SELECT releases, tables FROM dp_budget()").fetchall() == [(1, ["bills"])]


@pytest.mark.medium
@pytest.mark.parametrize("point", [point for point in POINTS if "two tables" not in point])
def test_a_release_that_is_killed_goes_on(tmp_path, point):
    path = tmp_path / "hospital.duckdb"
    with dpsql.connect(path) as db:
        run(db, PANEL)
    script = f"""
import os, signal, dpsql
def die():
    os.kill(os.getpid(), signal.SIGKILL)
{POINTS[point]}
dpsql.connect({str(path)!r}).sql({ASKED!r}).fetchall()
"""
    assert run_and_die(script) == -signal.SIGKILL
    with dpsql.connect(path) as db:
        assert charges(db) == 1
        rows = db.sql(ASKED).fetchall()
        assert charges(db) == 1
        assert len({row[0] for row in rows}) > 500
        assert db.sql("SELECT count(*) FROM dp_ledger() WHERE kind = 'publish'").fetchall() == [(1,)]


@pytest.mark.medium
def test_the_command_line_writes_a_folder(tmp_path, capsys):
    from dpsql.api.cli import main

    path, folder = tmp_path / "hospital.duckdb", tmp_path / "made"
    with dpsql.connect(path) as db:
        run(db, PANEL)
    options = ["--option", "steps=60", "--option", "relaxed_rows=30", "--epsilon", "20", "--output", str(folder)]
    main(["synthesize", str(path), "stays", "--linked", *options])
    assert [file.name for file in folder.iterdir()] == ["stays.parquet"]
    assert WORDS in " ".join(capsys.readouterr().out.split())
    units = duckdb.sql(f"SELECT count(DISTINCT patient) FROM '{folder}/stays.parquet'").fetchall()[0][0]
    assert units > 500
