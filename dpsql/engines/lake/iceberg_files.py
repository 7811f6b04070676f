"""The files of a snapshot of Iceberg, from its manifests, and which of their rows it no longer has.

    row p of data file f is deleted  ⇔  a delete file lists (f, p), and is as new as f or newer

Such lists are Parquet files with a path and a place in each row, or deletion vectors of version 3. They are read once,
when the snapshot is pinned, and kept in the books. An equality delete names values instead of places, and who applies
it compares every row. So a snapshot in which one may delete something is refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import numpy as np
import numpy.typing as npt

from dpsql.engines.external import driver
from dpsql.engines.lake.addresses import check_paths
from dpsql.engines.lake.deleted import bits, lengths
from dpsql.engines.lake.identity import normal
from dpsql.engines.lake.refusals import refusal_of
from dpsql.engines.lake.stored import here
from dpsql.errors import DpsqlError, InvalidArgument

_Places = npt.NDArray[np.int64]
_EQUALITY: Final = 2  # 0 is data, 1 is places
_MENDED: Final = (
    "rewrite its data files, as by CALL system.rewrite_data_files(table => …, options => map('rewrite-all', 'true')) "
    "in Spark, and register the table again"
)


@dataclass(frozen=True)
class _File:
    """An entry of a manifest: the file, how new it is, what it holds, and where its rows belong."""

    path: str
    newness: int
    content: int
    format: str
    rows: int
    partition: tuple[int, tuple[Any, ...]]


def files_of_snapshot(cursor: duckdb.DuckDBPyConnection, table: Any, snapshot: int) -> dict[str, str | None]:
    """The data files of a snapshot in order, as DuckDB calls them, each with its deleted rows; see `deleted.bits`.

    Args:
        cursor: of the host, which reads delete files and how many rows a data file has.
        table: of pyiceberg.
        snapshot: of it.

    Raises:
        InvalidArgument: which rows are deleted is not certain, or a file is not Parquet.
    """
    try:
        entries = _entries(table, snapshot)
    except DpsqlError:
        raise
    except Exception:  # of pyiceberg's own, and of the disk; they quote paths
        raise InvalidArgument(
            "the manifests of the snapshot cannot be read: restore them, or install a newer pyiceberg"
        ) from None
    data = {normal(table.io.here(file.path)): file for file in entries if file.content == 0}
    if len(data) < sum(file.content == 0 for file in entries):
        raise InvalidArgument(f"the snapshot has a file twice: {_MENDED}")
    if any(file.format != "PARQUET" for file in data.values()):
        raise InvalidArgument("the snapshot has files of another format than Parquet: rewrite them as Parquet")
    deletes = [file for file in entries if file.content]
    _check_equality([file for file in deletes if file.content == _EQUALITY], data.values())
    places = _places(cursor, table, [file for file in deletes if file.content != _EQUALITY], data)
    names = {path: table.io.here(file.path) for path, file in data.items()}
    rows = lengths(cursor, [names[path] for path in places]) if places else {}
    for path, deleted in places.items():
        if deleted[0] < 0 or deleted[-1] >= rows.get(names[path], 0):
            raise InvalidArgument(f"a delete file deletes rows that its data file does not have: {_MENDED}")
    return {
        name: bits(places[path], rows[name]) if path in places else None
        for path, name in sorted(names.items(), key=lambda pair: pair[1])
    }


def _entries(table: Any, snapshot: int) -> list[_File]:
    """What the manifests of a snapshot list, without what they say was removed."""
    found = []
    for manifest in table.snapshot_by_id(snapshot).manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            file = entry.data_file
            number, form = entry.sequence_number or 0, getattr(file.file_format, "value", file.file_format)
            values = tuple(file.partition[place] for place in range(len(file.partition)))
            partition = (int(manifest.partition_spec_id), values)
            found.append(
                _File(file.file_path, number, int(file.content), str(form).upper(), file.record_count, partition)
            )
    return found


def _check_equality(deletes: Iterable[_File], data: Iterable[_File]) -> None:
    """Refuse equality deletes that may delete a row: those newer than a file, of its partition or of no partition."""
    known = list(data)
    for delete in deletes:
        everywhere = all(value is None for value in delete.partition[1])
        if any(f.newness < delete.newness and (everywhere or f.partition == delete.partition) for f in known):
            raise InvalidArgument(
                "the snapshot has equality deletes, as Flink writes them, so its data files hold deleted rows and no "
                f"list of them: {_MENDED}; or leave the rows there, engine := 'spark'"
            )


def _places(
    cursor: duckdb.DuckDBPyConnection,
    table: Any,
    deletes: Sequence[_File],
    data: Mapping[str, _File],
) -> dict[str, _Places]:
    """The places of deleted rows of each data file that has some, in order."""
    found: dict[str, list[_Places]] = defaultdict(list)
    ends, folder = {path.rpartition("/")[2] for path in data}, normal(here(table.location()))
    vectors = {file.path: file for file in deletes if file.format == "PUFFIN"}
    stated = sum(file.rows for file in deletes if file.format == "PUFFIN")
    for delete in (*vectors.values(), *(file for file in deletes if file.format != "PUFFIN")):
        listed = _of_vectors(table, delete.path) if delete.path in vectors else _of_file(cursor, table, delete)
        for address, places in listed.items():
            path = _normal(address)
            if path not in data:  # a file that is gone, or one by an address of before the table was moved
                if path.rpartition("/")[2] in ends and not path.startswith(f"{folder.rstrip('/')}/"):
                    raise InvalidArgument(f"a delete file names a data file by another address: {_MENDED}")
            elif data[path].newness <= delete.newness:
                found[path].append(places)
                stated -= len(places) if delete.path in vectors else 0
    if stated:
        raise InvalidArgument(f"a deletion vector deletes another number of rows than its manifest says: {_MENDED}")
    return {path: np.unique(np.concatenate(places)) for path, places in found.items() if sum(map(len, places))}


def _normal(address: str) -> str:
    """What an address shares with others of its file; itself, where it leads to no file that is read."""
    try:
        return normal(here(address))
    except InvalidArgument:
        return address


def _of_file(cursor: duckdb.DuckDBPyConnection, table: Any, delete: _File) -> dict[str, _Places]:
    """The rows that a file of paths and places lists, by data file.

    Raises:
        InvalidArgument: it cannot be read, or lists another number of them than its manifest says.
    """
    listed: dict[str, Any] = {}
    if delete.format == "PARQUET":
        sql = "SELECT file_path, list(pos ORDER BY pos) FROM read_parquet(?, hive_partitioning := false) GROUP BY ALL"
        path = table.io.here(delete.path)
        check_paths([path])
        try:
            listed = dict(cursor.execute(sql, [[path]]).fetchall())
        except duckdb.InterruptException:
            raise
        except duckdb.Error as error:
            if (refused := refusal_of(error, [path])) is not None:
                raise refused from None
    if None in listed or sum(map(len, listed.values())) != delete.rows:
        raise InvalidArgument(
            f"a delete file of the snapshot cannot be read, or is not what its manifest says: {_MENDED}"
        )
    return {path: np.array(places, dtype=np.int64) for path, places in listed.items()}


def _of_vectors(table: Any, path: str) -> dict[str, _Places]:
    """The rows that the deletion vectors of a file list, by data file.

    Raises:
        InvalidArgument: they cannot be read.
    """
    puffin = driver("pyiceberg.table.puffin", "iceberg", "lake")
    try:
        with table.io.new_input(path).open() as stream:
            whole = puffin.PuffinFile(stream.read())
        try:
            vectors = driver("pyiceberg.table.deletion_vector", "iceberg", "lake")
        except DpsqlError:  # before 0.12
            return {name: _numbers(found) for name, found in whole.to_vector().items()}
        decoded = vectors.deletion_vectors_from_puffin_file(whole)
        return {vector.referenced_data_file: _numbers(vector.to_vector()) for vector in decoded}
    except DpsqlError:
        raise
    except Exception:  # of pyiceberg's own; they quote paths
        raise InvalidArgument(f"a deletion vector of the snapshot cannot be read: {_MENDED}") from None


def _numbers(found: Any) -> _Places:
    return np.asarray(found.to_numpy(), dtype=np.int64)
