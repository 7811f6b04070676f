"""What every kind of lake table registers alike: its files as they are now, and a digest of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import duckdb

from dpsql.engines.external import Registered
from dpsql.engines.lake.addresses import fault_of, is_in_bucket
from dpsql.engines.lake.bucket import changed_there, pinned_there
from dpsql.engines.lake.files import is_same, pinned
from dpsql.engines.lake.identity import check_once, table_in
from dpsql.engines.lake.rows import DELETED, Reading
from dpsql.engines.place import PinnedFile
from dpsql.errors import InvalidArgument

Constants = Mapping[str, str | None]
"""Texts of the columns that are the same in all rows of a file, by name; None for NULL."""
_NOT_HERE: Final = "dpsql reads files of this machine: mount the bucket, or copy the snapshot"
_BY_SECRET: Final = (
    "an object has one address, so say s3://bucket/key, after CREATE SECRET (TYPE s3, ENDPOINT '…', URL_STYLE 'path')"
)


def digest_of(files: Iterable[PinnedFile]) -> str:
    """SHA-256 of the sizes, footers and deleted rows of files, in order, without names, because a lake may move."""
    whole = hashlib.sha256()
    for file in files:
        whole.update(f"{file.size} {file.footer}\n".encode())
        if deleted := json.loads(file.constants).get(DELETED):
            whole.update(f"{deleted}\n".encode())
    return whole.hexdigest()


def local(address: str, what: str) -> str:
    """The path of a file of this machine, from its address, of which Spark writes one with a single slash.

    >>> local("file:///lake/0.parquet", "the table"), local("file:/lake/0.parquet", "the table")
    ('/lake/0.parquet', '/lake/0.parquet')

    Raises:
        InvalidArgument: it is elsewhere.
    """
    path = address.removeprefix("file://")
    path = path.removeprefix("file:") if path.startswith("file:/") else path
    if "://" in path:
        kind = path.partition("://")[0]
        kind = kind if kind.isalnum() else "…"  # it may be behind a key
        raise InvalidArgument(
            f"{what} has files at {kind}://…: {_BY_SECRET if kind in ('http', 'https') else _NOT_HERE}"
        )
    return path


def changed(cursor: duckdb.DuckDBPyConnection, files: Sequence[PinnedFile]) -> bool:
    """Whether a file is not what was pinned.

    Args:
        cursor: of the host, which reads those of buckets.
        files: as they were pinned.

    Raises:
        DpsqlError: a bucket does not let them be looked at.
    """
    if any(fault_of(file.path) for file in files):  # of an earlier dpsql; dp_source names them
        return True
    there = [file for file in files if is_in_bucket(file.path)]
    here = (file for file in files if not is_in_bucket(file.path))
    return not all(map(is_same, here)) or changed_there(cursor, there)


def _pinned(cursor: duckdb.DuckDBPyConnection, files: Mapping[str, Constants]) -> list[PinnedFile]:
    """Files as they are now, in order."""
    texts = {path: json.dumps(dict(values), sort_keys=True) for path, values in files.items()}
    there = pinned_there(cursor, {path: text for path, text in texts.items() if is_in_bucket(path)})
    by_path = {file.path: file for file in there}
    return [by_path[path] if path in by_path else pinned(path, text) for path, text in texts.items()]


def registered(
    cursor: duckdb.DuckDBPyConnection,
    reading: Reading,
    files: Mapping[str, Constants],
    *,
    address: str,
    relation: Mapping[str, Any],
    identity: tuple[str, ...],
    public: str,
    version: int | None = None,
    folder: str | None = None,
) -> Registered:
    """What is stored of a snapshot.

    Args:
        cursor: of the host.
        reading: how its files are read.
        files: their paths, in order, each with its constants.
        address: what tells the table from all others.
        relation: the arguments that say what it is.
        identity: the column to sample by; empty for rows.
        public: the pin in words.
        version: of the snapshot, where its table counts or names them.
        folder: into which its table writes files.

    Raises:
        InvalidArgument: there is no such column to sample by, or two files are the same.
        NotParquet: a file cannot be read.
    """
    _check_identity(reading, identity)
    check_once(list(files), "files" if "files" in relation else "relation")
    pinned = _pinned(cursor, files)
    names = [column.name for column in reading.columns]
    pin = {
        **replace(reading, empty=not files).pinned(),
        "columns": names,
        "digest": digest_of(pinned),
        "snapshot": version,
        "holds": [] if folder is None else [table_in(folder)],
    }
    return Registered(reading.columns, address, relation, pin, identity, pinned, public)


def _check_identity(reading: Reading, identity: tuple[str, ...]) -> None:
    """Refuse more than one column to sample by, and one that is not there."""
    names = [column.name for column in reading.columns]
    if len(identity) > 1 or any(name not in names for name in identity):
        raise InvalidArgument(
            f"identity is {list(identity)}: give one column, by whose values a sample is drawn; there are "
            f"{', '.join(names)}. Without identity a sample is drawn by what its rows hold"
        )
