"""A linked release under a name: all its tables for users and in a schema, in place of those before, or none."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import dpsql
from dpsql.books.accounts import verification
from dpsql.books.ledger.store import Books
from dpsql.core.names import quote
from dpsql.engines.duckdb.names import current_schema
from dpsql.errors import DpsqlError, InvalidArgument, UnknownName
from tests.depth import is_deep, some
from tests.processes import run_and_die

pytestmark = pytest.mark.medium
QUICK = {"linked": True, "mechanism": "direct"}
NAMES = ("select", "Be suche", 'say "ho"', "a.b", "größe", "x" * 70, "it's")
KINDS = {
    "INTEGER": "i",
    "VARCHAR": "'k' || i",
    "UUID": "md5(i::VARCHAR)::UUID",
    "DATE": "DATE '2000-01-01' + i::INTEGER",
}


def bank(db: dpsql.Database, seed: int) -> list[str]:
    """A tree of a random shape with random names and types of keys, and two releases of it; its tables."""
    chance = random.Random(seed)
    names, kind = chance.sample(NAMES, 4), chance.choice(list(KINDS))
    key = f"{chance.choice(NAMES)} key"
    above = {name: names[chance.randrange(place)] for place, name in enumerate(names) if place}
    for place, name in enumerate(names):
        up = f", up {kind} REFERENCES {quote(above[name])} ({quote(key)})" if place else ""
        db.sql(f"CREATE TABLE {quote(name)} ({quote(key)} {kind} PRIMARY KEY, flag BOOLEAN{up})")
        some = (
            f", CASE WHEN i % 9 > 0 THEN {KINDS[kind].replace('i', '(i // 2)', 1)} END"
            if place and kind == "INTEGER"
            else ""
        )
        some = some or (f", {KINDS[kind]}" if place else "")
        db.sql(f"INSERT INTO {quote(name)} SELECT {KINDS[kind]}, i % 2 = 0{some} FROM range(120) r(i)")
    db.protect(quote(names[0]), epsilon=200.0, delta=1e-9)
    for name, parent in above.items():
        db.link(quote(name), quote(parent), most=3)
    for epsilon in (40.0, 50.0):
        db.synthesize(quote(names[0]), epsilon, release=f"at {epsilon:g}", **QUICK)
    return names


def verify(db: dpsql.Database) -> None:
    with db.instance.cursor() as cursor:
        verification.verify(Books(cursor, current_schema(cursor, db.instance.home)[0]))


def copies(db: dpsql.Database, schema: str) -> dict[str, int]:
    listed = db.sql(f"SELECT table_name FROM duckdb_tables() WHERE schema_name = '{schema}'").fetchall()
    count = "SELECT count(*) FROM {}.{}"
    return {name: db.sql(count.format(schema, quote(name))).fetchall()[0][0] for (name,) in listed}


@pytest.mark.parametrize("seed", range(4) if is_deep() else [1, 3])  # keys of whole numbers, some NULL; UUIDs
def test_users_read_what_was_released_with_keys_that_fit(seed):
    with dpsql.connect() as db:
        names = bank(db, seed)
        db.users.add("rita", "reader")
        db.users.add("alice")
        rows = db.sql("CALL dp_publish('at 40', 'made', audience := 'everyone')").fetchall()
        assert sorted(row[0] for row in rows) == sorted(f"made.{name}" for name in names)
        for person in ("rita", "alice"):
            reader = db.for_analyst(person)
            shown = {one.name: one for one in reader.published()}
            assert {one.name: one.rows for one in shown.values()} == {
                f"made.{name}": count for name, count in copies(db, "made").items()
            }
            for name, one in shown.items():
                read = reader.read(name).read_all()
                for key in one.keys:
                    if key.kind == "foreign":
                        above = reader.read(f"made.{key.table}").read_all()[key.references[0]].to_pylist()
                        assert {*read[key.columns[0]].to_pylist()} - {None} <= {*above}
                    else:
                        assert len(set(read[key.columns[0]].to_pylist())) == read.num_rows
            assert sum(key.kind == "foreign" for one in shown.values() for key in one.keys) == 3
        db.publish("at 50", "made", audience=["alice"])
        with pytest.raises(UnknownName):
            db.for_analyst("rita").read(f"made.{names[0]}")
        assert db.for_analyst("rita").published() == []
        assert {one.rows for one in db.for_analyst("alice").published()} == {*copies(db, "made").values()}
        db.unpublish("made")
        assert db.for_analyst("alice").published() == []
        verify(db)


def test_what_somebody_changed_is_not_replaced():
    with dpsql.connect() as db:
        names = bank(db, 1)
        db.users.add("alice")
        db.publish("at 40", "made")
        before = copies(db, "made")
        db.unpublish("made")
        db.publish("at 40", "made", comment="the same tables again")
        assert copies(db, "made") == before
        db.sql(f"UPDATE made.{quote(names[-1])} SET flag = true")
        with pytest.raises(InvalidArgument, match="holds other rows than release"):
            db.publish("at 50", "made")
        assert copies(db, "made") == before
        assert {one.comment for one in db.for_analyst("alice").published()} == {"the same tables again"}
        db.sql(f"CREATE SCHEMA own; CREATE TABLE own.{quote(names[1])} (i INTEGER)")
        with pytest.raises(InvalidArgument, match="is there already"):
            db.publish("at 50", "own")
        assert copies(db, "own") == {names[1]: 0}
        for name in ("temp", "System", "DPSQL_results", "pg_made", "main", "pgx", "a b", "made; DROP TABLE x", "é"):
            with pytest.raises(InvalidArgument, match="name is"):
                db.publish("at 50", name)
        db.publish("at 50", "made_too", audience="everyone")
        with pytest.raises(InvalidArgument, match="is shown already"):
            db.publish("at 50", "MADE_too")


DIES = """
import os, threading, time, dpsql
db = dpsql.connect({path!r})
threading.Timer({after}, lambda: os.kill(os.getpid(), 9)).start()
while True:
    for name in ("at 40", "at 50"):
        db.publish(name, "made")
