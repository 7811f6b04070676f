"""Iceberg tables with delete files (merge on read): rows that one deletes count nowhere, or the snapshot is refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import FileFormat

import dpsql
from dpsql.errors import DpsqlError, InvalidArgument

from .iceberg_deletes import CAN_WRITE, add_file, delete_by_vector, delete_equal, delete_places, paths_of

pytestmark = pytest.mark.skipif(not CAN_WRITE, reason="this pyiceberg has no parts of which a manifest can be made")
ROWS = pa.table({"kind": ["stays" if place % 3 else "gone" for place in range(300)], "who": list(range(300))})
GONE = range(0, 300, 3)


@pytest.fixture
def table(tmp_path):
    """With two files of 300 rows."""
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("bank")
    made = catalog.create_table("bank.t", schema=ROWS.schema, properties={"format-version": "2"})
    made.append(ROWS)
    made.append(ROWS)
    return made


@pytest.fixture
def db():
    with dpsql.connect() as database:
        yield database


def registered(db, table, **how):
    return db.source("t", "iceberg", relation=table.metadata_location.removeprefix("file://"), **how)


def declare(db):
    db.protect("t", epsilon=1000.0, delta=1e-9)
    db.domain("t", "kind", values=["gone", "stays"])
    db.domain("t", "who", exclude=True)


def counts(db, epsilon=300.0):
    """Rows that are gone, and that stay; the noise is of less than 1."""
    query = "SELECT kind, count(*) FROM t GROUP BY kind ORDER BY 1"
    found = db.sql(f"FROM dp_query('{query}', epsilon := {epsilon})").fetchall()
    return [round(row[1], -1) for row in found]


WAYS = {"places": delete_places, "vectors": delete_by_vector}


@pytest.mark.medium
@pytest.mark.parametrize("way", WAYS)
def test_deleted_rows_count_on_no_road(db, table, way):
    """Of the file that a list names, and of no other; a snapshot before it has them."""
    first, before = paths_of(table)[0], table.current_snapshot().snapshot_id
    WAYS[way](table, {first: GONE})
    registered(db, table)
    declare(db)
    assert counts(db) == [100, 400]
    rows = db.sql("FROM dp_synthesize('t', epsilon := 300, mechanism := 'direct')").fetchall()
    assert round(sum(row[0] == "gone" for row in rows), -1) == 100
    registered(db, table, snapshot=before)
    assert counts(db, 301.0) == [200, 400]


@pytest.mark.medium
def test_lists_of_several_snapshots_add_up(db, table):
    """Each row once, of whatever list; a file that is newer than a list is not meant by it."""
    first, second = paths_of(table)
    delete_places(table, {first: range(0, 150, 3)})
    delete_places(table, {first: GONE, second: [0]})
    delete_by_vector(table, {second: GONE})
    table.append(ROWS)
    registered(db, table)
    declare(db)
    assert counts(db) == [100, 600]


@pytest.mark.medium
def test_a_list_names_a_file_by_whatever_spelling(db, table, tmp_path):
    """By another scheme, or a link; what it says of a file that is gone does not matter."""
    first, second = paths_of(table)
    (tmp_path / "link").symlink_to(tmp_path / "w")
    gone = first.replace("/data/", "/data/old/")
    delete_places(table, {first.replace("file://", "file:"): GONE, gone: GONE})
    delete_places(table, {second.replace("/w/", "/link/"): GONE})
    registered(db, table)
    declare(db)
    assert counts(db) == [0, 400]


@pytest.mark.medium
def test_a_file_counts_once(db, table):
    """By a link, too, which a manifest may list."""
    first = paths_of(table)[0].removeprefix("file://")
    Path(f"{first}.link").hardlink_to(first)
    add_file(table, f"file://{first}.link", 300)
    with pytest.raises(InvalidArgument, match="two of the paths lead to one file"):
        registered(db, table)


@pytest.mark.medium
def test_a_sample_has_no_deleted_row(db, table):
    delete_places(table, dict.fromkeys(paths_of(table), GONE))
    registered(db, table, sample=400, rows=401)
    ((drawn,),) = db.sql("SELECT json_extract_string(sample, '$.table') FROM dpsql.source").fetchall()
    kinds = {row[0] for row in db.sql(f"SELECT kind FROM dpsql.{drawn}").fetchall()}
    assert kinds == {"stays"}


@pytest.mark.medium
def test_equality_deletes_are_refused_until_no_row_can_be_meant(db, table):
    delete_equal(table, "kind", pa.array(["gone"]))
    with pytest.raises(InvalidArgument, match=r"equality deletes.*rewrite_data_files.*engine := 'spark'"):
        registered(db, table)
    table.overwrite(ROWS)
    registered(db, table)
    declare(db)
    assert counts(db) == [100, 200]


def _other_address(table):
    delete_places(table, {f"file:///elsewhere/{paths_of(table)[0].rpartition('/')[2]}": GONE})


def _moved(table):
    delete_places(table, {paths_of(table)[0]: GONE}, file_path=f"{table.location()}/nowhere.parquet")


UNSURE = {
    "a data file by another address": (_other_address, "by another address"),
    "a list that is gone": (_moved, "cannot be read"),
    "fewer rows than the manifest says": (
        lambda table: delete_places(table, {paths_of(table)[0]: GONE}, record_count=101),
        "not what its manifest says",
    ),
    "a vector of fewer rows": (
        lambda table: delete_by_vector(table, {paths_of(table)[0]: GONE}, record_count=101),
        "another number of rows",
    ),
    "rows that there are not": (lambda table: delete_places(table, {paths_of(table)[0]: [300]}), "does not have"),
    "a row before the first": (lambda table: delete_places(table, {paths_of(table)[0]: [-1]}), "does not have"),
    "another format": (
        lambda table: delete_places(table, {paths_of(table)[0]: GONE}, file_format=FileFormat.AVRO),
        "cannot be read",
    ),
}


@pytest.mark.medium
@pytest.mark.parametrize("what", UNSURE)
def test_a_list_that_is_not_certain_is_refused_and_the_pin_stays(db, table, what):
    registered(db, table)
    declare(db)
    make, words = UNSURE[what]
    make(table)
    with pytest.raises(InvalidArgument, match=words) as refused:
        registered(db, table)
    assert ".parquet" not in str(refused.value)
    assert counts(db) == [200, 400]


@pytest.mark.medium
def test_manifests_that_are_gone_are_said(db, table, tmp_path):
    for path in tmp_path.rglob("*-m0.avro"):
        path.unlink()
    with pytest.raises(InvalidArgument, match=r"manifests .* cannot be read: restore them") as refused:
        registered(db, table)
    assert ".avro" not in str(refused.value)


@pytest.mark.medium
def test_what_was_read_at_the_pin_counts_until_it_moves(db, table, tmp_path):
    delete_places(table, {paths_of(table)[0]: GONE})
    registered(db, table)
    declare(db)
    for path in tmp_path.rglob("*-deletes.parquet"):
        path.unlink()
    assert counts(db) == [100, 400]
    with pytest.raises(DpsqlError, match="delete file"):
        db.source("t")


def test_a_column_that_hides_where_a_row_is(db, table):
    with table.update_schema() as change:
        change.rename_column("who", "File_Row_Number")
    delete_places(table, {paths_of(table)[0]: GONE})
    with pytest.raises(InvalidArgument, match="rename it"):
        registered(db, table)
