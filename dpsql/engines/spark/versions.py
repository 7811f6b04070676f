"""Tables of Spark that keep their versions: which is the current one, and the rows of one.

rows        SELECT * FROM table VERSION AS OF n
Delta       the current version is the first of DESCRIBE HISTORY; DESCRIBE DETAIL has the table's id
Iceberg     the current snapshot is that of the branch main in table.refs; the table's id is in its metadata

A version that expired, or was vacuumed away, is not there any more; what is pinned by it is refused before the charge.
"""

from __future__ import annotations

import gzip
import json
from typing import Any, Final

from dpsql.engines.protocol import CountingFailed
from dpsql.engines.spark.failures import SessionFailed
from dpsql.engines.spark.session import Session
from dpsql.engines.sql.failures import NotCounted, TableChanged

DELTA, ICEBERG = "delta", "iceberg"
VERSIONED: Final = (DELTA, ICEBERG)
"""Kinds of tables, as Spark calls their providers."""
_CURRENT: Final = {
    DELTA: "DESCRIBE HISTORY {table} LIMIT 1",  # whose first column is the version
    ICEBERG: "SELECT snapshot_id FROM {table}.refs WHERE name = 'main'",
}
_GZIP: Final = b"\x1f\x8b"


def latest(session: Session, kind: str, name: str) -> int:
    """The version of a table that is read by its name.

    Raises:
        NotCounted: it has none yet, or it is a branch or a tag of a table, or a list that Iceberg keeps of one.
    """
    refresh(session, name)
    try:
        rows = session.run(lambda: session.spark.sql(_CURRENT[kind].format(table=name)).collect())
    except TableChanged:
        raise NotCounted(
            f"{name} is a part of a table, such as a branch, a tag or a list of its files: register the table, and "
            "name a branch's snapshot by snapshot := …, as table.refs lists it"
        ) from None
    if not rows:
        raise NotCounted("the table has no snapshot yet: write rows to it first")
    return int(rows[0][0])


def rows_at(session: Session, name: str, version: int) -> Any:
    """The rows of a version as a DataFrame, with the columns that the table had then.

    Raises:
        NotCounted: the session keeps rows of the table.
        TableChanged: Spark has it no more.
        SessionFailed: the session stopped, or has no executors.
    """
    # the condition sets plans of two versions apart, because Spark takes them for one where it keeps what it computed
    sql = f"SELECT * FROM {name} VERSION AS OF {version} WHERE {version} = {version}"  # noqa: S608
    check_not_cached(session, name)
    try:
        refresh(session, name)
        return session.run(lambda: session.spark.sql(sql))
    except SessionFailed:
        raise
    except CountingFailed:  # for a snapshot that expired Iceberg has another error than for a table that is gone
        raise TableChanged("Spark") from None


def check_not_cached(session: Session, name: str) -> None:
    """Refuse a table that the session caches, because Spark would read the cached rows, whatever the version is.

    Raises:
        NotCounted: says how to end it.
    """
    if session.run(lambda: session.spark.catalog.isCached(name)):
        raise NotCounted(f"{name} is cached, so Spark would not read the pinned snapshot: UNCACHE TABLE {name}")


def identity(session: Session, kind: str, name: str, location: str) -> str:
    """What tells a table from all others: the id that its engine without Spark has, so that rows have one budget.

    Of an Iceberg table whose metadata Spark's own reader of files does not reach, it is where the table is.
    """
    if kind == DELTA:
        (detail,) = session.run(lambda: session.spark.sql(f"DESCRIBE DETAIL {name}").collect())
        return str(detail["id"])
    files = f"SELECT max_by(file, timestamp) FROM {name}.metadata_log_entries"  # noqa: S608

    def content() -> bytes:
        ((path,),) = session.spark.sql(files).collect()
        ((raw,),) = session.spark.read.format("binaryFile").load(path).select("content").collect()
        return bytes(raw)

    try:
        raw = session.run(content)
        return str(json.loads(gzip.decompress(raw) if raw.startswith(_GZIP) else raw)["table-uuid"])
    except SessionFailed:
        raise
    except (CountingFailed, KeyError, ValueError, OSError):
        return location


def refresh(session: Session, name: str) -> None:
    """Look at a table anew, because a session may remember it as it was before others wrote."""
    session.run(lambda: session.spark.catalog.refreshTable(name))
