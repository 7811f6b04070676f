"""A relation of Spark at the snapshot that was pinned: a table of the session's catalogue, or Parquet files.

    files             the list of them, each with its size and the time at which it was written
    Delta, Iceberg    a version; its columns are those that the table had then

A table of another kind is refused, because nothing says which of its rows a release was about.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import unquote

from dpsql.core.names import fold
from dpsql.engines.external import check_case
from dpsql.engines.place import PinnedFile
from dpsql.engines.protocol import CountingFailed
from dpsql.engines.source import IS_A_VIEW, Column, Source
from dpsql.engines.spark.dialect import is_collated, native_of
from dpsql.engines.spark.failures import SessionFailed
from dpsql.engines.spark.session import Session
from dpsql.engines.spark.versions import DELTA, ICEBERG, VERSIONED, identity, latest, rows_at
from dpsql.engines.sql.failures import NotCounted, TableChanged
from dpsql.engines.sql.types import Native
from dpsql.errors import DpsqlError, InvalidArgument, UnknownName

_FILES: Final = ("parquet", "orc", "csv", "json", "avro")
_DETAILS: Final = "# Detailed Table Information"
_SPECIAL: Final = str.maketrans({character: f"\\{character}" for character in "\\*?[]{}"})


@dataclass(frozen=True)
class Relation:
    """A relation.

    Attributes:
        name: of the table, as Spark reads it; empty for files.
        paths: of the files, as they were given; empty for a table.
        kind: how the rows are stored.
        address: where they are.
        columns: with the types that they have in DuckDB; of a table with versions none before `seen_in`.
        natives: by column, the types in Spark.
    """

    name: str
    paths: tuple[str, ...]
    kind: str
    address: str
    columns: tuple[Column, ...] = ()
    natives: Mapping[str, Native] = field(default_factory=dict)

    @property
    def has_versions(self) -> bool:
        """Whether a snapshot is a version; else it is a list of files."""
        return self.kind in VERSIONED


def find_relation(session: Session, given: Mapping[str, Any]) -> Relation:
    """The relation that the arguments of `dp_source` name.

    Raises:
        InvalidArgument: neither a table nor files are named, or both.
        UnknownName: there is no such table.
        NotCounted: its rows have no snapshots, or it is a view.
    """
    name, paths = given.get("relation"), tuple(given.get("files") or ())
    if bool(name) == bool(paths):
        raise InvalidArgument(
            "relation or files: give relation := 'catalog.schema.table', the table in Spark, or files := '…', paths "
            "of Parquet files that Spark reads"
        )
    if paths:
        try:
            columns, natives = _columns(session, lambda: _read(session, paths))
        except TableChanged:
            raise InvalidArgument(f"files is {list(paths)}: Spark finds no such Parquet files") from None
        return Relation("", paths, "parquet", "\n".join(sorted(map(_path, paths))), columns, natives)
    assert name
    return _table(session, name)


def _table(session: Session, text: str) -> Relation:
    """A table of the session's catalogue."""
    try:
        table = session.run(lambda: session.spark.catalog.getTable(text))
    except TableChanged:
        raise UnknownName(
            f"there is no table {text!r} in Spark: give relation := 'catalog.schema.table', as Spark spells it"
        ) from None
    if table.isTemporary or "VIEW" in (table.tableType or ""):
        raise NotCounted(f"{text!r} {IS_A_VIEW}")
    parts = [part for part in (table.catalog, *(table.namespace or ()), table.name) if part]
    name = ".".join(f"`{part.replace('`', '``')}`" for part in parts)
    described = session.run(lambda: session.spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect())
    facts = _facts([(row[0], row[1]) for row in described])
    kind = (facts.get("Provider") or "").lower()
    if kind not in (*_FILES, *VERSIONED):
        raise NotCounted(
            f"{text!r} is stored as {kind or 'something unknown'!r}, and dpsql pins files ({', '.join(_FILES)}) or "
            f"versions ({', '.join(VERSIONED)}): CREATE TABLE … USING parquet AS …, and register that"
        )
    address = _path(facts.get("Location") or name)
    if kind == DELTA:  # another table in its place has versions of the same numbers
        address = f"{address}#{identity(session, kind, name, address)}"
    if kind in VERSIONED:
        return Relation(name, (), kind, address)
    return Relation(name, (), kind, address, *_columns(session, lambda: session.spark.table(name)))


def seen_in(session: Session, relation: Relation, rows: Any) -> Relation:
    """A relation with the columns of the rows that were pinned, which the table may have changed since."""
    if not relation.has_versions:
        return relation
    columns, natives = _columns(session, lambda: rows)
    return replace(relation, columns=columns, natives=natives)


def identity_of(session: Session, relation: Relation) -> str:
    """What tells a relation from all others, whatever engine registers it."""
    if not relation.has_versions:
        return relation.address
    return identity(session, relation.kind, relation.name, relation.address)


