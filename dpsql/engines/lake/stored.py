"""Whole small files of a lake table's own: its log, metadata, manifests and deleted rows, from the disk or a bucket.

DuckDB reads those of a bucket, by its secrets, so no other package is given a key. The log of a Delta table is copied
into a folder of its own while the table is registered, because deltalake reads folders:

    checkpoint of the newest version that has one  ‖  commits after it  ‖  deletion vectors of the files
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import Any, Final

import duckdb

from dpsql.engines.lake.addresses import checked_pattern, fault_of, is_in_bucket, store_of, without_keys
from dpsql.engines.lake.bucket import listed, whole_files
from dpsql.engines.lake.snapshot import local
from dpsql.errors import InvalidArgument

_OF_LOG: Final = re.compile(r"(?P<version>\d{20})\.(json|checkpoint\.(?P<part>[0-9a-f.-]*)(parquet|json))")
_PARTS: Final = re.compile(r"\d{10}\.(?P<parts>\d{10})\.")
IO: Final = f"{__name__}.HostIO"
"""What a setting of pyiceberg calls `HostIO`."""
_reader: ContextVar[duckdb.DuckDBPyConnection] = ContextVar("reader")


def checked_address(relation: str) -> str:
    """The address of a table in a bucket, without a slash at its end.

    Raises:
        InvalidArgument: it is none, or leads elsewhere.
    """
    address = checked_pattern(relation.removesuffix("/"))
    if fault_of(address) is not None:
        raise InvalidArgument(
            f"relation is {without_keys(address)!r}: the name of a table has no ?, * or [, by which DuckDB may read "
            "other files"
        )
    return address


def read_whole(cursor: duckdb.DuckDBPyConnection, path: str) -> bytes:
    """A file.

    Raises:
        BucketRefused: the bucket does not give it.
        NotParquet: it has a name by which another file may be read.
        OSError: the disk does not give it.
    """
    return whole_files(cursor, [path])[path] if is_in_bucket(path) else Path(path).read_bytes()


def copy_log(cursor: duckdb.DuckDBPyConnection, address: str, folder: Path, version: int | None) -> None:
    """Copy what of a Delta table's log is needed to know a version of it, by default the newest.

    Args:
        cursor: of the host.
        address: of the table, in a bucket.
        folder: into which it is copied.
        version: of the table.

    Raises:
        BucketRefused: the bucket does not give it.
        NotParquet: one has a name by which another file may be read.
    """
    log = f"{address}/_delta_log"
    names = [path.rpartition("/")[2] for path in listed(cursor, f"{log}/*")]
    chosen = chosen_names(names, version)
    if any("checkpoint" in name for name in chosen):  # each may have others, by whatever name
        others = listed(cursor, f"{log}/_sidecars/*")
        chosen += [f"_sidecars/{path.rpartition('/')[2]}" for path in others if path.endswith(".parquet")]
    copy(cursor, log, folder / "_delta_log", chosen)


def copy(cursor: duckdb.DuckDBPyConnection, address: str, folder: Path, names: Sequence[str]) -> None:
    """Copy files below an address into a folder."""
    for path, body in whole_files(cursor, [f"{address}/{name}" for name in names]).items():
        target = folder / path.removeprefix(f"{address}/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(body)


def chosen_names(names: Sequence[str], version: int | None) -> list[str]:
    """Of the names in a log those from the newest whole checkpoint on, up to a version.

    >>> zeros = "0" * 19
    >>> chosen_names([f"{zeros}{n}.json" for n in (1, 2, 3)] + [f"{zeros}1.checkpoint.parquet", "_last_checkpoint"], 2)
    ['00000000000000000001.json', '00000000000000000002.json', '00000000000000000001.checkpoint.parquet']
    """
    matches = [(name, match) for name in names if (match := _OF_LOG.fullmatch(name))]
    matches = [(name, match) for name, match in matches if version is None or int(match["version"]) <= version]
    parts: dict[tuple[int, int], int] = {}
    for _, match in matches:
        if match["part"] is not None:
            several = _PARTS.fullmatch(match["part"])
            key = (int(match["version"]), int(several["parts"]) if several else 1)
            parts[key] = parts.get(key, 0) + 1
    first = max((number for (number, wanted), there in parts.items() if there >= wanted), default=0)
    return [name for name, match in matches if int(match["version"]) >= first]


class HostIO:
    """What pyiceberg opens files with: DuckDB reads those of buckets; nothing is written."""

    def __init__(self, properties: Any = None) -> None:  # pyiceberg gives its settings, of which none is needed
        self._cursor, self._lock = _reader.get(), Lock()
        self._home: str | None = None

    def new_input(self, location: str) -> _Input:
        """A file that is there."""
        return _Input(self, location)

    def read(self, location: str) -> bytes:
        """All of a file; several threads may ask."""
        with self._lock:
            return read_whole(self._cursor, self.here(location))

    def keep_to(self, home: str) -> None:
        """Open files of one bucket from now on, or of this machine's disk, where the table is.

        Raises:
            InvalidArgument: it is neither of this machine nor of a bucket that is read.
        """
        self._home = here(home)

    def here(self, location: str) -> str:
        """The name by which DuckDB opens a file.

        Raises:
            InvalidArgument: it is elsewhere than the table.
        """
        path = here(location)
        if self._home is not None and store_of(path) != store_of(self._home):
            raise InvalidArgument(
                "the Iceberg table names a file that is not in its own bucket, or not on the disk as the table is: "
                "register a table whose files are all where its location is"
            )
        return path


class _Input:
    """A file as pyiceberg opens it."""

    def __init__(self, host: HostIO, location: str) -> None:
        self._host, self.location = host, location

    def open(self, **_: Any) -> BytesIO:
        """All of it; pyiceberg says whether it will move in it."""
        return BytesIO(self._host.read(self.location))


def here(location: str) -> str:
    """The name by which DuckDB opens a file of an Iceberg table.

    Raises:
        InvalidArgument: it is neither of this machine nor of a bucket that is read.
    """
    return location if is_in_bucket(location) else local(location, "the Iceberg table")


@contextmanager
def host_io(cursor: duckdb.DuckDBPyConnection) -> Iterator[HostIO]:
    """What reads an Iceberg table's own files; while inside, pyiceberg may make others of its kind."""
    token = _reader.set(cursor)
    try:
        yield HostIO()
    finally:
        _reader.reset(token)
