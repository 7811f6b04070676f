"""`LakeEngine`: what plain Parquet, Delta and Iceberg have in common; each registers its snapshots in its own way.

DuckDB counts the files with the SQL by which it counts its own tables, so all questions can be asked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from types import MappingProxyType
from typing import Any, ClassVar

import duckdb
import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Attribute, Clique, Domain
from dpsql.core.linear_query import Moment, Product
from dpsql.core.marginal import Marginal, Presence
from dpsql.engines.costs import Rates
from dpsql.engines.duckdb.counting import DuckDBCounter, constant_errors
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.duckdb.sampling import codes_of
from dpsql.engines.duckdb.stubs import check_stub, files_of
from dpsql.engines.duckdb.units import bound_by_secret
from dpsql.engines.external import Registered
from dpsql.engines.lake.drawing import sample_query
from dpsql.engines.lake.refusals import BucketRefused, refusal_of
from dpsql.engines.lake.rows import close_rows, open_rows, rows_of
from dpsql.engines.lake.snapshot import changed
from dpsql.engines.named_by_host import NamedByHost
from dpsql.engines.place import PinnedFile
from dpsql.engines.protocol import CountingFailed, CountingRefused, UnitBound
from dpsql.engines.source import Source


class OtherFiles(CountingRefused):
    """A file is not what was pinned."""

    def __init__(self, source: Source) -> None:  # how many they are may tell how many values a folder's column has
        super().__init__(
            f"files of {source.name!r} are not what they were when they were pinned: restore them, and the same call "
            f"goes on; or the owner pins what is there now, CALL dp_source({source.argument})"
        )


@contextmanager
def as_pinned(cursor: Cursor, source: Source, files: Sequence[PinnedFile]) -> Iterator[None]:
    """Refuse what was read inside where files of a source are others afterwards, or where a bucket gave an error.

    Raises:
        OtherFiles: they are.
        BucketRefused: it did.
        Interrupted: also while the files are looked at.
    """
    try:
        yield
    except CountingFailed as failed:
        raise _reason(cursor, source, files, failed) from None
    with constant_errors():
        is_other = changed(cursor, files)
    if is_other:
        raise OtherFiles(source)


def _pinned_files(cursor: Cursor, source: Source) -> list[PinnedFile]:
    with constant_errors():
        return files_of(cursor, source)


def _reason(cursor: Cursor, source: Source, files: Sequence[PinnedFile], failed: CountingFailed) -> CountingFailed:
    """Why a count failed, as far as that follows from no row."""
    refused = refusal_of(failed.__context__, [file.path for file in files])
    with suppress(duckdb.Error, BucketRefused):  # a transaction may be over, and takes no statement
        if changed(cursor, files):
            return OtherFiles(source)
    return refused or failed


class FilesCounter(DuckDBCounter):
    """Counts the rows of a snapshot; gives back the view of them when it is closed."""

    _view: Source | None = None
    _pin: tuple[Source, Sequence[PinnedFile]] | None = None

    @classmethod
    def of(cls, cursor: Cursor, source: Source, *how: Any, **options: Any) -> FilesCounter:
        """A counter of the files of a source."""
        files = _pinned_files(cursor, source)
        try:
            with constant_errors():
                view = open_rows(cursor, source)  # DuckDB reads the columns of a file
        except CountingFailed as failed:
            raise _reason(cursor, source, files, failed) from None
        counter = cls(cursor, view, *how, **options)
        counter._view, counter._pin = view, (source, files)
        return counter

    def _reading(self) -> AbstractContextManager[None]:
        assert self._pin is not None
        return as_pinned(self._cursor, *self._pin)

    def marginal(self, clique: Clique) -> Marginal:
        """See `DuckDBCounter.marginal`; once codes are stored, the files are not read again."""
        if clique and self._table is not None:
            return super().marginal(clique)
        with self._reading():
            return super().marginal(clique)

    def among(self, places: np.ndarray[tuple[int], np.dtype[np.int64]]) -> DuckDBCounter:
        """See `DuckDBCounter.among`."""
        with self._reading():
            return super().among(places)

    def presence(self, clique: Clique) -> Presence:
        """See `DuckDBCounter.presence`."""
        with self._reading():
            return super().presence(clique)

    def sums(self, clique: Clique, moment: Moment | Product) -> Marginal:
        """See `DuckDBCounter.sums`."""
        with self._reading():
            return super().sums(clique, moment)

    def bins(self, attribute: Attribute) -> Marginal:
        """See `DuckDBCounter.bins`."""
        with self._reading():
            return super().bins(attribute)

    def values(self, column: str) -> tuple[list[str], np.ndarray[tuple[int], np.dtype[np.int64]]]:
        """See `DuckDBCounter.values`."""
        with self._reading():
            return super().values(column)

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
        if changed(self._cursor, files_of(self._cursor, source)):
            raise OtherFiles(source)
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
        with self._as_pinned(source), constant_errors(), rows_of(self._cursor, source) as rows:
            return codes_of(self._cursor, rows, domain, most)

    def draw(self, source: Source, target: str, share: float, secret: str, by: str | None) -> None:
        """See `ExternalEngine.draw`."""
        with self._as_pinned(source), constant_errors(), rows_of(self._cursor, source) as rows:
            self._cursor.execute(sample_query(rows, target, share, secret, by))

    def _as_pinned(self, source: Source) -> AbstractContextManager[None]:
        return as_pinned(self._cursor, source, _pinned_files(self._cursor, source))

    def interrupt(self) -> None:
        """See `Engine.interrupt`."""
        self._cursor.interrupt()

    def close(self) -> None:
        """See `Engine.close`: the connection is the host's."""
