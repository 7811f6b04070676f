"""What a file is, however its path is written: where it really is, which file of the disk it is, and what it holds.

    path ‖ real path                     `..`, links of files and of folders, /proc/self/root
    node ‖ device and inode              hard links, folders that are mounted twice
    bytes ‖ size and digest of footer    copies, wherever they are, also after the file itself went
    as read ‖ size and digest            copies in a bucket, of whose footer DuckDB shows what it read, and from there
    unread ‖ size            where nothing is known of what DuckDB would read: a copy in a bucket may be of this size

Two files that share one of these have the same rows. A copy that was written anew is other bytes, and is not noticed,
but where a table of Delta or Iceberg writes its files anew, they stay in its folder:

    table in ‖ folder        what such a table holds, whatever its files are at a version
    files in ‖ folder        what plain files hold, for every folder above them
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import duckdb

from dpsql.engines.lake.addresses import fault_of, is_in_bucket, object_of, spellings
from dpsql.engines.lake.bucket import footer_of, footers_as_read
from dpsql.engines.lake.files import NotParquet, pinned, without_rows
from dpsql.engines.lake.refusals import BucketRefused
from dpsql.engines.place import PinnedFile
from dpsql.errors import InvalidArgument

_NODE, _BYTES, _AS_READ = "node ", "bytes ", "as read "
_UNREAD, _READ = "unread ", "read "
_TABLE, _FILES = "table in ", "files in "
_DIGITS: Final = 64  # of SHA-256; Spark's files are pinned by times, which are shorter


def identities_of(files: Iterable[PinnedFile]) -> dict[str, str]:
    """All that tells some files from others, each with the path of the file that it is of."""
    return {identity: file.path for file in files for identity in _identities(file)}


def kept_identities(files: Iterable[PinnedFile]) -> set[str]:
    """What still tells a file once it is no longer pinned: the disk may give its node to another."""
    return {identity for identity in identities_of(files) if not identity.startswith(_NODE)}


def _identities(file: PinnedFile) -> list[str]:
    if is_in_bucket(file.path):
        footer = [f"{_AS_READ}{file.size} {footer_of(file)}"] if len(footer_of(file)) == _DIGITS else []
        return [*(f"path {path}" for path in spellings(file.path)), *footer]
    if not file.path.startswith("/"):
        return [f"path {file.path}"]
    identities = [f"path {os.path.realpath(file.path)}", *_node(file.path)]
    if len(file.footer) == _DIGITS:
        return [*identities, f"{_BYTES}{file.size} {file.footer}"]
    try:
        now = pinned(file.path)
    except NotParquet:
        return identities
    return [*identities, f"{_BYTES}{now.size} {now.footer}"]


def table_in(folder: str) -> str:
    """What a table holds that writes its files into a folder."""
    return f"{_TABLE}{Path(one_spelling(folder))}"


def held_and_near(holds: Iterable[str], files: Iterable[PinnedFile]) -> tuple[set[str], set[str]]:
    """Of a relation that holds this and has these files: the folders that it holds, and what holds the same rows.

    >>> sorted(map(len, held_and_near([], [PinnedFile("/lake/visits/0.parquet", 1, "")])))
    [3, 3]
    >>> held_and_near(["table in /lake/visits"], [])
    (set(), {'files in /lake/visits'})
    """
    tables = {held.removeprefix(_TABLE) for held in holds if held.startswith(_TABLE)}
    if tables:
        return set(), {f"{_FILES}{folder}" for folder in tables}
    files = list(files)
    own = {str(Path(file.path).parent) for file in files if file.path.startswith("/")}
    real = {Path(os.path.realpath(folder)) for folder in own}
    real |= {Path(object_of(file.path)).parent for file in files if is_in_bucket(file.path)}
    folders = {str(above) for folder in real for above in (folder, *folder.parents) if above != Path()}
    return {f"{_FILES}{folder}" for folder in folders}, {f"{_TABLE}{folder}" for folder in folders}


def without_empty(cursor: duckdb.DuckDBPyConnection, shared: Mapping[str, str]) -> dict[str, str]:
    """Identities with their paths, without the bytes of files that have no row: such files of one writer are alike."""
    alike = (_BYTES, _AS_READ, _UNREAD)
    paths = sorted({path for identity, path in shared.items() if identity.startswith(alike)})
    empty: set[str] = set()
    if paths:
        with suppress(NotParquet):
            empty = without_rows(cursor, paths)
    return {identity: path for identity, path in shared.items() if not (identity.startswith(alike) and path in empty)}


def as_read(cursor: duckdb.DuckDBPyConnection, files: Iterable[PinnedFile]) -> dict[str, str]:
    """What tells files from copies in a bucket, each with its path; of one that went or is not as it was, its size.

    Of each file there is a mark, too, by which `unmarked` leaves it out.
    """
    others = [file for file in files if not _is_as_read(file)]
    here = [file.path for file in others if file.path.startswith("/") and fault_of(file.path) is None]
    footers = _footers(cursor, here)
    identities: dict[str, str] = {}
    for file in others:
        try:
            now = pinned(file.path) if file.path in footers else None
        except NotParquet:
            now = None
        identities[_mark(file)] = file.path
        if now is None or now.size != file.size or (len(file.footer) == _DIGITS and now.footer != file.footer):
            identities[f"{_UNREAD}{file.size}"] = file.path
        else:
            identities[_mark(now)] = file.path
            identities[f"{_AS_READ}{file.size} {footers[file.path]}"] = file.path
    return identities


def unmarked(identities: Iterable[str], files: Iterable[PinnedFile]) -> tuple[list[PinnedFile], set[str]]:
    """Of a source that holds this and has these files: those not in `as_read` yet, and what an earlier dpsql held so.

    >>> unmarked(["bytes 9 ab", "bytes 8 cd", "read 8 cd"], [])
    ([], {'unread 9'})
    """
    held = set(identities)
    parts = (identity.split() for identity in held if identity.startswith(_BYTES))
    unread = {f"{_UNREAD}{size}" for _, size, footer in parts if f"{_READ}{size} {footer}" not in held}
    return [file for file in files if not _is_as_read(file) and _mark(file) not in held], unread


def sizes_there(files: Iterable[PinnedFile]) -> dict[str, str]:
    """What files of a bucket share with files of which only the size is known, each with its path."""
    return {f"{_UNREAD}{file.size}": file.path for file in files if is_in_bucket(file.path)}


def without_sizes(identities: Mapping[str, str]) -> dict[str, str]:
    """Identities without marks and sizes, which tell nothing of two files that are both no bucket's."""
    return {identity: path for identity, path in identities.items() if not identity.startswith((_UNREAD, _READ))}


