"""Units with their several rows beside releases of rows: what counts units is no count of rows, and few make no many."""

from __future__ import annotations

import pytest

import dpsql
from dpsql.errors import InvalidArgument
from dpsql.release import linked_rows, unit_drawing
from dpsql.runtime.progress import Quiet
from tests.linked.test_release import charges, run

QUICK = {"steps": 60, "relaxed_rows": 30}


def visits(db, units, rows, most):
    """Protect a table of so many units with so many rows each."""
    run(
        db,
        f"""CREATE TABLE visits AS SELECT i % {units} AS person, i % 3 = 0 AS urgent FROM range({units * rows}) r(i);
            CALL dp_protect('visits', epsilon := 100.0, delta := 1e-9, privacy_unit := 'person', max_rows := {most});""",
    )


def free(db, sql):
    return db.sql(f"SELECT n FROM dp_query('{sql}', epsilon := 0)").fetchall()


@pytest.fixture
def clinic():
    with dpsql.connect() as db:
        visits(db, 200, 10, 10)
        yield db


@pytest.mark.medium
def test_counts_of_units_answer_no_question_about_rows(clinic):
    run(clinic, "ALTER TABLE visits ADD ward INTEGER; UPDATE visits SET ward = rowid % 4")
    run(clinic, "CALL dp_domain('visits', 'ward', lower := 0, upper := 2)")
    clinic.synthesize("visits", 20.0, linked=True, **QUICK)
    clinic.sql('ALTER TABLE visits RENAME ward TO "visits[1].ward"')
    run(clinic, "CALL dp_domain('visits', 'visits[1].ward', lower := 0, upper := 2)")
    for sql in ("SELECT count(*) AS n FROM visits", 'SELECT "visits[1].ward", count(*) AS n FROM visits GROUP BY 1'):
        with pytest.raises(InvalidArgument, match="no earlier release measured"):
            free(clinic, sql)
    outside = clinic.sql("SELECT outside FROM dp_domains('visits') WHERE \"column\" = 'visits[1].ward'").fetchall()
    assert outside == [(None,)]
    assert charges(clinic) == 1


@pytest.mark.medium
def test_counts_of_rows_answer_questions_about_rows_beside_those_of_units(clinic):
    clinic.synthesize("visits", 20.0, workload="all 1-way", **QUICK)
    clinic.synthesize("visits", 20.0, linked=True, **QUICK)  # the newest
    ((total,),) = free(clinic, "SELECT count(*) AS n FROM visits")
    assert 1_900 < total < 2_100


@pytest.mark.medium
def test_a_prediction_is_by_the_number_of_what_is_counted(clinic):
    assert clinic.forecast("visits", 1.0).is_assumed
    clinic.synthesize("visits", 20.0, linked=True, **QUICK)
    assert clinic.forecast("visits", 1.0).is_assumed
    assert 190 < clinic.forecast("visits", 1.0, linked=True).scenario.rows < 210
    clinic.synthesize("visits", 20.0, workload="all 1-way", **QUICK)
    assert 1_900 < clinic.forecast("visits", 1.0).scenario.rows < 2_100
    assert 190 < clinic.forecast("visits", 1.0, linked=True).scenario.rows < 210


@pytest.mark.medium
def test_many_rows_of_a_unit_are_filled_in_few_steps_that_can_be_interrupted(monkeypatch):
    """One by one, a unit of 100,000 rows took minutes in which nobody could stop the call."""
    happened, draw, check = [], unit_drawing.ChildRows.draw, Quiet.check

    def noted_draw(rows, *wanted):
        happened.append("draw")
        assert happened.count("draw") < 30
        return draw(rows, *wanted)

    def noted_check(progress):
        happened.append("check")
        return check(progress)

    with dpsql.connect() as db:
        visits(db, 60, 600, 5)
        monkeypatch.setattr(unit_drawing, "_UNITS_OF_A_VALUE", 1)
        monkeypatch.setattr(unit_drawing.ChildRows, "draw", noted_draw)
        monkeypatch.setattr(Quiet, "check", noted_check)
        rows = db.synthesize("visits", 50.0, linked=True, **QUICK).df()
    assert len(rows) > 60 * 500
    drawn = [place for place, what in enumerate(happened) if what == "draw"]
    assert len(drawn) >= 3
    assert all(happened[place - 1] == "check" for place in drawn)


@pytest.mark.medium
@pytest.mark.parametrize("most", [2, 10_000])
def test_max_rows_does_not_decide_how_many_rows_come_out(monkeypatch, most):
    """Of 500 units with 2 rows each, one that noise put among those of 5,000 to 10,000 had most rows."""
    given, likely = [], linked_rows.likely_numbers

    def noted(domain, names, measured, always, drawn):
        given.append(always)
        return likely(domain, names, measured, always, drawn)

    monkeypatch.setattr(linked_rows, "likely_numbers", noted)
    with dpsql.connect() as db:
        visits(db, 500, 2, most)
        db.synthesize("visits", 10.0, linked=True, **QUICK)
    assert given == [min(most, 16)]


CONSTRAINTS = {
    "a unit": "CALL dp_domain('visits', 'person', lower := 0, upper := 999); CALL dp_constraint('visits', 'person < 100')",
    "a unit and a column": "CALL dp_constraint('visits', 'urgent OR PERSON > 3')",
}


@pytest.mark.medium
@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_a_constraint_that_names_the_column_of_units_is_refused_before_a_charge(clinic, constraint):
    run(clinic, CONSTRAINTS[constraint])
    with pytest.raises(InvalidArgument, match="names 'person', which is numbered anew .*remove := true"):
        clinic.synthesize("visits", 5.0, linked=True, **QUICK)
    assert charges(clinic) == 0
    clinic.synthesize("visits", 5.0, workload="all 1-way", **QUICK)


def test_a_constraint_that_names_a_key_of_a_tree_is_refused_before_a_charge():
    with dpsql.connect() as db:
        run(
            db,
            """CREATE TABLE patients AS SELECT i AS pid, i % 3 = 0 AS ill FROM range(90) r(i);
               CREATE TABLE stays AS SELECT i % 90 AS pid, i % 2 = 0 AS urgent FROM range(200) r(i);
               CALL dp_protect('patients', epsilon := 9.0, delta := 1e-9);
               CALL dp_link('stays', 'patients', key := 'pid', "references" := 'pid');
               CALL dp_domain('stays', 'pid', lower := 0, upper := 89);
               CALL dp_constraint('stays', 'urgent OR pid < 40');""",
        )
        with pytest.raises(InvalidArgument, match="names 'pid', which is numbered anew"):
            db.synthesize("patients", 5.0, linked=True, **QUICK)
        assert charges(db) == 0
