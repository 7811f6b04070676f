"""PostgreSQL's catalogue in a file without a name, which each process of a user copies into its DuckDB.

DuckDB binds each of the 211 views and 144 macros as it is made, which takes ten times as long as to copy all of them.
"""

from __future__ import annotations

import json
import os
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

from . import catalogue, copies

_NAME = "dpsql_catalogue"


def write(served: Sequence[Mapping[str, Any]]) -> int:
    """Write the catalogue in a process of its own, because who forks others may have no threads, as DuckDB has.

    Args:
        served: the dp_* functions with their parameters, as the keeper tells them.

    Returns:
        A descriptor of the file. Processes that are forked later have it, too, and know DuckDB's macros.

    Raises:
        OSError: it was not written.
    """
    with tempfile.TemporaryDirectory(prefix="dpsql-") as folder:
        path = Path(folder, "catalogue")
        process = os.fork()
        if not process:
            status = 1
            try:
                _write(path, served)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        if os.waitpid(process, 0)[1]:
            raise OSError("the catalogue was not written: what happened stands above")
        copies.know(json.loads(_macros_beside(path).read_text()))
        return os.open(path, os.O_RDONLY)


def _macros_beside(path: Path) -> Path:
    return path.with_suffix(".json")


def _write(path: Path, served: Sequence[Mapping[str, Any]]) -> None:
    with duckdb.connect() as connection:
        _macros_beside(path).write_text(json.dumps(copies.list_macros(connection)))  # before there are any of ours
        catalogue.make(connection, served)
        connection.execute(f"ATTACH '{path}' AS {_NAME}")
        connection.execute(f"COPY FROM DATABASE memory TO {_NAME}")
        connection.execute(f"DETACH {_NAME}")


def copy(connection: duckdb.DuckDBPyConnection, file: int) -> None:
    """Have the catalogue of a file, before the settings are locked; `file` is its descriptor."""
    connection.execute(f"ATTACH '/dev/fd/{file}' AS {_NAME} (READ_ONLY)")
    connection.execute(f"COPY FROM DATABASE {_NAME} TO memory")
    connection.execute(f"DETACH {_NAME}")
