"""Files of a bucket: DuckDB reads them by its extension httpfs and its own secrets, so dpsql holds no credential.

    pin     =  size ‖ time of change ‖ SHA-256 of what DuckDB reads of the footer

DuckDB shows no ETag to SQL, but compares it itself: of a file whose ETag changes while it is read, it gives an error;
and what it has of a file in its cache it takes only where the ETag is the same. Settings that end this are refused. The
pin is looked at before rows are read and again after that, so what was counted are the rows of the pin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import duckdb

from dpsql.engines.lake.addresses import fault_of
from dpsql.engines.lake.files import NotParquet
from dpsql.engines.lake.refusals import GONE, BucketRefused, refusal_of
from dpsql.engines.place import PinnedFile
from dpsql.errors import DpsqlError

_SAFE: Final = {
    "unsafe_disable_etag_checks": "false",
    "enable_http_metadata_cache": "false",
    "parquet_metadata_cache": "false",
    "validate_external_file_cache": "VALIDATE_ALL",
}
"""Settings of DuckDB with which it notices that a file was replaced."""
_NO_FOOTER: Final = "a file has no footer of Parquet: it is encrypted, cut off, or of another format"
_MEANWHILE: Final = "a file was replaced while it was looked at: say it again"
_UNSAFE: Final = "a file has a name by which DuckDB may read another file: rename it, and pin it again by dp_source"


def make_ready(cursor: duckdb.DuckDBPyConnection) -> None:
    """Load the extension, and refuse settings with which a file that was replaced may go unnoticed.

    Raises:
        DpsqlError: says how to install the extension, or which statement mends a setting.
    """
    loaded = "SELECT loaded FROM system.main.duckdb_extensions() WHERE extension_name = 'httpfs'"
    if cursor.execute(loaded).fetchall() != [(True,)]:
        try:
            cursor.execute("LOAD httpfs")
        except duckdb.InterruptException:
            raise
        except duckdb.Error:
            version = duckdb.__version__
            raise DpsqlError(
                f"files of a bucket need DuckDB's extension httpfs, which is not installed for DuckDB {version}: say "
                f"INSTALL httpfs; LOAD httpfs. Or pip install duckdb-extension-httpfs=={version}, if there is one, and "
                "LOAD the file of that package"
            ) from None
    names = ", ".join(f"'{name}'" for name in _SAFE)
    settings = f"SELECT name, value FROM system.main.duckdb_settings() WHERE name IN ({names})"  # noqa: S608
    for name, value in cursor.execute(settings).fetchall():
        if str(value).lower() != _SAFE[name].lower():
            raise DpsqlError(
                f"setting {name} is {value!r}, with which DuckDB may read a file that was replaced as if it were the "
                f"one before: say SET GLOBAL {name} = '{_SAFE[name]}'"
            )


def listed(cursor: duckdb.DuckDBPyConnection, pattern: str) -> list[str]:
    """The files that a pattern names, in order.

    Raises:
        BucketRefused: it cannot be listed.
    """
    make_ready(cursor)
    with _constant_texts([pattern]):
        rows = cursor.execute("SELECT file FROM glob(?) ORDER BY 1", [pattern]).fetchall()
    return [path for (path,) in rows]


def whole_files(cursor: duckdb.DuckDBPyConnection, paths: Sequence[str]) -> dict[str, bytes]:
    """Small files as a whole, by their paths.

    Raises:
        BucketRefused: one is not there, or cannot be read.
        NotParquet: one has an unsafe name.
        DpsqlError: see `make_ready`.
    """
    if not paths:
        return {}
    make_ready(cursor)
    _check_names(paths)
    with _constant_texts(paths):
        rows = cursor.execute("SELECT filename, content FROM read_blob(?)", [list(paths)]).fetchall()
    if sorted(path for path, _ in rows) != sorted(paths):
        raise NotParquet(_MEANWHILE)
    return dict(rows)


def pinned_there(cursor: duckdb.DuckDBPyConnection, files: Mapping[str, str]) -> list[PinnedFile]:
    """Files as they are now, from their paths and constants.

    Raises:
        NotParquet: one is not whole, or was replaced meanwhile.
        BucketRefused: one is not there, or cannot be read.
        DpsqlError: see `make_ready`.
    """
    if not files:
        return []
    make_ready(cursor)
    before = _states(cursor, list(files))
    footers = footers_as_read(cursor, list(files))
    if before != _states(cursor, list(files)):
        raise NotParquet(_MEANWHILE)
    return [PinnedFile(path, *_pin(before[path], footers[path]), constants) for path, constants in files.items()]


def changed_there(cursor: duckdb.DuckDBPyConnection, files: Sequence[PinnedFile]) -> bool:
    """Whether a file of a bucket is not what was pinned.

    Raises:
        BucketRefused: a file cannot be looked at.
        DpsqlError: see `make_ready`.
    """
    if not files:
        return False
    make_ready(cursor)
    paths = [file.path for file in files]
    try:
        states = _states(cursor, paths)
        footers = footers_as_read(cursor, paths)
    except NotParquet:
        return True
    except BucketRefused as refused:
        if refused.status != GONE:
            raise
        return True
    return any((file.size, file.footer) != _pin(states[file.path], footers[file.path]) for file in files)


def _pin(state: tuple[int, int], footer: str) -> tuple[int, str]:
    """The size of a file, and what stands in the place of the digest of its footer: when it was changed, and that."""
    size, changed = state
    return size, f"{changed} {footer}"


def footer_of(file: PinnedFile) -> str:
    """The digest of a bucket's file, without the time of its change."""
    return file.footer.split()[-1]


