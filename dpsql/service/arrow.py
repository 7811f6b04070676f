"""Rows between the processes: types that Arrow carries as they are, and all others as DuckDB's text of them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any, Final

import duckdb

from dpsql.core.names import quote

from .directory import Columns
from .tokens import tokens

_PLAIN: Final = re.compile(
    r"(BOOLEAN|U?(TINYINT|SMALLINT|INTEGER|BIGINT)|FLOAT|DOUBLE|VARCHAR|BLOB|DATE|DECIMAL\([0-9,]+\)"
    r"|TIMESTAMP( WITH TIME ZONE|_S|_MS|_NS)?)(\[\])*"
)
_TEXT_ALONE: Final = frozenset({"UNION", "VARIANT"})
"""Types whose text DuckDB does not read again, nor that of a type that has one inside: they stay texts."""


def _carried(kind: str) -> str:
    """The type that a value has on its way: JSON inside another type is a text there, which has quotes."""
    words = tokens(kind)
    if any(form == "word" and word in _TEXT_ALONE for form, word in words):
        return "VARCHAR"
    return "".join("VARCHAR" if form == "word" and word == "JSON" else word for form, word in words)


def sent(query: str, columns: Sequence[tuple[str, str]]) -> str:
    """The query whose rows are sent: columns named c0, c1, … of types that Arrow has."""
    names = [f"c{number}" for number in range(len(columns))]
    shown = []
    for name, (_, kind) in zip(names, columns, strict=True):
        carried = _carried(kind)
        value = name if carried == kind else f"CAST({name} AS {carried})"
        shown.append(f"{value if _PLAIN.fullmatch(carried) else f'CAST({value} AS VARCHAR)'} AS {name}")
    return f"SELECT {', '.join(shown)} FROM ({query}\n) AS sent({', '.join(names)})"  # noqa: S608 - names of our own


def as_texts(columns: Columns) -> Columns:
    """The columns, as texts where they go as texts: for values that DuckDB does not read again, such as `{'}'=1}`."""
    return [(name, kind if _PLAIN.fullmatch(_carried(kind)) else "VARCHAR") for name, kind in columns]


def received(relation: str, columns: Columns, *, is_checked: bool = False) -> str:
    """The query that makes of such rows the columns that they were; what DuckDB cannot read again stays a text.

    Args:
        relation: the rows.
        columns: of the result.
        is_checked: whether a value fails that has another text than it had, such as one that lost a tab.
    """
    shown = []
    for number, (name, kind) in enumerate(unique(columns)):
        carried = _carried(kind)
        value = f"CAST(c{number} AS {carried})"
        if is_checked and not _PLAIN.fullmatch(carried):
            value = f"CASE WHEN {value}::VARCHAR IS DISTINCT FROM c{number} THEN error('another text') ELSE {value} END"
        is_text = kind != "JSON" and carried == "VARCHAR"
        shown.append(f"{value if is_text or carried == kind else f'CAST({value} AS {kind})'} AS {quote(name)}")
    return f"SELECT {', '.join(shown)} FROM {relation}"  # noqa: S608 - names of our own, quoted; types are DuckDB's


def empty(columns: Columns) -> str:
    """A query with these columns and no rows."""
    shown = (f"CAST(NULL AS {kind}) AS {quote(name)}" for name, kind in columns)
    return f"SELECT {', '.join(shown)} LIMIT 0"


def unique(columns: Columns) -> Columns:
    """Columns of a table must have different names."""
    seen: dict[str, int] = {}
    unique_columns = []
    for name, kind in columns:
        seen[name.lower()] = again = seen.get(name.lower(), -1) + 1
        unique_columns.append((f"{name}_{again}" if again else name, kind))
    return unique_columns


def described(cursor: duckdb.DuckDBPyConnection, query: str, parameters: Any = None) -> Columns:
    """The columns of a query, which is bound and not run."""
    try:
        answer = cursor.execute(f"DESCRIBE {query}", parameters)
    except duckdb.ParserException:  # DuckDB 1.5 describes no DESCRIBE
        answer = cursor.execute(f"DESCRIBE FROM ({query}\n)", parameters)
    return [(row[0], row[1]) for row in answer.fetchall()]


def reader(cursor: duckdb.DuckDBPyConnection, rows: int = 65_536) -> Any:
    """The rows of what a connection executed last, as a `pyarrow.RecordBatchReader`."""
    if hasattr(cursor, "to_arrow_reader"):  # DuckDB 2.0
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # that it copies rows for it
            return cursor.to_arrow_reader(rows)
    fetch: Any = getattr(cursor, "fetch_record_batch")  # noqa: B009 - DuckDB 2.0 has it no more
    return fetch(rows)
