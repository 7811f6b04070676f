"""Delta tables as a source: the files of one version, by the package `deltalake`, without an extension of DuckDB.

The values of partition columns are in the log and not in the files, so they are constants of each file. Rows that a
deletion vector deletes do not count. A table with a feature that changes which columns a file has is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import unquote

from dpsql.core.names import fold
from dpsql.engines.external import Registered, driver
from dpsql.engines.lake.engine import LakeEngine
from dpsql.engines.lake.files import check_alike, schemas
from dpsql.engines.lake.rows import DELETED, Reading, check_places, columns_of
from dpsql.engines.lake.snapshot import Constants, local, registered
from dpsql.engines.lake.vectors import deleted_rows
from dpsql.engines.source import Column
from dpsql.errors import DpsqlError, InvalidArgument

_HARMLESS: Final = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
_OF_VARIANTS: Final = frozenset({"variantType", "variantType-preview", "variantShredding-preview"})
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
            raise InvalidArgument("relation is missing: give the folder of the Delta table")
        folder = Path(local(relation, f"relation {relation.partition('?')[0]!r}")).absolute()
        table = _opened(folder, given.get("snapshot"))
        _check_features(table)
        fields = json.loads(table.schema().to_json())["fields"]
        partitions = list(table.metadata().partition_columns)
        files = _files(table, folder, partitions)
        found = schemas(self._cursor, list(files)) if files else []
        union = not check_alike(found)
        inside = {fold(c.name): c for c in columns_of(self._cursor, list(files), union=union)} if files else {}
        columns, constants = [], []
        for field in fields:
            there = None if field["name"] in partitions else inside.get(fold(field["name"]))
            if there is None:  # a partition, or a column that was added after all files were written
                constants.append(field["name"])
            kind = _type(field) if there is None else there.type
            columns.append(Column(field["name"], kind, nullable=bool(field["nullable"])))
        deleted = deleted_rows(self._cursor, table, folder, files)
        if deleted and DELETED in constants:
            raise InvalidArgument(f"column {DELETED!r} has the name of what dpsql keeps of deletion vectors: rename it")
        if constants or deleted:
            check_places(inside)
        missing = dict.fromkeys((name for name in constants if name not in partitions), None)
        return registered(
            self._cursor,
            Reading(tuple(columns), tuple(constants), union=union, deleted=bool(deleted)),
            {
                path: {**values, **missing, **({DELETED: deleted[path]} if path in deleted else {})}
                for path, values in files.items()
            },
            address=str(table.metadata().id),
            relation={"relation": str(folder)},
            identity=tuple(given.get("identity", ())),
            public=f"delta, version {table.version()}",
            version=table.version(),
            folder=str(folder),
        )


def _opened(folder: Path, version: int | None) -> Any:
    """The table at a version, by default the newest."""
    deltalake = driver("deltalake", "delta", "lake")
    try:
        return deltalake.DeltaTable(folder, version=version)
    except Exception:  # of its own, and of what it is written in
        at = "" if version is None else f" of version {version}"
        raise InvalidArgument(
            f"relation is {str(folder)!r}: there is no Delta table{at} that can be read there; old versions are "
            "vacuumed away"
        ) from None


def _check_features(table: Any) -> None:
    """Refuse a table whose files do not tell by themselves which rows and columns this version of it has.

    Deletion vectors are read whether or not the table lists them.
    """
    features = set(table.protocol().reader_features or ()) - {"deletionVectors"}
    if '"variant"' not in table.schema().to_json():
        features -= _OF_VARIANTS
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        features.add("columnMapping")
    for feature in sorted(features - _HARMLESS):
        mended = {
            "columnMapping": "ALTER TABLE … DROP FEATURE columnMapping",
        }.get(feature, f"ALTER TABLE … DROP FEATURE {feature}")
        raise InvalidArgument(
            f"the Delta table uses the feature {feature!r}, with which its files do not have its rows as they are: say "
            f"{mended} in the engine that writes it"
        )


def _files(table: Any, folder: Path, partitions: list[str]) -> dict[str, Constants]:
    """The files of the version, each with the values of the partition columns."""
    actions = table.get_add_actions(flatten=True)
    paths = actions.column("path").to_pylist()
    values = {name: actions.column(f"partition.{name}").to_pylist() for name in partitions}
    found: dict[str, Constants] = {}
    for number, path in sorted(enumerate(paths), key=lambda pair: str(pair[1])):
        texts = {name: None if listed[number] is None else str(listed[number]) for name, listed in values.items()}
        found[str(folder / local(unquote(path), "the table"))] = texts
    return found


def _type(field: Mapping[str, Any]) -> str:
    """The DuckDB type of a column that no file has."""
    kind = field["type"]
    if isinstance(kind, str) and kind.startswith("decimal"):
        return kind.upper()
    if not isinstance(kind, str) or kind not in _TYPES:
        raise DpsqlError(f"column {field['name']!r} is in no file yet, and of a type that is not known without one")
    return _TYPES[kind]
