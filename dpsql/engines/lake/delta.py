"""Delta tables as a source: the files of one version, by the package `deltalake`, without an extension of DuckDB.

The values of partition columns are in the log and not in the files, so they are constants of each file. Rows that a
deletion vector deletes do not count. Where the log maps columns, files have other names than the table:

    column `age` of the table  =  column `physicalName` of the files, whatever `age` is called there
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Final
from urllib.parse import unquote

import duckdb

from dpsql.core.names import fold
from dpsql.engines.external import Registered, driver
from dpsql.engines.lake.addresses import is_in_bucket, store_of, without_keys
from dpsql.engines.lake.engine import LakeEngine
from dpsql.engines.lake.files import Field, check_alike, schemas
from dpsql.engines.lake.rows import DELETED, Reading, check_places, columns_of
from dpsql.engines.lake.snapshot import Constants, local, registered
from dpsql.engines.lake.stored import checked_address, copy, copy_log
from dpsql.engines.lake.vectors import deleted_rows
from dpsql.engines.source import Column
from dpsql.errors import DpsqlError, InvalidArgument

_HARMLESS: Final = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
_OF_VARIANTS: Final = frozenset({"variantType", "variantType-preview", "variantShredding-preview"})
_REWRITTEN: Final = "write its files anew, as by INSERT OVERWRITE of its own rows, and register it again"
_TYPES: Final = {
    "string": "VARCHAR",
    "long": "BIGINT",
    "integer": "INTEGER",
    "short": "SMALLINT",
    "byte": "TINYINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
}
"""DuckDB's types of Delta's, for columns that are in no file; DECIMAL is spelled alike."""


class DeltaEngine(LakeEngine):
    """`CALL dp_source('visits', engine := 'delta', relation := 'lake/visits', snapshot := 12)`."""

    takes: ClassVar[frozenset[str]] = LakeEngine.takes | {"relation", "snapshot"}

    def register(self, given: Mapping[str, Any]) -> Registered:
        """See `ExternalEngine.register`."""
        relation = given.get("relation")
        if not relation:
            raise InvalidArgument("relation is missing: give the folder of the Delta table, or its address in a bucket")
        with _log_of(self._cursor, relation, given.get("snapshot")) as log:
            return self._registered(log, _opened(log, given.get("snapshot")), given)

    def _registered(self, log: _Log, table: Any, given: Mapping[str, Any]) -> Registered:
        _check_features(table)
        fields = json.loads(table.schema().to_json())["fields"]
        partitions = list(table.metadata().partition_columns)
        paths, files = _files(table, log, partitions)
        schemas_of_files = schemas(self._cursor, list(files)) if files else []
        mapped = _mapped(table, fields, schemas_of_files)
        union = not check_alike(schemas_of_files)
        inside = {fold(c.name): c for c in columns_of(self._cursor, list(files), union=union)} if files else {}
        columns, constants, names = [], [], {}
        for field in fields:
            there = None if field["name"] in partitions else inside.get(fold(mapped.get(field["name"], field["name"])))
            if there is not None and mapped:
                names[field["name"]] = there.name
            if there is None:  # a partition, or a column that was added after all files were written
                constants.append(field["name"])
            kind = _type(field) if there is None else there.type
            columns.append(Column(field["name"], kind, nullable=bool(field["nullable"])))
        deleted = deleted_rows(self._cursor, table, log.folder, paths, log.fetch)
        if deleted and DELETED in constants:
            raise InvalidArgument(f"column {DELETED!r} has the name of what dpsql keeps of deletion vectors: rename it")
        if constants or deleted:
            check_places(inside)
        missing = dict.fromkeys((name for name in constants if name not in partitions), None)
        return registered(
            self._cursor,
            Reading(tuple(columns), tuple(constants), union=union, deleted=bool(deleted), names=names),
            {
                path: {**values, **missing, **({DELETED: deleted[path]} if path in deleted else {})}
                for path, values in files.items()
            },
            address=str(table.metadata().id),
            relation={"relation": log.address},
            identity=tuple(given.get("identity", ())),
            public=f"delta, version {table.version()}",
            version=table.version(),
            folder=log.address,
        )


@dataclass(frozen=True)
class _Log:
    """Where a table is.

    Attributes:
        folder: in which deltalake reads its log.
        address: of its files; the folder, unless they are in a bucket.
        fetch: brings more of its files into the folder, where they are in a bucket.
    """

    folder: Path
    address: str
    fetch: Callable[[list[str]], None] | None = None

    def path(self, inside: str) -> str:
        """The name by which DuckDB opens a file, from what the log calls it."""
        if self.fetch is None:
            return str(self.folder / local(inside, "the table"))
        if is_in_bucket(inside) and store_of(inside) == store_of(self.address):
            return inside
        if inside.startswith(("/", "file:")) or "://" in inside:
            raise InvalidArgument(
                "the log of the Delta table names a file that is not in its bucket: register a table whose files are "
                "all there"
            )
        return f"{self.address}/{inside}"


@contextmanager
def _log_of(cursor: duckdb.DuckDBPyConnection, relation: str, version: int | None) -> Iterator[_Log]:
    """The log of a table; that of a bucket is copied, and the copy is removed at the end."""
    if not is_in_bucket(relation):
        folder = Path(local(relation, f"relation {without_keys(relation)!r}")).absolute()
        yield _Log(folder, str(folder))
        return
    address = checked_address(relation)
    with TemporaryDirectory(prefix="dpsql-") as name:
        folder = Path(name).resolve()
        copy_log(cursor, address, folder, version)
        yield _Log(folder, address, partial(copy, cursor, address, folder))


def _opened(log: _Log, version: int | None) -> Any:
    """The table at a version, by default the newest."""
    deltalake = driver("deltalake", "delta", "lake")
    try:
        return deltalake.DeltaTable(log.folder, version=version)
    except BaseException as error:  # of its own; what it is written in has errors that are no Exception
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        at = "" if version is None else f" of version {version}"
        raise InvalidArgument(
            f"relation is {without_keys(log.address)!r}: there is no Delta table{at} that can be read there; "
            "old versions are vacuumed away"
        ) from None


def _check_features(table: Any) -> None:
    """Refuse a table whose files do not tell by themselves which rows and columns this version of it has.

    Deletion vectors and mapped columns are read whether or not the table lists them.
    """
    features = set(table.protocol().reader_features or ()) - {"deletionVectors", "columnMapping"}
    if '"variant"' not in table.schema().to_json():
        features -= _OF_VARIANTS
    for feature in sorted(features - _HARMLESS):
        raise InvalidArgument(
            f"the Delta table uses the feature {feature!r}, with which its files do not have its rows as they are: say "
            f"ALTER TABLE … DROP FEATURE {feature} in the engine that writes it"
        )


def _mapped(
    table: Any, fields: Sequence[Mapping[str, Any]], schemas_of_files: Sequence[Sequence[Field]]
) -> dict[str, str]:
    """Of each column its name in the files, where the log maps columns to names or to numbers; else nothing.

    Where it maps to numbers, the files must have the names that belong to them as well.

    Raises:
        InvalidArgument: a column has no name in the log, or a file has another one.
    """
    mode = table.metadata().configuration.get("delta.columnMapping.mode", "none")
    if mode == "none":
        return {}
    if not hasattr(table, "deletion_vectors"):
        raise InvalidArgument("the Delta table maps its columns, which this deltalake cannot read: install a newer one")
    metadata = {field["name"]: field.get("metadata", {}) for field in fields}
    names = {name: how.get("delta.columnMapping.physicalName") for name, how in metadata.items()}
    numbers = {name: how.get("delta.columnMapping.id") for name, how in metadata.items()}
    if mode not in ("name", "id") or None in names.values() or None in numbers.values():
        raise InvalidArgument(
            f"the Delta table maps its columns by {mode!r} in a way that is not understood: {_REWRITTEN}"
        )
    if mode == "id":
        wanted = {fold(str(names[name])): numbers[name] for name in names}
        for field in (field for schema in schemas_of_files for field in schema):
            if (fold(field.name) in wanted or field.number in wanted.values()) and (
                wanted.get(fold(field.name)) != field.number
            ):
                raise InvalidArgument(
                    f"a file of the Delta table has other names of columns than its log: {_REWRITTEN}"
                )
    return {name: str(physical) for name, physical in names.items()}


def _files(table: Any, log: _Log, partitions: list[str]) -> tuple[dict[str, str], dict[str, Constants]]:
    """The files of the version: what DuckDB calls each of the log's folder; and its values of partition columns."""
    actions = table.get_add_actions(flatten=True)
    inside = [unquote(path) for path in actions.column("path").to_pylist()]
    values = {name: actions.column(f"partition.{name}").to_pylist() for name in partitions}
    paths: dict[str, str] = {}
    constants: dict[str, Constants] = {}
    for number, path in sorted(enumerate(inside), key=lambda pair: pair[1]):
        paths[str(log.folder / path.removeprefix("file://"))] = log.path(path)
        constants[log.path(path)] = {
            name: None if listed[number] is None else str(listed[number]) for name, listed in values.items()
        }
    if len(constants) < len(inside):
        raise InvalidArgument(
            "the log of the Delta table names a file twice: write the table anew, and register it again"
        )
    return paths, constants


def _type(field: Mapping[str, Any]) -> str:
    """The DuckDB type of a column that no file has."""
    kind = field["type"]
    if isinstance(kind, str) and kind.startswith("decimal"):
        return kind.upper()
    if not isinstance(kind, str) or kind not in _TYPES:
        raise DpsqlError(f"column {field['name']!r} is in no file yet, and of a type that is not known without one")
    return _TYPES[kind]