def footers_as_read(cursor: duckdb.DuckDBPyConnection, paths: Sequence[str]) -> dict[str, str]:
    """A digest of what DuckDB reads of each file's footer, wherever it lies; equal for copies.

    Raises:
        NotParquet: one has none, or an unsafe name.
        BucketRefused: one cannot be read.
    """
    parts = (
        "column_id, path_in_schema, type, num_values, stats_min_value, stats_max_value, stats_null_count, compression, "
        "dictionary_page_offset, data_page_offset, total_compressed_size, total_uncompressed_size"
    )
    ordered = "m.row_group_id ASC NULLS LAST, m.column_id ASC NULLS LAST"  # whatever default_order is
    sql = (
        f"SELECT f.file_name, sha256(concat_ws('/', f.num_rows, f.num_row_groups, f.footer_size, f.created_by, "  # noqa: S608
        f"string_agg(row(m.row_group_id, {parts})::VARCHAR, '/' ORDER BY {ordered}))) "
        "FROM parquet_file_metadata($paths) f LEFT JOIN parquet_metadata($paths) m ON f.file_name = m.file_name "
        "GROUP BY f.file_name, f.num_rows, f.num_row_groups, f.footer_size, f.created_by"
    )
    _check_names(paths)
    with _constant_texts(paths):
        footers = dict(cursor.execute(sql, {"paths": list(paths)}).fetchall())
    if footers.keys() != set(paths):
        raise NotParquet(_MEANWHILE)
    return footers


def _states(cursor: duckdb.DuckDBPyConnection, paths: list[str]) -> dict[str, tuple[int, int]]:
    """Of each file its size and when it was changed, in microseconds; their content is not read.

    Raises:
        NotParquet: not each is there once.
        BucketRefused: one cannot be looked at.
    """
    _check_names(paths)
    sql = "SELECT filename, size, coalesce(epoch_us(last_modified), 0) FROM read_blob(?)"
    with _constant_texts(paths):
        rows = cursor.execute(sql, [paths]).fetchall()
    if sorted(path for path, *_ in rows) != sorted(paths):
        raise NotParquet(_MEANWHILE)
    return {path: (int(size), int(changed)) for path, size, changed in rows}


def _check_names(paths: Sequence[str]) -> None:
    """Refuse, in words that hold no name, what is not the name of one file."""
    if any(map(fault_of, paths)):
        raise NotParquet(_UNSAFE)


@contextmanager
def _constant_texts(paths: Sequence[str]) -> Iterator[None]:
    """No text of DuckDB's leaves, because it has names of files, which may hold a private value."""
    try:
        yield
    except duckdb.InterruptException:
        raise
    except duckdb.Error as error:
        refused = refusal_of(error, paths)
        raise NotParquet(_NO_FOOTER) if refused is None else refused from None
