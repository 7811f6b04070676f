"""Iceberg tables as a source: the files of one snapshot, by `pyiceberg`, without an extension of DuckDB.

Columns are found by their field ids, as Iceberg says: a column that was renamed is the same one, and one that was added
later is NULL in older files. Where a file has a smaller type than the table, DuckDB widens it, which cannot fail. Rows
that delete files delete do not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from dpsql.engines.external import Registered, driver
from dpsql.engines.lake.addresses import is_in_bucket, without_keys
from dpsql.engines.lake.engine import LakeEngine
from dpsql.engines.lake.files import Field, schemas
from dpsql.engines.lake.iceberg_files import files_of_snapshot
from dpsql.engines.lake.rows import DELETED, Reading, check_places
from dpsql.engines.lake.snapshot import local, registered
from dpsql.engines.lake.stored import IO, HostIO, checked_address, host_io
from dpsql.engines.source import Column
from dpsql.errors import InvalidArgument

_TYPES: Final = {
    "boolean": "BOOLEAN",
    "int": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ns": "TIMESTAMP_NS",
    "string": "VARCHAR",
    "binary": "BLOB",
}
_WIDENED: Final = frozenset({("INTEGER", "BIGINT"), ("FLOAT", "DOUBLE")})
"""Types of a file and of the table, where the first always fits the second."""


class IcebergEngine(LakeEngine):
    """`CALL dp_source('visits', engine := 'iceberg', catalog := 'prod', relation := 'bank.visits')`."""

    takes: ClassVar[frozenset[str]] = LakeEngine.takes | {"relation", "snapshot", "catalog"}

    def register(self, given: Mapping[str, Any]) -> Registered:
        """See `ExternalEngine.register`."""
        relation, catalog = given.get("relation"), given.get("catalog")
        if not relation:
            raise InvalidArgument("relation is missing: give the table in its catalog, or a file of its metadata")
        with host_io(self._cursor) as io:
            table = _opened(io, relation, catalog)
        if is_in_bucket(table.metadata_location):
            io.keep_to(table.metadata_location)  # what lies there leads neither to the disk nor to another bucket
        folder = io.here(table.location().removesuffix("/"))
        io.keep_to(folder)
        snapshot = given.get("snapshot")
        if snapshot is None:
            current = table.current_snapshot()
            snapshot = None if current is None else current.snapshot_id
        if snapshot is None or table.snapshot_by_id(snapshot) is None:
            raise InvalidArgument(
                f"snapshot is {snapshot}: the table {without_keys(relation)!r} has no such snapshot, or its expiry "
                "removed it"
            )
        scan = table.scan(snapshot_id=snapshot)
        files = files_of_snapshot(self._cursor, table, int(snapshot))
        paths = list(files)
        fields = scan.projection().fields
        columns = tuple(Column(field.name, _type(field), nullable=not field.required) for field in fields)
        ids = {field.name: int(field.field_id) for field in fields}
        _check_files(schemas(self._cursor, paths) if paths else [], columns, ids, _partition_ids(table))
        deleted = {path: rows for path, rows in files.items() if rows is not None}
        if deleted:
            check_places(ids)
        return registered(
            self._cursor,
            Reading(columns, ids=ids, deleted=bool(deleted)),
            {path: {DELETED: deleted[path]} if path in deleted else {} for path in paths},
            address=str(table.metadata.table_uuid),
            relation={"relation": relation} | ({} if catalog is None else {"catalog": catalog}),
            identity=tuple(given.get("identity", ())),
            public=f"iceberg, snapshot {snapshot}",
            version=int(snapshot),
            folder=folder,
        )


def _opened(io: HostIO, relation: str, catalog: str | None) -> Any:
    """The table, of a catalog of pyiceberg's configuration, or from a file of its metadata; DuckDB reads its files."""
    try:
        if catalog is not None:
            opened = driver("pyiceberg.catalog", "iceberg", "lake").load_catalog(catalog, **{"py-io-impl": IO})
            # Else a table's own properties may name any class, which pyiceberg imports and makes.
            opened._load_file_io = lambda *_, **__: io  # noqa: SLF001
            table = opened.load_table(relation)
            table.io = io  # whatever the table's own properties name
            return table
        metadata = _metadata(io, relation)
    except ImportError:
        raise InvalidArgument(f"catalog is {catalog!r}: a package that its kind of catalog needs is missing") from None
    except InvalidArgument:
        raise
    except Exception as error:  # of pyiceberg, of a catalog, of a file system; they may quote an address with a token
        if type(error).__module__.startswith("dpsql"):
            raise
        where = "as a file of metadata" if catalog is None else f"in catalog {catalog!r} of pyiceberg's configuration"
        raise InvalidArgument(
            f"relation is {without_keys(relation)!r}: there is no such Iceberg table {where} ({type(error).__name__})"
        ) from None
    of_none = driver("pyiceberg.catalog.noop", "iceberg", "lake").NoopCatalog("static-table")
    static = driver("pyiceberg.table", "iceberg", "lake").StaticTable
    return static(("static-table", relation), metadata, relation, io, of_none)