def _facts(described: Sequence[tuple[str, str]]) -> dict[str, str]:
    """What is told of a table itself, after its columns, which may have the same names.

    >>> _facts([("Location", "string"), ("# Detailed Table Information", ""), ("Location", "file:/x")])
    {'Location': 'file:/x'}
    """
    names = [name for name, _ in described]
    start = names.index(_DETAILS) + 1 if _DETAILS in names else len(names)
    return dict(described[start:])


def _columns(session: Session, rows: Any) -> tuple[tuple[Column, ...], dict[str, Native]]:
    fields = session.run(lambda: [(f.name, f.dataType.simpleString(), f.nullable) for f in rows().schema.fields])
    names = [fold(name) for name, _, _ in fields]
    check_case(names, NotCounted)
    if any("${" in name for name in names):
        raise NotCounted("the name of a column has ${, which Spark would replace by a setting: rename the column")
    natives = {name: native_of(kind) for name, kind, _ in fields}
    columns = (
        Column(name, natives[name].in_duckdb, nullable, collated=is_collated(natives[name]))
        for name, _, nullable in fields
    )
    return tuple(columns), natives


# --- snapshots --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Snapshot:
    """Which rows of a relation count.

    Attributes:
        version: of a Delta or Iceberg table.
        files: of another relation.
    """

    version: int | None = None
    files: tuple[PinnedFile, ...] = ()


class SnapshotGone(DpsqlError):
    """The rows that were pinned are not there any more. The text names no file, because a name may hold a value."""

    def __init__(self, source: Source) -> None:
        super().__init__(
            f"the rows of {source.name!r} in Spark are not those that were pinned: restore them, and the same call "
            f"goes on; or the owner pins what is there now, CALL dp_source({source.argument})"
        )


def current(session: Session, relation: Relation, version: int | None = None) -> Snapshot:
    """The snapshot of now, or a version that is named.

    Raises:
        InvalidArgument: a version of a relation that has none, or there is no such one.
    """
    if not relation.has_versions:
        if version is not None:
            raise InvalidArgument(
                f"snapshot is {version}, but a relation stored as {relation.kind!r} has no versions: leave snapshot out"
            )
        return Snapshot(files=files_of(session, relation, _now(session, relation)))
    if version is None or relation.kind == ICEBERG:  # a part of a table has no current version, and is refused
        now = latest(session, relation.kind, relation.name)
        version = now if version is None else version
    snapshot = Snapshot(version)
    try:
        rows_of(session, relation, snapshot)
    except SessionFailed:
        raise
    except CountingFailed:
        raise InvalidArgument(f"snapshot is {version}: Spark has no such version of the table any more") from None
    return snapshot


def rows_of(session: Session, relation: Relation, snapshot: Snapshot) -> Any:
    """The rows of a snapshot as a DataFrame; of files those that there are, which `files_of` tells.

    Raises:
        CountingFailed: Spark has them no more.
    """
    if snapshot.version is None:
        return _now(session, relation)
    return rows_at(session, relation.name, snapshot.version)


def files_of(session: Session, relation: Relation, rows: Any) -> tuple[PinnedFile, ...]:
    """The files that a DataFrame reads, as they are now, in order of their paths."""

    def listed() -> list[tuple[str, int, int]]:
        paths = [unquote(path) for path in rows.inputFiles()]
        if not paths:
            return []
        if session.is_here and all(_path(path).startswith("/") for path in paths):
            return [(path, *_size_and_time(_path(path))) for path in paths]
        binary_files = session.spark.read.format("binaryFile").load([path.translate(_SPECIAL) for path in paths])
        return [
            tuple(row) for row in binary_files.selectExpr("path", "length", "unix_micros(modificationTime)").collect()
        ]

    return tuple(PinnedFile(_path(path), size, str(time)) for path, size, time in sorted(session.run(listed)))


def _size_and_time(path: str) -> tuple[int, int]:
    """As Spark has them, which counts milliseconds."""
    status = os.stat(path)  # noqa: PTH116 - of thousands of files
    return status.st_size, status.st_mtime_ns // 10**6 * 1000


def _now(session: Session, relation: Relation) -> Any:
    """The rows that there are now; the list of files is made anew."""

    def listed() -> Any:
        if relation.paths:
            return _read(session, relation.paths)
        session.spark.catalog.refreshTable(relation.name)
        return session.spark.table(relation.name)

    return session.run(listed)


def _read(session: Session, paths: Sequence[str]) -> Any:
    return session.spark.read.parquet(*paths)


def _path(uri: str) -> str:
    """A path of this machine as the engine of plain files has it, so that it is known to be the same; or a URI."""
    local = uri.removeprefix("file:")
    return "/" + local.lstrip("/") if local != uri else uri
