"""Deletion vectors of Delta: rows that one deletes count nowhere. That each count is exact is in the conformance suite."""

from __future__ import annotations

import json
import shutil

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsql
from dpsql.errors import DpsqlError, InvalidArgument

from .delta_vectors import DECLARED, delete

pytestmark = pytest.mark.skipif(not hasattr(deltalake.DeltaTable, "deletion_vectors"), reason="reads no vectors")

STAYS, GONE = 200, 100
"""Rows of a file."""
OF_PROTOCOL = {
    "storageType": "i",
    "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
    "sizeInBytes": 44,
    "cardinality": 6,
}
"""The example of Delta's protocol: rows 3, 4, 7, 11, 18 and 29 are deleted."""


@pytest.fixture
def db():
    with dpsql.connect() as database:
        yield database


def made(folder, rows=None, places=range(0, 3 * GONE, 3), configuration=DECLARED, partition_by=None, **vector):
    """A Delta table of whose rows every third is deleted."""
    who = [f"p{place}" for place in range(STAYS + GONE)]
    whole = pa.table({"kind": ["stays" if place % 3 else "gone" for place in range(STAYS + GONE)], "who": who})
    table = whole if rows is None else rows(whole)
    deltalake.write_deltalake(folder, table, configuration=configuration, partition_by=partition_by)
    delete(folder, places, **vector)
    return folder


def registered(db, folder, **how):
    return db.source("t", "delta", relation=str(folder), **how)


def declare(db, **how):
    db.protect("t", epsilon=1000.0, delta=1e-9, **how)
    db.domain("t", "kind", values=["gone", "stays"])
    db.domain("t", "who", exclude=True)


def check(gone, stays):
    """The noise of both is far below 5."""
    assert abs(gone) < 5
    assert abs(stays - STAYS) < 5


def counts(db, epsilon=100.0):
    query = "SELECT kind, count(*) FROM t GROUP BY kind"
    found = {row[0]: row[1] for row in db.sql(f"FROM dp_query('{query}', epsilon := {epsilon})").fetchall()}
    return found["gone"], found["stays"]


@pytest.mark.medium
@pytest.mark.parametrize("inline", [True, False])
def test_deleted_rows_count_on_no_road(db, tmp_path, inline):
    registered(db, made(tmp_path / "d", inline=inline))
    declare(db)
    check(*counts(db))
    made_rows = db.sql("FROM dp_synthesize('t', epsilon := 200, mechanism := 'direct')").fetchall()
    kinds = [row[0] for row in made_rows]
    check(kinds.count("gone"), kinds.count("stays"))
    found = db.sql("FROM dp_query('SELECT count(*) FROM t', epsilon := 50)").fetchall()
    check(0, found[0][0])


@pytest.mark.medium
def test_deleted_rows_are_of_no_unit_and_in_no_sample(db, tmp_path):
    registered(db, made(tmp_path / "d"), sample=STAYS, rows=STAYS + 1)
    ((table,),) = db.sql("SELECT json_extract_string(sample, '$.table') FROM dpsql.source").fetchall()
    drawn = [row[0] for row in db.sql(f"SELECT kind FROM dpsql.{table}").fetchall()]
    assert len(drawn) > STAYS / 2
    assert "gone" not in drawn
    db.source("u", "delta", relation=str(made(tmp_path / "e", lambda rows: rows.append_column("x", [rows["kind"]]))))
    db.protect("u", epsilon=1000.0, delta=1e-9, privacy_unit="who", max_rows=1)
    db.domains("u", {"kind": {"values": ["gone", "stays"]}, "x": {"exclude": True}})
    query = "SELECT kind, count(DISTINCT who) FROM u GROUP BY kind"
    found = {row[0]: row[1] for row in db.sql(f"FROM dp_query('{query}', epsilon := 100)").fetchall()}
    check(found["gone"], found["stays"])


def test_the_vector_of_the_protocol(db, tmp_path):
    deleted = {3, 4, 7, 11, 18, 29}
    rows = pa.table({"kind": ["gone" if i in deleted else "stays" for i in range(206)], "who": ["x"] * 206})
    deltalake.write_deltalake(tmp_path / "d", rows)  # the table does not list the feature
    delete(tmp_path / "d", deleted, inline=True, **OF_PROTOCOL)
    registered(db, tmp_path / "d")
    declare(db)
    gone, stays = counts(db, 900.0)
    assert (round(gone), round(stays)) == (0, 200)


