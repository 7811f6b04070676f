"""Rows of a file that its table no longer has, as the books keep them: of each file a bit for each row, in base64.

1 where the row is deleted

00011001 00001111     of 12 rows, counted from 0, rows 3, 4 and 7 are deleted; no row has the last four bits
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence

import duckdb
import numpy as np
import numpy.typing as npt

from dpsql.engines.lake.refusals import refusal_of


def bits(places: npt.NDArray[np.int64], length: int) -> str:
    """A bit for each row, 1 where it is deleted; the last byte is filled with 1.

    >>> bits(np.array([3, 4, 7]), 12)
    'GQ8='
    """
    of_rows = np.ones(length + -length % 8, dtype=bool)
    of_rows[:length] = False
    of_rows[places] = True
    return b64encode(np.packbits(of_rows).tobytes()).decode()


def lengths(cursor: duckdb.DuckDBPyConnection, paths: Sequence[str]) -> dict[str, int]:
    """How many rows each file has, by the name that DuckDB gives it; nothing where one cannot be read.

    Raises:
        BucketRefused: a bucket does not give one.
    """
    try:
        rows = cursor.execute("SELECT file_name, num_rows FROM parquet_file_metadata(?)", [list(paths)]).fetchall()
    except duckdb.InterruptException:
        raise
    except duckdb.Error as error:
        if (refused := refusal_of(error, paths)) is not None:
            raise refused from None
        return {}
    return dict(rows)
