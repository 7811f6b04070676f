"""Which rows a delete file of Iceberg lists, compared with what its manifest says: paths and places, or one vector.

    vector of a data file  =  bytes of the file from content_offset on, content_size_in_bytes long

A file may have vectors that no manifest names any more, so each entry is read alone. Nothing of a list's own leaves in
an error: it may be of any type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import duckdb
import numpy as np
import numpy.typing as npt

from dpsql.engines.lake.addresses import check_paths
from dpsql.engines.lake.refusals import in_words, refusal_of
from dpsql.engines.lake.roaring import decoded, unframed
from dpsql.errors import InvalidArgument

Places = npt.NDArray[np.int64]
MENDED: Final = (
    "rewrite its data files, as by CALL system.rewrite_data_files(table => …, options => map('rewrite-all', 'true')) "
    "in Spark, and register the table again"
)
_TYPES: Final = ({"VARCHAR"}, {"BIGINT", "INTEGER"})
_UNREAD: Final = (
    f"a deletion vector of the snapshot cannot be read, or deletes rows that its data file does not have: {MENDED}"
)


@dataclass(frozen=True)
class File:
    """An entry of a manifest: the file, how new it is, what it holds, where its rows belong, of what it is."""

    path: str
    newness: int
    content: int
    format: str
    rows: int
    partition: tuple[int, tuple[Any, ...]]
    of: str | None = None
    offset: int | None = None
    length: int | None = None


def of_file(cursor: duckdb.DuckDBPyConnection, io: Any, delete: File) -> dict[str, Places]:
    """The rows that a file of paths and places lists, by data file.

    Raises:
        InvalidArgument: it cannot be read, or lists another number of them than its manifest says.
    """
    path = io.here(delete.path)
    check_paths([path])
    sql = (
        "SELECT file_path, list(pos ORDER BY pos), any_value(typeof(file_path)), any_value(typeof(pos)), count(pos) "
        "FROM read_parquet(?, hive_partitioning := false) GROUP BY file_path"
    )
    rows = None
    if delete.format == "PARQUET":
        try:
            rows = cursor.execute(sql, [[path]]).fetchall()
        except duckdb.InterruptException:
            raise
        except duckdb.Error as error:
            if (refused := refusal_of(error, [path])) is not None:
                raise refused from None
    if (
        rows is None
        or any(name is None or text not in _TYPES[0] or kind not in _TYPES[1] for name, _, text, kind, _ in rows)
        or any(len(places) != count for _, places, *_, count in rows)
        or sum(len(places) for _, places, *_ in rows) != delete.rows
    ):
        raise InvalidArgument(
            f"a delete file of the snapshot cannot be read, or is not what its manifest says: {MENDED}"
        )
    return {name: np.array(places, dtype=np.int64) for name, places, *_ in rows}


def of_vector(io: Any, delete: File, rows: int) -> Places:
    """The rows that a deletion vector lists.

    Args:
        io: which opens its file.
        delete: its entry.
        rows: of its data file.

    Raises:
        InvalidArgument: it cannot be read, or lists another number of rows than its manifest says.
    """
    with in_words(_UNREAD), io.new_input(delete.path).open() as stream:
        stream.seek(delete.offset)
        places = decoded(unframed(stream.read(delete.length)), rows)
    if len(places) != delete.rows:
        raise InvalidArgument(f"a deletion vector deletes another number of rows than its manifest says: {MENDED}")
    return places
