"""Spark as an engine: rows stay in its tasks, and counts of cells come back.

CALL dp_source('visits', engine := 'spark', relation := 'bank.visits');
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Final

from dpsql.core.domain import Attribute, Domain
from dpsql.engines.costs import Rates
from dpsql.engines.duckdb.cursors import Cursor
from dpsql.engines.duckdb.stubs import files_of as pinned_files
from dpsql.engines.duckdb.units import Bound, key_of
from dpsql.engines.external import Registered, check_unit_type, has_columns
from dpsql.engines.lake.identity import table_in
from dpsql.engines.on_server import OnServer
from dpsql.engines.protocol import CountingFailed, UnitBound
from dpsql.engines.source import Source
from dpsql.engines.spark.calendar import check_calendar
from dpsql.engines.spark.counting import SparkCounter
from dpsql.engines.spark.dialect import SPARK
from dpsql.engines.spark.in_sql import SparkSqlCounter
from dpsql.engines.spark.in_tasks import TaskCounter
from dpsql.engines.spark.relation import (
    Relation,
    Snapshot,
    SnapshotGone,
    current,
    files_of,
    find_relation,
    identity_of,
    rows_of,
    seen_in,
)
from dpsql.engines.spark.session import Session
from dpsql.engines.spark.statements import key_of_tasks
from dpsql.engines.spark.versions import check_not_cached
from dpsql.engines.spark.workers import check_workers
from dpsql.engines.sql.dialect import AMONG
from dpsql.engines.sql.failures import NotCounted, TableChanged
from dpsql.engines.sql.types import UNKNOWN_IN_DUCKDB
from dpsql.errors import InvalidArgument, UnknownName

_SAID: Final = ("environment", "relation", "files")

_TIMES: Final = ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE")
_USUAL: Final = {"spark.sql.parser.escapedStringLiterals": "false", "spark.sql.groupByOrdinal": "true"}
"""Settings that change what a statement of dpsql means."""


class SparkEngine(OnServer[Session], ABC):
    """See `dpsql.engines.external.ExternalEngine`; what both ways to count have in common."""

    takes: ClassVar[frozenset[str]] = frozenset({"environment", "relation", "files", "snapshot"})
    cannot: ClassVar[Mapping[str, str]] = MappingProxyType({"among": AMONG})
    rates: ClassVar[Rates] = Rates("Spark", row=4e-6, marginal=8e-8, statement=0.5, more=1, together=True)

    def __init__(self, cursor: Cursor) -> None:
        super().__init__(cursor)
        self._counters: list[SparkCounter] = []
        self._changing = threading.Lock()

    # --- registering --------------------------------------------------------------------------------------------------

    def register(self, given: Mapping[str, Any]) -> Registered:
        """See `ExternalEngine.register`."""
        session = self._started(given)
        try:
            self._check_way(session)
            relation = find_relation(session, given)
            snapshot = current(session, relation, given.get("snapshot"))
            relation = seen_in(session, relation, rows_of(session, relation, snapshot))
            check_calendar(session, relation.kind, relation.natives.values())
            address = identity_of(session, relation)
        finally:
            self._sessions.end(session)
        settings = {key: given[key] for key in _SAID if given.get(key)}
        if relation.name:
            settings["relation"] = relation.name
        words = "files of Spark" if snapshot.version is None else f"{relation.kind} snapshot {snapshot.version}"
        pin = {
            "columns": [column.name for column in relation.columns],
            "snapshot": snapshot.version,
            "address": relation.address,
            "holds": _holds(relation),
        }
        return Registered(relation.columns, address, settings, pin, files=snapshot.files, public=words)

    def check(self, source: Source) -> None:
        """See `ExternalEngine.check`: the session runs, and the rows are those that were pinned."""
        session = self._started(_relation_words(source))
        try:
            self._check_way(session)
            self._rows(session, source)
        finally:
            self._sessions.end(session)

    # --- counting -----------------------------------------------------------------------------------------------------

    def counter(
        self,
        source: Source,
        domain: Domain,
        bound: UnitBound | None = None,
        *,
        once: bool = False,
        before: Callable[[], object] | None = None,
    ) -> SparkCounter:
        """See `Engine.counter`."""
        session = self._started(_relation_words(source))
        try:
            relation, rows, still = self._rows(session, source)
            counter = self._counter(session, source, relation, rows, domain, bound, still, before)
        except BaseException:
            self._sessions.end(session)
            raise
        with self._changing:
            self._counters.append(counter)
        return counter

    def close(self) -> None:
        """See `Engine.close`."""
        with self._changing:
            counters, self._counters = self._counters, []
        for counter in counters:
            counter.close()
        super().close()

    # --- what a way to count does -------------------------------------------------------------------------------------

    @abstractmethod
    def check_unit(self, source: Source, unit: str) -> None:
        """See `ExternalEngine.check_unit`."""

    @abstractmethod
    def _check_way(self, session: Session) -> None:
        """Refuse a session in which rows cannot be counted this way."""

    @abstractmethod
    def _counter(
        self,
        session: Session,
        source: Source,
        relation: Relation,
        rows: Any,
        domain: Domain,
        bound: UnitBound | None,
        still: Callable[[], object],
        before: Callable[[], object] | None,
    ) -> SparkCounter:
        """A counter of a DataFrame."""

    # --- sessions and snapshots ---------------------------------------------------------------------------------------

    def _started(self, given: Mapping[str, Any]) -> Session:
        return self._sessions.opened(Session(given))

    def _rows(self, session: Session, source: Source) -> tuple[Relation, Any, Callable[[], None]]:
        """The relation, the rows that were pinned, and what raises if they are not those any more.

        Raises:
            SnapshotGone: they are not.
            TableChanged: a column is missing, or of another type; columns that were added do not matter.
        """
        assert source.place is not None
        relation = _current_relation(session, source)
        snapshot = Snapshot(source.place.pinned["snapshot"], tuple(pinned_files(self._cursor, source)))
        try:
            rows = rows_of(session, relation, snapshot)
        except TableChanged:
            raise SnapshotGone(source) from None
        relation = seen_in(session, relation, rows)
        if not has_columns(source, relation.columns):
            raise TableChanged("Spark")
        check_calendar(session, relation.kind, relation.natives.values())

        def still() -> None:
            if snapshot.version is None and files_of(session, relation, rows) != snapshot.files:
                raise SnapshotGone(source)
            if relation.has_versions:
                check_not_cached(session, relation.name)

        still()
        return relation, rows, still


class SparkTaskEngine(SparkEngine):
    """`engine := 'spark'`: DuckDB counts inside the tasks."""

    def check_unit(self, source: Source, unit: str) -> None:
        """See `ExternalEngine.check_unit`."""
        check_unit_type(source, unit, "Spark")

    def _check_way(self, session: Session) -> None:
        check_workers(session)

    def _counter(
        self,
        session: Session,
        source: Source,
        relation: Relation,
        rows: Any,
        domain: Domain,
        bound: UnitBound | None,
        still: Callable[[], object],
        before: Callable[[], object] | None,
    ) -> TaskCounter:
        readable = replace(
            source, columns=tuple(column for column in source.columns if column.type != UNKNOWN_IN_DUCKDB)
        )
        if bound is None:
            return TaskCounter(session, readable, rows, domain, None, "", still, before)
        chosen = Bound(bound.column, bound.type, bound.rows, key_of_tasks())
        key = key_of(self._cursor, bound, relation.address).hex()
        return TaskCounter(session, readable, rows, domain, chosen, key, still, before)


class SparkSqlEngine(SparkEngine):
    """`engine := 'spark_sql'`: Spark's own SQL counts, where no Python may run in its tasks."""

    cannot: ClassVar[Mapping[str, str]] = SPARK.cannot
    rates: ClassVar[Rates] = Rates("Spark", row=None, marginal=5e-7, statement=0.5, more=1, together=True)

    def check_unit(self, source: Source, unit: str) -> None:
        """See `ExternalEngine.check_unit`: which rows count is drawn from a secret, and Spark logs its plans."""
        raise InvalidArgument(
            f"privacy_unit is {unit!r}: which rows of a unit count is drawn from a secret, which a statement of Spark "
            f"would show in its plans and logs. Say CALL dp_source({source.argument}, engine := 'spark', …), where the "
            "tasks choose, or copy the table into this database"
        )

    def check_domain(self, source: Source, attribute: Attribute) -> None:
        """See `ExternalEngine.check_domain`: Spark has no infinite date, so a statement with one would not be read."""
        super().check_domain(source, attribute)
        texts = (*attribute.values, *attribute.edges, *attribute.nulls_as)
        if source.column(attribute.name).type in _TIMES and any("infinity" in text for text in texts):
            raise InvalidArgument(f"{attribute.name!r}: Spark has no infinite dates: leave them out of the domain")

    def _check_way(self, session: Session) -> None:
        """Statements are written as Spark reads them unless it is told otherwise."""
        for setting, usual in _USUAL.items():
            if session.run(partial(session.spark.conf.get, setting)) != usual:
                raise NotCounted(f"{setting} changes how Spark reads statements: SET {setting} = {usual}")

    def _counter(
        self,
        session: Session,
        source: Source,
        relation: Relation,
        rows: Any,
        domain: Domain,
        bound: UnitBound | None,
        still: Callable[[], object],
        before: Callable[[], object] | None,
    ) -> SparkSqlCounter:
        if bound is not None:
            self.check_unit(source, bound.column)
        return SparkSqlCounter(session, relation, rows, domain, still, before, self._cursor)


def _holds(relation: Relation) -> list[str]:
    """The folder of a table with versions, where this machine has it: what it writes there later is its rows, too."""
    folder = relation.address.partition("#")[0]
    return [table_in(folder)] if relation.has_versions and folder.startswith("/") else []


def _relation_words(source: Source) -> Mapping[str, Any]:
    assert source.place is not None
    return source.place.relation


def _current_relation(session: Session, source: Source) -> Relation:
    """The relation of a source as it is now.

    Raises:
        TableChanged: it is not there, or it is another one.
    """
    try:
        relation = find_relation(session, _relation_words(source))
    except (CountingFailed, InvalidArgument, UnknownName) as error:
        if isinstance(error, CountingFailed) and not isinstance(error, TableChanged):
            raise
        raise TableChanged("Spark") from None
    assert source.place is not None
    if relation.address != source.place.pinned.get("address", relation.address):  # another table of that name
        raise TableChanged("Spark")
    return relation
