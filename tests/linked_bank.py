"""Linked tables for tests: a bank of patients, their visits and lab results, whole or as unruly as rows may be."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import duckdb
import pytest

import dpsql

TABLES = ("patients", "visits", "labs")
DOMAINS = {
    "patients": {"tag": 12, "sex": 2},
    "visits": {"tag": 24, "ward": 3},
    "labs": {"tag": 48, "result": 3},
}
"""Columns of small whole numbers, from 0 on."""


def refuses_before_a_charge(db: dpsql.Database, refused: Mapping[str, str]) -> None:
    """Each query is refused in words that hold some, which advise of no constraint, and nothing is charged."""
    for sql, words in refused.items():
        with pytest.raises(duckdb.Error) as refusal:
            db.sql("FROM dp_query(?, epsilon := 1)", [sql])
        assert words in str(refusal.value), sql
        assert "dp_constraint" not in str(refusal.value)
    assert db.sql("SELECT count(*) FROM dp_ledger() WHERE kind = 'charge'").fetchall() == [(0,)]


def declare(db: dpsql.Database, tables: Sequence[str] = TABLES) -> None:
    """The domains of all columns but keys."""
    for table in tables:
        for name, size in DOMAINS[table.removeprefix("few_")].items():
            db.domain(table, name, values=list(range(size)))


def whole(db: dpsql.Database) -> None:
    """Tables with constraints, in which some visits have no patient and some labs no visit."""
    db.sql("CREATE TABLE wards (ward INTEGER PRIMARY KEY, name VARCHAR)")
    db.sql("INSERT INTO wards VALUES (0, 'north'), (1, 'south'), (2, 'north')")
    db.sql("CREATE TABLE patients (pid INTEGER PRIMARY KEY, tag INTEGER, sex INTEGER)")
    db.sql("INSERT INTO patients SELECT i, i % 12, i * i % 7 % 2 FROM range(40) r(i)")
    db.sql(
        "CREATE TABLE visits (vid INTEGER PRIMARY KEY, pid INTEGER REFERENCES patients (pid), tag INTEGER, ward INTEGER)"
    )
    db.sql("INSERT INTO visits SELECT i, CASE WHEN i % 9 > 0 THEN i * 7 % 31 END, i % 24, i % 3 FROM range(90) r(i)")
    db.sql("CREATE TABLE labs (vid INTEGER REFERENCES visits (vid), tag INTEGER, result INTEGER)")
    db.sql("INSERT INTO labs SELECT CASE WHEN i % 5 > 0 THEN i * i % 83 END, i % 48, i % 3 FROM range(150) r(i)")


def protect(db: dpsql.Database, max_rows: int = 1000) -> None:
    """One account of all three."""
    db.protect("patients", epsilon=1000.0, delta=1e-6)
    db.link("visits", "patients", "pid", "pid", max_rows=max_rows)
    db.link("labs", "visits", "vid", "vid", max_rows=max_rows)
    declare(db)


@dataclass
class Unruly:
    """Rows whose keys are NULL, lead nowhere, are shared by two parents, or are written in several ways.

    Attributes:
        type: of the keys.
        keys: values of it, as SQL.
        rows: of each table, as SQL.
    """

    type: str
    keys: Sequence[str]
    rows: dict[str, list[str]] = field(default_factory=dict)

    def draw(self, source: random.Random, patients: int = 6, visits: int = 12, labs: int = 20) -> Unruly:
        """Other rows, which are a matter of the random numbers."""

        def some() -> str:
            return source.choice([*self.keys, "NULL"])

        self.rows = {
            "patients": [f"({some()}, {n}, {source.randrange(2)})" for n in range(patients)],
            "visits": [f"({some()}, {some()}, {n}, {source.randrange(3)})" for n in range(visits)],
            "labs": [f"({some()}, {n}, {source.randrange(3)})" for n in range(labs)],
        }
        return self

    def create(self, db: dpsql.Database) -> None:
        """The tables with their rows; no constraint says anything of the keys."""
        db.sql(f"CREATE TABLE patients (pid {self.type}, tag INTEGER, sex INTEGER)")
        db.sql(f"CREATE TABLE visits (vid {self.type}, pid {self.type}, tag INTEGER, ward INTEGER)")
        db.sql(f"CREATE TABLE labs (vid {self.type}, tag INTEGER, result INTEGER)")
        for table, rows in self.rows.items():
            db.sql(f"INSERT INTO {table} VALUES {', '.join(rows)}")

    def without(self, db: dpsql.Database, tags: dict[str, set[int]]) -> None:
        """The tables without the rows of these tags, in another order."""
        for table, rows in self.rows.items():
            db.sql(f"DELETE FROM {table}")
            left = [row for tag, row in enumerate(rows) if tag not in tags.get(table, ())]
            if left:
                db.sql(f"INSERT INTO {table} VALUES {', '.join(reversed(left))}")
