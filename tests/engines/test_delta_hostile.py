"""Logs and deletion vectors of Delta that no honest writer leaves: each is refused in words, in little memory and time."""

from __future__ import annotations

import json
import struct

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsql
from dpsql.engines.lake.roaring import decoded
from dpsql.errors import InvalidArgument

from . import delta_vectors
from .delta_mapped import change
from .delta_vectors import DECLARED, delete

pytestmark = [
    pytest.mark.medium,
    pytest.mark.skipif(not hasattr(deltalake.DeltaTable, "deletion_vectors"), reason="reads no vectors"),
]
ROWS = pa.table({"age": [18 + i % 70 for i in range(200)]})
OWN = "canary-of-a-log"


@pytest.fixture
def db():
    with dpsql.connect() as database:
        yield database


@pytest.fixture
def folder(tmp_path):
    deltalake.write_deltalake(tmp_path / "d", ROWS, configuration=DECLARED)
    return tmp_path / "d"


def refused(db, folder, words):
    with pytest.raises(InvalidArgument, match=words) as error:
        db.source("t", "delta", relation=str(folder))
    assert OWN not in str(error.value)


@pytest.mark.parametrize("key", [2**13, 2**31 - 1])
@pytest.mark.parametrize("inline", [True, False])
def test_a_place_far_above_the_rows_costs_no_memory(db, folder, monkeypatch, key, inline):
    """The package would take a byte for each place before it, and the process ends where it gets none."""
    honest = delta_vectors._bitmap

    def far(places):
        data = bytearray(honest(places))
        data[12:16] = struct.pack("<I", key)
        return bytes(data)

    monkeypatch.setattr(delta_vectors, "_bitmap", far)
    delete(folder, [3], inline=inline)
    refused(db, folder, "does not have")


@pytest.mark.parametrize(
    "said",
    [
        {"pathOrInlineDv": 5},
        {"pathOrInlineDv": OWN},
        {"pathOrInlineDv": None},
        {"cardinality": OWN},
        {"cardinality": -1},
        {"offset": -5},
        {"storageType": OWN},
    ],
)
def test_a_vector_of_other_types(db, folder, said):
    delete(folder, range(0, 200, 2), **said)
    refused(db, folder, "deletion vector|no Delta table|cannot be read")


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/v.bin", "s3://elsewhere/v.bin", "http:/127.0.0.1/v.bin"])
def test_a_vector_at_an_address_of_its_own_is_not_asked_for(db, folder, address):
    delete(folder, [1], storageType="p", pathOrInlineDv=address)
    refused(db, folder, "at an address of its own")


def test_a_checkpoint_says_what_its_own_commit_says_otherwise(db, folder):
    """deltalake reads the checkpoint, and would ask the address in it."""
    delete(folder, range(0, 200, 2), storageType="p", pathOrInlineDv="http://127.0.0.1:9/v.bin")
    deltalake.DeltaTable(folder).create_checkpoint()
    delete(folder, range(0, 200, 2), inline=True)
    refused(db, folder, "at an address of its own")


def test_what_no_reader_of_the_log_reads_does_not_matter(db, folder):
    """The commit of a checkpoint is in the checkpoint."""
    delete(folder, range(0, 200, 2), inline=True)
    deltalake.DeltaTable(folder).create_checkpoint()
    for commit in (folder / "_delta_log").glob("*.json"):
        commit.write_text(f'{{"add" {OWN}\n' + "[" * 100_000)
    assert db.source("t", "delta", relation=str(folder)).files == 1


def test_the_versions_before_a_checkpoint_are_not_asked_for(db, folder):
    """Its number may be any, and it may have no column for vectors."""
    deltalake.DeltaTable(folder).create_checkpoint()
    log = folder / "_delta_log"
    rows = pq.read_table(log / f"{0:020}.checkpoint.parquet")
    adds = rows["add"].combine_chunks()
    kept = [field.name for field in adds.type if field.name != "deletionVector"]
    without = pa.StructArray.from_arrays([adds.field(name) for name in kept], kept, mask=adds.is_null())
    rows = rows.set_column(rows.schema.get_field_index("add"), "add", without)
    for entry in log.iterdir():
        entry.unlink()
    pq.write_table(rows, log / f"{9 * 10**17:020}.checkpoint.parquet")
    (log / f"{9 * 10**17:020}.json").write_text('{"commitInfo":{}}\n')
    assert db.source("t", "delta", relation=str(folder)).files == 1


def test_two_vectors_of_one_file(db, folder):
    delete(folder, [1], inline=True)
    commit = folder / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    delete(folder, [2], inline=True)
    other = [json.loads(line) for line in commit.read_text().splitlines() if '"add"' in line]
    commit.write_text("\n".join(map(json.dumps, [*actions, *other])))
    refused(db, folder, "twice|two deletion vectors")


def test_a_file_by_two_paths(db, folder):
    deltalake.write_deltalake(folder, ROWS, mode="append")
    first, second = sorted((folder / "_delta_log").glob("*.json"))
    (path,) = (json.loads(line)["add"]["path"] for line in first.read_text().splitlines() if '"add"' in line)
    (folder / "x").mkdir()
    change(second, lambda action: action["add"].update(path=f"x/../{path}") if "add" in action else None)
    refused(db, folder, "two of the paths lead to one file")


@pytest.mark.parametrize(
    "places", [[], [0], [7, 65_535, 65_536, 199_999], range(200_000), range(0, 200_000, 3), [*range(5000), 150_000]]
)
@pytest.mark.parametrize("runs", [True, False])
def test_all_kinds_of_blocks_are_decoded(places, runs):
    """Lists, bits and runs, as another package writes them; damage changes nothing else than into an error."""
    roaring = pytest.importorskip("pyroaring")
    whole = roaring.BitMap(places)
    if runs:
        whole.run_optimize()
    data = struct.pack("<IqI", 1681511377, 1, 0) + whole.serialize()
    assert decoded(data, 200_000).tolist() == list(places)
    if len(places):
        with pytest.raises(ValueError, match="above the rows"):
            decoded(data, max(places))
    with pytest.raises(ValueError, match="ends too early"):
        decoded(data[:-1], 200_000)
