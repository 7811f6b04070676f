"""`WarehouseEngine`: rows stay in a warehouse of the owner's, and counts of groups come back over ADBC.

A warehouse is this class with a `Dialect`. The tests never asked Snowflake or BigQuery, because they have no account
there: they compare the statements with texts, and run them in DuckDB. So each domain is tried on constants when it is
declared (`probe`), and counts that cannot be are refused (`checked`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NoReturn

from sqlglot import exp
from sqlglot.errors import SqlglotError

from dpsql.core.domain import Attribute, Domain
from dpsql.core.linear_query import LinearQuery
from dpsql.core.names import shorten
from dpsql.engines.external import Registered, check_case, has_columns
from dpsql.engines.on_server import OnServer
from dpsql.engines.protocol import CountingFailed, UnitBound
from dpsql.engines.source import Column, Source
from dpsql.engines.sql.codes import check_written
from dpsql.engines.sql.counter import SqlCounter
from dpsql.engines.sql.counts import every_row
from dpsql.engines.sql.database import Database
from dpsql.engines.sql.dialect import SUMS, Dialect
from dpsql.engines.sql.failures import CannotCount, NotCounted, OtherPlace, TableChanged
from dpsql.engines.sql.options import named_in, options_of
from dpsql.engines.sql.probe import check_codes
from dpsql.engines.sql.session import Session
from dpsql.engines.sql.types import NO_DOMAIN, Native
from dpsql.errors import InvalidArgument, InvalidQuery, UnknownName

UNITS: Final = "protect it without privacy_unit, where one row is one person's, or copy the table into this database"
_TABLES: Final = ("BASE TABLE", "TABLE")


class WarehouseEngine(OnServer[Session]):
    """See `dpsql.engines.external.ExternalEngine`; each counter has a connection to the warehouse of its own.

    Attributes:
        dialect: of the warehouse.
    """

    dialect: ClassVar[Database]
    takes: ClassVar[frozenset[str]] = frozenset({"environment", "relation"})
    cannot: ClassVar[Mapping[str, str]] = Dialect.cannot

    # --- registering --------------------------------------------------------------------------------------------------

    def register(self, given: Mapping[str, Any]) -> Registered:
        """See `ExternalEngine.register`."""
        words = {key: given[key] for key in ("environment", "relation") if given.get(key)}
        parts = self._parts(words.get("relation"))
        session = self._connected(words)
        try:
            relation, columns = self._located(session, parts)
            account = self._account(session)
            self._try(session, relation)
        finally:
            self._sessions.end(session)
        return Registered(
            columns=columns,
            address=f"{account}/{relation.table().sql(dialect=self.dialect.sqlglot)}",
            relation=words,
            pin={"account": account},
            public=f"the rows that {self.dialect.label} has when a release counts them",
        )

    def check(self, source: Source) -> None:
        """See `ExternalEngine.check`: the warehouse answers, and the table is as it was."""
        session = self._connected(_relation_words(source))
        try:
            self._try(session, self._same(session, source))
        finally:
            self._sessions.end(session)

    def check_unit(self, source: Source, unit: str) -> NoReturn:
        """See `ExternalEngine.check_unit`: there are none, because their secret would be in the warehouse's history."""
        raise InvalidArgument(
            f"privacy_unit is {unit!r}: rows of a privacy unit are not chosen in {self.dialect.label}; {UNITS}"
        )

    def check_domain(self, source: Source, attribute: Attribute) -> None:
        """See `ExternalEngine.check_domain`: it can be written, and means the same there."""
        super().check_domain(source, attribute)
        session = self._connected(_relation_words(source))
        try:
            relation = self._same(session, source)
            native = relation.natives[attribute.name]
            check_written(attribute, native, self.dialect)
            check_codes(session, self.dialect, native, attribute, self._cursor)
        finally:
            self._sessions.end(session)

    def check_listed(self, source: Source, column: str) -> None:
        """See `ExternalEngine.check_listed`: not of floats, because equal ones may be written in two ways."""
        if source.column(column).type == "DOUBLE":
            raise InvalidArgument(
                f"{column!r} holds binary floats, which {self.dialect.label} does not tell apart as DuckDB does: give "
                "lower, upper and bins in place of discover"
            )

    def check_sums(self, query: LinearQuery) -> None:
        """See `ExternalEngine.check_sums`."""
        if query.moments:
            raise InvalidQuery(f"sums and averages are not computed in {self.dialect.label}: {SUMS}")

    # --- counting -----------------------------------------------------------------------------------------------------

    def counter(
        self,
        source: Source,
        domain: Domain,
        bound: UnitBound | None = None,
        *,
        once: bool = False,
        before: Callable[[], object] | None = None,
    ) -> SqlCounter:
        """See `Engine.counter`."""
        if bound is not None:
            self.check_unit(source, bound.column)
        session = self._connected(_relation_words(source))
        try:
            relation = self._same(session, source)
            snapshot = str(session.rows(self.dialect.now())[0][0])
            table = self.dialect.at(relation.table(), snapshot)
            return SqlCounter(session, self.dialect, table, relation.natives, domain, self._cursor, before)
        except BaseException:
            self._sessions.end(session)
            raise

    # --- the table ----------------------------------------------------------------------------------------------------

    def _connected(self, words: Mapping[str, Any]) -> Session:
        arguments, keywords = self.dialect.connecting(options_of(words))
        return self._sessions.opened(Session(self.dialect, arguments, keywords, named_in(words)))

    def _parts(self, text: str | None) -> tuple[str, ...]:
        """The parts of a relation's whole name."""
        dialect = self.dialect
        try:
            table = exp.to_table(text or "", dialect=dialect.sqlglot)
        except (SqlglotError, ValueError):
            table = exp.Table()
        parts = [table.args.get(part) for part in ("catalog", "db", "this")]
        stored_parts = tuple(dialect.stored(part) for part in parts if isinstance(part, exp.Identifier))
        if len(stored_parts) != dialect.parts:
            problem = "is missing" if text is None else f"is {shorten(text)!r}"
            raise InvalidArgument(
                f"relation {problem}: give relation := '{dialect.example}', all {dialect.parts} parts of the name"
            )
        return stored_parts

    def _account(self, session: Session) -> str:
        return str(session.rows(self.dialect.identity())[0][0])

    def _located(self, session: Session, parts: tuple[str, ...]) -> tuple[Relation, tuple[Column, ...]]:
        """A table with its columns.

        Raises:
            UnknownName: there is none, or the user may not see it.
            NotCounted: it is a view, or two columns differ in case only.
        """
        label = self.dialect.label
        try:
            rows = session.rows(self.dialect.columns(parts))
        except CountingFailed:
            rows = []
        if not rows:
            raise UnknownName(
                f"there is no table {'.'.join(parts)!r} in {label} that this user may see: give relation := "
                f"'{self.dialect.example}'"
            )
        if rows[0][7] not in _TABLES:
            raise NotCounted(f"{'.'.join(parts)!r} is no table but a view or the like: name a table of {label}")
        check_case([row[0] for row in rows], NotCounted, " of the table")
        natives: dict[str, Native] = {}
        for name, kind, _, digits, scale, collation, computed, _ in rows:
            native = self.dialect.native(str(kind), _whole(digits), _whole(scale))
            natives[name] = NO_DOMAIN if collation or computed == "YES" else native  # an expression may fail on a value
        columns = tuple(Column(row[0], natives[row[0]].in_duckdb, nullable=row[2] != "NO") for row in rows)
        return Relation(parts, natives), columns

    def _try(self, session: Session, relation: Relation) -> None:
        """Count no row of a snapshot, as a release would count all: what the warehouse refuses then costs nothing.

        Raises:
            CannotCount: it does.
        """
        snapshot = str(session.rows(self.dialect.now())[0][0])
        try:
            session.count(every_row(self.dialect.at(relation.table(), snapshot)).where(exp.false()))
        except CountingFailed:
            raise CannotCount(self.dialect.label) from None

    def _same(self, session: Session, source: Source) -> Relation:
        """The table of a source as it is now.

        Raises:
            OtherPlace: the options lead to another one.
            TableChanged: a column is missing, or of another type; columns that were added do not matter.
        """
        assert source.place is not None
        label, words = self.dialect.label, _relation_words(source)
        try:
            relation, columns = self._located(session, self._parts(words["relation"]))
        except (UnknownName, NotCounted):
            raise TableChanged(label) from None
        if self._account(session) != source.place.pinned["account"]:
            raise OtherPlace(named_in(words), f"account of {label}")
        if not has_columns(source, columns):
            raise TableChanged(label)
        return relation


@dataclass(frozen=True)
class Relation:
    """A table of a warehouse.

    Attributes:
        parts: of its whole name, as the catalogue has them; the last is the table's own.
        natives: the types of its columns, by name.
    """

    parts: tuple[str, ...]
    natives: Mapping[str, Native]

    def table(self) -> exp.Table:
        """It as an expression."""
        above = [exp.to_identifier(part, quoted=True) for part in self.parts]
        name, schema, database = above.pop(), above.pop(), above.pop() if above else None
        return exp.Table(this=name, db=schema, catalog=database)


def _relation_words(source: Source) -> Mapping[str, Any]:
    assert source.place is not None
    return source.place.relation


def _whole(number: Any) -> int | None:
    return None if number is None else int(number)
