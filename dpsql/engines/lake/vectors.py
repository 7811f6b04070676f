"""Deletion vectors of Delta: which rows of a file its table no longer has. They are read once, and kept in the books.

    file  →  the places of its rows that are deleted

The newest `add` of each file is in the newest checkpoint or in a commit after it. Its vector is decoded here, and only
then by `deltalake`, which takes a byte for each place up to the last one. Both must agree. As many rows are deleted as
the log says, and each is one that the file has. What counts at a pin is what was decoded when the version was pinned.
A vector that is replaced later, or that goes, changes no count.
"""

from __future__ import annotations

import json
import os
from base64 import b85decode
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit
from uuid import UUID

import duckdb
import numpy as np
import numpy.typing as npt

from dpsql.engines.external import driver
from dpsql.engines.lake.deleted import bits, lengths
from dpsql.engines.lake.refusals import in_words
from dpsql.engines.lake.roaring import FRAME, decoded, unframed
from dpsql.engines.lake.snapshot import local
from dpsql.engines.lake.stored import chosen_names
from dpsql.errors import InvalidArgument

_MENDED: Final = "say REORG TABLE … APPLY (PURGE) in the engine that writes it, and register the table again"
_LOG: Final = "the log of the Delta table cannot be read"
_UNREAD: Final = "a deletion vector of the Delta table cannot be read, or deletes rows that its file does not have"
_OF_UUID: Final = 20
"""Digits of a UUID in Z85."""
_OF_PYTHON: Final = str.maketrans(
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#",
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~",
)
"""Digits of Z85, of which the language has no reader before 3.13, to those that it reads."""


def deleted_rows(
    cursor: duckdb.DuckDBPyConnection,
    table: Any,
    folder: Path,
    paths: Mapping[str, str],
    fetch: Callable[[list[str]], None] | None = None,
) -> dict[str, str]:
    """The deleted rows of each file that has some, by the name that DuckDB opens; see `deleted.bits`.

    Args:
        cursor: of the host, which reads how many rows a file has.
        table: of deltalake, at a version.
        folder: where deltalake reads it.
        paths: of the files of the version in that folder, each with the name by which DuckDB opens it.
        fetch: brings files of vectors into the folder, where they are elsewhere.

    Raises:
        InvalidArgument: a vector cannot be read, or is not what the log and the file say.
    """
    with in_words(f"{_LOG}: {_MENDED}"):
        stated = _stated(cursor, table.version(), folder, paths, may_be_elsewhere=fetch is None)
        files = {path: _file_of(vector, folder) for path, vector in stated.items()}
    if fetch is not None:
        fetch(sorted({str(file.relative_to(folder)) for file in files.values() if file is not None}))
    rows = lengths(cursor, [paths[path] for path in stated]) if stated else {}
    with in_words(f"{_UNREAD}: {_MENDED}"):
        places = {path: decoded(_bytes_of(stated[path], files[path]), rows[paths[path]]) for path in stated}
    for path, deleted in places.items():
        if len(deleted) != stated[path]["cardinality"]:
            raise InvalidArgument(
                f"a deletion vector of the Delta table deletes another number of rows than its log says: {_MENDED}"
            )
    real = {os.path.realpath(path): path for path in paths}
    theirs = {real.get(os.path.realpath(path), ""): deleted for path, deleted in _by_deltalake(table).items()}
    if theirs.keys() != places.keys() or any(not np.array_equal(theirs[path], places[path]) for path in places):
        raise InvalidArgument(f"deltalake reads other deletion vectors than the log of the Delta table has: {_MENDED}")
    return {paths[path]: bits(deleted, rows[paths[path]]) for path, deleted in places.items() if len(deleted)}


def _checked(vector: Any, *, may_be_elsewhere: bool) -> Mapping[str, Any] | None:
    """What a log says of a vector; None where a file has none.

    Raises:
        InvalidArgument: it is at an address of its own, which could be of any server: deltalake would ask there.
        TypeError: it is not what a log has.
    """
    if vector is None or all(value is None for value in vector.values()):
        return None
    text, kind, count = vector["pathOrInlineDv"], vector["storageType"], vector["cardinality"]
    if not isinstance(text, str) or type(count) is not int or type(vector.get("offset") or 0) is not int:
        raise TypeError("a vector of other types")
    prefix = text[:-_OF_UUID] if kind == "u" else ""
    is_here = kind == "p" and may_be_elsewhere and text.startswith("file:/")
    if not (kind in ("u", "i") or is_here) or not (prefix + "0").isalnum():
        raise InvalidArgument(f"a deletion vector of the Delta table is at an address of its own: {_MENDED}")
    return {"kind": kind, "text": text, "cardinality": count, "offset": vector.get("offset") or 0}


def _file_of(vector: Mapping[str, Any], folder: Path) -> Path | None:
    """The file that has a vector; None where the log has it."""
    if vector["kind"] == "i":
        return None
    if vector["kind"] == "p":
        return Path(unquote(local(vector["text"], "the table")))
    text: str = vector["text"][-_OF_UUID:]
    prefix: str = vector["text"][:-_OF_UUID]
    return folder / prefix / f"deletion_vector_{UUID(bytes=b85decode(text.translate(_OF_PYTHON)))}.bin"