def _mark(file: PinnedFile) -> str:
    return f"{_READ}{file.size} {file.footer}"


def _is_as_read(file: PinnedFile) -> bool:
    """Whether the pin itself has what DuckDB reads of the footer."""
    return is_in_bucket(file.path) and len(footer_of(file)) == _DIGITS


def _footers(cursor: duckdb.DuckDBPyConnection, paths: Sequence[str]) -> dict[str, str]:
    """What DuckDB reads of the footers of those files that it can read."""
    if not paths:
        return {}
    with suppress(NotParquet, BucketRefused):
        return footers_as_read(cursor, paths)
    footers: dict[str, str] = {}
    for path in paths if len(paths) > 1 else ():
        footers |= _footers(cursor, [path])
    return footers


def one_spelling(path: str) -> str:
    """What two names of a file share, by any scheme, spelling or symbolic link.

    >>> one_spelling("s3a://lake/visits/0.parquet") == one_spelling("s3://lake/visits/0.parquet")
    True
    """
    return object_of(path) if is_in_bucket(path) else os.path.realpath(path)


def check_once(paths: Sequence[str], name: str) -> None:
    """Refuse files of which two may be the same, whose rows would count twice.

    Args:
        paths: of the files.
        name: of the argument that led to them.

    Raises:
        InvalidArgument: two lead to one file, or two schemes may do so.
    """
    if has_file_twice(paths):
        raise InvalidArgument(
            f"{name}: two of the paths lead to one file, by a link or another spelling, and its rows would count "
            "twice: name each file once"
        )
    if len({path.partition("://")[0] if is_in_bucket(path) else "" for path in paths}) > 1:
        raise InvalidArgument(
            f"{name}: the files are of several schemes, and two addresses may lead to one file: register those of each "
            "scheme under a name of their own"
        )


def has_file_twice(paths: Sequence[str]) -> bool:
    """Whether two of some paths lead to one file."""
    nodes = [identity for path in paths for identity in ([object_of(path)] if is_in_bucket(path) else _node(path))]
    return len(set(nodes)) < len(nodes)


def _node(path: str) -> list[str]:
    """Which file of the disk it is; nothing where there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116 - of thousands of files
    except OSError:
        return []
    return [f"{_NODE}{status.st_dev}:{status.st_ino}"]
