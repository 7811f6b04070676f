"""Which engine has a table's rows: the one place that names the engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.protocol import Engine
from dpsql.engines.source import HOST, Source

ENGINES: Final[Mapping[str, Callable[[Cursor], Engine]]] = MappingProxyType({HOST: DuckDBEngine})
"""For each name that `Source.engine` may be, what opens the engine beside a connection to the host."""


def engine_of(cursor: Cursor, source: Source) -> Engine:
    """The engine that has the rows of a table; the caller closes it.

    Args:
        cursor: a connection to the host of the caller's own, which the engine may use until it is closed.
        source: the table.
    """
    return ENGINES[source.engine](cursor)


def find_source(cursor: Cursor, text: str, search_path: str = "") -> Source:
    """The table that a name means; see `Engine.find`. Names are the host's, whatever engine has the rows."""
    return ENGINES[HOST](cursor).find(text, search_path)


def find_parts(cursor: Cursor, parts: Sequence[str], home: tuple[str, str], known: Source | None = None) -> Source:
    """The table that the parts of a name mean; see `Engine.find_parts`."""
    return ENGINES[HOST](cursor).find_parts(parts, home, known)
