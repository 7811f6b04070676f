"""`LakeEngine`: what plain Parquet, Delta and Iceberg have in common; each registers its snapshots in its own way.

DuckDB counts the files with the SQL by which it counts its own tables, so all questions can be asked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Domain
from dpsql.engines.costs import Rates
from dpsql.engines.duckdb.counting import DuckDBCounter, constant_errors
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.duckdb.sampling import codes_of
from dpsql.engines.duckdb.stubs import check_stub, files_of
from dpsql.engines.duckdb.units import bound_by_secret
from dpsql.engines.external import Registered
from dpsql.engines.lake.drawing import sample_query
from dpsql.engines.lake.files import changed
from dpsql.engines.lake.rows import close_rows, open_rows, rows_of
from dpsql.engines.named_by_host import NamedByHost
from dpsql.engines.protocol import UnitBound
from dpsql.engines.source import Source
from dpsql.errors import DpsqlError


class FilesCounter(DuckDBCounter):
    """Counts the rows of a snapshot; gives back the view of them when it is closed."""

    _view: Source | None = None

    @classmethod
    def of(cls, cursor: Cursor, source: Source, *how: Any, **options: Any) -> FilesCounter:
        """A counter of the files of a source."""
        with constant_errors():
            view = open_rows(cursor, source)
        counter = cls(cursor, view, *how, **options)
        counter._view = view
        return counter

    def close(self) -> None:
        """See `TableCounter.close`."""
        super().close()
        if self._view is not None:
            close_rows(self._cursor, self._view)
            self._view = None


class LakeEngine(NamedByHost, ABC):
    """See `dpsql.engines.external.ExternalEngine`; counts on a connection of the host, which it does not close."""

    takes: ClassVar[frozenset[str]] = frozenset({"sample", "rows", "identity"})
    cannot: ClassVar[Mapping[str, str]] = MappingProxyType({})
    rates: ClassVar[Rates] = Rates("DuckDB", row=1e-7, marginal=1.3e-8)

    def __init__(self, cursor: Cursor) -> None:
        super().__init__(cursor)
        self._checked: Source | None = None

    @abstractmethod
    def register(self, given: Mapping[str, Any]) -> Registered:
        """See `ExternalEngine.register`."""

    def check(self, source: Source) -> None:
        """See `Engine.check`."""
        check_stub(source)
        if changed(files_of(self._cursor, source)):  # how many they are may tell how many values a folder's column has
            raise DpsqlError(
                f"files of {source.name!r} are not what they were when they were pinned: restore them, and the same "
                f"call goes on; or the owner pins what is there now, CALL dp_source({source.name!r})"
            )
        self._checked = source

    def check_unit(self, source: Source, unit: str) -> None:
        """See `ExternalEngine.check_unit`: any column can be a unit, as in a table of DuckDB's own."""

    def counter(
        self,
        source: Source,
        domain: Domain,
        bound: UnitBound | None = None,
        *,
        once: bool = False,
        before: Callable[[], object] | None = None,
    ) -> FilesCounter:
        """See `Engine.counter`."""
        if self._checked != source:
            self.check(source)
        chosen = None if bound is None else bound_by_secret(bound)
        return FilesCounter.of(self._cursor, source, domain, chosen, once=once, before=before)

    def codes(self, source: Source, domain: Domain, most: int) -> tuple[npt.NDArray[np.int32], int]:
        """See `Engine.codes`."""
        self.check(source)
        with constant_errors(), rows_of(self._cursor, source) as rows:
            return codes_of(self._cursor, rows, domain, most)

    def draw(self, source: Source, target: str, share: float, secret: str, by: str | None) -> None:
        """See `ExternalEngine.draw`."""
        with constant_errors(), rows_of(self._cursor, source) as rows:
            self._cursor.execute(sample_query(rows, target, share, secret, by))

    def interrupt(self) -> None:
        """See `Engine.interrupt`."""
        self._cursor.interrupt()

    def close(self) -> None:
        """See `Engine.close`: the connection is the host's."""
