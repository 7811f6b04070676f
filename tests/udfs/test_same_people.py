"""Tables about the same people have budgets of their own, whose ε adds up, and dp_protect says so."""

from __future__ import annotations

import duckdb
import pytest


@pytest.fixture
def clinic(db):
    for name in ("visits", "bills", "wards"):
        db.sql(f'CREATE TABLE {name} AS SELECT i % 9 AS "patient", i % 2 = 0 AS ill FROM range(20) r(i)')
    db.sql('ALTER TABLE bills RENAME patient TO "Patient"')
    return db


def note(db, table, unit):
    call = f"FROM dp_protect('{table}', epsilon := 1.5, delta := 1e-6, privacy_unit := '{unit}', max_rows := 3)"
    return db.sql(f"SELECT note {call}").fetchall()[0][0]


def test_the_result_names_tables_with_a_unit_of_the_same_name(clinic):
    assert note(clinic, "visits", "patient") is None
    said = note(clinic, "bills", "Patient")
    assert "visits (epsilon 1.5)" in said
    assert "epsilons add up" in said
    assert "bills (epsilon 1.5)" in note(clinic, "visits", "patient")  # the same call later
    account = clinic.protect("wards", epsilon=1.0, delta=1e-6, privacy_unit="patient", max_rows=1)
    assert "bills (epsilon 1.5), visits (epsilon 1.5)" in account.note


def test_tables_of_another_database_are_named_and_other_units_are_not(clinic):
    note(clinic, "visits", "patient")
    clinic.sql("ATTACH ':memory:' AS other; CREATE TABLE other.bills (patient BIGINT, ill BOOLEAN)")
    assert "memory.visits" in note(clinic, "other.bills", "patient")
    assert note(clinic, "wards", "ill") is None
    assert clinic.protect("bills", epsilon=1.0, delta=1e-6).note == ""


def test_a_refused_join_does_not_lead_to_a_third_budget(clinic):
    note(clinic, "visits", "patient")
    note(clinic, "bills", "Patient")
    query = 'SELECT count(*) AS n FROM visits v JOIN bills b ON v.patient = b."Patient"'
    with pytest.raises(duckdb.Error) as refused:
        clinic.sql(f"FROM dp_query('{query}', epsilon := 0.1)").fetchall()
    assert "ask about each of them alone" in str(refused.value)
    assert "third budget" in str(refused.value)
    assert "protect one table that holds" not in str(refused.value)
