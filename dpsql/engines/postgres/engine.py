"""Postgres as an engine: rows stay in a server of the owner's, and counts of groups come back.

CALL dp_source('adult', engine := 'postgres', environment := 'BANK_PG', relation := 'public.adult');
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from dpsql.core.domain import Domain
from dpsql.core.linear_query import Choice, LinearQuery
from dpsql.engines.costs import Rates
from dpsql.engines.duckdb.units import key_of
from dpsql.engines.external import Registered, check_unit_type, has_columns
from dpsql.engines.on_server import OnServer
from dpsql.engines.postgres.catalog import Relation, find_relation
from dpsql.engines.postgres.counting import PostgresCounter, make_cuboid
from dpsql.engines.postgres.dialect import POSTGRES
from dpsql.engines.postgres.failures import OtherTable
from dpsql.engines.postgres.formulas import check_steps
from dpsql.engines.postgres.session import PostgresSession
from dpsql.engines.postgres.units import Bound
from dpsql.engines.postgres.words import named_in, words_of
from dpsql.engines.protocol import UnitBound
from dpsql.engines.source import Source
from dpsql.engines.sql.failures import OtherPlace, TableChanged
from dpsql.errors import InvalidArgument, UnknownName

_PUBLIC: Final = "the rows that Postgres has when a release counts them"


class PostgresEngine(OnServer[PostgresSession]):
    """See `dpsql.engines.external.ExternalEngine`; each counter has a connection to Postgres of its own."""

    takes: ClassVar[frozenset[str]] = frozenset({"environment", "secret", "relation", "identity"})
    cannot: ClassVar[Mapping[str, str]] = POSTGRES.cannot
    rates: ClassVar[Rates] = Rates(
        "Postgres",
        row=1.5e-6,
        marginal=1.3e-7,
        column=1.2e-8,
        exact=1.6e-7,
        cell=2.3e-6,
        choice=2e-6,
        more=4,
        whole_rows=True,
    )

    # --- registering --------------------------------------------------------------------------------------------------

    def register(self, given: Mapping[str, Any]) -> Registered:
        """See `ExternalEngine.register`; without `identity` it is the primary key."""
        if not given.get("relation"):
            raise InvalidArgument("relation is missing: give relation := 'schema.table', the table in Postgres")
        session = self._connected(given)
        try:
            relation = find_relation(session, given["relation"])
        finally:
            self._sessions.end(session)
        identity = _identity_of(relation, given.get("identity"))
        words = {key: given[key] for key in ("environment", "secret") if given.get(key)}
        there = {"cluster": relation.cluster, "database": relation.database}
        pin = there | {"number": relation.number, "holds": list(relation.holds)}
        return Registered(
            columns=relation.columns,
            address="/".join([*there.values(), relation.text]),
            relation=words | {"relation": relation.text},
            pin=pin,
            within=relation.within,
            identity=identity,
            public=_PUBLIC,
        )

    def check(self, source: Source) -> None:
        """See `ExternalEngine.check`: the server answers, and the table is as it was."""
        session = self._connected(_relation_of(source))
        try:
            _current_relation(session, source)
        finally:
            self._sessions.end(session)

    def check_unit(self, source: Source, unit: str) -> None:
        """See `ExternalEngine.check_unit`."""
        check_unit_type(source, unit, "Postgres")
        if source.place is not None and not source.place.identity:
            raise InvalidArgument(
                f"privacy_unit is {unit!r}: of the rows of a unit dpsql chooses by what tells rows apart, and "
                f"{source.name!r} has no primary key in Postgres. Say CALL dp_source({source.argument}, …, identity := "
                "'…') again with columns of a UNIQUE constraint that are NOT NULL"
            )

    def check_sums(self, query: LinearQuery) -> None:
        """See `ExternalEngine.check_sums`."""
        for moment in query.moments.values():
            for part in moment.moments if isinstance(moment, Choice) else (moment,):
                check_steps(query.domain, part)

    # --- counting -----------------------------------------------------------------------------------------------------

    def counter(
        self,
        source: Source,
        domain: Domain,
        bound: UnitBound | None = None,
        *,
        once: bool = False,
        before: Callable[[], object] | None = None,
    ) -> PostgresCounter:
        """See `Engine.counter`."""
        session = self._connected(_relation_of(source))
        try:
            relation = _current_relation(session, source)
            if not once and len(domain) and relation.has_temporary:
                make_cuboid(session, domain)
            session.begin(relation.table(), may_lock=relation.whole)
            relation = _current_relation(session, source)  # which others cannot change any more
            chosen = None if bound is None else self._bound(bound, relation, source)
            return PostgresCounter(session, relation, domain, chosen, self._cursor, once=once, before=before)
        except BaseException:
            self._sessions.end(session)
            raise

    def codes(self, source: Source, domain: Domain, most: int) -> tuple[npt.NDArray[np.int32], int]:
        """See `Engine.codes`: tuples of codes come, with how many rows have each; of many rows every so many-th."""
        counter = self.counter(source, domain, once=True)
        try:
            total = int(counter.marginal(()).counts[0])
            places = np.arange(most) * total // most if total > most else None
            codes, counts = counter.alike(places)
        finally:
            counter.close()
        return np.repeat(codes, counts, axis=0), total

    def _connected(self, given: Mapping[str, Any]) -> PostgresSession:
        return self._sessions.opened(PostgresSession(words_of(self._cursor, given), named_in(given)))

    def _bound(self, bound: UnitBound, relation: Relation, source: Source) -> Bound:
        identity = () if source.place is None else source.place.identity
        if {*identity} not in map(set, relation.unique):
            raise TableChanged(POSTGRES.label)
        key = key_of(self._cursor, bound, relation.text)
        return Bound(bound.column, relation.natives[bound.column], bound.rows, identity, key)


def _relation_of(source: Source) -> Mapping[str, Any]:
    assert source.place is not None
    return source.place.relation


def _identity_of(relation: Relation, given: str | list[str] | None) -> tuple[str, ...]:
    """The columns that tell rows apart, as Postgres spells them.

    Raises:
        InvalidArgument: they do not.
    """
    if not given:
        return relation.unique[0] if relation.primary else ()
    wanted = {given} if isinstance(given, str) else {*given}
    for names in relation.unique:
        if {*names} == wanted:
            return names
    candidates = "; ".join(", ".join(names) for names in relation.unique) or "none"
    raise InvalidArgument(
        f"identity is {given!r}: these are not the columns of a primary key or of a UNIQUE constraint, NOT NULL, of "
        f"{relation.text}; there are: {candidates}"
    )


def _current_relation(session: PostgresSession, source: Source) -> Relation:
    """The table of a source as it is now.

    Raises:
        OtherPlace: the words lead to another server or database.
        OtherTable: another table has its name, or tables joined it as partitions or by inheritance.
        TableChanged: a column is missing, or of another type; columns that were added do not matter.
    """
    assert source.place is not None
    words, pinned = source.place.relation, source.place.pinned
    try:
        relation = find_relation(session, words["relation"])
    except UnknownName:
        raise TableChanged(POSTGRES.label) from None
    if (relation.cluster, relation.database) != (pinned["cluster"], pinned["database"]):
        raise OtherPlace(named_in(words), "server or database")
    if relation.number != pinned.get("number") or not {*relation.holds} <= {*pinned["holds"]}:
        raise OtherTable
    if not has_columns(source, relation.columns):
        raise TableChanged(POSTGRES.label)
    return relation
