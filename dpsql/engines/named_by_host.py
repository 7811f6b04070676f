"""`NamedByHost`: the part of an external engine that finds tables, which is the host's: their names are its stubs'."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.core.domain import Attribute
from dpsql.core.linear_query import LinearQuery
from dpsql.engines.duckdb.catalog import find_parts, find_source
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.source import Source


class NamedByHost:
    """Finds stubs by their names; see `dpsql.engines.protocol.Engine`."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor

    def find(self, text: str, search_path: str = "") -> Source:
        """See `Engine.find`."""
        return find_source(self._cursor, text, search_path)

    def check_domain(self, source: Source, attribute: Attribute) -> None:
        """See `ExternalEngine.check_domain`: all that `check_readable` lets through is counted."""

    def check_listed(self, source: Source, column: str) -> None:
        """See `ExternalEngine.check_listed`: the values of every column that has a domain can be listed."""

    def check_sums(self, query: LinearQuery) -> None:
        """See `ExternalEngine.check_sums`: none can fail."""

    def find_parts(self, parts: Sequence[str], home: tuple[str, str], known_source: Source | None = None) -> Source:
        """See `Engine.find_parts`."""
        return find_parts(self._cursor, parts, *home, known_source=known_source)
