"""Columns in memory as a table of a connection, without pandas, which takes a quarter of a second to load.

DuckDB reads numbers where they are. Texts become a temporary table, because DuckDB 1.5.5 fails on an array of objects
of which it sees NULL alone in its sample.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol

import duckdb
import numpy as np
import numpy.typing as npt

Columns = Mapping[str, npt.NDArray[Any]]
"""Numbers, or texts as objects, None for NULL; all of the same length."""


class Connection(Protocol):
    """As much of a connection as public values need: DuckDB's own, or that of `dpsql.evaluation.sandbox`."""

    def execute(self, query: str, parameters: Any = None) -> Any:
        """Run a statement."""

    def register(self, view_name: str, python_object: Any) -> Any:
        """Columns of numbers as a table."""

    def unregister(self, view_name: str) -> Any:
        """The table is no more."""


def length(columns: Columns) -> int:
    """The number of rows."""
    return len(next(iter(columns.values())))


@contextmanager
def shown_as(cursor: Connection, name: str, columns: Columns) -> Iterator[None]:
    """While inside, the connection has a table of this name.

    Args:
        cursor: the connection.
        name: of the table: ours, like those of its columns, so that neither needs quotes.
        columns: at least one.
    """
    texts = {column: values for column, values in columns.items() if values.dtype == object}
    if not texts:
        cursor.register(name, dict(columns))
        try:
            yield
        finally:
            with suppress(duckdb.Error):  # an interrupt may have closed the connection before; the table went with it
                cursor.unregister(name)
        return
    distinct, numbers = {}, dict(columns)
    for column, values in texts.items():
        distinct[column], numbers[column] = _numbered(values)
    listed = [f"CAST(${c} AS VARCHAR[])[{c}] AS {c}" if c in distinct else c for c in columns]
    try:
        with shown_as(cursor, f"{name}_numbers", numbers):
            cursor.execute(
                f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT {', '.join(listed)} FROM {name}_numbers",  # noqa: S608
                distinct,
            )
        yield
    finally:
        with suppress(duckdb.Error):  # the connection may be broken; then the table goes with it
            cursor.execute(f"DROP TABLE IF EXISTS temp.{name}")


def _numbered(values: npt.NDArray[Any]) -> tuple[list[Any], npt.NDArray[np.int64]]:
    """The distinct values, and which one each is, from 1 on.

    >>> _numbered(np.array(["b", None, "a", "b"], object))
    (['b', None, 'a'], array([1, 2, 3, 1]))
    """
    numbers: dict[Any, int] = {}
    places = [numbers.setdefault(value, len(numbers) + 1) for value in values.tolist()]
    return list(numbers), np.array(places, np.int64)


def from_rows(rows: Sequence[Sequence[str | None]], names: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """Columns of texts from rows of them.

    >>> from_rows([("a", None), ("b", "c")], ["x", "y"])["y"].tolist()
    [None, 'c']
    """
    table = np.empty((len(rows), len(names)), object)
    for number, row in enumerate(rows):
        table[number] = row
    return {name: table[:, place] for place, name in enumerate(names)}
