"""What pyspark 3.5 and 4 call by different names.

an Arrow table of a DataFrame      toArrow of 4; in 3.5 the steps that its toPandas begins with
a log of its own                   4 only
"""

from __future__ import annotations

import logging
from typing import Any


def arrow_of(rows: Any) -> Any:
    """A DataFrame's rows as an Arrow table."""
    if hasattr(rows, "toArrow"):
        return rows.toArrow()
    if hasattr(rows, "_collect_as_arrow"):
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        batches = rows._collect_as_arrow()  # noqa: SLF001 - 3.5 has no other way that is as fast
        return pa.Table.from_batches(batches) if batches else to_arrow_schema(rows.schema).empty_table()
    client = rows._session.client  # noqa: SLF001 - the same
    table, _ = client.to_table(rows._plan.to_proto(client))  # noqa: SLF001
    return table


def add_tag(session: Any, tag: str) -> None:
    """Tag what this thread runs from now on."""
    context = _context_of_tags(session)
    session.addTag(tag) if context is None else context.addJobTag(tag)


def remove_tag(session: Any, tag: str) -> None:
    """Tag nothing more."""
    context = _context_of_tags(session)
    session.removeTag(tag) if context is None else context.removeJobTag(tag)


def interrupt_tag(session: Any, tag: str) -> None:
    """End what runs under a tag, from any thread."""
    context = _context_of_tags(session)
    session.interruptTag(tag) if context is None else context.cancelJobsWithTag(tag)


def loggers() -> list[logging.Logger]:
    """Those to which pyspark writes errors, which may quote rows."""
    try:
        from pyspark.logger import PySparkLogger
    except ImportError:
        return []
    return [PySparkLogger.getLogger(name) for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger")]


def _context_of_tags(session: Any) -> Any:
    """The context that has the tags; None of a remote session, which has them itself.

    Of a session in this process 4 has tags, too, but each thread has its own, and another could not end what runs.
    """
    return getattr(session, "sparkContext", None)
