"""Delta tables whose files call columns otherwise, and whose log is written in the second way: no value of another column."""

from __future__ import annotations

import json

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsql
from dpsql.errors import InvalidArgument

from .delta_mapped import change, checkpoint_of_version_2, declare, first_commit, map_columns
from .delta_vectors import DECLARED, delete

pytestmark = pytest.mark.skipif(not hasattr(deltalake.DeltaTable, "deletion_vectors"), reason="reads no vectors")
ROWS = pa.table({"kind": ["old"] * 300, "c1": ["b" if place % 3 else "a" for place in range(300)], "c2": [1] * 300})
NOW = {"c1": "kind", "c2": "number"}
"""What the table calls columns of its files; the column `kind` of the files was dropped."""


@pytest.fixture
def db():
    with dpsql.connect() as database:
        yield database


def counts(db, folder, values=("a", "b", "old")):
    """Rows of each kind, in which the noise is of less than 1."""
    db.source("t", "delta", relation=str(folder))
    db.protect("t", epsilon=1000.0, delta=1e-9)
    db.domain("t", "kind", values=list(values))
    found = db.sql("FROM dp_query('SELECT kind, count(*) FROM t GROUP BY kind', epsilon := 300)").fetchall()
    return {row[0]: round(row[1], -1) for row in found}


def with_numbers(folder, numbers):
    """The files anew, with the numbers of their columns."""
    for file in folder.glob("*.parquet"):
        rows = pq.ParquetFile(file).read()
        fields = [field.with_metadata({"PARQUET:field_id": str(numbers[field.name])}) for field in rows.schema]
        pq.write_table(rows.cast(pa.schema(fields)), file)


@pytest.mark.medium
@pytest.mark.parametrize("mode", ["name", "id"])
def test_a_column_is_what_the_log_says(db, tmp_path, mode):
    """Not the one of that name in the files, which was dropped; rows that a vector deletes do not count."""
    folder = tmp_path / "d"
    deltalake.write_deltalake(folder, ROWS, configuration=DECLARED)
    with_numbers(folder, {"kind": 1, "c1": 2, "c2": 3})
    delete(folder, range(0, 150, 3))
    map_columns(folder, NOW, mode)
    assert counts(db, folder) == {"a": 50, "b": 200, "old": 0}
    assert db.sql("SELECT column_name FROM (DESCRIBE t)").fetchall() == [("kind",), ("number",)]


@pytest.mark.medium
def test_a_column_of_folders_is_what_the_log_says(db, tmp_path):
    deltalake.write_deltalake(tmp_path / "d", ROWS, partition_by=["c1"])
    map_columns(tmp_path / "d", NOW)
    assert counts(db, tmp_path / "d") == {"a": 100, "b": 200, "old": 0}


@pytest.mark.medium
def test_a_column_that_was_added_is_null_in_files_that_had_one_of_its_name(db, tmp_path):
    deltalake.write_deltalake(tmp_path / "d", ROWS)
    map_columns(tmp_path / "d", NOW)

    def added(action):
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            schema["fields"][0]["metadata"]["delta.columnMapping.physicalName"] = "c4"
            action["metaData"]["schemaString"] = json.dumps(schema)

    change(first_commit(tmp_path / "d"), added)
    assert counts(db, tmp_path / "d") == {"a": 0, "b": 0, "old": 0, None: 300}


def without_names(action):
    if "metaData" in action:
        schema = json.loads(action["metaData"]["schemaString"])
        del schema["fields"][0]["metadata"]["delta.columnMapping.physicalName"]
        action["metaData"]["schemaString"] = json.dumps(schema)


@pytest.mark.medium
@pytest.mark.parametrize(
    ("numbers", "then"),
    [({"kind": 2, "c1": 1, "c2": 3}, None), ({"kind": 7, "c1": 8, "c2": 9}, None), (None, without_names)],
    ids=["other numbers", "new numbers", "no name"],
)
def test_files_that_are_not_as_the_log_says_are_refused(db, tmp_path, numbers, then):
    deltalake.write_deltalake(tmp_path / "d", ROWS)
    if numbers:
        with_numbers(tmp_path / "d", numbers)
    map_columns(tmp_path / "d", NOW, "id" if numbers else "name")
    if then:
        change(first_commit(tmp_path / "d"), then)
    with pytest.raises(InvalidArgument, match="Delta table"):
        counts(db, tmp_path / "d")
    assert db.sql("SELECT count(*) FROM duckdb_tables() WHERE table_name = 't'").fetchall() == [(0,)]


def test_a_table_that_lists_the_feature_and_maps_nothing(db, tmp_path):
    deltalake.write_deltalake(tmp_path / "d", ROWS)
    change(first_commit(tmp_path / "d"), lambda action: declare(action, "columnMapping"))
    assert counts(db, tmp_path / "d") == {"a": 0, "b": 0, "old": 300}


@pytest.mark.medium
@pytest.mark.parametrize("sidecars", [True, False])
@pytest.mark.parametrize("vector", [True, False])
def test_checkpoints_of_version_2(db, tmp_path, vector, sidecars):
    """With the files in them or in other files; where the commit that has a vector is gone, too."""
    folder = tmp_path / "d"
    deltalake.write_deltalake(folder, ROWS.rename_columns(["was", "kind", "number"]), configuration=DECLARED)
    if vector:
        delete(folder, range(0, 300, 3))
    more = ROWS.slice(0, 60).rename_columns(["was", "kind", "number"])
    deltalake.write_deltalake(folder, more, mode="append")
    checkpoint_of_version_2(folder, sidecars=sidecars)
    assert counts(db, folder) == {"a": 20 if vector else 120, "b": 240, "old": 0}
