"""Files of a snapshot: what tells that one was changed, and which columns they have.

    footer  =  SHA-256 of the last bytes of the file: the metadata of its row groups, their length, and `PAR1`

A writer of Parquet never changes a file in place, so another footer or size means another file. The footer holds the
offsets, sizes and statistics of every page of the file.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb

from dpsql.core.names import fold
from dpsql.engines.lake.addresses import check_paths
from dpsql.engines.lake.refusals import refusal_of
from dpsql.engines.place import PinnedFile
from dpsql.errors import DpsqlError, InvalidArgument

_TAIL: Final = 8  # the length of the footer, and the magic number
_MAGIC: Final = b"PAR1"


class NotParquet(DpsqlError):
    """A file is not there, or is not whole. The text names no file, because a name may hold a private value."""


def pinned(path: str, constants: str = "{}") -> PinnedFile:
    """A file as it is now.

    Raises:
        NotParquet: it is not there, cannot be read, or has no footer.
    """
    try:
        with Path(path).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            tail = _last(file.fileno(), size, _TAIL)
            length = int.from_bytes(tail[:4], "little")
            if tail[4:] != _MAGIC or length + 2 * _TAIL > size + 4:
                raise NotParquet("a file has no footer of Parquet: it is encrypted, cut off, or of another format")
            footer = _last(file.fileno(), size, length + _TAIL)
    except OSError:
        raise NotParquet("a file is not there, or cannot be read") from None
    return PinnedFile(path, size, hashlib.sha256(footer).hexdigest(), constants)


def _last(file: int, size: int, count: int) -> bytes:
    """The last bytes of a file."""
    return os.pread(file, count, max(size - count, 0))


def is_same(file: PinnedFile) -> bool:
    """Whether a file is what was pinned."""
    try:
        return pinned(file.path, file.constants) == file
    except NotParquet:
        return False


@dataclass(frozen=True)
class Field:
    """A column of a file.

    Attributes:
        name: of it.
        number: its field id; None where the writer gave none.
        shape: what its type is, nested types with their parts; equal for equal types.
    """

    name: str
    number: int | None
    shape: tuple[object, ...]


def schemas(cursor: duckdb.DuckDBPyConnection, paths: Sequence[str]) -> list[tuple[Field, ...]]:
    """The different schemas of some files; of most snapshots there is one.

    Raises:
        NotParquet: DuckDB cannot read one.
        BucketRefused: a bucket does not give one.
        InvalidArgument: one has an unsafe name.
    """
    check_paths(paths)
    sql = (
        "SELECT DISTINCT fields FROM (SELECT list([name, coalesce(duckdb_type, type, ''), "
        "coalesce(num_children, 0)::VARCHAR, coalesce(field_id, -1)::VARCHAR, coalesce(logical_type, '')] "
        "ORDER BY column_id) AS fields FROM parquet_schema(?) GROUP BY file_name) ORDER BY 1"
    )
    try:
        rows = cursor.execute(sql, [list(paths)]).fetchall()
    except duckdb.InterruptException:
        raise
    except duckdb.Error as error:
        raise refusal_of(error, paths) or NotParquet(
            "DuckDB cannot read the schema of a file: it is encrypted or cut off"
        ) from None
    return [_fields(row[0]) for row in rows]


def without_rows(cursor: duckdb.DuckDBPyConnection, paths: Sequence[str]) -> set[str]:
    """Those of some files that have no row.

    Raises:
        NotParquet: DuckDB cannot read one.
        BucketRefused: a bucket does not give one.
    """
    try:
        rows = cursor.execute("SELECT file_name FROM parquet_file_metadata(?) WHERE num_rows = 0", [list(paths)])
        return {path for (path,) in rows.fetchall()}
    except duckdb.InterruptException:
        raise
    except duckdb.Error as error:
        raise refusal_of(error, paths) or NotParquet("DuckDB cannot read a file: it is encrypted or cut off") from None


def _fields(listed: Sequence[Sequence[str]]) -> tuple[Field, ...]:
    """The top-level columns of a schema that is listed depth first, each with how many children it has."""
    fields, place = [], 1
    for _ in range(int(listed[0][2])):
        first, open_ends = place, 1
        while open_ends:
            open_ends += int(listed[place][2]) - 1
            place += 1
        name, kind, _, number, logical = listed[first]
        nested = tuple(tuple(part[:3]) for part in listed[first + 1 : place])
        shape = (kind, logical, *nested) if nested else (kind,)
        fields.append(Field(name, None if number == "-1" else int(number), shape))
    return tuple(fields)


def check_alike(schemas_of_files: Sequence[Sequence[Field]]) -> bool:
    """Refuse files in which one column has several types: DuckDB would cast one, and a cast may fail on a value.

    Returns:
        Whether all files have the same columns.

    Raises:
        InvalidArgument: there is such a column.
    """
    types: dict[str, tuple[object, ...]] = {}
    for fields in schemas_of_files:
        for field in fields:
            if types.setdefault(fold(field.name), field.shape) != field.shape:
                raise InvalidArgument(
                    f"column {field.name!r} has other types in some of the files: write them anew with one type, or "
                    "register those of each type under a name of their own"
                )
    return len({frozenset(fold(field.name) for field in fields) for fields in schemas_of_files}) <= 1


def hive_values(path: str) -> Mapping[str, str | None]:
    """The columns that the folders of a path name, as `year=2026/part-0.parquet` does.

    >>> dict(hive_values("/lake/year=2026/land=__HIVE_DEFAULT_PARTITION__/0.parquet"))
    {'year': '2026', 'land': None}
    """
    from urllib.parse import unquote

    named = (part.partition("=") for part in Path(path).parts[:-1] if "=" in part)
    return {unquote(name): None if text == "__HIVE_DEFAULT_PARTITION__" else unquote(text) for name, _, text in named}