"""


@pytest.mark.parametrize("after", some([0.05, 0.12, 0.21, 0.33], part=3))
def test_who_dies_in_the_middle_leaves_all_tables_of_one_release(tmp_path: Path, after: float):
    path = str(tmp_path / "bank.duckdb")
    with dpsql.connect(path) as db:
        names = bank(db, 3)
        db.users.add("alice")
        db.publish("at 40", "made")
    assert run_and_die(DIES.format(path=path, after=after)) == -9
    with dpsql.connect(path) as db:
        verify(db)
        shown = {one.name: one.rows for one in db.for_analyst("alice").published()}
        assert shown == {f"made.{name}": count for name, count in copies(db, "made").items()}
        assert len(shown) == len(names)
        try:
            db.publish("at 50", "made")
        except DpsqlError as error:  # the same file goes on
            raise AssertionError(str(error)) from None


DIES_BETWEEN = """
import os, dpsql
from dpsql.books.people import published_tables
published_tables._write = lambda *_: os.kill(os.getpid(), 9)
dpsql.connect({path!r}).publish("at 50", "made")
"""


def test_who_dies_between_the_schema_and_the_event_leaves_both_as_they_were(tmp_path: Path):
    path = str(tmp_path / "bank.duckdb")
    with dpsql.connect(path) as db:
        names = bank(db, 3)
        db.publish("at 40", "made")
        before = {name: rows_of(db, name) for name in names}
    assert run_and_die(DIES_BETWEEN.format(path=path)) == -9
    with dpsql.connect(path) as db:
        assert {name: rows_of(db, name) for name in names} == before
        db.publish("at 50", "made")
        assert {name: rows_of(db, name) for name in names} != before


def rows_of(db: dpsql.Database, name: str) -> list[str]:
    return sorted(map(str, db.sql(f"FROM made.{quote(name)}").fetchall()))