def _metadata(io: HostIO, relation: str) -> Any:
    """A file of a table's metadata."""
    if is_in_bucket(relation):
        path = checked_address(relation)
    else:
        path = str(Path(local(relation, f"relation {without_keys(relation)!r}")).absolute())
    return driver("pyiceberg.serializers", "iceberg", "lake").FromInputFile.table_metadata(io.new_input(path))


def _partition_ids(table: Any) -> set[int]:
    """The field ids by whose values files are parted, which a file may lack."""
    specs = table.metadata.partition_specs
    return {field.source_id for spec in specs for field in spec.fields if str(field.transform) == "identity"}


def _type(field: Any) -> str:
    """The DuckDB type of a column."""
    if getattr(field, "initial_default", None) is not None:
        raise InvalidArgument(f"column {field.name!r} has a default for older rows: rewrite the data files first")
    return _spelled(field.field_type, field.name)


def _spelled(kind: Any, name: str) -> str:
    text = str(kind)
    if text in _TYPES:
        return _TYPES[text]
    if text.startswith("decimal") or type(kind).__name__ == "UUIDType":
        return text.upper()
    if text.startswith("fixed"):
        return "BLOB"
    if hasattr(kind, "fields"):
        parts = ", ".join(f'"{part.name}" {_spelled(part.field_type, name)}' for part in kind.fields)
        return f"STRUCT({parts})"
    if hasattr(kind, "element_type"):
        return f"{_spelled(kind.element_type, name)}[]"
    if hasattr(kind, "key_type"):
        return f"MAP({_spelled(kind.key_type, name)}, {_spelled(kind.value_type, name)})"
    raise InvalidArgument(f"column {name!r} is of Iceberg's type {text}, which is not known: leave it out of the table")


def _check_files(
    schemas_of_files: Sequence[Sequence[Field]], columns: Sequence[Column], ids: Mapping[str, int], partitions: set[int]
) -> None:
    """Refuse files whose columns cannot be read as the table's without a cast that may fail.

    Raises:
        InvalidArgument: says what the owner does.
    """
    nested: dict[int, tuple[object, ...]] = {}
    for fields in schemas_of_files:
        there = {field.number: field for field in fields}
        if None in there:
            raise InvalidArgument("a file was imported, its columns have no field ids: rewrite the data files first")
        for column in columns:
            field = there.get(ids[column.name])
            if field is None:
                if ids[column.name] in partitions:
                    raise InvalidArgument(
                        f"a file was imported, it lacks the partition column {column.name!r}: rewrite the data files"
                    )
                continue
            shape = field.shape
            if len(shape) > 1:
                same = nested.setdefault(ids[column.name], shape) == shape
            else:
                same = shape[0] == column.type or _fits(str(shape[0]), column.type)
            if not same:
                raise InvalidArgument(
                    f"column {column.name!r} has another type in a file than in the table: rewrite the data files first"
                )


def _fits(kind: str, wanted: str) -> bool:
    """Whether every value of a file's type is one of the table's."""
    if (kind, wanted) in _WIDENED:
        return True
    if kind.startswith("DECIMAL(") and wanted.startswith("DECIMAL("):
        (width, scale), (wide, scaled) = (text[8:-1].replace(" ", "").split(",") for text in (kind, wanted))
        return int(scale) == int(scaled) and int(width) <= int(wide)
    return kind.replace(" ", "") == wanted.replace(" ", "")
