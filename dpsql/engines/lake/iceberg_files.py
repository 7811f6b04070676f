"""The files of a snapshot of Iceberg, from its manifests, and which of their rows it no longer has.

    row p of data file f is deleted  ⇔  a delete file lists (f, p), and is as new as f or newer

Such lists are Parquet files with a path and a place in each row, or deletion vectors of version 3. They are read once,
when the snapshot is pinned, and kept in the books. An equality delete names values instead of places, and who applies
it compares every row. So a snapshot in which one may delete something is refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import duckdb
import numpy as np

from dpsql.engines.external import driver
from dpsql.engines.lake.deleted import bits, lengths
from dpsql.engines.lake.iceberg_deletes import MENDED, File, Places, of_file, of_vector
from dpsql.engines.lake.identity import one_spelling
from dpsql.engines.lake.refusals import in_words
from dpsql.engines.lake.stored import here
from dpsql.errors import InvalidArgument

_EQUALITY: Final = 2  # 0 is data, 1 is places
_REMOVED: Final = 2
_OF_VECTOR: Final = ("referenced_data_file", "content_offset", "content_size_in_bytes")


def files_of_snapshot(cursor: duckdb.DuckDBPyConnection, table: Any, snapshot: int) -> dict[str, str | None]:
    """The data files of a snapshot in order, as DuckDB calls them, each with its deleted rows; see `deleted.bits`.

    Args:
        cursor: of the host, which reads delete files and how many rows a data file has.
        table: of pyiceberg.
        snapshot: of it.

    Raises:
        InvalidArgument: which rows are deleted is not certain, or a file is not Parquet.
    """
    with in_words("the manifests of the snapshot cannot be read: restore them, or install a newer pyiceberg"):
        entries = _entries(table, snapshot)
    data = {one_spelling(table.io.here(file.path)): file for file in entries if file.content == 0}
    if len(data) < sum(file.content == 0 for file in entries):
        raise InvalidArgument(f"the snapshot has a file twice: {MENDED}")
    if any(file.format != "PARQUET" for file in data.values()):
        raise InvalidArgument("the snapshot has files of another format than Parquet: rewrite them as Parquet")
    deletes = [file for file in entries if file.content]
    _check_equality([file for file in deletes if file.content == _EQUALITY], data.values())
    places = _places(cursor, table, [file for file in deletes if file.content != _EQUALITY], data)
    names = {path: table.io.here(file.path) for path, file in data.items()}
    rows = lengths(cursor, [names[path] for path in places]) if places else {}
    for path, deleted in places.items():
        if deleted[0] < 0 or deleted[-1] >= rows.get(names[path], 0):
            raise InvalidArgument(f"a delete file deletes rows that its data file does not have: {MENDED}")
    return {
        name: bits(places[path], rows[name]) if path in places else None
        for path, name in sorted(names.items(), key=lambda pair: pair[1])
    }


def _entries(table: Any, snapshot: int) -> list[File]:
    """What the manifests of a snapshot list, without what they say was removed."""
    listed = []
    for manifest in table.snapshot_by_id(snapshot).manifests(table.io):
        entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
        vectors = _vectors(table, manifest) if int(manifest.content) else [(None, None, None)] * len(entries)
        for entry, vector in zip(entries, vectors, strict=True):
            file = entry.data_file
            if int(entry.status) == _REMOVED:
                continue
            number, form = entry.sequence_number or 0, getattr(file.file_format, "value", file.file_format)
            values = tuple(_equal(file.partition[place]) for place in range(len(file.partition)))
            partition = (int(manifest.partition_spec_id), values)
            fields = (file.file_path, number, int(file.content), str(form).upper(), file.record_count, partition)
            listed.append(File(*fields, *vector))
    return listed


def _vectors(table: Any, manifest: Any) -> list[tuple[Any, ...]]:
    """Of each entry of a manifest the data file of its vector, and where the vector is; pyiceberg leaves that out."""
    parts = driver("pyiceberg.manifest", "iceberg", "lake")
    if 3 not in parts.MANIFEST_ENTRY_SCHEMAS:
        raise InvalidArgument("the snapshot has delete files, which this pyiceberg cannot read: install a newer one")
    kinds = {-1: parts.ManifestEntry, 2: parts.DataFile}
    names = [field.name for field in parts.DATA_FILE_TYPE[3].fields]
    places = [names.index(name) for name in _OF_VECTOR]
    opened = driver("pyiceberg.avro.file", "iceberg", "lake").AvroFile(
        table.io.new_input(manifest.manifest_path), parts.MANIFEST_ENTRY_SCHEMAS[3], read_types=kinds
    )
    with opened as entries:
        return [tuple(entry.data_file[place] for place in places) for entry in entries]


def _equal(value: Any) -> Any:
    """A value of a partition; NaN is equal to itself."""
    return "NaN" if isinstance(value, float) and value != value else value


def _check_equality(deletes: Iterable[File], data: Iterable[File]) -> None:
    """Refuse equality deletes that may delete a row: those newer than a file, of its partition or of no partition."""
    least: dict[object, int] = {}
    for file in data:
        for of in (None, file.partition):
            least[of] = min(file.newness, least.get(of, file.newness))
    for delete in deletes:
        everywhere = all(value is None for value in delete.partition[1])
        of = None if everywhere else delete.partition
        if of in least and least[of] < delete.newness:
            raise InvalidArgument(
                "the snapshot has equality deletes, as Flink writes them, so its data files hold deleted rows and no "
                f"list of them: {MENDED}; or leave the rows there, engine := 'spark'"
            )


def _places(
    cursor: duckdb.DuckDBPyConnection,
    table: Any,
    deletes: Iterable[File],
    data: Mapping[str, File],
) -> dict[str, Places]:
    """The places of deleted rows of each data file that has some, in order."""
    places_by_path: dict[str, list[Places]] = defaultdict(list)
    ends, folder = {path.rpartition("/")[2] for path in data}, f"{one_spelling(here(table.location())).rstrip('/')}/"
    oldest = min((file.newness for file in data.values()), default=0)
    live = [file for file in deletes if data and file.newness >= oldest]  # others are of files that are gone
    vectors = [file for file in live if file.format == "PUFFIN"]
    if any(None in (file.of, file.offset, file.length) for file in vectors):
        raise InvalidArgument(f"a manifest does not say where a deletion vector is, or of which file: {MENDED}")
    named = [(_normal(str(file.of)), file) for file in vectors]
    meant = {path for path, _ in named if _is_there(path, data, ends, folder)}
    addresses = {path: table.io.here(data[path].path) for path in meant}
    rows = lengths(cursor, sorted(addresses.values())) if addresses else {}
    for path, delete in named:
        if path in meant and data[path].newness <= delete.newness:
            places_by_path[path].append(of_vector(table.io, delete, rows.get(addresses[path], 0)))
    for delete in live:
        if delete.format == "PUFFIN" or (delete.of and not _is_there(_normal(delete.of), data, ends, folder)):
            continue
        for address, places in of_file(cursor, table.io, delete).items():
            path = _normal(address)
            if _is_there(path, data, ends, folder) and data[path].newness <= delete.newness:
                places_by_path[path].append(places)
    return {path: np.unique(np.concatenate(places)) for path, places in places_by_path.items() if sum(map(len, places))}


def _is_there(path: str, data: Mapping[str, File], ends: Collection[str], folder: str) -> bool:
    """Whether a list is of a data file of the snapshot, and not of one that is gone.

    Raises:
        InvalidArgument: it is of a file of that name elsewhere, as before a table was moved.
    """
    if path not in data and path.rpartition("/")[2] in ends and not path.startswith(folder):
        raise InvalidArgument(f"a delete file names a data file by another address: {MENDED}")
    return path in data


def _normal(address: str) -> str:
    """What an address shares with others of its file; itself, where it leads to no file that is read."""
    try:
        return one_spelling(here(address))
    except InvalidArgument:
        return address
