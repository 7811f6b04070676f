"""Deletion vectors of Delta: which rows of a file its table no longer has. They are read once, and kept in the books.

    file  →  the places of its rows that are deleted

The package `deltalake` decodes a vector, but compares it with nothing. So it is checked here: as many rows are deleted
as the log says, and each is one that the file has. What counts at a pin is what was decoded when the version was
pinned: a vector that is replaced later, or that goes, changes no count.
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
from dpsql.errors import InvalidArgument

_MENDED: Final = "say REORG TABLE … APPLY (PURGE) in the engine that writes it, and register the table again"
_OF_VECTOR: Final = ("cardinality", "storageType", "pathOrInlineDv")
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
    if fetch is not None:
        fetch(_files_of(_stated(cursor, table.version(), folder, paths).values()))
    real = {os.path.realpath(path): path for path in paths}
    places = {real.get(os.path.realpath(path), ""): deleted for path, deleted in _decoded(table).items()}
    if not places:
        return {}
    if "" in places:
        raise InvalidArgument(f"a deletion vector is of a file that the version does not have: {_MENDED}")
    stated = _stated(cursor, table.version(), folder, places)
    rows = lengths(cursor, [paths[path] for path in places])
    for path, deleted in places.items():
        if len(deleted) != (stated.get(path) or {}).get("cardinality"):
            raise InvalidArgument(
                "a deletion vector of the Delta table deletes another number of rows than its log says, or the log "
                f"says none: {_MENDED}"
            )
        if len(deleted) and deleted[-1] >= rows.get(paths[path], 0):
            raise InvalidArgument(f"a deletion vector deletes rows that its file does not have: {_MENDED}")
    return {paths[path]: bits(deleted, rows[paths[path]]) for path, deleted in places.items() if len(deleted)}


def _files_of(vectors: Iterable[Mapping[str, Any] | None]) -> list[str]:
    """The files of some vectors, below the folder of the table.

    Raises:
        InvalidArgument: one is elsewhere.
    """
    names = set()
    for vector in vectors:
        if vector and vector.get("cardinality") is not None and vector["storageType"] != "i":
            prefix, text = vector["pathOrInlineDv"][:-_OF_UUID], vector["pathOrInlineDv"][-_OF_UUID:]
            if vector["storageType"] != "u" or not (prefix + "0").isalnum():
                raise InvalidArgument(f"a deletion vector of the Delta table is at an address of its own: {_MENDED}")
            name = f"deletion_vector_{UUID(bytes=b85decode(text.translate(_OF_PYTHON)))}.bin"
            names.add(f"{prefix}/{name}" if prefix else name)
    return sorted(names)


def _decoded(table: Any) -> dict[str, npt.NDArray[np.int64]]:
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
    cursor: duckdb.DuckDBPyConnection, version: int, folder: Path, paths: Iterable[str]
) -> dict[str, Mapping[str, Any] | None]:
    """What the log says of the newest vector of each file."""
    missing, stated, log = set(paths), {}, folder / "_delta_log"
    checkpoints: dict[str, list[Path]] = {}
    for entry in sorted(log.iterdir()):
        number, _, rest = entry.name.partition(".checkpoint.")
        if rest:  # one file, or several parts
            checkpoints.setdefault(number, []).append(entry)
    for number in (f"{number:020}" for number in range(version, -1, -1)):
        commit = log / f"{number}.json"
        adds = _of_commit(commit) if commit.exists() else []
        for checkpoint in checkpoints.get(number, ()):  # commits before it may be gone
            adds += _of_checkpoint(cursor, checkpoint)
        for add in adds:
            path = str(folder / unquote(add["path"]).removeprefix("file://"))
            if path in missing:
                missing.remove(path)
                stated[path] = add.get("deletionVector")
        if not missing:
            break
    return stated


def _of_commit(commit: Path) -> list[Mapping[str, Any]]:
    with commit.open(encoding="utf-8") as lines:
        actions = [json.loads(line) for line in lines if '"add"' in line]
    return [action["add"] for action in actions if "add" in action]


def _of_checkpoint(cursor: duckdb.DuckDBPyConnection, checkpoint: Path) -> list[Mapping[str, Any]]:
    """The files of a checkpoint, of which older commits may be gone; some checkpoints name others that have them."""
    if checkpoint.suffix == ".json":
        with checkpoint.open(encoding="utf-8") as lines:
            named = [json.loads(line).get("sidecar") for line in lines if '"sidecar"' in line]
        others = [sidecar["path"] for sidecar in named if sidecar]
        adds = _of_commit(checkpoint)
    else:
        others = [path for (path,) in _rows_in(cursor, checkpoint, "sidecar.path")]
        listed = ", ".join(f"add.deletionVector.{name}" for name in _OF_VECTOR)
        rows = _rows_in(cursor, checkpoint, f"add.path, {listed}")
        adds = [{"path": path, "deletionVector": dict(zip(_OF_VECTOR, of, strict=True))} for path, *of in rows]
    for other in others:
        adds += _of_checkpoint(cursor, checkpoint.parent / "_sidecars" / unquote(other).rpartition("/")[2])
    return adds


def _rows_in(cursor: duckdb.DuckDBPyConnection, checkpoint: Path, listed: str) -> list[tuple[Any, ...]]:
    """Fields of those actions of a checkpoint that have the first of them; none where it has no such field."""
    sql = f"SELECT {listed} FROM read_parquet(?) WHERE {listed.partition(',')[0]} IS NOT NULL"  # noqa: S608
    try:
        return cursor.execute(sql, [str(checkpoint)]).fetchall()
    except duckdb.InterruptException:
        raise
    except duckdb.Error:
        return []
