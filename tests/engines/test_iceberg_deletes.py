"""Iceberg tables with delete files (merge on read): rows that one deletes count nowhere, or the snapshot is refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import FileFormat
from pyiceberg.typedef import Record

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
    "a vector far above the rows": (
        lambda table: delete_by_vector(table, {paths_of(table)[0]: GONE}, key=2**31 - 2),
        "does not have",
    ),
    "a vector that is nowhere": (
        lambda table: delete_by_vector(table, {paths_of(table)[0]: GONE}, content_offset=-5),
        "vector of the snapshot cannot be read",
    ),
    "a vector of no length": (
        lambda table: delete_by_vector(table, {paths_of(table)[0]: GONE}, content_size_in_bytes=None),
        "does not say where",
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
def test_a_vector_that_no_manifest_names_deletes_nothing(db, table):
    """As Spark leaves it, which writes another vector of one of the files that a puffin has."""
    first, second = paths_of(table)
    delete_by_vector(table, {first: GONE, second: range(1, 300)}, left=[second])
    delete_by_vector(table, {second: GONE})
    registered(db, table)
    declare(db)
    assert counts(db) == [0, 400]


@pytest.mark.medium
def test_two_vectors_that_are_wrong_do_not_make_up_for_each_other(db, table):
    """Each has another number of rows than its entry says, and the sums are equal."""
    first, second = paths_of(table)
    delete_by_vector(table, {first: GONE, second: range(100)}, left=[second], record_count=99)
    delete_by_vector(table, {second: range(100)}, record_count=101)
    with pytest.raises(InvalidArgument, match="another number of rows"):
        registered(db, table)


DANGLING = {
    "a vector": lambda table, first: delete_by_vector(table, {first: GONE}),
    "another format": lambda table, first: delete_places(table, {first: GONE}, file_format=FileFormat.AVRO),
    "a list that is gone": lambda table, first: delete_places(table, {first: GONE}, file_path="file:///nowhere"),
}


@pytest.mark.medium
@pytest.mark.parametrize("what", DANGLING)
def test_lists_of_files_that_are_gone_do_not_matter(db, table, what):
    """Those that are older than every file, and those that name a file that is gone, are not opened."""
    DANGLING[what](table, paths_of(table)[0])
    table.overwrite(ROWS)
    registered(db, table)
    if what == "a vector":  # which is newer, but names its file
        DANGLING[what](table, f"{table.location()}/data/gone.parquet")
        registered(db, table)
    declare(db)
    assert counts(db) == [100, 200]


OWN = "canary-of-a-list"
OTHER_TYPES = {
    "no place": lambda path: {"file_path": [path, path], "pos": pa.array([None, 1], pa.int64())},
    "a text": lambda path: {"file_path": [path], "pos": [OWN]},
    "bytes": lambda path: {"file_path": pa.array([path.encode()], pa.binary()), "pos": [1]},
    "a part": lambda path: {"file_path": [path], "pos": [1.7]},
    "NaN": lambda path: {"file_path": [path], "pos": [float("nan")]},
    "too large": lambda path: {"file_path": [path], "pos": pa.array([2**63 + 5], pa.uint64())},
    "a list": lambda path: {"file_path": [[path]], "pos": [1]},
    "no path": lambda path: {"file_path": pa.array([None], pa.string()), "pos": [1]},
    "no column": lambda path: {"file_path": [path], OWN: [1]},
}


@pytest.mark.medium
@pytest.mark.parametrize("what", OTHER_TYPES)
def test_a_list_of_other_types_is_refused_in_words(db, table, tmp_path, what):
    path = paths_of(table)[0]
    rows = pa.table(OTHER_TYPES[what](path))
    pq.write_table(rows, tmp_path / "list.parquet")
    address = f"file://{tmp_path}/list.parquet"
    delete_places(table, {path: [1]}, file_path=address, record_count=len(rows))
    with pytest.raises(InvalidArgument, match="not what its manifest says") as refused:
        registered(db, table)
    assert OWN not in str(refused.value)


@pytest.mark.medium
def test_equality_deletes_of_the_partition_nan_are_refused(db, tmp_path):
    """NaN is no other value than NaN."""
    catalog = SqlCatalog("n", uri=f"sqlite:///{tmp_path}/n.db", warehouse=f"file://{tmp_path}/n")
    catalog.create_namespace("bank")
    rows = pa.table({"x": pa.array([float("nan")] * 50), "age": [3] * 50})
    plain, made = (catalog.create_table(f"bank.{name}", schema=rows.schema) for name in ("plain", "t"))
    plain.append(rows)
    with made.update_spec() as change:
        change.add_identity("x")
    add_file(made, paths_of(plain)[0], 50, Record(float("nan")))
    delete_equal(made, "age", pa.array([3]), partition=Record(float("nan")))
    with pytest.raises(InvalidArgument, match="equality deletes"):
        registered(db, made)


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
