"""Delete files for Iceberg tables, as other writers leave them (merge on read): places, deletion vectors, equality.

No package that the tests use writes one, so manifest and snapshot are made of pyiceberg's parts, and committed by it.
"""

from __future__ import annotations

import json
import struct
import time
import uuid
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.manifest import (
    MANIFEST_ENTRY_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
from pyiceberg.typedef import Record

CAN_WRITE = hasattr(DataFile, "from_args") and 3 in MANIFEST_ENTRY_SCHEMAS
"""Whether this pyiceberg has the parts."""


class _OfDeletes(ManifestWriterV2):
    """Of version 3, of which pyiceberg writes none."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def version(self) -> Any:
        return 3

    def new_writer(self) -> AvroOutputFile:
        schema = self._with_partition(self.version)
        return AvroOutputFile(self._output_file, schema, "manifest_entry", schema, self._meta)

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def paths_of(table: Any) -> list[str]:
    """The data files of the newest snapshot, oldest first."""
    found = []
    for manifest in table.current_snapshot().manifests(table.io):
        if manifest.content == ManifestContent.DATA:
            found += manifest.fetch_manifest_entry(table.io)
    return [entry.data_file.file_path for entry in sorted(found, key=lambda entry: entry.sequence_number)]


def add_file(table: Any, path: str, rows: int, partition: Record | None = None) -> None:
    """Let the manifests list one data file more."""
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=partition or Record(),
        record_count=rows,
        file_size_in_bytes=1000,
        **{of: {} for of in ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")},
        lower_bounds={},
        upper_bounds={},
    )
    with table.transaction() as change, change.update_snapshot().fast_append() as append:
        append.append_data_file(file)


def delete_places(table: Any, places: Mapping[str, Sequence[int]], **wrong: Any) -> None:
    """Delete rows by a file of paths and places, in a new snapshot."""
    rows = [(path, place) for path, listed in places.items() for place in sorted(listed)]
    text = pa.field("file_path", pa.string(), metadata={"PARQUET:field_id": "2147483546"})
    number = pa.field("pos", pa.int64(), metadata={"PARQUET:field_id": "2147483545"})
    whole = pa.table([[path for path, _ in rows], [place for _, place in rows]], pa.schema([text, number]))
    said: dict[str, Any] = {"record_count": len(rows)} | wrong
    _commit(table, _parquet(table, whole), "parquet", DataFileContent.POSITION_DELETES, **said)


def delete_by_vector(table: Any, places: Mapping[str, Sequence[int]], left: Sequence[str] = (), **wrong: Any) -> None:
    """Delete rows by deletion vectors of version 3 in one file, in a new snapshot.

    Args:
        table: of which.
        places: of rows, by data file.
        left: data files of which the vector is in the file, but in no manifest any more.
        wrong: what each entry says otherwise; `key` is of the bitmap.
    """
    from pyroaring import BitMap

    whole, entries, key = b"PFA1", [], wrong.pop("key", 0)
    for path, listed in places.items():
        data = b"\xd1\xd3\x39\x64" + struct.pack("<qI", 1, key) + BitMap(listed).serialize()
        blob = struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))
        entries.append(
            {"referenced_data_file": path, "content_offset": len(whole), "content_size_in_bytes": len(blob)}
            | {"record_count": len(listed)}
        )
        whole += blob
    blobs = [
        {"type": "deletion-vector-v1", "fields": [], "snapshot-id": -1, "sequence-number": -1}
        | {"offset": entry["content_offset"], "length": entry["content_size_in_bytes"]}
        | {"properties": {"referenced-data-file": path, "cardinality": str(entry["record_count"])}}
        for path, entry in zip(places, entries, strict=True)
    ]
    footer = json.dumps({"blobs": blobs}).encode()
    whole += b"PFA1" + footer + struct.pack("<ii", len(footer), 0) + b"PFA1"
    address = f"{table.location()}/data/{uuid.uuid4()}.puffin"
    with table.io.new_output(address).create() as file:
        file.write(whole)
    kept = [entry for entry in entries if entry["referenced_data_file"] not in left]
    _commit(table, address, "puffin", DataFileContent.POSITION_DELETES, *kept, **wrong)


def delete_equal(table: Any, name: str, values: pa.Array, **wrong: Any) -> None:
    """Delete rows by the values of a column, in a new snapshot."""
    number = table.schema().find_field(name).field_id
    field = pa.field(name, values.type, metadata={"PARQUET:field_id": str(number)})
    path = _parquet(table, pa.table([values], pa.schema([field])))
    said: dict[str, Any] = {"record_count": len(values), "equality_ids": [number]} | wrong
    _commit(table, path, "parquet", DataFileContent.EQUALITY_DELETES, **said)


def _parquet(table: Any, rows: pa.Table) -> str:
    path = f"{table.location()}/data/{uuid.uuid4()}-deletes.parquet"
    with table.io.new_output(path).create() as file:
        pq.write_table(rows, file)
    return path


def _commit(
    table: Any, path: str, kind: str, content: DataFileContent, *entries: Mapping[str, Any], **said: Any
) -> None:
    """A snapshot with one delete file more, which has an entry for each vector; `said` is what all of them say."""
    number = time.time_ns() % 2**62
    before, io = table.current_snapshot(), table.io
    files = [
        DataFile.from_args(
            _table_format_version=3,
            **{"content": content, "file_path": path, "file_format": FileFormat(kind.upper()), "partition": Record()}
            | {"file_size_in_bytes": len(io.new_input(path)), **entry, **said},
        )
        for entry in entries or [{}]
    ]
    output = io.new_output(f"{table.location()}/metadata/{uuid.uuid4()}-m0.avro")
    with _OfDeletes(table.spec(), table.schema(), output, number, "deflate") as manifest:
        for file in files:
            entry = {"status": ManifestEntryStatus.ADDED, "snapshot_id": number, "data_file": file}
            manifest.add(ManifestEntry.from_args(_table_format_version=3, **entry))
    newness = table.metadata.last_sequence_number + 1
    listed = f"{table.location()}/metadata/snap-{number}.avro"
    with write_manifest_list(2, io.new_output(listed), number, before.snapshot_id, newness, "deflate") as writer:
        writer.add_manifests([*before.manifests(io), manifest.to_manifest_file()])
    snapshot = Snapshot(
        snapshot_id=number,
        parent_snapshot_id=before.snapshot_id,
        sequence_number=newness,
        timestamp_ms=time.time_ns() // 10**6,
        manifest_list=listed,
        summary=Summary(Operation.DELETE),
        schema_id=table.schema().schema_id,
    )
    moved = SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=number)
    with table.transaction() as transaction:
        transaction._apply((AddSnapshotUpdate(snapshot=snapshot), moved))
    table.refresh()