@pytest.mark.medium
@pytest.mark.parametrize(("name", "which"), [("number", 0), ("path", 1), ("deleted", 0), ("v0", 1)])
def test_each_vector_is_of_its_file_where_columns_are_of_folders(db, tmp_path, name, which):
    """One of two files has a vector, which would delete rows of the other at the same places."""
    values = ["a b/%", "x\"'"]

    def parted(rows):
        other = pa.table({"kind": ["stays"] * 300, "who": ["x"] * 300, name: [values[1 - which]] * 300})
        return pa.concat_tables([rows.append_column(name, pa.array([values[which]] * rows.num_rows)), other])

    folder = tmp_path / "d"
    who = ["gone" if place % 3 == 0 else f"p{place}" for place in range(300)]
    rows = pa.table({"kind": ["gone" if w == "gone" else "stays" for w in who], "who": who})
    deltalake.write_deltalake(folder, parted(rows), partition_by=[name])
    log = next((folder / "_delta_log").glob("*.json")).read_text().splitlines()
    adds = [json.loads(line)["add"] for line in log if '"add"' in line]
    (number,) = [n for n, add in enumerate(adds) if add["partitionValues"][name] == values[which]]
    delete(folder, range(0, 300, 3), number=number)
    registered(db, folder)
    declare(db)
    db.domain("t", name, values=values)
    query = f"SELECT {name}, kind, count(*) FROM t GROUP BY ALL"
    found = {row[:2]: row[2] for row in db.sql(f"FROM dp_query('{query}', epsilon := 200)").fetchall()}
    check(found[values[which], "gone"], found[values[which], "stays"])
    check(found[values[1 - which], "gone"], found[values[1 - which], "stays"] - 100)


def _without_file(folder):
    next(folder.glob("*.bin")).unlink()


def _damaged(folder):
    path = next(folder.glob("*.bin"))
    whole = path.read_bytes()
    path.write_bytes(whole[:40] + bytes([whole[40] ^ 1]) + whole[41:])


@pytest.mark.medium
@pytest.mark.parametrize(
    ("made_so", "then", "words"),
    [
        ({"cardinality": 99}, None, "another number of rows than its log says"),
        ({"cardinality": 101, "inline": True}, None, "another number of rows than its log says"),
        ({"places": [], "cardinality": 6, "inline": True}, None, "another number of rows than its log says"),
        ({"places": [5000]}, None, "cannot be read|does not have"),
        ({}, _without_file, "cannot be read"),
        ({}, _damaged, "cannot be read"),
        ({"rows": lambda rows: rows.rename_columns(["kind", "File_Row_Number"])}, None, "rename it"),
        ({"rows": lambda rows: rows.rename_columns(["kind", "filename"])}, None, "rename it"),
    ],
)
def test_a_vector_that_is_not_certain_is_refused_and_the_pin_stays(db, tmp_path, made_so, then, words):
    folder = tmp_path / "d"
    registered(db, made(folder))
    declare(db)
    shutil.rmtree(folder)
    made(folder, **made_so)
    if then is not None:
        then(folder)
    with pytest.raises(InvalidArgument, match=words) as refused:
        registered(db, folder)
    assert "part-" not in str(refused.value)
    assert ".bin" not in str(refused.value)
    with pytest.raises(DpsqlError, match="not what they were"):
        counts(db)
    assert db.sql("SELECT epsilon_spent FROM dp_budget()").fetchall() == [(0.0,)]


@pytest.mark.medium
def test_what_was_decoded_at_the_pin_counts_until_it_moves(db, tmp_path):
    """Neither a vector that goes, nor a log that says otherwise, changes a count; a version with another is other rows."""
    folder = made(tmp_path / "d")
    registered(db, folder)
    declare(db)
    digest = "SELECT pin ->> '$.digest' FROM dpsql.source"
    before = db.sql(digest).fetchall()
    _without_file(folder)
    delete(folder, [1], inline=True)
    check(*counts(db))
    db.source("t")
    assert db.sql(digest).fetchall() != before
    assert abs(counts(db, 101.0)[0] - GONE) < 5
    with pytest.raises(InvalidArgument, match="'t'"):
        db.source("again", "delta", relation=str(folder / ".." / "d"))


@pytest.mark.medium
def test_the_log_of_a_vector_may_be_in_a_checkpoint_alone(db, tmp_path):
    folder = made(tmp_path / "d")
    deltalake.DeltaTable(folder).create_checkpoint()
    next((folder / "_delta_log").glob("*.json")).unlink()
    registered(db, folder)
    declare(db)
    check(*counts(db))


@pytest.mark.medium
@pytest.mark.parametrize("parts", [1, 2])
def test_the_log_of_a_vector_may_be_in_a_checkpoint_whose_own_commit_is_of_another_file(db, tmp_path, parts):
    """As a writer leaves it that deletes the commits before a checkpoint; a writer may make a checkpoint in parts."""
    folder = made(tmp_path / "d")
    log = folder / "_delta_log"
    deltalake.write_deltalake(folder, pa.table({"kind": ["stays"], "who": ["x"]}), mode="append")
    deltalake.DeltaTable(folder).create_checkpoint()
    min(log.glob("*.json")).unlink()
    if parts > 1:
        whole = log / f"{1:020}.checkpoint.parquet"
        rows = pq.read_table(whole)
        for part in range(parts):
            name = f"{1:020}.checkpoint.{part + 1:010}.{parts:010}.parquet"
            pq.write_table(rows.slice(part * 2, 2 if part + 1 < parts else None), log / name)
        last = json.loads((log / "_last_checkpoint").read_text())
        (log / "_last_checkpoint").write_text(json.dumps(last | {"parts": parts}))
        whole.unlink()
    registered(db, folder)
    declare(db)
    check(*counts(db))
