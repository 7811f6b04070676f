"""What one user of the service may do, for whoever serves them: all checks are here and below, none is the caller's.

A user is only a name here. Every call looks anew whether they may do it: when it is bound, in the transaction that
charges, and before rows are handed over. So a user who is revoked gets nothing more, whatever was bound before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from dpsql.api.arguments import arguments_of
from dpsql.api.errors import needs, own_errors
from dpsql.books.ledger.chain import Link
from dpsql.books.ledger.unchanged import point, still
from dpsql.books.people.people import require_person
from dpsql.books.people.published_tables import Shown, shown_to, tables_of
from dpsql.books.people.visible_names import askable_sources
from dpsql.books.releases.keys import Key, keys_of
from dpsql.books.releases.releases import Entry, find_releases, rows_table
from dpsql.core.names import shorten
from dpsql.core.roles import SERVED, role_for
from dpsql.engines.source import Source
from dpsql.errors import DpsqlError, NotAllowed, UnknownName
from dpsql.release.domains import ColumnDomain, public_domains
from dpsql.runtime.progress import Progress
from dpsql.udfs import FUNCTIONS
from dpsql.udfs.bridge.declare import Call, Relation
from dpsql.udfs.extension import Instance
from dpsql.udfs.interrupts import reporting
from dpsql.udfs.of_users import books_of

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH: Final = 100_000

Columns = tuple[tuple[str, str], ...]
"""Names of columns and their DuckDB types."""
Shape = Callable[[str, Columns], str]
"""What is made of a query with these columns before its rows are read, such as casts to types that Arrow has."""


@dataclass(frozen=True)
class Published:
    """A released table that a user is shown.

    Attributes:
        name: under which they read it; that of a linked release has its schema before it.
        columns: of it.
        rows: how many it has.
        comment: what the owner says of it.
        guarantee: in words: the loss, and for which neighbours.
        mechanism: how it was made.
        version: another text when the name stands for other rows.
        audience: another text when others are shown it.
        schema: of a linked release; empty of others.
        keys: of a table of a linked release.
        required: its columns that are NOT NULL in the table that it stands for.
    """

    name: str
    columns: Columns
    rows: int
    comment: str
    guarantee: str
    mechanism: str
    version: str
    audience: str
    schema: str = ""
    keys: tuple[Key, ...] = ()
    required: tuple[str, ...] = ()


@dataclass(frozen=True)
class Askable:
    """A protected table that a user may ask about: what its owner declared. Nothing is read of its rows here.

    Attributes:
        name: as the books call it.
        columns: each with its type and its domain in words.
    """

    name: str
    columns: tuple[tuple[str, str, str], ...]


class Analyst:
    """A user of the service: `db.for_analyst(name)`. It ends when the user's token is another one.

    Attributes:
        name: of the user.
    """

    def __init__(self, instance: Instance, name: str) -> None:
        self.name, self._instance = name, instance
        self._digest: str | None = None

    def __repr__(self) -> str:
        return f"Analyst({self.name!r})"

    def check(self, role: str = "reader") -> None:
        """Refuse a user who may do nothing any more, or has not at least that role.

        Raises:
            NotAllowed: see `dpsql.books.people.people.require_person`; or they have another token than before.
        """
        with self._instance.lookup() as cursor:
            person = require_person(books_of(cursor, self._instance), self.name, role=role)
        self._digest = self._digest or person.credential.digest
        if person.credential.digest != self._digest:
            raise NotAllowed(f"the token of user {self.name!r} is another one now: log in again")

    def bind(self, function: str, arguments: Mapping[str, Any], progress: Progress | None = None) -> Bound:
        """A call of one of the SQL functions, bound and not run: nothing is charged, and no private row is read.

        Args:
            function: its name.
            arguments: its parameters by name; None for their defaults.
            progress: tells when to stop.

        Raises:
            NotAllowed: the user may not call it.
            DpsqlError: a child says what is wrong.
        """
        name = function.lower()
        self.check(role_for(name))
        if name not in SERVED:
            raise NotAllowed(f"{shorten(function)!r} is not served: users call {', '.join(sorted(SERVED))}")
        function_class = next(each for each in FUNCTIONS if each.name == name)
        call = Call(name, arguments_of(function_class, arguments, of_user=True), self._instance.home, by=self.name)
        since = self.point()
        relation, columns = self._bound(call, progress)
        return Bound(self, call, columns, relation, since)

    def run(self, bound: Bound, progress: Progress | None, shape: Shape | None) -> pa.RecordBatchReader:
        """See `Bound.rows`. Where more than releases went on, the call is bound again: it may see something else."""
        role, relation = role_for(bound.call.function), bound.relation
        if not bound.holds():  # that the user changed would be among the events
            self.check(role)
            relation, now = self._bound(bound.call, progress)
            if now != bound.columns:
                raise DpsqlError("the table or its protection changed since the statement was bound: run it again")
        with reporting(progress), own_errors:
            query = relation.run()
        self.check(role)
        return self._stream(query, bound.columns, shape)

    def _bound(self, call: Call, progress: Progress | None) -> tuple[Relation, Columns]:
        function_class = next(each for each in FUNCTIONS if each.name == call.function)
        with reporting(progress), own_errors:
            relation = function_class(self._instance).bind(call)
            return relation, self._columns(relation.schema)

    def point(self) -> Link:
        """See `dpsql.books.ledger.unchanged.point`."""
        with self._instance.lookup() as cursor:
            return point(books_of(cursor, self._instance))

    def still(self, before: Link) -> Link | None:
        """See `dpsql.books.ledger.unchanged.still`."""
        with self._instance.lookup() as cursor:
            return still(books_of(cursor, self._instance), before)

    def _columns(self, query: str) -> Columns:
        with self._instance.lookup() as cursor, own_errors:
            rows = cursor.execute(f"DESCRIBE {query}").fetchall()
        return tuple((str(name), str(kind)) for name, kind, *_ in rows)

    # --- what is published --------------------------------------------------------------------------------------------

    def published(self) -> list[Published]:
        """The released tables that the user is shown, by name.

        Raises:
            NotAllowed: there is no such user any more.
        """
        return [
            self._published(table, entry, catalog, name, place)
            for table, entry, catalog in self._shown()
            for name, place in tables_of(table, entry).items()
        ]

    def askable(self) -> list[Askable]:
        """The protected tables that the user has a limit on; none for a reader.

        Raises:
            NotAllowed: there is no such user any more.
        """
        with self._instance.lookup() as cursor:
            books = books_of(cursor, self._instance)
            if require_person(books, self.name).role != "analyst":
                return []
            sources = askable_sources(cursor, books, self.name)
            return [_askable(source, public_domains(cursor, source)) for source in sources]

    def _shown(self) -> list[tuple[Shown, Entry, str]]:
        with self._instance.lookup() as cursor:
            books = books_of(cursor, self._instance)
            published = shown_to(books, self.name)
            entries = {table.name: find_releases(books, str(table.release)) for table in published}
        pairs = [
            (table, entry) for table in published for entry in entries[table.name] if entry.number == table.release
        ]
        return [(table, entry, books.catalog) for table, entry in pairs]

    def _published(self, table: Shown, entry: Entry, catalog: str, name: str, place: int) -> Published:
        columns = self._columns(_rows_of(entry, catalog, place))
        version = hashlib.sha256(f"{entry.key}\0{table.comment}".encode()).hexdigest()
        audience = hashlib.sha256("\0".join([table.audience, *sorted(table.people)]).encode()).hexdigest()
        words = table.comment, entry.guarantee, entry.mechanism, version, audience
        if entry.linked is None:
            return Published(name, columns, entry.rows or 0, *words)
        own, keys = entry.tables[place], keys_of(entry, place)
        return Published(name, columns, own.rows, *words, schema=table.name, keys=keys, required=own.required)

    def read(self, name: str, shape: Shape | None = None) -> pa.RecordBatchReader:
        """The rows of a released table that the user is shown.

        Args:
            name: under which they are shown it.
            shape: see `Shape`.

        Raises:
            NotAllowed: there is no such user any more.
            UnknownName: in the same words whether there is none of that name, or it is not for them.
        """
        needs("pyarrow", "read")
        for table, entry, catalog in self._shown():
            place = tables_of(table, entry).get(name)
            if place is not None:
                query = _rows_of(entry, catalog, place)
                return self._stream(query, self._columns(query), shape)
        raise UnknownName(f"no table {shorten(name)!r} is published to {self.name!r}: published() lists those that are")

    def _stream(self, query: str, columns: Columns, shape: Shape | None) -> pa.RecordBatchReader:
        """The rows of a query, read as they are asked for, on a connection of their own."""
        import pyarrow as pa

        stack = ExitStack()
        with stack, own_errors:
            cursor = stack.enter_context(self._instance.lookup())
            reader = cursor.sql(query if shape is None else shape(query, columns)).to_arrow_reader(_BATCH)
            exits = stack.pop_all()
        return pa.RecordBatchReader.from_batches(reader.schema, self._batches(exits, reader))

    def _batches(self, exits: ExitStack, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        """The batches of a reader, as long as the user may have them; then its connection is closed."""
        with exits, own_errors:
            for batch in reader:
                self.check()
                yield batch


def _askable(source: Source, domains: list[ColumnDomain]) -> Askable:
    columns = tuple((domain.column.name, domain.shown_type, domain.described) for domain in domains)
    return Askable(source.key, columns)


def _rows_of(entry: Entry, catalog: str, place: int) -> str:
    return exp.select("*").from_(rows_table(catalog, entry, place)).sql(dialect="duckdb")


class Bound:
    """A call of a user's, bound and not run.

    Attributes:
        call: what was asked.
        columns: of its rows.
        relation: what it is.
    """

    def __init__(self, analyst: Analyst, call: Call, columns: Columns, relation: Relation, since: Link) -> None:
        self._analyst, self._since = analyst, since
        self.call, self.columns, self.relation = call, columns, relation

    def __repr__(self) -> str:
        return f"Bound({self.call.function!r}, for {self.call.by!r})"

    @property
    def cardinality(self) -> int | None:
        """About how many rows there will be; None if that is not known."""
        return self.relation.cardinality

    @property
    def is_stored(self) -> bool:
        """Whether its rows are there already, so that to run it charges nothing and reads no private row."""
        return self.relation.is_stored

    def holds(self) -> bool:
        """Whether nothing but releases went on since it was bound, so that it need not be bound again."""
        newest = self._analyst.still(self._since)
        self._since = newest or self._since
        return newest is not None

    def is_of_now(self) -> bool:
        """Whether nothing at all went on in the ledger since it was bound, or since `holds` said that it holds."""
        return self._analyst.still(self._since) == self._since

    def rows(self, progress: Progress | None = None, shape: Shape | None = None) -> pa.RecordBatchReader:
        """Run the call as its user: charged once for each request, within their limits.

        Args:
            progress: is told of each stage, on the thread that works. Its `check`, which any thread may ask, raises
                `Interrupted` to stop this call and no other.
            shape: see `Shape`.

        Raises:
            NotAllowed: the user may not call it any more; nothing was charged.
            InsufficientBudget: a limit of theirs, or the table's budget, has less left; nothing was charged.
            DpsqlError: a child says what is wrong.
        """
        needs("pyarrow", "rows")
        return self._analyst.run(self, progress, shape)