def _bytes_of(vector: Mapping[str, Any], file: Path | None) -> bytes:
    """A vector: the length, it, and a checksum are in its file."""
    if file is None:
        return b85decode(vector["text"].translate(_OF_PYTHON))
    with file.open("rb") as stream:
        stream.seek(vector["offset"])
        length = stream.read(FRAME)
        return unframed(length + stream.read(int.from_bytes(length, "big") + FRAME))


def _by_deltalake(table: Any) -> dict[str, npt.NDArray[np.int64]]:
    """The places of deleted rows, in order, by the path of each file that has a vector."""
    if not hasattr(table, "deletion_vectors"):
        if "deletionVectors" in (table.protocol().reader_features or ()):
            raise InvalidArgument(
                "the Delta table lists the feature 'deletionVectors', which this deltalake cannot read: install a "
                "newer one"
            )
        return {}
    places: dict[str, npt.NDArray[np.int64]] = {}
    arrays = driver("arro3.core", "delta", "lake")
    try:
        for batch in table.deletion_vectors():
            for number in range(batch.num_rows):
                stays = arrays.list_flatten(batch.column(1).slice(number, 1)).to_numpy()
                path = unquote(urlsplit(batch.column(0)[number].as_py()).path)
                places[path] = np.flatnonzero(~stays)
    except Exception:  # of deltalake's own; they quote paths
        raise InvalidArgument(f"a deletion vector of the Delta table cannot be read: {_MENDED}") from None
    return places


def _stated(
    cursor: duckdb.DuckDBPyConnection, version: int, folder: Path, paths: Iterable[str], *, may_be_elsewhere: bool
) -> dict[str, Mapping[str, Any]]:
    """What the log says of the newest vector of each file that has one: the newest checkpoint, and commits after it."""
    missing, log = set(paths), folder / "_delta_log"
    stated: dict[str, Mapping[str, Any]] = {}
    batches: dict[int, list[str]] = {}
    for name in chosen_names([entry.name for entry in log.iterdir()], version):
        batches.setdefault(int(name.partition(".")[0]), []).append(name)
    first = min(batches, default=0)
    for number in sorted(batches, reverse=True):
        checkpoints = [name for name in batches[number] if "checkpoint" in name] if number == first else []
        adds = [add for name in checkpoints for add in _of_checkpoint(cursor, log / name)]
        if not checkpoints:  # else its commit is in it, and may say otherwise
            adds = [add for name in batches[number] if "checkpoint" not in name for add in _of_commit(log / name)]
        vectors: dict[str, Any] = {}
        for add in adds:
            path = str(folder / unquote(add["path"]).removeprefix("file://"))
            vector = _checked(add.get("deletionVector"), may_be_elsewhere=may_be_elsewhere)
            if vectors.setdefault(path, vector) != vector:
                raise InvalidArgument(f"a file of the Delta table has two deletion vectors in its log: {_MENDED}")
        stated |= {path: vector for path, vector in vectors.items() if path in missing and vector}
        missing -= vectors.keys()
    if missing:
        raise InvalidArgument(f"{_LOG}: {_MENDED}")
    return stated


def _of_commit(commit: Path) -> list[Mapping[str, Any]]:
    return [action["add"] for action in _actions(commit) if action.get("add") is not None]


def _actions(commit: Path) -> list[Mapping[str, Any]]:
    with commit.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def _of_checkpoint(cursor: duckdb.DuckDBPyConnection, checkpoint: Path) -> list[Mapping[str, Any]]:
    """The files of a checkpoint, of which older commits may be gone; some checkpoints name others that have them."""
    if checkpoint.suffix == ".json":
        others = [action["sidecar"]["path"] for action in _actions(checkpoint) if action.get("sidecar")]
        adds = _of_commit(checkpoint)
    else:
        others = [path for (path,) in _rows_in(cursor, checkpoint, "sidecar.path") or ()]
        adds = _adds_in(cursor, checkpoint)
    for other in others:
        adds += _adds_in(cursor, checkpoint.parent / "_sidecars" / unquote(other).rpartition("/")[2])
    return adds


def _adds_in(cursor: duckdb.DuckDBPyConnection, checkpoint: Path) -> list[Mapping[str, Any]]:
    """The files that a checkpoint of Parquet lists by itself; it may have no column for vectors."""
    rows = _rows_in(cursor, checkpoint, "add.path, add.deletionVector")
    if rows is None:
        rows = [(path, None) for (path,) in _rows_in(cursor, checkpoint, "add.path") or ()]
    return [{"path": path, "deletionVector": vector} for path, vector in rows]


def _rows_in(cursor: duckdb.DuckDBPyConnection, checkpoint: Path, listed: str) -> list[tuple[Any, ...]] | None:
    """Fields of those actions of a checkpoint that have the first of them; None where it lacks a field."""
    sql = f"SELECT {listed} FROM read_parquet(?) WHERE {listed.partition(',')[0]} IS NOT NULL"  # noqa: S608
    try:
        return cursor.execute(sql, [str(checkpoint)]).fetchall()
    except duckdb.BinderException:
        return None
